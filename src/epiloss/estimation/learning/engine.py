"""The default learner: a lightly penalised ridge regression, effects of levels, then boosted trees.

It predicts a step ``F`` of the log-odds: ``C (1 - C) F`` approximates ``Q - C``. The effects of the
ridge regression may change along the score. Each stage is fitted to the residuals of the stages before.
The trees use all columns (if there are many, the best ones) and the out-of-fold predictions of the other
stages, so that they can correct them. Training is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.boosting import Growth
from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import Bytes, Records
from epiloss._typing import Floats
from epiloss.estimation.learning.encoding import Coded, Encoding, edges_of, write_codes
from epiloss.estimation.learning.levels import LevelEffects, fit_levels
from epiloss.estimation.learning.ridge import CodedRidge, fit_ridge

# With more than 96 columns, the trees use only the 48 that explain most on their own, because the time
# to grow them is proportional to the number of columns.
_MAX_UNSCREENED, _N_SCREENED = 96, 48
# A leaf must have the weight of at least this many average rows.
_MIN_LEAF_ROWS = 20
# The value of a leaf is shrunk towards 0 as if it had this many more rows, with residual 0.
_LEAF_PENALTY_ROWS = 5.0
# From this number of training rows on: the number of trees, the leaves of each, and the learning rate.
# More rows support larger trees. Fewer but steeper trees are nearly as good and save time, because the
# noise of two twins cancels.
_TREE_SIZES = (
    (30_000, 100, 31, 0.4),
    (4_000, 80, 31, 0.4),
    (2_000, 20, 20, 0.7),
    (1_000, 30, 12, 0.6),
    (0, 28, 9, 0.4),
)
_MAX_DEPTH = 8
# The early prediction uses the first trees whose learning rates add up to about this number: three trees
# at a rate of 0.4, two at 0.7.
_EARLY_RATE = 1.3
# Number of rows from which the edges of the ridge regression's predictions are found.
_EDGE_SAMPLE_ROWS = 2_048


@dataclass(frozen=True)
class Model:
    """A fitted learner: the sum of a ridge regression, of effects of levels, and of trees.

    The trees also use the sum of the first two, binned at ``edges``.
    """

    ridge: CodedRidge
    effects: LevelEffects
    edges: Floats
    trees: Records
    n_early: int  # number of trees in the early prediction

    def predict_stages(self, rows: Coded) -> Floats:
        """Return ``F`` after the first few trees ("early") and after all trees (2, rows).

        The last row of ``rows.codes`` is overwritten with the codes of the prediction without trees.
        """
        codes = rows.codes
        total = np.zeros((2, codes.shape[1]))
        self.ridge.add(codes[:-1], total[0])
        self.effects.add(rows.levels, total[0])
        write_codes(total[0], self.edges, codes[-1:])
        kernel().boosted(codes, None, self.trees[: self.n_early], total[0])
        total[1] = total[0]
        kernel().boosted(codes, None, self.trees[self.n_early :], total[1])
        return total


def fit_model(
    encoding: Encoding, rows: Coded, residual: Floats, weight: Floats, min_leaf_weight: float = 0.0
) -> Model:
    """Fit the residuals ``Y - C`` of rows with weights ``w``.

    The last row of ``rows.codes`` is overwritten with the codes of the prediction without trees. Every
    leaf has at least the weight ``min_leaf_weight``.
    """
    n, codes = len(residual), rows.codes
    ridge = fit_ridge(codes[:-1], encoding.values, residual, weight)
    rest = residual - weight * ridge.out_of_fold
    levels = fit_levels(rows.levels, encoding.n_levels, rest, weight, min_leaf_weight)
    rest -= weight * levels.out_of_fold
    linear = ridge.out_of_fold + levels.out_of_fold
    columns = np.append(_screen_columns(codes[:-1], rest, weight), np.int32(len(codes) - 1))
    edges = edges_of(linear[None, :: max(n // _EDGE_SAMPLE_ROWS, 1)])[0]
    write_codes(linear, edges, codes[-1:])
    growth = growth_for(weight, min_leaf_weight)
    trees = kernel().boost(codes, columns, rest, weight, None, np.zeros(n), growth)
    return Model(ridge.model, levels.model, edges, trees, round(_EARLY_RATE / growth.rate))


def growth_for(weight: Floats, min_leaf_weight: float = 0.0) -> Growth:
    """Return the settings of the trees for rows with these weights."""
    _, n_trees, n_leaves, rate = next(size for size in _TREE_SIZES if len(weight) >= size[0])
    mean = float(weight.mean())
    penalty = max(_LEAF_PENALTY_ROWS * mean, min_leaf_weight)
    return Growth(
        n_trees, n_leaves, _MAX_DEPTH, rate, penalty, max(_MIN_LEAF_ROWS * mean, min_leaf_weight)
    )


def _screen_columns(codes: Bytes, rest: Floats, weight: Floats) -> NDArray[np.int32]:
    """Return the columns for the trees: all or, if there are many, the best ones and the score."""
    if len(codes) <= _MAX_UNSCREENED:
        return np.arange(len(codes), dtype=np.int32)
    gains = kernel().single_splits(codes, rest, weight)
    best = np.argsort(-gains, kind="stable")[:_N_SCREENED]
    return np.unique(np.append(best, len(codes) - 1)).astype(np.int32)
