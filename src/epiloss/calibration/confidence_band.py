"""A calibration curve with a pointwise confidence band."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from epiloss._threads import dot
from epiloss._typing import Floats
from epiloss.calibration.curves import CurveFitter
from epiloss.calibration.smoothers import DistinctScores
from epiloss.input.tasks import BinaryProblem
from epiloss.table import Table

_BLOCKS = 1_000  # blocks of scores in which labels are simulated
_DRAWS = 200


def curve_with_band(
    fitter: CurveFitter,
    problem: BinaryProblem,
    *,
    level: float,
    n_points: int,
    generator: np.random.Generator,
) -> Table:
    """Return the columns score, rate, low and high of the curve at quantiles of the score.

    The pointwise band is a parametric bootstrap: the curve is refitted to labels drawn from the fitted
    curve. They are binomial, with the number of independent labels of each block of scores. The band
    consists of quantiles of the refitted curves. The basic bootstrap, which reflects these quantiles
    around the curve, covers the truth in 0.86 of cases instead of 0.97, because each refit chooses its
    own window.
    """
    scores, labels, weights = problem.scores, problem.labels, problem.weights
    rows = DistinctScores.gather(scores, labels, weights).in_blocks(_BLOCKS)
    curve = fitter.fit_distinct(rows)
    points = np.unique(np.quantile(scores, np.linspace(0, 1, n_points)))
    rate, size = np.clip(curve(rows.scores), 0, 1), rows.weight / _design_effect(problem)
    draws = np.empty((_DRAWS, len(points)))
    n_labels = np.maximum(np.rint(size), 1).astype(np.int64)
    for draw in draws:
        # The number of labels is rounded to draw them, so that the noise has to be rescaled.
        noise = (generator.binomial(n_labels, rate) / n_labels - rate) * np.sqrt(n_labels / size)
        simulated = replace(rows, label_mean=np.clip(rate + noise, 0, 1))
        draw[:] = fitter.fit_distinct(simulated)(points)
    fitted = curve(points)
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return Table(
        {
            "score": points,
            "rate": np.clip(fitted, 0, 1),
            "low": np.clip(np.minimum(low, fitted), 0, 1),
            "high": np.clip(np.maximum(high, fitted), 0, 1),
        }
    )


def _design_effect(problem: BinaryProblem) -> float:
    """Return how many rows count as one independent label, given unequal weights and clusters."""
    weight: Floats = np.ones(len(problem.scores)) if problem.weights is None else problem.weights
    if problem.clusters is not None:
        weight = np.bincount(problem.clusters, weight).astype(float)
    return float(len(problem.scores) * dot(weight, weight) / weight.sum() ** 2)
