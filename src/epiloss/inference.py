"""Intervals and tests from standard errors."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from epiloss.results import Estimate


def normal_estimate(value: float, stderr: float, level: float) -> Estimate:
    """Return the estimate with its normal interval."""
    if not (np.isfinite(value) and np.isfinite(stderr)):
        return Estimate(value)
    reach = float(ndtri((1 + level) / 2)) * stderr
    return Estimate(value, stderr, value - reach, value + reach)


def one_sided_pvalue(value: float, stderr: float) -> float | None:
    """Return the probability of so large a value where the truth is 0."""
    if not np.isfinite(stderr):
        return None
    if stderr == 0:
        return 1.0 if value <= 0 else 0.0
    return float(ndtr(-value / stderr))
