"""The smallest grouping loss that an audit would detect with 80% power.

For an oracle that knows where to look, the squared z-score of a grouping loss is
``n GL / E[C (1 - C)]`` (for the log-loss, ``2 n GL``). Learners must find out where to look, and their
test allows for that search. They need a larger value: more so with many columns, with many rows (where
learners grow more trees) and for rare outcomes. In simulations the test detects 80% of losses at about

    (26 + 4.5 log(1 + d)) (n / 3,000)^0.25 (2 r)^-0.35

for ``d`` columns, ``n`` rows and a share ``r`` of the rarer label, whether one column causes the loss or
a sum of all (``experiments/detectable.py``). A loss that only a product of columns shows is harder to
detect.
"""

from __future__ import annotations

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.run import kish_rows
from epiloss.input.problem import Problem
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import Brier, LogLoss

POWER = 0.8
_ALONE, _PER_COLUMN = 26.0, 4.5
_ROWS, _LIMITS, _RAREST = 3_000, (0.65, 1.6), 1e-3
_BY_LOG = 0.85  # relative to the Brier score


def smallest_detectable(problem: Problem, binary: BinaryProblem, most: float) -> float | None:
    """Return the loss for tasks with one score per row, for the Brier score and the log-loss.

    ``most`` is the upper limit of the grouping loss: the entropy of the calibrated scores.
    """
    if problem.task not in ("binary", "top-label"):
        return None
    n_columns = 1 if problem.features is None else problem.features.n_columns
    n = effective_rows(binary)
    rate = float(np.average(binary.labels, weights=binary.weights))
    rarer = max(2 * min(rate, 1 - rate), _RAREST)
    more = float(np.clip((n / _ROWS) ** 0.25, *_LIMITS) * rarer**-0.35)
    needed: float = (_ALONE + _PER_COLUMN * float(np.log1p(n_columns))) * more / n
    if isinstance(binary.rule, Brier):
        return min(needed * most, most)
    if isinstance(binary.rule, LogLoss):
        return min(_BY_LOG * needed / 2, most)
    return None


def effective_rows(problem: BinaryProblem) -> float:
    """Return the equivalent number of independent rows of equal weight.

    Examples
    --------
    >>> scores, labels = np.full(4, 0.5), np.array([0.0, 0.0, 1.0, 1.0])
    >>> rows = BinaryProblem(None, scores, labels, Brier(), None, None, None, None)
    >>> effective_rows(rows)
    4.0
    """
    n = float(len(problem.labels)) if problem.weights is None else kish_rows(problem.weights)
    if problem.clusters is None:
        return n
    return n / _design_effect(problem.labels - problem.scores, problem.weights, problem.clusters)


def _design_effect(errors: Floats, weights: Floats | None, clusters: Codes) -> float:
    """Return the ratio of the variance of a mean to that of independent rows."""
    weighted = errors if weights is None else weights * errors
    weighted = weighted - weighted.mean()
    alone = float(weighted @ weighted)
    together = np.bincount(clusters, weighted)
    return max(float(together @ together) / alone, 1.0) if alone > 0 else 1.0
