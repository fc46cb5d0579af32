"""Learn level sets, curves and regions, assign rows to them, and sum the rows of each region.

Audits in memory, audits of files, tracking and drift all learn regions and assign rows here. The losses
are computed from the sums in ``partition_bound`` and ``losses``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.calibration.class_recalibrators import RecalibratedTogether
from epiloss.calibration.curves import Curve, cell_mean_pair, fit_curve_pair, fit_vector_curve_pair
from epiloss.calibration.halves import even_halves
from epiloss.calibration.level_sets import (
    LevelSets,
    VectorLevelSets,
    checked_count,
    resolve_level_sets,
    simplex_level_sets,
)
from epiloss.calibration.recalibrators import (
    checked_recalibration,
    fit_recalibrator,
    resolve_recalibrator,
)
from epiloss.errors import DataError
from epiloss.estimation.options import Options
from epiloss.estimation.region_stats import RegionStats
from epiloss.estimation.splits import Fold
from epiloss.input.tasks import BinaryProblem
from epiloss.partition.base import LearningRows, Partition


@dataclass(frozen=True)
class Placed:
    """Rows with their level sets, regions, and the values of both curves."""

    problem: BinaryProblem
    level_set: Codes
    region: Codes
    curves: tuple[Floats, Floats] | None

    def stats(self, plan: tuple[str, str] = ("", "")) -> RegionStats:
        """Return the sums over the rows of each region."""
        return self.stats_and_cells(plan)[0]

    def stats_and_cells(self, plan: tuple[str, str] = ("", "")) -> tuple[RegionStats, Codes]:
        """Return the sums, and the index of each row's region among them."""
        return RegionStats.with_cells(
            self.level_set,
            self.region,
            labels=self.problem.labels,
            scores=self.problem.scores,
            rule=self.problem.rule,
            weights=self.problem.weights,
            clusters=self.problem.clusters,
            curves=self.curves,
            plan=plan,
        )


@dataclass(frozen=True)
class Learned:
    """Learned level sets, curves and regions, to which further rows are assigned."""

    level_sets: LevelSets
    curves: tuple[Curve, Curve] | None  # None if each data set has its own curves
    partition: Partition | None

    @property
    def n_level_sets(self) -> int:
        """The number of level sets, empty ones included."""
        return self.level_sets.n_level_sets

    def place(self, problem: BinaryProblem) -> Placed:
        """Assign rows to level sets and regions, and evaluate the curves."""
        level_set = self.level_sets.assign(problem.scores)
        curves = None
        if self.curves is not None:
            a, b = self.curves
            curves = (a(problem.scores), b(problem.scores))
        return place(problem, level_set, curves, self.partition)


def place(
    problem: BinaryProblem,
    level_set: Codes,
    curves: tuple[Floats, Floats] | None,
    partition: Partition | None,
) -> Placed:
    """Assign rows to regions: given subgroups, regions of a partition, or whole level sets."""
    if problem.groups is not None:
        region = problem.groups
    elif partition is None or problem.features is None:
        region = np.zeros_like(level_set)
    else:
        region = partition.assign(problem.features, level_set)
    return Placed(problem, level_set, region, curves)


def learn_regions(
    problem: BinaryProblem,
    level_set: Codes,
    n_level_sets: int,
    options: Options,
    generator: np.random.Generator,
) -> Partition | None:
    """Learn regions; return None if there are no features or if subgroups are given."""
    if problem.features is None or problem.groups is not None:
        return None
    rows = LearningRows(
        problem.features, problem.labels, level_set, n_level_sets, problem.weights, problem.rule
    )
    return options.partitioner.fit(rows, generator, options.n_jobs)


def fitted_curves(
    problem: BinaryProblem, options: Options, generator: np.random.Generator
) -> tuple[Curve, Curve]:
    """Fit two calibration curves on disjoint halves of a problem's rows."""
    rows = problem.scores, problem.labels, problem.weights
    return fit_curve_pair(options.curve, *rows, generator, problem.clusters)


def level_sets_of(problem: BinaryProblem, options: Options) -> LevelSets:
    """Return the level sets of a problem's scores, according to the options."""
    return resolve_level_sets(options.n_bins, options.strategy, problem.scores, problem.weights)


@dataclass(frozen=True)
class Scored:
    """A problem with level sets and curves for its scores, as given or recalibrated on one fold.

    ``curves`` are functions of the score; for score vectors, they are arrays of each row's values.
    """

    problem: BinaryProblem
    level_set: Codes
    level_sets: LevelSets | VectorLevelSets
    curves: tuple[Curve, Curve] | tuple[Floats, Floats]

    def learn(self, rows: Codes, options: Options, generator: np.random.Generator) -> Partition | None:
        """Learn regions on some of the rows."""
        some, level_set = self.problem.take(rows), self.level_set[rows]
        return learn_regions(some, level_set, self.level_sets.n_level_sets, options, generator)

    def place(self, rows: Codes, partition: Partition | None) -> Placed:
        """Assign some of the rows to regions."""
        some = self.problem.take(rows)
        a, b = (one(some.scores) if callable(one) else one[rows] for one in self.curves)
        return place(some, self.level_set[rows], (a, b), partition)


def scored_as_given(problem: BinaryProblem, options: Options, generator: np.random.Generator) -> Scored:
    """Return the scores as given, with level sets and curves learned from all rows."""
    if problem.vectors is None:
        bins = level_sets_of(problem, options)
        curves = fitted_curves(problem, options, generator)
        return Scored(problem, bins.assign(problem.scores), bins, curves)
    scores, labels = problem.scores, problem.labels
    most = len(scores) // 50
    n_bins = checked_count(options.n_bins)
    cells = simplex_level_sets(problem.vectors, n_bins, generator, most_distinct=most)
    level_set = cells.assign(problem.vectors)
    if cells.exact:
        halves = even_halves(scores, labels, problem.weights, problem.clusters, generator)
        means = cell_mean_pair(level_set, labels, problem.weights, halves)
        return Scored(problem, level_set, cells, means)
    values = fit_vector_curve_pair(
        problem.vectors, scores, labels, problem.weights, generator, problem.clusters
    )
    return Scored(problem, level_set, cells, values)


def recalibration_strata(
    problem: BinaryProblem, options: Options, together: RecalibratedTogether | None
) -> Codes:
    """Return the level set of each row, by which the split into folds is stratified."""
    if together is not None:
        problem = replace(problem, scores=together.confidence)
    return level_sets_of(problem, options).assign(problem.scores)


def scored_recalibrated(
    problem: BinaryProblem,
    options: Options,
    fold: Fold,
    generator: np.random.Generator,
    together: RecalibratedTogether | None = None,
) -> Scored:
    """Return the scores recalibrated on a fold's learning rows, with curves from the other rows.

    With ``together``, all classes are recalibrated jointly; otherwise each score is by itself.
    """
    if together is None:
        scores = _recalibrated(problem, options, fold)
    else:
        of = problem.claimed if problem.name is None else problem.name
        scores = together.learned_on(fold.learn, of)
    recalibrated = replace(problem, scores=scores)
    bins = level_sets_of(recalibrated, options)
    # The curves need rows that the recalibration was not fitted on, for which it would look perfect.
    curves = fitted_curves(recalibrated.take(fold.evaluate), options, generator)
    return Scored(recalibrated, bins.assign(scores), bins, curves)


def _recalibrated(problem: BinaryProblem, options: Options, fold: Fold) -> Floats:
    """Return the scores of all rows, recalibrated on a fold's learning rows."""
    model = resolve_recalibrator(options.recalibrate)
    assert model is not None  # callers check that recalibrate is set
    labels = problem.labels[fold.learn]
    if labels.min() == labels.max():
        raise DataError(
            f"recalibration needs both outcomes among its {len(labels)} learning rows, got only "
            f"{labels[0]:.0f}. Use more rows, or recalibrate=None."
        )
    learn_weights = None if problem.weights is None else problem.weights[fold.learn]
    fit_recalibrator(model, problem.scores[fold.learn], labels, learn_weights)
    return checked_recalibration(model.predict(problem.scores), len(problem.scores))
