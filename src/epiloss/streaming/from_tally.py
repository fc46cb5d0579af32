"""The audit of all rows, from a sample and the sums of the last pass.

Regions are learned on a part of the sample and evaluated on all other rows. Twin learners are trained on
the whole sample, and every row is evaluated with those that were not trained on it. The losses are
therefore those of all rows. Their standard errors are estimated from the sample, whose rows vary like
those that were not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._random import stream
from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.auditing.run import recalibrated_audit
from epiloss.auditing.summary import summarise, twin_headline
from epiloss.errors import DataError, Remark
from epiloss.estimation.crossfit.bound import CrossfitBound, mean_of_repeats
from epiloss.estimation.crossfit.run import LEAST_ROWS, crossfit, fold_generator
from epiloss.estimation.influence import Influence, RowTerms, cell_of
from epiloss.estimation.learned import Learned, learn_regions, level_sets_of
from epiloss.estimation.options import Options
from epiloss.estimation.partition_bound import (
    Evaluation,
    evaluation_of,
    fold_result,
    score_histogram,
)
from epiloss.estimation.region_stats import RegionStats
from epiloss.estimation.twins.estimate import estimate_of_means
from epiloss.estimation.twins.interval import variance_per_loss
from epiloss.estimation.twins.moments import TwinSums
from epiloss.estimation.twins.sample_models import Keys, TwinModels
from epiloss.estimation.twins.shrinkage import z_and_pvalue
from epiloss.input.problem import Problem
from epiloss.input.row_display import Display
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.streaming.sampling import Sample
from epiloss.streaming.survey import Survey
from epiloss.streaming.tally import Tally


def learn_from_sample(
    sample: Sample, survey: Survey, options: Options, limit: int
) -> tuple[tuple[Learned, ...], Codes]:
    """Learn level sets, curves and regions; return them, and the rows used to learn the regions.

    ``limit`` is the largest key of the sample. The learning rows are those with the smallest keys, so
    that equal rows are never split.
    """
    learners = np.flatnonzero(sample.keys < np.uint64(int(options.split * limit)))
    learns = sample.problem.features is not None
    if not learns:
        learners = learners[:0]
    elif not 0 < len(learners) < len(sample.keys):
        raise DataError(
            f"the sample must have enough rows to learn regions, got {len(sample.keys)}. Allow more "
            "memory."
        )
    trees = stream(options.seed, "trees")
    in_place = replace(options, n_jobs=None)  # n_jobs is for the passes
    learned = []
    binaries = binary_problems(sample.problem, options.rule)
    for binary, cells in zip(binaries, survey.cells, strict=True):
        level_sets = level_sets_of(binary, options)
        curves = cells.curves(options.curve, survey.n_rows)
        rows = binary.take(learners)
        level_set = level_sets.assign(rows.scores)
        partition = learn_regions(rows, level_set, level_sets.n_level_sets, in_place, trees)
        learned.append(Learned(level_sets, curves, partition))
    return tuple(learned), learners


RepeatedModels = tuple[tuple[TwinModels, ...], ...]  # of each binary problem, one for each repeat


def train_twin_models(sample: Sample, options: Options, n_rows: int) -> RepeatedModels:
    """Train twin learners on the sample if the method needs them; empty if that is not possible."""
    if options.method != "twin":
        return ()
    binaries = binary_problems(sample.problem, options.rule)
    return tuple(_train_repeats(one, sample.places, options, n_rows) for one in binaries)


def _train_repeats(
    problem: BinaryProblem, places: Keys | None, options: Options, n_rows: int
) -> tuple[TwinModels, ...]:
    labels = problem.labels
    if problem.features is None or problem.groups is not None or problem.vectors is not None:
        return ()
    if len(labels) < LEAST_ROWS or labels.min() == labels.max():
        return ()
    generator = fold_generator(options)
    learner = None if options.learner_given is None else options.learner
    found = [
        TwinModels.train(
            problem, generator, n_rows, places=places, learner=learner, n_jobs=options.n_jobs
        )
        for _ in range(options.repeats)
    ]
    whole = tuple(models for models in found if models is not None)
    return whole if len(whole) == len(found) else ()


def audit_of_tally(
    sample: Sample,
    learned: Sequence[Learned],
    learners: Codes,
    twin_models: RepeatedModels,
    tally: Tally,
    options: Options,
    display: Display | None,
) -> Audit:
    """Return the audit of all rows."""
    binaries = binary_problems(sample.problem, options.rule)
    evaluations = [
        _evaluated(binary, one, learners, stats, tally.n_rows)
        for binary, one, stats in zip(binaries, learned, tally.stats, strict=True)
    ]
    bounds: list[CrossfitBound | None] = []
    if options.without_bins:
        bounds = _without_bins(binaries, sample.places, learners, twin_models, tally, options)
    after = None
    if options.recalibrate is not None:
        after = recalibrated_audit(sample.problem, binaries, options)
    n_sample, n_rows = len(sample.keys), tally.n_rows
    n_bounds = sum(bound is not None for bound in bounds)
    evaluated_all = any(twin_models) and sum(map(bool, twin_models)) == n_bounds
    remark = _remark(
        n_sample,
        len(learners),
        n_rows,
        bounds,
        evaluated_all=evaluated_all,
        recalibrated=after is not None,
    )
    problem = sample.problem.with_remarks(remark)
    by_subgroup = _by_subgroup(sample.problem, learned, tally, options)
    result = summarise(problem, options, evaluations, bounds, after, display, by_subgroup)
    if not evaluated_all:
        return result
    on = f"learned on a sample of {n_sample:,} rows, evaluated on all {n_rows:,}"
    return replace(result, recommendation=twin_headline(on))


def _without_bins(
    binaries: Sequence[BinaryProblem],
    places: Keys | None,
    learners: Codes,
    twin_models: RepeatedModels,
    tally: Tally,
    options: Options,
) -> list[CrossfitBound | None]:
    """Return the estimates without bins: on all rows with twin learners, else on the sample."""
    sums, bounds = iter(tally.twins), []
    for problem, some in zip(binaries, twin_models or [()] * len(binaries), strict=True):
        repeats = [
            _twin_of_sums(problem, places, learners, models, next(sums), options.confidence_level)
            for models in some
        ]
        bounds.append(mean_of_repeats(repeats) if repeats else _padded(crossfit(problem, options)))
    return bounds


def _twin_of_sums(
    sample: BinaryProblem,
    places: Keys | None,
    learners: Codes,
    models: TwinModels,
    sums: TwinSums,
    level: float,
) -> CrossfitBound:
    """Return the twin estimate of all rows, with its standard error from the sampled rows."""
    weight = np.ones(len(sample.labels)) if sample.weights is None else sample.weights
    error = SampledMean.of(weight, learners, sums.weight, sums.weight_sq)
    combined = sums.combine_stages(sums.terms(models, sample, places), weight)
    rows, errors = combined.rows, (error.influence, error.of_sample)
    ordered = sample.take(np.argsort(sample.scores, kind="stable"))
    share_sq = sums.weight_sq / sums.weight**2
    per_loss = variance_per_loss(ordered.labels, ordered.scores, ordered.weights, sample.rule, share_sq)
    found = estimate_of_means(
        combined.means, rows, *errors, level, between_parts=combined.between_parts, per_loss=per_loss
    )
    pvalue = z_and_pvalue(combined.early_cross, error.influence(rows.early_cross).stderr())[1]
    estimate = replace(found.estimate, pvalue=pvalue)
    return replace(found, estimate=estimate, prediction=rows.prediction)


def _by_subgroup(
    problem: Problem, learned: Sequence[Learned], tally: Tally, options: Options
) -> dict[str, Audit]:
    """Return the audit of all rows by each column of subgroups."""
    names, audits = list(problem.subgroups), {}
    for place, name in enumerate(names):
        some = problem.by_subgroup(name)
        stats = tally.by_subgroup[place :: len(names)]
        evaluations = [
            _evaluated(binary, replace(one, partition=None), np.arange(0), part, tally.n_rows)
            for binary, one, part in zip(
                binary_problems(some, options.rule), learned, stats, strict=True
            )
        ]
        audits[name] = summarise(some, replace(options, recalibrate=None), evaluations, [], None)
    return audits


def _remark(
    n_sample: int,
    n_learners: int,
    n_rows: int,
    bounds: Sequence[Any],
    *,
    evaluated_all: bool,
    recalibrated: bool,
) -> Remark:
    """Return the remark on how many rows each estimate is based on."""
    sentences = [f"all {n_rows:,} rows were evaluated, with a sample of {n_sample:,} in memory"]
    if n_learners:
        sentences.append(f"regions were learned on {n_learners:,} sampled rows")
    from_sample = ["standard errors"]
    if evaluated_all:
        sentences.append("the models of the headline were learned on the sample")
    elif any(bound is not None for bound in bounds):
        from_sample.insert(0, "the estimate without bins")
    if recalibrated:
        from_sample.append("the effect of recalibration")
    listed = ", ".join(from_sample[:-1]) + " and " * (len(from_sample) > 1) + from_sample[-1]
    sentences.append(f"{listed} come from the sample")
    return Remark("sampled", f"{'; '.join(sentences)}.")


def _evaluated(
    problem: BinaryProblem, learned: Learned, learners: Codes, stats: RegionStats, n_rows: int
) -> Evaluation:
    """Return the losses of the rows that were not used for learning, from the sums of all rows."""
    base_rate = float(stats["label"].sum() / stats["weight"].sum())
    if len(learners):
        stats = stats.without(learned.place(problem.take(learners)).stats())
    rows = np.setdiff1d(np.arange(len(problem.labels)), learners, assume_unique=True)
    placed = learned.place(problem.take(rows))
    cells = cell_of(stats, placed.level_set, placed.region)
    fold = fold_result(rows, placed, stats, cells, learned.partition)
    fold = replace(fold, terms=_sampled(fold.terms, stats))
    levels = fold.stats.compute(problem.rule)
    evaluation = evaluation_of(problem, levels, [[fold]], learned.level_sets.edges)
    histogram = score_histogram(problem.scores, problem.weights)
    return replace(
        evaluation,
        n_evaluated=n_rows - len(learners),
        n_rows=n_rows,
        base_rate=base_rate,
        histogram=histogram * (n_rows / histogram.sum()),
    )


@dataclass(frozen=True)
class SampledTerms(RowTerms):
    """Contributions of sampled rows to means over all evaluated rows.

    A sampled row contributes ``seen`` times as much to the mean over all rows as to that of the sample.
    The rows that were not kept vary like the sampled ones, and are represented by these, ``unseen``
    times.
    """

    seen: float = 1.0
    unseen: float = 0.0

    def contribution(self, name: str, n_rows: int) -> Floats:
        """Return the deviations of the sampled rows, and those that represent all other rows."""
        own = super().contribution(name, n_rows)
        return np.concatenate([self.seen * own, self.unseen * own])


def _sampled(terms: RowTerms, stats: RegionStats) -> SampledTerms:
    total, squares = float(stats["weight"].sum()), float(stats["weight_sq"].sum())
    seen = float(terms.weight.sum()) / total
    spread = float((terms.weight**2).sum()) / float(terms.weight.sum()) ** 2
    rest = squares / total**2 / spread - seen**2
    return SampledTerms(**vars(terms), seen=seen, unseen=float(np.sqrt(max(rest, 0.0))))


@dataclass(frozen=True)
class SampledMean:
    """The error of a mean over all rows, estimated from sampled rows with these weights.

    A sampled row contributes ``seen`` times as much to the mean as to that of the sample. The
    ``evaluating`` rows represent all other rows, ``unseen`` times, as in ``SampledTerms``.
    """

    weight: Floats
    evaluating: Codes
    seen: float
    unseen: float

    @classmethod
    def of(cls, weight: Floats, learners: Codes, total: float, squares: float) -> SampledMean:
        """Return the error, given the total weight and the sum of squared weights of all rows."""
        evaluating = np.setdiff1d(np.arange(len(weight)), learners, assume_unique=True)
        some = weight[evaluating]
        spread = float((some**2).sum()) / float(some.sum()) ** 2
        rest = (squares - float((weight**2).sum())) / total**2 / spread
        return cls(weight, evaluating, float(weight.sum()) / total, float(np.sqrt(max(rest, 0.0))))

    def influence(self, values: Floats) -> Influence:
        """Return the influence on the mean of sampled rows, and of the rows that they represent."""
        some, others = self.evaluating, np.zeros(len(values))
        others[some] = self.unseen * _deviation(self.weight[some], values[some])
        return Influence(np.concatenate([self.seen * _deviation(self.weight, values), others]))

    def of_sample(self, values: Floats) -> Influence:
        """Return the influence of sampled rows on their own mean."""
        return Influence(_deviation(self.weight, values))


def _deviation(weight: Floats, values: Floats) -> Floats:
    share = weight / weight.sum()
    deviation: Floats = share * (values - dot(share, values))
    return deviation


def _padded(bound: CrossfitBound | None) -> CrossfitBound | None:
    """Return a bound whose influence is padded with zeros for the rows that were not kept."""
    if bound is None:
        return None
    own: Influence = bound.influence
    zeros = np.zeros_like(own.contribution)
    return replace(bound, influence=replace(own, contribution=np.concatenate([own.contribution, zeros])))
