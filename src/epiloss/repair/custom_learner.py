"""Corrections by a custom regressor, cross-fitted over folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.learners import Fitted, Regressor
from epiloss.input.features import Features
from epiloss.repair.stacking import shifted


@dataclass(frozen=True)
class CustomCorrection:
    """The mean of the regressors of all folds, multiplied by a weight."""

    models: Sequence[Fitted]
    weight: float

    def corrected(self, features: Features, base: Floats) -> Floats:
        """Return the probabilities with corrected log-odds."""
        added = [_log_odds_added(model, features, base) for model in self.models]
        return shifted(base, self.weight * np.mean(added, axis=0))


@dataclass(frozen=True)
class CustomModels:
    """The regressors of all folds, and their cross-fitted predictions ``columns`` (rows, 1)."""

    models: Sequence[Fitted]
    columns: Floats

    @classmethod
    def fit(
        cls,
        learner: Regressor,
        features: Features,
        base: Floats,
        labels: Floats,
        weights: Floats | None,
        parts: Sequence[tuple[Codes, Codes]],
        generator: np.random.Generator,
    ) -> CustomModels:
        """Fit regressors to the first rows of each part, and predict the others."""
        columns = np.empty((len(base), 1))
        models = []
        for learn, left_out in parts:
            some = None if weights is None else weights[learn]
            data = (features.take(learn), base[learn], (labels - base)[learn])
            model = learner.fit(*data, some, int(generator.integers(2**31)))
            columns[left_out, 0] = _log_odds_added(model, features.take(left_out), base[left_out])
            models.append(model)
        return cls(models, columns)

    def correction(self, shares: Floats) -> CustomCorrection:
        """Return the correction with the given weight."""
        return CustomCorrection(self.models, float(shares[0]))


def _log_odds_added(model: Any, features: Features, base: Floats) -> Floats:
    """Return predicted residuals, converted to the log-odds scale by its slope."""
    residual = np.asarray(model.predict(features, base), float)
    return np.asarray(residual / np.maximum(base * (1 - base), 0.01), float)
