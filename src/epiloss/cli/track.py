"""``epiloss track``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from epiloss._progress import stage, working
from epiloss.cli.command import Command, option
from epiloss.cli.finish import Output, given_options, plain_checks, report_gate
from epiloss.cli.options import (
    OUTPUT,
    column_options,
    estimated_by,
    memory_option,
    output_options,
    worse_option,
)
from epiloss.cli.output import check_output, named_files, write
from epiloss.cli.rows import Rows, read_rows, score_columns, take_columns
from epiloss.errors import DataError, printable

if TYPE_CHECKING:
    from epiloss.analysis.tracking_result import Alarm, Tracking

_TIME = "Time"
EXAMPLES = (
    "epiloss track last_year.parquet this_year.parquet --label y --score p --date day",
    "epiloss track log.parquet --label y --score p --date time --until 2024-06-30 --by week",
    "epiloss track log.csv --label y --score p --date day --until 2024-06-30 --chart year.png",
)


@click.command(cls=Command, examples=EXAMPLES, short_help="Monitor a model over time.")
@click.argument("files", nargs=-1, required=True)
@option(_TIME, "--date", required=True, help="Column with the date, or the number of the batch.")
@option(
    _TIME,
    "--until",
    help="Last date of the reference.  [default: the first file is the reference]",
)
@option(
    _TIME,
    "--by",
    type=click.Choice(["day", "week", "month", "value"]),
    help="Length of a batch.  [default: a day for dates, otherwise each value]",
)
@column_options("display")
@estimated_by("task", "rule", "confidence-level", "seed")
@memory_option()
@output_options
@option(
    OUTPUT,
    "--chart",
    type=click.Path(dir_okay=False),
    help="Also draw the score and the evidence over time (PNG, SVG or PDF).",
)
@worse_option("outcomes changed; a change of the population alone passes")
def track(files: tuple[str, ...], scores: tuple[str, ...], **options: Any) -> None:
    """Monitor a model over time, and raise an alarm when outcomes or the population have changed.

    The first of FILES is the reference; the others are monitored. Run the command as often as you like
    with all rows so far: if nothing changes, 95% of all series never raise an alarm.
    """
    from epiloss.analysis.track import track as run_track

    check_output(options, named_files(files))
    output, worse, chart = Output.take(options, files), options.pop("fail_worse"), options.pop("chart")
    memory, date, until = (options.pop(name) for name in ("memory", "date", "until"))
    columns, by = take_columns(options), options.pop("by")
    with working("epiloss track"):
        stage(f"reading {files[0]}")
        names = score_columns(files[:1], scores)
        before, after = _divided(files, names, columns, memory, date, until)
        first, second = (
            {
                "y_true": rows.labels,
                "y_prob": rows.scores(names),
                **rows.data("X", "sample_weight", "clusters", "subgroups"),
            }
            for rows in (before, after)
        )
        has_date = date in before.table.column_names
        result = run_track(
            first,
            second,
            after.column(date),
            reference_when=before.column(date) if has_date else None,
            by=by,
            **given_options(options),
        )
        output.save(result)
        if chart:
            stage(f"drawing {chart}")
            write(chart, lambda path: _draw(result, path))
        checks = [AlarmCheck(one) for one in result.alarms if one.kind == "losses"] if worse else []
        output.show(result, gate=plain_checks(checks))
    report_gate(checks)
    if worse and not checks:
        click.echo("Gate passed: no change of the outcomes was found.", err=True)


def _divided(
    files: tuple[str, ...],
    names: list[str],
    columns: dict[str, Any],
    memory: str,
    date: str,
    until: str | None,
) -> tuple[Rows, Rows]:
    """Return the reference and the rows to monitor."""
    if until is None:
        if len(files) < 2:
            raise click.UsageError(
                "There must be a reference, got a single file. Name the file of the reference first, or "
                "pass its last date with --until."
            )
        first = _reference(files[0], names, columns, memory, date)
        return first, read_rows(files[1:], names, columns, memory, [date])
    rows = read_rows(files, names, columns, memory, [date])
    is_before = _up_to(rows, date, until)
    both = rows.table.filter(is_before), rows.table.filter(~is_before)
    for part, what in zip(both, ("up to", "after"), strict=True):
        if not part.num_rows:
            raise DataError(
                f"there must be rows {what} --until {printable(until)}, got none. Choose another date."
            )
    first, second = (replace(rows, table=part) for part in both)
    return first, second


def _reference(file: str, names: list[str], columns: dict[str, Any], memory: str, date: str) -> Rows:
    """Return the reference, which need not have dates."""
    from epiloss.errors import NoColumnError

    try:
        return read_rows([file], names, columns, memory, [date])
    except NoColumnError as error:
        if error.option != "date":
            raise
    return read_rows([file], names, columns, memory)


def _up_to(rows: Rows, date: str, until: str) -> Any:
    """Return a mask of the rows up to and including a date."""
    import numpy as np

    from epiloss.analysis.periods import read_dates

    values = rows.column(date)
    dates = read_dates(values, "when")
    try:
        if dates is not None:
            return dates.astype("datetime64[D]") <= np.datetime64(until, "D")
        if values.dtype.kind in "iuf":
            return values <= float(until)
    except (ValueError, TypeError):
        raise click.UsageError(
            f"--until must be a date such as 2024-06-30, or a value of column {date!r}, got {until!r}."
        ) from None
    return values.astype(str) <= until


def _draw(result: Tracking, path: str) -> None:
    """Write the chart, completely or not at all."""
    from pathlib import Path

    from epiloss._saving import writing
    from epiloss.errors import OptionError

    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise OptionError(f"the chart must be a .png, .svg or .pdf file, got {path!r}. Rename it.")
    with writing(path) as temporary:
        result.plot().figure_.savefig(temporary, format=kind, dpi=150)


@dataclass(frozen=True)
class AlarmCheck:
    """An alarm that fails the gate."""

    alarm: Alarm

    @property
    def failed(self) -> bool:
        """An alarm always fails the gate."""
        return True

    def __str__(self) -> str:
        text = str(self.alarm)
        return f"{text[0].lower()}{text[1:]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the alarm as plain values."""
        return {**self.alarm.to_dict(), "failed": True}
