"""Recalibration of all classes at once: temperature and vector scaling of the log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from epiloss._typing import Codes, Floats
from epiloss.errors import OptionError

_SMALLEST = 1e-7  # replaces scores of 0
_LARGEST_LOG = 10.0  # bound on the log of the inverse temperature, as in scikit-learn


class ClassRecalibrator(Protocol):
    """Interface of objects that map the scores of all classes (n, K) to probabilities (n, K)."""

    def fit(self, scores: Floats, labels: Codes, sample_weight: Floats | None = None) -> Any:
        """Learn the map; ``labels`` are column indices."""

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""


@dataclass
class ClassTemperature:
    """Temperature scaling (Guo et al., 2017): ``softmax(log p / t)``, which keeps the order of classes.

    Examples
    --------
    >>> scores, labels = np.tile([0.9, 0.05, 0.05], (10, 1)), np.array([0] * 6 + [1] * 2 + [2] * 2)
    >>> ClassTemperature().fit(scores, labels).predict(scores)[0].round(3).tolist()
    [0.6, 0.2, 0.2]
    """

    inverse_temperature: float = field(default=1.0, repr=False)

    def fit(
        self, scores: Floats, labels: Codes, sample_weight: Floats | None = None
    ) -> ClassTemperature:
        """Learn the temperature that minimises the log-loss."""
        logs = clipped_logs(scores)

        def loss(log_inverse: float) -> float:
            return _log_loss(np.exp(log_inverse) * logs, labels, sample_weight)

        found = minimize_scalar(
            loss, bounds=(-_LARGEST_LOG, _LARGEST_LOG), method="bounded", options={"xatol": 1e-12}
        )
        self.inverse_temperature = float(np.exp(found.x))
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        return np.asarray(softmax(self.inverse_temperature * clipped_logs(scores), axis=1), float)


@dataclass
class VectorScaling:
    """Vector scaling (Guo et al., 2017): ``softmax(a * log p + b)`` with a slope and a shift per class.

    Examples
    --------
    >>> scores, labels = np.tile([0.9, 0.05, 0.05], (10, 1)), np.array([0] * 6 + [1] * 3 + [2] * 1)
    >>> VectorScaling().fit(scores, labels).predict(scores)[0].round(2).tolist()
    [0.6, 0.3, 0.1]
    """

    slopes: Floats = field(default_factory=lambda: np.ones(1), repr=False)
    shifts: Floats = field(default_factory=lambda: np.zeros(1), repr=False)

    def fit(self, scores: Floats, labels: Codes, sample_weight: Floats | None = None) -> VectorScaling:
        """Learn slopes and shifts by the log-loss, with a slight penalty towards the identity."""
        logs, n_classes = clipped_logs(scores), scores.shape[1]
        share = np.ones(len(labels)) if sample_weight is None else sample_weight
        share = share / share.sum()
        is_label = (labels[:, None] == np.arange(n_classes)).astype(float)
        start = np.concatenate([np.ones(n_classes), np.zeros(n_classes)])
        shrinkage = 1e-6 / len(labels)  # without it, classes without labels have no optimum

        def loss(coefficients: Floats) -> tuple[float, Floats]:
            slopes, shifts = np.split(coefficients, 2)
            log_scores = log_softmax(slopes * logs + shifts, axis=1)
            error = share[:, None] * (np.exp(log_scores) - is_label)
            away = coefficients - start
            value = -float(share @ (is_label * log_scores).sum(axis=1)) + shrinkage / 2 * float(
                away @ away
            )
            slope = np.concatenate([(error * logs).sum(axis=0), error.sum(axis=0)])
            return value, slope + shrinkage * away

        found = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2_000, "gtol": 1e-9, "ftol": 1e-15},
        )
        self.slopes, self.shifts = np.split(np.asarray(found.x, float), 2)
        return self

    def predict(self, scores: Floats) -> Floats:
        """Return the recalibrated scores."""
        return np.asarray(softmax(self.slopes * clipped_logs(scores) + self.shifts, axis=1), float)


CLASS_RECALIBRATORS: Mapping[str, Callable[[], ClassRecalibrator]] = {
    "temperature": ClassTemperature,
    "vector": VectorScaling,
}


@dataclass(frozen=True)
class RecalibratedTogether:
    """The scores of all classes, recalibrated jointly on some of the rows.

    The binary problems of a task share one instance, so that each set of learning rows is fitted once.
    """

    recalibrate: str
    classes: tuple[Any, ...]
    scores: Floats  # (n, K)
    labels: Codes
    weights: Floats | None
    cache: dict[bytes, Floats] = field(default_factory=dict, repr=False, compare=False)

    @property
    def confidence(self) -> Floats:
        """The highest score of each row, which stratifies the same split for all classes."""
        return np.asarray(self.scores.max(axis=1), float)

    def learned_on(self, rows: Codes, of: Any) -> Floats:
        """Return scores of all rows, recalibrated on some: of class ``of``, or of a class per row."""
        recalibrated = self._all_learned_on(rows)
        if isinstance(of, np.ndarray):
            return np.asarray(np.take_along_axis(recalibrated, of[:, None], axis=1)[:, 0], float)
        return np.ascontiguousarray(recalibrated[:, self.classes.index(of)])

    def _all_learned_on(self, rows: Codes) -> Floats:
        key = rows.tobytes()
        if key not in self.cache:
            weights = None if self.weights is None else self.weights[rows]
            model = resolve_class_recalibrator(self.recalibrate)
            model.fit(self.scores[rows], self.labels[rows], weights)
            self.cache[key] = model.predict(self.scores)
        return self.cache[key]


def resolve_class_recalibrator(recalibrate: str) -> ClassRecalibrator:
    """Return a new recalibrator of all classes by its name.

    Examples
    --------
    >>> resolve_class_recalibrator("vector")
    VectorScaling()
    """
    if recalibrate not in CLASS_RECALIBRATORS:
        names = " or ".join(map(repr, CLASS_RECALIBRATORS))
        raise OptionError(
            f"to recalibrate all classes jointly, recalibrate must be {names}, got {recalibrate!r}."
        )
    return CLASS_RECALIBRATORS[recalibrate]()


def clipped_logs(scores: Floats) -> Floats:
    """Return the logarithms of scores; scores of 0 are replaced by a small number."""
    return np.asarray(np.log(np.maximum(scores, _SMALLEST)), float)


def _log_loss(logits: Floats, labels: Codes, weights: Floats | None) -> float:
    """Return the mean log-loss of softmax scores."""
    log_likelihood = np.take_along_axis(log_softmax(logits, axis=1), labels[:, None], axis=1)[:, 0]
    return -float(np.average(log_likelihood, weights=weights))
