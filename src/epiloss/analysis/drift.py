"""One model on two data sets: whether its losses changed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from epiloss._random import stream, streams
from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss._threads import limited_threads
from epiloss._typing import Floats
from epiloss.analysis.changes import Changes, common_population
from epiloss.analysis.two_samples import read_two_samples
from epiloss.auditing.differences import LOSSES
from epiloss.errors import OptionError, Remark
from epiloss.estimate import Estimate, percent
from epiloss.estimation.crossfit.run import is_possible
from epiloss.estimation.inference import difference_estimate, normal_estimate, one_sided_pvalue
from epiloss.estimation.influence import cell_of
from epiloss.estimation.learned import Learned, Placed, fitted_curves, learn_regions, level_sets_of
from epiloss.estimation.losses import level_set_losses
from epiloss.estimation.options import Options, read_options
from epiloss.estimation.partition_bound import FoldResult, evaluation_of, joined_fold
from epiloss.estimation.splits import Fold, split_folds
from epiloss.estimation.twins.estimate import twin
from epiloss.estimation.twins.judges import MOST_LEARNING
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.number_format import loss_spec
from epiloss.partition import Partition, pool_small_regions
from epiloss.table import aligned

_TASKS = ("binary", "top-label")
_WIDE = 100  # characters of a line
Sample: TypeAlias = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class SampleLosses:
    """The losses of one of the two data sets.

    Attributes
    ----------
    n_evaluated : int
        The number of rows that are evaluated.
    score, calibration_loss, grouping_loss : Estimate
        The losses; the grouping loss by regions is a lower bound.

    See Also
    --------
    epiloss.Drift : has one for each data set.

    Examples
    --------
    >>> loss = Estimate(0.1)
    >>> SampleLosses(100, loss, loss, loss).to_dict()["n_evaluated"]
    100
    """

    n_evaluated: int
    score: Estimate
    calibration_loss: Estimate
    grouping_loss: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        losses = {name: getattr(self, name).to_dict() for name in LOSSES}
        return {"n_evaluated": self.n_evaluated, **losses}


@dataclass(frozen=True)
class Drift(SavedAsJson, SavedAsPage):
    """The losses of two data sets in the same regions, and how they differ.

    Attributes
    ----------
    reference, current : SampleLosses
        The losses of each data set.
    difference : mapping of str to Estimate
        The current losses less those of the reference, with intervals and p-values.
    task, rule, method : str
        What was evaluated, and how the grouping loss is estimated.
    n_regions : int
        The number of regions.
    confidence_level : float
        The level of all intervals.
    remarks : tuple of Remark
        Notes on the data and the result.
    changes : Changes or None
        What changed: the population, the losses, or both, and the differences of the losses on the
        population that both data sets have in common. None for fewer than 100 rows.

    See Also
    --------
    drift : returns it.

    Examples
    --------
    >>> import epiloss
    >>> one, two = (epiloss.simulate.Sigmoid().sample(1_000, random_state=i) for i in range(2))
    >>> result = epiloss.drift((one.y, one.scores, one.X), (two.y, two.scores, two.X))
    >>> sorted(result.difference), result.to_dict()["current"]["n_evaluated"]
    (['calibration_loss', 'grouping_loss', 'score'], 1000)
    """

    task: str
    rule: str
    reference: SampleLosses
    current: SampleLosses
    difference: Mapping[str, Estimate]
    n_regions: int
    confidence_level: float
    remarks: tuple[Remark, ...] = field(default=())
    method: str = "partition"  # how the grouping loss is estimated
    changes: Changes | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        plain = {
            "schema": SCHEMA,
            **vars(self),
            "remarks": [remark.to_dict() for remark in self.remarks],
        }
        plain |= {"reference": self.reference.to_dict(), "current": self.current.to_dict()}
        plain["changes"] = None if self.changes is None else self.changes.to_dict()
        plain["difference"] = {name: part.to_dict() for name, part in self.difference.items()}
        finite: dict[str, Any] = for_json(plain)
        return finite

    def _page(self, **about: Any) -> str:
        from epiloss.presentation.report import drift_page

        return drift_page(self, **about)

    def __str__(self) -> str:
        spec = loss_spec(*(part.score.value for part in (self.reference, self.current)))
        rows = [["", "reference", "current", "difference", "p-value"]]
        for name, change in self.difference.items():
            before, after = (getattr(part, name) for part in (self.reference, self.current))
            ends = [f"{before:{spec}}", f"{after:{spec}}", f"{change:+{spec}}", _pvalue(change)]
            rows.append([self._title(name), *ends])
        headline = (
            f"{self.task} task, rule {self.rule}, {self.reference.n_evaluated:,} reference rows and "
            f"{self.current.n_evaluated:,} current ones in {self.n_regions:,} regions, "
            f"{percent(self.confidence_level)} intervals"
        )
        lines = [headline, "", *aligned(rows)]
        if self.changes is not None:
            told = textwrap.fill(str(self.changes), _WIDE, break_on_hyphens=False)
            lines += ["", *self._on_one_population(self.changes, spec), "", told]
        notes = [f"note: {remark}" for remark in self.remarks]
        return "\n".join([*lines, *([""] if notes else []), *notes])

    def _title(self, name: str) -> str:
        title = name.replace("_", " ")
        is_bound = name == "grouping_loss" and self.method != "twin"
        return f"{title}, at least" if is_bound else title

    def _on_one_population(self, changes: Changes, spec: str) -> list[str]:
        """Return the differences on the population that both data sets have in common."""
        overlap = percent(round(changes.overlap, 2))
        rows = [[f"on a common population (overlap {overlap})", "difference", "p-value"]]
        for name, change in changes.differences.items():
            rows.append([self._title(name), f"{change:+{spec}}", _pvalue(change)])
        return aligned(rows)


def _pvalue(change: Estimate) -> str:
    return "" if change.pvalue is None else f"{change.pvalue:.2g}"


@limited_threads()
def drift(reference: Sample, current: Sample, **options: Any) -> Drift:
    """Test whether score, calibration loss and grouping loss changed between two data sets.

    Level sets and regions are learned on a part of the reference. Its other rows, and all current
    ones, are then evaluated in the same regions. By twin learners (the default) the grouping loss of
    either data set is estimated from all of its rows, with as many to learn from in both. So a
    difference is one of the data. The two samples must be independent of each other.

    Losses can differ because the model sees other rows, or because it errs otherwise on rows that are
    alike: ``result.changes`` tells these apart. It tests whether scores and features are distributed
    differently, and whether labels have other rates at equal scores and features; and it compares the
    losses on the population that both data sets have in common.

    Parameters
    ----------
    reference, current : tuples (y_true, y_prob, X), or mappings with these names
        Labels, probabilities and features of each data set. A mapping may also have
        ``sample_weight`` and ``clusters``.
    **options
        Options of :func:`epiloss.audit`, for the tasks "binary" and "top-label"; ``split`` is the part
        of the reference that learns.

    Returns
    -------
    Drift
        The losses of both, and their differences with intervals and p-values.

    See Also
    --------
    RegionPlan : losses of batch after batch, in regions learned once.
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
    fold, learned = _learned(old, chosen, splits, trees)
    first, second, n_regions = _both_losses((old, new), fold, learned, chosen, curves[:2])
    by_twins = _by_twins_possible((old, new), chosen)
    changes = None
    if all(map(is_possible, (old, new))):
        common = common_population(old, new, chosen)
        same = [_weighted(*one) for one in zip((old, new), common.weights, strict=True)]
        then, now, _ = _both_losses(same, fold, learned, chosen, curves[2:], n_deals=1)
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
    n_deals: int | None = None,
) -> tuple[SampleLosses, SampleLosses, int]:
    """Return the losses of both data sets, and the number of their regions.

    For twins rows are dealt ``n_deals`` times, by default as often as so many are.
    """
    old, new = problems
    parts = [
        # each data set has a calibration curve of its own: it may be what has drifted
        replace(learned, curves=fitted_curves(problem, options, generator)).place(problem)
        for problem, generator in zip((old.take(fold.evaluate), new), curves, strict=True)
    ]
    folds = _on_shared_regions(learned.partition, parts)
    level = options.confidence_level
    first, second = (_losses(*part, level) for part in zip(parts, folds, strict=True))
    if _by_twins_possible(problems, options):
        first, second = _by_twins(problems, (first, second), options, n_deals)
    return first, second, folds[0].stats.merge(folds[1].stats).n_cells


def _by_twins_possible(problems: Sequence[BinaryProblem], options: Options) -> bool:
    return options.method == "twin" and all(map(is_possible, problems))


def _weighted(problem: BinaryProblem, weights: Floats) -> BinaryProblem:
    """Return a problem whose rows count so many times as often."""
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
    """Learn level sets and regions on a part of the reference; the curves are not learned yet."""
    level_sets = level_sets_of(problem, options)
    one_way = replace(options, method="paper", repeats=1)
    fold = split_folds(problem, one_way, level_sets.assign(problem.scores), splits)[0][0]
    rows = problem.take(fold.learn)
    level_set = level_sets.assign(rows.scores)
    partition = learn_regions(rows, level_set, level_sets.n_level_sets, options, trees)
    return fold, Learned(level_sets, None, partition)


def _on_shared_regions(regions: Partition | None, parts: Sequence[Placed]) -> list[FoldResult]:
    """Join regions until all have two rows in both data sets, as far as their level set has."""
    assert regions is not None  # data without features are refused at the door
    every = [part.stats_and_cells() for part in parts]
    together = every[0][0].merge(every[1][0])
    own = [cell_of(together, stats.level_set, stats.region) for stats, _ in every]
    pairs = list(zip(own, every, strict=True))
    n = [np.bincount(cells, stats.n, together.n_cells) for cells, (stats, _) in pairs]
    into = regions.join_small(together.level_set, together.region, np.minimum(*n))
    # regions that are empty in one data set are beyond a tree's own rule, so they are pooled
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
    n_deals: int | None,
) -> list[SampleLosses]:
    """Return the losses with the grouping loss by twin learners, which learn from equally many rows."""
    most = min(MOST_LEARNING, *(len(one.labels) // 3 for one in problems))
    learner = None if options.learner_given is None else options.learner
    generator, found = stream(options.seed, "twin"), []
    for problem, one in zip(problems, losses, strict=True):
        estimate = twin(
            problem,
            options.confidence_level,
            generator,
            learner=learner,
            most=most,
            n_deals=n_deals,
            n_jobs=options.n_jobs,
        ).estimate
        found.append(replace(one, grouping_loss=estimate))
    return found


def _change(before: Estimate, after: Estimate, level: float) -> Estimate:
    """Return the difference of estimates from independent samples: their variances add."""
    if before.stderr is None or after.stderr is None:
        return Estimate(after.value - before.value)
    return difference_estimate(
        after.value - before.value, math.hypot(before.stderr, after.stderr), level
    )
