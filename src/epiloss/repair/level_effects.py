"""Effects of the levels of categorical columns on the log-odds, for corrections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.estimation.learning.levels import LevelEffects, Levels, fit_effects
from epiloss.repair.additive import LEAST_VARIANCE


def fit_level_effects(
    levels: Levels,
    n_levels: dict[int, int],
    base: Floats,
    labels: Floats,
    weights: Floats,
    folds: Sequence[Codes],
) -> list[LevelEffects]:
    """Return, for each fold, the effects fitted to the rows of all other folds."""
    residual = weights * (labels - base)
    variance = weights * np.maximum(base * (1 - base), LEAST_VARIANCE)
    found = []
    for fold in folds:
        rest = np.delete(np.arange(len(base)), fold)
        own = {j: level[rest] for j, level in levels.items()}
        found.append(fit_effects(own, n_levels, residual[rest], variance[rest]))
    return found


def effects_at(effects: LevelEffects, levels: Levels, rows: Codes) -> Floats:
    """Return the sum of the effects of the levels of some rows."""
    total = np.zeros(len(rows))
    effects.add({j: level[rows] for j, level in levels.items()}, total)
    return total


def sum_of_effects(
    parts: Sequence[LevelEffects], n_levels: dict[int, int], factor: float
) -> LevelEffects:
    """Return the sum of all effects, multiplied by a factor."""
    sums = {j: np.zeros(n + 1) for j, n in n_levels.items()}
    for part in parts:
        for j, effects in part.effects.items():
            sums[j] += factor * effects
    return LevelEffects({j: effects for j, effects in sums.items() if effects.any()})
