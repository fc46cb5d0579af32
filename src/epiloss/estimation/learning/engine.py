"""The learner of the headline: a light ridge regression, then boosted trees of what it leaves.

It predicts ``F`` such that ``w F`` is near ``Q - C``, with ``w = C (1 - C)``: a step of a logistic
regression from the log-odds of ``C``. The trees see all columns (of many, the best ones) and what the
regression predicts for rows left out, so that they can bend it. Nothing is left to chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.boosting import Growth
from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import N_CODES, Bytes, Records
from epiloss._typing import Codes, Floats
from epiloss.estimation.learning.encoding import Encoding, tie_aware_edges
from epiloss.estimation.learning.ridge import CodedRidge, fit_ridge

_MANY, _SCREENED = 96, 48  # columns from which on some are chosen, and how many
_LEAST_ROWS = 20  # whose weight a leaf must have
_RIDGE = 5.0  # rows' weight that shrink the value of a leaf
# from so many learning rows on: trees, and leaves of each
_SIZES = ((30_000, 100, 31), (6_000, 90, 31), (2_500, 48, 15), (800, 32, 15), (0, 24, 8))
_RATE, _DEEPEST = 0.4, 8
_SAMPLED = 4_096  # rows that edges of the regression's predictions are found from


@dataclass(frozen=True)
class Model:
    """A fitted learner: the sum of both parts.

    ``columns`` are those that the trees split on; behind them stand the regression's predictions, cut at
    ``edges``.
    """

    ridge: CodedRidge
    columns: NDArray[np.int32]
    edges: Floats
    trees: Records

    def predict(self, codes: Bytes, rows: Codes) -> Floats:
        """Return ``F`` for some of the rows that codes (columns, rows) are of."""
        total = np.zeros(len(rows))
        self.ridge.add(codes, rows, total)
        own = _with_column(codes, self.columns, rows, np.searchsorted(self.edges, total))
        kernel().boosted(own, np.arange(len(rows), dtype=np.int32), self.trees, total)
        return total


def fit_model(encoding: Encoding, codes: Bytes, residual: Floats, weight: Floats) -> Model:
    """Learn residuals ``Y - C`` of rows whose codes (columns, rows) are given, with weights ``w``."""
    n = len(residual)
    ridge = fit_ridge(codes, encoding.values, residual, weight)
    rest = residual - weight * ridge.left_out
    columns = _screened(codes, rest, weight)
    edges = tie_aware_edges(np.sort(ridge.left_out[:: max(n // _SAMPLED, 1)]))
    own = _with_column(codes, columns, np.arange(n), np.searchsorted(edges, ridge.left_out))
    every = np.arange(len(own), dtype=np.int32)
    trees = kernel().boost(own, every, rest, weight, None, np.zeros(n), growth_for(weight))
    return Model(ridge.model, columns, edges, trees)


def growth_for(weight: Floats) -> Growth:
    """Return how trees grow on rows with these weights: more and larger ones on more rows."""
    _, n_trees, n_leaves = next(size for size in _SIZES if len(weight) >= size[0])
    mean = float(weight.mean())
    return Growth(n_trees, n_leaves, _DEEPEST, _RATE, _RIDGE * mean, _LEAST_ROWS * mean)


def _with_column(codes: Bytes, columns: NDArray[np.int32], rows: Codes, last: Codes) -> Bytes:
    """Return the codes of some columns and rows, and one more column behind them."""
    own = np.empty((len(columns) + 1, len(rows)), np.uint8)
    for place, j in enumerate(columns):
        np.take(codes[j], rows, out=own[place])
    own[-1] = last
    return own


def _screened(codes: Bytes, rest: Floats, weight: Floats) -> NDArray[np.int32]:
    """Return all columns or, of many, those that alone explain the most; the score is always there."""
    if len(codes) <= _MANY:
        return np.arange(len(codes), dtype=np.int32)
    gains = np.array([_alone(column, rest, weight) for column in codes])
    best = np.argsort(-gains, kind="stable")[:_SCREENED]
    return np.unique(np.append(best, len(codes) - 1)).astype(np.int32)


def _alone(column: NDArray[np.uint8], rest: Floats, weight: Floats) -> float:
    """Return what the best single split of a column explains."""
    g, h = np.bincount(column, rest, N_CODES), np.bincount(column, weight, N_CODES)
    left_g, left_h = np.cumsum(g)[:-1], np.cumsum(h)[:-1]
    inside = (left_h > 0) & (left_h < h.sum())
    gain = left_g[inside] ** 2 / left_h[inside]
    gain += (g.sum() - left_g[inside]) ** 2 / (h.sum() - left_h[inside])
    return float(np.max(gain, initial=0.0))
