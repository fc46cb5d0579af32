"""What acting on its score costs each row: by predictions of models that have not seen the row.

The expected loss of a score ``S`` in a row whose probability is ``C`` is ``e(C) + d(S, C)``: what nobody
could avoid, and the excess. With costs of decisions it is what the decision by the score is expected to
cost, and how much less the decision by the best prediction would.
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
    """Return the score, the best prediction, the risk and its excess of each row."""
    problem = the_score_of(result, "excess_risk")
    assert result.details is not None  # as just checked
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
    """Return what decisions are expected to cost where both costs sum to 1."""
    acts = acted_on >= threshold
    return np.where(acts, threshold * (1 - probability), (1 - threshold) * probability)


def the_score_of(result: Audit, what: str) -> BinaryProblem:
    """Return the one score that was audited, with its rows, or say that there is none."""
    details = result.details
    if details is None or len(details.evaluations) != 1:
        raise OptionError(
            f"{what} needs an audit of one score with its rows, got task {result.task!r}. "
            "Audit with task='binary' or 'top-label'."
        )
    return details.evaluations[0].problem


def checked_costs(cost_fp: float, cost_fn: float) -> float:
    """Return the sum of both costs, or say what costs are."""
    for name, cost in (("cost_fp", cost_fp), ("cost_fn", cost_fn)):
        if not np.isfinite(cost) or cost <= 0:
            raise OptionError(f"{name} must be a positive number, got {cost!r}.")
    return float(cost_fp + cost_fn)


def predicted(problem: BinaryProblem, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return calibrated scores, and those repaired by the features, each learned on other folds.

    What is learned of one fold begins at scores of others that are calibrated with it.
    """
    fold = _folds(problem, generator)
    calibrated = _calibrated(problem, fold)
    if problem.features is None and problem.groups is None:
        return calibrated, calibrated
    rows = (_features(problem), calibrated, problem.labels, problem.weights)
    _, better = fit_boosted(*rows, fold, None, generator)
    return calibrated, better


def predicted_unseen(problem: BinaryProblem, seed: int) -> Floats:
    """Return repaired scores of which nothing has seen the row: the curve, the models, their weights."""
    generator = stream(seed, "regret")
    fold, prediction = _folds(problem, generator), np.empty(len(problem.labels))
    if len(np.unique(fold)) < _FOLDS:
        raise OptionError(
            f"predictions of rows that no model has seen need at least {_FOLDS} clusters, got "
            f"{len(np.unique(fold))}. Audit more clusters."
        )
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


def _folds(problem: BinaryProblem, generator: np.random.Generator) -> Codes:
    """Deal rows, or whole clusters, to folds."""
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
    """Return what to learn from, of some rows: the features, or else the subgroups."""
    features = problem.features if problem.features is not None else _as_features(problem)
    return features if rows is None else features.take(rows)


def _as_features(problem: BinaryProblem) -> Features:
    assert problem.groups is not None  # the caller has looked
    names = tuple(str(code) for code in range(int(problem.groups.max()) + 1))
    return Features((problem.groups.astype(float),), ("group",), {0: names})
