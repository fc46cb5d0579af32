"""The partition bound: learn regions on some rows, and estimate the losses on the other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from epiloss._random import stream
from epiloss._typing import Codes, Floats
from epiloss.calibration.breaks import Breaks
from epiloss.calibration.class_recalibrators import RecalibratedTogether
from epiloss.calibration.curves import InterpolatedCurve
from epiloss.calibration.level_sets import LevelSets, VectorLevelSets
from epiloss.estimation.influence import Influence, RowTerms, cell_of, joined_terms, row_terms
from epiloss.estimation.learned import (
    Placed,
    Scored,
    level_sets_of,
    recalibration_strata,
    scored_as_given,
    scored_recalibrated,
)
from epiloss.estimation.losses import (
    LevelSetLosses,
    RegionLosses,
    entropy_bias,
    level_set_losses,
    region_losses,
)
from epiloss.estimation.options import Options
from epiloss.estimation.region_stats import RegionStats
from epiloss.estimation.splits import Fold, folds_of, split_folds
from epiloss.input.tasks import BinaryProblem
from epiloss.partition import pool_small_regions
from epiloss.partition.base import Partition
from epiloss.scoring import LogLoss, ScoringRule

STEPS = 50  # number of bins of the score histogram


@dataclass(frozen=True)
class JoinedRegions:
    """The region into which each region was merged; itself if it was large enough."""

    level_set: Codes
    region: Codes
    into: Codes


@dataclass(frozen=True)
class FoldRegions:
    """The regions of one fold, in the order of their sums, and the region of each row."""

    level_set: Codes
    region: Codes
    rows: Codes
    cells: NDArray[np.int32]
    partition: Partition | None

    @property
    def n(self) -> int:
        """The number of regions."""
        return len(self.region)


@dataclass(frozen=True)
class Evaluation:
    """The losses of each level set, averaged over folds, and the regions of every fold."""

    problem: BinaryProblem
    levels: LevelSetLosses
    regions: Sequence[RegionLosses]
    joined: Sequence[JoinedRegions]
    edges: Floats | None
    n_evaluated: int
    influence: Mapping[str, Influence]
    folds: Sequence[FoldRegions]
    histogram: Floats  # weight of the rows by score, in bins of equal width
    n_rows: int  # number of all rows, of which the problem may have a sample
    base_rate: float
    breaks: Breaks | None = None  # of the calibration curve of all rows, if it looks for them


@dataclass(frozen=True)
class FoldResult:
    """The sums over the rows that a fold evaluates, and the losses of single rows."""

    stats: RegionStats
    joined: JoinedRegions
    terms: RowTerms
    regions: FoldRegions
    histogram: Floats


def evaluate(problem: BinaryProblem, options: Options) -> Evaluation:
    """Estimate the losses of the scores as given."""
    scored = scored_as_given(problem, options, stream(options.seed, "curves"))
    repeats = folds_of(problem, options, scored.level_set, stream(options.seed, "splits"))
    trees = stream(options.seed, "trees")
    results = [[_evaluate_fold(options, fold, scored, trees) for fold in folds] for folds in repeats]
    bins = scored.level_sets
    exact = isinstance(bins, VectorLevelSets) and bins.exact
    levels = _average([_measure(folds, problem.rule, exact=exact) for folds in results])
    edges = bins.edges if isinstance(bins, LevelSets) else None
    curve = scored.curves[0]
    breaks = curve.breaks if isinstance(curve, InterpolatedCurve) else None
    return replace(evaluation_of(problem, levels, results, edges), breaks=breaks)


def evaluate_recalibrated(
    problem: BinaryProblem, options: Options, together: RecalibratedTogether | None = None
) -> Evaluation:
    """Recalibrate on each fold's learning rows, and estimate the losses of the other rows."""
    curves, trees = stream(options.seed, "curves"), stream(options.seed, "trees")
    bins = level_sets_of(problem, options)
    splits = stream(options.seed, "splits")
    strata = recalibration_strata(problem, options, together)
    repeats = split_folds(problem, options, strata, splits)
    scored = [
        [scored_recalibrated(problem, options, fold, curves, together) for fold in folds]
        for folds in repeats
    ]
    results = [
        [_evaluate_fold(options, *pair, trees) for pair in zip(*both, strict=True)]
        for both in zip(repeats, scored, strict=True)
    ]
    # Each fold has its own scores, so that the folds are measured separately.
    levels = _average([_measure([fold], problem.rule) for fold in chain.from_iterable(results)])
    edges = bins.edges if options.strategy == "uniform" else None
    found = evaluation_of(problem, levels, results, edges)
    shared = float(np.mean([_shared_noise(problem, folds) for folds in scored]))
    loss = found.influence["calibration_loss"]
    loss = replace(loss, beyond=loss.beyond + shared)
    return replace(found, influence={**found.influence, "calibration_loss": loss})


def _shared_noise(problem: BinaryProblem, scored: Sequence[Scored]) -> float:
    """Return the variance of the error that is common to two halves recalibrated on each other.

    To first order, the error is the product of one half's recalibration error and the other's label
    noise, which occurs twice and so does not average out over rows. The two maps differ by both errors.
    """
    if len(scored) < 2:
        return 0.0
    a, b = (problem.rule.loss(one.problem.scores, problem.labels) for one in scored)
    weight = np.ones(len(a)) if problem.weights is None else problem.weights
    finite = np.isfinite(a) & np.isfinite(b)
    difference = np.subtract(a, b, out=np.zeros(len(a)), where=finite)
    difference -= np.average(difference, weights=weight)
    influence = Influence(weight / weight.sum() * difference / np.sqrt(2))
    return influence.by_cluster(problem.clusters).variance


def evaluation_of(
    problem: BinaryProblem,
    levels: LevelSetLosses,
    results: Sequence[Sequence[FoldResult]],
    edges: Floats | None,
) -> Evaluation:
    """Combine the results of the folds of each repeat."""
    folds = list(chain.from_iterable(results))
    n_repeats = len(results)  # each repeat counts the same rows
    levels = replace(levels, n=levels.n / n_repeats, effective_n=levels.effective_n / n_repeats)
    repeats = [joined_terms([fold.terms for fold in repeat]) for repeat in results]
    evaluated = np.zeros(len(problem.scores), bool)
    for fold in folds:
        evaluated[fold.terms.rows] = True
    influence = influence_of_rows(
        levels, repeats, len(problem.scores), len(folds), problem.clusters, bounded=problem.rule.bounded
    )
    return Evaluation(
        problem,
        levels,
        [region_losses(fold.stats, problem.rule) for fold in folds],
        [fold.joined for fold in folds],
        edges,
        int(np.count_nonzero(evaluated)),
        _with_entropy_bias(influence, folds, problem.rule),
        [fold.regions for fold in folds],
        np.sum([fold.histogram for fold in folds], axis=0) / n_repeats,
        len(problem.labels),
        float(np.average(problem.labels, weights=problem.weights)),
    )


def influence_of_rows(
    levels: LevelSetLosses,
    repeats: Sequence[RowTerms],
    n_rows: int,
    n_folds: int,
    clusters: Codes | None,
    *,
    bounded: bool,
) -> Mapping[str, Influence]:
    """Return each row's influence on the mean over repeats; ``n_folds`` counts all folds."""

    def of(name: str) -> Floats:
        parts = [terms.contribution(name, n_rows) for terms in repeats]
        return parts[0] if len(parts) == 1 else np.asarray(np.mean(parts, axis=0), float)

    # The squared noise of a level set's mean has variance 2 (sigma^2 / n)^2.
    mean_noise = 2 * (levels.share * levels.label_noise / levels.effective_n) ** 2
    noise = float(mean_noise.sum())
    curve_noise, bin_noise = (
        Influence(of(name)).by_cluster(clusters).variance for name in ("curve_noise", "bin_noise")
    )
    # The rows' variance contains the noise of the curve; its part that is common to a level set is not
    # used. With an unbounded rule, rows are compared with the curve one by one and have all its noise.
    inside = max(curve_noise - bin_noise, 0.0) if bounded else 0.0
    shown = (noise - bin_noise, noise + inside) if bounded else (0.0, curve_noise)
    # The squared noise of regions has variance 2 bias^2 per degree of freedom. The rows' variance
    # contains twice as much, because rows are compared with rates and lines that are fitted to them.
    # If there is something to learn, the halves learn it from each other, and the excess compensates
    # for what they then share. A level set with a single region has neither regions nor a line.
    free = np.maximum(levels.n_regions - n_folds, 1)
    region_noise = 2 * (levels.share * levels.bias) ** 2 / free
    line_noise = 2 * mean_noise * n_folds / len(repeats)
    plugin = levels.total("plugin")
    learned = np.clip(levels.total("explained") / plugin, 0, 1) if plugin > 0 else 0.0
    divided = levels.n_regions > n_folds
    excess = (1 - learned) * float((region_noise + line_noise)[divided].sum())
    least = float(region_noise.sum() + mean_noise[divided].sum())
    return {
        "score": Influence(of("score")),
        "calibration_loss": Influence(of("calibration_loss"), *shown),
        # The induced loss also contains the curve's noise within level sets, which rows do not show.
        "grouping_loss": Influence(of("grouping_loss"), inside - excess, inside + least),
    }


def _with_entropy_bias(
    influence: Mapping[str, Influence], folds: Sequence[FoldResult], rule: ScoringRule
) -> Mapping[str, Influence]:
    """Add the bias of the log-loss in regions with few labels to the variance of the grouping loss."""
    if not isinstance(rule, LogLoss):
        return influence
    bias = max(float(np.mean([entropy_bias(one.stats, rule) for one in folds])), 0.0)
    loss = influence["grouping_loss"]
    return {**influence, "grouping_loss": replace(loss, beyond=loss.beyond + bias**2)}


def _evaluate_fold(
    options: Options, fold: Fold, scored: Scored, generator: np.random.Generator
) -> FoldResult:
    partition = scored.learn(fold.learn, options, generator)
    placed = scored.place(fold.evaluate, partition)
    stats, cells = placed.stats_and_cells()
    return fold_result(fold.evaluate, placed, stats, cells, partition)


def fold_result(
    rows: Codes, placed: Placed, stats: RegionStats, cells: Codes, partition: Partition | None
) -> FoldResult:
    """Merge small regions, and compute the losses of rows; ``stats`` may contain more rows."""
    join = pool_small_regions if partition is None else partition.join_small
    sizes = stats.n if placed.problem.clusters is None else np.floor(stats.effective_n + 1e-6)
    into = join(stats.level_set, stats.region, sizes)
    return joined_fold(rows, placed, stats, cells, partition, into)


def joined_fold(
    rows: Codes,
    placed: Placed,
    stats: RegionStats,
    cells: Codes,
    partition: Partition | None,
    into: Codes,
) -> FoldResult:
    """Compute the losses of rows after merging cell ``i`` of ``stats`` into region ``into[i]``."""
    problem, scores = placed.problem, placed.problem.scores
    joined = JoinedRegions(stats.level_set, stats.region, into)
    stats = stats.relabel(into)
    merged_cells = cell_of(stats, joined.level_set, into).astype(np.int32)[cells]
    terms = row_terms(
        rows,
        stats,
        placed.level_set,
        merged_cells,
        scores=scores,
        labels=problem.labels,
        curves=(scores, scores) if placed.curves is None else placed.curves,
        weights=problem.weights,
        rule=problem.rule,
    )
    regions = FoldRegions(stats.level_set, stats.region, rows, merged_cells, partition)
    return FoldResult(stats, joined, terms, regions, score_histogram(scores, problem.weights))


def score_histogram(scores: Floats, weights: Floats | None) -> Floats:
    """Return the weight of the scores in each of ``STEPS`` bins of equal width."""
    step = np.empty(len(scores), np.uint8)
    np.multiply(scores, STEPS, out=step, casting="unsafe")
    np.minimum(step, STEPS - 1, out=step)
    return np.bincount(step, weights, minlength=STEPS).astype(float)


def _measure(folds: Sequence[FoldResult], rule: ScoringRule, *, exact: bool = False) -> LevelSetLosses:
    """Return the losses over several folds, each of which evaluates different rows.

    Regions are compared with the level set of their own fold, whose noise they share. Quantities that
    do not depend on regions are computed from all rows together.
    """
    stats = [fold.stats for fold in folds]
    if len(stats) == 1:
        return level_set_losses(stats[0], rule, exact=exact)
    together = stats[0].by_level_set()
    for part in stats[1:]:
        together = together.merge(part.by_level_set())
    whole = level_set_losses(together, rule, exact=exact)
    parts = _average([level_set_losses(part, rule) for part in stats])
    return replace(whole, plugin=parts.plugin, bias=parts.bias, n_regions=parts.n_regions)


def _average(parts: Sequence[LevelSetLosses]) -> LevelSetLosses:
    """Return the losses of each level set, averaged over folds with their weights."""
    if len(parts) == 1:
        return parts[0]
    level_set, position = np.unique(
        np.concatenate([part.level_set for part in parts]), return_inverse=True
    )
    weight = np.concatenate([part.weight for part in parts])
    total = np.bincount(position, weight).astype(float)

    def mean(name: str) -> Floats:
        values = np.concatenate([getattr(part, name) for part in parts])
        return np.asarray(np.bincount(position, weight * values) / total, float)

    n_regions = np.concatenate([part.n_regions for part in parts])
    n, effective_n = (
        np.bincount(position, np.concatenate([getattr(part, name) for part in parts])).astype(float)
        for name in ("n", "effective_n")
    )
    averaged = {name: mean(name) for name in LevelSetLosses.AVERAGED}
    return LevelSetLosses(
        level_set=level_set,
        n=n,
        effective_n=effective_n,
        weight=total,
        n_regions=np.bincount(position, n_regions).astype(np.int64),
        **averaged,
    )
