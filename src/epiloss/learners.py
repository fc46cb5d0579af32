"""Learners of what the score does not tell: predictions of ``Y - C`` from features and score."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.optimize import nnls

from epiloss.features import Features
from epiloss.scoring import Floats


class Fitted(Protocol):
    """A fitted learner."""

    def predict(self, features: Features, scores: Floats) -> Floats:
        """Return the predicted residual of each row."""


class Learner(Protocol):
    """Something that learns residuals from features and score."""

    def fit(
        self, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> Fitted:
        """Learn to predict ``target``."""


class Blend:
    """A ridge on features and features times ``4 S (1-S)``, and boosted trees, blended.

    The blend's weights are not negative and are found on rows that neither has seen.
    """

    def __init__(
        self, holdout: float = 0.2, alphas: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0)
    ) -> None:
        self.holdout = holdout
        self.alphas = alphas

    def fit(
        self, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> Fitted:
        """Fit both on most rows, and weigh them on the rest."""
        held = np.random.default_rng(seed).random(len(target)) < self.holdout
        learn, rest = np.flatnonzero(~held), np.flatnonzero(held)
        parts = (features.take(learn), scores[learn], target[learn])
        learn_weights = None if weights is None else weights[learn]
        models: list[Any] = [
            _Ridges.fit(*parts, learn_weights, self.alphas),
            _Boosted.fit(*parts, learn_weights, seed),
        ]
        columns = [model.predict_columns(features.take(rest), scores[rest]) for model in models]
        root = np.ones(len(rest)) if weights is None else np.sqrt(weights[rest])
        shares = nnls(np.hstack(columns) * root[:, None], target[rest] * root)[0]
        return _Blended(models, shares)


class _Blended:
    def __init__(self, models: list[Any], shares: Floats) -> None:
        self.models = models
        self.shares = shares

    def predict(self, features: Features, scores: Floats) -> Floats:
        columns = [model.predict_columns(features, scores) for model in self.models]
        return np.asarray(np.hstack(columns) @ self.shares, float)


class _Ridges:
    """Ridge regressions of several strengths from one factorisation."""

    def __init__(self, centre: Floats, scale: Floats, coefficients: Floats) -> None:
        self.centre, self.scale, self.coefficients = centre, scale, coefficients

    @classmethod
    def fit(
        cls,
        features: Features,
        scores: Floats,
        target: Floats,
        weights: Floats | None,
        alphas: tuple[float, ...],
    ) -> _Ridges:
        raw = _numbers(features)
        centre, scale = np.nanmean(raw, axis=0), np.nanstd(raw, axis=0)
        scale[~(scale > 0)] = 1.0
        design = cls._design(raw, scores, centre, scale)
        weighted = design if weights is None else design * weights[:, None]
        values, vectors = np.linalg.eigh(design.T @ weighted)
        projected = vectors.T @ (weighted.T @ target)
        mass = len(target) if weights is None else weights.sum()
        shrunk = [projected / (np.maximum(values, 0) + alpha * mass) for alpha in alphas]
        return cls(centre, scale, vectors @ np.stack(shrunk, axis=1))

    @staticmethod
    def _design(raw: Floats, scores: Floats, centre: Floats, scale: Floats) -> Floats:
        x = np.nan_to_num((raw - centre) / scale)
        return np.hstack([x, x * (4 * scores * (1 - scores))[:, None]])

    def predict_columns(self, features: Features, scores: Floats) -> Floats:
        design = self._design(_numbers(features), scores, self.centre, self.scale)
        return np.asarray(design @ self.coefficients, float)


class _Boosted:
    """Fifty small trees on features and score."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @classmethod
    def fit(
        cls, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> _Boosted:
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(
            max_iter=50, max_leaf_nodes=7, early_stopping=False, random_state=seed
        )
        return cls(model.fit(_with_score(features, scores), target, sample_weight=weights))

    def predict_columns(self, features: Features, scores: Floats) -> Floats:
        return np.asarray(self.model.predict(_with_score(features, scores)), float)[:, None]


def narrowed(features: Features, seed: int, most: int = 200) -> Features:
    """Return wide numeric features as their ``most`` principal components, found on some rows.

    Labels have no part in it, so that the lower bound stays one.
    """
    if features.matrix.shape[1] <= 2 * most or features.categories or np.isnan(features.matrix).any():
        return features
    from sklearn.utils.extmath import randomized_svd

    rows = np.random.default_rng(seed).permutation(features.n_rows)[: 40 * most]
    centre = features.matrix[rows].mean(axis=0)
    sample = features.matrix[rows] - centre
    components = randomized_svd(sample, most, random_state=seed)[2]
    names = tuple(f"component {j}" for j in range(len(components)))
    return Features((features.matrix - centre) @ components.T, names)


def _numbers(features: Features) -> Floats:
    """Return the features with an indicator for each category in place of its code."""
    columns = []
    for j in range(features.matrix.shape[1]):
        column = features.matrix[:, [j]].astype(np.float64)
        levels = features.categories.get(j)
        columns.append(column if levels is None else (column == np.arange(len(levels))).astype(float))
    return np.hstack(columns)


def _with_score(features: Features, scores: Floats) -> Floats:
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    return np.column_stack([features.matrix, np.log(clipped) - np.log1p(-clipped)])
