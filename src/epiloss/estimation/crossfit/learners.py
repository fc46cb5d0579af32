"""Learners that predict the residual ``Y - C`` from features and score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from epiloss._models import described, fit_weighted, fresh
from epiloss._typing import Codes, Floats
from epiloss.errors import DataError, OptionError, printable
from epiloss.estimation.crossfit.ridges import Ridges
from epiloss.input.features import Features
from epiloss.partition.quantized import quantile_edges


class Fitted(Protocol):
    """A fitted learner."""

    def predict(self, features: Features, scores: Floats) -> Floats:
        """Return the predicted residual of each row."""


class Learner(Protocol):
    """Interface of learners of residuals from features and score.

    Models learned on folds that share rows have correlated errors. ``sharing`` is the factor by which
    this can increase the variance of their mean if there is nothing to learn.
    """

    sharing: float

    def prepare(self, features: Features, seed: int) -> Features:
        """Return the features to learn from, computed without the labels."""

    def fit(
        self, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> Fitted:
        """Learn to predict ``target``."""


class Blend:
    """A blend of boosted trees and ridge regressions on features and features times ``4 S (1-S)``.

    The weights of the blend are non-negative and are fitted on held-out rows. At most ``most_rows``
    rows, drawn at random, are used. If there is nothing to learn, the weights are mostly noise of the
    held-out rows, so that folds share little noise: in measurements, variances were 1.05 to 1.28 times
    as large.
    """

    sharing = 1.25

    def __init__(
        self,
        holdout: float = 0.2,
        alphas: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0),
        most_rows: int = 200_000,
    ) -> None:
        self.holdout = holdout
        self.alphas = alphas
        self.most_rows = most_rows

    def prepare(self, features: Features, seed: int) -> Features:
        """Return the principal components of wide features, and other features unchanged."""
        project = projection(features, seed)
        return features if project is None else project(features)

    def fit(
        self, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> Fitted:
        """Fit both models on most rows, and their weights on the other rows."""
        from scipy.optimize import nnls  # slow to import, and rarely needed

        rows = np.random.default_rng(seed).permutation(len(target))[: self.most_rows]
        rest, learn = np.split(rows, [math.ceil(self.holdout * len(rows))])
        parts = (features.take(learn), scores[learn], target[learn])
        learn_weights = None if weights is None else weights[learn]
        models: list[Any] = [
            Ridges.fit(*parts, learn_weights, self.alphas),
            _Boosted.fit(*parts, learn_weights, seed),
        ]
        columns = [model.predict_columns(features.take(rest), scores[rest]) for model in models]
        root = np.ones(len(rest)) if weights is None else np.sqrt(weights[rest])
        shares = nnls(np.hstack(columns) * root[:, None], target[rest] * root)[0]
        return _Blended(models, shares)


class Regressor:
    """A regressor passed by the user, fitted to the features and the log-odds of the score.

    Linear models of many noise columns share much noise: in measurements over five folds, variances
    were 1.4 to 2.3 times as large.
    """

    sharing = 2.0

    def __init__(self, model: Any) -> None:
        self.model = model

    def prepare(self, features: Features, seed: int) -> Features:
        """Return the features as they are."""
        return features

    def fit(
        self, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> Fitted:
        """Fit a copy of the regressor."""
        model = fresh(self.model, seed)
        try:
            fit_weighted(model, with_score(features, scores), target, weights)
        except (TypeError, ValueError) as error:
            raise _cannot(model, "be fitted to these features", error) from error
        return _FittedRegressor(model)


class _FittedRegressor:
    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, features: Features, scores: Floats) -> Floats:
        try:
            guess = np.asarray(self.model.predict(with_score(features, scores)), float)
        except (TypeError, ValueError) as error:
            raise _cannot(self.model, "predict a number for these features", error) from error
        if guess.shape != scores.shape or not np.isfinite(guess).all():
            raise DataError(
                f"the learner {described(self.model)} must predict one finite number for each of "
                f"{len(scores)} rows, got shape {guess.shape} with {int((~np.isfinite(guess)).sum())} "
                "values that are not finite. Check its method predict."
            )
        return guess


def _cannot(model: Any, what: str, error: Exception) -> DataError:
    reason = str(error).strip().split("\n")[0]
    return DataError(
        f"the learner {described(model)} cannot {what}: {printable(reason).rstrip('.')}. Add the "
        "preprocessing that it needs in a pipeline, or omit learner=."
    )


def resolve_learner(learner: Any) -> Learner:
    """Return the learner for the option: the default blend, or the user's regressor."""
    if learner is None:
        return Blend()
    if isinstance(learner, type) or not (hasattr(learner, "fit") and hasattr(learner, "predict")):
        raise OptionError(
            "learner must be a regressor with fit(X, y) and predict(X), got "
            f"{printable(repr(learner))}. Omit it to use the default learner."
        )
    return Regressor(learner)


class _Blended:
    def __init__(self, models: list[Any], shares: Floats) -> None:
        self.models = models
        self.shares = shares

    def predict(self, features: Features, scores: Floats) -> Floats:
        columns = [model.predict_columns(features, scores) for model in self.models]
        return np.asarray(np.hstack(columns) @ self.shares, float)


class _Boosted:
    """Fifty small boosted trees on features and score; ``edges`` (columns, 63) bin weighted rows."""

    def __init__(self, model: Any, columns: Codes, edges: Floats | None) -> None:
        self.model, self.columns, self.edges = model, columns, edges

    @classmethod
    def fit(
        cls, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> _Boosted:
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(
            max_iter=50, max_leaf_nodes=7, early_stopping=False, random_state=seed
        )
        design = with_score(features, scores)
        columns = np.flatnonzero(~np.isnan(design).all(axis=0))  # scikit-learn cannot bin empty columns
        # scikit-learn is very slow at binning weighted rows with many distinct values.
        edges = None if weights is None else quantile_edges(design[:, columns].T)
        boosted = cls(model, columns, edges)
        model.fit(boosted._binned(design), target, sample_weight=weights)
        return boosted

    def predict_columns(self, features: Features, scores: Floats) -> Floats:
        guess = self.model.predict(self._binned(with_score(features, scores)))
        return np.asarray(guess, float)[:, None]

    def _binned(self, design: Floats) -> Floats:
        design = design[:, self.columns]
        if self.edges is None:
            return design
        both = zip(self.edges, design.T, strict=True)
        return np.column_stack([np.searchsorted(edges, column) for edges, column in both]).astype(float)


@dataclass(frozen=True)
class Projection:
    """Principal components: ``components`` (k, d) of features minus their ``centre``."""

    centre: Floats
    components: Floats

    def __call__(self, features: Features) -> Features:
        """Return the principal components of features."""
        names = tuple(f"component {j}" for j in range(len(self.components)))
        parts = np.array_split(np.arange(features.n_rows), max(-(-features.n_rows // 4096), 1))
        rows = [(features.take(part).matrix - self.centre) @ self.components.T for part in parts]
        return Features(np.vstack(rows), names)


def projection(features: Features, seed: int, most: int = 200) -> Projection | None:
    """Return the first ``most`` principal components of wide numeric features, from a sample of rows.

    The labels are not used, so that a lower bound remains valid.
    """
    if features.n_columns <= 2 * most or features.categories:
        return None
    from sklearn.utils.extmath import randomized_svd

    rows = np.random.default_rng(seed).permutation(features.n_rows)[: 40 * most]
    sample = features.take(rows).matrix
    centre = sample.mean(axis=0)
    if np.isnan(centre).any():
        return None
    return Projection(centre, randomized_svd(sample - centre, most, random_state=seed)[2])


def with_score(features: Features, scores: Floats) -> Floats:
    """Return the features with the log-odds of the score as an additional column."""
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    return np.column_stack([features.matrix, np.log(clipped) - np.log1p(-clipped)])
