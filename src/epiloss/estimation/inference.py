"""Confidence intervals and p-values from standard errors."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri, stdtrit

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.estimate import Estimate

_LEAST_NOISE = 0.25  # minimum fraction of the variance that does not depend on the loss


def normal_estimate(
    value: float, stderr: float, level: float, degrees_of_freedom: float | None = None
) -> Estimate:
    """Return an estimate with a normal interval, or one by Student's t with degrees of freedom."""
    if not (np.isfinite(value) and np.isfinite(stderr)):
        return Estimate(value)
    tail = (1 + level) / 2
    reach = (
        float(ndtri(tail) if degrees_of_freedom is None else stdtrit(degrees_of_freedom, tail)) * stderr
    )
    return Estimate(value, stderr, value - reach, value + reach)


def loss_estimate(value: float, stderr: float, per_loss: float, level: float) -> Estimate:
    """Return the estimate of a loss whose variance grows by ``per_loss`` times the loss.

    A sample that underestimates such a loss also underestimates its standard error, so that the
    interval ``value +- z stderr`` is too short above. Like Wilson's interval for a rate, this interval
    uses the variance at each candidate loss. It contains every ``x`` with

        (value - x)^2 <= z^2 (stderr^2 + per_loss (x - value)).

    For ``x`` below 0, the variance at 0 is used, because no loss is negative. The variance is never less
    than a quarter of ``stderr^2``: a part of it does not depend on the loss.

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
        low = min(value - z * float(np.sqrt(max(variance, 0.0))), 0.0)
    low = min(low, value - z * float(np.sqrt(_LEAST_NOISE)) * stderr)
    return Estimate(value, stderr, low, value + shift + reach)


def agreeing_with_test(estimate: Estimate, level: float) -> Estimate:
    """Return the estimate with an interval that excludes 0 only if its test rejects at ``1 - level``.

    Examples
    --------
    >>> f"{agreeing_with_test(Estimate(0.2, 0.1, 0.05, 0.4, pvalue=0.2), 0.95):.2f}"
    '0.20 [0.00, 0.40]'
    """
    if estimate.low is None or estimate.pvalue is None or estimate.pvalue <= 1 - level:
        return estimate
    return replace(estimate, low=min(estimate.low, 0.0))


def unified_interval(x: float, level: float) -> tuple[float, float]:
    """Return the Feldman-Cousins interval for a mean that cannot be negative.

    ``x`` is normal with this mean and variance 1. Far from 0, the interval is the usual one. Near 0, it
    becomes an upper limit, so that its coverage is ``level`` everywhere, and it excludes 0 exactly if
    a one-sided test rejects 0. See Phys. Rev. D 57, 3873 (1998).

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
    """Return small means and the interval of ``x`` that accepts each, with equal likelihood ratios."""
    z = float(ndtri((1 + level) / 2))
    mean = np.linspace(1e-3, z, 400)
    low, high = np.full_like(mean, ndtri(level)), mean + z
    for _ in range(50):  # bisection of the upper end for all means at once
        end = (low + high) / 2
        inside = ndtr(end - mean) - ndtr(_other_end(end, mean) - mean)
        low, high = np.where(inside < level, end, low), np.where(inside < level, high, end)
    return mean, _other_end(high, mean), high


def _other_end(end: Floats, mean: Floats) -> Floats:
    """Return the ``x`` below the mean that has the same likelihood ratio as ``end`` above it."""
    mirrored = 2 * mean - end
    return np.where(mirrored >= 0, mirrored, (mean**2 - (end - mean) ** 2) / (2 * mean))


def one_sided_pvalue(value: float, stderr: float) -> float | None:
    """Return the one-sided p-value for the hypothesis that the true value is 0."""
    if not np.isfinite(stderr):
        return None
    if stderr == 0:
        return 1.0 if value <= 0 else 0.0
    return float(ndtr(-value / stderr))


def difference_estimate(value: float, stderr: float, level: float) -> Estimate:
    """Return a difference with a normal interval and the two-sided p-value for no difference.

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
    """Return exact (Clopper-Pearson) intervals for the rates, given ``ones`` positives in ``n`` labels.

    Examples
    --------
    >>> low, high = rate_interval(np.array([0.0, 5.0]), np.array([10.0, 10.0]), 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.187], [0.308, 0.813])
    """
    # There are many regions but few distinct pairs of counts, so that each pair is computed once.
    pairs, index = np.unique(ones + 1j * n, return_inverse=True)
    ones, n = pairs.real, pairs.imag
    tail, zeros = (1 - level) / 2, n - ones
    low = betaincinv(np.maximum(ones, 1e-9), zeros + 1, tail)
    high = betaincinv(ones + 1, np.maximum(zeros, 1e-9), 1 - tail)
    return np.where(ones > 0, low, 0.0)[index], np.where(zeros > 0, high, 1.0)[index]


def rate_pvalue(ones: Floats, n: Floats, rate: Floats) -> Floats:
    """Return exact two-sided p-values for a rate, given ``ones`` positives in ``n`` labels."""
    zeros, rate = n - ones, np.clip(rate, 1e-12, 1 - 1e-12)
    at_most = np.where(zeros > 0, betainc(np.maximum(zeros, 1e-9), ones + 1, 1 - rate), 1.0)
    at_least = np.where(ones > 0, betainc(np.maximum(ones, 1e-9), zeros + 1, rate), 1.0)
    return np.asarray(np.minimum(2 * np.minimum(at_most, at_least), 1.0), float)


def halves_pvalue(rate: Floats, n: Floats, expected: Floats) -> Floats:
    """Return two-sided p-values for equal deviations of two halves from their expected rates.

    The arrays have shape (2, m), with one column for each pair. Given the number of positives of a pair,
    that of its upper half is hypergeometric, and nearly symmetric even for rare outcomes, so that the
    normal distribution with a correction for continuity is accurate.

    Examples
    --------
    >>> n, expected = np.full((2, 3), 200.0), np.full((2, 3), 0.1)
    >>> halves_pvalue(np.array([[0.1, 0.1, 0.0], [0.1, 0.18, 0.005]]), n, expected).round(3).tolist()
    [1.0, 0.031, 1.0]
    """
    total = n.sum(0)
    apart = n.prod(0) / total
    difference = apart * np.abs(np.diff(rate - expected, axis=0)[0])
    mean = (rate * n).sum(0) / total
    variance = apart * mean * (1 - mean) * total / np.maximum(total - 1, 1)
    z = np.maximum(difference - 0.5, 0) / np.sqrt(np.where(variance > 0, variance, np.inf))
    return np.asarray(2 * ndtr(-z), float)


def adjusted_pvalues(pvalues: Floats, method: str = "benjamini-hochberg") -> Floats:
    """Return p-values adjusted for multiple testing.

    ``"benjamini-hochberg"`` controls the expected fraction of false discoveries. ``"max"`` controls the
    probability of any false discovery, by the distribution of the smallest of independent p-values.

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
        # Step-down: each p-value is compared with the smallest of the remaining ones.
        remaining = np.arange(m, 0, -1)
        log_survival = np.log1p(-np.minimum(ordered, 1 - 1e-16))
        stepped = np.maximum.accumulate(-np.expm1(remaining * log_survival))
    else:
        raise OptionError(f"adjust must be 'benjamini-hochberg' or 'max', got {method!r}.")
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
