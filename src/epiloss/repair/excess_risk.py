"""The risk of each row's score and its excess, by models that have not seen the row.

The expected loss of a score ``S`` for a row with probability ``C`` is ``e(C) + d(S, C)``: the
unavoidable part and the excess. If costs of decisions are given, the risk is the expected cost of the
decision by the score, and the excess is what the decision by the best prediction would save.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epiloss._random import stream
from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.calibration.curves import Curve, LocalLinear
from epiloss.errors import OptionError
from epiloss.input.features import Features
from epiloss.input.tasks import BinaryProblem
from epiloss.repair.boosted import fit_boosted
from epiloss.table import Table

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

_FOLDS = 5


@limited_threads(openmp=True)
def excess_risk(result: Audit, cost_fp: float | None = None, cost_fn: float | None = None) -> Table:
    """Return the score, the best prediction, the risk and the excess risk of each row."""
    problem = single_score(result, "excess_risk")
    assert result.details is not None  # checked by single_score
    seed = result.details.options.seed
    prediction = predicted_unseen(problem, seed)
    if cost_fp is None and cost_fn is None:
        excess = problem.rule.divergence(problem.scores, prediction)
        risk = problem.rule.entropy(prediction) + excess
    else:
        total = checked_costs(1.0 if cost_fp is None else cost_fp, 1.0 if cost_fn is None else cost_fn)
        threshold = (1.0 if cost_fp is None else cost_fp) / total
        risk, least = (
            total * _expected_cost(one, prediction, threshold) for one in (problem.scores, prediction)
        )
        excess = risk - least
    kept = result.details.problem.rows
    return Table(
        {
            "row": np.arange(len(problem.scores)) if kept is None else kept,
            "score": problem.scores,
            "prediction": prediction,
            "risk": risk,
            "excess_risk": excess,
        }
    )


def _expected_cost(acted_on: Floats, probability: Floats, threshold: float) -> Floats:
    """Return the expected cost of decisions if both costs sum to 1."""
    acts = acted_on >= threshold
    return np.where(acts, threshold * (1 - probability), (1 - threshold) * probability)


def single_score(result: Audit, what: str) -> BinaryProblem:
    """Return the problem of an audit with a single score, or raise an error."""
    details = result.details
    if details is None or len(details.evaluations) != 1:
        raise OptionError(
            f"{what} needs an audit of a single score that has its rows, got task {result.task!r}. "
            "Audit with task='binary' or 'top-label'."
        )
    return details.evaluations[0].problem


def checked_costs(cost_fp: float, cost_fn: float) -> float:
    """Check both costs and return their sum."""
    for name, cost in (("cost_fp", cost_fp), ("cost_fn", cost_fn)):
        if not np.isfinite(cost) or cost <= 0:
            raise OptionError(f"{name} must be a positive finite number, got {cost!r}.")
    return float(cost_fp + cost_fn)


def cross_fitted(problem: BinaryProblem, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return calibrated scores and scores repaired by the features, each learned on other folds.

    The calibrated scores on which the repair of a fold is learned were calibrated with that fold.
    """
    fold = _folds(problem, generator)
    calibrated = _calibrated(problem, fold)
    if problem.features is None and problem.groups is None:
        return calibrated, calibrated
    rows = (_features(problem), calibrated, problem.labels, problem.weights)
    _, better = fit_boosted(*rows, fold, None, generator)
    return calibrated, better


def predicted_unseen(problem: BinaryProblem, seed: int) -> Floats:
    """Return repaired scores by curves, models and weights that have all not seen the row."""
    generator = stream(seed, "regret")
    fold, prediction = _folds(problem, generator), np.empty(len(problem.labels))
    for k in range(_FOLDS):
        learn, left_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        some = problem.take(learn)
        base = _curve(some)(problem.scores[left_out])
        if problem.features is not None or problem.groups is not None:
            rows = (_features(problem, learn), _calibrated(some, fold[learn]), some.labels, some.weights)
            correction, _ = fit_boosted(*rows, fold[learn], None, generator)
            base = correction.corrected(_features(problem, left_out), base)
        prediction[left_out] = base
    return prediction


def can_be_cross_fitted(problem: BinaryProblem) -> bool:
    """Return whether there are enough rows, or clusters, for the folds."""
    return _n_units(problem) >= _FOLDS


def _n_units(problem: BinaryProblem) -> int:
    return len(problem.labels if problem.clusters is None else np.unique(problem.clusters))


def _folds(problem: BinaryProblem, generator: np.random.Generator) -> Codes:
    """Assign rows, or whole clusters, to folds at random."""
    if not can_be_cross_fitted(problem):
        what = "rows" if problem.clusters is None else "clusters"
        raise OptionError(
            f"cross-fitted predictions need at least {_FOLDS} {what}, got {_n_units(problem)}. "
            f"Audit more {what}."
        )
    unit = np.arange(len(problem.labels)) if problem.clusters is None else problem.clusters
    return np.asarray((generator.permutation(int(unit.max()) + 1) % _FOLDS)[unit], np.int64)


def _calibrated(problem: BinaryProblem, fold: Codes) -> Floats:
    calibrated = np.empty(len(fold))
    for k in np.unique(fold):
        learn, left_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        calibrated[left_out] = _curve(problem.take(learn))(problem.scores[left_out])
    return calibrated


def _curve(problem: BinaryProblem) -> Curve:
    return LocalLinear().fit(problem.scores, problem.labels, problem.weights)


def _features(problem: BinaryProblem, rows: Codes | None = None) -> Features:
    """Return the features of the given rows, or the subgroups if there are no features."""
    features = problem.features if problem.features is not None else _groups_as_features(problem)
    return features if rows is None else features.take(rows)


def _groups_as_features(problem: BinaryProblem) -> Features:
    assert problem.groups is not None  # checked by the caller
    names = tuple(str(code) for code in range(int(problem.groups.max()) + 1))
    return Features((problem.groups.astype(float),), ("group",), {0: names})
