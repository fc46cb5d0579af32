"""Recalibration: a map of the score alone, which can cure calibration loss but not grouping loss."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from epiloss._typing import Floats
from epiloss.errors import DataError, OptionError


class Recalibrator(Protocol):
    """An object that learns a map from scores to probabilities."""

    def fit(self, scores: Floats, labels: Floats) -> Any:
        """Learn the map."""

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""


@dataclass
class IsotonicRecalibrator:
    """A non-decreasing step function, flat outside the scores it has seen."""

    model: Any = field(default=None, repr=False)

    def fit(
        self, scores: Floats, labels: Floats, sample_weight: Floats | None = None
    ) -> IsotonicRecalibrator:
        """Learn by pooling adjacent violators."""
        from sklearn.isotonic import IsotonicRegression

        self.model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        self.model.fit(scores, labels, sample_weight)
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        return np.asarray(self.model.predict(scores), float)


@dataclass
class SigmoidRecalibrator:
    """Platt's scaling: ``expit(a logit(s) + b)``."""

    model: Any = field(default=None, repr=False)

    def fit(
        self, scores: Floats, labels: Floats, sample_weight: Floats | None = None
    ) -> SigmoidRecalibrator:
        """Learn slope and intercept by logistic regression on the log-odds."""
        from sklearn.linear_model import LogisticRegression

        self.model = LogisticRegression(C=1e6)
        self.model.fit(_log_odds(scores), labels, sample_weight)
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        return np.asarray(self.model.predict_proba(_log_odds(scores))[:, 1], float)


def resolve_recalibrator(recalibrate: Any) -> Recalibrator | None:
    """Return a fresh recalibrator that the option names, or a copy of the object given."""
    if recalibrate is None:
        return None
    if recalibrate == "isotonic":
        return IsotonicRecalibrator()
    if recalibrate == "sigmoid":
        return SigmoidRecalibrator()
    if hasattr(recalibrate, "fit") and hasattr(recalibrate, "predict"):
        fresh: Recalibrator = copy.deepcopy(recalibrate)
        return fresh
    raise OptionError(
        "recalibrate must be None, 'isotonic', 'sigmoid' or an object with fit(scores, labels) and "
        f"predict(scores), got {recalibrate!r}."
    )


def fit_recalibrator(model: Any, scores: Floats, labels: Floats, weights: Floats | None) -> None:
    """Fit a recalibrator, with the weights if there are any."""
    if weights is None:
        try:
            model.fit(scores, labels)
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"recalibrate must have a fit that takes a vector of scores and one of labels, got "
                f"{type(model).__name__}, which failed: {str(error).splitlines()[0]:.120} "
                "Wrap it, or use 'isotonic' or 'sigmoid'."
            ) from error
        return
    if "sample_weight" not in inspect.signature(model.fit).parameters:
        raise OptionError(
            f"with sample_weight the recalibrator's fit must take it too, got {type(model).__name__}. "
            "Use 'isotonic' or 'sigmoid', or give its fit a parameter sample_weight."
        )
    model.fit(scores, labels, sample_weight=weights)


def checked_recalibration(answer: Any, n_rows: int) -> Floats:
    """Return recalibrated scores that are probabilities, or say what they are."""
    scores = np.asarray(answer, float)
    if scores.shape != (n_rows,):
        raise DataError(
            f"recalibrate must give one score for each of {n_rows} rows, got shape {scores.shape}. "
            "Its predict takes and returns a vector."
        )
    wrong = ~((scores >= -1e-6) & (scores <= 1 + 1e-6))
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"recalibrated scores must lie in [0, 1], got {scores[row]} at row {row}. "
            "Its predict must return probabilities."
        )
    return np.asarray(np.clip(scores, 0.0, 1.0), float)


def _log_odds(scores: Floats) -> Floats:
    clipped = np.clip(scores, 1e-7, 1 - 1e-7)
    odds: Floats = np.log(clipped) - np.log1p(-clipped)
    return odds[:, None]
