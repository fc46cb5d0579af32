"""From a sample and the sums of all rows to the audit.

Regions are learned on a part of the sample, and every other row of the data is counted in them. Models
are learned on all of it, and every row of the data is judged by those that have not seen it. The losses
are those of all these rows. What each row owes to chance is seen in the sample, and holds for the rows
that were not kept as well.
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
from epiloss.estimation.twins.estimate import estimate_of_means, tested
from epiloss.estimation.twins.interval import variance_per_loss
from epiloss.estimation.twins.jury import Jury, Keys
from epiloss.estimation.twins.moments import TwinSums
from epiloss.input.problem import Problem
from epiloss.input.row_display import Display
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.streaming.sampling import Sample
from epiloss.streaming.survey import Survey
from epiloss.streaming.tally import Tally


def learn_from_sample(
    sample: Sample, survey: Survey, options: Options, limit: int
) -> tuple[tuple[Learned, ...], Codes]:
    """Learn level sets, curves and regions; return them, and the rows that the regions are learned on.

    ``limit`` is the largest key of the sample. The rows that learn are those with the smallest keys,
    so that equal rows are all on one side.
    """
    learners = np.flatnonzero(sample.keys < np.uint64(int(options.split * limit)))
    learns = sample.problem.features is not None
    if not learns:
        learners = learners[:0]
    elif not 0 < len(learners) < len(sample.keys):
        raise DataError(
            f"{len(sample.keys)} sampled rows are too few to learn regions. Allow more memory."
        )
    trees = stream(options.seed, "trees")
    in_place = replace(options, n_jobs=None)  # its processes are for the passes
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


Juries = tuple[tuple[Jury, ...], ...]  # of each binary problem, one for each repeat


def learn_juries(sample: Sample, options: Options, n_rows: int) -> Juries:
    """Train twin learners on the sample, if they are asked for; none where that is not possible."""
    if options.method != "twin":
        return ()
    binaries = binary_problems(sample.problem, options.rule)
    return tuple(_juries(one, sample.places, options, n_rows) for one in binaries)


def _juries(
    problem: BinaryProblem, places: Keys | None, options: Options, n_rows: int
) -> tuple[Jury, ...]:
    labels = problem.labels
    if problem.features is None or problem.groups is not None or problem.vectors is not None:
        return ()
    if len(labels) < LEAST_ROWS or labels.min() == labels.max():
        return ()
    generator = fold_generator(options)
    learner = None if options.learner_given is None else options.learner
    found = [
        Jury.learn(problem, generator, n_rows, places=places, learner=learner, n_jobs=options.n_jobs)
        for _ in range(options.repeats)
    ]
    whole = tuple(jury for jury in found if jury is not None)
    return whole if len(whole) == len(found) else ()


def audit_of_tally(
    sample: Sample,
    learned: Sequence[Learned],
    learners: Codes,
    juries: Juries,
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
        bounds = _without_bins(binaries, sample.places, learners, juries, tally, options)
    after = None
    if options.recalibrate is not None:
        after = recalibrated_audit(sample.problem, binaries, options)
    n_sample, n_rows = len(sample.keys), tally.n_rows
    judged = any(juries) and sum(map(bool, juries)) == sum(one is not None for one in bounds)
    remark = _remark(
        n_sample, len(learners), n_rows, bounds, judged=judged, recalibrated=after is not None
    )
    problem = sample.problem.with_remarks(remark)
    by_subgroup = _by_subgroup(sample.problem, learned, tally, options)
    result = summarise(problem, options, evaluations, bounds, after, display, by_subgroup)
    if not judged:
        return result
    on = f"learned on a sample of {n_sample:,} rows, evaluated on all {n_rows:,}"
    return replace(result, recommendation=twin_headline(on))


def _without_bins(
    binaries: Sequence[BinaryProblem],
    places: Keys | None,
    learners: Codes,
    juries: Juries,
    tally: Tally,
    options: Options,
) -> list[CrossfitBound | None]:
    """Return the estimates without bins: of all rows where they were judged, else of the sample."""
    sums, bounds = iter(tally.twins), []
    for problem, some in zip(binaries, juries or [()] * len(binaries), strict=True):
        repeats = [
            _twin_of_sums(problem, places, learners, jury, next(sums), options.confidence_level)
            for jury in some
        ]
        bounds.append(mean_of_repeats(repeats) if repeats else _padded(crossfit(problem, options)))
    return bounds


def _twin_of_sums(
    sample: BinaryProblem,
    places: Keys | None,
    learners: Codes,
    jury: Jury,
    sums: TwinSums,
    level: float,
) -> CrossfitBound:
    """Return the twin estimate of all rows, with its error as sampled rows show it."""
    weight = np.ones(len(sample.labels)) if sample.weights is None else sample.weights
    error = SampledMean.of(weight, learners, sums.weight, sums.weight_sq)
    chosen = sums.chosen(sums.terms(jury, sample, places), weight)
    rows, errors = chosen.rows, (error.influence, error.of_sample)
    ordered = sample.take(np.argsort(sample.scores, kind="stable"))
    share_sq = sums.weight_sq / sums.weight**2
    per_loss = variance_per_loss(ordered.labels, ordered.scores, ordered.weights, sample.rule, share_sq)
    found = estimate_of_means(
        chosen.means, rows, *errors, level, spread=chosen.spread, per_loss=per_loss
    )
    pvalue = tested(chosen.cautious, error.influence(rows.cautious).stderr())[1]
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
    judged: bool,
    recalibrated: bool,
) -> Remark:
    """Say what rests on how many rows."""
    learned = f"regions were learned on {n_learners:,} rows of it, " if n_learners else ""
    counted, some = "counted", "standard errors"
    if judged:
        counted = "counted and judged by models that had not seen them"
        learned += "the models of the headline on all of it; "
    elif any(bound is not None for bound in bounds):
        some = "the headline without bins and standard errors"
    if recalibrated:
        some += ", and what recalibration would do,"
    kept = f"of {n_rows:,} rows, all of them {counted}, a sample of {n_sample:,} was kept"
    return Remark("sampled", f"{kept}: {learned}{some} rest on it.")


def _evaluated(
    problem: BinaryProblem, learned: Learned, learners: Codes, stats: RegionStats, n_rows: int
) -> Evaluation:
    """Return the losses of the rows that did not learn, from the sums of all rows."""
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
    """What rows of a sample add, of which many more were evaluated.

    Each row has its own part in the mean over all rows, ``seen`` times that in the sample's mean. The
    rows that were not kept vary as those that were: they stand, ``unseen`` times, behind them.
    """

    seen: float = 1.0
    unseen: float = 0.0

    def contribution(self, name: str, n_rows: int) -> Floats:
        """Return the deviations of the sampled rows, and those that stand for all others."""
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
    """The error of a mean over all rows, of which a sample is known, with these weights.

    Each sampled row has its own part in the mean, ``seen`` times that in the sample's mean. Behind the
    ``evaluating`` rows, as in ``SampledTerms``, all others stand, ``unseen`` times.
    """

    weight: Floats
    evaluating: Codes
    seen: float
    unseen: float

    @classmethod
    def of(cls, weight: Floats, learners: Codes, total: float, squares: float) -> SampledMean:
        """Return the error where all rows have this total weight, and sum of squared weights."""
        evaluating = np.setdiff1d(np.arange(len(weight)), learners, assume_unique=True)
        some = weight[evaluating]
        spread = float((some**2).sum()) / float(some.sum()) ** 2
        rest = (squares - float((weight**2).sum())) / total**2 / spread
        return cls(weight, evaluating, float(weight.sum()) / total, float(np.sqrt(max(rest, 0.0))))

    def influence(self, values: Floats) -> Influence:
        """Return the influence of sampled rows on the mean, and of those that they stand for."""
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
    """Return a bound on which the rows that were not kept have no influence."""
    if bound is None:
        return None
    own: Influence = bound.influence
    zeros = np.zeros_like(own.contribution)
    return replace(bound, influence=replace(own, contribution=np.concatenate([own.contribution, zeros])))
