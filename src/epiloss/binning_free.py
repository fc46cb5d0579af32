"""The binning-free lower bound of a problem, for its scores as given or recalibrated."""

from __future__ import annotations

from itertools import chain

import numpy as np

from epiloss.crossfit import (
    CrossfitBound,
    Directions,
    average_bounds,
    cross_fitted_directions,
    crossfit_bound,
)
from epiloss.learners import Blend
from epiloss.levelsets import Codes, resolve_level_sets
from epiloss.planning import BinaryProblem, Plan, generators, scored_anew, split_folds
from epiloss.scoring import Floats


def crossfit(problem: BinaryProblem, seed: int, level: float) -> CrossfitBound | None:
    """Return the binning-free lower bound for the scores as they are, where there is one.

    It takes features, and level sets that condition on one score.
    """
    if problem.features is None or problem.groups is not None or problem.vectors is not None:
        return None
    directions = _directions(
        problem, problem.scores, np.arange(len(problem.scores)), _crossfit_generator(seed)
    )
    return crossfit_bound(directions, level, problem.clusters)


def crossfit_recalibrated(
    problem: BinaryProblem, plan: Plan, seed: int, level: float
) -> CrossfitBound | None:
    """Return the binning-free lower bound for recalibrated scores, on rows they were not fitted to."""
    if problem.features is None or problem.groups is not None or problem.vectors is not None:
        return None
    splits, curves, _ = generators(seed)
    raw_levels = resolve_level_sets(plan.bins, plan.binning, problem.scores, problem.weights)
    repeats = split_folds(problem, plan, raw_levels.assign(problem.scores), splits)
    generator = _crossfit_generator(seed)
    parts = []
    for fold in chain.from_iterable(repeats):
        scores = scored_anew(problem, plan, fold, curves).scores
        directions = _directions(problem, scores, fold.evaluate, generator)
        clusters = None if problem.clusters is None else problem.clusters[fold.evaluate]
        parts.append((fold.evaluate, crossfit_bound(directions, level, clusters)))
    return average_bounds(parts, len(problem.scores), level, problem.clusters)


def _directions(
    problem: BinaryProblem, scores: Floats, rows: Codes, generator: np.random.Generator
) -> Directions:
    assert problem.features is not None  # the callers ask only where there are features
    return cross_fitted_directions(
        problem.features.take(rows),
        scores[rows],
        problem.labels[rows],
        rule=problem.rule,
        learner=Blend(),
        generator=generator,
        weights=None if problem.weights is None else problem.weights[rows],
        clusters=None if problem.clusters is None else problem.clusters[rows],
    )


def _crossfit_generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(4)[3])
