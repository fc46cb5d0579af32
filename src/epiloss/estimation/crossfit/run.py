"""Estimate the grouping loss without bins, for scores as given or recalibrated."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np

from epiloss._random import stream
from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.calibration.breaks import Breaks
from epiloss.calibration.class_recalibrators import RecalibratedTogether
from epiloss.estimation.crossfit.bound import (
    CrossfitBound,
    average_bounds,
    cross_fitted_directions,
    crossfit_bound,
    mean_of_repeats,
)
from epiloss.estimation.learned import recalibration_strata, scored_recalibrated
from epiloss.estimation.options import Options
from epiloss.estimation.splits import split_folds
from epiloss.estimation.twins.estimate import twin
from epiloss.input.features import Features
from epiloss.input.tasks import BinaryProblem

LEAST_ROWS, LEAST_CLUSTERS = 100, 10  # required for learning and evaluation
_ROWS_PER_SUBGROUP = 10
LEAST_EFFECTIVE = 20  # required effective number of rows, if rows are weighted
LEAST_LABELS = 12  # required number of labels of the rarer outcome, so that every fold has some


def crossfit(
    problem: BinaryProblem, options: Options, breaks: Breaks | None = None
) -> CrossfitBound | None:
    """Return the estimate without bins for the scores as given; None if it is not possible.

    With ``repeats``, it is the mean over several splits of the rows into folds. ``breaks`` are those of
    the calibration curve, if they are known.
    """
    all_rows = np.arange(len(problem.scores))
    if not is_possible(problem):
        return None
    generator = fold_generator(options)
    if problem.weights is not None or problem.clusters is not None:
        breaks = None  # their last bits depend on the order of the rows, the estimate must not
    bounds = [_bound(problem, options, all_rows, generator, breaks) for _ in range(options.repeats)]
    return mean_of_repeats(bounds)


def crossfit_recalibrated(
    problem: BinaryProblem, options: Options, together: RecalibratedTogether | None = None
) -> CrossfitBound | None:
    """Return the estimate without bins for recalibrated scores, on rows they were not fitted to."""
    level_set = recalibration_strata(problem, options, together)
    repeats = split_folds(problem, options, level_set, stream(options.seed, "splits"))
    folds = list(chain.from_iterable(repeats))
    if not all(is_possible(problem, fold.evaluate) for fold in folds):
        return None
    curves, generator = stream(options.seed, "curves"), fold_generator(options)
    parts = []
    for fold in folds:
        recalibrated = scored_recalibrated(problem, options, fold, curves, together).problem
        parts.append((fold.evaluate, _bound(recalibrated, options, fold.evaluate, generator)))
    return average_bounds(parts, len(problem.scores), options.confidence_level, problem.clusters)


def fold_generator(options: Options) -> np.random.Generator:
    """Return the random generator that splits rows into folds.

    For twin learners the seed is fixed: rows are split in the order of their content, so that neither
    the seed nor the order of rows changes the estimate. Only a learner passed by the user is seeded.
    """
    fixed = options.method == "twin" and options.learner_given is None
    return stream(0 if fixed else options.seed, options.method)


def kish_rows(weights: Floats) -> float:
    """Return Kish's effective number of rows.

    Examples
    --------
    >>> kish_rows(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def with_subgroups_as_feature(problem: BinaryProblem) -> BinaryProblem:
    """Return the problem with its subgroups as a categorical feature, if it has no features."""
    if problem.groups is None or problem.features is not None:
        return problem
    n_groups = int(problem.groups.max(initial=-1)) + 1
    if n_groups * _ROWS_PER_SUBGROUP > len(problem.groups):
        return problem  # the subgroups are too small to learn from
    names = tuple(map(str, range(n_groups)))
    features = Features((problem.groups.astype(float),), ("subgroup",), {0: names}, complete=True)
    return replace(problem, features=features, groups=None)


def is_possible(problem: BinaryProblem, rows: Codes | None = None) -> bool:
    """Return whether there are features, a single score, and enough rows of both outcomes."""
    rows = np.arange(len(problem.scores)) if rows is None else rows
    if problem.features is None or problem.groups is not None or problem.vectors is not None:
        return False
    few_clusters = (
        problem.clusters is not None and len(np.unique(problem.clusters[rows])) < LEAST_CLUSTERS
    )
    if problem.weights is not None and kish_rows(problem.weights[rows]) < LEAST_EFFECTIVE:
        return False
    labels = problem.labels[rows]
    ones = int(labels.sum())
    both = min(ones, len(labels) - ones) >= LEAST_LABELS
    return len(rows) >= LEAST_ROWS and not few_clusters and both


def _bound(
    problem: BinaryProblem,
    options: Options,
    rows: Codes,
    generator: np.random.Generator,
    breaks: Breaks | None = None,
) -> CrossfitBound:
    learner = options.learner
    if options.method == "twin":
        return twin(
            problem,
            options.confidence_level,
            generator,
            learner=None if options.learner_given is None else learner,
            evaluated=None if len(rows) == len(problem.scores) else rows,
            n_jobs=options.n_jobs,
            breaks=breaks,
        )
    some = problem.take(rows)
    assert some.features is not None  # callers check is_possible
    with limited_threads(openmp=True):
        directions = cross_fitted_directions(
            some.features,
            some.scores,
            some.labels,
            rule=some.rule,
            learner=learner,
            generator=generator,
            weights=some.weights,
            clusters=some.clusters,
        )
    return crossfit_bound(directions, options.confidence_level, some.clusters, sharing=learner.sharing)
