"""What the search finds without any gap, and how to correct for it.

The search reports the group that stands out most, and some group always does. So the search is repeated
on residuals with random signs, in which there is nothing to find. The largest squared z-score then has
approximately a Gumbel distribution, with a scale of at least 2, that of a chi-square tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from epiloss._typing import Codes, Floats
from epiloss.input.tasks import BinaryProblem
from epiloss.segments.columns import CodedColumn
from epiloss.segments.gaps import CentredRows
from epiloss.segments.search import Scan

_REPLAYS, _MOST_ROWS = 30, 3_000  # repetitions of the search with random signs, and their rows
_SCALE, _EULER = 2.0, 0.5772156649015329
_LEAST_KEPT = 0.1  # smallest share of a squared z-score that shrinkage leaves
# Times the share of noise in the squared z-score: how much the search adds to the variance of a gap, and
# how much weight the repetitions of the search have.
_CHOSEN = 1.5
_REPEATED = 2.0


@dataclass(frozen=True)
class Noise:
    """The mean and scale of the largest squared z-score without any gap.

    ``single`` is the mean for single conditions, and ``by_column`` the means for single conditions on
    each column.
    """

    mean: float
    single: float
    scale: float
    by_column: Floats

    def pvalue(self, square: float) -> float:
        """Return the probability that the search finds as much without any gap."""
        return float(gumbel_tail(np.array([square]), np.array([self.mean]), self.scale)[0])

    def column_pvalues(self, squares: Floats) -> Floats:
        """Return the same for single conditions on each column."""
        return gumbel_tail(squares, self.by_column, self.scale)

    def kept(self, square: float) -> float:
        """Return the factor that a gap is shrunk by to remove what the search adds to it."""
        return float(np.sqrt(max(1 - self.mean / square, _LEAST_KEPT))) if square > 0 else 0.0

    def trust_in_repeats(self, square: float) -> float:
        """Return the weight of the repetitions, larger if noise may have found the segment."""
        return min(_REPEATED * self.mean / square, 1.0) if square > 0 else 1.0

    def truncation(self, square: float, level: float) -> float:
        """Return by how many standard errors reporting only significant gaps makes them too large."""
        least = self.mean - (_EULER + float(np.log(-np.log(level)))) * self.scale
        beyond = float(np.sqrt(max(square, 0.0)) - np.sqrt(max(least, 0.0)))
        return float(np.exp(-(beyond**2) / 2) / np.sqrt(2 * np.pi) / ndtr(beyond))

    def widening(self, square: float) -> float:
        """Return the factor that the interval of a gap is widened by because of the search."""
        return float(np.sqrt(1 + _CHOSEN * self.mean / square)) if square > 0 else 1.0


def gumbel_tail(values: Floats, mean: Floats, scale: float) -> Floats:
    """Return the probability that a Gumbel variable with this mean and scale is larger.

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
    """Repeat the search with random signs; segments have at least this ``share`` of the rows.

    The signs are the same in every call, so that the segments do not depend on a seed.
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
    """Return the rows of a random subset of units, with about ``_MOST_ROWS`` rows, in order."""
    if len(unit) <= _MOST_ROWS:
        return np.arange(len(unit))
    distinct, place = np.unique(unit, return_inverse=True)
    order = generator.permutation(len(distinct))
    size = np.bincount(place)[order]
    chosen = np.zeros(len(distinct), bool)
    chosen[order[: max(int(np.searchsorted(np.cumsum(size), _MOST_ROWS)), 1)]] = True
    return np.flatnonzero(chosen[place])
