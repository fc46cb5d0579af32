"""How a repair is learned: as far as it helps rows that it has not seen, and no further."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epiloss.curves import InterpolatedCurve, LocalLinear
from epiloss.features import Features
from epiloss.learners import Regressor
from epiloss.levelsets import Codes
from epiloss.repair.base import BinaryRepair, Correction, moved
from epiloss.repair.boosted import fit_boosted
from epiloss.repair.regional import fit_regions
from epiloss.scoring import Floats, ScoringRule

_FOLDS = 5
_ONE_FOLD_FROM = 20_000  # rows, from which on one fold left out tells enough


@dataclass(frozen=True)
class RepairPlan:
    """How to learn a repair."""

    method: str
    rule: ScoringRule
    region_ratio: float
    repeats: int
    rounds: int
    learner: Regressor | None
    n_jobs: int | None


@dataclass(frozen=True)
class Rows:
    """What a repair is learned from."""

    features: Features
    scores: Floats
    labels: Floats
    weights: Floats | None

    def take(self, rows: Codes) -> Rows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Rows(self.features.take(rows), self.scores[rows], self.labels[rows], weights)


def fit_repair(rows: Rows, plan: RepairPlan, generator: np.random.Generator) -> BinaryRepair:
    """Return the repair that does best on rows left out, or a simpler one that does nearly as well.

    In order: the scores as they are, their calibration curve, and then the corrections.
    """
    if len(rows.labels) < 2 * _FOLDS or rows.labels.min() == rows.labels.max():
        return BinaryRepair(None, ())
    fold = generator.permutation(len(rows.labels)) % _FOLDS
    if plan.method == "boosted":
        return _boosted(rows, plan, fold, generator)
    return _regional(rows, plan, fold, generator)


def _regional(rows: Rows, plan: RepairPlan, fold: Codes, generator: np.random.Generator) -> BinaryRepair:
    n_folds = _FOLDS if len(fold) < _ONE_FOLD_FROM else 1
    losses = []
    for k in range(n_folds):
        learn, left_out = rows.take(np.flatnonzero(fold != k)), rows.take(np.flatnonzero(fold == k))
        repair = _rounds(learn, plan, plan.rounds, generator)
        stages = [left_out.scores, _curve_of(repair)(left_out.scores)]
        for correction in repair.corrections:
            offset = correction.offset(left_out.features, stages[-1])
            stages.append(moved(stages[-1], offset))
        losses.append(np.stack([plan.rule.loss(stage, left_out.labels) for stage in stages]))
    weights = (
        None
        if rows.weights is None
        else np.concatenate([rows.weights[fold == k] for k in range(n_folds)])
    )
    best = simplest_good(np.concatenate(losses, axis=1), weights)
    if best == 0:
        return BinaryRepair(None, ())
    return _rounds(rows, plan, best - 1, generator)


def _rounds(rows: Rows, plan: RepairPlan, n: int, generator: np.random.Generator) -> BinaryRepair:
    """Return the curve and ``n`` corrections, each of what the ones before have left."""
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
        )
        base = moved(base, correction.offset(rows.features, base))
        corrections.append(correction)
    return BinaryRepair(curve, corrections)


def _boosted(rows: Rows, plan: RepairPlan, fold: Codes, generator: np.random.Generator) -> BinaryRepair:
    base = np.empty(len(fold))
    for k in range(_FOLDS):
        curve = _fitted_curve(rows.take(np.flatnonzero(fold != k)))
        base[fold == k] = curve(rows.scores[fold == k])
    correction, honest = fit_boosted(
        rows.features, base, rows.labels, rows.weights, fold, plan.learner, generator
    )
    stages = (rows.scores, base, moved(base, honest))
    losses = np.stack([plan.rule.loss(stage, rows.labels) for stage in stages])
    best = simplest_good(losses, rows.weights)
    if best == 0:
        return BinaryRepair(None, ())
    return BinaryRepair(_fitted_curve(rows), [correction] if best == 2 else [])


def simplest_good(losses: Floats, weights: Floats | None) -> int:
    """Return the first of several models that the best is not better than by a standard error.

    ``losses`` (models, rows) are of the same rows, which none of the models has seen.

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
        if means[model] - means[best] <= float(np.sqrt(spread @ spread)):
            return model
    return best


def _fitted_curve(rows: Rows) -> InterpolatedCurve:
    curve = LocalLinear().fit(rows.scores, rows.labels, rows.weights)
    assert isinstance(curve, InterpolatedCurve)  # and so it can be saved
    return curve


def _curve_of(repair: BinaryRepair) -> InterpolatedCurve:
    assert repair.curve is not None  # every repair but none at all begins with it
    return repair.curve
