"""Keep the noise of predictions out of the twin estimate, and test whether there is a grouping loss.

How far the predictions for a part of the rows are used is decided on the other parts. All decisions
depend on the means of ``abar r`` and ``a1 a2`` and on their standard errors.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from epiloss._threads import dot
from epiloss._typing import Floats
from epiloss.estimation.influence import Influence

# A row with more than this share of the total weight moves the mean noticeably towards its own value.
_HEAVY_SHARE = 0.01
# Minimum share of the weight of all other rows, to avoid a division by zero.
_MIN_OTHER_SHARE = 1e-12
# Models share training rows. If there is nothing to learn, the variance of the mean of ``abar r`` is
# therefore up to this many times that of independent rows.
_NULL_VARIANCE_FACTOR = 2.0


def influence_on_mean(values: Floats, weight: Floats) -> Influence:
    """Return the influence of rows on the weighted mean of their values.

    A heavy row moves the mean towards its own value. If there is one, each row's influence is therefore
    based on the difference from the mean of the other rows.
    """
    share = weight / weight.sum()
    influence = share * (values - dot(share, values))
    largest_share = float(share.max(initial=0.0))
    if largest_share > _HEAVY_SHARE:
        influence = influence / np.maximum(1 - share, _MIN_OTHER_SHARE)
    return Influence(influence)


def z_and_pvalue(cross: float, stderr: float) -> tuple[float, float]:
    """Return the z-score of the mean of ``abar r``, and the p-value of no grouping loss."""
    if not stderr > 0:
        return 0.0, 1.0
    return cross / stderr, float(ndtr(-cross / stderr / np.sqrt(_NULL_VARIANCE_FACTOR)))


def shrinkage_factor(cross: float, stderr: float) -> float:
    """Return the factor of the predictions, from the mean of ``abar r`` on other parts.

    It is 0 if the models predict nothing there, which keeps their noise out of the estimate, and grows
    to 1 with the z-score.

    Examples
    --------
    >>> [round(shrinkage_factor(cross, stderr=0.1), 2) for cross in (-0.1, 0.0, 0.1, 0.2)]
    [0.0, 0.0, 0.71, 1.0]
    """
    return float(np.clip(z_and_pvalue(cross, stderr)[0] / np.sqrt(_NULL_VARIANCE_FACTOR), 0.0, 1.0))


def late_weight(gain: float, stderr: float) -> float:
    """Return the weight of the later trees, from the additional gain by them on other parts.

    It grows from 0 to 1 while the gain grows from 0 to two standard errors.

    Examples
    --------
    >>> [late_weight(gain, stderr=0.1) for gain in (-0.1, 0.0, 0.1, 0.2)]
    [0.0, 0.0, 0.5, 1.0]
    """
    return float(np.clip(gain / (2 * stderr), 0.0, 1.0)) if stderr > 0 else float(gain > 0)


def unit_factor(cross: float, product: float) -> float:
    """Return the factor that converts a custom learner's predictions into the unit of ``Q - C``.

    It is 1 if the means of ``abar r`` and ``a1 a2`` on other parts do not determine it.

    Examples
    --------
    >>> unit_factor(cross=0.5, product=2.0), unit_factor(cross=-0.5, product=2.0)
    (0.25, 1.0)
    """
    return cross / product if cross > 0 and product > 0 else 1.0
