"""Twin learners: an estimate of the grouping loss, right up to what the learner cannot express.

Two learners of the same kind are trained on disjoint rows. On rows that neither has seen, with ``a1``,
``a2`` and ``r`` their predictions and the label, centred given the score,

    T = mean[(a1 + a2) r - a1 a2],     E[T] = GL - E[(abar - m)^2] <= GL,     m = Q - C,

where ``abar`` is the learner's mean over training sets: the noise of the two cancels, and only the bias
of their mean counts (separate samples for the two factors of a quadratic functional: Newey and Robins,
2018). By the log-loss predictions are tilts ``t`` of the log-odds, and ``a1 a2`` is what it costs to
tilt by the mean of both, of which their noise is taken off. For other rules each row counts ``kappa(C)``
times, the least of ``d(C, q) / (q - C)^2``, and the estimate stays below.

Rows are dealt to six parts, models are trained on two of them each, and a part is judged by all models
that have not seen it: by those without a common part as twins. Many rows are dealt to four parts with a
model of each. Clusters, and rows with equal features and score, are never divided between parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from epiloss._threads import Workers, dot, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.bound import CrossfitBound
from epiloss.estimation.crossfit.learners import Learner
from epiloss.estimation.crossfit.tilts import LogTilts, tilts_of
from epiloss.estimation.inference import loss_estimate
from epiloss.estimation.influence import Influence
from epiloss.estimation.twins.design import Design, Parts, dealt, in_order
from epiloss.estimation.twins.interval import variance_per_loss
from epiloss.estimation.twins.judges import (
    MOST_LEARNING,
    Block,
    Judge,
    columns_of,
    stiffness,
    teacher_of,
    train,
)
from epiloss.input.tasks import BinaryProblem

_MUCH, _TINY = 0.01, 1e-12  # of the weight, that one row has; that the others have at least
SHARING = 2.0  # times the rows' variance that the test's direction has where there is nothing to learn
_LEARNED = (1.0, 3.0)  # between these z-scores the models are taken to have learned something


@dataclass(frozen=True)
class TwinRows:
    """What rows add: ``cross`` is ``abar r``, and ``product`` ``a1 a2``, both times ``kappa``.

    ``cautious`` is ``abar r`` for the most cautious predictions, by which the test is the strongest.
    ``value`` is what rows add to the estimate: ``2 abar r - a1 a2``, for predictions as long as they are
    trusted. ``prediction`` is ``abar``.
    """

    cross: Floats
    product: Floats
    cautious: Floats
    value: Floats
    prediction: NDArray[np.float32]

    @classmethod
    def mean(cls, deals: Sequence[TwinRows]) -> TwinRows:
        """Return what rows add on average over several deals, which all have the same fields."""
        return cls(
            *(np.mean([getattr(one, name.name) for one in deals], axis=0) for name in fields(cls))
        )


def twin(
    problem: BinaryProblem,
    level: float,
    generator: np.random.Generator,
    *,
    learner: Learner | None = None,
    judged: Codes | None = None,
    most: int = MOST_LEARNING,
    n_deals: int | None = None,
    n_jobs: int | None = None,
) -> CrossfitBound:
    """Return the twin estimate of a problem with features, and the influence of judged rows on it.

    ``learner`` is one of the user's own; ``judged`` are the rows that count, where others are there to
    learn from only; a model learns from at most ``most`` rows. Rows are dealt ``n_deals`` times, by
    default as often as so many are.
    """
    order, units = in_order(problem)
    counts = np.ones(len(order), bool)
    if judged is not None:
        counts[:] = False
        counts[judged] = True
    counts = counts[order]
    problem, place = problem.take(order), order if judged is None else order[counts]
    with limited_threads(openmp=learner is not None):
        deals = [
            twin_rows(problem, units, generator, learner, counts, most, n_jobs)
            for _ in range(Design.n_deals(len(order)) if n_deals is None else n_deals)
        ]
    rows = deals[0] if len(deals) == 1 else TwinRows.mean(deals)
    weights = None if problem.weights is None else problem.weights[counts]
    clusters = None if problem.clusters is None else problem.clusters[counts]
    # in this order sums are added up, so that how the rows came does not matter
    share_sq = 1 / len(rows.cross) if weights is None else float(weights @ weights) / weights.sum() ** 2
    per_loss = variance_per_loss(problem.labels, problem.scores, problem.weights, problem.rule, share_sq)
    bound = twin_estimate(rows, level, weights, clusters, per_loss)
    contribution, prediction = np.zeros(len(order)), np.zeros(len(order), np.float32)
    contribution[place], prediction[place] = bound.influence.contribution, rows.prediction
    if judged is not None:
        contribution, prediction = contribution[judged], prediction[judged]
    influence = replace(bound.influence, contribution=contribution)
    return replace(bound, influence=influence, prediction=prediction)


def influence_on(values: Floats, weight: Floats) -> Influence:
    """Return the influence of rows on the mean of their values.

    A row that has much of the weight pulls the mean to itself: it counts by its distance from the mean
    of the others.
    """
    share = weight / weight.sum()
    influence = share * (values - dot(share, values))
    heaviest = float(share.max(initial=0.0))
    return Influence(influence / np.maximum(1 - share, _TINY) if heaviest > _MUCH else influence)


class TwinMeans(NamedTuple):
    """The means of what rows add."""

    cross: float
    product: float
    value: float


def twin_estimate(
    rows: TwinRows,
    level: float,
    weights: Floats | None = None,
    clusters: Codes | None = None,
    per_loss: float = 0.0,
) -> CrossfitBound:
    """Return the estimate with its interval, and the p-value of no grouping loss.

    The standard error is the spread of what rows add when they evaluate. Where the models fall short of
    the truth, rows also count by what they teach: as much as ``abar`` lacks of it.
    """
    weight = np.ones(len(rows.cross)) if weights is None else weights
    share = weight / weight.sum()

    def influence(values: Floats) -> Influence:
        return influence_on(values, weight)

    means = TwinMeans(*(dot(share, one) for one in (rows.cross, rows.product, rows.value)))
    found = estimate_of_means(means, rows, influence, influence, level, clusters, per_loss=per_loss)
    pvalue = tested(dot(share, rows.cautious), influence(rows.cautious).stderr(clusters))[1]
    return replace(found, estimate=replace(found.estimate, pvalue=pvalue))


def estimate_of_means(
    means: TwinMeans,
    rows: TwinRows,
    influence: Callable[[Floats], Influence],
    lesson: Callable[[Floats], Influence],
    level: float,
    clusters: Codes | None = None,
    spread: float = 0.0,
    per_loss: float = 0.0,
) -> CrossfitBound:
    """Return the estimate by the means of what rows add.

    ``influence`` is that of rows on a mean of their values, and ``lesson`` that of the rows from which
    models have learned on a mean of such rows. ``spread`` is the variance as parts that other models
    judge show it: where models have learned nothing, what it is more than rows explain counts too, as
    the noise of products of predictions that is not less for more rows.
    """
    cross, product = means.cross, means.product
    direction = influence(rows.cross).stderr(clusters)
    z, pvalue = tested(cross, direction)
    reached = product / (cross + 1.645 * direction) if cross + 1.645 * direction > 0 else 1.0
    learned = np.clip((z - _LEARNED[0]) / (_LEARNED[1] - _LEARNED[0]), 0.0, 1.0)
    taught = learned * (1.0 - float(np.clip(reached, 0.0, 1.0)))
    own = influence(2 * rows.cross - rows.product)
    more = lesson(2 * rows.cross).by_cluster(clusters).variance
    noise = (1.0 - learned) * max(spread - own.variance, 0.0)
    total = Influence(own.contribution, taught * more + noise, 0.0)
    estimate = loss_estimate(means.value, total.stderr(clusters), per_loss, level)
    return CrossfitBound(replace(estimate, pvalue=pvalue), total, per_loss=per_loss)


def tested(cross: float, stderr: float) -> tuple[float, float]:
    """Return the z-score of the mean of ``abar r``, and the p-value of no grouping loss."""
    if not stderr > 0:
        return 0.0, 1.0
    return cross / stderr, float(ndtr(-cross / stderr / np.sqrt(SHARING)))


def twin_rows(
    problem: BinaryProblem,
    units: Codes | None,
    generator: np.random.Generator,
    learner: Learner | None,
    counts: NDArray[np.bool_],
    most: int = MOST_LEARNING,
    n_jobs: int | None = None,
) -> TwinRows:
    """Train models on rows in the order of their scores; judge those that count by models new to them.

    Rows of one unit stay together.
    """
    assert problem.features is not None
    design = Design.of(len(counts), problem.features.n_columns)
    part = dealt(problem.scores, units, design.n_parts, generator)
    seeds = generator.integers(2**31, size=len(design.learning))

    n_stages = 1 if learner is not None else 2
    found = np.empty((n_stages, 2, len(counts)))
    guesses = np.empty((n_stages, len(counts)), np.float32)

    def judge(k: int) -> None:
        rows = np.flatnonzero((part == k) & counts)
        judges = [models[place] for place in design.judges(k)]
        block = Block.of(problem, codes, rows)
        found[..., rows], guesses[:, rows] = _terms(block, judges, design.twins(k))

    def learners(place: int) -> Codes:
        return np.flatnonzero(design.learns(place)[part])

    with Workers(n_jobs) as workers:
        teacher, codes = teacher_of(problem, learner, most, workers)
        models = train(teacher, problem, codes, learners, seeds, workers)
        workers.run(judge, range(design.n_parts))
    if counts.all():
        return _chosen(found, guesses, part, problem.weights, problem.clusters)
    weights = None if problem.weights is None else problem.weights[counts]
    clusters = None if problem.clusters is None else problem.clusters[counts]
    return _chosen(found[..., counts], guesses[:, counts], part[counts], weights, clusters)


def _terms(
    block: Block, judges: Sequence[Judge], twins: Sequence[tuple[int, int]]
) -> tuple[Floats, Floats]:
    """Return ``abar r`` and ``a1 a2`` of each row of a block, the mean over all twins, by stages.

    Also return ``abar`` by stages.
    """
    tilts = tilts_of(block.rule)
    if isinstance(tilts, LogTilts):
        curve = np.mean([one.curve(block.scores) for one in judges], axis=0)
        columns = columns_of((tilts.of_steps(one.steps(block), curve) for one in judges), block)
    else:
        columns = columns_of((one.stages(block) for one in judges), block)
    block.basis.centre(columns)
    guesses, r = columns[:-1].reshape(-1, len(judges), len(block.labels)), columns[-1]
    found, means = np.empty((len(guesses), 2, len(r))), guesses.mean(axis=1)
    for stage, a, mean in zip(found, guesses, means, strict=True):
        np.multiply(mean, r, out=stage[0])
        if isinstance(tilts, LogTilts):
            stage[0] /= 2
            stage[1] = twin_cost(tilts, curve, a, twins)
        else:
            stage[1] = sum(a[i] * a[j] for i, j in twins) / len(twins)
    if not isinstance(tilts, LogTilts) and not tilts.is_even:
        found *= stiffness(block, judges)
    return found, means


def twin_cost(
    tilts: LogTilts,
    curve: Floats,
    tilt: Floats,
    twins: Sequence[tuple[int, int]],
    noise: float | None = None,
) -> Floats:
    """Return the cost of the mean tilt of a learner, from tilts (judges, rows) of its twins.

    The cost of a mean of twins ``m`` is too large for their noise, by about as much as the mean of their
    own costs is larger than that: this is taken off, less what the fourth order of the noise would make
    it too much where outcomes are rare. The ``noise`` is the variance of their tilts, by default that of
    these rows.
    """
    own = [tilts.cost(curve, one)[0] for one in tilt]
    cost, gap = np.zeros_like(curve), np.zeros_like(curve)
    for i, j in twins:
        middle = tilts.cost(curve, (tilt[i] + tilt[j]) / 2)[0]
        cost += middle / len(twins)
        gap += ((own[i] + own[j]) / 2 - middle) / len(twins)
    if noise is None:
        noise = float(np.mean([np.mean((tilt[i] - tilt[j]) ** 2) for i, j in twins])) / 2
    return np.asarray(cost - np.clip(1 - tilts.fourth(curve) * noise / 4, 0.0, 1.0) * gap, float)


def _chosen(
    found: Floats,
    guesses: NDArray[np.float32],
    part: Parts,
    weights: Floats | None,
    clusters: Codes | None,
) -> TwinRows:
    """Return what rows add by the stage that suits them, from terms (stages, 2, rows) and guesses.

    The last stage finds more where there is much to learn, and is all noise where there is nothing. It
    counts for a part as far as it is sure to find more on the other parts. The user's own learner has
    one stage, and predictions in any unit: on the other parts their best length is found.
    """
    early, late = found[0], found[-1]
    weight = np.ones(len(part)) if weights is None else weights
    (cross, product), value, prediction = early.copy(), np.empty(len(part)), guesses[0].copy()
    gains = 2 * (late[0] - early[0]) - (late[1] - early[1])
    for k in np.unique(part):
        here, others = np.flatnonzero(part == k), np.flatnonzero(part != k)
        by = weight[others], None if clusters is None else clusters[others]
        if len(found) == 1:
            length = best_length(*(_mean(one[others], *by)[0] for one in early))
            cross[here], product[here] = length * early[0, here], length**2 * early[1, here]
        else:
            certain = believed(*_mean(gains[others], *by))
            cross[here] += certain * (late[0, here] - early[0, here])
            product[here] += certain * (late[1, here] - early[1, here])
            prediction[here] += np.float32(certain) * (guesses[-1, here] - guesses[0, here])
        length = trusted(*_mean(early[0, others], *by))
        value[here] = 2 * length * cross[here] - length**2 * product[here]
    cautious = early[0].copy()  # a view would keep all of ``found``
    return TwinRows(cross, product, cautious, value, prediction)


def _mean(values: Floats, weight: Floats, clusters: Codes | None) -> tuple[float, float]:
    """Return the mean of rows' values, and its standard error."""
    share = weight / weight.sum()
    return dot(share, values), influence_on(values, weight).stderr(clusters)


def trusted(cross: float, stderr: float) -> float:
    """Return how long predictions are to be for what ``abar r`` of other rows is: 0 where it is none.

    Where there is nothing to learn their noise is kept out of the estimate in this way. The standard
    error stays that of predictions at full length.
    """
    return float(np.clip(tested(cross, stderr)[0] / np.sqrt(SHARING), 0.0, 1.0))


def believed(gain: float, stderr: float) -> float:
    """Return how far a gain is believed: not at all where it is none, wholly from two errors on."""
    return float(np.clip(gain / (2 * stderr), 0.0, 1.0)) if stderr > 0 else float(gain > 0)


def best_length(cross: float, product: float) -> float:
    """Return how many times as long predictions are to be; as they are, where that cannot be told."""
    return cross / product if cross > 0 and product > 0 else 1.0
