"""Design effect of clusters: how many dependent labels count as one independent label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.calibration.smoothers import DistinctScores, beta_calibration, calibrated, log_odds_terms

_PARTS = 20  # bins of equal mass, within which scores are nearly equal
_BLOCKS = 1_000  # blocks of scores for the preliminary beta calibration


@dataclass(frozen=True)
class ClusterParts:
    """Rows divided into parts: one part for each combination of cluster and cell."""

    part: Codes  # of each row
    weight: Floats

    @classmethod
    def of(cls, cell: Codes, clusters: Codes, weights: Floats | None) -> ClusterParts:
        """Assign each row to the part of its cluster and cell."""
        part = np.unique(cell * (int(clusters.max()) + 1) + clusters, return_inverse=True)[1]
        return cls(part, np.ones(len(part)) if weights is None else weights)

    @property
    def total(self) -> Floats:
        """The total weight of each row's part."""
        return np.bincount(self.part, self.weight).astype(float)[self.part]

    def correlation(self, residuals: Floats) -> float:
        """Return the correlation of residuals within parts, between 0 and 1.

        It is the mean product of the residuals of two rows of a part, divided by their mean square: 1
        for copies of a row, and about 0 for independent rows.
        """
        w, squares = self.weight, self.weight * residuals**2
        total = np.bincount(self.part, w)
        own = float((w * squares).sum())  # pairs of a row with itself
        products = float((np.bincount(self.part, w * residuals) ** 2).sum()) - own
        most = float((total * np.bincount(self.part, squares)).sum()) - own
        if not most > 1e-12 * own:
            return 1.0  # no part has two rows
        return min(max(products / most, 0.0), 1.0)

    def squares(self, correlation: float) -> Floats:
        """Return each row's term in the sum of squared weights of Kish's effective sample size."""
        others = self.total - self.weight
        return np.asarray(self.weight * (self.weight + correlation * others), float)


def design_effect(scores: Floats, labels: Floats, weights: Floats | None, clusters: Codes) -> float:
    """Return how many rows count as one independent label, among rows of nearly equal score.

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
