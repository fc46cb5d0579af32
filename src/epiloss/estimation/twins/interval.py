"""How the variance of a twin estimate grows with the grouping loss.

To first order, the influence of a row on the estimate is ``2 kappa(C) (Q - C) (Y - C)``. The variance is
therefore that of noise plus ``k`` times the loss, with ``k = 4 E[kappa(C) C (1 - C)] / n``. The interval
needs ``k``: a sample that underestimates the loss also underestimates its own standard error.
"""

from __future__ import annotations

import numpy as np

from epiloss._typing import Floats
from epiloss.estimation.crossfit.tilts import QuadraticTilts
from epiloss.estimation.twins.centring import ScoreBasis
from epiloss.scoring import ScoringRule


def variance_per_loss(
    labels: Floats, scores: Floats, weights: Floats | None, rule: ScoringRule, share_sq: float
) -> float:
    """Return ``k``, the increase of the variance of the estimate per unit of loss.

    The rows must be sorted by score. ``share_sq`` is the sum of the squares of the rows' shares of the
    total weight: ``1 / n`` if all weights are equal.
    """
    curve = np.clip(ScoreBasis.of(scores, weights).mean(labels[None])[0], 0.0, 1.0)
    spread = QuadraticTilts(rule).stiffness(curve) * curve * (1 - curve)
    return 4 * float(np.average(spread, weights=weights)) * share_sq
