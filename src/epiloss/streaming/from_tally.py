"""From a sample and the sums of all rows to the audit.

Regions are learned on a part of the sample, and every other row of the data is counted in them. The
losses are those of all these rows. What each row owes to chance is seen in the other part of the
sample, and holds for the rows that were only counted as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._random import stream
from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.auditing.run import recalibrated_audit
from epiloss.auditing.summary import summarise
from epiloss.errors import DataError, Remark
from epiloss.estimation.crossfit.bound import CrossfitBound
from epiloss.estimation.crossfit.run import crossfit
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
            f"{len(sample.keys)} sampled rows are too few to learn regions on some. Give more memory."
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


def audit_of_tally(
    sample: Sample,
    learned: Sequence[Learned],
    learners: Codes,
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
        bounds = [_padded(crossfit(one, options)) for one in binaries]
    after = None
    if options.recalibrate is not None:
        after = recalibrated_audit(sample.problem, binaries, options)
    remarks = _remarks(sample, learners, tally.n_rows, bounds, after)
    problem = sample.problem.remarking(*remarks)
    by_subgroup = _by_subgroup(sample.problem, learned, tally, options)
    return summarise(problem, options, evaluations, bounds, after, display, by_subgroup)


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


def _remarks(
    sample: Sample, learners: Codes, n_rows: int, bounds: Sequence[Any], after: Audit | None
) -> list[Remark]:
    """Say what rests on how many rows."""
    n_sample = len(sample.keys)
    learned = f"regions were learned on {len(learners):,} rows of it, " if len(learners) else ""
    some = "standard errors"
    if any(bound is not None for bound in bounds):
        some = "the headline without bins and standard errors"
    if after is not None:
        some += ", and what recalibration would do,"
    kept = f"of {n_rows:,} rows, all of them counted, a sample of {n_sample:,} was kept"
    return [Remark("sampled", f"{kept}: {learned}{some} rest on it.")]


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


def _padded(bound: CrossfitBound | None) -> CrossfitBound | None:
    """Return a bound on which the rows that were not kept have no influence."""
    if bound is None:
        return None
    own: Influence = bound.influence
    zeros = np.zeros_like(own.contribution)
    return replace(bound, influence=replace(own, contribution=np.concatenate([own.contribution, zeros])))
