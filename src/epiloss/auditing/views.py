"""The same audit with other regions: those of another partition, or halves by prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.auditing.row_details import RowDetails
from epiloss.auditing.summary import summarise
from epiloss.estimation.inference import adjusted_pvalues, halves_pvalue
from epiloss.estimation.learned import level_sets_of
from epiloss.estimation.partition_bound import Evaluation, evaluate
from epiloss.input.problem import Groups
from epiloss.partition import resolve_partition
from epiloss.table import Columns, Table

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
    other = summarise(problem, options, again, [], None, details.display)
    return replace(other, regions=_with_comparison(other.regions, again, options.adjust))


def _with_comparison(regions: Table, evaluations: Sequence[Evaluation], adjust: str) -> Table:
    """Return the table of halves with the p-values of a comparison of the two halves of each level set.

    Half of the rows that a half is compared with would be its own, so that a test against the rate of
    the level set would not use its level.
    """
    parts = [part for one in evaluations for part in one.regions]
    n, rate, expected = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("effective_n", "label_mean", "expected_mean")
    )
    lower = _lower_halves(regions)
    pairs = np.stack([lower, lower + 1])
    pvalue, adjusted = np.ones(len(regions)), np.ones(len(regions))
    pvalue[pairs] = of_pairs = halves_pvalue(rate[pairs], n[pairs], expected[pairs])
    adjusted[pairs] = adjusted_pvalues(of_pairs, adjust)
    return Table(Columns(regions.columns).also("pvalue", pvalue).also("pvalue_adjusted", adjusted))


def _lower_halves(regions: Table) -> Codes:
    """Return the rows of lower halves that are followed by their upper half."""
    region, level_set = regions["region"], regions["level_set"]
    pair = (region[:-1] == 0) & (region[1:] == 1) & (level_set[:-1] == level_set[1:])
    return np.flatnonzero(pair)


def difference_of_halves(regions: Table) -> float:
    """Return how much higher the rates of upper halves are than those of lower ones, at equal scores.

    This is the mean over level sets, weighted by their rows; NaN if no level set has two halves.
    """
    lower = _lower_halves(regions)
    if not len(lower):
        return math.nan
    share = regions["share"][lower] + regions["share"][lower + 1]
    difference = regions["deviation"][lower + 1] - regions["deviation"][lower]
    return float(share @ difference / share.sum())


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
