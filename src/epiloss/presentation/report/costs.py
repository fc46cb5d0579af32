"""The cost of decisions on the page of an audit: for a few usual costs, or for given ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epiloss.analysis.decisions import usual_decisions
from epiloss.auditing.result import Audit
from epiloss.estimate import Estimate
from epiloss.presentation.report.figures import Bar, difference_bars

_DIGITS = 3


@dataclass(frozen=True)
class CostRow:
    """The decisions at one pair of costs, as text."""

    name: str
    threshold: str
    share: str
    cost: str
    repaired: str
    saving: str
    interval: str
    bar: Bar | None


@dataclass(frozen=True)
class CostTable:
    """The decisions at several pairs of costs; ``n`` says how many rows were used, if not all."""

    rows: list[CostRow]
    better: str
    n: str


def cost_table(audit: Audit, costs: Sequence[tuple[float, float]] | None = None) -> CostTable | None:
    """Return the cost of decisions, or None if there is no single score to decide by.

    ``costs`` are pairs of the costs of a false positive and a false negative; by default, usual ones.
    """
    found = usual_decisions(audit, costs)
    if found is None:
        return None
    table = list(found.table.rows())
    savings = [Estimate(row["saving"], low=row["saving_low"], high=row["saving_high"]) for row in table]
    bars = difference_bars(savings, [_kind(one) for one in savings])
    rows = [_row(row, bar) for row, bar in zip(table, bars, strict=True)]
    better = "recalibrated" if found.by_score_alone else "repaired"
    return CostTable(rows, better, "" if found.n == audit.n_samples else f"{found.n:,}")


def _row(row: dict[str, Any], bar: Bar | None) -> CostRow:
    spec = _spec(row["cost"])
    low, high = (format(row[f"saving_{end}"], f"+{spec}") for end in ("low", "high"))
    return CostRow(
        name=in_words(row["cost_fp"], row["cost_fn"]),
        threshold=f"{row['threshold']:.2g}",
        share=f"{row['share']:.0%}",
        cost=format(row["cost"], spec),
        repaired=format(row["repaired"], spec),
        saving=format(row["saving"], f"+{spec}"),
        interval=f"[{low}, {high}]",
        bar=bar,
    )


def in_words(cost_fp: float, cost_fn: float) -> str:
    """Return a pair of costs in words.

    Examples
    --------
    >>> in_words(1, 1), in_words(1, 3), in_words(10, 1)
    ('equal costs', 'a false negative costs 3 times as much', 'a false positive costs 10 times as much')
    >>> in_words(200, 500)
    'a false positive costs 200, a false negative 500'
    """
    if cost_fp == cost_fn == 1:
        return "equal costs"
    if 1 not in (cost_fp, cost_fn):
        return f"a false positive costs {cost_fp:g}, a false negative {cost_fn:g}"
    which, cost = ("negative", cost_fn) if cost_fp == 1 else ("positive", cost_fp)
    return f"a false {which} costs {cost:g} times as much"


def _spec(cost: float) -> str:
    """Return a format with three digits, and no more decimals than that needs."""
    whole = math.floor(math.log10(cost)) + 1 if 0 < cost < math.inf else 1
    return f"z.{max(_DIGITS - whole, 0)}f"


def _kind(saving: Estimate) -> str:
    """Return the colour of a bar: a saving, additional costs, or neither beyond noise."""
    if saving.low is not None and saving.low > 0:
        return "under"
    return "over" if saving.high is not None and saving.high < 0 else "within"
