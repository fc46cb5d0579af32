"""Twin learners: an estimate of the grouping loss, right up to what the learner cannot express.

Two learners of the same kind are trained on disjoint rows. On rows that neither has seen, with ``a1``,
``a2`` and ``r`` their predictions and the label, centred given the score,

    T = mean[(a1 + a2) r - a1 a2],     E[T] = GL - E[(abar - m)^2] <= GL,     m = Q - C,

where ``abar`` is the learner's mean over training sets: the noise of the two cancels, and only the bias
of their mean counts (separate samples for the two factors of a quadratic functional: Newey and Robins,
2018). For other rules than the Brier score each row counts ``kappa(C)`` times, the least of
``d(C, q) / (q - C)^2``, and the estimate stays below.

Rows are dealt to three blocks; a model is trained on each, and each block is evaluated by the models of
the other two. Several arrangements of the blocks are averaged. Clusters, and rows with equal features
and score, are never divided between blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import Bytes
from epiloss._threads import dot, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.estimate import Estimate
from epiloss.estimation.centring import ScoreBasis
from epiloss.estimation.crossfit.bound import CrossfitBound
from epiloss.estimation.crossfit.tilts import QuadraticTilts
from epiloss.estimation.inference import normal_estimate
from epiloss.estimation.influence import Influence
from epiloss.estimation.learning.encoding import Encoding, learn_encoding
from epiloss.estimation.learning.engine import Model, fit_model
from epiloss.input.tasks import BinaryProblem

N_BLOCKS = 3
SHARING = 2.3  # times the rows' variance that the test's direction has where there is nothing to learn
_EDGE = 0.005  # that curves are kept from 0 and from 1
_MOST_LEARNING = 100_000  # rows that a model learns from
_ARRANGEMENTS = ((60_000, 1), (12_000, 2), (4_000, 3), (0, 5))  # from so many rows on
_LEARNED = (2.0, 4.0)  # between these z-scores the models are taken to have learned something


@dataclass(frozen=True)
class TwinRows:
    """What rows add: ``cross`` is ``abar r``, and ``product`` ``a1 a2``, both times ``kappa``."""

    cross: Floats
    product: Floats


def twin(
    problem: BinaryProblem, level: float, generator: np.random.Generator, repeats: int = 1
) -> CrossfitBound:
    """Return the twin estimate of a problem with features, and each row's influence on it.

    ``repeats`` is how many times as many arrangements are averaged as is usual for so many rows.
    """
    with limited_threads():
        rows = twin_rows(problem, generator, repeats)
    return twin_estimate(rows, level, problem.weights, problem.clusters)


def twin_estimate(
    rows: TwinRows, level: float, weights: Floats | None = None, clusters: Codes | None = None
) -> CrossfitBound:
    """Return the estimate with its interval, and the p-value of no grouping loss.

    The standard error is the spread of what rows add when they evaluate. Where the models fall short of
    the truth, rows also count by what they teach: as much as ``abar`` lacks of it.
    """
    weight = np.ones(len(rows.cross)) if weights is None else weights
    share = weight / weight.sum()
    cross, product = dot(share, rows.cross), dot(share, rows.product)

    def influence(values: Floats) -> Influence:
        return Influence(share * (values - dot(share, values)))

    direction = influence(rows.cross).stderr(clusters)
    z = cross / direction if direction > 0 else 0.0
    pvalue = float(ndtr(-z / np.sqrt(SHARING))) if direction > 0 else 1.0
    reached = product / (cross + 1.645 * direction) if cross + 1.645 * direction > 0 else 1.0
    learned = np.clip((z - _LEARNED[0]) / (_LEARNED[1] - _LEARNED[0]), 0.0, 1.0)
    taught = learned * (1.0 - float(np.clip(reached, 0.0, 1.0)))
    own = influence(2 * rows.cross - rows.product)
    more = influence(2 * rows.cross).by_cluster(clusters).variance
    total = Influence(own.contribution, taught * more, 0.0)
    estimate = normal_estimate(2 * cross - product, total.stderr(clusters), level)
    found = Estimate(estimate.value, estimate.stderr, estimate.low, estimate.high, pvalue)
    return CrossfitBound(found, total)


def twin_rows(problem: BinaryProblem, generator: np.random.Generator, repeats: int = 1) -> TwinRows:
    """Train models on all blocks of several arrangements, and evaluate every row."""
    assert problem.features is not None  # the caller asks only where there are features
    n, scores = len(problem.labels), problem.scores
    encoding, codes = learn_encoding(problem.features, scores)
    units = _units(problem) if problem.clusters is None else problem.clusters
    times = repeats * next(times for least, times in _ARRANGEMENTS if n >= least)
    found = np.zeros((2, n))
    for _ in range(times):
        found += _evaluated(problem, encoding, codes, _blocks(scores, units, generator))
    return TwinRows(*(found / times))


@dataclass(frozen=True)
class _Learned:
    """A model and the calibration curve of the rows that it has learned from."""

    model: Model
    curve_scores: Floats
    curve_values: Floats

    def curve(self, scores: Floats) -> Floats:
        return np.asarray(np.interp(scores, self.curve_scores, self.curve_values), float)

    def predict(self, codes: Bytes, rows: Codes, scores: Floats) -> Floats:
        """Return the predicted ``Q - C``."""
        curve = self.curve(scores)
        predicted: Floats = curve * (1 - curve) * self.model.predict(codes, rows)
        return predicted


def _evaluated(problem: BinaryProblem, encoding: Encoding, codes: Bytes, blocks: list[Codes]) -> Floats:
    """Return ``abar r`` and ``a1 a2`` of each row, for one arrangement of the blocks."""
    models = [_learn(problem.take(rows), encoding, codes[:, rows]) for rows in blocks]
    stiffness = QuadraticTilts(problem.rule)
    found = np.empty((2, len(problem.labels)))
    for k, rows in enumerate(blocks):
        some, others = problem.take(rows), [one for place, one in enumerate(models) if place != k]
        guesses = [one.predict(codes, rows, some.scores) for one in others]
        columns = np.stack([*guesses, some.labels])
        a, b, r = ScoreBasis.of(some.scores, some.weights).centred(columns)
        curve = np.mean([one.curve(some.scores) for one in others], axis=0)
        found[:, rows] = np.stack([(a + b) / 2 * r, a * b]) * stiffness.stiffness(curve)
    return found


def _learn(rows: BinaryProblem, encoding: Encoding, codes: Bytes) -> _Learned:
    if len(rows.labels) > _MOST_LEARNING:
        some = np.linspace(0, len(rows.labels) - 1, _MOST_LEARNING).astype(np.int64)
        rows, codes = rows.take(some), codes[:, some]
    mean = ScoreBasis.of(rows.scores, rows.weights).mean(rows.labels[None])[0]
    curve = np.clip(mean, _EDGE, 1 - _EDGE)
    weight, residual = curve * (1 - curve), rows.labels - curve
    if rows.weights is not None:
        weight, residual = rows.weights * weight, rows.weights * residual
    model = fit_model(encoding, codes, residual, weight)
    distinct, first = np.unique(rows.scores, return_index=True)
    return _Learned(model, distinct, curve[first])


def _units(problem: BinaryProblem) -> Codes | None:
    """Return which rows are alike in score and features; None where all differ."""
    features = problem.features
    assert features is not None
    columns = [
        problem.scores,
        *(features.column(j).astype(np.float64) for j in range(features.n_columns)),
    ]
    keys = kernel().row_keys(columns)
    distinct, unit = np.unique(keys, return_inverse=True)
    return None if len(distinct) == len(keys) else unit.astype(np.int64)


def _blocks(scores: Floats, units: Codes | None, generator: np.random.Generator) -> list[Codes]:
    """Deal rows, or units, next to each other in score to the blocks in random order."""
    unit = np.arange(len(scores)) if units is None else units
    count = np.bincount(unit)
    mean = np.bincount(unit, scores) / np.maximum(count, 1)
    order = np.argsort(mean, kind="stable")
    order = order[count[order] > 0]
    deal = generator.permuted(np.tile(np.arange(N_BLOCKS), (-(-len(order) // N_BLOCKS), 1)), axis=1)
    block = np.zeros(len(count), np.int64)
    block[order] = deal.ravel()[: len(order)]
    return [np.flatnonzero(block[unit] == k) for k in range(N_BLOCKS)]
