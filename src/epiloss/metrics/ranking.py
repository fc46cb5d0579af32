"""Discrimination and overall performance: accuracy, AUC, average precision, Brier skill, log-loss.

Most functions return the value and the influence of each row, from which standard errors are computed:
the derivative of the value with respect to the row's weight, times that weight.
"""

from __future__ import annotations

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.estimate import Estimate
from epiloss.metrics.result import LeftOutError
from epiloss.metrics.rows import ScoredRows, wilson

ValueAndInfluence = tuple[float, Floats]


def accuracy(rows: ScoredRows, correct: Floats, level: float) -> Estimate:
    """Return the fraction of correctly classified rows, with Wilson's interval.

    With weights or clusters, the interval uses the number of independent rows that would have the same
    standard error.

    Examples
    --------
    >>> correct = np.array([1.0, 1.0, 0.0, 1.0])
    >>> f"{accuracy(ScoredRows(correct, correct), correct, 0.95):.2f}"
    '0.75 [0.30, 0.95]'
    """
    # The weighted mean of equal values may differ from 0 or 1 by rounding.
    all_equal = correct.min() == correct.max()
    value = float(correct[0]) if all_equal else rows.mean(correct)
    stderr = 0.0 if all_equal else rows.stderr(rows.mean_influence(correct))
    n = float(len(correct))
    if rows.weights is not None or rows.clusters is not None:
        n = value * (1 - value) / stderr**2 if stderr > 0 else _effective_size(rows)
    return Estimate(value, stderr, *wilson(value, n, level))


def _effective_size(rows: ScoredRows) -> float:
    """Return Kish's effective number of rows, or of clusters."""
    share = rows.share
    if rows.clusters is not None:
        share = np.bincount(rows.clusters, share).astype(float)
    return float(1 / (share**2).sum())


def auc(rows: ScoredRows) -> ValueAndInfluence:
    """Return the probability that a positive row scores above a negative one; ties count half.

    The standard error from the influence values is that of DeLong et al. (1988).

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
    """Return factors that make the variance unbiased within each class."""
    n, n1 = len(positive), int(positive.sum())
    if min(n1, n - n1) < 2:
        return np.full(n, np.nan)
    sizes = np.where(positive, n1, n - n1)
    return np.asarray(np.sqrt(sizes / (sizes - 1) * (n - 1) / n), float)


def average_precision(rows: ScoredRows) -> ValueAndInfluence:
    """Return the mean over positive rows of the precision at their score.

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
    # A positive row adds its own precision and raises the precision at lower scores.
    gain = precision - value + more
    change = np.where(rows.labels == 1, gain[rows.place], 0.0) - less[rows.place]
    return value, np.asarray(rows.share * change / total, float)


def _by_score(rows: ScoredRows) -> tuple[Floats, Floats]:
    """Return the weight of positive and of negative rows at each distinct score."""
    w1 = np.bincount(rows.place, rows.share * rows.labels).astype(float)
    w0 = np.bincount(rows.place, rows.share * (1 - rows.labels)).astype(float)
    if w1.sum() == 0 or w0.sum() == 0:
        raise LeftOutError("needs both positive and negative labels")
    return w1, w0


def brier_skill(rows: ScoredRows, losses: Floats, indicators: Floats) -> ValueAndInfluence:
    """Return ``1 - B / B0``, where ``B0`` is the Brier score of always predicting the base rate.

    ``losses`` are the squared errors of the rows, ``indicators`` (n, k) the outcomes of k classes.

    Examples
    --------
    >>> s, y = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.0, 0.0, 1.0, 1.0])
    >>> round(brier_skill(ScoredRows(s, y), (s - y) ** 2, y[:, None])[0], 4)
    0.6
    """
    rates = rows.share @ indicators
    reference = float((rates * (1 - rates)).sum())
    if reference <= 0:
        raise LeftOutError("all labels are the same, so the Brier score of the base rate is 0")
    ratio = rows.mean(losses) / reference
    of_reference = rows.share * ((indicators - rates) @ (1 - 2 * rates))
    influence = (ratio * of_reference - rows.mean_influence(losses)) / reference
    return 1 - ratio, np.asarray(influence, float)


def mean_loss(rows: ScoredRows, losses: Floats) -> ValueAndInfluence:
    """Return the mean loss; an infinite mean has no standard error."""
    if not np.isfinite(losses).all():
        return float("inf"), np.full(len(losses), np.nan)
    return rows.mean(losses), rows.mean_influence(losses)
