"""Repeated labels: with two or more for a row, the grouping loss is measured, not only bounded.

With ``m`` independent labels of a row, ``t`` of them 1, ``q2 = t (t-1) / (m (m-1))`` is unbiased for
``Q^2``. With ``C_a`` and ``C_b`` curves from disjoint halves of other rows,

    GL = mean[ q2 - ybar (C_a + C_b) + C_a C_b ]        irreducible loss = mean[ ybar - q2 ]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.auditing.result import Audit
from epiloss.calibration.curves import LocalLinear, fit_curve_pair
from epiloss.errors import DataError, OptionError
from epiloss.estimation.inference import normal_estimate, one_sided_pvalue
from epiloss.estimation.influence import Influence
from epiloss.input.features import is_missing, unmasked
from epiloss.input.problem import Problem
from epiloss.scoring import Brier, ScoringRule


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
    values = np.asarray(unmasked(y_true))
    one_score = np.ndim(y_prob) == 1 or (np.ndim(y_prob) == 2 and np.shape(y_prob)[1] == 1)
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


def check_for_ratings(rule: ScoringRule, recalibrate: Any, *, drop_missing: bool) -> None:
    """Refuse options that repeated labels cannot follow."""
    if drop_missing:
        raise OptionError(
            "with repeated labels single ones may be missing as it is, so drop_missing has no part. "
            "Leave it out, and drop rows without a score first."
        )
    if not isinstance(rule, Brier):
        raise OptionError(
            f"repeated labels measure the grouping loss of the Brier score, got rule {rule.name!r}. "
            "Use rule='brier', or one label a row."
        )
    if recalibrate is not None:
        raise OptionError(
            "repeated labels measure the scores as given, got recalibrate. Recalibrate on other rows, "
            "and audit the new scores."
        )


def with_ratings(
    result: Audit, ratings: Ratings, problem: Problem, *, level: float, generator: np.random.Generator
) -> Audit:
    """Return the audit of one drawn label a row with its ledger measured from all labels."""
    if len(ratings.count) != len(problem.scores):
        raise OptionError("repeated labels take no rows of weight 0. Leave these rows out.")
    scores, weights, clusters = problem.scores, problem.weights, problem.clusters
    several = ratings.count > 1
    w = np.where(several, 1.0 if weights is None else weights, 0.0)
    mean, square = ratings.mean, _unbiased_square(ratings)
    a, b = _out_of_fold_curves(scores, mean, weights, generator)
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
        grouping = replace(grouping, pvalue=one_sided_pvalue(grouping.value, grouping.stderr))
    return replace(
        result,
        score=estimates["score"],
        calibration_loss=estimates["calibration_loss"],
        grouping_loss=grouping,
        remainder=estimates["remainder"],
        irreducible_loss=estimates["irreducible_loss"],
        method="repeated labels",
        n_evaluated=int(several.sum()),
        warnings=tuple(text for text in result.warnings if not text.startswith("without X")),
        influence={name: influence[name].by_cluster(clusters) for name in result.influence},
    )


def _influence(values: Floats, w: Floats) -> Influence:
    total = w.sum()
    return Influence(w * (values - dot(w, values) / total) / total)


def _unbiased_square(ratings: Ratings) -> Floats:
    pairs = np.maximum(ratings.count * (ratings.count - 1), 1.0)  # rows with one label get no weight
    square: Floats = ratings.positive * (ratings.positive - 1) / pairs
    return square


def _out_of_fold_curves(
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
