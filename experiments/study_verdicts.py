"""Statements, their counts, and the criteria by which they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scipy.stats import spearmanr

HOLDS, IN_PART, NOT = "holds", "holds in part", "does not hold"
UNTESTED = "cannot be tested here"
MOST, HALF = 0.9, 0.5  # shares from which on a statement holds, and holds in part
SMALL, LARGE = 0.1, 0.5  # changes, in units of the mean grouping loss
LEVEL = 0.05  # of the test of a rank correlation
NEAR, RATIO = 0.01, 1.5  # accuracies that are comparable, grouping losses that differ
ROUNDING = 1e-9  # differences of printed decimals are not exact


@dataclass(frozen=True)
class Statement:
    """A statement, the data it is counted in, the count, and whether it holds."""

    text: str
    data: str
    count: str
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain values."""
        return asdict(self)


class Correlation(NamedTuple):
    """Spearman's rank correlation and its two-sided p-value."""

    rho: float
    p_value: float

    def __str__(self) -> str:
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        return f"{self.rho:.2f}, {p}"


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> Correlation:
    """Return the rank correlation of two columns.

    Examples
    --------
    >>> str(rank_correlation([1, 2, 3, 4], [10, 20, 30, 50]))
    '1.00, p < 0.001'
    """
    found = spearmanr(first, second)
    return Correlation(float(found.statistic), float(found.pvalue))


def by_share(n: float, total: float) -> str:
    """Return the verdict on a share.

    Examples
    --------
    >>> by_share(27, 27), by_share(21, 27), by_share(3, 27)
    ('holds', 'holds in part', 'does not hold')
    """
    share = n / total
    return HOLDS if share >= MOST else IN_PART if share >= HALF else NOT


def by_change(change: float, size: float) -> str:
    """Return the verdict on a change, which should be small compared with a size."""
    return HOLDS if change <= SMALL * size else IN_PART if change <= LARGE * size else NOT


def by_order(found: Correlation) -> str:
    """Return the verdict on a rank correlation, which should be positive."""
    return HOLDS if found.rho > 0 and found.p_value < LEVEL else NOT


def as_table(rows: Sequence[Statement], counted: str = "counted") -> str:
    """Return the statements as a Markdown table."""
    head = [f"| statement | data | {counted} | verdict |", "|---|---|---|---|"]
    body = [f"| {one.text} | {one.data} | {one.count} | {one.verdict} |" for one in rows]
    return "\n".join([*head, *body])


def tally(found: Sequence[Statement]) -> str:
    """Return how many statements hold.

    Examples
    --------
    >>> tally([Statement("a", "b", "c", HOLDS)])
    'Of 1 rows, the statement holds in 1, holds in part in 0, does not hold in 0'
    """
    words = [HOLDS, IN_PART, NOT]
    words += [UNTESTED] if any(one.verdict == UNTESTED for one in found) else []
    counts = [f"{word} in {sum(one.verdict == word for one in found)}" for word in words]
    return f"Of {len(found)} rows, the statement {', '.join(counts)}"
