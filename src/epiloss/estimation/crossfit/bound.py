"""A cross-fitted lower bound on the grouping loss without bins.

For any function ``t`` of features and score, ``E[t (Q - C)] - E[cost(C, t)]`` is a lower bound on the
grouping loss, where the cost is the conjugate of the scoring rule's divergence; see ``tilts``. Let ``a``
be a tilt learned on other rows, minus its mean given the score, and let ``r = Y - E[Y|S]``. The bound
for ``t = l a`` is ``l E[a r] - E[cost(C, l a)]``, which has its maximum at one length ``l``. Both
conditional means are projections on splines of the score's rank, so that errors of the curves only enter
as products. A function of the score is added to ``a`` to minimise its cost; it does not change
``E[a r]``.

For the Brier score, the bound is the Cauchy-Schwarz inequality ``E[a r]^2 / E[a^2] <= E[(Q - C)^2]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.calibration.curves import LocalLinear
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.learners import Learner
from epiloss.estimation.crossfit.tilts import LogTilts, Tilts, tilts_of
from epiloss.estimation.inference import loss_estimate, normal_estimate, unified_interval
from epiloss.estimation.influence import Influence
from epiloss.input.features import Features
from epiloss.scoring import ScoringRule

_TOLERANCE, _TINY = 1e-9, 1e-300  # relative to the length of a tilt; smallest bound
_BALANCING_STEPS, _LONGEST_STEP = 3, 1.0
_STEEPEST = 6.0  # largest tilt of log-odds; beyond it the curvature is almost 0


@dataclass(frozen=True)
class Directions:
    """The deviations of each row's prediction and label from their means given the score.

    ``prediction`` is ``a`` and ``residual`` is ``r``, both centred given the score. ``balanced`` is
    ``a`` plus the function of the score that minimises its cost. ``curve`` is ``C``, and ``fold`` the
    fold in which a row was evaluated. ``inflation`` corrects the standard deviation of rows for the
    centring.
    """

    tilts: Tilts
    prediction: Floats
    residual: Floats
    balanced: Floats
    curve: Floats
    fold: Codes
    weight: Floats
    inflation: Floats

    def folds(self) -> Iterator[tuple[Codes, Directions]]:
        """Yield the row indices and the directions of each fold."""
        arrays = [one.name for one in fields(self) if one.name != "tilts"]
        for k in np.unique(self.fold):
            rows = np.flatnonzero(self.fold == k)
            yield rows, replace(self, **{name: getattr(self, name)[rows] for name in arrays})

    @cached_property
    def product(self) -> Floats:
        """``a r`` of each row."""
        return self.prediction * self.residual

    def cost(self, length: float) -> tuple[Floats, float, float]:
        """Return each row's cost of ``length`` times ``a``, and its mean slope and curvature."""
        a = self.balanced
        with np.errstate(over="ignore", invalid="ignore"):  # a very long tilt has infinite cost
            cost, slope, curvature = self.tilts.cost(self.curve, length * a)
            return cost, self.mean(a * slope), self.mean(a * a * curvature)

    @property
    def longest(self) -> float:
        """The largest length considered; if labels leak, the best length would be infinite."""
        if isinstance(self.tilts, LogTilts):
            return _STEEPEST / max(float(np.abs(self.balanced).max(initial=0.0)), _TINY)
        return np.inf

    def contribution(self, values: Floats) -> Floats:
        """Return each row's weighted deviation from the mean, as influence values."""
        total = self.weight.sum()
        spread: Floats = self.inflation * self.weight * (values - self.mean(values)) / total
        return spread

    def mean(self, values: Floats) -> float:
        """Return the weighted mean of values."""
        return dot(self.weight, values) / float(self.weight.sum())


@dataclass(frozen=True)
class BestLength:
    """The length of ``a`` with the largest bound, each row's cost, the bound and its curvature."""

    length: float
    cost: Floats
    bound: float
    curvature: float

    @classmethod
    def of(cls, directions: Directions) -> BestLength | None:
        """Maximise the bound by Newton steps with step halving; return None if ``a`` is 0."""
        theta, length, bound = directions.mean(directions.product), 0.0, 0.0
        cost, slope, curvature = directions.cost(length)
        if not curvature > 0:
            return None
        longest = directions.longest
        step = float(np.clip(theta / curvature, -longest, longest))
        while abs(step) > _TOLERANCE * max(abs(length), _TOLERANCE):
            trial = directions.cost(length + step)
            trial_bound = (length + step) * theta - directions.mean(trial[0])
            if trial_bound >= bound:
                length, bound, (cost, slope, curvature) = length + step, trial_bound, trial
                step = (theta - slope) / curvature
                step = float(np.clip(length + step, -longest, longest)) - length
            else:
                step /= 2
        return cls(length, cost, bound, curvature)


@dataclass(frozen=True)
class CrossfitBound:
    """The lower bound with its interval, and each row's influence on it.

    ``prediction`` is the centred prediction for each row by a model that has not seen it. The variance
    of the estimate grows by ``per_loss`` times the loss; 0 if that is not known.
    """

    estimate: Estimate
    influence: Influence
    prediction: NDArray[np.float32] | None = None
    per_loss: float = 0.0


def crossfit_bound(
    directions: Directions, level: float, clusters: Codes | None = None, *, sharing: float = 2.0
) -> CrossfitBound:
    """Return the lower bound: the mean over folds of the largest bound, corrected for noise.

    The correction is half the variance of ``theta = mean(a r)`` divided by the curvature. For the Brier
    score, the bound of a fold is ``(theta^2 - var theta) / mean(a^2)``. Folds share learning rows. If
    there is nothing to learn, the variance of ``theta`` is therefore up to ``sharing`` times that of
    its rows; the test, and the interval near zero, take this into account.
    """
    folds = [
        _debiased(fold, None if clusters is None else clusters[rows])
        for rows, fold in directions.folds()
    ]
    bounds, noise = np.array(folds).T
    value = float(bounds.mean())
    # Squared noise has twice its square as variance, and a quarter more because folds share rows.
    beyond = 2.5 * float(noise @ noise) / len(noise) ** 2
    best = BestLength.of(directions)
    if best is None:
        none = Influence(np.zeros(len(directions.weight)))
        return CrossfitBound(Estimate(0.0, 0.0, 0.0, 0.0, 1.0), none)
    theta, curvature = directions.mean(directions.product), directions.cost(0.0)[2]
    product = directions.contribution(directions.product)
    theta_stderr = Influence(product).stderr(clusters)
    pvalue = float(ndtr(-theta / theta_stderr / np.sqrt(sharing))) if theta_stderr > 0 else 1.0
    root = float(np.copysign(np.sqrt(best.bound), theta))
    influence = product / np.sqrt(2 * curvature)  # influence on the root of the bound if that is 0
    if best.bound > _TINY:
        gain = best.length * directions.product - best.cost
        influence = directions.contribution(gain) / (2 * root)
    learned = np.clip((theta - 1.645 * np.sqrt(sharing) * theta_stderr) / curvature, 0, 1)
    shared = np.sqrt(sharing - (sharing - 1) * learned)
    root_stderr = Influence(influence).stderr(clusters) * shared
    ends = unified_interval(root / root_stderr, level) if root_stderr > 0 else (0.0, 0.0)
    low, high = (float((root_stderr * end) ** 2) for end in ends)
    on_value = Influence(2 * max(root, 0.0) * influence * shared, beyond, beyond)
    # The value is the mean over folds, but the interval is computed from all rows together. With few
    # rows, the interval may have to be extended to contain the value.
    stderr = on_value.stderr(clusters)
    around = normal_estimate(value, stderr, level)
    if around.low is not None and low > value:
        low = max(around.low, 0.0)
    if around.high is not None and high < value:
        high = around.high
    # A negative value is reported as it is, and inside its interval.
    estimate = Estimate(value, stderr, min(low, value), high, pvalue)
    return CrossfitBound(estimate, on_value, directions.prediction.astype(np.float32))


def average_bounds(
    parts: Sequence[tuple[Codes, CrossfitBound]],
    n_rows: int,
    level: float,
    clusters: Codes | None = None,
) -> CrossfitBound:
    """Return the mean bound over disjoint parts of the rows, weighted by their size."""
    total = sum(len(rows) for rows, _ in parts)
    contribution, beyond, noise = np.zeros(n_rows), 0.0, 0.0
    value, pvalue_score, per_loss = 0.0, 0.0, 0.0
    for rows, bound in parts:
        share = len(rows) / total
        contribution[rows] += share * bound.influence.contribution
        beyond += share**2 * bound.influence.beyond
        noise += share**2 * bound.influence.model_noise
        value += share * bound.estimate.value
        pvalue_score += share * _normal_score(bound.estimate.pvalue)
        per_loss += share**2 * bound.per_loss
    influence = Influence(contribution, beyond, beyond, noise)
    # Normal scores are averaged instead of summed, because the parts share learning rows.
    estimate = loss_estimate(value, influence.stderr(clusters), per_loss, level)
    return CrossfitBound(
        replace(estimate, pvalue=float(ndtr(-pvalue_score))), influence, per_loss=per_loss
    )


def mean_of_repeats(bounds: Sequence[CrossfitBound]) -> CrossfitBound:
    """Return the mean bound over repeats, which split the same rows into different folds.

    As repeats share all rows, averaging does not reduce the uncertainty: values, interval limits and
    normal scores are averaged.
    """
    if len(bounds) == 1:
        return bounds[0]

    def mean(name: str) -> float | None:
        values = [getattr(bound.estimate, name) for bound in bounds]
        return None if None in values else float(np.mean(values))

    score = float(np.mean([_normal_score(bound.estimate.pvalue) for bound in bounds]))
    value = float(np.mean([bound.estimate.value for bound in bounds]))
    ends = (mean("stderr"), mean("low"), mean("high"))
    influence = Influence(
        np.mean([bound.influence.contribution for bound in bounds], axis=0),
        float(np.mean([bound.influence.beyond for bound in bounds])),
        float(np.mean([bound.influence.least for bound in bounds])),
        float(np.mean([bound.influence.model_noise for bound in bounds])),
    )
    predictions = [bound.prediction for bound in bounds if bound.prediction is not None]
    prediction = np.mean(predictions, axis=0) if predictions else None
    return CrossfitBound(Estimate(value, *ends, float(ndtr(-score))), influence, prediction)


def sum_of_bounds(
    bounds: Sequence[CrossfitBound], level: float, clusters: Codes | None = None
) -> CrossfitBound:
    """Return the bound on a loss summed over classes; a single class keeps its own interval."""
    if len(bounds) == 1:
        return bounds[0]
    influence = reduce(add, (bound.influence for bound in bounds))
    per_loss = float(np.mean([bound.per_loss for bound in bounds]))
    estimate = loss_estimate(
        sum(bound.estimate.value for bound in bounds), influence.stderr(clusters), per_loss, level
    )
    # Bonferroni: K times the smallest p-value, which is valid for any dependence.
    smallest = min(bound.estimate.pvalue or 0.0 for bound in bounds)
    return CrossfitBound(replace(estimate, pvalue=min(1.0, len(bounds) * smallest)), influence)


def _normal_score(pvalue: float | None) -> float:
    return float(-ndtri(np.clip(1.0 if pvalue is None else pvalue, 1e-300, 1 - 1e-16)))


def _debiased(fold: Directions, clusters: Codes | None) -> tuple[float, float]:
    """Return the largest bound minus its bias due to noise, and that bias."""
    best = BestLength.of(fold)
    if best is None:
        return 0.0, 0.0
    noise = Influence(fold.contribution(fold.product)).stderr(clusters) ** 2 / (2 * best.curvature)
    return best.bound - noise, noise


def cross_fitted_directions(
    features: Features,
    scores: Floats,
    labels: Floats,
    *,
    rule: ScoringRule,
    learner: Learner,
    generator: np.random.Generator,
    weights: Floats | None = None,
    clusters: Codes | None = None,
    n_folds: int = 5,
) -> Directions:
    """Learn on all folds but one, and centre predictions and labels on that one, for each fold."""
    features = learner.prepare(features, int(generator.integers(2**31)))
    fold = (
        _balanced_folds(scores, n_folds, generator)
        if clusters is None
        else generator.permutation(int(clusters.max()) + 1)[clusters] % n_folds
    )
    weight = np.ones(len(scores)) if weights is None else weights
    seeds = generator.integers(2**31, size=n_folds)
    tilts, base_rate = tilts_of(rule), float(np.average(labels, weights=weights))
    prediction, residual, balanced, inside, inflation = np.empty((5, len(scores)))
    for k in range(n_folds):
        learn, evaluate = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        learn_weights = None if weights is None else weights[learn]
        curve = LocalLinear().fit(scores[learn], labels[learn], learn_weights)
        known = tilts.inside(curve(scores[learn]), base_rate)
        target, target_weights = tilts.task(labels[learn] - known, known, learn_weights)
        model = learner.fit(features.take(learn), scores[learn], target, target_weights, int(seeds[k]))
        inside[evaluate] = tilts.inside(curve(scores[evaluate]), base_rate)
        predicted = model.predict(features.take(evaluate), scores[evaluate])
        splines = _Splines(scores[evaluate], weight[evaluate])
        both = np.column_stack([tilts.tilt(predicted, inside[evaluate]), labels[evaluate]])
        centred, inflation[evaluate] = splines.centred(both)
        prediction[evaluate], residual[evaluate] = centred.T
        balanced[evaluate] = splines.balanced(tilts, inside[evaluate], prediction[evaluate])
    return Directions(tilts, prediction, residual, balanced, inside, fold, weight, inflation)


def _balanced_folds(scores: Floats, n_folds: int, generator: np.random.Generator) -> Codes:
    """Assign rows to folds, such that all folds have similar scores.

    Each run of ``n_folds`` rows in the order of their scores is distributed over the folds at random.
    """
    order = np.argsort(scores, kind="stable")
    n_rounds = -(-len(scores) // n_folds)
    shuffled = generator.permuted(np.tile(np.arange(n_folds), (n_rounds, 1)), axis=1).ravel()
    fold = np.empty(len(scores), np.int64)
    fold[order] = shuffled[: len(scores)]
    return fold


class _Splines:
    """Splines of the score's rank, which estimate means given the score by projection."""

    def __init__(self, scores: Floats, weight: Floats) -> None:
        self.basis, self.weight = _score_basis(scores, weight), weight

    def centred(self, values: Floats) -> tuple[Floats, float]:
        """Return the residuals of each column from its projection, rescaled.

        The projection absorbs part of each row's noise. The factor ``sqrt(n / (n - p))`` restores its
        variance; it is returned as well.
        """
        n, n_splines = self.basis.shape
        inflation = float(np.sqrt(n / max(n - n_splines, 1)))
        residual = values - self._projected(self.weight, self.weight[:, None] * values)
        residual[np.abs(residual) <= 1e-10 * np.abs(values).max(axis=0)] = 0.0  # rounding errors
        return residual * inflation, inflation

    def balanced(self, tilts: Tilts, curve: Floats, a: Floats) -> Floats:
        """Return ``a`` plus the function of the score that minimises the cost of the tilt.

        A function of the score alone does not change ``E[a r]``, so that the bound can only increase.
        """
        for _ in range(0 if tilts.is_even else _BALANCING_STEPS):
            _, slope, curvature = tilts.cost(curve, a)
            step = self._projected(self.weight * curvature, self.weight * slope)
            a = a - np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        return a

    def _projected(self, weight: Floats, values: Floats) -> Floats:
        """Return the weighted projection on the splines, given the already weighted values."""
        gram = (self.basis.T @ self.basis.multiply(weight[:, None]).tocsr()).toarray()
        coefficients = np.linalg.lstsq(gram, np.asarray(self.basis.T @ values), rcond=1e-10)[0]
        return np.asarray(self.basis @ coefficients, float)


def _score_basis(scores: Floats, weight: Floats) -> Any:
    """Return quadratic B-splines of the rank, or indicators if there are few distinct scores."""
    from scipy.interpolate import BSpline  # slow to import
    from scipy.sparse import csr_array

    n = len(scores)
    n_intervals = int(np.clip(round(n ** (1 / 3)), 5, 40))
    distinct, code = np.unique(scores, return_inverse=True)
    if len(distinct) <= n_intervals + 2:
        return csr_array((np.ones(n), (np.arange(n), code)), shape=(n, len(distinct)))
    mass = np.bincount(code, weight)
    rank = ((np.cumsum(mass) - mass / 2) / mass.sum())[code]
    knots = np.concatenate([[0, 0], np.linspace(0, 1, n_intervals + 1), [1, 1]])
    return csr_array(BSpline.design_matrix(rank, knots, 2))
