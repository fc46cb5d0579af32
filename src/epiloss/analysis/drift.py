"""Drift: tests whether the losses of a model differ between two data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from epiloss._progress import stage
from epiloss._random import stream, streams
from epiloss._threads import limited_threads
from epiloss._typing import Floats
from epiloss.analysis.changes import common_population
from epiloss.analysis.drift_result import Drift, SampleLosses
from epiloss.analysis.two_samples import read_two_samples
from epiloss.auditing.differences import LOSSES
from epiloss.errors import OptionError
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.run import is_possible
from epiloss.estimation.inference import difference_estimate, normal_estimate, one_sided_pvalue
from epiloss.estimation.influence import cell_of
from epiloss.estimation.learned import Learned, Placed, fitted_curves, learn_regions, level_sets_of
from epiloss.estimation.losses import level_set_losses
from epiloss.estimation.options import Options, read_options
from epiloss.estimation.partition_bound import FoldResult, evaluation_of, joined_fold
from epiloss.estimation.splits import Fold, split_folds
from epiloss.estimation.twins.estimate import twin
from epiloss.estimation.twins.models import MAX_TRAINING_ROWS
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.partition import Partition, pool_small_regions

_TASKS = ("binary", "top-label")
Sample: TypeAlias = Sequence[Any] | Mapping[str, Any]


@limited_threads()
def drift(reference: Sample, current: Sample, **options: Any) -> Drift:
    """Test whether score, calibration loss and grouping loss changed between two data sets.

    Level sets and regions are learned on a part of the reference. The other rows of the reference and
    all current rows are evaluated in the same regions. Twin learners (the default) estimate the grouping
    loss of each data set from all of its rows, and learn from equally many rows in both, so that a
    difference of the estimates is due to the data. The two samples must be independent.

    Losses can differ because the population changed, or because the model is wrong in another way on
    similar rows. ``result.changes`` separates the two: it tests whether the distributions of scores and
    features differ, tests whether the rates of the labels differ at equal scores and features, and
    compares the losses on the population that both data sets have in common.

    Parameters
    ----------
    reference, current : tuples (y_true, y_prob, X), or mappings with these names
        Labels, probabilities and features of each data set. A mapping may also have
        ``sample_weight`` and ``clusters``.
    **options
        Options of :func:`epiloss.audit`, for the tasks "binary" and "top-label". ``split`` is the
        fraction of the reference that is used for learning.

    Returns
    -------
    Drift
        The losses on both data sets, and their differences with intervals and p-values.

    See Also
    --------
    track : one model over time, tested after every batch.
    compare : several models on the same rows.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Shah and Peters, "The hardness of conditional independence testing and the generalised covariance
    measure", Annals of Statistics 48, 2020.

    Li, Morgan and Zaslavsky, "Balancing covariates via propensity score weighting", Journal of the
    American Statistical Association 113, 2018.

    Examples
    --------
    >>> import epiloss
    >>> from epiloss.simulate import Sigmoid
    >>> before = Sigmoid(perturbation="step", grouping=0.3).sample(4_000, random_state=0)
    >>> after = Sigmoid(perturbation="step", grouping=1.0).sample(4_000, random_state=1)
    >>> result = epiloss.drift((before.y, before.scores, before.X), (after.y, after.scores, after.X))
    >>> bool(result.difference["grouping_loss"].pvalue < 0.001)
    True
    >>> bool(result.difference["calibration_loss"].pvalue > 0.05)
    True
    >>> result.changes.kind
    'losses'
    """
    chosen = read_options(options, "drift")
    if chosen.reading.task not in (None, *_TASKS):
        raise OptionError(
            f"task must be 'binary' or 'top-label' for drift, got {chosen.reading.task!r}. For one "
            "class of several pass y_true == k and y_prob[:, k]."
        )
    splits, trees, *curves = streams(chosen.seed, 6)
    before, after = read_two_samples(reference, current, chosen.reading)
    chosen.check_rows(min(len(before.labels), len(after.labels)))
    old, new = (binary_problems(one, chosen.rule)[0] for one in (before, after))
    stage("learning regions on the reference")
    fold, learned = _learned(old, chosen, splits, trees)
    stage("estimating the losses of both")
    first, second, n_regions = _both_losses((old, new), fold, learned, chosen, curves[:2])
    by_twins = _by_twins_possible((old, new), chosen)
    changes = None
    if all(map(is_possible, (old, new))):
        stage("comparing them on their common population")
        common = common_population(old, new, chosen)
        same = [_weighted(*one) for one in zip((old, new), common.weights, strict=True)]
        then, now, _ = _both_losses(same, fold, learned, chosen, curves[2:], n_splits=1)
        differences = _differences(then, now, chosen)
        if common.score is not None:
            differences["score"] = common.score
        changes = replace(common.changes, differences=differences)
    return Drift(
        task=before.task,
        rule=chosen.rule.name,
        reference=first,
        current=second,
        difference=_differences(first, second, chosen),
        n_regions=n_regions,
        confidence_level=chosen.confidence_level,
        remarks=tuple(dict.fromkeys(before.remarks + after.remarks)),
        method="twin" if by_twins else "partition",
        changes=changes,
    )


def _both_losses(
    problems: Sequence[BinaryProblem],
    fold: Fold,
    learned: Learned,
    options: Options,
    curves: Sequence[np.random.Generator],
    n_splits: int | None = None,
) -> tuple[SampleLosses, SampleLosses, int]:
    """Return the losses of both data sets and the number of regions.

    ``n_splits`` is the number of random splits for twin learners; the default depends on the rows.
    """
    old, new = problems
    parts = [
        # each data set has its own calibration curve, because the curve itself may have drifted
        replace(learned, curves=fitted_curves(problem, options, generator)).place(problem)
        for problem, generator in zip((old.take(fold.evaluate), new), curves, strict=True)
    ]
    folds = _on_shared_regions(learned.partition, parts)
    level = options.confidence_level
    first, second = (_losses(*part, level) for part in zip(parts, folds, strict=True))
    if _by_twins_possible(problems, options):
        first, second = _by_twins(problems, (first, second), options, n_splits)
    return first, second, folds[0].stats.merge(folds[1].stats).n_cells


def _by_twins_possible(problems: Sequence[BinaryProblem], options: Options) -> bool:
    return options.method == "twin" and all(map(is_possible, problems))


def _weighted(problem: BinaryProblem, weights: Floats) -> BinaryProblem:
    """Return a problem with its weights multiplied by ``weights``."""
    own = weights if problem.weights is None else weights * problem.weights
    return replace(problem, weights=own)


def _differences(before: SampleLosses, after: SampleLosses, options: Options) -> dict[str, Estimate]:
    level = options.confidence_level
    return {name: _change(getattr(before, name), getattr(after, name), level) for name in LOSSES}


def _learned(
    problem: BinaryProblem,
    options: Options,
    splits: np.random.Generator,
    trees: np.random.Generator,
) -> tuple[Fold, Learned]:
    """Learn level sets and regions, but no curves, on a part of the reference."""
    level_sets = level_sets_of(problem, options)
    one_way = replace(options, method="paper", repeats=1)
    fold = split_folds(problem, one_way, level_sets.assign(problem.scores), splits)[0][0]
    rows = problem.take(fold.learn)
    level_set = level_sets.assign(rows.scores)
    partition = learn_regions(rows, level_set, level_sets.n_level_sets, options, trees)
    return fold, Learned(level_sets, None, partition)


def _on_shared_regions(regions: Partition | None, parts: Sequence[Placed]) -> list[FoldResult]:
    """Merge regions until each has two rows in both data sets, if its level set has that many."""
    assert regions is not None  # read_two_samples requires features
    every = [part.stats_and_cells() for part in parts]
    together = every[0][0].merge(every[1][0])
    own = [cell_of(together, stats.level_set, stats.region) for stats, _ in every]
    pairs = list(zip(own, every, strict=True))
    n = [np.bincount(cells, stats.n, together.n_cells) for cells, (stats, _) in pairs]
    into = regions.join_small(together.level_set, together.region, np.minimum(*n))
    # trees do not merge regions that are empty in one data set, so these are pooled
    joined = together.relabel(into)
    place = cell_of(joined, together.level_set, into)
    n = [np.bincount(place, count, joined.n_cells) for count in n]
    into = pool_small_regions(joined.level_set, joined.region, np.minimum(*n))[place]
    return [
        joined_fold(np.arange(len(part.level_set)), part, stats, cells, regions, into[here])
        for part, (here, (stats, cells)) in zip(parts, pairs, strict=True)
    ]


def _losses(part: Placed, fold: FoldResult, level: float) -> SampleLosses:
    problem = part.problem
    levels = level_set_losses(fold.stats, problem.rule)
    influence = evaluation_of(problem, levels, [[fold]], None).influence
    stderr = {name: influence[name].stderr(problem.clusters) for name in LOSSES}
    losses = {name: normal_estimate(levels.total(name), stderr[name], level) for name in LOSSES}
    pvalue = one_sided_pvalue(losses["grouping_loss"].value, stderr["grouping_loss"])
    losses["grouping_loss"] = replace(losses["grouping_loss"], pvalue=pvalue)
    return SampleLosses(len(part.level_set), **losses)


def _by_twins(
    problems: Sequence[BinaryProblem],
    losses: Sequence[SampleLosses],
    options: Options,
    n_splits: int | None,
) -> list[SampleLosses]:
    """Estimate the grouping losses by twin learners that learn from equally many rows."""
    max_rows = min(MAX_TRAINING_ROWS, *(len(one.labels) // 3 for one in problems))
    learner = None if options.learner_given is None else options.learner
    generator, found = stream(options.seed, "twin"), []
    for problem, one in zip(problems, losses, strict=True):
        estimate = twin(
            problem,
            options.confidence_level,
            generator,
            learner=learner,
            max_training_rows=max_rows,
            n_splits=n_splits,
            n_jobs=options.n_jobs,
        ).estimate
        found.append(replace(one, grouping_loss=estimate))
    return found


def _change(before: Estimate, after: Estimate, level: float) -> Estimate:
    """Return the difference of estimates from independent samples, whose variances add up."""
    if before.stderr is None or after.stderr is None:
        return Estimate(after.value - before.value)
    return difference_estimate(
        after.value - before.value, math.hypot(before.stderr, after.stderr), level
    )
