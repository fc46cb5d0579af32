"""Twin learners: an estimate of the grouping loss that misses only what the learner cannot express.

Two learners of the same kind are trained on disjoint rows. For a row that neither was trained on, let
``a1`` and ``a2`` be their predictions of ``Y - C`` and ``r`` the label, each minus its mean given the
score. With ``m = Q - C`` and ``abar`` the mean of the learner over training sets,

    T = mean[(a1 + a2) r - a1 a2],     E[T] = E[m^2] - E[(abar - m)^2] <= E[m^2].

The two learners are independent, so their noise cancels and only the bias of the mean learner is missing
(separate samples for the two factors of a quadratic functional: Newey and Robins, 2018). For the
log-loss, predictions are tilts ``t`` of the log-odds, and ``a1 a2`` is replaced by the cost of the mean
tilt. For other scoring rules, each row is multiplied by ``kappa(C)``, the largest number such that
``d(C, q) >= kappa(C) (q - C)^2`` for all ``q``, and the estimate is a lower bound.

Rows are split into six parts, and models are trained on pairs of them. Each part is evaluated by all
models that were not trained on it; two of them are twins if they have no part in common. Many rows are
split into three or four parts, with one model for each. Clusters and duplicate rows are never divided
between parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from epiloss._threads import dot, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.calibration.breaks import Breaks
from epiloss.calibration.curves import find_breaks
from epiloss.estimation.crossfit.bound import CrossfitBound
from epiloss.estimation.crossfit.learners import Learner
from epiloss.estimation.inference import loss_estimate
from epiloss.estimation.influence import Influence
from epiloss.estimation.twins.design import Design, order_and_units
from epiloss.estimation.twins.evaluate import TwinRows, twin_rows
from epiloss.estimation.twins.interval import noise_of_models, variance_per_loss
from epiloss.estimation.twins.models import MAX_TRAINING_ROWS
from epiloss.estimation.twins.shrinkage import influence_on_mean, z_and_pvalue
from epiloss.input.tasks import BinaryProblem

# Models count as having learned nothing below the first z-score of ``abar r``, and all above the second.
_LEARNED_Z = (1.0, 3.0)
# The share of the truth that the models reach is estimated on the low side, from a one-sided 95% limit
# of the mean of ``abar r``. Otherwise standard errors would be too small with few effective rows.
_ONE_SIDED_Z = 1.645


def twin(
    problem: BinaryProblem,
    level: float,
    generator: np.random.Generator,
    *,
    learner: Learner | None = None,
    evaluated: Codes | None = None,
    max_training_rows: int = MAX_TRAINING_ROWS,
    n_splits: int | None = None,
    n_jobs: int | None = None,
    breaks: Breaks | None = None,
) -> CrossfitBound:
    """Return the twin estimate for a problem with features, and the influence of rows on it.

    Parameters
    ----------
    problem : BinaryProblem
        Labels, scores and features.
    level : float
        Confidence level of the interval.
    generator : numpy.random.Generator
        Splits the rows into parts, and seeds the learner.
    learner : Learner, optional
        A learner passed by the user. The default is a ridge regression followed by boosted trees.
    evaluated : array of int, optional
        The rows over which the estimate is averaged. All others are used only for training.
    max_training_rows : int
        The maximum number of rows that a model is trained on.
    n_splits : int, optional
        The number of splits into parts to average over. The default depends on the number of rows.
    n_jobs : int, optional
        The number of threads.
    breaks : Breaks, optional
        The breaks of the calibration curve of these rows, if they are known.
    """
    order, units = order_and_units(problem)
    is_evaluated = np.ones(len(order), bool)
    if evaluated is not None:
        is_evaluated[:] = False
        is_evaluated[evaluated] = True
    is_evaluated = is_evaluated[order]
    problem, position = problem.take(order), order if evaluated is None else order[is_evaluated]
    if breaks is None:
        breaks = find_breaks(problem.scores, problem.labels, problem.weights, problem.clusters)
    given = breaks if len(breaks.own) or len(breaks.jumps) else None
    with limited_threads(openmp=learner is not None):
        splits = [
            twin_rows(problem, units, generator, learner, is_evaluated, max_training_rows, n_jobs, given)
            for _ in range(Design.n_splits(len(order)) if n_splits is None else n_splits)
        ]
    rows = splits[0] if len(splits) == 1 else TwinRows.mean(splits)
    weights = None if problem.weights is None else problem.weights[is_evaluated]
    clusters = None if problem.clusters is None else problem.clusters[is_evaluated]
    # Sums are computed with rows sorted by content, so that the order in which they were passed does
    # not change the last bits of the estimate.
    share_sq = 1 / len(rows.cross) if weights is None else float(weights @ weights) / weights.sum() ** 2
    per_loss = variance_per_loss(problem.labels, problem.scores, problem.weights, problem.rule, share_sq)
    bound = twin_estimate(rows, level, weights, clusters, per_loss)
    contribution, prediction = np.zeros(len(order)), np.zeros(len(order), np.float32)
    contribution[position], prediction[position] = bound.influence.contribution, rows.prediction
    if evaluated is not None:
        contribution, prediction = contribution[evaluated], prediction[evaluated]
    noise = (
        _design_effect(bound.influence, clusters)
        * per_loss
        * noise_of_models(problem, rows, is_evaluated)
    )
    influence = replace(bound.influence, contribution=contribution, model_noise=noise)
    return replace(bound, influence=influence, prediction=prediction)


def _design_effect(influence: Influence, clusters: Codes | None) -> float:
    """Return the factor of the variance that is due to clusters."""
    if clusters is None or not influence.variance > 0:
        return 1.0
    return influence.by_cluster(clusters).variance / influence.variance


class TwinMeans(NamedTuple):
    """The means of ``cross``, ``product`` and ``value`` over rows."""

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

    The standard error is that of the mean of ``2 abar r - a1 a2``. Rows also influence the estimate as
    training rows: to first order, by ``2 (1 - t) abar r`` if the models reach the share ``t`` of the
    truth. As these are the same rows, their two influences are added before they are squared.
    """
    weight = np.ones(len(rows.cross)) if weights is None else weights
    share = weight / weight.sum()

    def influence(values: Floats) -> Influence:
        return influence_on_mean(values, weight)

    means = TwinMeans(*(dot(share, values) for values in (rows.cross, rows.product, rows.value)))
    found = estimate_of_means(means, rows, influence, influence, level, clusters, per_loss=per_loss)
    pvalue = z_and_pvalue(dot(share, rows.early_cross), influence(rows.early_cross).stderr(clusters))[1]
    return replace(found, estimate=replace(found.estimate, pvalue=pvalue))


def estimate_of_means(
    means: TwinMeans,
    rows: TwinRows,
    influence: Callable[[Floats], Influence],
    training_influence: Callable[[Floats], Influence],
    level: float,
    clusters: Codes | None = None,
    between_parts: float = 0.0,
    per_loss: float = 0.0,
) -> CrossfitBound:
    """Return the estimate and its interval from the means of the rows' terms.

    ``influence`` returns the influence of rows on the mean of their values, and ``training_influence``
    that of the rows that models were trained on. ``between_parts`` is the variance of the estimate as
    seen between parts, which different models evaluate. If the models have learned nothing, its excess
    over the variance from rows is added: it is the noise of products of predictions, which more
    evaluated rows do not reduce. If there are so many other rows that the two influences of the sampled
    rows hardly add up, the variance of the models is added in proportion to what they miss.
    """
    cross_stderr = influence(rows.cross).stderr(clusters)
    z, pvalue = z_and_pvalue(means.cross, cross_stderr)
    upper = means.cross + _ONE_SIDED_Z * cross_stderr
    reached = float(np.clip(means.product / upper, 0.0, 1.0)) if upper > 0 else 1.0
    learned = np.clip((z - _LEARNED_Z[0]) / (_LEARNED_Z[1] - _LEARNED_Z[0]), 0.0, 1.0)
    own = influence(2 * rows.cross - rows.product)
    through_models, missed = training_influence(2 * rows.cross), learned * (1.0 - reached)
    contribution = own.contribution.copy()
    contribution[: len(rows.cross)] += missed * through_models.contribution
    both = Influence(contribution).by_cluster(clusters).variance
    apart = [one.by_cluster(clusters).variance for one in (own, through_models)]
    noise = (1.0 - learned) * max(between_parts - own.variance, 0.0)
    total = Influence(contribution, noise + max(apart[0] + missed * apart[1] - both, 0.0))
    estimate = loss_estimate(means.value, total.stderr(clusters), per_loss, level)
    return CrossfitBound(replace(estimate, pvalue=pvalue), total, per_loss=per_loss)
