"""The binning-free lower bound of a problem, for its scores as given or recalibrated."""

from __future__ import annotations

from itertools import chain

import numpy as np

from epiloss._random import stream
from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import resolve_level_sets
from epiloss.estimation.crossfit.bound import (
    CrossfitBound,
    Directions,
    average_bounds,
    cross_fitted_directions,
    crossfit_bound,
)
from epiloss.estimation.planning import Plan, scored_anew, split_folds
from epiloss.input.tasks import BinaryProblem

LEAST_ROWS, LEAST_CLUSTERS = 100, 10  # fewer leave nothing to learn from, or to learn for


def crossfit(problem: BinaryProblem, plan: Plan, seed: int, level: float) -> CrossfitBound | None:
    """Return the binning-free lower bound for the scores as they are, where there is one."""
    everything = np.arange(len(problem.scores))
    if not _is_possible(problem, everything):
        return None
    directions = _directions(problem, plan, problem.scores, everything, stream(seed, "crossfit"))
    return crossfit_bound(directions, level, problem.clusters, sharing=plan.learner.sharing)


def crossfit_recalibrated(
    problem: BinaryProblem, plan: Plan, seed: int, level: float
) -> CrossfitBound | None:
    """Return the binning-free lower bound for recalibrated scores, on rows they were not fitted to."""
    raw_levels = resolve_level_sets(plan.bins, plan.binning, problem.scores, problem.weights)
    repeats = split_folds(problem, plan, raw_levels.assign(problem.scores), stream(seed, "splits"))
    folds = list(chain.from_iterable(repeats))
    if not all(_is_possible(problem, fold.evaluate) for fold in folds):
        return None
    curves, generator = stream(seed, "curves"), stream(seed, "crossfit")
    parts = []
    for fold in folds:
        scores = scored_anew(problem, plan, fold, curves).scores
        directions = _directions(problem, plan, scores, fold.evaluate, generator)
        clusters = None if problem.clusters is None else problem.clusters[fold.evaluate]
        bound = crossfit_bound(directions, level, clusters, sharing=plan.learner.sharing)
        parts.append((fold.evaluate, bound))
    return average_bounds(parts, len(problem.scores), level, problem.clusters)


def _is_possible(problem: BinaryProblem, rows: Codes) -> bool:
    """Tell whether there are features, one score to condition on, enough rows, and both outcomes."""
    if problem.features is None or problem.groups is not None or problem.vectors is not None:
        return False
    few_clusters = (
        problem.clusters is not None and len(np.unique(problem.clusters[rows])) < LEAST_CLUSTERS
    )
    labels = problem.labels[rows]
    occur = labels.min(initial=1) < labels.max(initial=0)  # both outcomes, of a class among several
    return len(rows) >= LEAST_ROWS and not few_clusters and bool(occur)


def _directions(
    problem: BinaryProblem, plan: Plan, scores: Floats, rows: Codes, generator: np.random.Generator
) -> Directions:
    assert problem.features is not None  # the callers ask only where there are features
    with limited_threads(openmp=True):
        return cross_fitted_directions(
            problem.features.take(rows),
            scores[rows],
            problem.labels[rows],
            rule=problem.rule,
            learner=plan.learner,
            generator=generator,
            weights=None if problem.weights is None else problem.weights[rows],
            clusters=None if problem.clusters is None else problem.clusters[rows],
        )
