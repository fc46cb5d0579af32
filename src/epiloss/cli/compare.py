"""``epiloss compare``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from epiloss._progress import stage, working
from epiloss.cli.command import Command, option
from epiloss.cli.finish import Check, Output, given_options, plain_checks, report_gate
from epiloss.cli.options import (
    GATE,
    column_options,
    estimation_options,
    memory_option,
    output_options,
    worse_option,
)
from epiloss.cli.output import check_output, named_files
from epiloss.cli.rows import Rows, comparable, read_rows, score_columns, take_columns
from epiloss.errors import DataError, printable

if TYPE_CHECKING:
    from epiloss.analysis.comparison import Comparison

_SCORE = (
    "Score column of a model, or p0,p1 or 'p*' for several classes. Repeat it for each model; "
    "NAME=COLUMN names the model."
)
EXAMPLES = (
    "epiloss compare predictions.csv --label y --score p_old --score p_new",
    "epiloss compare predictions.csv --label y --score old=p1 --score new=p2 --baseline old",
    "epiloss compare old.csv new.csv --label y --score p --row-id id --report models.html",
)


@click.command(cls=Command, examples=EXAMPLES, short_help="Compare models on the same rows.")
@click.argument("files", nargs=-1, required=True)
@column_options(score=_SCORE)
@estimation_options
@memory_option()
@output_options
@option(GATE, "--baseline", help="Model to compare the others with.  [default: the best score]")
@worse_option("a loss of another model is significantly larger than the baseline's")
def compare(files: tuple[str, ...], scores: tuple[str, ...], **options: Any) -> None:
    """Compare the losses of models on the same rows, with intervals and p-values of the differences.

    Pass one file with a score column for each model, or one file for each model. Files must have the
    same rows, in the same order or matched by --row-id. Features are taken from the first file.
    """
    from epiloss.analysis.comparison import compare as run_compare

    check_output(options, named_files(files))
    output, worse = Output.take(options, files), options.pop("fail_worse")
    baseline, memory = options.pop("baseline"), options.pop("memory")
    with working("epiloss compare"):
        stage(f"reading {files[0]}")
        rows, models = _models(files, scores, take_columns(options), memory)
        data = rows.data("X", "subgroups", "sample_weight", "clusters", "display")
        given = {**data, **given_options(options)}
        result = run_compare(rows.labels, models, baseline=baseline, **given)
        output.save(result)
        checks = _checks(result) if worse else ()
        output.show(result, gate=plain_checks(checks))
    report_gate(checks)


def _models(
    files: Sequence[str], scores: Sequence[str], columns: dict[str, Any], memory: str
) -> tuple[Rows, dict[str, Any]]:
    """Return the rows, and the scores by model."""
    if len(files) > 1 and len(scores) > 1:
        raise click.UsageError(
            "Pass several --score columns of one file, or one --score column of several files; got "
            f"{len(scores)} columns and {len(files)} files."
        )
    if len(files) == len(scores) == 1:
        raise click.UsageError(
            "There must be at least two models, got one. Repeat --score, or name a file for each model."
        )
    if len(files) == 1:
        named = {name: score_columns(files, [text]) for name, text in map(_named, scores)}
        if len(named) < len(scores):
            raise click.UsageError(
                "Models must have distinct names. Name them as in --score old=p --score new=q."
            )
        every = [column for names in named.values() for column in names]
        rows = read_rows(files, every, columns, memory)
        return rows, {name: rows.scores(names) for name, names in named.items()}
    return _of_files(files, scores, columns, memory)


def _named(text: str) -> tuple[str, str]:
    """Split NAME=COLUMN; a column alone is also the name of the model."""
    name, sign, column = text.partition("=")
    return (name, column) if sign and name and column else (text, text)


def _of_files(
    files: Sequence[str], scores: Sequence[str], columns: dict[str, Any], memory: str
) -> tuple[Rows, dict[str, Any]]:
    first = read_rows(files[:1], score_columns(files[:1], scores), columns, memory)
    only_scores = {**columns, "features": (), "subgroups": (), "display": (), "exclude": ()}
    only_scores |= {"sample_weight": None, "clusters": None}
    models = {}
    for file in files:
        names = score_columns([file], scores)
        rows = first if file == files[0] else read_rows([file], names, only_scores, memory)
        name = os.path.splitext(os.path.basename(file))[0]
        models[name if name not in models else file] = _matched(rows, first).scores(names)
    if len(models) < len(files):
        raise click.UsageError("Each file must be given once, got one of them twice.")
    return first, models


def _matched(rows: Rows, first: Rows) -> Rows:
    """Return the rows in the order of the first file."""
    from epiloss.sources.arrow import arrow

    if rows is first:
        return rows
    if rows.n != first.n:
        raise DataError(
            printable(f"{rows.name} must have {first.n:,} rows like {first.name}, got {rows.n:,}. ")
            + "Predict the same rows with every model."
        )
    key = first.roles.row_id
    table = rows.table
    if key is not None:
        theirs, own = (comparable(one.table.column(key)) for one in (first, rows))
        if theirs.type != own.type:
            raise DataError(
                printable(
                    f"column {key!r} must have the same type in {first.name} and {rows.name}, got "
                )
                + f"{theirs.type} and {own.type}. Convert it."
            )
        places = arrow().compute.index_in(theirs, own)
        distinct = arrow().compute.count_distinct(own).as_py()
        if places.null_count or distinct < rows.n:
            raise DataError(
                printable(f"column {key!r} must identify the same rows in {first.name} and {rows.name}.")
                + " Check that no row is missing or repeated."
            )
        table = table.take(places)
    matched = replace(rows, table=table)
    if not comparable(matched.labels).equals(comparable(first.labels)):
        raise DataError(
            printable(
                f"{rows.name} must have the same labels as {first.name} in each row, but differs. "
            )
            + "Pass --row-id to match the rows by a column."
        )
    return matched


def _checks(result: Comparison) -> Sequence[Check]:
    from epiloss.analysis.gate import Change, worse_checks

    changes = [
        Change(str(row["loss"]), float(row["difference"]), float(row["stderr"]), str(row["name"]))
        for row in result.differences.rows()
    ]
    level = next(iter(result.audits.values())).confidence_level
    return worse_checks(changes, level, f"that of {result.baseline}")
