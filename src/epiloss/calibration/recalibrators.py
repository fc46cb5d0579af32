"""Recalibration of a single score: removes calibration loss, but not grouping loss."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.special import expit

from epiloss._typing import Floats
from epiloss.calibration.class_recalibrators import CLASS_RECALIBRATORS, ClassTemperature, clipped_logs
from epiloss.errors import DataError, OptionError


class Recalibrator(Protocol):
    """Interface of objects that learn a map from scores to probabilities."""

    def fit(self, scores: Floats, labels: Floats) -> Any:
        """Learn the map."""

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""


@dataclass
class IsotonicRecalibrator:
    """Isotonic regression, constant outside the range of the scores it was fitted on."""

    model: Any = field(default=None, repr=False)

    def fit(
        self, scores: Floats, labels: Floats, sample_weight: Floats | None = None
    ) -> IsotonicRecalibrator:
        """Learn the map by the pool-adjacent-violators algorithm."""
        from sklearn.isotonic import IsotonicRegression

        self.model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        self.model.fit(scores, labels, sample_weight)
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        return np.asarray(self.model.predict(scores), float)


@dataclass
class SigmoidRecalibrator:
    """Platt scaling: ``expit(a logit(s) + b)``."""

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


@dataclass
class TemperatureRecalibrator:
    """Temperature scaling: ``expit(logit(s) / t)``, which keeps a score of 1/2 unchanged.

    Examples
    --------
    >>> scores, labels = np.repeat([0.1, 0.9], 10), np.array([0.0] * 8 + [1.0] * 10 + [0.0] * 2)
    >>> TemperatureRecalibrator().fit(scores, labels).predict(np.array([0.1, 0.5])).round(3).tolist()
    [0.2, 0.5]
    """

    model: ClassTemperature = field(default_factory=ClassTemperature, repr=False)

    def fit(
        self, scores: Floats, labels: Floats, sample_weight: Floats | None = None
    ) -> TemperatureRecalibrator:
        """Learn the temperature that minimises the log-loss."""
        self.model.fit(_both_classes(scores), labels.astype(np.int64), sample_weight)
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        return self.model.predict(_both_classes(scores))[:, 1]


@dataclass
class BetaRecalibrator:
    """Beta calibration (Kull et al., 2017): ``expit(c + a log s - b log(1 - s))`` with a, b >= 0.

    Examples
    --------
    >>> s = np.linspace(0.01, 0.99, 99)
    >>> labels = (np.arange(99) * 0.618 % 1 < s).astype(float)
    >>> new = BetaRecalibrator().fit(s, labels).predict(s)
    >>> bool((np.diff(new) >= 0).all())
    True
    """

    coefficients: Floats = field(default_factory=lambda: np.array([0.0, 1.0, 1.0]), repr=False)

    def fit(
        self, scores: Floats, labels: Floats, sample_weight: Floats | None = None
    ) -> BetaRecalibrator:
        """Learn the coefficients by logistic regression without negative coefficients."""
        terms, losses = _beta_terms(scores), []
        for kept in ([0, 1], [0], [1], []):
            coefficients = _logistic(terms, kept, labels, sample_weight)
            if (coefficients[1:] < 0).any():
                continue
            if len(kept) == 2:
                self.coefficients = coefficients
                return self
            fitted = coefficients[0] + terms @ coefficients[1:]
            loss = np.average(np.logaddexp(0, fitted) - labels * fitted, weights=sample_weight)
            losses.append((float(loss), coefficients))
        self.coefficients = min(losses, key=lambda pair: pair[0])[1]
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        fitted = self.coefficients[0] + _beta_terms(scores) @ self.coefficients[1:]
        return np.asarray(expit(fitted), float)


RECALIBRATORS: Mapping[str, Callable[[], Recalibrator]] = {
    "isotonic": IsotonicRecalibrator,
    "sigmoid": SigmoidRecalibrator,
    "temperature": TemperatureRecalibrator,
    "beta": BetaRecalibrator,
}
_NAMES = ", ".join(map(repr, RECALIBRATORS))
_ALL_NAMES = ", ".join(map(repr, dict.fromkeys([*RECALIBRATORS, *CLASS_RECALIBRATORS])))


def check_recalibrate(recalibrate: Any) -> None:
    """Raise an OptionError unless the option is valid for some task."""
    if not (isinstance(recalibrate, str) and recalibrate in CLASS_RECALIBRATORS):
        resolve_recalibrator(recalibrate)


def resolve_recalibrator(recalibrate: Any) -> Recalibrator | None:
    """Return a new recalibrator for a name, or a copy of the given object.

    Examples
    --------
    >>> resolve_recalibrator("beta")
    BetaRecalibrator()
    """
    if recalibrate is None:
        return None
    if isinstance(recalibrate, str) and recalibrate in RECALIBRATORS:
        return RECALIBRATORS[recalibrate]()
    if hasattr(recalibrate, "fit") and hasattr(recalibrate, "predict"):
        fresh: Recalibrator = copy.deepcopy(recalibrate)
        return fresh
    raise OptionError(
        f"recalibrate must be None, {_ALL_NAMES} or an object with fit(scores, labels) and "
        f"predict(scores), got {recalibrate!r}."
    )


def fit_recalibrator(model: Any, scores: Floats, labels: Floats, weights: Floats | None) -> None:
    """Fit a recalibrator, with weights if there are any."""
    if weights is None:
        try:
            model.fit(scores, labels)
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"recalibrate must have a method fit(scores, labels) that takes two vectors, got "
                f"{type(model).__name__}, which raised: {str(error).splitlines()[0]:.120} "
                f"Wrap it, or use one of {_NAMES}."
            ) from error
        return
    if "sample_weight" not in inspect.signature(model.fit).parameters:
        raise OptionError(
            "with sample_weight, the recalibrator's fit must have a parameter sample_weight, got "
            f"{type(model).__name__}. Add the parameter, or use one of {_NAMES}."
        )
    model.fit(scores, labels, sample_weight=weights)


def checked_recalibration(predicted: Any, n_rows: int) -> Floats:
    """Return recalibrated scores; raise a DataError unless there is one probability per row."""
    scores = np.asarray(predicted, float)
    if scores.shape != (n_rows,):
        raise DataError(
            f"recalibrate must return one score for each of {n_rows} rows, got shape {scores.shape}. "
            "Its method predict must map a vector to a vector."
        )
    wrong = ~((scores >= -1e-6) & (scores <= 1 + 1e-6))
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"recalibrated scores must lie in [0, 1], got {scores[row]} at row {row}. "
            "The recalibrator's method predict must return probabilities."
        )
    return np.asarray(np.clip(scores, 0.0, 1.0), float)


def _log_odds(scores: Floats) -> Floats:
    clipped = np.clip(scores, 1e-7, 1 - 1e-7)
    odds: Floats = np.log(clipped) - np.log1p(-clipped)
    return odds[:, None]


def _both_classes(scores: Floats) -> Floats:
    return np.column_stack([1 - scores, scores])


def _beta_terms(scores: Floats) -> Floats:
    logs = clipped_logs(_both_classes(scores))
    return np.column_stack([logs[:, 1], -logs[:, 0]])


def _logistic(terms: Floats, kept: list[int], labels: Floats, weights: Floats | None) -> Floats:
    """Return intercept and coefficients of a logistic regression; terms not in ``kept`` have 0."""
    from sklearn.linear_model import LogisticRegression

    coefficients = np.zeros(1 + terms.shape[1])
    if kept:
        model = LogisticRegression(C=1e6, max_iter=1_000, tol=1e-8).fit(terms[:, kept], labels, weights)
        coefficients[0] = model.intercept_[0]
        coefficients[[1 + term for term in kept]] = model.coef_[0]
    else:
        rate = np.clip(np.average(labels, weights=weights), 1e-7, 1 - 1e-7)
        coefficients[0] = np.log(rate / (1 - rate))
    return coefficients
