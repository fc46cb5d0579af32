"""From a sample and the sums of all rows to the audit.

Regions are learned on a part of the sample, and every other row of the data is counted in them. The
losses are those of all these rows. What each row owes to chance is seen in the other part of the
sample, and holds for the rows that were only counted as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._random import stream
from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.auditing.run import recalibrated_audit, regions_named
from epiloss.auditing.summary import summarise
from epiloss.calibration.level_sets import resolve_level_sets
from epiloss.errors import DataError
from epiloss.estimation.crossfit.bound import CrossfitBound
from epiloss.estimation.crossfit.run import crossfit
from epiloss.estimation.influence import Influence, RowTerms, cell_of
from epiloss.estimation.learned import Frozen
from epiloss.estimation.partition_bound import (
    Evaluation,
    Placed,
    evaluation_of,
    fold_result,
    score_histogram,
)
from epiloss.estimation.planning import Plan
from epiloss.estimation.region_stats import RegionStats
from epiloss.input.row_display import Display
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.partition.base import LearningRows
from epiloss.scoring import ScoringRule
from epiloss.streaming.passes import Survey, Tally
from epiloss.streaming.sampling import Sample


def freeze(
    sample: Sample, survey: Survey, plan: Plan, rule: ScoringRule, seed: int, limit: int
) -> tuple[tuple[Frozen, ...], Codes]:
    """Learn level sets, curves and regions; return them, and the rows that the regions are learned on.

    ``limit`` is the largest key of the sample. The rows that learn are those with the smallest keys,
    so that equal rows are all on one side.
    """
    learners = np.flatnonzero(sample.keys < np.uint64(int(plan.split * limit)))
    learns = sample.problem.features is not None and sample.problem.groups is None
    if not learns:
        learners = learners[:0]
    elif not 0 < len(learners) < len(sample.keys):
        raise DataError(
            f"{len(sample.keys)} sampled rows are too few to learn regions on some. Give more memory."
        )
    trees = stream(seed, "trees")
    frozen = []
    for binary, cells in zip(binary_problems(sample.problem, rule), survey.cells, strict=True):
        level_sets = resolve_level_sets(plan.bins, plan.binning, binary.scores, binary.weights)
        curves = cells.curves(plan.curve, survey.n_rows)
        partition = None
        if learns:
            rows = _taken(binary, learners)
            assert rows.features is not None  # so ``learns`` says
            learning = LearningRows(
                rows.features,
                rows.labels,
                level_sets.assign(rows.scores),
                level_sets.n_level_sets,
                rows.weights,
                rows.rule,
            )
            partition = plan.partitioner.fit(learning, trees, None)
        frozen.append(Frozen(binary.rule, level_sets, curves, partition))
    return tuple(frozen), learners


def audit_of_tally(
    sample: Sample,
    frozen: Sequence[Frozen],
    learners: Codes,
    tally: Tally,
    plan: Plan,
    rule: ScoringRule,
    options: Mapping[str, Any],
    display: Display | None,
) -> Audit:
    """Return the audit of all rows."""
    seed, level = options["random_state"], options["level"]
    options = {**options, "partition": regions_named(sample.problem, plan)}
    binaries = binary_problems(sample.problem, rule)
    evaluations = [
        _evaluated(binary, one, learners, stats, tally.n_rows)
        for binary, one, stats in zip(binaries, frozen, tally.stats, strict=True)
    ]
    bounds: list[CrossfitBound | None] = []
    if options["method"] == "crossfit":  # by default the bound that rests on all rows
        bounds = [_padded(crossfit(one, plan, seed, level)) for one in binaries]
    after = None
    if plan.recalibrate is not None:
        after = recalibrated_audit(sample.problem, binaries, plan, rule, options)
    problem = replace(
        sample.problem,
        warnings=(*sample.problem.warnings, *_remarks(sample, learners, tally.n_rows, bounds, after)),
    )
    return summarise(problem, rule, evaluations, bounds, options, after, plan, display)


def _remarks(
    sample: Sample, learners: Codes, n_rows: int, bounds: Sequence[Any], after: Audit | None
) -> list[str]:
    """Say what rests on how many rows."""
    n_sample = len(sample.keys)
    learned = f"regions were learned on {len(learners):,} rows of it, " if len(learners) else ""
    some = "standard errors"
    if any(bound is not None for bound in bounds):
        some = "the cross-fitted bound and standard errors"
    if after is not None:
        some += ", and what recalibration would do,"
    kept = f"of {n_rows:,} rows, all of them counted, a sample of {n_sample:,} was kept"
    return [f"{kept}: {learned}{some} rest on it."]


def _evaluated(
    problem: BinaryProblem, frozen: Frozen, learners: Codes, stats: RegionStats, n_rows: int
) -> Evaluation:
    """Return the losses of the rows that did not learn, from the sums of all rows."""
    base_rate = float(stats["label"].sum() / stats["weight"].sum())
    if len(learners):
        stats = stats.without(frozen.stats(_taken(problem, learners)))
    rows = np.setdiff1d(np.arange(len(problem.labels)), learners, assume_unique=True)
    some = _taken(problem, rows)
    level_set, region, curves = frozen.placed(some)
    cell = cell_of(stats, level_set, region)
    placed = Placed(rows, level_set, cell, some.scores, some.labels, some.weights, curves)
    fold = fold_result(problem, placed, stats, frozen.partition)
    fold = replace(fold, terms=_sampled(fold.terms, stats))
    levels = fold.stats.compute(problem.rule)
    evaluation = evaluation_of(problem, levels, [[fold]], frozen.level_sets.edges)
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


def _taken(problem: BinaryProblem, rows: Codes) -> BinaryProblem:
    def some(values: Any) -> Any:
        return None if values is None else values[rows]

    features = None if problem.features is None else problem.features.take(rows)
    return replace(
        problem,
        scores=problem.scores[rows],
        labels=problem.labels[rows],
        features=features,
        groups=some(problem.groups),
        weights=some(problem.weights),
    )
