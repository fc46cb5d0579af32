"""Effects of the levels of categorical columns, one number per level, shrunk like random effects.

Trees see the codes of a category, which are ordered by mean score and cannot tell levels apart that have
few rows or share a code. With weights ``w``, the sum of the residuals of a level with effect ``b`` has
mean ``w b``, and products of the residuals of two of its rows have mean ``b^2``. These products give the
variance of the effects, and with it the penalty that is best for prediction. The twin estimate is better
with a lighter one, as for the ridge regression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import Bytes
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features

# Columns with fewer levels are left to the trees.
_MIN_LEVELS = 9
# The penalty is this many times smaller than the best one for prediction.
_PENALTY_DIVISOR = 16.0
# Number of times that the effects of several columns are fitted in turn.
_N_SWEEPS = 2

# For each column, the level of every row; missing and unknown levels come after the known ones.
Levels = Mapping[int, NDArray[np.int32]]


def numbers_of_levels(tables: Mapping[int, Bytes]) -> dict[int, int]:
    """Return the number of levels of each column that has many, from the tables of their codes.

    A table has one entry more than the column has levels, for unknown ones.
    """
    return {j: len(table) - 1 for j, table in tables.items() if len(table) > _MIN_LEVELS}


def levels_of(features: Features, n_levels: Mapping[int, int], claimed: Codes | None = None) -> Levels:
    """Return the levels of rows; a column after those of the features is the claimed class."""
    found = {}
    for j, n in n_levels.items():
        column = features.column(j) if j < features.n_columns or claimed is None else claimed
        found[j] = np.fmin(column, n).astype(np.int32)
    return found


@dataclass(frozen=True)
class LevelEffects:
    """The effect of each level of each column; that of missing and unknown levels, the last, is 0."""

    effects: Mapping[int, Floats]

    @property
    def n_levels(self) -> dict[int, int]:
        """The number of levels of each column."""
        return {j: len(effects) - 1 for j, effects in self.effects.items()}

    def add(self, levels: Levels, total: Floats) -> None:
        """Add the effects of the levels of rows to ``total``."""
        for j, effects in self.effects.items():
            total += effects[levels[j]]


@dataclass(frozen=True)
class FittedLevels:
    """The lightly penalised effects, and out-of-fold predictions with the best penalty.

    For the latter, effects are fitted on each half of the rows and predict the other half.
    """

    model: LevelEffects
    out_of_fold: Floats


def fit_levels(
    levels: Levels,
    n_levels: Mapping[int, int],
    residual: Floats,
    weight: Floats,
    min_weight: float = 0.0,
) -> FittedLevels:
    """Fit the residuals of rows with these levels and weights."""
    out_of_fold = np.zeros(len(residual))
    halves = slice(0, None, 2), slice(1, None, 2)
    for half, other in zip(halves, reversed(halves), strict=True) if levels else ():
        own, others = ({j: level[one] for j, level in levels.items()} for one in (half, other))
        effects = fit_effects(own, n_levels, residual[half], weight[half], min_weight=min_weight)
        effects.add(others, out_of_fold[other])
    model = fit_effects(levels, n_levels, residual, weight, _PENALTY_DIVISOR, min_weight)
    return FittedLevels(model, out_of_fold)


def fit_effects(
    levels: Levels,
    n_levels: Mapping[int, int],
    residual: Floats,
    weight: Floats,
    divisor: float = 1.0,
    min_weight: float = 0.0,
) -> LevelEffects:
    """Fit the effects of one column after the other, with the best penalty divided by ``divisor``."""
    effects = {j: np.zeros(n + 1) for j, n in n_levels.items()}
    rest = residual
    for _ in range(_N_SWEEPS if len(effects) > 1 else 1):
        for j, level in levels.items():
            partial = rest + weight * effects[j][level]
            effects[j] = _effects(level, n_levels[j], partial, weight, divisor, min_weight)
            rest = partial - weight * effects[j][level]
    return LevelEffects({j: one for j, one in effects.items() if one.any()})


def _effects(
    level: NDArray[np.int32],
    n_levels: int,
    residual: Floats,
    weight: Floats,
    divisor: float,
    min_weight: float,
) -> Floats:
    sums, mass, own, own_mass = (
        np.bincount(level, values, n_levels + 1) for values in (residual, weight, residual**2, weight**2)
    )
    # Sums over all pairs of rows of a level, which are exact: the order of levels does not matter.
    products, pairs = fsum((sums**2 - own)[:-1]), fsum((mass**2 - own_mass)[:-1])
    if products <= 0 or pairs <= 0:
        return np.zeros(n_levels + 1)
    penalty = max(pairs / products / divisor, min_weight)
    effects: Floats = sums / (mass + penalty)
    effects[-1] = 0.0
    return effects
