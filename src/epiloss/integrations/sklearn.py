"""Losses as scikit-learn scorers, for ``cross_validate``, ``GridSearchCV`` and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epiloss._models import predicted_probabilities
from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit
from epiloss.errors import OptionError

_PARTS = {
    "neg_score": "score",
    "neg_calibration_loss": "calibration_loss",
    "neg_grouping_loss": "grouping_loss",
}


class LossScorer:
    """A callable ``(estimator, X, y)`` that audits a fitted classifier.

    Attributes
    ----------
    losses : tuple of str
        The names of the losses.
    single : bool
        Whether the scorer returns one number instead of a dictionary.
    options : dict
        Options of :func:`epiloss.audit`.

    See Also
    --------
    epiloss.loss_scorer : returns it.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_moons(1_000, noise=0.3, random_state=0)
    >>> bool(loss_scorer("neg_score")(LogisticRegression().fit(X, y), X, y) < 0)
    True
    """

    def __init__(self, losses: tuple[str, ...], single: bool, options: dict[str, Any]) -> None:
        self.losses, self.single, self.options = losses, single, options

    def __call__(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any = None
    ) -> float | dict[str, float]:
        """Return the negated loss, or a dictionary of negated losses."""
        scores, classes = predicted_probabilities(estimator, X)
        options = {"classes": classes, "sample_weight": sample_weight, **self.options}
        result = audit(y, scores, X, **options)
        found = {name: -_value(result, name) for name in self.losses}
        return found[self.losses[0]] if self.single else found

    def __repr__(self) -> str:
        losses = repr(self.losses[0]) if self.single else repr(self.losses)
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"loss_scorer({losses}{options})"


def loss_scorer(losses: str | Sequence[str] = tuple(_PARTS), **options: Any) -> LossScorer:
    """Return a scorer that audits a classifier on held-out rows; larger is better.

    The losses are ``"neg_score"`` (the Brier score by default), ``"neg_calibration_loss"`` and
    ``"neg_grouping_loss"``. The estimate of the grouping loss grows with the number of held-out rows, so
    compare models on folds of equal size.

    Parameters
    ----------
    losses : str or sequence of str
        One loss, for example for ``GridSearchCV``, or several losses of the same audit, which
        ``cross_validate`` reports by name. The default is all of them.
    **options
        Options of :func:`epiloss.audit`.

    Returns
    -------
    LossScorer
        A callable ``(estimator, X, y)``.

    See Also
    --------
    audit : the function that the scorer calls.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> X, y = make_moons(1_000, noise=0.3, random_state=0)
    >>> found = cross_validate(LogisticRegression(), X, y, cv=2, scoring=loss_scorer(n_bins=5))
    >>> sorted(name for name in found if name.startswith("test"))
    ['test_neg_calibration_loss', 'test_neg_grouping_loss', 'test_neg_score']
    >>> loss_scorer("neg_grouping_loss", n_bins=5)
    loss_scorer('neg_grouping_loss', n_bins=5)
    """
    single = isinstance(losses, str)
    names = (losses,) if isinstance(losses, str) else tuple(losses)
    unknown = [name for name in names if name not in _PARTS]
    if unknown or not names:
        raise OptionError(
            f"losses must be among {', '.join(map(repr, _PARTS))}, got "
            f"{repr(unknown[0]) if unknown else 'none'}. Name at least one of them."
        )
    return LossScorer(names, single, options)


def _value(result: Audit, name: str) -> float:
    return float(getattr(result, _PARTS[name]).value)
