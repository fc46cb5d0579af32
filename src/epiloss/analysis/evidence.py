r"""Evidence that a mean changed, valid at all times and for any number of looks.

Let ``a`` be the mean of all rows before some day, including the reference, and ``b`` the mean of the
rows since then. While nothing changes, the process ``I (b - a)`` is a Brownian motion in the time
``I = 1 / Var(b - a)``, and

.. math:: E = \sqrt{\rho / (I + \rho)} \; \exp\Big(\frac{I^2 (b - a)^2}{2 (I + \rho)}\Big)

is a martingale that starts at 1 (Robbins 1970). The probability that it ever exceeds ``1 / alpha`` is at
most ``alpha``. The same holds for weighted means of such processes, over groups of rows and over the
days on which the change may have begun.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import zeta

from epiloss._typing import Codes, Floats

_TYPICAL = 0.1  # size of the change, in standard deviations of a row, that is detected fastest
_FIRST, _FLAT, _POWER = 0.25, 20, 1.2  # parameters of start_weight
_MOST = 700.0  # larger logarithms would overflow in exp
_UNKNOWN = 1e9  # variance of the mean of an empty group
_SPACING = 20  # after batch t, starts are t / 20 batches apart


@dataclass(frozen=True)
class Sums:
    """Sums (1 + T, K) of weights and values, and the variances of the sums of values.

    The first row is the reference, followed by a row for each batch. ``row_variance`` (K,) is the
    variance of a single row of the reference. If values were clipped for the evidence, ``seen`` has the
    values before clipping.
    """

    weight: Floats
    value: Floats
    variance: Floats
    row_variance: Floats
    seen: Floats | None = None

    @property
    def n_batches(self) -> int:
        """The number of batches."""
        return len(self.weight) - 1

    def until(self, batch: int) -> Sums:
        """Return the sums up to and including a batch."""
        some = slice(batch + 2)
        seen = None if self.seen is None else self.seen[some]
        return Sums(self.weight[some], self.value[some], self.variance[some], self.row_variance, seen)


@dataclass(frozen=True)
class Change:
    """The difference between the means since a start and before it, and its variance."""

    value: Floats
    variance: Floats
    weight: Floats  # of the rows since the start
    row_variance: Floats

    @property
    def information(self) -> Floats:
        """The inverse variance, which is the time of the Brownian motion."""
        return 1 / self.variance

    @property
    def prior(self) -> Floats:
        """The inverse variance of a change of typical size."""
        return 1 / (_TYPICAL**2 * self.row_variance)


@dataclass(frozen=True)
class Evidence:
    """The evidence (T, K) of a change in each quantity, and the most likely start of the change."""

    log_values: Floats
    start: Codes  # most likely first batch of the change (K,), as of the last batch
    since: Change  # change since that start (K,), as of the last batch


def starts_of(n_batches: int) -> list[int]:
    """Return the batches at which a change may start; later ones are further apart.

    Examples
    --------
    >>> starts_of(5), len(starts_of(365)), starts_of(365)[-2:]
    ([0, 1, 2, 3, 4], 90, [337, 353])
    """
    found, at = [], 0
    while at < n_batches:
        found.append(at)
        at += max(1, at // _SPACING)
    return found


def start_weight(number: int) -> float:
    """Return the weight of the n-th start, counted from 0; the infinite sum of all weights is 1.

    The first start has a quarter of the weight, because the change may have happened between the
    reference and the first batch. The others decrease slowly, so that late changes are found almost as
    fast as early ones.

    Examples
    --------
    >>> round(sum(start_weight(number) for number in range(10**5)), 2)
    0.86
    """
    if number == 0:
        return _FIRST
    return float((1 - _FIRST) * (number + _FLAT) ** -_POWER / zeta(_POWER, 1 + _FLAT))


def evidence_of(sums: Sums) -> Evidence:
    """Return the evidence of a change in each quantity, batch after batch.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> hits = generator.binomial(100, np.repeat([0.3, 0.45], 30))
    >>> value = np.append(3_000.0, hits)[:, None]
    >>> weight = np.append(10_000.0, np.full(60, 100.0))[:, None]
    >>> found = evidence_of(Sums(weight, value, 0.21 * weight, np.array([0.21])))
    >>> bool(found.log_values[29, 0] < 3 < 10 < found.log_values[59, 0]), int(found.start[0])
    (True, 30)
    """
    n_batches, n_cells = sums.n_batches, sums.weight.shape[1]
    mixed = np.zeros((n_batches, n_cells))
    left = np.ones(n_batches)  # weight of the starts that have not come yet
    best, start = np.full(n_cells, -np.inf), np.zeros(n_cells, np.int64)
    for number, first in enumerate(starts_of(n_batches)):
        share = start_weight(number)
        logs = log_evidence(changes_since(sums, first))
        mixed[first:] += share * np.exp(np.minimum(logs, _MOST))
        left[first:] -= share
        now = logs[-1] + np.log(share)
        best, start = np.where(now > best, now, best), np.where(now > best, first, start)
    return Evidence(np.log(mixed + left[:, None]), start, _since(sums, start))


def changes_since(sums: Sums, first: int) -> Change:
    """Return the changes since the batch ``first``, as of each batch from there on."""
    before = [np.sum(part[: first + 1], axis=0) for part in _parts(sums)]
    after = [np.cumsum(part[first + 1 :], axis=0) for part in _parts(sums)]
    return _change(before, after, sums.row_variance)


def _since(sums: Sums, start: Codes) -> Change:
    """Return the change of each quantity since its own start, as of the last batch."""
    is_before = np.arange(len(sums.weight))[:, None] <= start
    sums = sums if sums.seen is None else replace(sums, value=sums.seen)
    before = [np.sum(part * is_before, axis=0) for part in _parts(sums)]
    after = [np.sum(part * ~is_before, axis=0) for part in _parts(sums)]
    return _change(before, after, sums.row_variance)


def _parts(sums: Sums) -> tuple[Floats, Floats, Floats]:
    return sums.weight, sums.value, sums.variance


def _change(before: list[Floats], after: list[Floats], row_variance: Floats) -> Change:
    """Return the difference of two means; without rows it is 0 with a huge variance."""
    weight = after[0]
    seen = (weight > 0) & (before[0] > 0)
    then, now = (np.where(seen, part[0], 1.0) for part in (before, after))
    value = np.where(seen, after[1] / now - before[1] / then, 0.0)
    variance = np.where(seen, after[2] / now**2 + before[2] / then**2, _UNKNOWN)
    return Change(value, np.maximum(variance, 1e-30), weight, row_variance)


def log_evidence(change: Change) -> Floats:
    """Return the logarithm of ``E``, with Bernstein's correction for the tails of small sums."""
    information, prior = change.information, change.prior
    square = change.value**2 / _bernstein(change)
    grown: Floats = 0.5 * square * information / (information + prior)
    return grown - 0.5 * np.log1p(information / prior)


def half_width(change: Change, log_limit: Floats) -> Floats:
    """Return the half-width of the interval for the change that is valid at all times."""
    information, prior = change.information, change.prior
    needed = 2 * (log_limit + 0.5 * np.log1p(information / prior))
    needed = needed * (information + prior) / information
    # x^2 = needed (V + |x| / 3 w), where V is the variance and w the weight
    third = needed / (6 * np.maximum(change.weight, 1.0))
    width: Floats = third + np.sqrt(third**2 + needed * change.variance)
    return width


def _bernstein(change: Change) -> Floats:
    """Return the variance with Bernstein's correction, because sums of bounded values are not normal."""
    added: Floats = change.variance + np.abs(change.value) / (3 * np.maximum(change.weight, 1.0))
    return added
