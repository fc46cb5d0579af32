"""Recalibration: a map of the score alone, which can cure calibration loss but not grouping loss."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from epiloss.errors import OptionError
from epiloss.scoring import Floats


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

    def fit(self, scores: Floats, labels: Floats) -> IsotonicRecalibrator:
        """Learn by pooling adjacent violators."""
        from sklearn.isotonic import IsotonicRegression

        self.model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        self.model.fit(scores, labels)
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        return np.asarray(self.model.predict(scores), float)


@dataclass
class SigmoidRecalibrator:
    """Platt's scaling: ``expit(a logit(s) + b)``."""

    model: Any = field(default=None, repr=False)

    def fit(self, scores: Floats, labels: Floats) -> SigmoidRecalibrator:
        """Learn slope and intercept by logistic regression on the log-odds."""
        from sklearn.linear_model import LogisticRegression

        self.model = LogisticRegression(C=1e6).fit(_log_odds(scores), labels)
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


def _log_odds(scores: Floats) -> Floats:
    clipped = np.clip(scores, 1e-7, 1 - 1e-7)
    return (np.log(clipped) - np.log1p(-clipped))[:, None]
