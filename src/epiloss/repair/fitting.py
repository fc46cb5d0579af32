"""Fitting a repair: the simplest model that is good on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from epiloss._threads import dot, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.calibration.curves import InterpolatedCurve, LocalLinear
from epiloss.estimation.crossfit.learners import Regressor
from epiloss.input.features import Features
from epiloss.repair.base import BinaryRepair, Correction
from epiloss.repair.boosted import fit_boosted
from epiloss.repair.regional import fit_regions
from epiloss.scoring import ScoringRule

_FOLDS = 5
_ONE_FOLD_FROM = 20_000  # with this many rows, a single held-out fold is precise enough
# number of standard errors by which a larger model must be better; it is larger for few rows, on which
# a model may be better by luck
FEW_ROWS, ENOUGH_ROWS = 500, 1_000
_STDERRS_FEW_ROWS, _STDERRS = 1.645, 1.0


@dataclass(frozen=True)
class RepairPlan:
    """The options of a repair."""

    method: str
    rule: ScoringRule
    region_ratio: float
    repeats: int
    rounds: int
    learner: Regressor | None
    n_jobs: int | None


@dataclass(frozen=True)
class Rows:
    """The rows that a repair is fitted to."""

    features: Features
    scores: Floats
    labels: Floats
    weights: Floats | None
    clusters: Codes | None = None

    def take(self, rows: Codes) -> Rows:
        """Return the given rows."""
        weights = None if self.weights is None else self.weights[rows]
        clusters = None if self.clusters is None else self.clusters[rows]
        some = (self.scores[rows], self.labels[rows])
        return Rows(self.features.take(rows), *some, weights, clusters)


@dataclass(frozen=True)
class Candidates:
    """Models of one score in order of size: their losses on held-out rows, and how to build them.

    The first model leaves the scores unchanged, the second is the calibration curve, and the others add
    corrections.
    """

    losses: Floats  # (models, rows)
    rows: Codes
    build: Callable[[int], BinaryRepair]


def fit_repairs(
    scores: Sequence[Rows], plan: RepairPlan, generator: np.random.Generator
) -> list[BinaryRepair]:
    """Return a repair for each score of the same rows, all of the same size.

    The size is the best one on held-out rows, or a smaller one that is nearly as good.
    """
    n, clusters = len(scores[0].labels), scores[0].clusters
    unit = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    n_units = int(unit.max()) + 1
    if n < 2 * _FOLDS or n_units < 2 or any(one.labels.min() == one.labels.max() for one in scores):
        return [BinaryRepair(None, ()) for _ in scores]
    fold = (generator.permutation(n_units) % _FOLDS)[unit]
    fit = _boosted if plan.method == "boosted" else _regional
    with limited_threads(openmp=plan.learner is not None):
        found = [fit(one, plan, fold, generator) for one in scores]
        places, weights = found[0].rows, scores[0].weights
        best = simplest_good(
            np.sum([one.losses for one in found], axis=0),
            None if weights is None else weights[places],
            None if clusters is None else clusters[places],
        )
        return [one.build(best) for one in found]


def _regional(rows: Rows, plan: RepairPlan, fold: Codes, generator: np.random.Generator) -> Candidates:
    n_folds = _FOLDS if len(fold) < _ONE_FOLD_FROM else 1
    losses, places = [], []
    for k in range(n_folds):
        places.append(np.flatnonzero(fold == k))
        learn, left_out = rows.take(np.flatnonzero(fold != k)), rows.take(places[-1])
        repair = _rounds(learn, plan, plan.rounds, generator)
        assert repair.curve is not None  # _rounds always fits a curve
        stages = [left_out.scores, repair.curve(left_out.scores)]
        for correction in repair.corrections:
            stages.append(correction.corrected(left_out.features, stages[-1]))
        losses.append(_losses(plan, stages, left_out.labels))

    def build(model: int) -> BinaryRepair:
        return BinaryRepair(None, ()) if model == 0 else _rounds(rows, plan, model - 1, generator)

    return Candidates(np.concatenate(losses, axis=1), np.concatenate(places), build)


def _rounds(rows: Rows, plan: RepairPlan, n: int, generator: np.random.Generator) -> BinaryRepair:
    """Return the curve and ``n`` corrections, each fitted to the result of those before."""
    curve = _fitted_curve(rows)
    base = curve(rows.scores)
    corrections: list[Correction] = []
    for _ in range(n):
        correction = fit_regions(
            rows.features,
            base,
            rows.labels,
            rows.weights,
            region_ratio=plan.region_ratio,
            repeats=plan.repeats,
            generator=generator,
            n_jobs=plan.n_jobs,
            clusters=rows.clusters,
        )
        base = correction.corrected(rows.features, base)
        corrections.append(correction)
    return BinaryRepair(curve, corrections)


def _boosted(rows: Rows, plan: RepairPlan, fold: Codes, generator: np.random.Generator) -> Candidates:
    base = np.empty(len(fold))
    for k in range(_FOLDS):
        curve = _fitted_curve(rows.take(np.flatnonzero(fold != k)))
        base[fold == k] = curve(rows.scores[fold == k])
    # a curve that does not help only adds noise, which the corrections would have to remove
    losses = _losses(plan, [rows.scores, base], rows.labels)
    keeps = simplest_good(losses, rows.weights, rows.clusters) == 0
    if keeps:
        base = rows.scores
    correction, honest = fit_boosted(
        rows.features, base, rows.labels, rows.weights, fold, plan.learner, generator
    )

    def build(model: int) -> BinaryRepair:
        curve = None if keeps or model == 0 else _fitted_curve(rows)
        return BinaryRepair(curve, [correction] if model == 2 else [])

    losses = _losses(plan, [rows.scores, base, honest], rows.labels)
    return Candidates(losses, np.arange(len(fold)), build)


def _losses(plan: RepairPlan, stages: Sequence[Floats], labels: Floats) -> Floats:
    return np.stack([plan.rule.loss(stage, labels) for stage in stages])


def simplest_good(losses: Floats, weights: Floats | None, clusters: Codes | None = None) -> int:
    """Return the first model that is within one standard error of the best.

    ``losses`` (models, rows) are losses on held-out rows; standard errors are clustered. With up to 500
    rows, 1.645 standard errors are used instead of one, and a value in between up to 1,000 rows.

    Examples
    --------
    >>> first = [0.2, 0.3, 0.1, 0.4]
    >>> simplest_good(np.array([first, [0.2, 0.3, 0.1, 0.3], [0.1, 0.1, 0.0, 0.2]]), None)
    2
    >>> simplest_good(np.array([first, [0.1, 0.4, 0.1, 0.3]]), None)
    0
    """
    means = np.array([np.average(loss, weights=weights) for loss in losses])
    best = int(np.argmin(means))
    w = np.ones(losses.shape[1]) if weights is None else weights
    for model in range(best):
        if not np.isfinite(means[model]):
            continue
        gain = losses[model] - losses[best]
        spread = w * (gain - np.average(gain, weights=w)) / w.sum()
        spread = spread if clusters is None else np.bincount(clusters, spread).astype(float)
        needed = np.interp(
            _n_effective(w, clusters), (FEW_ROWS, ENOUGH_ROWS), (_STDERRS_FEW_ROWS, _STDERRS)
        )
        if means[model] - means[best] <= needed * float(np.sqrt(dot(spread, spread))):
            return model
    return best


def _n_effective(weight: Floats, clusters: Codes | None) -> float:
    """Return the effective number of rows, or of clusters."""
    mass = weight if clusters is None else np.bincount(clusters, weight)
    return float(mass.sum()) ** 2 / float(mass @ mass)


def _fitted_curve(rows: Rows) -> InterpolatedCurve:
    curve = LocalLinear().fit(rows.scores, rows.labels, rows.weights)
    assert isinstance(curve, InterpolatedCurve)  # which can be saved
    return curve
