"""The cost of decisions by a threshold, and what recalibration and repair would save.

Acting on scores of at least ``t = cost_fp / (cost_fp + cost_fn)`` costs ``cost_fp`` for each false
positive and ``cost_fn`` for each false negative. Deciding by another probability ``P`` instead saves
``(cost_fp + cost_fn) E[(1{P >= t} - 1{S >= t}) (Y - t)]``. Rows that were not used to learn ``P``
estimate this without bias. For ``P = C(S)``, the calibrated score, it is the regret of miscalibration;
the further saving with a ``P`` that also uses the features is the regret of grouping. Both are lower
bounds (Perez-Lebel, Le Morvan and Varoquaux, AISTATS 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss._typing import Floats
from epiloss.analysis.decisions import Decisions
from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.estimate import Estimate, percent
from epiloss.repair.excess_risk import checked_costs
from epiloss.table import Table

_PARTS = ("cost", "calibration", "grouping", "remaining")
_THRESHOLDS = np.linspace(0.02, 0.98, 49)


@dataclass(frozen=True)
class Regret(SavedAsJson, SavedAsPage):
    """The cost per row of decisions at one threshold, and a curve over thresholds.

    Attributes
    ----------
    threshold : float
        Scores of at least this value are acted on.
    cost_fp, cost_fn : float
        The costs of a false positive and of a false negative for which this threshold is optimal.
    cost : Estimate
        The cost of decisions by the scores.
    calibration : Estimate
        What recalibration would save (R_CL).
    grouping : Estimate
        A lower bound on what a repair by the features would save beyond that (R_GL).
    remaining : Estimate
        The cost of decisions after both.
    curve : Table
        The same for other thresholds.
    confidence_level : float
        The level of all intervals.
    n_evaluated : int
        The number of rows whose decisions were counted.

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
    confidence_level: float = 0.95
    n_evaluated: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; numbers that are not finite become None.

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
            "grouping": "- saved by repair beyond that",
            "remaining": "= remaining cost",
        }
        width = max(len(format(getattr(self, name).value, "z.5f")) for name in titles)
        lines.append(f"{'':30}{'value':>{width}} [{percent(self.confidence_level)} interval]")
        for name, title in titles.items():
            value, *interval = format(getattr(self, name), "z.5f").split(" ", 1)
            lines.append(" ".join([f"{title:30}{value:>{width}}", *interval]))
        return "\n".join(lines)


def regret(
    result: Audit,
    *,
    threshold: float | None = None,
    cost_fp: float = 1.0,
    cost_fn: float = 1.0,
    thresholds: Sequence[float] | None = None,
) -> Regret:
    """Estimate the cost of decisions by the scores, and what recalibration and repair would save.

    Parameters
    ----------
    result : Audit
        An audit of a binary or top-label task that still has its rows.
    threshold : float, optional
        Scores of at least this value are acted on. The default is optimal at these costs,
        ``cost_fp / (cost_fp + cost_fn)``. With another threshold, the costs are changed to those for
        which it is optimal, and keep their sum.
    cost_fp, cost_fn : float
        The costs of a false positive and of a false negative.
    thresholds : sequence of float, optional
        Thresholds of the curve.

    Returns
    -------
    Regret
        The cost, both savings and the remaining cost, with intervals.

    See Also
    --------
    RegionRecalibrator : the repair.

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
            raise OptionError(f"thresholds must lie in (0, 1), got {one:g}. Pass probabilities.")
    decisions, level = Decisions.of(result, "regret"), result.confidence_level
    cost, calibration, grouping, remaining = _parts(decisions, at, total, level)
    curve = _curve(decisions, grid, total, level)
    costs = (total * at, total * (1 - at))
    n = len(decisions.labels)
    return Regret(at, *costs, cost, calibration, grouping, remaining, curve, level, n)


def _parts(decisions: Decisions, threshold: float, total: float, level: float) -> list[Estimate]:
    """Return the cost, both savings and the remaining cost, for costs that sum to ``total``."""
    given, calibrated, repaired = decisions.paid(threshold)
    values = [given, given - calibrated, calibrated - repaired, repaired]
    return [decisions.mean(value, level, total) for value in values]


def _curve(decisions: Decisions, thresholds: Floats, total: float, level: float) -> Table:
    columns: dict[str, list[float]] = {"threshold": thresholds.tolist()}
    for threshold in thresholds.tolist():
        for name, estimate in zip(_PARTS, _parts(decisions, threshold, total, level), strict=True):
            for end in ("value", "low", "high"):
                column = columns.setdefault(name if end == "value" else f"{name}_{end}", [])
                column.append(float(getattr(estimate, end)))
    return Table({name: np.array(column) for name, column in columns.items()})
