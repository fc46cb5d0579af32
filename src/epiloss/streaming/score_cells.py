"""A histogram of the scores that is fine enough to fit calibration curves on it.

Cells have equal relative widths towards 0 and towards 1, because the scores of rare events are close to
0. The rows are split in two halves by their keys, each with its own sums, so that two independent curves
can be fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference import LIMB
from epiloss._typing import Codes, Floats
from epiloss.calibration.curves import Curve, CurveFitter, GivenCurve
from epiloss.calibration.smoothers import DistinctScores
from epiloss.input.tasks import BinaryProblem

_OCTAVES = 30  # scores nearer to 0 or 1 than 2**-30 share a cell
_TIMES = 4  # a cell with this many times the rows of its neighbours holds one repeated score
WEIGHT, SCORE, LABEL = range(3)


@dataclass(frozen=True)
class ScoreCells:
    """Exact fixed-point sums (2 limbs, weight/score/label, 2 halves, cells); see RegionStats."""

    bits: int
    sums: NDArray[np.int64]

    @classmethod
    def empty(cls, n_problems: int) -> ScoreCells:
        """Return cells without rows; with many problems, cells are wider to save memory."""
        bits = 10 if n_problems <= 4 else 7 if n_problems <= 32 else 5
        return cls(bits, np.zeros(cell_shape(bits), np.int64))

    def add(self, problem: BinaryProblem, half: Codes) -> None:
        """Add rows, in place."""
        n_cells = self.sums.shape[3]
        code = cells_of(problem.scores, self.bits)
        code += half * n_cells
        weight = np.ones(len(code)) if problem.weights is None else problem.weights
        values = (weight, weight * problem.scores, weight * problem.labels)
        for place, value in enumerate(values):
            high, low = self.sums[0, place].reshape(-1), self.sums[1, place].reshape(-1)
            kernel().add_fixed_point(code, value, high, low)

    def merge(self, other: ScoreCells) -> ScoreCells:
        """Return the sums of both."""
        return ScoreCells(self.bits, self.sums + other.sums)

    @property
    def values(self) -> Floats:
        """The sums (weight/score/label, halves, cells) as floats."""
        value: Floats = self.sums[0] / LIMB + self.sums[1] / (LIMB * LIMB)
        return value

    def curves(self, fitter: CurveFitter, n_rows: int) -> tuple[Curve, Curve]:
        """Fit a calibration curve on each half."""
        values = self.values
        scale = n_rows / values[WEIGHT].sum()
        together = values.sum(axis=1)
        of_one_score = _stands_out(together[WEIGHT])
        both = _distinct(together, scale, of_one_score)
        if isinstance(fitter, GivenCurve) or not (values[WEIGHT].sum(axis=1) > 0).all():
            curve = fitter.fit_distinct(both)
            return curve, curve
        a, b = (_distinct(values[:, half], scale, of_one_score) for half in (0, 1))
        return fitter.fit_pair(a, b, both)


def _distinct(values: Floats, scale: float, of_one_score: NDArray[np.bool_]) -> DistinctScores:
    """Return the non-empty cells as distinct scores; ``scale`` converts weights to row counts."""
    some = values[WEIGHT] > 0
    weight, score, label = values[:, some]
    rows = weight * scale
    means = np.clip(score / weight, 0, 1), np.clip(label / weight, 0, 1)
    return DistinctScores(means[0], rows, means[1], of_one_score=of_one_score[some])


def _stands_out(weight: Floats) -> NDArray[np.bool_]:
    """Return which cells have many more rows than their neighbours, as repeated scores do.

    Examples
    --------
    >>> _stands_out(np.array([0.0, 50.0, 1.0, 9.0, 10.0, 8.0])).tolist()
    [False, True, False, False, False, False]
    """
    beside = np.concatenate([[0.0], weight, [0.0]])
    return np.asarray(weight > _TIMES * (beside[:-2] + beside[2:]))


def cells_of(scores: Floats, bits: int) -> Codes:
    """Return the cell of each score; cells increase with the score.

    Examples
    --------
    >>> cells = cells_of(np.array([0.0, 1e-7, 0.499, 0.5, 1 - 1e-7, 1.0]), 5)
    >>> bool((np.diff(cells) > 0).all()), bool(cells.max() < _n_cells(5))
    (True, True)
    """
    nearer = np.maximum(np.minimum(scores, 1 - scores), 2.0**-_OCTAVES)
    place = (nearer.view(np.int64) >> (52 - bits)) - _first(bits)
    return np.where(scores < 0.5, place, _n_cells(bits) - 1 - place)


def _first(bits: int) -> int:
    return (1023 - _OCTAVES) << bits  # the leading bits of 2.0**-_OCTAVES


def cell_shape(bits: int) -> tuple[int, int, int, int]:
    """Return the shape of the sums."""
    return 2, 3, 2, _n_cells(bits)


def _n_cells(bits: int) -> int:
    return 2 * (((_OCTAVES - 1) << bits) + 1)
