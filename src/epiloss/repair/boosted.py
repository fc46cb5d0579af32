"""Corrections by boosting on the log-odds scale: ridge regressions and boosted trees, weighed together.

Rows are dealt to folds. On all folds but one, what must be added to the log-odds of ``C`` is learned
from the features and the score; on the one left out the predictions (several strengths of ridge,
several stages of boosting) are collected. Their weights, none negative, are those that make labels most
likely which no prediction has seen: that is where boosting stops, and how much is shrunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.learners import Projection, Regressor, projection, with_score
from epiloss.estimation.crossfit.ridges import Ridges
from epiloss.input.features import Features
from epiloss.repair.stacking import log_odds, nonnegative_logistic, shifted
from epiloss.repair.trees import TreeSum

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)
# from so many rows on: stages of boosting that may be where it stops, and leaves of its trees
_SIZES: Sequence[tuple[int, tuple[int, ...], int]] = (
    (20_000, (10, 20, 40, 80), 15),
    (5_000, (10, 20, 40), 8),
    (0, (8, 16, 24), 8),
)
_LEAST_VARIANCE = 1e-4  # of a label, where the score is nearly sure
_MOST_ROWS = 200_000  # that a model learns from


class Part(Protocol):
    """What was learned on all folds but one, already weighed."""

    def predict(self, features: Features, base: Floats) -> Floats:
        """Return what to add to the log-odds of each row."""


@dataclass(frozen=True)
class BoostedCorrection:
    """The mean of what all folds have learned; wide features come by their principal components."""

    narrow: Projection | None
    parts: Sequence[Part]

    def corrected(self, features: Features, base: Floats) -> Floats:
        """Return the probabilities with the log-odds that all folds add on average."""
        narrowed = features if self.narrow is None else self.narrow(features)
        total = np.zeros(len(base))
        for part in self.parts:
            total += part.predict(narrowed, base)
        return shifted(base, total / max(len(self.parts), 1))


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
    """A user's regressor of the residual, times its weight; on the log-odds scale it is steeper."""

    model: Any
    weight: float

    def predict(self, features: Features, base: Floats) -> Floats:
        """Return the weighted prediction."""
        residual = np.asarray(self.model.predict(features, base), float)
        return self.weight * residual / np.maximum(base * (1 - base), 0.01)


class _Both:
    """Ridges and boosted trees of one fold, before they are weighed."""

    def __init__(
        self,
        features: Features,
        base: Floats,
        labels: Floats,
        weights: Floats | None,
        *,
        n_rows: int,
        seed: int,
    ) -> None:
        size = next(size for size in _SIZES if n_rows >= size[0])
        self.stages, leaves = size[1:]
        variance = np.maximum(base * (1 - base), _LEAST_VARIANCE)
        weight = variance if weights is None else variance * weights
        # one Newton step of a penalised logistic regression
        self.ridges = Ridges.fit(features, base, (labels - base) / variance, weight, ALPHAS)
        self.trees = _boosted_trees(
            with_score(features, base), labels, log_odds(base), weights, self.stages[-1], leaves, seed
        )

    def columns(self, features: Features, base: Floats) -> Floats:
        stages = self.trees.predict_stages(_with_base(features, base), self.stages)
        return np.hstack([self.ridges.predict_columns(features, base), stages])

    def weighed(self, weights: Floats) -> LinearAndTrees:
        n = len(ALPHAS)
        linear = Ridges(
            self.ridges.centre, self.ridges.scale, self.ridges.coefficients @ weights[:n, None]
        )
        return LinearAndTrees(linear, self.trees.weighed(self.stages, weights[n:]))


class _Own:
    """The user's regressor of one fold."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def columns(self, features: Features, base: Floats) -> Floats:
        return Weighed(self.model, 1.0).predict(features, base)[:, None]

    def weighed(self, weights: Floats) -> Weighed:
        return Weighed(self.model, float(weights[0]))


def _boosted_trees(
    design: Floats,
    labels: Floats,
    offset: Floats,
    weights: Floats | None,
    n_trees: int,
    leaves: int,
    seed: int,
) -> TreeSum:
    """Boost the log-likelihood from an offset on, which scikit-learn's own classifier cannot."""
    from sklearn._loss import HalfBinomialLoss
    from sklearn.ensemble import HistGradientBoostingRegressor

    class FromOffset(HalfBinomialLoss):  # type: ignore[misc]  # scikit-learn is untyped
        def fit_intercept_only(self, y_true: Any, sample_weight: Any = None) -> Any:
            return np.float64(0.0)

        def gradient_hessian(self, y_true: Any, raw_prediction: Any, *args: Any, **options: Any) -> Any:
            moved = raw_prediction + offset.reshape(raw_prediction.shape)
            return super().gradient_hessian(y_true, moved, *args, **options)

    model = HistGradientBoostingRegressor(
        loss=FromOffset(),
        max_iter=n_trees,
        learning_rate=0.2,
        max_leaf_nodes=leaves,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    empty = np.isnan(design).all(axis=0)  # columns that it cannot bin, and that tell nothing
    if empty.any():
        design = np.where(empty, 0.0, design)
    return TreeSum.from_boosting(model.fit(design, labels, sample_weight=weights))


def fit_boosted(
    features: Features,
    base: Floats,
    labels: Floats,
    weights: Floats | None,
    fold: Codes,
    learner: Regressor | None,
    generator: np.random.Generator,
) -> tuple[BoostedCorrection, Floats]:
    """Return the correction, and each row corrected by models and weights that have not seen it.

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
        some = None if weights is None else weights[learn]
        data = (inputs.take(learn), base[learn])
        model: _Both | _Own
        if learner is None:
            model = _Both(*data, labels[learn], some, n_rows=len(base), seed=seed)
        else:
            model = _Own(learner.fit(*data, (labels - base)[learn], some, seed))
        found = model.columns(inputs.take(left_out), base[left_out])
        columns = np.empty((len(base), found.shape[1])) if columns is None else columns
        columns[left_out] = found
        models.append(model)
    assert columns is not None  # there are folds
    offset, honest = log_odds(base), np.empty(len(base))
    for k in range(len(models)):
        inside, rest = fold == k, fold != k
        some = None if weights is None else weights[rest]
        shares = nonnegative_logistic(columns[rest], labels[rest], offset[rest], some)
        honest[inside] = shifted(base[inside], columns[inside] @ shares)
    shares = nonnegative_logistic(columns, labels, offset, weights)
    return BoostedCorrection(narrow, [model.weighed(shares) for model in models]), honest


def _with_base(features: Features, base: Floats) -> Features:
    matrix = with_score(features, base)
    return Features(matrix, tuple(f"x{j}" for j in range(matrix.shape[1])))
