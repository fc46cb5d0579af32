"""A lower bound on the grouping loss without bins: cross-fitted, and free of the curve's errors.

Let ``g`` be any prediction of ``Y - C`` learned on other rows, ``a = g - E[g|S]`` and
``r = Y - E[Y|S]``. By Cauchy-Schwarz ``E[a r]^2 / E[a^2] <= E[(Q - C)^2]``, the grouping loss of the
Brier score, with equality where ``a`` is proportional to ``Q - C``. Both conditional means are
projections on splines of the score's rank, so an error of a curve enters only multiplied by another.

For another rule let ``kappa(c)`` be the largest number with ``d(c, q) >= kappa(c) (q - c)^2``. Then
``E[a r]^2 / E[a^2 / kappa]`` is a lower bound, best with ``kappa g`` in place of ``g``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from epiloss.curves import LocalLinear
from epiloss.features import Features
from epiloss.inference import normal_estimate, unified_interval
from epiloss.influence import Influence, dot
from epiloss.learners import Learner
from epiloss.levelsets import Codes
from epiloss.results import Estimate
from epiloss.scoring import Brier, Floats, ScoringRule


@dataclass(frozen=True)
class Directions:
    """For every row, how far its prediction and its label lie from what the score tells.

    ``prediction`` is ``a`` and ``residual`` is ``r``, both centred given the score; ``square`` is
    ``a^2 / kappa``; ``fold`` is the part of the rows that a row was evaluated with. ``inflation`` is
    how much larger than the spread of rows the noise of their mean is, because they were centred.
    """

    prediction: Floats
    residual: Floats
    square: Floats
    fold: Codes
    weight: Floats
    inflation: Floats

    def folds(self) -> Iterator[tuple[Codes, Directions]]:
        """Return the rows of each fold, their numbers first."""
        for k in np.unique(self.fold):
            rows = np.flatnonzero(self.fold == k)
            yield rows, Directions(*(part[rows] for part in vars(self).values()))

    @property
    def product(self) -> Floats:
        """``a r`` of each row."""
        return self.prediction * self.residual

    def contribution(self, values: Floats) -> Floats:
        """Return each row's weighted deviation from the mean."""
        total = self.weight.sum()
        spread: Floats = self.inflation * self.weight * (values - self.mean(values)) / total
        return spread

    def mean(self, values: Floats) -> float:
        """Return a weighted mean."""
        return dot(self.weight, values) / float(self.weight.sum())


@dataclass(frozen=True)
class CrossfitBound:
    """The lower bound with its interval, and each row's influence on it."""

    estimate: Estimate
    influence: Influence


def crossfit_bound(
    directions: Directions, level: float, clusters: Codes | None = None, *, sharing: float = 2.0
) -> CrossfitBound:
    """Return the lower bound ``mean over folds of (theta^2 - var theta) / v``.

    ``theta = mean(a r)`` and ``v = mean(a^2 / kappa)``. Folds share learning rows, so the variance
    of ``theta`` is up to ``sharing`` times what its rows show where there is nothing to learn: the
    test, and the interval near zero, allow for it.
    """
    folds = [
        _debiased_square(fold, None if clusters is None else clusters[rows])
        for rows, fold in directions.folds()
    ]
    squares, noise = np.array(folds).T
    value = float(squares.mean())
    # squared noise varies by twice its square, and by a quarter more as the folds share rows
    beyond = 2.5 * float(noise @ noise) / len(noise) ** 2
    theta, v = directions.mean(directions.product), directions.mean(directions.square)
    if v <= 0:
        flat = Influence(np.zeros(len(directions.weight)))
        return CrossfitBound(Estimate(0.0, 0.0, 0.0, 0.0, 1.0), flat)
    product, square = (
        directions.contribution(directions.product),
        directions.contribution(directions.square),
    )
    theta_stderr = Influence(product).stderr(clusters)
    pvalue = float(ndtr(-theta / theta_stderr / np.sqrt(sharing))) if theta_stderr > 0 else 1.0
    root = theta / np.sqrt(v)
    influence = product / np.sqrt(v) - theta * square / (2 * v**1.5)
    learned = np.clip((theta - 1.645 * np.sqrt(sharing) * theta_stderr) / v, 0, 1)
    shared = np.sqrt(sharing - (sharing - 1) * learned)
    root_stderr = Influence(influence).stderr(clusters) * shared
    ends = unified_interval(root / root_stderr, level) if root_stderr > 0 else (0.0, 0.0)
    low, high = (float((root_stderr * end) ** 2) for end in ends)
    on_value = Influence(2 * max(root, 0.0) * influence * shared, beyond, beyond)
    # the value is of each fold by itself and the interval of all together: of few rows they may part
    ends = min(low, max(value, 0.0)), max(high, value)
    estimate = Estimate(value, on_value.stderr(clusters), *ends, pvalue)
    return CrossfitBound(estimate, on_value)


def average_bounds(
    parts: Sequence[tuple[Codes, CrossfitBound]],
    n_rows: int,
    level: float,
    clusters: Codes | None = None,
) -> CrossfitBound:
    """Return the bound averaged over parts, each with its rows among ``n_rows``, by their number."""
    total = sum(len(rows) for rows, _ in parts)
    contribution, beyond, value, pvalue_score = np.zeros(n_rows), 0.0, 0.0, 0.0
    for rows, bound in parts:
        share = len(rows) / total
        contribution[rows] += share * bound.influence.contribution
        beyond += share**2 * bound.influence.beyond
        value += share * bound.estimate.value
        pvalue_score += share * _normal_score(bound.estimate.pvalue)
    influence = Influence(contribution, beyond, beyond)
    # the parts share what they learned from, so their scores are averaged and not added up
    estimate = normal_estimate(value, influence.stderr(clusters), level)
    return CrossfitBound(replace(estimate, pvalue=float(ndtr(-pvalue_score))), influence)


def sum_of_bounds(
    bounds: Sequence[CrossfitBound], level: float, clusters: Codes | None = None
) -> CrossfitBound:
    """Return the bound on a loss summed over classes; a single one keeps its own interval."""
    if len(bounds) == 1:
        return bounds[0]
    influence = reduce(add, (bound.influence for bound in bounds))
    estimate = normal_estimate(
        sum(bound.estimate.value for bound in bounds), influence.stderr(clusters), level
    )
    # the smallest of K p-values, taken K times, whatever their dependence
    least = min(bound.estimate.pvalue or 0.0 for bound in bounds)
    return CrossfitBound(replace(estimate, pvalue=min(1.0, len(bounds) * least)), influence)


def _normal_score(pvalue: float | None) -> float:
    return float(-ndtri(np.clip(1.0 if pvalue is None else pvalue, 1e-300, 1 - 1e-16)))


def _debiased_square(fold: Directions, clusters: Codes | None) -> tuple[float, float]:
    """Return ``(theta^2 - var theta) / v``, and what was taken off."""
    v = fold.mean(fold.square)
    if v <= 0:
        return 0.0, 0.0
    noise = Influence(fold.contribution(fold.product)).stderr(clusters) ** 2 / v
    return fold.mean(fold.product) ** 2 / v - noise, noise


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
    """Learn ``g`` on all folds but one, and centre it and the labels on that one."""
    features = learner.prepare(features, int(generator.integers(2**31)))
    fold = (
        _balanced_folds(scores, n_folds, generator)
        if clusters is None
        else generator.permutation(int(clusters.max()) + 1)[clusters] % n_folds
    )
    weight = np.ones(len(scores)) if weights is None else weights
    seeds = generator.integers(2**31, size=n_folds)
    prediction, residual, square, inflation = np.empty((4, len(scores)))
    for k in range(n_folds):
        learn, evaluate = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        learn_weights = None if weights is None else weights[learn]
        curve = LocalLinear().fit(scores[learn], labels[learn], learn_weights)
        target = labels[learn] - curve(scores[learn])
        model = learner.fit(features.take(learn), scores[learn], target, learn_weights, int(seeds[k]))
        stiffness = _stiffness(rule, curve(scores[evaluate]))
        guess = stiffness * model.predict(features.take(evaluate), scores[evaluate])
        both = np.column_stack([guess, labels[evaluate]])
        centred, inflation[evaluate] = _centred(both, scores[evaluate], weight[evaluate])
        prediction[evaluate], residual[evaluate] = centred.T
        square[evaluate] = prediction[evaluate] ** 2 / stiffness
    return Directions(prediction, residual, square, fold, weight, inflation)


def _stiffness(rule: ScoringRule, c: Floats) -> Floats:
    """Return ``kappa(c)``, the least of ``d(c, q) / (q - c)^2`` over ``q``, from a grid."""
    if isinstance(rule, Brier):
        return np.ones_like(c)
    grid = np.linspace(0.0025, 0.9975, 200)
    q = np.linspace(0, 1, 401)[None, :]
    gap = grid[:, None] - q
    near = np.abs(gap) < 2e-3
    ratio = rule.divergence(grid[:, None], q) / np.where(near, 1.0, gap**2)
    return np.asarray(np.interp(c, grid, np.where(near, np.inf, ratio).min(axis=1)), float)


def _balanced_folds(scores: Floats, n_folds: int, generator: np.random.Generator) -> Codes:
    """Deal the rows, in the order of their scores, to the folds in random order."""
    order = np.argsort(scores, kind="stable")
    n_rounds = -(-len(scores) // n_folds)
    deal = generator.permuted(np.tile(np.arange(n_folds), (n_rounds, 1)), axis=1).ravel()
    fold = np.empty(len(scores), np.int64)
    fold[order] = deal[: len(scores)]
    return fold


def _centred(values: Floats, scores: Floats, weight: Floats) -> tuple[Floats, float]:
    """Return the residuals of each column on splines of the score's rank, at their full size.

    The projection takes up part of each row's noise; ``sqrt(n / (n - p))``, which is returned too,
    restores its variance.
    """
    basis = _score_basis(scores, weight)
    weighted = basis.multiply(weight[:, None]).tocsr()
    gram = (basis.T @ weighted).toarray()
    coefficients = np.linalg.lstsq(gram, np.asarray(weighted.T @ values), rcond=1e-10)[0]
    n, n_basis = basis.shape
    inflation = float(np.sqrt(n / max(n - n_basis, 1)))
    residual = values - basis @ coefficients
    residual[np.abs(residual) <= 1e-10 * np.abs(values).max(axis=0)] = 0.0  # no more than rounding
    return residual * inflation, inflation


def _score_basis(scores: Floats, weight: Floats) -> Any:
    """Return quadratic B-splines of the rank, or indicators where the scores have few values."""
    from scipy.interpolate import BSpline  # which takes longer to load than all else together
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
