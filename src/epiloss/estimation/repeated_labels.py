"""Repeated labels: with two or more labels per row, the grouping loss is estimated without bias.

If ``t`` of ``m`` independent labels of a row are 1, ``q2 = t (t-1) / (m (m-1))`` is unbiased for
``Q^2``. With curves ``C_a`` and ``C_b`` fitted to disjoint halves of other rows,

    GL = mean[ q2 - ybar (C_a + C_b) + C_a C_b ]        irreducible loss = mean[ ybar - q2 ]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.calibration.curves import LocalLinear, fit_curve_pair
from epiloss.errors import DataError, OptionError
from epiloss.estimate import Estimate
from epiloss.estimation.inference import normal_estimate, one_sided_pvalue
from epiloss.estimation.influence import Influence
from epiloss.input.problem import Problem
from epiloss.input.values import is_missing, plain_array


@dataclass(frozen=True)
class Ratings:
    """The number of labels of each row, and how many of them are positive."""

    count: Floats
    positive: Floats

    @property
    def mean(self) -> Floats:
        """The fraction of positive labels of each row."""
        share: Floats = self.positive / self.count
        return share

    def drawn(self, generator: np.random.Generator) -> Codes:
        """Return one label per row, drawn at random."""
        return (generator.random(len(self.count)) < self.mean).astype(np.int64)


def read_ratings(y_true: Any, y_prob: Any, pos_label: Any) -> Ratings | None:
    """Return the ratings if ``y_true`` has several columns of labels for one score, else None."""
    values, scores = plain_array(y_true, "y_true"), plain_array(y_prob, "y_prob")
    one_score = scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1)
    if values.ndim != 2 or values.shape[1] < 2 or not one_score:
        return None
    missing = np.array([[is_missing(value) for value in row] for row in values.tolist()], bool)
    found = sorted(set(values[~missing].tolist()))
    if len(found) > 2 or (len(found) == 1 and found[0] not in (0, 1)):
        raise DataError(
            f"repeated labels must have two distinct values, got {found[:5]!s:.60}. "
            "Pass 0 and 1, and NaN for missing labels."
        )
    positive = pos_label if pos_label is not None else (found[-1] if len(found) == 2 else 1)
    if pos_label is not None and pos_label not in found:
        raise OptionError(f"pos_label must be one of the labels {found}, got {pos_label!r}.")
    count = (~missing).sum(axis=1).astype(float)
    if (count == 0).any():
        row = int((count == 0).argmax())
        raise DataError(f"each row must have a label, got none at row {row}. Drop rows without labels.")
    if not (count > 1).any():
        raise DataError(
            "repeated labels need two or more labels for some rows, got one for each row. Pass y_true "
            "as a vector."
        )
    return Ratings(count, ((values == positive) & ~missing).sum(axis=1).astype(float))


@dataclass(frozen=True)
class MeasuredLosses:
    """Losses estimated from several labels per row, and the influence of each row on them."""

    estimates: Mapping[str, Estimate]
    influence: Mapping[str, Influence]
    n_rows: int  # number of rows with several labels


def measured_losses(
    ratings: Ratings, problem: Problem, level: float, generator: np.random.Generator
) -> MeasuredLosses:
    """Return score, calibration, grouping and irreducible loss, and the remainder, for the Brier score.

    If ``t`` of ``m`` labels are positive, ``t (t - 1) / (m (m - 1))`` is unbiased for the square of the
    row's probability. The curves are fitted to disjoint halves of the rows of other folds.
    """
    scores, weights, clusters = problem.scores, problem.weights, problem.clusters
    several = ratings.count > 1
    w = np.where(several, 1.0 if weights is None else weights, 0.0)
    mean, square = ratings.mean, _unbiased_square(ratings)
    a, b = out_of_fold_curves(scores, mean, weights, generator)
    values = {
        "score": (scores - mean) ** 2 + mean * (1 - mean),
        "calibration_loss": (scores - a) * (scores - b),
        "grouping_loss": square - mean * (a + b) + a * b,
        "irreducible_loss": mean - square,
    }
    values["remainder"] = values["score"] - values["calibration_loss"] - values["grouping_loss"]
    # A label affects the loss also through the curve: the score of S minus that of C contains both.
    difference = values["score"] - (mean - (a + b) / 2) ** 2 - mean * (1 - mean)
    influence = {name: _influence(one, w) for name, one in values.items()}
    influence["calibration_loss"] = _influence(difference, w)
    estimates = {
        name: normal_estimate(dot(w, one) / float(w.sum()), influence[name].stderr(clusters), level)
        for name, one in values.items()
    }
    grouping = estimates["grouping_loss"]
    if grouping.stderr is not None:
        pvalue = one_sided_pvalue(grouping.value, grouping.stderr)
        estimates["grouping_loss"] = replace(grouping, pvalue=pvalue)
    return MeasuredLosses(estimates, influence, int(several.sum()))


def _influence(values: Floats, w: Floats) -> Influence:
    total = w.sum()
    return Influence(w * (values - dot(w, values) / total) / total)


def _unbiased_square(ratings: Ratings) -> Floats:
    # Rows with a single label have no weight, whatever their number of pairs.
    pairs = np.maximum(ratings.count * (ratings.count - 1), 1.0)
    square: Floats = ratings.positive * (ratings.positive - 1) / pairs
    return square


def out_of_fold_curves(
    scores: Floats,
    mean: Floats,
    weights: Floats | None,
    generator: np.random.Generator,
    n_folds: int = 5,
) -> tuple[Floats, Floats]:
    """Return the values of two curves, each fitted to one half of the rows of other folds."""
    fold = generator.permutation(len(scores)) % n_folds
    values = np.empty((2, len(scores)))
    for k in range(n_folds):
        inside, rest = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        rest_weights = None if weights is None else weights[rest]
        curves = fit_curve_pair(LocalLinear(), scores[rest], mean[rest], rest_weights, generator)
        for half, curve in enumerate(curves):
            values[half, inside] = curve(scores[inside])
    return values[0], values[1]
