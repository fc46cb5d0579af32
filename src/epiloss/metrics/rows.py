"""The rows that metrics are computed from, and intervals of metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logit, ndtri

from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.calibration.clusters import design_effect
from epiloss.estimate import Estimate
from epiloss.estimation.inference import normal_estimate
from epiloss.estimation.influence import Influence


@dataclass(frozen=True)
class ScoredRows:
    """A score and a label in {0, 1} for each row, with optional weights and clusters."""

    scores: Floats
    labels: Floats
    weights: Floats | None = None
    clusters: Codes | None = None

    @cached_property
    def share(self) -> Floats:
        """The weight of each row, normalised to sum to 1."""
        n = len(self.labels)
        if self.weights is None:
            return np.full(n, 1 / n)
        return np.asarray(self.weights / self.weights.sum(), float)

    @cached_property
    def place(self) -> Codes:
        """The index of each row's score among the sorted distinct scores."""
        return np.asarray(np.unique(self.scores, return_inverse=True)[1], np.int64)

    @cached_property
    def rate(self) -> float:
        """The weighted fraction of positive labels."""
        return self.mean(self.labels)

    @cached_property
    def design_effect(self) -> float:
        """The number of rows that count as one independent label because of clusters."""
        if self.clusters is None:
            return 1.0
        effect = design_effect(self.scores, self.labels, self.weights, self.clusters)
        return max(effect, 1.0)

    def mean(self, values: Floats) -> float:
        """Return the weighted mean of one value per row."""
        return dot(self.share, np.asarray(values, float))

    def mean_influence(self, values: Floats) -> Floats:
        """Return the influence of each row on the weighted mean of values."""
        return np.asarray(self.share * (values - self.mean(values)), float)

    def stderr(self, influence: Floats) -> float:
        """Return the standard error of an estimate from the influence of each row on it."""
        return Influence(influence).stderr(self.clusters)


def on_scale(value: float, stderr: float, level: float, scale: str) -> Estimate:
    """Return the estimate with an interval that is normal on the "logit" or "log" scale.

    The limits of such an interval stay within the range of the metric.

    Examples
    --------
    >>> f"{on_scale(0.98, 0.02, 0.95, 'logit'):.3f}"
    '0.980 [0.869, 0.997]'
    """
    to, back, slope = _SCALES[scale]
    inside = value > 0 if scale == "log" else 0 < value < 1
    if not (inside and np.isfinite(stderr)):
        return Estimate(value)
    scaled = normal_estimate(float(to(value)), stderr * slope(value), level)
    assert scaled.low is not None  # value and standard error are finite
    assert scaled.high is not None
    return Estimate(value, stderr, float(back(scaled.low)), float(back(scaled.high)))


_SCALES: dict[str, tuple[Callable[[float], float], Callable[[float], float], Callable[[float], float]]]
_SCALES = {
    "logit": (logit, expit, lambda x: 1 / (x * (1 - x))),
    "log": (np.log, np.exp, lambda x: 1 / x),
}


def wilson(rate: float, n: float, level: float) -> tuple[float, float]:
    """Return Wilson's interval for a rate observed in ``n`` independent labels.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.9, 100, 0.95)]
    [0.826, 0.945]
    """
    z = float(ndtri((1 + level) / 2))
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    # Rounding must not exclude the rate itself where it is 0 or 1.
    return max(min(float(centre - reach), rate), 0.0), min(max(float(centre + reach), rate), 1.0)
