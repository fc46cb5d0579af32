"""Weights that depend on the label, such as those of down-sampled negatives and of balanced classes.

The noise of a weighted rate is ``sum w^2 (y - c)^2 / (sum w)^2``. Kish's effective number of rows
assumes that weights do not depend on labels given the score. If positives have ``ratio`` times the
weight of negatives with equal scores, the squared weights of positives and negatives are multiplied by

    1 - c + c / ratio          and          ratio (1 - c) + c

so that ``c (1 - c)`` divided by the effective number of rows is the noise. With the ratio from all rows,
this also holds where by chance all labels are equal.
"""

from __future__ import annotations

import numpy as np

from epiloss._typing import Floats

_SIGNIFICANT, _LEAST_RATIO = 4.0, 0.1  # standard errors and size of a dependence on labels
_BLOCK = 20  # rows of nearly equal score, among which labels are compared
_LEAST_SPREAD = 3.0  # sum of squared deviations of labels that can show a dependence


def squares_factor(labels: Floats, weights: Floats, scores: Floats, curve: Floats) -> Floats | None:
    """Return the factor of each row's squared weight; None if weights do not depend on labels.

    Examples
    --------
    >>> y, scores, curve = np.tile([0.0, 1.0], 50), np.full(100, 0.3), np.full(100, 0.25)
    >>> squares_factor(y, np.where(y > 0, 1.0, 3.0), scores, curve)[:2].round(2).tolist()
    [0.5, 1.5]
    >>> squares_factor(y, np.tile([1.0, 1.0, 3.0, 3.0], 25), scores, curve)
    """
    ratio = _log_ratio(labels, weights, scores)
    if ratio == 0:
        return None
    ratio = np.exp(ratio)
    factor: Floats = np.where(labels > 0.5, 1 - curve + curve / ratio, ratio * (1 - curve) + curve)
    return factor


def _log_ratio(labels: Floats, weights: Floats, scores: Floats) -> float:
    """Return by how much the log-weight of positives is larger, at equal scores; 0 if not surely."""
    some = weights > 0
    place = np.unique(scores[some], return_inverse=True)[1]
    below = np.cumsum(np.bincount(place)) - 1  # equal scores are not divided between blocks
    block = below[place] // _BLOCK
    count = np.maximum(np.bincount(block), 1)

    def centred(values: Floats) -> Floats:
        return np.asarray(values - (np.bincount(block, values) / count)[block], float)

    label, logarithm = centred(labels[some]), centred(np.log(weights[some]))
    spread = float(label @ label)
    if not spread > _LEAST_SPREAD:
        return 0.0
    ratio = float(label @ logarithm) / spread
    stderr = float(np.linalg.norm(label * (logarithm - ratio * label))) / spread
    return ratio if abs(ratio) > max(_LEAST_RATIO, _SIGNIFICANT * stderr) else 0.0
