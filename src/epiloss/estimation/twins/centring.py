"""Means given the score: projections on quadratic splines of the score's rank.

What a prediction or a label is beyond its mean given the score is its residual. The projection takes
up a part of each row's noise; residuals are multiplied by ``sqrt(n / (n - p))``, with ``p`` splines, so
that the mean of their products is unbiased. Where the score has few values, the means are those of each
value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from epiloss._typing import Codes, Floats

_FEWEST, _MOST = 5, 40  # intervals between knots
_STEPS = 100  # of an interval, at which the rank of a score is known


@dataclass(frozen=True)
class ScoreBasis:
    """The splines that are not 0 at each row: their ``values`` (k, rows), from the ``first`` one on.

    ``starts`` are the rows at which a score begins, with the rows in the order of their scores.
    """

    first: Codes
    values: Floats
    n_splines: int
    weight: Floats | None
    starts: Codes

    @classmethod
    def of(cls, scores: Floats, weight: Floats | None = None) -> ScoreBasis:
        """Return the splines of scores in ascending order; indicators where they have few values."""
        n_intervals = intervals_for(len(scores))
        starts, code = _distinct(scores)
        if len(starts) <= n_intervals + 2:
            return cls(code, np.ones((1, len(scores))), len(starts), weight, starts)
        place = _ranks(starts, len(scores), weight) * n_intervals
        first, values = _splines(place[code], n_intervals)
        return cls(first, values, n_intervals + 2, weight, starts)

    @property
    def inflation(self) -> float:
        """How many times larger residuals are made, so that products of them are unbiased."""
        n = len(self.first)
        return float(np.sqrt(n / max(n - self.n_splines, 1)))

    def mean(self, columns: Floats) -> Floats:
        """Return the means given the score of columns (k, rows)."""
        coefficients = self.fit(columns)
        means = np.empty_like(columns)
        for first, rows in self._runs():
            np.matmul(coefficients[first].T, self.values[:, rows], out=means[:, rows])
        return means

    def fit(self, columns: Floats) -> Floats:
        """Return the coefficients (splines, k) of the means of columns (k, rows)."""
        width, reach = len(self.values), self.n_splines - len(self.values) + 1
        gram, moment = np.zeros((width, width, reach)), np.zeros((width, len(columns), reach))
        for first, rows in self._runs():
            values = self.values[:, rows]
            weighted = values if self.weight is None else values * self.weight[rows]
            np.matmul(weighted, values.T, out=gram[:, :, first.start])
            np.matmul(weighted, columns[:, rows].T, out=moment[:, :, first.start])
        return solved(*assembled(gram, moment))

    def at(self, coefficients: Floats) -> Floats:
        """Return the means (k, rows) that have these coefficients; the rows may be in any order."""
        means = np.zeros((coefficients.shape[1], len(self.first)))
        for i in range(len(self.values)):
            means += self.values[i] * coefficients[self.first + i].T
        return means

    def centre(self, columns: Floats) -> None:
        """Make columns (k, rows) their residuals, at their full size."""
        small = _rounding(columns)
        columns -= self.mean(columns)
        columns[np.abs(columns) <= small] = 0.0
        columns *= self.inflation

    def _runs(self) -> Iterator[tuple[slice, slice]]:
        """Yield splines, and the rows at which they are not 0, of rows in the order of their scores."""
        assert (self.first[1:] >= self.first[:-1]).all()
        width = len(self.values)
        bounds = np.searchsorted(self.first, np.arange(self.n_splines - width + 2)).tolist()
        for k, (start, end) in enumerate(pairwise(bounds)):
            if end > start:
                yield slice(k, k + width), slice(start, end)


@dataclass(frozen=True)
class ScoreScale:
    """Splines of the score for any rows, their knots found from some.

    Between the ``scores`` that it knows the rank is straight, in units of intervals: ``places``. Where
    scores have few values there are no places; then each value is by itself, and all values between the
    same two are together.
    """

    scores: Floats
    places: Floats | None
    n_splines: int

    @classmethod
    def of(cls, scores: Floats, weight: Floats | None, n_intervals: int) -> ScoreScale:
        """Find the knots from scores in ascending order."""
        starts, _ = _distinct(scores)
        distinct = scores[starts]
        if len(starts) <= n_intervals + 2:
            return cls(distinct, None, 2 * len(starts) + 1)
        places = _ranks(starts, len(scores), weight) * n_intervals
        cell = (places * _STEPS).astype(np.int64)
        leaves = np.append(cell[1:] != cell[:-1], True)
        kept = leaves | np.append(True, leaves[:-1])  # the first and last score of each step
        return cls(distinct[kept], places[kept], n_intervals + 2)

    @property
    def width(self) -> int:
        """The number of splines that are not 0 at a row."""
        return 1 if self.places is None else 3

    @property
    def reach(self) -> int:
        """The number of splines that can be the first one of a row."""
        return self.n_splines - self.width + 1

    def basis(self, scores: Floats, weight: Floats | None = None) -> ScoreBasis:
        """Return the splines of scores in any order."""
        starts = np.zeros(0, np.int64)
        if self.places is None:
            right = np.searchsorted(self.scores, scores, side="right")
            code = right + np.searchsorted(self.scores, scores)
            return ScoreBasis(code, np.ones((1, len(scores))), self.n_splines, weight, starts)
        place = np.interp(scores, self.scores, self.places)
        return ScoreBasis(*_splines(place, self.reach), self.n_splines, weight, starts)


def intervals_for(n_rows: int) -> int:
    """Return the number of intervals between knots for so many rows."""
    return int(np.clip(round(n_rows ** (1 / 3)), _FEWEST, _MOST))


def assembled(gram: Floats, moment: Floats) -> tuple[Floats, Floats]:
    """Return the products of all splines with each other and with columns, from those of intervals.

    ``gram`` (w, w, intervals) are sums over the rows of each interval of products of the splines that
    are not 0 there, ``moment`` (w, k, intervals) those with ``k`` columns.
    """
    width, k, reach = moment.shape
    n_splines, here = reach + width - 1, np.arange(reach)
    whole, products = np.zeros((n_splines, n_splines)), np.zeros((n_splines, k))
    for i in range(width):
        for j in range(width):
            whole[here + i, here + j] += gram[i, j]
        products[i : i + reach] += moment[i].T
    return whole, products


def solved(gram: Floats, moment: Floats) -> Floats:
    """Return the coefficients (splines, k) of the projections of columns."""
    return np.asarray(np.linalg.lstsq(gram, moment, rcond=1e-10)[0], float)


def without_rounding(residual: Floats, columns: Floats, least: float = 0.0) -> Floats:
    """Return residuals of columns (k, rows), with 0 for those that are nothing but rounding."""
    return np.where(np.abs(residual) <= np.maximum(_rounding(columns), least), 0.0, residual)


def _rounding(columns: Floats) -> Floats:
    """Return how large a residual of each column (k, rows) can be by rounding alone."""
    largest = np.maximum(columns.max(axis=1, keepdims=True), -columns.min(axis=1, keepdims=True))
    rounding: Floats = 1e-10 * largest
    return rounding


def _distinct(scores: Floats) -> tuple[Codes, Codes]:
    """Return the rows at which a score begins, of scores in ascending order, and each row's place."""
    is_new = np.empty(len(scores), bool)
    is_new[:1] = True
    np.not_equal(scores[1:], scores[:-1], out=is_new[1:])
    return np.flatnonzero(is_new), np.cumsum(is_new) - 1


def _ranks(starts: Codes, n: int, weight: Floats | None) -> Floats:
    """Return the share of the rows below each score, with half of its own."""
    mass = np.diff(starts, append=n).astype(float)
    mass = mass if weight is None else np.add.reduceat(weight, starts)
    ranks: Floats = (np.cumsum(mass) - mass / 2) / mass.sum()
    return ranks


def _splines(place: Floats, n_intervals: int) -> tuple[Codes, Floats]:
    """Return the first spline that is not 0 at each place, and the values of all three."""
    first = np.minimum(place.astype(np.int64), n_intervals - 1)
    t = place - first
    return first, np.stack([(1 - t) ** 2 / 2, 0.5 + t * (1 - t), t * t / 2])
