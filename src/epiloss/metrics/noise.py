"""Noise of calibration errors: what chance makes of them, and intervals of what lies behind it.

A calibration error is a norm of gaps between rates and scores. Noise makes it too large, the more so
the smaller the gaps are, so that neither a normal interval nor a bootstrap's holds the truth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from epiloss._typing import Floats
from epiloss.estimate import Estimate
from epiloss.metrics.result import NoiseFloor

Norm = Callable[[Floats], Floats]  # of gaps (draws, m): one number for each draw

DRAWS = 500
_HIGH = 0.95  # the quantile of what chance makes that a floor tells
_STEPS = 16  # of the bisection
_MOST = 64.0  # times the observed gaps, beyond which no interval reaches


def floor_of(values: Floats) -> NoiseFloor:
    """Return mean and upper quantile of what perfectly calibrated models have by chance."""
    return NoiseFloor(float(values.mean()), float(np.quantile(values, _HIGH)))


def chance_gaps(score: Floats, size: Floats, variance: Floats, generator: np.random.Generator) -> Floats:
    """Return gaps (draws, m) of a calibrated model in cells, whose labels are drawn from the scores.

    They are binomial, scaled to the variance of labels that have each their own score.
    """
    n = np.maximum(np.rint(size), 1).astype(np.int64)
    score = np.clip(score, 0, 1)
    spread = score * (1 - score) / n
    scale = np.sqrt(np.divide(variance, spread, out=np.zeros(len(score)), where=spread > 0))
    drawn = generator.binomial(n, score, (DRAWS, len(score))) / n
    return np.asarray((drawn - score) * scale, float)


def inverted_interval(
    norm: Norm, gaps: Floats, noise: Floats, level: float
) -> tuple[float, float] | None:
    """Return an interval of the norm of the true gaps, from observed ``gaps`` and draws of ``noise``.

    The truth is taken to be a multiple of what was observed. It holds those multiples with which the
    observed norm is neither among the smallest nor the largest that noise would make of them.

    Examples
    --------
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal((2000, 1))
    >>> length = lambda gaps: np.abs(gaps[:, 0])
    >>> [round(end, 3) for end in inverted_interval(length, np.array([0.1]), noise, 0.95)]
    [0.081, 0.119]
    """
    observed, tail = float(norm(gaps[None])[0]), (1 - level) / 2
    if observed == 0:
        return None

    def is_smaller(multiple: float) -> bool:
        """Tell whether noise seldom makes as much of a multiple as was observed."""
        return float((norm(multiple * gaps + noise) >= observed).mean()) < tail

    def is_larger(multiple: float) -> bool:
        """Tell whether noise seldom leaves as little of a multiple as was observed."""
        return float((norm(multiple * gaps + noise) <= observed).mean()) < tail

    if is_larger(0.0):
        return 0.0, observed  # less than chance makes of nothing
    top = 1.0
    while not is_larger(top) and top < _MOST:
        top *= 2
    low = _last(is_smaller, 0.0, 1.0) if is_smaller(0.0) else 0.0
    return low * observed, _last(lambda multiple: not is_larger(multiple), 0.0, top) * observed


def holding(value: float, ends: tuple[float, float] | None) -> Estimate:
    """Return a value with the ends of its interval, which is widened where noise put the value outside.

    Examples
    --------
    >>> holding(0.05, (0.0, 0.04)).high
    0.05
    """
    if ends is None:
        return Estimate(value)
    return Estimate(value, None, min(ends[0], value), max(ends[1], value))


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return where something that holds at ``low`` ceases to, by bisection."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
