"""Boosted trees on codes: their growth, the predictions of their stages, and their weighted sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epiloss._kernels.boosting import Growth
from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import Bytes, Records
from epiloss._typing import Floats

# smallest number of rows, numbers of trees after which boosting may stop, leaves of each tree
_SIZES: Sequence[tuple[int, tuple[int, ...], int]] = (
    (20_000, (10, 20, 40, 80), 15),
    (5_000, (10, 20, 40), 8),
    (0, (8, 16, 24), 8),
)
_RATE, _DEEPEST, _RIDGE = 0.2, 8, 1.0
# variance that a leaf must have, in rows of average variance. It is small because rows with scores near
# 0 or 1 have little variance, and where such scores are wrong there is much to repair
_LEAST_ROWS = 5.0


def stages_for(n_rows: int) -> tuple[int, ...]:
    """Return the numbers of trees after which boosting may stop."""
    return _size(n_rows)[1]


def growth_for(n_rows: int, variance: Floats) -> Growth:
    """Return the growth parameters for rows whose labels have these variances."""
    _, stages, leaves = _size(n_rows)
    return Growth(stages[-1], leaves, _DEEPEST, _RATE, _RIDGE, _LEAST_ROWS * float(variance.mean()))


def _size(n_rows: int) -> tuple[int, tuple[int, ...], int]:
    return next(size for size in _SIZES if n_rows >= size[0])


def predict_stages(trees: Records, codes: Bytes, stages: Sequence[int]) -> Floats:
    """Return the predictions after each stage, one column per stage."""
    total = np.zeros(codes.shape[1])
    columns = np.empty((len(total), len(stages)))
    for place, (first, last) in enumerate(zip((0, *stages), stages, strict=False)):
        kernel().boosted(codes, None, trees[first:last], total)
        columns[:, place] = total
    return columns


def weighted_trees(trees: Records, stages: Sequence[int], weights: Floats) -> Records:
    """Return trees whose sum is the weighted sum of the stages, without unused trees."""
    last = max((stage for stage, weight in zip(stages, weights, strict=True) if weight > 0), default=0)
    share = np.array([weights[np.array(stages) > k].sum() for k in range(last)])
    used = trees[:last].copy()
    used["value"] *= share[:, None]
    return used
