"""What the search finds where there is nothing, and what is left of what it found.

A search tells the group that stands out most, and some group always does. So the search is repeated on
residuals of random signs, where there is nothing to find. The largest square of a z-score that it finds
then has about a Gumbel distribution, with the scale 2 of a chi-square tail, or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.input.tasks import BinaryProblem
from epiloss.segments.columns import CodedColumn
from epiloss.segments.gaps import CentredRows
from epiloss.segments.search import Scan

_REPLAYS, _MOST_ROWS = 30, 3_000  # of the search where nothing is there, and their rows
_SCALE, _EULER = 2.0, 0.5772156649015329
_LEAST_KEPT = 0.1  # of the square of a z-score
_CHOSEN = 1.5  # parts of that which noise adds to the square, that it adds to the variance of a gap
_OTHERS = 1.5  # times the share of noise in the square, that rows count which did not find a segment


@dataclass(frozen=True)
class Noise:
    """The mean and scale of the largest square of a z-score where nothing is there.

    ``single`` is the mean for single conditions, and ``by_column`` those for conditions on each column.
    """

    mean: float
    single: float
    scale: float
    by_column: Floats

    def pvalue(self, square: float) -> float:
        """Return the probability that the search finds as much where nothing is there."""
        return float(gumbel_tail(np.array([square]), np.array([self.mean]), self.scale)[0])

    def column_pvalues(self, squares: Floats) -> Floats:
        """Return the same for single conditions on each column."""
        return gumbel_tail(squares, self.by_column, self.scale)

    def kept(self, square: float) -> float:
        """Return the part of a gap that is left without what the search alone adds to it."""
        return float(np.sqrt(max(1 - self.mean / square, _LEAST_KEPT))) if square > 0 else 0.0

    def trust_in_others(self, square: float) -> float:
        """Return how much rows count that did not find a segment, where noise may have found it."""
        return min(_OTHERS * self.mean / square, 1.0) if square > 0 else 1.0

    def widening(self, square: float) -> float:
        """Return how many times wider the interval of a gap is for having been searched for."""
        return float(np.sqrt(1 + _CHOSEN * self.mean / square)) if square > 0 else 1.0


def gumbel_tail(values: Floats, mean: Floats, scale: float) -> Floats:
    """Return the probability that a Gumbel variable of this mean and scale is larger.

    Examples
    --------
    >>> gumbel_tail(np.array([8.0, 20.0]), np.array([8.0]), 2.0).round(4).tolist()
    [0.4296, 0.0014]
    """
    place = mean - _EULER * scale
    return np.asarray(-np.expm1(-np.exp(-(values - place) / scale)), float)


def replayed(
    problem: BinaryProblem,
    units: Codes | None,
    columns: Sequence[CodedColumn],
    share: float,
) -> Noise:
    """Repeat the search on rows of random signs; segments have at least this ``share`` of them.

    The signs are the same in every call, so that what is found does not depend on a seed.
    """
    generator = np.random.default_rng(0)
    unit = np.arange(len(problem.labels)) if units is None else units
    rows = _some_units(unit, generator)
    centred = CentredRows.of(problem, rows)
    scan = Scan(columns, rows, centred.spread, share * len(rows))
    weight, own = centred.weight, unit[rows]
    signs = generator.random((_REPLAYS, int(unit.max()) + 1)) < 0.5
    drawn = np.where(signs[:, own], -1.0, 1.0) * (centred.labels - centred.curve)
    drawn -= centred.basis.mean(drawn)
    largest, singles = scan.largest(np.ascontiguousarray((drawn * weight).T))
    scale = max(float(largest.std(ddof=1)) * np.sqrt(6) / np.pi, _SCALE)
    single = float(singles.max(axis=1).mean())
    return Noise(float(largest.mean()), single, scale, singles.mean(axis=0))


def _some_units(unit: Codes, generator: np.random.Generator) -> Codes:
    """Return the rows of so many units that they are few, in their order."""
    if len(unit) <= _MOST_ROWS:
        return np.arange(len(unit))
    distinct, place = np.unique(unit, return_inverse=True)
    order = generator.permutation(len(distinct))
    size = np.bincount(place)[order]
    chosen = np.zeros(len(distinct), bool)
    chosen[order[: max(int(np.searchsorted(np.cumsum(size), _MOST_ROWS)), 1)]] = True
    return np.flatnonzero(chosen[place])
