"""Tables of segments and subgroups, with a bar for each gap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss.auditing.ledger import EMPTY
from epiloss.auditing.result import Audit
from epiloss.number_format import loss_spec, points_digits, rate_spec
from epiloss.presentation.report.figures import Bar
from epiloss.presentation.report.wording import number, pvalue
from epiloss.segments.inside import LOSSES
from epiloss.table import Table

_MIDDLE, _REACH = 500.0, 470.0  # the zero of a bar's view box, and the length of the longest bar
_MOST = 20  # subgroups of a column that are listed


@dataclass(frozen=True)
class GapRow:
    """One row of a table of gaps, as text."""

    name: str
    n: str
    share: str
    score: str
    rate: str
    expected: str
    gap: str
    interval: str
    pvalue: str
    direction: str
    bar: Bar
    inside: tuple[tuple[str, str], ...] = ()  # each loss within the group, and its interval


@dataclass(frozen=True)
class GapTable:
    """A table of gaps; ``more`` is the number of rows left out.

    ``inside`` are the titles of the losses within groups, if any are known, and ``between`` is the
    grouping loss between the groups.
    """

    title: str
    rows: list[GapRow]
    more: int = 0
    inside: tuple[str, ...] = ()
    between: str = ""


def segment_table(audit: Audit) -> GapTable:
    """Return the segments, the costliest first."""
    rows = [{**vars(one), "name": one.description} for one in audit.segments]
    return GapTable("Segments", _gap_rows(rows, audit.confidence_level))


def subgroup_tables(audit: Audit, intersections: Iterable[Sequence[str]] = ()) -> list[GapTable]:
    """Return a table for each column and each intersection, the most significant gaps first."""
    tables = []
    for column, table in audit.subgroup_gaps.items():
        one = audit.subgroups.get(column)
        loss = None if one is None else one.grouping_loss
        between = "" if loss is None else f"{loss:{loss_spec(audit.score.value)}}"
        tables.append(replace(_subgroup_table(column, table, audit), between=between))
    for columns in intersections:
        table = audit.subgroup_intersections(*columns)
        tables.append(_subgroup_table(" and ".join(columns), table, audit))
    return tables


def _subgroup_table(title: str, table: Table, audit: Audit) -> GapTable:
    most_significant = np.argsort(table["pvalue_adjusted"], kind="stable")
    rows = [
        {**row, "name": str(row["subgroup"]) or EMPTY, "pvalue": row["pvalue_adjusted"]}
        for row in table.take(most_significant[:_MOST]).rows()
    ]
    inside = [loss for loss in LOSSES if any(math.isfinite(row[loss]) for row in rows)]
    with_losses = [
        replace(one, inside=tuple(_inside(row, loss, audit) for loss in inside))
        for one, row in zip(_gap_rows(rows, audit.confidence_level), rows, strict=True)
    ]
    titles = tuple(loss.replace("_", " ") for loss in inside)
    return GapTable(title, with_losses, max(len(table) - _MOST, 0), titles)


def _inside(row: Mapping[str, Any], loss: str, audit: Audit) -> tuple[str, str]:
    """Return a loss within a group and its interval; empty strings if there are too few rows."""
    spec = loss_spec(audit.score.value)
    value, low, high = (number(float(row[f"{loss}{end}"]), spec) for end in ("", "_low", "_high"))
    return value, f"[{low}, {high}]" if low and high else ""


def _gap_rows(rows: Iterable[Mapping[str, Any]], level: float) -> list[GapRow]:
    rows = list(rows)
    largest = max((abs(float(row[end])) for row in rows for end in ("low", "high")), default=0.0)
    return [_gap_row(row, _REACH / largest if largest > 0 else 0.0, level) for row in rows]


def _gap_row(row: Mapping[str, Any], scale: float, level: float) -> GapRow:
    gap, low, high = (float(row[name]) for name in ("gap", "low", "high"))
    start, end, least, most = (
        round(_MIDDLE + scale * one, 1) for one in (min(gap, 0), max(gap, 0), low, high)
    )
    kind = "under" if gap > 0 else "over"
    direction = f"{kind}-predicted"
    if float(row["pvalue"]) > 1 - level:
        kind, direction = "within", "within noise"
    spec = rate_spec(*(float(row[name]) for name in ("score_mean", "rate", "expected")))
    points = f"+z.{points_digits(gap, low, high)}f"
    return GapRow(
        name=str(row["name"]),
        n=f"{int(row['n']):,}",
        share=f"{float(row['share']):.1%}",
        score=format(float(row["score_mean"]), spec),
        rate=format(float(row["rate"]), spec),
        expected=format(float(row["expected"]), spec),
        gap=format(100 * gap, points),
        interval=f"[{100 * low:{points}}, {100 * high:{points}}]",
        pvalue=pvalue(float(row["pvalue"])),
        direction=direction,
        bar=Bar(kind, start, round(end - start, 1), least, most, _MIDDLE),
    )
