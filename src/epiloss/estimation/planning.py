"""What is to be evaluated and how: a binary problem, a plan, scores with level sets, and folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.calibration.curves import (
    Curve,
    CurveFitter,
    cell_mean_pair,
    fit_curve_pair,
    fit_vector_curve_pair,
)
from epiloss.calibration.halves import even_halves
from epiloss.calibration.level_sets import (
    LevelSets,
    VectorLevelSets,
    checked_count,
    resolve_level_sets,
    simplex_level_sets,
)
from epiloss.calibration.recalibrators import (
    checked_recalibration,
    fit_recalibrator,
    resolve_recalibrator,
)
from epiloss.errors import DataError, OptionError
from epiloss.estimation.crossfit.learners import Blend, Learner
from epiloss.estimation.splits import Fold, clustered_fold, stratified_fold
from epiloss.input.tasks import BinaryProblem
from epiloss.partition import Partitioner


@dataclass(frozen=True)
class Plan:
    """How to evaluate: options already resolved into objects."""

    bins: Any
    binning: str
    partitioner: Partitioner
    curve: CurveFitter
    split: float
    swap: bool
    repeats: int
    recalibrate: Any
    n_jobs: int | None
    learner: Learner = field(default_factory=Blend)


def check_joint(task: str, plan: Plan) -> None:
    """Refuse options that have no meaning where level sets condition on whole score vectors."""
    if task != "joint":
        return
    if plan.recalibrate is not None or np.ndim(plan.bins) > 0:
        raise OptionError(
            "task 'joint' conditions on the whole score vector, so it takes a number of bins and "
            "no recalibrate. Use task='classwise' for these."
        )
    checked_count(plan.bins)


@dataclass(frozen=True)
class Scored:
    """Scores under audit with their level sets and curves; raw, or recalibrated on one fold."""

    scores: Floats
    level_set: Codes
    level_sets: LevelSets | VectorLevelSets
    curves: tuple[Curve, Curve] | tuple[Floats, Floats] | None  # of the score; or each row's values

    def at(self, rows: Codes) -> tuple[Floats, tuple[Floats, Floats] | None]:
        """Return the scores of some rows, and what both curves tell of them."""
        scores = self.scores[rows]
        if self.curves is None:
            return scores, None
        a, b = (one(scores) if callable(one) else one[rows] for one in self.curves)
        return scores, (a, b)


def scored_as_given(
    problem: BinaryProblem, plan: Plan, scores: Floats, generator: np.random.Generator
) -> Scored:
    """Return the scores as given, with level sets and curves from all rows."""
    if problem.vectors is None:
        bins = resolve_level_sets(plan.bins, plan.binning, scores, problem.weights)
        curves = fit_curve_pair(
            plan.curve, scores, problem.labels, problem.weights, generator, problem.clusters
        )
        return Scored(scores, bins.assign(scores), bins, curves)
    cells = simplex_level_sets(problem.vectors, plan.bins, generator, most_distinct=len(scores) // 50)
    level_set = cells.assign(problem.vectors)
    if cells.exact:
        halves = even_halves(scores, problem.labels, problem.weights, problem.clusters, generator)
        means = cell_mean_pair(level_set, problem.labels, problem.weights, halves)
        return Scored(scores, level_set, cells, means)
    values = fit_vector_curve_pair(
        problem.vectors, scores, problem.labels, problem.weights, generator, problem.clusters
    )
    return Scored(scores, level_set, cells, values)


def scored_anew(
    problem: BinaryProblem, plan: Plan, fold: Fold, generator: np.random.Generator
) -> Scored:
    """Return the scores recalibrated on a fold's learning rows, with curves from the other rows."""
    model = resolve_recalibrator(plan.recalibrate)
    assert model is not None  # the caller asks for a recalibration
    labels = problem.labels[fold.learn]
    if labels.min() == labels.max():
        raise DataError(
            f"recalibration needs both outcomes among its {len(labels)} learning rows, got only "
            f"{labels[0]:.0f}. Use more rows, or recalibrate=None."
        )
    learn_weights = None if problem.weights is None else problem.weights[fold.learn]
    fit_recalibrator(model, problem.scores[fold.learn], labels, learn_weights)
    scores = checked_recalibration(model.predict(problem.scores), len(problem.scores))
    bins = resolve_level_sets(plan.bins, plan.binning, scores, problem.weights)
    # fitted on rows that the recalibration has not seen: on the others it looks perfect
    rows = fold.evaluate
    weights = None if problem.weights is None else problem.weights[rows]
    clusters = None if problem.clusters is None else problem.clusters[rows]
    curves = fit_curve_pair(plan.curve, scores[rows], problem.labels[rows], weights, generator, clusters)
    return Scored(scores, bins.assign(scores), bins, curves)


def folds_of(
    problem: BinaryProblem, plan: Plan, level_set: Codes, generator: np.random.Generator
) -> list[list[Fold]]:
    """Return the folds of each repeat; where no region is learned, one that evaluates every row."""
    if problem.groups is not None or problem.features is None:
        everything = np.arange(len(level_set))
        return [[Fold(everything[:0], everything)]]
    return split_folds(problem, plan, level_set, generator)


def split_folds(
    problem: BinaryProblem, plan: Plan, level_set: Codes, generator: np.random.Generator
) -> list[list[Fold]]:
    """Return the folds of each repeat, level sets or clusters split as the plan says."""
    repeats = []
    for _ in range(plan.repeats):
        fold = (
            stratified_fold(level_set, plan.split, generator)
            if problem.clusters is None
            else clustered_fold(problem.clusters, plan.split, generator)
        )
        if not len(fold.learn) or not len(fold.evaluate):
            raise DataError(
                f"{len(level_set)} rows are too few to learn regions on some and evaluate them on "
                "the others. Bring more rows, or give groups=."
            )
        repeats.append([fold, fold.swapped()] if plan.swap else [fold])
    return repeats
