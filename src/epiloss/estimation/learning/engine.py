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
from epiloss._kernels.reference_trees import Bytes, Records
from epiloss._typing import Floats
from epiloss.estimation.learning.encoding import Encoding, edges_of, write_codes
from epiloss.estimation.learning.ridge import CodedRidge, fit_ridge

_MANY, _SCREENED = 96, 48  # columns from which on some are chosen, and how many
_LEAST_ROWS = 20  # whose weight a leaf must have
_RIDGE = 5.0  # rows' weight that shrink the value of a leaf
# from so many learning rows on: trees, leaves of each, and how much of its value a tree adds
_SIZES = ((30_000, 100, 31, 0.4), (6_000, 80, 31, 0.4), (2_500, 14, 12, 0.8), (0, 28, 9, 0.4))
_DEEPEST = 8
_CAUTIOUS = 1.3  # trees' worth of values that the first few add
_SAMPLED = 2_048  # rows that edges of the regression's predictions are found from


@dataclass(frozen=True)
class Model:
    """A fitted learner, the sum of both parts; trees see the regression's predictions cut at edges."""

    ridge: CodedRidge
    edges: Floats
    trees: Records
    n_early: int  # trees that are cautious alone

    def predict(self, codes: Bytes) -> Floats:
        """Return ``F`` for rows, given by their codes (columns and a free line, rows)."""
        total: Floats = self.stages(codes)[1]
        return total

    def stages(self, codes: Bytes) -> Floats:
        """Return ``F`` by the first few trees alone, which are cautious, and by all (2, rows)."""
        total = np.zeros((2, codes.shape[1]))
        self.ridge.add(codes[:-1], total[0])
        write_codes(total[0], self.edges, codes[-1:])
        kernel().boosted(codes, None, self.trees[: self.n_early], total[0])
        total[1] = total[0]
        kernel().boosted(codes, None, self.trees[self.n_early :], total[1])
        return total


def fit_model(
    encoding: Encoding, codes: Bytes, residual: Floats, weight: Floats, least: float = 0.0
) -> Model:
    """Learn residuals ``Y - C`` of rows with weights ``w``; leaves weigh at least ``least``.

    The codes (columns and a free line, rows) are those of the encoding; the free line is for what the
    regression predicts.
    """
    n = len(residual)
    ridge = fit_ridge(codes[:-1], encoding.values, residual, weight)
    rest = residual - weight * ridge.left_out
    columns = np.append(_screened(codes[:-1], rest, weight), np.int32(len(codes) - 1))
    edges = edges_of(ridge.left_out[None, :: max(n // _SAMPLED, 1)])[0]
    write_codes(ridge.left_out, edges, codes[-1:])
    growth = growth_for(weight, least)
    trees = kernel().boost(codes, columns, rest, weight, None, np.zeros(n), growth)
    return Model(ridge.model, edges, trees, round(_CAUTIOUS / growth.rate))


def growth_for(weight: Floats, least: float = 0.0) -> Growth:
    """Return how trees grow on rows with these weights: more and larger ones on more rows."""
    _, n_trees, n_leaves, rate = next(size for size in _SIZES if len(weight) >= size[0])
    mean = float(weight.mean())
    return Growth(
        n_trees, n_leaves, _DEEPEST, rate, max(_RIDGE * mean, least), max(_LEAST_ROWS * mean, least)
    )


def _screened(codes: Bytes, rest: Floats, weight: Floats) -> NDArray[np.int32]:
    """Return all columns or, of many, those that alone explain the most; the score is always there."""
    if len(codes) <= _MANY:
        return np.arange(len(codes), dtype=np.int32)
    gains = kernel().single_splits(codes, rest, weight)
    best = np.argsort(-gains, kind="stable")[:_SCREENED]
    return np.unique(np.append(best, len(codes) - 1)).astype(np.int32)
