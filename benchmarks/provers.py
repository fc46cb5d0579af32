"""The gain of a boosted model over the calibrated score, which proves a part of the grouping loss.

If a model trained on other rows predicts better than the calibrated score, the grouping loss is at least
as large as the improvement. Only the improvement beyond the calibration curve counts, so the score is
first recalibrated on the same learning rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from epiloss._typing import Floats
from epiloss.calibration.curves import LocalLinear
from repair_data import Part

CLIP = 1e-6
INNER = 0.15  # share of the learning rows that choose between models
MOST_CATEGORIES = 254  # of a column of codes; a column with more is encoded by its mean outcomes
MOST_TREES = 1_000
LEARNING_RATE = 0.05
SCORE = "log-odds of the score"

Predictor = Callable[[Part], Floats]


@dataclass(frozen=True)
class Proof:
    """How much lower the Brier score is than that of the calibrated score, with its standard error."""

    value: float
    stderr: float
    model: str


@dataclass(frozen=True)
class Boosted:
    """Boosted trees of features and score, fitted to labels or to residuals from a curve."""

    pipeline: Any
    curve: Predictor | None

    @property
    def trees(self) -> int:
        """The number of trees."""
        return int(self.pipeline[-1].n_iter_)

    def __call__(self, part: Part) -> Floats:
        """Return the probability of each row."""
        X = _with_score(part)
        if self.curve is None:
            return np.asarray(self.pipeline.predict_proba(X)[:, 1], float)
        return np.asarray(np.clip(self.curve(part) + self.pipeline.predict(X), 0, 1), float)


def proven(learn: Part, held_out: Part, seed: int) -> Proof:
    """Train on some rows, and compare with the calibrated score on others."""
    curve = calibrated(learn, seed)
    model, name = boosted(learn, curve, seed)
    y = held_out.y
    gain = (curve(held_out) - y) ** 2 - (model(held_out) - y) ** 2
    return Proof(float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain))), name)


def calibrated(learn: Part, seed: int) -> Predictor:
    """Return the best of three calibration curves on held-out rows."""
    curves = {"isotonic": isotonic_curve, "spline": spline_curve, "local-linear": audited_curve}
    some, inner = _divided(learn, seed)
    return curves[_best({name: fit(some) for name, fit in curves.items()}, inner)](learn)


def boosted(learn: Part, curve: Predictor, seed: int) -> tuple[Boosted, str]:
    """Return the best of three boosted models on held-out rows, and its name.

    Early stopping chooses the number of trees; the best model is then trained on all rows.
    """
    kinds: Mapping[str, tuple[Predictor | None, int]] = {
        "labels, 31 leaves": (None, 31),
        "residuals, 15 leaves": (curve, 15),
        "residuals, 63 leaves": (curve, 63),
    }
    some, inner = _divided(learn, seed)
    tried = {name: fit_boosted(some, *kind, seed) for name, kind in kinds.items()}
    name = _best(tried, inner)
    return fit_boosted(
        learn, *kinds[name], seed, trees=tried[name].trees
    ), f"{name} x {tried[name].trees}"


def fit_boosted(
    part: Part, curve: Predictor | None, leaves: int, seed: int, *, trees: int | None = None
) -> Boosted:
    """Fit a given number of trees, or let early stopping choose the number."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline

    X = _with_score(part)
    codes, encoder = _encoder(X, seed)
    kind = HistGradientBoostingClassifier if curve is None else HistGradientBoostingRegressor
    model = kind(
        learning_rate=LEARNING_RATE,
        max_iter=trees or MOST_TREES,
        max_leaf_nodes=leaves,
        min_samples_leaf=min(40, max(5, len(part.y) // 100)),
        early_stopping=trees is None,
        validation_fraction=INNER,
        n_iter_no_change=20,
        categorical_features=list(range(len(codes))),
        random_state=seed,
    )
    target = part.y if curve is None else part.y - curve(part)
    return Boosted(make_pipeline(encoder, model).fit(X, target), curve)


def isotonic_curve(learn: Part) -> Predictor:
    """Return the isotonic regression of the labels on the score."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(learn.scores, learn.y)
    return lambda part: np.asarray(model.predict(part.scores), float)


def spline_curve(learn: Part) -> Predictor:
    """Return a logistic regression on splines of the score's log-odds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    splines = SplineTransformer(n_knots=8, degree=2, knots="quantile", extrapolation="linear")
    model = make_pipeline(splines, LogisticRegression(C=100.0, max_iter=1_000))
    model.fit(_log_odds(learn)[:, None], learn.y)
    return lambda part: np.asarray(model.predict_proba(_log_odds(part)[:, None])[:, 1], float)


def audited_curve(learn: Part) -> Predictor:
    """Return the curve of an audit, with jumps and with rates of scores that many rows share."""
    curve = LocalLinear().fit(np.asarray(learn.scores, float), np.asarray(learn.y, float))
    return lambda part: np.asarray(curve(np.asarray(part.scores, float)), float)


def _encoder(X: Any, seed: int) -> tuple[list[str], Any]:
    """Return the columns that are ordinally encoded, which come first, and the encoder of all."""
    from sklearn.compose import make_column_transformer
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import OrdinalEncoder, TargetEncoder

    texts = list(X.select_dtypes(exclude="number").columns)
    codes = [name for name in texts if X[name].nunique() <= MOST_CATEGORIES]
    means = [name for name in texts if name not in codes]
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    # folds as an object need scikit-learn 1.9; before that, only columns of many categories fail
    by_means = TargetEncoder(cv=KFold(5, shuffle=True, random_state=seed))
    kinds = [(ordinal, codes), *([(by_means, means)] if means else [])]
    encoder = make_column_transformer(*kinds, remainder="passthrough")
    return codes, encoder


def _with_score(part: Part) -> Any:
    return part.X.assign(**{SCORE: _log_odds(part)})


def _log_odds(part: Part) -> Floats:
    return np.asarray(logit(np.clip(part.scores, CLIP, 1 - CLIP)), float)


def _best(fitted: Mapping[str, Predictor], inner: Part) -> str:
    losses = {name: float(np.mean((one(inner) - inner.y) ** 2)) for name, one in fitted.items()}
    return min(losses, key=lambda name: losses[name])


def _divided(part: Part, seed: int) -> tuple[Part, Part]:
    """Return the rows to learn from and the inner rows that choose between models."""
    order = np.random.default_rng(seed).permutation(len(part.y))
    cut = round(INNER * len(order))
    return take(part, order[cut:]), take(part, order[:cut])


def take(part: Part, rows: Any) -> Part:
    """Return some rows."""
    return Part(part.X.iloc[rows].reset_index(drop=True), part.y[rows], part.scores[rows])
