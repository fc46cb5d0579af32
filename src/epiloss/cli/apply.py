"""``epiloss apply``."""

from __future__ import annotations

import json

import click

from epiloss.cli.command import Command, option
from epiloss.cli.options import (
    OUTPUT,
    force_option,
    json_option,
    logits_option,
    score_option,
    sql_option,
)
from epiloss.cli.output import check_output, named_files, note_lost_columns, opened, show, write

_SCHEMA = 1  # of the printed JSON
EXAMPLES = ("epiloss apply repair.json tomorrow.csv --score p --output tomorrow_better.csv",)


@click.command(cls=Command, examples=EXAMPLES, short_help="Apply a saved repair to new scores.")
@click.argument("repair", type=click.Path(dir_okay=False))
@click.argument("files", nargs=-1, required=True)
@score_option()
@logits_option()
@sql_option()
@option(
    OUTPUT,
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="Table to write (CSV, Parquet or Arrow).",
)
@json_option()
@force_option()
def apply(
    repair: str,
    files: tuple[str, ...],
    scores: tuple[str, ...],
    sql: str | None,
    output: str,
    logits: bool,
    as_json: bool,
    force: bool,
) -> None:
    """Apply a saved REPAIR to the scores in FILES, which must have the columns that it was fitted to.

    The output has all columns of the input, followed by the repaired scores. Files are read batch by
    batch, so they may be larger than memory.
    """
    from epiloss.repair import load_repair
    from epiloss.repair.apply_table import repair_table
    from epiloss.sources.tables import open_source

    check_output({"output": output, "force": force}, [repair, *named_files(files)])
    loaded = load_repair(repair)
    tables, names = opened(files, scores, sql)
    note_lost_columns(open_source(tables).schema, output)
    written: list[int] = []
    write(output, lambda path: written.append(repair_table(loaded, tables, names, path, logits=logits)))
    if as_json:
        show(json.dumps({"schema": _SCHEMA, "rows": written[0], "output": output}, indent=1))
    click.echo(f"Repaired {written[0]:,} rows: {output}", err=True)
