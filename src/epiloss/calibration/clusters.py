"""How much labels of one cluster depend on each other, and how few independent ones they are worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.calibration.smoothers import DistinctScores, beta_calibration, calibrated, log_odds_terms

_PARTS = 20  # of equal mass: rows of nearly equal score
_BLOCKS = 1_000


@dataclass(frozen=True)
class ClusterParts:
    """The rows that each cluster has in each of some cells."""

    part: Codes  # of each row, one for each cluster and cell
    weight: Floats

    @classmethod
    def of(cls, cell: Codes, clusters: Codes, weights: Floats | None) -> ClusterParts:
        """Tell which rows are of one cluster and one cell."""
        part = np.unique(cell * (int(clusters.max()) + 1) + clusters, return_inverse=True)[1]
        return cls(part, np.ones(len(part)) if weights is None else weights)

    @property
    def total(self) -> Floats:
        """The weight of each row's part."""
        return np.bincount(self.part, self.weight).astype(float)[self.part]

    def correlation(self, residuals: Floats) -> float:
        """Return the mean product of two residuals of one part over their mean square, in [0, 1].

        Copies of one row have 1, rows that do not depend on each other about 0.
        """
        w, squares = self.weight, self.weight * residuals**2
        total = np.bincount(self.part, w)
        own = float((w * squares).sum())  # the pairs of a row and itself
        products = float((np.bincount(self.part, w * residuals) ** 2).sum()) - own
        most = float((total * np.bincount(self.part, squares)).sum()) - own
        if not most > 1e-12 * own:
            return 1.0  # no cluster has two rows in a cell
        return min(max(products / most, 0.0), 1.0)

    def squares(self, correlation: float) -> Floats:
        """Return what each row adds to the sum of squared weights, of which Kish's size is made."""
        others = self.total - self.weight
        return np.asarray(self.weight * (self.weight + correlation * others), float)


def design_effect(scores: Floats, labels: Floats, weights: Floats | None, clusters: Codes) -> float:
    """Return how many rows of nearly equal score count as one independent label, at equal weights.

    Examples
    --------
    >>> cluster, y = np.repeat(np.arange(100), 3), np.repeat(np.arange(100) % 2, 3)
    >>> round(design_effect(np.full(300, 0.5), y, None, cluster), 6)
    3.0
    """
    blocks = DistinctScores.gather(scores, labels, weights).in_blocks(_BLOCKS)
    coefficients = beta_calibration(blocks, log_odds_terms(blocks.scores))
    residuals = labels - calibrated(log_odds_terms(scores), coefficients)
    ranks = np.unique(scores, return_inverse=True)[1]
    mass = np.cumsum(np.bincount(ranks, weights))
    part = np.minimum((mass[ranks] * (_PARTS / mass[-1])).astype(np.int64), _PARTS - 1)
    parts = ClusterParts.of(part, clusters, weights)
    squares = parts.squares(parts.correlation(residuals))
    return float(squares.sum() / (parts.weight**2).sum())
