"""How well scores rank and predict: accuracy, AUC, average precision, Brier skill score, log-loss.

Each returns the value and what each row adds to its error, from which standard errors are made: its
derivative with respect to the row's weight, times that weight.
"""

from __future__ import annotations

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.estimate import Estimate
from epiloss.metrics.result import LeftOutError
from epiloss.metrics.rows import ScoredRows, wilson

ValueAndInfluence = tuple[float, Floats]


def accuracy(rows: ScoredRows, right: Floats, level: float) -> Estimate:
    """Return the share of rows that are classified right, with Wilson's interval.

    With weights or clusters it is that of as many independent rows as have the same standard error.

    Examples
    --------
    >>> right = np.array([1.0, 1.0, 0.0, 1.0])
    >>> f"{accuracy(ScoredRows(right, right), right, 0.95):.2f}"
    '0.75 [0.30, 0.95]'
    """
    alike = right.min() == right.max()  # whose weighted mean may miss 0 or 1 by rounding
    value = float(right[0]) if alike else rows.mean(right)
    stderr = 0.0 if alike else rows.stderr(rows.mean_influence(right))
    n = float(len(right))
    if rows.weights is not None or rows.clusters is not None:
        n = value * (1 - value) / stderr**2 if stderr > 0 else _independent(rows)
    return Estimate(value, stderr, *wilson(value, n, level))


def _independent(rows: ScoredRows) -> float:
    """Return how many rows, or clusters, of equal weight tell as much as these."""
    share = rows.share
    if rows.clusters is not None:
        share = np.bincount(rows.clusters, share).astype(float)
    return float(1 / (share**2).sum())


def auc(rows: ScoredRows) -> ValueAndInfluence:
    """Return the chance that a positive row scores above a negative one, ties counting half.

    The standard error of what the rows add is that of DeLong et al. (1988).

    Examples
    --------
    >>> rows = ScoredRows(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    >>> float(auc(rows)[0])
    0.75
    """
    w1, w0 = _by_score(rows)
    below = (np.cumsum(w0) - w0 / 2) / w0.sum()
    above = (w1.sum() - np.cumsum(w1) + w1 / 2) / w1.sum()
    value = float(w1 @ below / w1.sum())
    positive = rows.labels == 1
    part = np.where(positive, below[rows.place] - value, above[rows.place] - value)
    total = np.where(positive, w1.sum(), w0.sum())
    return value, np.asarray(rows.share * part / total * _unbiased(positive), float)


def _unbiased(positive: Codes) -> Floats:
    """Return factors that make variances unbiased in both classes, not in all rows together."""
    n, n1 = len(positive), int(positive.sum())
    if min(n1, n - n1) < 2:
        return np.full(n, np.nan)
    sizes = np.where(positive, n1, n - n1)
    return np.asarray(np.sqrt(sizes / (sizes - 1) * (n - 1) / n), float)


def average_precision(rows: ScoredRows) -> ValueAndInfluence:
    """Return the mean precision over the positive rows, each at its own score.

    Examples
    --------
    >>> rows = ScoredRows(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    >>> round(average_precision(rows)[0], 4)
    0.8333
    """
    w1, w0 = _by_score(rows)
    above = np.cumsum((w1 + w0)[::-1])[::-1]
    precision = np.cumsum(w1[::-1])[::-1] / above
    total = w1.sum()
    value = float(w1 @ precision / total)
    more, less = np.cumsum(w1 / above), np.cumsum(w1 * precision / above)
    own = precision - value + more  # of a positive row: its own precision, and those below it
    added = np.where(rows.labels == 1, own[rows.place], 0.0) - less[rows.place]
    return value, np.asarray(rows.share * added / total, float)


def _by_score(rows: ScoredRows) -> tuple[Floats, Floats]:
    """Return the weight of positive and of negative rows at each distinct score."""
    w1 = np.bincount(rows.place, rows.share * rows.labels).astype(float)
    w0 = np.bincount(rows.place, rows.share * (1 - rows.labels)).astype(float)
    if w1.sum() == 0 or w0.sum() == 0:
        raise LeftOutError("it needs rows of both outcomes")
    return w1, w0


def brier_skill(rows: ScoredRows, losses: Floats, indicators: Floats) -> ValueAndInfluence:
    """Return ``1 - B / B0``: the Brier score against that of always predicting the base rates.

    ``losses`` are the squared errors of the rows, ``indicators`` (n, k) the outcomes they are of.

    Examples
    --------
    >>> s, y = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.0, 0.0, 1.0, 1.0])
    >>> round(brier_skill(ScoredRows(s, y), (s - y) ** 2, y[:, None])[0], 4)
    0.6
    """
    rates = rows.share @ indicators
    reference = float((rates * (1 - rates)).sum())
    if reference <= 0:
        raise LeftOutError("all labels are the same, so that the base rate is never wrong")
    ratio = rows.mean(losses) / reference
    of_reference = rows.share * ((indicators - rates) @ (1 - 2 * rates))
    added = (ratio * of_reference - rows.mean_influence(losses)) / reference
    return 1 - ratio, np.asarray(added, float)


def mean_loss(rows: ScoredRows, losses: Floats) -> ValueAndInfluence:
    """Return the mean of the rows' losses; an infinite one has no standard error."""
    if not np.isfinite(losses).all():
        return float("inf"), np.full(len(losses), np.nan)
    return rows.mean(losses), rows.mean_influence(losses)
