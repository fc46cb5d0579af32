"""A scikit-learn classifier whose probabilities are repaired."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from epiloss._models import fresh
from epiloss._random import seed_of
from epiloss._typing import Floats
from epiloss.errors import DataError
from epiloss.repair.recalibrator import RegionRecalibrator


class RegionRecalibratedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are repaired by their features.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``predict_proba``.
    recalibrator : RegionRecalibrator, optional
        The repair to fit; by default ``RegionRecalibrator()``.
    cv : int or "prefit"
        The number of folds: the repair is fitted to cross-validated scores. With "prefit", the
        classifier must already be fitted, to other rows.
    random_state : int, Generator or RandomState, optional
        The seed of the folds, of the classifier and of the repair.

    See Also
    --------
    RegionRecalibrator : repairs scores.
    sklearn.calibration.CalibratedClassifierCV : recalibrates by the score alone.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1_000, noise=0.3, random_state=0)
    >>> model = RegionRecalibratedClassifier(LogisticRegression()).fit(X, y)
    >>> model.predict_proba(X).shape, model.predict(X).shape
    ((1000, 2), (1000,))
    """

    def __init__(
        self, estimator: Any, *, recalibrator: Any = None, cv: Any = 5, random_state: Any = 0
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse features are supported if the classifier supports them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def fit(self, X: Any, y: Any) -> RegionRecalibratedClassifier:
        """Fit the classifier, and the repair to scores of rows that the classifier has not seen.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : array-like of shape (n,)
            Classes.

        Returns
        -------
        RegionRecalibratedClassifier
            The fitted classifier.
        """
        y = _checked_target(y)
        seed = seed_of(self.random_state)
        if self.cv == "prefit":
            self.estimator_ = self.estimator
            scores = self.estimator_.predict_proba(X)
        else:
            from sklearn.model_selection import StratifiedKFold, cross_val_predict

            cv = StratifiedKFold(self.cv, shuffle=True, random_state=seed % 2**32)
            model = fresh(self.estimator, seed % 2**31)
            scores = cross_val_predict(model, X, y, cv=cv, method="predict_proba")
            self.estimator_ = model.fit(X, y)
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        recalibrator = RegionRecalibrator() if self.recalibrator is None else self.recalibrator
        self.recalibrator_ = fresh(recalibrator, seed % 2**31)
        self.recalibrator_.fit(y, scores, X, classes=list(self.classes_))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the repaired probabilities of each class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n, K)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.recalibrator_.predict(self.estimator_.predict_proba(X), X), float)

    def predict(self, X: Any) -> Any:
        """Return the class with the largest repaired probability.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n,)
            Classes.
        """
        best = self.predict_proba(X).argmax(axis=1)  # raises an error if the classifier is not fitted
        return self.classes_[best]


def _checked_target(y: Any) -> Any:
    """Check the target and return it as a one-dimensional array."""
    if y is None:
        raise DataError("the classifier requires y to be passed, but the target y is None.")
    column = column_or_1d(y, warn=True)
    assert_all_finite(column, input_name="y")
    check_classification_targets(column)
    return column
