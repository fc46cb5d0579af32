"""Segments and subgroups as rows of tables, each gap with a bar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from epiloss.auditing.result import Audit
from epiloss.number_format import rate_spec
from epiloss.presentation.report.figures import Bar
from epiloss.presentation.report.wording import pvalue

_MIDDLE, _REACH = 500.0, 470.0  # of a bar's view box
_MOST = 20  # subgroups of a column


@dataclass(frozen=True)
class GapRow:
    """One line of a table of gaps, in words."""

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


@dataclass(frozen=True)
class GapTable:
    """A table of gaps; ``more`` are the lines that were left out."""

    title: str
    rows: list[GapRow]
    more: int = 0


def segment_table(audit: Audit) -> GapTable:
    """Return the segments, the costliest first."""
    rows = [{**vars(one), "name": one.description} for one in audit.segments]
    return GapTable("Segments", _gap_rows(rows))


def subgroup_tables(audit: Audit) -> list[GapTable]:
    """Return a table for each column of subgroups, the surest gaps first."""
    tables = []
    for column, table in audit.subgroup_gaps.items():
        rows = [
            {**row, "name": str(row["subgroup"]), "pvalue": row["pvalue_adjusted"]}
            for row in table.rows()
        ]
        rows.sort(key=lambda row: float(row["pvalue"]))
        tables.append(GapTable(column, _gap_rows(rows[:_MOST]), max(len(rows) - _MOST, 0)))
    return tables


def _gap_rows(rows: Iterable[Mapping[str, Any]]) -> list[GapRow]:
    rows = list(rows)
    largest = max((abs(float(row[end])) for row in rows for end in ("low", "high")), default=0.0)
    return [_gap_row(row, _REACH / largest if largest > 0 else 0.0) for row in rows]


def _gap_row(row: Mapping[str, Any], scale: float) -> GapRow:
    gap, low, high = (float(row[name]) for name in ("gap", "low", "high"))
    start, end, least, most = (
        round(_MIDDLE + scale * one, 1) for one in (min(gap, 0), max(gap, 0), low, high)
    )
    is_sure = float(row["pvalue"]) <= 0.05
    direction = "within noise" if not is_sure else "under-predicted" if gap > 0 else "over-predicted"
    kind = {"within noise": "within", "under-predicted": "under", "over-predicted": "over"}[direction]
    spec = rate_spec(*(float(row[name]) for name in ("score_mean", "rate", "expected")))
    return GapRow(
        name=str(row["name"]),
        n=f"{int(row['n']):,}",
        share=f"{float(row['share']):.1%}",
        score=format(float(row["score_mean"]), spec),
        rate=format(float(row["rate"]), spec),
        expected=format(float(row["expected"]), spec),
        gap=f"{100 * gap:+.1f}",
        interval=f"[{100 * low:+.1f}, {100 * high:+.1f}]",
        pvalue=pvalue(float(row["pvalue"])),
        direction=direction,
        bar=Bar(kind, start, round(end - start, 1), least, most, _MIDDLE),
    )
