"""Train models on parts of the rows, and evaluate each row by the models that were not trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from epiloss._threads import Workers, dot
from epiloss._typing import Codes, Floats
from epiloss.calibration.breaks import Breaks
from epiloss.estimation.crossfit.learners import Learner
from epiloss.estimation.crossfit.tilts import LogTilts, tilts_of
from epiloss.estimation.twins.design import Design, Parts, split_into_parts
from epiloss.estimation.twins.models import (
    MAX_TRAINING_ROWS,
    Block,
    PartModel,
    mean_curve,
    row_kappa,
    stack_columns,
    train_models,
    trainer_for,
)
from epiloss.estimation.twins.shrinkage import (
    influence_on_mean,
    late_weight,
    shrinkage_factor,
    unit_factor,
)
from epiloss.input.tasks import BinaryProblem


@dataclass(frozen=True)
class TwinRows:
    """The terms of each row: ``cross`` is ``abar r`` and ``product`` is ``a1 a2``, both times ``kappa``.

    ``early_cross`` is ``abar r`` of the early predictions, which the test uses. ``value`` is the row's
    contribution to the estimate, ``2 abar r - a1 a2`` after shrinkage. ``prediction`` is ``abar``.
    """

    cross: Floats
    product: Floats
    early_cross: Floats
    value: Floats
    prediction: NDArray[np.float32]

    @classmethod
    def mean(cls, splits: Sequence[TwinRows]) -> TwinRows:
        """Return the means of all terms over several splits of the same rows."""
        return cls(
            *(np.mean([getattr(rows, field.name) for rows in splits], axis=0) for field in fields(cls))
        )


def twin_rows(
    problem: BinaryProblem,
    units: Codes | None,
    generator: np.random.Generator,
    learner: Learner | None,
    is_evaluated: NDArray[np.bool_],
    max_training_rows: int = MAX_TRAINING_ROWS,
    n_jobs: int | None = None,
    breaks: Breaks | None = None,
) -> TwinRows:
    """Split rows into parts, train models on them, and return the terms of the rows to evaluate.

    The rows must be sorted by score. Rows of the same unit go to the same part.
    """
    assert problem.features is not None
    design = Design.of(len(is_evaluated), problem.features.n_columns)
    part = split_into_parts(problem.scores, units, design.n_parts, generator)
    seeds = generator.integers(2**31, size=len(design.training_parts))

    n_stages = 1 if learner is not None else 2
    terms = np.empty((n_stages, 2, len(is_evaluated)))
    predictions = np.empty((n_stages, len(is_evaluated)), np.float32)

    def evaluate_part(k: int) -> None:
        rows = np.flatnonzero((part == k) & is_evaluated)
        evaluating = [models[model] for model in design.evaluating_models(k)]
        block = Block.of(problem, coded, rows, breaks=breaks)
        terms[..., rows], predictions[:, rows] = _block_terms(block, evaluating, design.twins(k))

    def training_rows(model: int) -> Codes:
        return np.flatnonzero(design.is_training_part(model)[part])

    with Workers(n_jobs) as workers:
        trainer, coded = trainer_for(problem, learner, max_training_rows, workers)
        models = train_models(trainer, problem, coded, training_rows, seeds, workers, breaks)
        workers.run(evaluate_part, range(design.n_parts))
    weights, clusters = problem.weights, problem.clusters
    if is_evaluated.all():
        return _combine_stages(terms, predictions, part, weights, clusters)
    weights = None if weights is None else weights[is_evaluated]
    clusters = None if clusters is None else clusters[is_evaluated]
    terms, predictions = terms[..., is_evaluated], predictions[:, is_evaluated]
    return _combine_stages(terms, predictions, part[is_evaluated], weights, clusters)


def _block_terms(
    block: Block, models: Sequence[PartModel], twins: Sequence[tuple[int, int]]
) -> tuple[Floats, Floats]:
    """Return ``abar r`` and the mean of ``a1 a2`` over all twins (stages, 2, rows), and ``abar``."""
    tilts = tilts_of(block.rule)
    if isinstance(tilts, LogTilts):
        curve = mean_curve(block, models)
        columns = stack_columns(
            (tilts.of_steps(model.predict_steps(block), curve) for model in models), block
        )
    else:
        columns = stack_columns((model.predict_stages(block) for model in models), block)
    block.basis.centre(columns)
    predictions, r = columns[:-1].reshape(-1, len(models), len(block.labels)), columns[-1]
    terms, means = np.empty((len(predictions), 2, len(r))), predictions.mean(axis=1)
    for stage, a, mean in zip(terms, predictions, means, strict=True):
        np.multiply(mean, r, out=stage[0])
        if isinstance(tilts, LogTilts):
            stage[0] /= 2  # a tilt gains ``t r`` once, whereas the estimate counts ``2 abar r``
            stage[1] = twin_cost(tilts, curve, a, twins)
        else:
            stage[1] = sum(a[i] * a[j] for i, j in twins) / len(twins)
    if not isinstance(tilts, LogTilts) and not tilts.is_even:
        terms *= row_kappa(block, models)
    return terms, means


def twin_cost(
    tilts: LogTilts,
    curve: Floats,
    tilt: Floats,
    twins: Sequence[tuple[int, int]],
    noise: float | None = None,
) -> Floats:
    """Return the cost of the mean tilt of the learner, without its noise, from tilts (models, rows).

    The cost of the mean of two twins is too large because of their noise. To second order the excess is
    the mean of the costs of the two minus the cost of their mean, which is subtracted. A factor corrects
    the fourth order, which matters for rare outcomes. It depends on ``noise``, the variance of the
    tilts, by default that of these rows.
    """
    costs = [tilts.cost(curve, one)[0] for one in tilt]
    cost, excess = np.zeros_like(curve), np.zeros_like(curve)
    for i, j in twins:
        cost_of_mean = tilts.cost(curve, (tilt[i] + tilt[j]) / 2)[0]
        cost += cost_of_mean / len(twins)
        excess += ((costs[i] + costs[j]) / 2 - cost_of_mean) / len(twins)
    if noise is None:
        noise = float(np.mean([np.mean((tilt[i] - tilt[j]) ** 2) for i, j in twins])) / 2
    return np.asarray(cost - np.clip(1 - tilts.fourth(curve) * noise / 4, 0.0, 1.0) * excess, float)


def _combine_stages(
    terms: Floats,
    predictions: NDArray[np.float32],
    part: Parts,
    weights: Floats | None,
    clusters: Codes | None,
) -> TwinRows:
    """Combine early and full predictions into one, from terms (stages, 2, rows).

    The full prediction finds more if there is much to learn, and is noise if there is nothing. Its
    weight for a part depends on how surely it finds more on the other parts. A custom learner has one
    stage, which is rescaled, because its predictions may have any unit.
    """
    early, full = terms[0], terms[-1]
    weight = np.ones(len(part)) if weights is None else weights
    (cross, product), value, prediction = early.copy(), np.empty(len(part)), predictions[0].copy()
    gains = 2 * (full[0] - early[0]) - (full[1] - early[1])
    for k in np.unique(part):
        here, others = np.flatnonzero(part == k), np.flatnonzero(part != k)
        given = weight[others], None if clusters is None else clusters[others]
        if len(terms) == 1:
            factor = unit_factor(*(_mean_and_stderr(term[others], *given)[0] for term in early))
            cross[here], product[here] = factor * early[0, here], factor**2 * early[1, here]
        else:
            late = late_weight(*_mean_and_stderr(gains[others], *given))
            cross[here] += late * (full[0, here] - early[0, here])
            product[here] += late * (full[1, here] - early[1, here])
            prediction[here] += np.float32(late) * (predictions[-1, here] - predictions[0, here])
        factor = shrinkage_factor(*_mean_and_stderr(early[0, others], *given))
        value[here] = 2 * factor * cross[here] - factor**2 * product[here]
    early_cross = early[0].copy()  # a view would keep all of ``terms`` in memory
    return TwinRows(cross, product, early_cross, value, prediction)


def _mean_and_stderr(values: Floats, weight: Floats, clusters: Codes | None) -> tuple[float, float]:
    """Return the weighted mean of values, and its standard error."""
    share = weight / weight.sum()
    return dot(share, values), influence_on_mean(values, weight).stderr(clusters)
