"""Searching for segments of an audited problem, and describing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

import numpy as np
from scipy.special import ndtri

from epiloss._random import stream
from epiloss._typing import Codes
from epiloss.errors import DataError, printable
from epiloss.estimation.inference import adjusted_pvalues
from epiloss.estimation.options import Options
from epiloss.input.features import Features
from epiloss.input.problem import Groups, Problem
from epiloss.input.row_display import Display, read_display
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.input.text_features import column_titles
from epiloss.partition.descriptions import Describer
from epiloss.scoring import ScoringRule
from epiloss.segments.clusters import clustered
from epiloss.segments.columns import row_number_columns
from epiloss.segments.display import shown_features
from epiloss.segments.find import MOST, Confirmed, Search
from epiloss.segments.gaps import Gap
from epiloss.segments.result import Segment, Segments
from epiloss.segments.subgroups import gap_pvalues, measured_groups

_CLAIM = "predicted class"
_SHORT = 40  # characters shown of a typical row


def find_segments(
    problem: Problem, options: Options, *, grouping_loss: float = 0.0, display: Display | None = None
) -> Segments:
    """Find segments of checked rows; their costs are fractions of ``grouping_loss``.

    With several classes, for every task, the label is whether the predicted class is right, and the
    predicted class is a feature: one search covers all classes. The columns of an embedding have no
    meaning, so its segments are conditions on displayed columns, or clusters.
    """
    binary = claimed_problem(problem, options.rule)
    reporter = _Reporter(problem, options, grouping_loss)
    if problem.groups is not None:
        return reporter.groups(binary, problem.groups.codes, _group_names(problem.groups, problem))
    if binary.features is None:
        return Segments((), note="Pass features or subgroups to search for segments.")
    if not binary.features.is_embedding:
        return reporter.searched(binary)
    shown = None if display is None else shown_features(display, problem)
    found = Segments(()) if shown is None else reporter.searched(replace(binary, features=shown))
    if len(found):
        return found
    cluster, nearest = clustered(binary.features, stream(options.seed, "segments"))
    if problem.rows is not None:
        nearest = [problem.rows[rows] for rows in nearest]
    return reporter.groups(binary, cluster, [rows_like(rows, display) for rows in nearest])


def find_segments_by(
    columns: Any, problem: Problem, options: Options, *, grouping_loss: float = 0.0
) -> Segments:
    """Find segments in columns other than the features; texts are split into words."""
    display = read_display(columns, problem)
    shown = None if display is None else shown_features(display, problem)
    if shown is None:
        raise DataError(
            "columns must be a data frame, a column or texts, got images or no columns. Pass a data "
            "frame with one row for each row of the audit."
        )
    binary = replace(claimed_problem(problem, options.rule), features=shown)
    return _Reporter(problem, options, grouping_loss).searched(binary)


def claimed_problem(problem: Problem, rule: ScoringRule) -> BinaryProblem:
    """Return the problem with one score per row: that of the predicted class if there are several."""
    if problem.task == "binary":
        return binary_problems(problem, rule)[0]
    top = replace(problem, task="top-label")
    binary = binary_problems(top, rule)[0]
    if binary.features is None or binary.features.is_embedding or binary.claimed is None:
        return binary
    names = tuple(str(name) for name in problem.classes)
    return replace(binary, features=with_class(binary.features, binary.claimed, names), claimed=None)


def with_class(features: Features, claimed: Codes, classes: tuple[str, ...]) -> Features:
    """Return features with the predicted class as an additional column."""
    d = features.n_columns
    return Features(
        (*(features.column(j) for j in range(d)), claimed.astype(float)),
        (*features.names, _CLAIM),
        {**features.categories, d: classes},
        dtypes=features.dtypes,
    )


@dataclass(frozen=True)
class _Reporter:
    """Turns measured groups of rows into segments."""

    problem: Problem
    options: Options
    grouping_loss: float

    def searched(self, binary: BinaryProblem) -> Segments:
        """Search for segments defined by conditions on the features."""
        level = self.options.confidence_level
        search = Search.of(binary, stream(self.options.seed, "segments"))
        found = search.confirmed(level)
        assert search.problem.features is not None
        paths = [[side.step for side in one.found.sides] for one in found]
        descriptions = Describer(search.problem.features).describe(paths)
        segments = [
            replace(
                self._segment(str(text), _summary(one, level), search.order[one.inside], binary.rule),
                conditions=text.conditions,
            )
            for text, one in zip(descriptions, found, strict=True)
        ]
        named = {condition.feature for text in descriptions for condition in text.conditions}
        names = search.problem.features.names
        passed = column_titles(names, [j for j in search.passed(level) if j not in named])
        note = _note(search)
        return Segments(_ordered(segments), passed, note)

    def groups(self, binary: BinaryProblem, codes: Codes, names: Sequence[str]) -> Segments:
        """Return the given groups whose gaps are significant."""
        gaps = measured_groups(binary, codes, len(names))
        adjusted = adjusted_pvalues(np.array(gap_pvalues(gaps)), "max")
        significant = [
            self._segment(
                names[k],
                _Summary(gap, gap.value, _around(gap, self.options), float(adjusted[k])),
                np.flatnonzero(codes == k),
                binary.rule,
            )
            for k, gap in enumerate(gaps)
            if adjusted[k] <= 1 - self.options.confidence_level
        ]
        return Segments(_ordered(significant)[:MOST])

    def _segment(self, name: str, one: _Summary, rows: Codes, rule: ScoringRule) -> Segment:
        expected = one.measured.expected
        ends = np.clip([expected, expected + one.gap], 0.0, 1.0)
        cost = one.measured.share * float(rule.divergence(ends[0], ends[1]))
        rows = np.sort(rows if self.problem.rows is None else self.problem.rows[rows])
        return Segment(
            description=name,
            conditions=(),
            n=len(rows),
            share=one.measured.share,
            score_mean=one.measured.score_mean,
            rate=one.measured.rate,
            expected=expected,
            gap=one.gap,
            low=one.ends[0],
            high=one.ends[1],
            pvalue=one.pvalue,
            cost=cost,
            part_of_grouping_loss=min(cost / self.grouping_loss, 1.0)
            if self.grouping_loss > 0
            else None,
            rows=rows,
        )


@dataclass(frozen=True)
class _Summary:
    """The measurements of a group, and its gap as reported."""

    measured: Gap
    gap: float
    ends: tuple[float, float]
    pvalue: float


def _note(search: Search) -> str:
    """Say what was not searched, and why."""
    if not search.is_possible:
        return "There are too few rows to search for segments."
    assert search.problem.features is not None
    features = search.problem.features
    numbered = column_titles(features.names, row_number_columns(features))
    if not numbered:
        return ""
    return f"Row numbers are not searched: {', '.join(map(printable, numbered))}."


def _summary(one: Confirmed, level: float) -> _Summary:
    return _Summary(one.measured, one.gap, one.interval(level), one.pvalue)


def _around(gap: Gap, options: Options) -> tuple[float, float]:
    reach = float(ndtri((1 + options.confidence_level) / 2)) * gap.stderr
    return gap.value - reach, gap.value + reach


def _group_names(groups: Groups, problem: Problem) -> list[str]:
    """Return descriptions of groups; combinations of several columns are described by their names."""
    if len(problem.subgroups) > 1:
        return list(groups.names)
    column = next(iter(problem.subgroups), "subgroup")
    return [f"{column} is {name}" for name in groups.names]


def _ordered(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    return tuple(sorted(segments, key=lambda one: -one.cost))


def rows_like(rows: Codes, display: Display | None) -> str:
    """Describe a group of rows by some typical ones, given as numbers of the user's rows.

    Examples
    --------
    >>> rows_like(np.array([1878, 601, 1896]), None)
    'rows like 1878, 601, 1896'
    """
    if display is None or not display.columns:
        return f"rows like {', '.join(map(str, rows.tolist()))}"
    texts = (" ".join(display.texts(int(row)).values()) for row in rows)
    return "rows like " + " · ".join(shorten(text, _SHORT, placeholder="…") for text in texts)
