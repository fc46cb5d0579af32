"""One model on two data sets: whether its losses changed, on regions learned on the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from epiloss._json import SCHEMA, SavedAsJson, for_json
from epiloss._random import RandomState, seed_of
from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.analysis.two_samples import read_two_samples
from epiloss.auditing.differences import LOSSES
from epiloss.auditing.options import check_options
from epiloss.calibration.curves import CurveFitter, fit_curve_pair, resolve_curve
from epiloss.calibration.level_sets import LevelSets, resolve_level_sets
from epiloss.errors import DataError, OptionError
from epiloss.estimate import Estimate, percent
from epiloss.estimation.inference import difference_estimate, normal_estimate, one_sided_pvalue
from epiloss.estimation.influence import cell_of, row_terms
from epiloss.estimation.losses import level_set_losses
from epiloss.estimation.partition_bound import influence_of_rows
from epiloss.estimation.planning import Plan
from epiloss.estimation.region_stats import RegionStats
from epiloss.estimation.splits import stratified_fold
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.number_format import loss_spec
from epiloss.partition import Partition, pool_small_regions, resolve_partition
from epiloss.partition.base import LearningRows
from epiloss.scoring import ScoringRule, resolve_rule
from epiloss.table import aligned

_TASKS = ("binary", "top-label")


@dataclass(frozen=True)
class SampleLosses:
    """The losses of one data set; the grouping loss is a lower bound."""

    n_evaluated: int
    score: Estimate
    calibration_loss: Estimate
    grouping_loss: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        losses = {name: getattr(self, name).to_dict() for name in LOSSES}
        return {"n_evaluated": self.n_evaluated, **losses}


@dataclass(frozen=True)
class Drift(SavedAsJson):
    """The losses of two data sets on the same regions, and the current less the reference's."""

    task: str
    rule: str
    reference: SampleLosses
    current: SampleLosses
    difference: Mapping[str, Estimate]
    n_regions: int
    level: float
    warnings: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None."""
        plain = {"schema": SCHEMA, **vars(self), "warnings": list(self.warnings)}
        plain |= {"reference": self.reference.to_dict(), "current": self.current.to_dict()}
        plain["difference"] = {name: part.to_dict() for name, part in self.difference.items()}
        finite: dict[str, Any] = for_json(plain)
        return finite

    def __str__(self) -> str:
        rows = [["", "reference", "current", "difference", "p-value"]]
        spec = loss_spec(*(part.score.value for part in (self.reference, self.current)))
        for name, change in self.difference.items():
            before, after = (getattr(part, name) for part in (self.reference, self.current))
            pvalue = "" if change.pvalue is None else f"{change.pvalue:.2g}"
            title = "grouping loss, at least" if name == "grouping_loss" else name.replace("_", " ")
            rows.append([title, f"{before:{spec}}", f"{after:{spec}}", f"{change:+{spec}}", pvalue])
        headline = (
            f"{self.task} task, rule {self.rule}, {self.reference.n_evaluated:,} reference rows and "
            f"{self.current.n_evaluated:,} current ones in {self.n_regions:,} regions, "
            f"{percent(self.level)} intervals"
        )
        notes = [f"note: {warning}" for warning in self.warnings]
        return "\n".join([headline, "", *aligned(rows), *([""] if notes else []), *notes])


@limited_threads()
def drift(
    reference: Sequence[Any],
    current: Sequence[Any],
    *,
    task: str | None = None,
    rule: str | ScoringRule = "brier",
    bins: int | Sequence[float] = 15,
    binning: str = "uniform",
    partition: Any = "tree",
    region_ratio: float = 12,
    curve: str | CurveFitter | Callable[[Floats], Floats] | None = None,
    split: float = 0.5,
    pos_label: Any = None,
    classes: Sequence[Any] | None = None,
    level: float = 0.95,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> Drift:
    """Tell whether score, calibration loss and grouping loss changed between two data sets.

    Level sets and regions are learned on a part of the reference. Its other rows, and all current
    ones, are then evaluated in the same regions, so that a difference is one of the data. The two
    samples must be independent of each other.

    Parameters
    ----------
    reference, current : tuples (y_true, y_prob, X)
        Labels, probabilities and features of each data set.
    task : {"binary", "top-label"}, optional
        What a prediction claims.
    split : float
        The part of the reference that learns.
    rule, bins, binning, partition, region_ratio, curve, pos_label, classes, level, random_state, n_jobs
        As in :func:`epiloss.audit`.

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
    """
    if task not in (None, *_TASKS):
        raise OptionError(
            f"drift takes the tasks 'binary' and 'top-label', got {task!r}. For one class of several "
            "pass y_true == k and y_prob[:, k]."
        )
    check_options(
        split=split,
        repeats=1,
        level=level,
        method="partition",
        adjust="benjamini-hochberg",
        n_jobs=n_jobs,
    )
    scoring = resolve_rule(rule)
    seeds = np.random.SeedSequence(seed_of(random_state)).spawn(4)
    splits, trees, *curves = (np.random.default_rng(child) for child in seeds)
    partitioner = resolve_partition(partition, region_ratio)
    bins = int(bins) if isinstance(bins, np.integer) else bins
    fitter = resolve_curve(curve)
    plan = Plan(bins, binning, partitioner, fitter, split, False, 1, None, n_jobs)
    before, after = read_two_samples(reference, current, task=task, pos_label=pos_label, classes=classes)
    old, new = (binary_problems(one, scoring)[0] for one in (before, after))
    level_sets = resolve_level_sets(bins, binning, old.scores, None)
    fold = stratified_fold(level_sets.assign(old.scores), split, splits)
    if not len(fold.learn) or not len(fold.evaluate):
        raise DataError(
            f"{len(old.scores)} reference rows are too few to learn regions on some and evaluate them "
            "on the others. Bring more rows."
        )
    regions = plan.partitioner.fit(_learning_rows(old, fold.learn, level_sets), trees, n_jobs)
    parts = [
        _placed(problem, level_sets, regions, fitter, generator)
        for problem, generator in zip((_taken(old, fold.evaluate), new), curves, strict=True)
    ]
    parts = _on_shared_regions(regions, parts)
    first, second = (_losses(part, level) for part in parts)
    return Drift(
        task=before.task,
        rule=scoring.name,
        reference=first,
        current=second,
        difference={
            name: _change(getattr(first, name), getattr(second, name), level) for name in LOSSES
        },
        n_regions=parts[0].stats.merge(parts[1].stats).n_cells,
        level=level,
        warnings=tuple(dict.fromkeys(before.warnings + after.warnings)),
    )


@dataclass(frozen=True)
class _Placed:
    """Rows to evaluate, each in its region."""

    problem: BinaryProblem
    level_set: Codes
    region: Codes
    curves: tuple[Floats, Floats]
    stats: RegionStats


def _placed(
    problem: BinaryProblem,
    level_sets: LevelSets,
    regions: Partition,
    fitter: CurveFitter,
    generator: np.random.Generator,
) -> _Placed:
    assert problem.features is not None  # data without are refused at the door
    level_set = level_sets.assign(problem.scores)
    region = regions.assign(problem.features, level_set)
    # each data set has a calibration curve of its own: it may be what has drifted
    a, b = fit_curve_pair(fitter, problem.scores, problem.labels, None, generator)
    curves = a(problem.scores), b(problem.scores)
    stats = RegionStats.from_rows(
        level_set,
        region,
        labels=problem.labels,
        scores=problem.scores,
        rule=problem.rule,
        curves=curves,
    )
    return _Placed(problem, level_set, region, curves, stats)


def _on_shared_regions(regions: Partition, parts: Sequence[_Placed]) -> list[_Placed]:
    """Join regions until all have two rows in both data sets, as far as their level set has."""
    together = parts[0].stats.merge(parts[1].stats)
    own = [cell_of(together, part.stats.level_set, part.stats.region) for part in parts]
    pairs = zip(own, parts, strict=True)
    n = [np.bincount(cells, part.stats.n, together.n_cells) for cells, part in pairs]
    into = regions.join_small(together.level_set, together.region, np.minimum(*n))
    # regions that are empty in one data set are beyond a tree's own rule, so they are pooled
    joined = together.relabel(into)
    place = cell_of(joined, together.level_set, into)
    n = [np.bincount(place, count, joined.n_cells) for count in n]
    into = pool_small_regions(joined.level_set, joined.region, np.minimum(*n))[place]
    return [
        replace(
            part,
            region=into[cell_of(together, part.level_set, part.region)],
            stats=part.stats.relabel(into[cells]),
        )
        for cells, part in zip(own, parts, strict=True)
    ]


def _losses(part: _Placed, level: float) -> SampleLosses:
    problem, rows = part.problem, np.arange(len(part.level_set))
    levels = level_set_losses(part.stats, problem.rule)
    terms = row_terms(
        rows,
        part.stats,
        part.level_set,
        cell_of(part.stats, part.level_set, part.region),
        scores=problem.scores,
        labels=problem.labels,
        curves=part.curves,
        weights=None,
        rule=problem.rule,
    )
    bounded = problem.rule.bounded
    influence = influence_of_rows(levels, [terms], len(rows), 1, None, bounded=bounded)
    stderr = {name: influence[name].stderr() for name in LOSSES}
    losses = {name: normal_estimate(levels.total(name), stderr[name], level) for name in LOSSES}
    pvalue = one_sided_pvalue(losses["grouping_loss"].value, stderr["grouping_loss"])
    losses["grouping_loss"] = replace(losses["grouping_loss"], pvalue=pvalue)
    return SampleLosses(len(rows), **losses)


def _change(before: Estimate, after: Estimate, level: float) -> Estimate:
    """Return the difference of estimates from independent samples: their variances add."""
    if before.stderr is None or after.stderr is None:
        return Estimate(after.value - before.value)
    return difference_estimate(
        after.value - before.value, math.hypot(before.stderr, after.stderr), level
    )


def _taken(problem: BinaryProblem, rows: Codes) -> BinaryProblem:
    assert problem.features is not None  # data without are refused at the door
    features = problem.features.take(rows)
    return replace(problem, scores=problem.scores[rows], labels=problem.labels[rows], features=features)


def _learning_rows(problem: BinaryProblem, rows: Codes, level_sets: LevelSets) -> LearningRows:
    learn = _taken(problem, rows)
    assert learn.features is not None  # as above
    level_set = level_sets.assign(learn.scores)
    return LearningRows(
        learn.features, learn.labels, level_set, level_sets.n_level_sets, None, learn.rule
    )
