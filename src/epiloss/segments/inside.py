"""Losses within groups: the estimators of the audit, applied to the rows of one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.bound import sum_of_bounds
from epiloss.estimation.crossfit.run import LEAST_LABELS, crossfit, with_subgroups_as_feature
from epiloss.estimation.inference import normal_estimate
from epiloss.estimation.options import Options
from epiloss.estimation.partition_bound import evaluate
from epiloss.input.problem import Groups
from epiloss.input.tasks import BinaryProblem
from epiloss.table import Later

LEAST_INSIDE = 200  # rows that a group needs
MOST_INSIDE = 50  # the largest groups of a column whose losses are estimated
LOSSES = ("calibration_loss", "grouping_loss")
_UNKNOWN = Estimate(float("nan"))


@dataclass(frozen=True)
class InnerLosses:
    """The calibration and grouping loss within each group, estimated on first access.

    They are what an audit of the group's rows alone would find. Weighted by the shares of groups that
    make up all rows, their sum adds up to that of all rows.
    """

    problem: BinaryProblem
    groups: Groups
    options: Options
    _known: dict[int, Mapping[str, Estimate]] = field(default_factory=dict, repr=False)

    def columns(self) -> dict[str, Later]:
        """Return each loss and both ends of its interval as columns, with one row per group."""
        ends = (("", "value"), ("_low", "low"), ("_high", "high"))
        places = np.arange(len(self.groups.names))
        return {
            f"{loss}{end}": Later(partial(self._column, loss, name), places)
            for loss in LOSSES
            for end, name in ends
        }

    def _column(self, loss: str, name: str, places: Codes) -> Floats:
        found = [getattr(self.losses(int(place))[loss], name) for place in places]
        return np.array([np.nan if one is None else one for one in found], float)

    def losses(self, place: int) -> Mapping[str, Estimate]:
        """Return the losses within one group; NaN if it has too few rows."""
        if place not in self._known:
            self._known[place] = self._estimated(place)
        return self._known[place]

    def _estimated(self, place: int) -> Mapping[str, Estimate]:
        size = np.bincount(self.groups.codes, minlength=len(self.groups.names))
        is_large = np.count_nonzero(size > size[place]) < MOST_INSIDE
        rows = np.flatnonzero(self.groups.codes == place)
        labels = self.problem.labels[rows]
        rarer = min(labels.sum(), len(labels) - labels.sum())
        if len(rows) < LEAST_INSIDE or rarer < LEAST_LABELS or not is_large:
            return dict.fromkeys(LOSSES, _UNKNOWN)
        options = replace(self.options, recalibrate=None)
        return inner_losses(self.problem.take(rows), options)


@limited_threads()
def inner_losses(problem: BinaryProblem, options: Options) -> dict[str, Estimate]:
    """Return the calibration and grouping loss of some rows, as an audit of them alone would."""
    level, clusters = options.confidence_level, problem.clusters
    alone = evaluate(replace(problem, features=None, groups=None), options)
    stderr = alone.influence["calibration_loss"].stderr(clusters)
    calibration = normal_estimate(alone.levels.total("calibration_loss"), stderr, level)
    return {"calibration_loss": calibration, "grouping_loss": _grouping_loss(problem, options)}


def _grouping_loss(problem: BinaryProblem, options: Options) -> Estimate:
    if problem.groups is not None and len(np.unique(problem.groups)) < 2:
        problem = replace(problem, groups=None)  # all rows belong to one subgroup
    if problem.features is None and problem.groups is None:
        return _UNKNOWN
    if options.without_bins:
        learned = with_subgroups_as_feature(problem) if options.method == "twin" else problem
        bound = crossfit(learned, options)
        if bound is not None:
            return sum_of_bounds([bound], options.confidence_level, problem.clusters).estimate
    found = evaluate(problem, options)
    value = found.levels.total("explained") - found.levels.total("induced")
    stderr = found.influence["grouping_loss"].stderr(problem.clusters)
    return normal_estimate(value, stderr, options.confidence_level)
