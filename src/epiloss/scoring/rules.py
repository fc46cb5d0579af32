"""The scoring rules that are included: Brier score and log-loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import psi, xlog1py, xlogy

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.scoring.base import ScoringRule, as_floats


class Brier(ScoringRule):
    """The Brier score ``(p - y)^2``, like ``sklearn.metrics.brier_score_loss``.

    See Also
    --------
    LogLoss : the other common scoring rule.
    ScoringRule.from_entropy : define any other rule.

    References
    ----------
    Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78,
    1950.

    Examples
    --------
    >>> float(Brier().divergence(0.5, 0.75))
    0.0625
    """

    name = "brier"
    bounded = True

    def entropy(self, p: ArrayLike) -> Floats:
        """Return ``p (1 - p)``."""
        p = np.asarray(p, float)
        return as_floats(p * (1 - p))

    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``(p - q)^2 + q (1 - q)``."""
        p, q = np.asarray(p, float), np.asarray(q, float)
        return as_floats((p - q) ** 2 + q * (1 - q))

    def loss(self, p: ArrayLike, y: ArrayLike) -> Floats:
        """Return ``(p - y)^2``."""
        return as_floats((np.asarray(p, float) - np.asarray(y, float)) ** 2)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``(p - q)^2``."""
        return as_floats((np.asarray(p, float) - np.asarray(q, float)) ** 2)

    def debiased_entropy(self, label_sum: ArrayLike, n: ArrayLike) -> Floats:
        """Return the unbiased estimate ``T (n - T) / (n (n - 1))``, which equals the jackknife."""
        ones, size = np.asarray(label_sum, float), np.asarray(n, float)
        return as_floats(ones * (size - ones) / (size * (size - 1)))

    def binned_divergence(
        self,
        score_mean: Floats,
        label_mean: Floats,
        n: Floats,
        score_variance: Floats,
        score_label_covariance: Floats,
    ) -> Floats:
        """Return ``((sum R)^2 - sum R^2) / (n (n-1))`` with ``R = Y - S``: the squared l2-ECE."""
        label_variance = label_mean * (1 - label_mean)
        residual_variance = label_variance + score_variance - 2 * score_label_covariance
        return (label_mean - score_mean) ** 2 - residual_variance / (n - 1)


class LogLoss(ScoringRule):
    """The log-loss in nats: 0 for a certain prediction that is right, infinite for one that is wrong.

    See Also
    --------
    Brier : the default, which is bounded.
    ScoringRule.from_entropy : define any other rule.

    References
    ----------
    Good, "Rational decisions", Journal of the Royal Statistical Society B 14, 1952.

    Examples
    --------
    >>> float(LogLoss().loss(0.0, 0)), float(LogLoss().loss(0.0, 1))
    (0.0, inf)
    """

    name = "log"

    def entropy(self, p: ArrayLike) -> Floats:
        """Return ``-p log p - (1 - p) log(1 - p)``."""
        return self.expected(p, p)

    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``-q log p - (1 - q) log(1 - p)``."""
        p, q = np.asarray(p, float), np.asarray(q, float)
        return as_floats(-xlogy(q, p) - xlog1py(1 - q, -p))

    def conservative_entropy(self, label_sum: ArrayLike, n: ArrayLike, *, upper: bool) -> Floats:
        """Estimate the entropy from counts by digamma functions, with a bias of known sign.

        The bias is never negative with ``upper=True`` and never positive with ``upper=False``. The
        explained loss is therefore a lower bound in expectation if level sets use the lower estimate
        and regions the upper one.

        Parameters
        ----------
        label_sum, n : array-like
            Number of ones, and number of labels.
        upper : bool
            Whether the bias is at least 0 (True) or at most 0 (False).

        Returns
        -------
        array
            Estimates of the entropy.

        Examples
        --------
        >>> rule = LogLoss()
        >>> low, high = (float(rule.conservative_entropy(0, 5, upper=upper)) for upper in (False, True))
        >>> bool(low <= rule.entropy(0.0) <= high)
        True
        """
        ones, size = np.asarray(label_sum, float), np.asarray(n, float)
        estimate = psi(size) - (_times_psi(ones) + _times_psi(size - ones)) / size
        pure = (ones == 0).astype(float) + (ones == size)
        return as_floats(estimate + pure / size if upper else estimate)

    def per_class(self) -> ScoringRule:
        """Return the rule whose sum over classes is the multi-class log-loss."""
        return ClassLogLoss()


class ClassLogLoss(ScoringRule):
    """The contribution of one class to the multi-class log-loss, ``e(p) = -p log p``.

    The sum of ``-y log p + p - y`` over classes is minus the logarithm of the true class's
    probability, because probabilities and indicators both sum to one.
    """

    name = "log"

    def entropy(self, p: ArrayLike) -> Floats:
        """Return ``-p log p``."""
        p = np.asarray(p, float)
        return as_floats(-xlogy(p, p))

    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``-q log p + p - q``."""
        p, q = np.asarray(p, float), np.asarray(q, float)
        return as_floats(-xlogy(q, p) + p - q)


def resolve_rule(rule: str | ScoringRule) -> ScoringRule:
    """Return the scoring rule for a name; a ScoringRule is returned as it is."""
    if isinstance(rule, ScoringRule):
        return rule
    rules: dict[str, ScoringRule] = {"brier": Brier(), "log": LogLoss()}
    if not isinstance(rule, str) or rule not in rules:
        raise OptionError(
            f"rule must be 'brier', 'log' or a ScoringRule, got {rule!r}. "
            "Define your own with ScoringRule.from_entropy(e)."
        )
    return rules[rule]


def _times_psi(count: Floats) -> Floats:
    """Return ``x psi(x)``, which is 0 at 0 by convention."""
    return np.where(count > 0, count * psi(np.where(count > 0, count, 1.0)), 0.0)
