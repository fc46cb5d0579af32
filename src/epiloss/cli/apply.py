"""``epiloss apply``."""

from __future__ import annotations

import click

from epiloss.cli.command import Command, option
from epiloss.cli.options import OUTPUT, force_option, logits_option, score_option, sql_option
from epiloss.cli.output import check_output, named_files, note_lost_columns, opened, write

EXAMPLES = ("epiloss apply repair.json tomorrow.csv --score p --output tomorrow_better.csv",)


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("repair", type=click.Path(dir_okay=False))
@click.argument("files", nargs=-1, required=True)
@score_option()
@logits_option()
@sql_option()
@option(OUTPUT, "--output", required=True, type=click.Path(dir_okay=False), help="The table to write.")
@force_option()
def apply(
    repair: str,
    files: tuple[str, ...],
    scores: tuple[str, ...],
    sql: str | None,
    output: str,
    logits: bool,
    force: bool,
) -> None:
    """Repair the scores in FILES by a saved REPAIR; the columns that it learned from must be there.

    All columns are written again, and the repaired scores at the end.
    Tables are read batch by batch, so they may be larger than memory.
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
    click.echo(f"{written[0]:,} rows repaired: {output}", err=True)
