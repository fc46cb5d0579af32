"""Models passed by the user: seeded copies, weighted fits, descriptions and predictions."""

from __future__ import annotations

import copy
from typing import Any

from epiloss._typing import Floats
from epiloss.errors import OptionError, printable


def fresh(model: Any, seed: int) -> Any:
    """Return an unfitted copy; every ``random_state`` that is None is set to the seed."""
    if not hasattr(model, "get_params"):
        return copy.deepcopy(model)
    from sklearn.base import clone

    new = clone(model)
    random = {
        name: seed
        for name, value in new.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    if random:
        new.set_params(**random)
    return new


def fit_weighted(model: Any, X: Any, target: Floats, weights: Floats | None) -> None:
    """Fit a model, with weights if its ``fit`` accepts them."""
    from sklearn.utils.validation import has_fit_parameter

    if weights is not None and has_fit_parameter(model, "sample_weight"):
        model.fit(X, target, sample_weight=weights)
    else:
        model.fit(X, target)


def described(model: Any) -> str:
    """Return a one-line description of a model that is the same in every run.

    Examples
    --------
    >>> described(object())
    'object'
    """
    text = repr(model) if hasattr(model, "get_params") else type(model).__name__
    return printable(" ".join(text.split()))


def predicted_probabilities(estimator: Any, X: Any) -> tuple[Any, list[Any]]:
    """Return a fitted classifier's class probabilities, and its classes."""
    if not hasattr(estimator, "predict_proba"):
        raise OptionError(
            f"the estimator must have predict_proba, got {type(estimator).__name__}. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or audit its own scores."
        )
    return estimator.predict_proba(X), list(estimator.classes_)
