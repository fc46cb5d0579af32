"""Intervals and tests from standard errors."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.estimate import Estimate

_LEAST_NOISE = 0.25  # share of the variance that does not depend on the loss


def normal_estimate(value: float, stderr: float, level: float) -> Estimate:
    """Return the estimate with its normal interval."""
    if not (np.isfinite(value) and np.isfinite(stderr)):
        return Estimate(value)
    reach = float(ndtri((1 + level) / 2)) * stderr
    return Estimate(value, stderr, value - reach, value + reach)


def loss_estimate(value: float, stderr: float, per_loss: float, level: float) -> Estimate:
    """Return the estimate of a loss whose variance grows by ``per_loss`` times the loss.

    A sample that underestimates such a loss also underestimates its standard error, so ``value +- z
    stderr`` misses on one side. As Wilson's interval does for a rate, this one takes the variance at the
    loss in question. It holds every ``x`` with

        (value - x)^2 <= z^2 (stderr^2 + per_loss (x - value)).

    Below 0, which no loss can be, the variance is that at 0.

    Examples
    --------
    >>> f"{loss_estimate(0.0020, 0.0015, 0.0, 0.95):.4f}"
    '0.0020 [-0.0009, 0.0049]'
    >>> f"{loss_estimate(0.0020, 0.0015, 0.0004, 0.95):.4f}"
    '0.0020 [-0.0004, 0.0058]'
    """
    plain = normal_estimate(value, stderr, level)
    if plain.stderr is None or not per_loss > 0:
        return plain
    z = float(ndtri((1 + level) / 2))
    shift = z * z * per_loss / 2
    reach = float(np.hypot(shift, z * stderr))
    low = value + shift - reach
    if low < 0:
        variance = stderr**2 - per_loss * max(value, 0.0)
        low = value - z * float(np.sqrt(max(variance, _LEAST_NOISE * stderr**2)))
        low = min(low, 0.0)
    return Estimate(value, stderr, low, value + shift + reach)


def unified_interval(x: float, level: float) -> tuple[float, float]:
    """Return the interval of Feldman and Cousins for a mean that cannot be negative.

    ``x`` is normal around it with variance 1. Far from 0 the interval is the usual one; near 0 it
    passes to an upper limit, so that it covers ``level`` everywhere and leaves out 0 where a
    one-sided test of 0 rejects. (Phys. Rev. D 57, 3873, 1998.)

    Examples
    --------
    >>> [round(end, 2) for end in unified_interval(5.0, 0.95)]
    [3.04, 6.96]
    >>> [round(end, 2) for end in unified_interval(0.0, 0.95)]
    [0.0, 1.96]
    """
    z = float(ndtri((1 + level) / 2))
    mean, first, last = _accepted(level)
    low = np.interp(x, last, mean) if x > ndtri(level) else 0.0
    high = np.interp(x, first, mean)
    return (x - z if x >= last[-1] else float(low)), (x + z if x >= 0 else float(high))


@cache
def _accepted(level: float) -> tuple[Floats, Floats, Floats]:
    """Return small means, and between which ``x`` each is accepted: ends of equal likelihood ratio."""
    z = float(ndtri((1 + level) / 2))
    mean = np.linspace(1e-3, z, 400)
    low, high = np.full_like(mean, ndtri(level)), mean + z
    for _ in range(50):  # bisection of the upper end, for all means at once
        end = (low + high) / 2
        inside = ndtr(end - mean) - ndtr(_other_end(end, mean) - mean)
        low, high = np.where(inside < level, end, low), np.where(inside < level, high, end)
    return mean, _other_end(high, mean), high


def _other_end(end: Floats, mean: Floats) -> Floats:
    """Return the ``x`` below the mean whose likelihood ratio is that of ``end``, above it."""
    mirrored = 2 * mean - end
    return np.where(mirrored >= 0, mirrored, (mean**2 - (end - mean) ** 2) / (2 * mean))


def one_sided_pvalue(value: float, stderr: float) -> float | None:
    """Return the probability of so large a value where the truth is 0."""
    if not np.isfinite(stderr):
        return None
    if stderr == 0:
        return 1.0 if value <= 0 else 0.0
    return float(ndtr(-value / stderr))


def difference_estimate(value: float, stderr: float, level: float) -> Estimate:
    """Return a difference with its normal interval and the two-sided p-value of none.

    Examples
    --------
    >>> difference = difference_estimate(1.96, 1.0, 0.95)
    >>> f"{difference:.1f}", f"{difference.pvalue:.2f}"
    ('2.0 [0.0, 3.9]', '0.05')
    """
    estimate = normal_estimate(value, stderr, level)
    if estimate.stderr is None:
        return estimate
    if stderr == 0:
        return replace(estimate, pvalue=1.0 if value == 0 else 0.0)
    return replace(estimate, pvalue=float(2 * ndtr(-abs(value) / stderr)))


def rate_interval(ones: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the exact interval (Clopper-Pearson) of the rates behind ``ones`` in ``n`` labels.

    Examples
    --------
    >>> low, high = rate_interval(np.array([0.0, 5.0]), np.array([10.0, 10.0]), 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.187], [0.308, 0.813])
    """
    # regions are many and counts are few, so that each pair of counts is looked at once
    pairs, place = np.unique(ones + 1j * n, return_inverse=True)
    ones, n = pairs.real, pairs.imag
    tail, zeros = (1 - level) / 2, n - ones
    low = betaincinv(np.maximum(ones, 1e-9), zeros + 1, tail)
    high = betaincinv(ones + 1, np.maximum(zeros, 1e-9), 1 - tail)
    return np.where(ones > 0, low, 0.0)[place], np.where(zeros > 0, high, 1.0)[place]


def rate_pvalue(ones: Floats, n: Floats, rate: Floats) -> Floats:
    """Return the exact two-sided p-value of ``ones`` in ``n`` labels where the rate is ``rate``."""
    zeros, rate = n - ones, np.clip(rate, 1e-12, 1 - 1e-12)
    at_most = np.where(zeros > 0, betainc(np.maximum(zeros, 1e-9), ones + 1, 1 - rate), 1.0)
    at_least = np.where(ones > 0, betainc(np.maximum(ones, 1e-9), zeros + 1, rate), 1.0)
    return np.asarray(np.minimum(2 * np.minimum(at_most, at_least), 1.0), float)


def adjusted_pvalues(pvalues: Floats, method: str = "benjamini-hochberg") -> Floats:
    """Return p-values adjusted for their number.

    ``"benjamini-hochberg"`` bounds the expected share of false discoveries; ``"max"`` bounds the
    chance of a single one, from the distribution of the most extreme of independent tests.

    Examples
    --------
    >>> adjusted_pvalues(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    m = len(pvalues)
    order = np.argsort(pvalues, kind="stable")
    ordered = pvalues[order]
    if method == "benjamini-hochberg":
        stepped = np.minimum.accumulate((ordered * m / np.arange(1, m + 1))[::-1])[::-1]
    elif method == "max":
        # the smallest of what is left, one test after the other (step-down)
        left = np.arange(m, 0, -1)
        stepped = np.maximum.accumulate(-np.expm1(left * np.log1p(-np.minimum(ordered, 1 - 1e-16))))
    else:
        raise OptionError(f"adjust must be 'benjamini-hochberg' or 'max', got {method!r}.")
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
