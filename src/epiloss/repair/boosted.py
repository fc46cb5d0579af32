"""Corrections by boosting on the residual scale: ridge regressions and boosted trees, weighed together.

Rows are dealt to folds. On all folds but one ``Y - C`` is learned from the features and the score; on
the one left out the predictions (several strengths of ridge, several stages of boosting) are collected.
Their weights, none negative, are least squares on rows that no prediction has seen: that is where
boosting stops, and how much is shrunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import nnls

from epiloss.features import Features
from epiloss.learners import Projection, Regressor, Ridges, projection, with_score
from epiloss.levelsets import Codes
from epiloss.repair.trees import TreeSum
from epiloss.scoring import Floats

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)
STAGES = (15, 30, 60, 100)  # of boosting, that may be where it stops
_LEAVES = 15
_MOST_ROWS = 200_000  # that a model learns from


class Part(Protocol):
    """What was learned on all folds but one, already weighed."""

    def predict(self, features: Features, base: Floats) -> Floats:
        """Return what to add for each row."""


@dataclass(frozen=True)
class BoostedCorrection:
    """The mean of what all folds have learned; wide features come by their principal components."""

    narrow: Projection | None
    parts: Sequence[Part]

    def offset(self, features: Features, base: Floats) -> Floats:
        """Return what to add for each row."""
        narrowed = features if self.narrow is None else self.narrow(features)
        total = np.zeros(len(base))
        for part in self.parts:
            total += part.predict(narrowed, base)
        return total / max(len(self.parts), 1)


@dataclass(frozen=True)
class LinearAndTrees:
    """A ridge regression and boosted trees, each with its weight in it."""

    linear: Ridges
    trees: TreeSum

    def predict(self, features: Features, base: Floats) -> Floats:
        """Return the sum of both."""
        linear = self.linear.predict_columns(features, base)[:, 0]
        return np.asarray(linear + self.trees.predict(_with_base(features, base)), float)


@dataclass(frozen=True)
class Weighed:
    """A user's regressor, times its weight."""

    model: Any
    weight: float

    def predict(self, features: Features, base: Floats) -> Floats:
        """Return the weighted prediction."""
        return np.asarray(self.weight * self.model.predict(features, base), float)


class _Both:
    """Ridges and boosted trees of one fold, before they are weighed."""

    def __init__(
        self, features: Features, base: Floats, target: Floats, weights: Floats | None, seed: int
    ):
        from sklearn.ensemble import HistGradientBoostingRegressor

        self.ridges = Ridges.fit(features, base, target, weights, ALPHAS)
        model = HistGradientBoostingRegressor(
            max_iter=STAGES[-1], max_leaf_nodes=_LEAVES, early_stopping=False, random_state=seed
        )
        model.fit(with_score(features, base), target, sample_weight=weights)
        self.trees = TreeSum.from_boosting(model)

    def columns(self, features: Features, base: Floats) -> Floats:
        stages = self.trees.predict_stages(_with_base(features, base), STAGES)
        return np.hstack([self.ridges.predict_columns(features, base), stages])

    def weighed(self, weights: Floats) -> LinearAndTrees:
        n = len(ALPHAS)
        linear = Ridges(
            self.ridges.centre, self.ridges.scale, self.ridges.coefficients @ weights[:n, None]
        )
        return LinearAndTrees(linear, self.trees.weighed(STAGES, weights[n:]))


class _Own:
    """The user's regressor of one fold."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def columns(self, features: Features, base: Floats) -> Floats:
        return np.asarray(self.model.predict(features, base), float)[:, None]

    def weighed(self, weights: Floats) -> Weighed:
        return Weighed(self.model, float(weights[0]))


def fit_boosted(
    features: Features,
    base: Floats,
    labels: Floats,
    weights: Floats | None,
    fold: Codes,
    learner: Regressor | None,
    generator: np.random.Generator,
) -> tuple[BoostedCorrection, Floats]:
    """Return the correction, and what it adds to each row by models and weights that have not seen it.

    ``base`` is the calibrated score of each row, from rows of other folds.
    """
    narrow = None if learner is not None else projection(features, int(generator.integers(2**31)))
    inputs = features if narrow is None else narrow(features)
    models: list[_Both | _Own] = []
    columns: Floats | None = None
    for k in range(int(fold.max()) + 1):
        seed = int(generator.integers(2**31))
        learn, left_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(learn) > _MOST_ROWS:
            learn = np.sort(generator.permutation(learn)[:_MOST_ROWS])
        data = (inputs.take(learn), base[learn], (labels - base)[learn])
        some = None if weights is None else weights[learn]
        model = _Both(*data, some, seed) if learner is None else _Own(learner.fit(*data, some, seed))
        found = model.columns(inputs.take(left_out), base[left_out])
        columns = np.empty((len(base), found.shape[1])) if columns is None else columns
        columns[left_out] = found
        models.append(model)
    assert columns is not None  # there are folds
    root = np.ones(len(base)) if weights is None else np.sqrt(weights)
    design, target = columns * root[:, None], (labels - base) * root
    honest = np.empty(len(base))
    for k in range(len(models)):
        inside, rest = fold == k, fold != k
        honest[inside] = columns[inside] @ nnls(design[rest], target[rest])[0]
    shares = nnls(design, target)[0]
    return BoostedCorrection(narrow, [model.weighed(shares) for model in models]), honest


def _with_base(features: Features, base: Floats) -> Features:
    matrix = with_score(features, base)
    return Features(matrix, tuple(f"x{j}" for j in range(matrix.shape[1])))
