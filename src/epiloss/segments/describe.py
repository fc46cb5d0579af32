"""From an audited problem to its segments in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

import numpy as np
from scipy.special import ndtri

from epiloss._random import stream
from epiloss._typing import Codes
from epiloss.errors import DataError
from epiloss.estimation.inference import adjusted_pvalues
from epiloss.estimation.options import Options
from epiloss.input.features import Features
from epiloss.input.problem import Groups, Problem
from epiloss.input.row_display import Display, read_display
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.input.text_features import column_titles
from epiloss.partition.descriptions import Wording
from epiloss.scoring import ScoringRule
from epiloss.segments.clusters import clustered
from epiloss.segments.display import shown_features
from epiloss.segments.find import MOST, Confirmed, Search
from epiloss.segments.gaps import Gap
from epiloss.segments.result import Segment, Segments
from epiloss.segments.subgroups import gap_pvalues, measured_groups

_CLAIM = "predicted class"
_SHORT = 40  # characters of a typical row


def find_segments(
    problem: Problem, options: Options, *, grouping_loss: float = 0.0, display: Display | None = None
) -> Segments:
    """Find segments of checked rows; ``grouping_loss`` is what their costs are parts of.

    With several classes the label is whether the claimed class is right, and the class itself may be a
    condition, whatever the task: one search for all classes, about what people act on. Columns of an
    embedding mean nothing by themselves: its segments are told by what is displayed of rows, or are
    clusters.
    """
    binary = claimed_problem(problem, options.rule)
    teller = _Teller(problem, options, grouping_loss)
    if problem.groups is not None:
        return teller.groups(binary, problem.groups.codes, _group_names(problem.groups, problem))
    if binary.features is None:
        return Segments((), note="Pass features or subgroups to search for segments.")
    if not binary.features.is_embedding:
        return teller.searched(binary)
    shown = None if display is None else shown_features(display, problem)
    found = Segments(()) if shown is None else teller.searched(replace(binary, features=shown))
    if len(found):
        return found
    cluster, nearest = clustered(binary.features, stream(options.seed, "segments"))
    return teller.groups(binary, cluster, [_like(rows, problem, display) for rows in nearest])


def find_segments_by(
    columns: Any, problem: Problem, options: Options, *, grouping_loss: float = 0.0
) -> Segments:
    """Find segments by other columns than the features: texts by their words."""
    display = read_display(columns, problem)
    shown = None if display is None else shown_features(display, problem)
    if shown is None:
        raise DataError(
            "columns must be a table, a column or texts, got images or nothing. Pass a data frame "
            "with one row for each row of the audit."
        )
    binary = replace(claimed_problem(problem, options.rule), features=shown)
    return _Teller(problem, options, grouping_loss).searched(binary)


def claimed_problem(problem: Problem, rule: ScoringRule) -> BinaryProblem:
    """Return the problem of one score for each row: of several classes, that of the claimed one."""
    if problem.task == "binary":
        return binary_problems(problem, rule)[0]
    top = replace(problem, task="top-label")
    binary = binary_problems(top, rule)[0]
    if binary.features is None or binary.features.is_embedding or binary.claimed is None:
        return binary
    names = tuple(str(name) for name in problem.classes)
    return replace(binary, features=with_class(binary.features, binary.claimed, names), claimed=None)


def with_class(features: Features, claimed: Codes, classes: tuple[str, ...]) -> Features:
    """Return features with the class that was claimed as one more column."""
    d = features.n_columns
    return Features(
        (*(features.column(j) for j in range(d)), claimed.astype(float)),
        (*features.names, _CLAIM),
        {**features.categories, d: classes},
        dtypes=features.dtypes,
    )


@dataclass(frozen=True)
class _Teller:
    """What it takes to tell a measured group as a segment."""

    problem: Problem
    options: Options
    grouping_loss: float

    def searched(self, binary: BinaryProblem) -> Segments:
        """Search for segments by conditions on the features."""
        level = self.options.confidence_level
        search = Search.of(binary, stream(self.options.seed, "segments"))
        told = search.confirmed(level)
        assert search.problem.features is not None
        paths = [[side.step for side in one.found.sides] for one in told]
        rules = Wording(search.problem.features).rules(paths)
        segments = [
            replace(
                self._segment(str(rule), _summary(one, level), search.order[one.inside], binary.rule),
                conditions=rule.conditions,
            )
            for rule, one in zip(rules, told, strict=True)
        ]
        named = {condition.feature for rule in rules for condition in rule.conditions}
        names = search.problem.features.names
        passed = column_titles(names, [j for j in search.passed(level) if j not in named])
        note = "" if search.is_possible else "There are too few rows to search for segments."
        return Segments(_ordered(segments), passed, note)

    def groups(self, binary: BinaryProblem, codes: Codes, names: Sequence[str]) -> Segments:
        """Tell those of given groups whose gaps are beyond chance."""
        gaps = measured_groups(binary, codes, len(names))
        adjusted = adjusted_pvalues(np.array(gap_pvalues(gaps)), "max")
        told = [
            self._segment(
                names[k],
                _Summary(gap, gap.value, _around(gap, self.options), float(adjusted[k])),
                np.flatnonzero(codes == k),
                binary.rule,
            )
            for k, gap in enumerate(gaps)
            if adjusted[k] <= 1 - self.options.confidence_level
        ]
        return Segments(_ordered(told)[:MOST])

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
    """What was measured of a group, and its gap as it is told."""

    measured: Gap
    gap: float
    ends: tuple[float, float]
    pvalue: float


def _summary(one: Confirmed, level: float) -> _Summary:
    return _Summary(one.measured, one.gap, one.interval(level), one.pvalue)


def _around(gap: Gap, options: Options) -> tuple[float, float]:
    reach = float(ndtri((1 + options.confidence_level) / 2)) * gap.stderr
    return gap.value - reach, gap.value + reach


def _group_names(groups: Groups, problem: Problem) -> list[str]:
    """Return the groups in words; combinations of several columns have them already."""
    if len(problem.subgroups) > 1:
        return list(groups.names)
    column = next(iter(problem.subgroups), "subgroup")
    return [f"{column} is {name}" for name in groups.names]


def _ordered(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    return tuple(sorted(segments, key=lambda one: -one.cost))


def _like(rows: Codes, problem: Problem, display: Display | None) -> str:
    """Name a cluster by its most typical rows."""
    rows = rows if problem.rows is None else problem.rows[rows]
    if display is not None and display.columns:
        texts = (" ".join(display.texts(int(row)).values()) for row in rows)
        return "like " + " · ".join(shorten(text, _SHORT, placeholder="…") for text in texts)
    return f"like {'row' if len(rows) == 1 else 'rows'} {', '.join(map(str, rows.tolist()))}"
