"""Noise of calibration errors: noise floors, and intervals for the error without noise.

A calibration error is a norm of the gaps between rates and scores. Noise biases it upwards, most where
the gaps are small, so that neither normal nor bootstrap intervals have the right coverage.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from epiloss._typing import Floats
from epiloss.estimate import Estimate
from epiloss.metrics.result import NoiseFloor

Norm = Callable[[Floats], Floats]  # from gaps (draws, m) to one number per draw

DRAWS = 500
_HIGH = 0.95  # upper quantile given by a noise floor
_STEPS = 16  # of the bisection
_LARGEST_MULTIPLE = 64.0  # of the observed gaps, the upper limit of any interval


def noise_floor(values: Floats) -> NoiseFloor:
    """Return the mean and upper quantile of the errors of simulated calibrated models."""
    return NoiseFloor(float(values.mean()), float(np.quantile(values, _HIGH)))


def chance_gaps(score: Floats, size: Floats, variance: Floats, generator: np.random.Generator) -> Floats:
    """Simulate the gaps (draws, m) of a calibrated model, whose labels are drawn from the scores.

    The gaps are binomial, rescaled because the labels of a cell do not all have the cell's mean score.
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

    The true gaps are assumed to be a multiple of the observed ones. The interval contains the multiples
    for which the observed norm is in neither tail of the simulated distribution.

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
    summed = np.empty_like(noise)  # reused, since new memory takes longer than the sums

    def norms(multiple: float) -> Floats:
        return norm(np.add(noise, multiple * gaps, out=summed))

    def is_too_small(multiple: float) -> bool:
        """Return whether a norm as large as the observed one is improbable for this multiple."""
        return float((norms(multiple) >= observed).mean()) < tail

    def is_too_large(multiple: float) -> bool:
        """Return whether a norm as small as the observed one is improbable for this multiple."""
        return float((norms(multiple) <= observed).mean()) < tail

    if is_too_large(0.0):
        return 0.0, observed  # even noise alone gives larger norms
    top = 1.0
    while not is_too_large(top) and top < _LARGEST_MULTIPLE:
        top *= 2
    low = _bisect(is_too_small, 0.0, 1.0) if is_too_small(0.0) else 0.0
    return low * observed, _bisect(lambda multiple: not is_too_large(multiple), 0.0, top) * observed


def with_interval(value: float, ends: tuple[float, float] | None) -> Estimate:
    """Return an estimate with its interval, widened to contain the value where noise put it outside.

    Examples
    --------
    >>> with_interval(0.05, (0.0, 0.04)).high
    0.05
    """
    if ends is None:
        return Estimate(value)
    return Estimate(value, None, min(ends[0], value), max(ends[1], value))


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the largest argument at which a condition holds that holds at ``low``, by bisection."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
