"""Decisions by scores, by calibrated scores and by repaired scores of the same rows, and their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from epiloss._random import stream
from epiloss._threads import dot, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.estimate import Estimate
from epiloss.estimation.inference import normal_estimate
from epiloss.estimation.influence import Influence
from epiloss.repair.excess_risk import can_be_cross_fitted, checked_costs, cross_fitted, single_score
from epiloss.table import Table

# The costs of a false positive and a false negative.
USUAL_COSTS = ((10, 1), (3, 1), (1, 1), (1, 3), (1, 10), (1, 30), (1, 100))
_MOST, _LEAST_SHARE = (
    4,
    0.02,
)  # usual costs in a table, and the share of rows on each side of a threshold
_MOST_ROWS = 50_000  # rows that the repaired scores of a table are learned from
_TINY = 1e-6


@dataclass(frozen=True)
class Decisions:
    """Rows with their scores, calibrated scores and repaired scores; the latter two are cross-fitted."""

    labels: Floats
    weight: Floats
    clusters: Codes | None
    probabilities: Sequence[Floats]

    @classmethod
    def of(cls, result: Audit, what: str, most: int | None = None) -> Decisions:
        """Cross-fit the rows of an audit, or a sample of ``most`` rows; learned once for each size."""
        problem = single_score(result, what)
        details, n = result.details, len(problem.labels)
        assert details is not None  # checked by single_score
        generator = stream(details.options.seed, "regret")
        if most is not None and n > most:
            problem = problem.take(np.sort(generator.permutation(n)[:most]))

        def learn() -> Decisions:
            weight = np.ones(len(problem.labels)) if problem.weights is None else problem.weights
            better = cross_fitted(problem, generator)
            return cls(problem.labels, weight, problem.clusters, (problem.scores, *better))

        with limited_threads(openmp=True):
            return details.kept(f"decisions of {len(problem.labels)} rows", learn)

    def paid(self, threshold: float) -> list[Floats]:
        """Return what each row costs by each probability, for costs that sum to 1."""
        # a false positive costs t, a false negative 1 - t
        return [
            np.where(part >= threshold, threshold * (1 - self.labels), (1 - threshold) * self.labels)
            for part in self.probabilities
        ]

    def share_acted_on(self, threshold: float) -> float:
        """Return the share of rows with a score of at least the threshold."""
        return self._average((self.probabilities[0] >= threshold).astype(float))

    @property
    def base_rate(self) -> float:
        """The mean of the labels."""
        return self._average(self.labels)

    def mean(self, values: Floats, level: float, factor: float = 1.0) -> Estimate:
        """Return the mean of the rows' values times a factor, with its interval."""
        mean, total = self._average(values), float(self.weight.sum())
        stderr = Influence(self.weight * (values - mean) / total).stderr(self.clusters)
        return normal_estimate(factor * mean, factor * stderr, level)

    def _average(self, values: Floats) -> float:
        return dot(self.weight, values) / float(self.weight.sum())


@dataclass(frozen=True)
class CostsOfDecisions:
    """What decisions by the scores cost per 1,000 rows, and what repaired scores would save.

    ``n`` is the number of rows used. ``by_score_alone`` says that there are neither features nor
    subgroups, so that a repair can only recalibrate.
    """

    table: Table
    n: int
    by_score_alone: bool


def usual_decisions(
    result: Audit, costs: Sequence[tuple[float, float]] | None = None
) -> CostsOfDecisions | None:
    """Return the costs of decisions by the scores, with one row for each pair of costs.

    ``costs`` are pairs of the costs of a false positive and a false negative. By default, up to four
    usual pairs are taken, with which some rows are acted on and others are not. At most 50,000 rows are
    used. None if a row has several scores, if rows were not kept or are very few, or if there is nothing
    to decide.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(4_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> table = usual_decisions(result, [(1, 3)]).table
    >>> table["threshold"].tolist(), bool(table["saving_low"][0] > 0)
    ([0.25], True)
    """
    pairs = None if costs is None else [_checked(one) for one in costs]
    if result.details is None or len(result.details.evaluations) != 1:
        return None
    problem = result.details.evaluations[0].problem
    if not can_be_cross_fitted(problem):
        return None
    decisions = Decisions.of(result, "a table of costs", _MOST_ROWS)
    shown = _worth_showing(decisions) if pairs is None else pairs
    rows = [_row(decisions, *pair, result.confidence_level) for pair in shown]
    if not rows:
        return None
    table = Table({name: np.array([row[name] for row in rows]) for name in rows[0]})
    alone = problem.features is None and problem.groups is None
    n = result.n_samples if len(problem.labels) <= _MOST_ROWS else len(decisions.labels)
    return CostsOfDecisions(table, n, alone)


def _row(decisions: Decisions, cost_fp: float, cost_fn: float, level: float) -> dict[str, float]:
    total = cost_fp + cost_fn
    threshold, factor = cost_fp / total, 1_000 * total
    given, _, repaired = decisions.paid(threshold)
    found = {
        "cost": decisions.mean(given, level, factor),
        "repaired": decisions.mean(repaired, level, factor),
        "saving": decisions.mean(given - repaired, level, factor),
    }
    row = {"cost_fp": cost_fp, "cost_fn": cost_fn, "threshold": threshold}
    row["share"] = decisions.share_acted_on(threshold)
    for name, one in found.items():
        ends = {"": one.value, "_low": one.low, "_high": one.high}
        row |= {f"{name}{end}": np.nan if value is None else value for end, value in ends.items()}
    return row


def _worth_showing(decisions: Decisions) -> list[tuple[float, float]]:
    """Return usual costs with which some rows are acted on and others not, nearest to the base rate."""
    some = [
        one
        for one in USUAL_COSTS
        if _LEAST_SHARE <= decisions.share_acted_on(one[0] / sum(one)) <= 1 - _LEAST_SHARE
    ]
    middle = logit(np.clip(decisions.base_rate, _TINY, 1 - _TINY))
    nearest = sorted(some, key=lambda one: abs(np.log(one[0] / one[1]) - middle))[:_MOST]
    return [one for one in some if one in nearest]


def _checked(costs: Any) -> tuple[float, float]:
    try:
        cost_fp, cost_fn = (float(one) for one in costs)
    except (TypeError, ValueError):
        raise OptionError(
            "costs must be pairs of the cost of a false positive and that of a false negative, got "
            f"{costs!r}. Pass costs=[(1, 5)]."
        ) from None
    checked_costs(cost_fp, cost_fn)
    return cost_fp, cost_fn
