"""Means given the score: projections on quadratic splines of the score's rank.

What a prediction or a label is beyond its mean given the score is its residual. The projection takes
up a part of each row's noise; residuals are multiplied by ``sqrt(n / (n - p))``, with ``p`` splines, so
that the mean of their products is unbiased. Where the score has few values, the means are those of each
value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epiloss._typing import Codes, Floats

_FEWEST, _MOST = 5, 40  # intervals between knots


@dataclass(frozen=True)
class ScoreBasis:
    """The splines that are not 0 at each row: their ``values`` (k, rows), from the ``first`` one on."""

    first: Codes
    values: Floats
    n_splines: int
    weight: Floats | None

    @classmethod
    def of(cls, scores: Floats, weight: Floats | None = None) -> ScoreBasis:
        """Return the splines of scores; indicators where they have few values."""
        n = len(scores)
        n_intervals = int(np.clip(round(n ** (1 / 3)), _FEWEST, _MOST))
        distinct, code = np.unique(scores, return_inverse=True)
        if len(distinct) <= n_intervals + 2:
            return cls(code.astype(np.int64), np.ones((1, n)), len(distinct), weight)
        mass = np.bincount(code, weight).astype(float)
        place = ((np.cumsum(mass) - mass / 2) / mass.sum() * n_intervals)[code]
        first = np.minimum(place.astype(np.int64), n_intervals - 1)
        t = place - first
        values = np.stack([(1 - t) ** 2 / 2, 0.5 + t * (1 - t), t * t / 2])
        return cls(first, values, n_intervals + 2, weight)

    @property
    def inflation(self) -> float:
        """How many times larger residuals are made, so that products of them are unbiased."""
        n = len(self.first)
        return float(np.sqrt(n / max(n - self.n_splines, 1)))

    def mean(self, columns: Floats) -> Floats:
        """Return the means given the score of columns (k, rows)."""
        width, reach = len(self.values), self.n_splines - len(self.values) + 1
        gram = np.zeros((self.n_splines, self.n_splines))
        moment = np.zeros((self.n_splines, len(columns)))
        weighted = self.values if self.weight is None else self.values * self.weight
        here = np.arange(reach)
        for i in range(width):
            for j in range(width):
                gram[here + i, here + j] += np.bincount(self.first, weighted[i] * self.values[j], reach)
            for k, column in enumerate(columns):
                moment[i : i + reach, k] += np.bincount(self.first, weighted[i] * column, reach)
        solved = np.linalg.lstsq(gram, moment, rcond=1e-10)[0]
        means = np.zeros(columns.shape)
        for i in range(width):
            means += self.values[i] * solved[self.first + i].T
        return means

    def centred(self, columns: Floats) -> Floats:
        """Return the residuals of columns (k, rows), at their full size."""
        residual = columns - self.mean(columns)
        small = 1e-10 * np.abs(columns).max(axis=1, keepdims=True)
        return np.where(np.abs(residual) <= small, 0.0, residual) * self.inflation  # or rounding
