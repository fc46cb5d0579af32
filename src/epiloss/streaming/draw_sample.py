"""The second pass: drawing the sample, with remarks on the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from epiloss.errors import DataError, Remark
from epiloss.input.remarks import clipped_remark, dropped_remark, remarks_on, weightless_remarks
from epiloss.scoring import ScoringRule
from epiloss.sources.base import Source
from epiloss.sources.bundles import single_parts
from epiloss.sources.files import FilePart
from epiloss.sources.tables import SparkPart
from epiloss.streaming.census import Census
from epiloss.streaming.reader import Reader
from epiloss.streaming.runner import Runner, no_rows
from epiloss.streaming.sampling import (
    Sample,
    check_untyped,
    is_uneven,
    limit_of,
    read_sample,
    with_text_features,
)
from epiloss.streaming.survey import Survey, TakeSurvey


@dataclass(frozen=True)
class DrawnSample:
    """The sample, the reader with its categories, and the survey of all rows.

    ``limit`` is the largest key of the sample; ``is_whole`` if the sample has all rows.
    """

    sample: Sample
    read: Reader
    survey: Survey
    n_rows: int
    limit: int
    is_whole: bool


def draw_sample(
    runner: Runner,
    read: Reader,
    rule: ScoringRule,
    census: Census,
    room: int,
    remarks: list[Remark],
    *,
    features_named: bool,
) -> DrawnSample:
    """Draw a sample of about ``room`` rows at most, with remarks on it and on all rows."""
    n_rows = census.n_rows - census.n_weightless
    limit, is_whole = limit_of(room, n_rows), n_rows <= room
    work = TakeSurvey(read, rule, limit, 2 * room + 100, with_scores=not is_whole)
    survey, by_place = _surveyed(runner, work, n_rows, room)
    remarks = [*remarks, *by_place, *_rows_left_out(survey, census, read)]
    sample, read, on_columns = _read(survey, read, runner.source, features_named=features_named)
    problem = sample.problem.with_remarks(*remarks, *on_columns, *remarks_on(sample.problem))
    sample = replace(sample, problem=problem, by_place=bool(by_place))
    _check_two_classes(sample, census)
    return DrawnSample(sample, read, survey, n_rows, limit, is_whole)


def _rows_left_out(survey: Survey, census: Census, read: Reader) -> list[Remark]:
    """Return remarks on clipped scores and dropped rows; raise an error if the data changed."""
    n_rows = census.n_rows - census.n_weightless
    lost = n_rows - survey.n_rows - survey.n_missing
    if lost and read.roles.weight is None:
        raise data_changed(n_rows, survey.n_rows + survey.n_missing)
    if survey.n_rows == 0:
        raise no_rows()
    remarks = clipped_remark(survey.n_clipped)
    if survey.n_missing:
        remarks.append(dropped_remark(survey.n_missing, census.n_rows))
    return [*remarks, *weightless_remarks(census.n_weightless, census.n_weightless + max(lost, 0))]


def data_changed(before: int, after: int) -> DataError:
    """Return the error for data whose number of rows differs between passes."""
    return DataError(
        f"the data must be the same each time they are read, got {before:,} rows and then {after:,}. "
        "Write them to files, and audit those."
    )


def _read(
    survey: Survey, read: Reader, source: Source, *, features_named: bool
) -> tuple[Sample, Reader, list[Remark]]:
    """Return the sample, the reader with its categories, and remarks on its columns."""
    numbered = not any(isinstance(part, SparkPart) for part in source.parts)
    sample, read = read_sample(survey, read, numbered=numbered)
    parts = single_parts(source)
    if all(isinstance(part, FilePart) and part.kind == "csv" for part in parts):
        names = {part.name for part in parts}
        check_untyped(read.columns, sample.table, names.pop() if len(names) == 1 else "the data")
    return with_text_features(sample, read, features_named=features_named)


def _surveyed(runner: Runner, work: TakeSurvey, n_rows: int, room: int) -> tuple[Survey, list[Remark]]:
    """Draw the sample by the values of the rows or, if too many rows are equal, by row number."""
    survey: Survey = runner.run(work, f"{work.limit}", n_rows)
    if n_rows <= room or not is_uneven(survey, work.limit):
        return survey, []
    if work.reader.roles.clusters is not None:
        n = 0 if survey.sample is None else survey.sample.num_rows
        if 0 < n <= 2 * room:
            return survey, []
        raise DataError(
            f"clusters must fit into a sample of {room:,} rows, got clusters that are too large. Allow "
            "more memory, or use subgroups= instead of clusters=."
        )
    if any(isinstance(part, SparkPart) for part in runner.source.parts):
        raise DataError(
            "rows must differ to draw a sample of a Spark data frame, got too many equal rows. Pass "
            "row_id=, a column that identifies rows."
        )
    again: Survey = runner.run(replace(work, by_place=True), f"{work.limit} by place", n_rows)
    text = "many rows are equal, so the sample was drawn by their positions."
    return again, [Remark("sampled-by-place", text)]


def _check_two_classes(sample: Sample, census: Census) -> None:
    if len(np.unique(sample.problem.labels)) < 2:
        raise DataError(
            f"the sample must have at least two classes, got one in {len(sample.keys):,} of "
            f"{census.n_rows:,} rows because the other is rare. Allow more memory, or drop some rows of "
            "the frequent class and weight the others."
        )
