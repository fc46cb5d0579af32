"""How the variance of a twin estimate grows with the grouping loss, and with the noise of the models.

To first order, the influence of a row on the estimate is ``2 kappa(C) (Q - C) (Y - C)``. The variance is
therefore that of noise plus ``k`` times the loss, with ``k = 4 E[kappa(C) C (1 - C)] / n``. The interval
needs ``k``: a sample that underestimates the loss also underestimates its own standard error.

The noise of the models' mean prediction acts like a loss of the same size: in products with the labels
of evaluated rows, and once more where these rows train and the training rows are evaluated. The
influence of rows shows it once. The second time matters in differences between two scores, where most
of the influence cancels and the noise does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.estimation.crossfit.tilts import LogTilts, QuadraticTilts, tilts_of
from epiloss.estimation.twins.centring import ScoreBasis
from epiloss.scoring import ScoringRule

if TYPE_CHECKING:
    from epiloss.estimation.twins.evaluate import TwinRows
    from epiloss.input.tasks import BinaryProblem


def variance_per_loss(
    labels: Floats, scores: Floats, weights: Floats | None, rule: ScoringRule, share_sq: float
) -> float:
    """Return ``k``, the increase of the variance of the estimate per unit of loss.

    The rows must be sorted by score. ``share_sq`` is the sum of the squares of the rows' shares of the
    total weight: ``1 / n`` if all weights are equal.
    """
    curve = _curve(labels, scores, weights)
    spread = QuadraticTilts(rule).stiffness(curve) * curve * (1 - curve)
    return 4 * float(np.average(spread, weights=weights)) * share_sq


def noise_of_models(problem: BinaryProblem, rows: TwinRows, evaluated: NDArray[np.bool_]) -> float:
    """Return the loss of size equal to the noise of the models' mean prediction, at least 0.

    It is the mean size of that prediction less the mean product of twins, which has no noise. The rows
    of ``problem`` must be sorted by score; ``rows`` are the evaluated ones.
    """
    rule, weights = problem.rule, problem.weights
    tilts, prediction = tilts_of(rule), rows.prediction.astype(float)
    size = prediction**2
    if isinstance(tilts, LogTilts) or not QuadraticTilts(rule).is_even:
        curve = _curve(problem.labels, problem.scores, weights)[evaluated]
        if isinstance(tilts, LogTilts):
            size = tilts.cost(tilts.inside(curve, float(problem.labels.mean())), prediction)[0]
        else:
            size *= QuadraticTilts(rule).stiffness(curve)
    weights = None if weights is None else weights[evaluated]
    return max(float(np.average(size - rows.product, weights=weights)), 0.0)


def _curve(labels: Floats, scores: Floats, weights: Floats | None) -> Floats:
    curve: Floats = np.clip(ScoreBasis.of(scores, weights).mean(labels[None])[0], 0.0, 1.0)
    return curve
