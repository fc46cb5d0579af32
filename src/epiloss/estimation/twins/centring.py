"""Means given the score: projections on quadratic splines of the score's rank.

The residual of a prediction or a label is its difference from its mean given the score. The projection
also removes a part of each row's noise, so residuals are multiplied by ``sqrt(n / (n - p))``, where
``p`` is the number of splines: the mean of products of residuals is then unbiased. If there are few
distinct scores, the mean is computed separately for each of them, and ``n`` is the number of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.calibration.breaks import Breaks

# The number of intervals between knots is this power of the number of rows, within bounds. With the cube
# root, which is best for smooth curves, calibration curves with narrow bumps look like a grouping loss.
_INTERVALS_EXPONENT = 0.4
_MIN_INTERVALS, _MAX_INTERVALS = 5, 40
# Scores keep their own rates only with this many rows for each; with fewer, the means would be noise.
_MIN_ROWS_PER_OWN = 4
# In a large sample, at most this many scores keep their own rates, if they have this many rows each.
_MOST_OWN, _ROWS_PER_OWN = 500, 50
# ScoreScale stores the ranks of scores at a resolution of this many steps per interval.
_STEPS_PER_INTERVAL = 100
# Singular values, and squared pivots, of at most this fraction of the largest one are treated as 0.
_SINGULAR = 1e-10
# Residuals of at most this fraction of the largest value of a column are rounding errors.
_RELATIVE_ROUNDING = 1e-10


@dataclass(frozen=True)
class ScoreBasis:
    """The splines of the score, evaluated at each row.

    Only a few neighbouring splines are not 0 at a row: those from ``first`` on, with the ``values``
    (k, rows). ``starts`` are the first rows of each distinct score, if the rows are sorted by score.
    """

    first: Codes
    values: Floats
    n_splines: int
    weight: Floats | None
    starts: Codes

    @classmethod
    def of(
        cls, scores: Floats, weight: Floats | None = None, n_intervals: int | None = None
    ) -> ScoreBasis:
        """Return the splines of sorted scores, or an indicator of each score if there are few."""
        n_intervals = intervals_for(len(scores)) if n_intervals is None else n_intervals
        starts, code = _distinct_scores(scores)
        if len(starts) <= n_intervals + 2:
            return cls(code, np.ones((1, len(scores))), len(starts), weight, starts)
        position = _ranks(starts, len(scores), weight) * n_intervals
        first, values = _splines(position[code], n_intervals)
        return cls(first, values, n_intervals + 2, weight, starts)

    @property
    def inflation(self) -> float:
        """The factor of the residuals from splines that makes the means of their products unbiased."""
        n = len(self.first)
        return float(np.sqrt(n / max(n - self.n_splines, 1)))

    def mean(self, columns: Floats) -> Floats:
        """Return the means of columns (k, rows) given the score; the rows must be sorted by score."""
        if len(self.values) == 1:
            return self._own_means(columns)
        coefficients = self.fit(columns)
        means = np.empty_like(columns)
        for first, rows in self._runs:
            np.matmul(coefficients[first].T, self.values[:, rows], out=means[:, rows])
        return means

    def _own_means(self, columns: Floats) -> Floats:
        """Return the mean of each score."""
        weight = np.ones(len(self.first)) if self.weight is None else self.weight
        total = np.add.reduceat(columns * weight, self.starts, axis=1)
        mass = np.add.reduceat(weight, self.starts)
        means = total / np.where(mass > 0, mass, 1.0)
        return np.asarray(np.repeat(means, np.diff(self.starts, append=len(weight)), axis=1))

    def _own_inflation(self) -> Floats:
        """Return the factor of each row's residual from the mean of its score."""
        count = np.diff(self.starts, append=len(self.first))
        factor: Floats = np.repeat(np.sqrt(count / np.maximum(count - 1, 1)), count)
        return factor

    def fit(self, columns: Floats) -> Floats:
        """Return the coefficients (splines, k) of the means of columns (k, rows)."""
        width, n_cells = len(self.values), self.n_splines - len(self.values) + 1
        gram, moment = np.zeros((width, width, n_cells)), np.zeros((width, len(columns), n_cells))
        for first, rows in self._runs:
            values = self.values[:, rows]
            weighted = values if self.weight is None else values * self.weight[rows]
            np.matmul(weighted, values.T, out=gram[:, :, first.start])
            np.matmul(weighted, columns[:, rows].T, out=moment[:, :, first.start])
        return projection_coefficients(*assemble_products(gram, moment))

    def at(self, coefficients: Floats) -> Floats:
        """Return the means (k, rows) with these coefficients; the rows may be in any order."""
        means = np.zeros((coefficients.shape[1], len(self.first)))
        for i in range(len(self.values)):
            means += self.values[i] * coefficients[self.first + i].T
        return means

    def centre(self, columns: Floats) -> None:
        """Replace columns (k, rows) by their residuals, multiplied by their inflation."""
        small = _rounding_error(columns)
        columns -= self.mean(columns)
        columns[np.abs(columns) <= small] = 0.0
        columns *= self.inflation if len(self.values) > 1 else self._own_inflation()

    @cached_property
    def _runs(self) -> list[tuple[slice, slice]]:
        """Neighbouring splines and the rows, sorted by score, at which only these are not 0."""
        assert (self.first[1:] >= self.first[:-1]).all()
        width = len(self.values)
        bounds = np.searchsorted(self.first, np.arange(self.n_splines - width + 2)).tolist()
        runs = enumerate(pairwise(bounds))
        return [(slice(k, k + width), slice(start, end)) for k, (start, end) in runs if end > start]


@dataclass(frozen=True)
class BrokenBasis:
    """A basis for each part of the rows: scores with their own rate, and pieces between jumps.

    The rate may be discontinuous at the breaks, where splines would leave an error in the means of both
    predictions and labels, which would look like a grouping loss.
    """

    parts: Sequence[tuple[Codes, ScoreBasis]]
    starts: Codes

    @classmethod
    def of(cls, scores: Floats, weight: Floats | None, breaks: Breaks) -> BrokenBasis:
        """Return the splines of sorted scores in each piece, and indicators of the others."""
        parts, n_intervals = [], intervals_for(len(scores))
        distinct, count = np.unique(scores, return_counts=True)
        enough = _MIN_ROWS_PER_OWN * len(breaks.own) <= len(scores)
        own_scores = breaks.own[np.isin(breaks.own, distinct[count > 1])] if enough else np.empty(0)
        breaks = Breaks(own_scores, breaks.jumps)
        for rows in breaks.split(scores):
            own = scores[rows[0]] in breaks.own
            share = len(rows) / len(scores)
            wanted = len(rows) if own else max(round(share * n_intervals), 1)
            part_weight = None if weight is None else weight[rows]
            parts.append((rows, ScoreBasis.of(scores[rows], part_weight, wanted)))
        return cls(parts, _distinct_scores(scores)[0])

    def mean(self, columns: Floats) -> Floats:
        """Return the means of columns (k, rows) given the score."""
        means = np.empty_like(columns)
        for rows, basis in self.parts:
            means[:, rows] = basis.mean(columns[:, rows])
        return means

    def centre(self, columns: Floats) -> None:
        """Replace columns (k, rows) by their residuals, multiplied by the inflation of their part."""
        for rows, basis in self.parts:
            part = columns[:, rows]
            basis.centre(part)
            columns[:, rows] = part


@dataclass(frozen=True)
class ScoreScale:
    """Splines of the score for any rows, with knots found from a sample.

    The position of a score is its rank in units of intervals between knots. It is interpolated linearly
    between the ``positions`` of known ``scores``. If the sample has few distinct scores, ``positions``
    is None, and there is an indicator of each known score and of each gap between two of them.
    """

    scores: Floats
    positions: Floats | None
    n_splines: int

    @classmethod
    def of(cls, scores: Floats, weight: Floats | None, n_intervals: int) -> ScoreScale:
        """Find the knots from sorted scores."""
        starts, _ = _distinct_scores(scores)
        distinct = scores[starts]
        repeated = min(_MOST_OWN, len(scores) // _ROWS_PER_OWN)
        if len(starts) <= max(n_intervals + 2, repeated):
            return cls(distinct, None, 2 * len(starts) + 1)
        positions = _ranks(starts, len(scores), weight) * n_intervals
        step = (positions * _STEPS_PER_INTERVAL).astype(np.int64)
        is_last = np.append(step[1:] != step[:-1], True)
        is_first = np.append(True, is_last[:-1])
        kept = is_first | is_last  # positions of scores between the two are interpolated
        return cls(distinct[kept], positions[kept], n_intervals + 2)

    @property
    def width(self) -> int:
        """The number of splines that are not 0 at a row."""
        return 1 if self.positions is None else 3

    @property
    def n_cells(self) -> int:
        """The number of intervals between knots, or of indicators if there are few distinct scores."""
        return self.n_splines - self.width + 1

    def basis(self, scores: Floats, weight: Floats | None = None) -> ScoreBasis:
        """Return the splines of scores, which may be in any order."""
        starts = np.zeros(0, np.int64)
        if self.positions is None:
            right = np.searchsorted(self.scores, scores, side="right")
            code = right + np.searchsorted(self.scores, scores)
            return ScoreBasis(code, np.ones((1, len(scores))), self.n_splines, weight, starts)
        position = np.interp(scores, self.scores, self.positions)
        return ScoreBasis(*_splines(position, self.n_cells), self.n_splines, weight, starts)


def intervals_for(n_rows: int) -> int:
    """Return the number of intervals between knots for a number of rows."""
    return int(np.clip(round(n_rows**_INTERVALS_EXPONENT), _MIN_INTERVALS, _MAX_INTERVALS))


def assemble_products(gram: Floats, moment: Floats) -> tuple[Floats, Floats]:
    """Return sums over all rows of products of splines with each other and with columns.

    They are assembled from the sums over the rows of each cell: ``gram`` (w, w, cells) of products of
    the ``w`` splines that are not 0 there, and ``moment`` (w, k, cells) of their products with ``k``
    columns.
    """
    width, k, n_cells = moment.shape
    n_splines = n_cells + width - 1
    whole, products = np.zeros((n_splines, n_splines)), np.zeros((n_splines, k))
    for i in range(width):
        for j in range(width):
            diagonal = whole.reshape(-1)[i * n_splines + j :: n_splines + 1][:n_cells]
            diagonal += gram[i, j]
        products[i : i + n_cells] += moment[i].T
    return whole, products


def projection_coefficients(gram: Floats, moment: Floats) -> Floats:
    """Return the coefficients (splines, k) of the projections of columns on the splines."""
    from scipy.linalg.lapack import dposv  # slow to import

    factor, found, info = dposv(gram, moment)
    pivots = np.square(np.diagonal(factor))
    if not info and pivots.min() > _SINGULAR * pivots.max():
        return np.asarray(found, float)
    # Cells without rows make the system singular; least squares sets their coefficients to 0.
    return np.asarray(np.linalg.lstsq(gram, moment, rcond=_SINGULAR)[0], float)


def without_rounding(residual: Floats, columns: Floats, tolerance: float = 0.0) -> Floats:
    """Return the residuals of columns (k, rows), with rounding errors replaced by 0."""
    return np.where(np.abs(residual) <= np.maximum(_rounding_error(columns), tolerance), 0.0, residual)


def _rounding_error(columns: Floats) -> Floats:
    """Return the largest possible rounding error of the residuals of each column (k, rows)."""
    largest = np.maximum(columns.max(axis=1, keepdims=True), -columns.min(axis=1, keepdims=True))
    error: Floats = _RELATIVE_ROUNDING * largest
    return error


def _distinct_scores(scores: Floats) -> tuple[Codes, Codes]:
    """Return the first row of each distinct score, and each row's index among them, of sorted scores."""
    is_new = np.empty(len(scores), bool)
    is_new[:1] = True
    np.not_equal(scores[1:], scores[:-1], out=is_new[1:])
    return np.flatnonzero(is_new), np.cumsum(is_new) - 1


def _ranks(starts: Codes, n: int, weight: Floats | None) -> Floats:
    """Return the rank of each distinct score: the share of rows below it, and half of its own share."""
    mass = np.diff(starts, append=n).astype(float)
    mass = mass if weight is None else np.add.reduceat(weight, starts)
    ranks: Floats = (np.cumsum(mass) - mass / 2) / mass.sum()
    return ranks


def _splines(position: Floats, n_intervals: int) -> tuple[Codes, Floats]:
    """Return the first quadratic spline that is not 0 at each position, and the values of all three."""
    first = np.minimum(position.astype(np.int64), n_intervals - 1)
    t = position - first
    return first, np.stack([(1 - t) ** 2 / 2, 0.5 + t * (1 - t), t * t / 2])
