"""The range of a diagram's axes: with a rare outcome, all points would lie in a corner of [0, 1]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.auditing.result import Audit
from epiloss.estimation.partition_bound import STEPS
from epiloss.table import Table

_LARGE = 0.2  # above this value, the axes show all of [0, 1]
_ROOM = 1.2  # the axes end at least this many times the largest value
_SIGNIFICANT = 0.05
_LEAST_JOINED = 10  # rows of a level set, whose rate would otherwise draw a spike


def reach_to(largest: float) -> float:
    """Return a round number somewhat above the largest score or rate, at most 1.

    Examples
    --------
    >>> reach_to(0.0031), reach_to(0.09), reach_to(0.4), reach_to(0.0)
    (0.005, 0.2, 1.0, 1.0)
    """
    if not 0 < largest <= _LARGE:
        return 1.0
    power = 10.0 ** math.floor(math.log10(_ROOM * largest))
    step = next(step for step in (1, 2, 5, 10) if step * power >= _ROOM * largest)
    return min(float(f"{step * power:.1g}"), 1.0)


def reach_of(audit: Audit) -> float:
    """Return where the axes end: above all level sets and all significant regions."""
    levels, regions = audit.level_sets, audit.regions
    significant = regions["label_mean"][regions["pvalue_adjusted"] <= _SIGNIFICANT]
    shown = (levels["score_mean"], levels["label_mean"], significant)
    return reach_to(max(float(values.max(initial=0.0)) for values in shown))


def joined(n: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which level sets the calibration curve joins: not those of a few rows, beside larger ones.

    Examples
    --------
    >>> joined(np.array([900, 40, 3])).tolist(), joined(np.array([5, 4])).tolist()
    ([True, True, False], [True, True])
    """
    enough = n >= _LEAST_JOINED
    return enough if enough.sum() > 1 else np.ones(len(n), bool)


def histogram_within(audit: Audit, reach: float, class_name: str | None = None) -> Table:
    """Return a histogram of the scores up to ``reach``, of one class if there are several."""
    table = audit.histogram
    if class_name is not None and "class" in table.columns:
        table = table.take(np.flatnonzero(table["class"].astype(str) == class_name))
    if reach == 1 or audit.details is None:
        return table
    evaluations = audit.details.evaluations
    names = [str(one.problem.name) for one in evaluations]
    problem = evaluations[0 if class_name is None else names.index(class_name)].problem
    inside = problem.scores <= reach
    weights = None if problem.weights is None else problem.weights[inside]
    n, edges = np.histogram(problem.scores[inside], STEPS, (0.0, reach), weights=weights)
    return Table({"low": edges[:-1], "high": edges[1:], "n": n.astype(float)})
