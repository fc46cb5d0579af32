"""What it costs: decisions by a threshold, and what recalibration and repair would save of their cost.

Who acts where the score is at least ``t = cost_fp / (cost_fp + cost_fn)`` pays ``cost_fp`` for acting in
vain and ``cost_fn`` for not acting where it was due. Acting by another probability ``P`` saves
``(cost_fp + cost_fn) E[(1{P >= t} - 1{S >= t}) (Y - t)]``, which rows that had no part in learning
``P`` estimate without bias: with ``P = C(S)`` the regret of miscalibration, and from there to what the
features tell the regret of grouping, both from below. (Perez-Lebel, Le Morvan and Varoquaux, AISTATS
2025.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._random import stream
from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss._threads import dot, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.estimate import Estimate
from epiloss.estimation.inference import normal_estimate
from epiloss.estimation.influence import Influence
from epiloss.repair.excess_risk import checked_costs, predicted, the_score_of
from epiloss.table import Table

_PARTS = ("cost", "calibration", "grouping", "remaining")
_THRESHOLDS = np.linspace(0.02, 0.98, 49)


@dataclass(frozen=True)
class Regret(SavedAsJson, SavedAsPage):
    """The cost of decisions at one threshold, in your units per row, and a curve over thresholds.

    Attributes
    ----------
    threshold : float
        The score from which on one acts.
    cost_fp, cost_fn : float
        What a false positive and a false negative cost at this threshold.
    cost : Estimate
        The cost of decisions by the scores.
    calibration : Estimate
        What recalibration would save (R_CL).
    grouping : Estimate
        What a repair by the features would save beyond that, at least (R_GL).
    remaining : Estimate
        What decisions would still cost.
    curve : Table
        The same over thresholds.

    See Also
    --------
    regret : returns it.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(1_000)
    >>> costs = epiloss.regret(epiloss.audit(sample.y, sample.scores, sample.X))
    >>> costs.threshold, len(costs.curve) == len(costs.to_dict()["curve"]["threshold"])
    (0.5, True)
    """

    threshold: float
    cost_fp: float
    cost_fn: float
    cost: Estimate
    calibration: Estimate
    grouping: Estimate
    remaining: Estimate
    curve: Table

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        plain = {
            name: value.to_dict() if isinstance(value, Estimate | Table) else value
            for name, value in vars(self).items()
        }
        finite: dict[str, Any] = for_json({"schema": SCHEMA, **plain})
        return finite

    def _page(self, **about: Any) -> str:
        from epiloss.presentation.report.series_pages import regret_page

        return regret_page(self, **about)

    def __str__(self) -> str:
        lines = [
            f"Acting on scores of {self.threshold:.3g} or more (a false positive costs "
            f"{self.cost_fp:g}, a false negative {self.cost_fn:g}), per row:",
        ]
        titles = {
            "cost": "cost of decisions",
            "calibration": "- saved by recalibration",
            "grouping": "- saved by repair beyond it",
            "remaining": "= remaining",
        }
        lines += [f"{title:30}{getattr(self, name):z.5f}" for name, title in titles.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Acts:
    """Scores, calibrated scores and repaired ones, the latter two learned on other rows."""

    labels: Floats
    weight: Floats
    clusters: Codes | None
    probabilities: Sequence[Floats]

    def costs(self, threshold: float, level: float) -> list[Estimate]:
        """Return the cost of acting by the scores, both savings and what remains; the costs sum to 1."""
        acts = [part >= threshold for part in self.probabilities]
        # acting in vain costs t, not acting where due 1 - t
        paid = [
            np.where(act, threshold * (1 - self.labels), (1 - threshold) * self.labels) for act in acts
        ]
        values = [paid[0], paid[0] - paid[1], paid[1] - paid[2], paid[2]]
        return [self._mean(value, level) for value in values]

    def _mean(self, values: Floats, level: float) -> Estimate:
        total = self.weight.sum()
        mean = dot(self.weight, values) / float(total)
        stderr = Influence(self.weight * (values - mean) / total).stderr(self.clusters)
        return normal_estimate(mean, stderr, level)


@limited_threads(openmp=True)
def regret(
    result: Audit,
    *,
    threshold: float | None = None,
    cost_fp: float = 1.0,
    cost_fn: float = 1.0,
    thresholds: Sequence[float] | None = None,
) -> Regret:
    """Estimate what decisions by the audited scores cost, and what recalibration and repair would save.

    Parameters
    ----------
    result : Audit
        Of a binary or top-label task, with its rows.
    threshold : float, optional
        The score from which on one acts; by default the best one at these costs,
        ``cost_fp / (cost_fp + cost_fn)``. With another one, the costs are scaled to it and keep their
        sum.
    cost_fp, cost_fn : float
        What a false positive and a false negative cost.
    thresholds : sequence of float, optional
        Thresholds of the curve.

    Returns
    -------
    Regret
        The cost, what would be saved, and what would remain, with intervals.

    See Also
    --------
    RegionRecalibrator : the repair that saves it.

    References
    ----------
    Elkan, "The foundations of cost-sensitive learning", IJCAI 2001.

    Vickers and Elkin, "Decision curve analysis: a novel method for evaluating prediction models",
    Medical Decision Making 26, 2006.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(4_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> costs = regret(result, cost_fp=1, cost_fn=3)
    >>> bool(costs.grouping.low > 0), bool(abs(costs.calibration.value) < 0.01)
    (True, True)
    """
    total = checked_costs(cost_fp, cost_fn)
    at = cost_fp / total if threshold is None else float(threshold)
    grid = _THRESHOLDS if thresholds is None else np.asarray(thresholds, float)
    for one in (at, *grid):
        if not 0 < one < 1:
            raise OptionError(f"thresholds must lie in (0, 1), got {one:g}.")
    acts, level = _acts(result), result.confidence_level
    cost, calibration, grouping, remaining = (_times(one, total) for one in acts.costs(at, level))
    curve = _curve(acts, grid, total, level)
    costs = (total * at, total * (1 - at))
    return Regret(at, *costs, cost, calibration, grouping, remaining, curve)


def _curve(acts: _Acts, thresholds: Floats, total: float, level: float) -> Table:
    columns: dict[str, list[float]] = {"threshold": thresholds.tolist()}
    for threshold in thresholds.tolist():
        for name, estimate in zip(_PARTS, acts.costs(threshold, level), strict=True):
            scaled = _times(estimate, total)
            for end in ("value", "low", "high"):
                column = columns.setdefault(name if end == "value" else f"{name}_{end}", [])
                column.append(float(getattr(scaled, end)))
    return Table({name: np.array(column) for name, column in columns.items()})


def _acts(result: Audit) -> _Acts:
    problem = the_score_of(result, "regret")
    assert result.details is not None  # as just checked
    generator = stream(result.details.options.seed, "regret")
    calibrated, better = predicted(problem, generator)
    weight = np.ones(len(problem.labels)) if problem.weights is None else problem.weights
    return _Acts(problem.labels, weight, problem.clusters, (problem.scores, calibrated, better))


def _times(estimate: Estimate, factor: float) -> Estimate:
    parts = {
        name: None if value is None else factor * value
        for name, value in vars(estimate).items()
        if name != "pvalue"
    }
    return Estimate(**parts)  # type: ignore[arg-type]  # the value is never None
