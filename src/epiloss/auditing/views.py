"""The same audit with other regions: those of another partition, or halves by prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.auditing.row_details import RowDetails
from epiloss.auditing.summary import summarise
from epiloss.estimation.learned import level_sets_of
from epiloss.estimation.partition_bound import Evaluation, evaluate
from epiloss.input.problem import Groups
from epiloss.partition import resolve_partition

HALVES, STUMP = "halves", "stump"
_NAMES = ("lower half of the predictions", "upper half of the predictions")


def repartitioned(result: Audit, partition: Any) -> Audit:
    """Return the same audit with other regions; the ledger does not change.

    ``"halves"`` splits each level set at the median of the cross-fitted predictions. No row is predicted
    by a model that saw it, so all rows can be shown. If there are no predictions, and for other
    partitions, regions are learned on one half of the rows and shown on the other.
    """
    details = result.details
    if details is None or details.problem.features is None:
        return result
    if isinstance(partition, str) and partition in details.cache:
        return replace(result, **details.cache[partition])
    if partition == HALVES and not has_predictions(result):
        return repartitioned(result, STUMP)
    other = _by_halves(details) if partition == HALVES else _by_partition(details, partition)
    shown: dict[str, Any] = {
        "level_sets": other.level_sets,
        "regions": other.regions,
        "options": {**other.options, "method": result.options["method"]},
        "details": other.details,
    }
    if isinstance(partition, str):
        details.cache[partition] = shown
    return replace(result, **shown)


def has_predictions(result: Audit) -> bool:
    """Return whether there are cross-fitted predictions for every class."""
    details = result.details
    if details is None or details.problem.features is None:
        return False
    return len(details.predictions) == len(details.evaluations)


def _by_partition(details: RowDetails, partition: Any) -> Audit:
    options = replace(details.options, partitioner=resolve_partition(partition), method="paper")
    again = [evaluate(one.problem, options) for one in details.evaluations]
    return summarise(details.problem, options, again, [], None, details.display)


def _by_halves(details: RowDetails) -> Audit:
    options = replace(details.options, method="partition", recalibrate=None)
    again = [
        _halved(one, prediction, details)
        for one, prediction in zip(details.evaluations, details.predictions, strict=True)
    ]
    codes = again[0].problem.groups
    assert codes is not None  # set by _halved
    problem = replace(details.problem, groups=Groups(codes, _NAMES), subgroups={})
    return summarise(problem, options, again, [], None, details.display)


def _halved(evaluation: Evaluation, prediction: NDArray[Any], details: RowDetails) -> Evaluation:
    """Evaluate the two halves of each level set of one class."""
    problem = evaluation.problem
    level_set = level_sets_of(problem, details.options).assign(problem.scores)
    groups = upper_half(level_set, prediction, problem.weights)
    return evaluate(replace(problem, groups=groups), replace(details.options, method="partition"))


def upper_half(level_set: Codes, prediction: NDArray[Any], weights: Floats | None = None) -> Codes:
    """Return 1 for rows in the upper half of the predictions of their level set, and 0 for others.

    Equal predictions stay together; the two parts are as equal as that allows.

    Examples
    --------
    >>> upper_half(np.array([0, 0, 0, 0, 1, 1]), np.array([3.0, 1.0, 2.0, 4.0, 5.0, 5.0])).tolist()
    [1, 0, 0, 1, 0, 0]
    >>> upper_half(np.zeros(4, int), np.array([1.0, 1.0, 1.0, 2.0])).tolist()
    [0, 0, 0, 1]
    """
    weight = np.ones(len(prediction)) if weights is None else weights
    upper = np.zeros(len(prediction), np.int64)
    for rows in _members(level_set):
        values, place = np.unique(prediction[rows], return_inverse=True)
        if len(values) < 2:
            continue
        below = np.cumsum(np.bincount(place, weight[rows]))
        cut = int(np.argmin(np.abs(below[:-1] - below[-1] / 2)))
        upper[rows] = place > cut
    return upper


def _members(codes: Codes) -> Sequence[Codes]:
    """Return the rows of each code."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
