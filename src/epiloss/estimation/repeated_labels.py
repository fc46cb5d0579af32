"""Repeated labels: with two or more for a row, the grouping loss is measured, not only bounded.

With ``m`` independent labels of a row, ``t`` of them 1, ``q2 = t (t-1) / (m (m-1))`` is unbiased for
``Q^2``. With ``C_a`` and ``C_b`` curves from disjoint halves of other rows,

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
    """The labels of each row: how many there are, and how many are of the positive class."""

    count: Floats
    positive: Floats

    @property
    def mean(self) -> Floats:
        """The share of positive labels of each row."""
        share: Floats = self.positive / self.count
        return share

    def drawn(self, generator: np.random.Generator) -> Codes:
        """Return one label of each row, drawn at random."""
        return (generator.random(len(self.count)) < self.mean).astype(np.int64)


def read_ratings(y_true: Any, y_prob: Any, pos_label: Any) -> Ratings | None:
    """Return the ratings where labels are repeated: several columns of them for one score."""
    values, scores = plain_array(y_true, "y_true"), plain_array(y_prob, "y_prob")
    one_score = scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1)
    if values.ndim != 2 or values.shape[1] < 2 or not one_score:
        return None
    missing = np.array([[is_missing(value) for value in row] for row in values.tolist()], bool)
    found = sorted(set(values[~missing].tolist()))
    if len(found) > 2 or (len(found) == 1 and found[0] not in (0, 1)):
        raise DataError(
            f"repeated labels must have two values, got {found[:5]!s:.60}. "
            "Pass 0, 1 and NaN where one is missing."
        )
    positive = pos_label if pos_label is not None else (found[-1] if len(found) == 2 else 1)
    if pos_label is not None and pos_label not in found:
        raise OptionError(f"pos_label must be one of the labels {found}, got {pos_label!r}.")
    count = (~missing).sum(axis=1).astype(float)
    if (count == 0).any():
        row = int((count == 0).argmax())
        raise DataError(f"each row must have a label, got none at row {row}. Drop such rows first.")
    if not (count > 1).any():
        raise DataError(
            "repeated labels must be two or more for some rows, got one each. Pass a vector."
        )
    return Ratings(count, ((values == positive) & ~missing).sum(axis=1).astype(float))


@dataclass(frozen=True)
class MeasuredLosses:
    """Losses that several labels per row measure from both sides, and each row's influence on them."""

    estimates: Mapping[str, Estimate]
    influence: Mapping[str, Influence]
    n_rows: int  # that have several labels


def measured_losses(
    ratings: Ratings, problem: Problem, level: float, generator: np.random.Generator
) -> MeasuredLosses:
    """Return score, calibration, grouping and irreducible loss, and the remainder, by the Brier score.

    With ``t`` of ``m`` labels positive, ``t (t - 1) / (m (m - 1))`` is unbiased for the square of the
    row's probability; the curves are fitted on disjoint halves of the rows of other folds.
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
    # a label moves the curve, and the curve the loss: the score of S less that of C shows both
    moved = values["score"] - (mean - (a + b) / 2) ** 2 - mean * (1 - mean)
    influence = {name: _influence(one, w) for name, one in values.items()}
    influence["calibration_loss"] = _influence(moved, w)
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
    pairs = np.maximum(ratings.count * (ratings.count - 1), 1.0)  # rows with one label get no weight
    square: Floats = ratings.positive * (ratings.positive - 1) / pairs
    return square


def out_of_fold_curves(
    scores: Floats,
    mean: Floats,
    weights: Floats | None,
    generator: np.random.Generator,
    n_folds: int = 5,
) -> tuple[Floats, Floats]:
    """Return two curves' values for every row, each fitted on one half of the rows of other folds."""
    fold = generator.permutation(len(scores)) % n_folds
    values = np.empty((2, len(scores)))
    for k in range(n_folds):
        inside, rest = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        rest_weights = None if weights is None else weights[rest]
        curves = fit_curve_pair(LocalLinear(), scores[rest], mean[rest], rest_weights, generator)
        for half, curve in enumerate(curves):
            values[half, inside] = curve(scores[inside])
    return values[0], values[1]
