"""Proper scoring rules for a binary outcome: loss, entropy, divergence.

A rule is given by its entropy ``e``, concave on [0, 1]. With ``e'`` its slope, predicting ``p``
when the truth is ``q`` scores ``e(p) + (q - p) e'(p)`` on average, the excess over ``e(q)`` is the
divergence, and the convex function of the theory is ``h = -e``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import psi, xlog1py, xlogy

from epiloss._typing import Floats
from epiloss.errors import OptionError


class ScoringRule(ABC):
    """A proper scoring rule; lower scores are better.

    A rule of your own is a subclass with ``entropy`` and ``expected``, or :meth:`from_entropy`.

    Attributes
    ----------
    name : str
        What results call it.
    bounded : bool
        Whether the loss is finite for every prediction.

    See Also
    --------
    Brier, LogLoss : the rules that are there.

    References
    ----------
    Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", Journal of the
    American Statistical Association 102, 2007.

    Examples
    --------
    >>> rule = ScoringRule.from_entropy(lambda p: p * (1 - p), name="my Brier")
    >>> [float(one.round(4)) for one in (rule.entropy(0.5), rule.expected(0.5, 0.75), rule.loss(0.5, 1))]
    [0.25, 0.25, 0.25]
    >>> [float(value.round(4)) for value in (rule.divergence(0.5, 0.75), rule.pair_entropy(0.4, 0.6))]
    [0.0625, 0.26]
    >>> float(rule.debiased_entropy(1, 2).round(4)), rule.per_class() is rule
    (0.5, True)
    """

    name: str
    bounded = False  # the loss stays finite, so a small error of a curve stays a small error

    @abstractmethod
    def entropy(self, p: ArrayLike) -> Floats:
        """Return ``e(p)``, the expected score of the prediction ``p`` when it is the truth.

        Parameters
        ----------
        p : array-like
            Probabilities.

        Returns
        -------
        array
            As many entropies.
        """

    @abstractmethod
    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``s(p, q)``, the expected score of predicting ``p`` when the truth is ``q``.

        Parameters
        ----------
        p, q : array-like
            Predicted and true probabilities.

        Returns
        -------
        array
            Expected scores.
        """

    def loss(self, p: ArrayLike, y: ArrayLike) -> Floats:
        """Return the score of predicting ``p`` when the outcome is ``y`` in {0, 1}.

        Parameters
        ----------
        p, y : array-like
            Predicted probabilities, and outcomes in {0, 1}.

        Returns
        -------
        array
            The score of each row.
        """
        return self.expected(p, y)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``d(p, q) = s(p, q) - e(q) >= 0``, zero where ``p = q``.

        Parameters
        ----------
        p, q : array-like
            Predicted and true probabilities.

        Returns
        -------
        array
            What predicting ``p`` costs beyond predicting ``q``.
        """
        return np.maximum(self.expected(p, q) - self.entropy(q), 0.0)

    def debiased_entropy(self, label_sum: ArrayLike, n: ArrayLike) -> Floats:
        """Estimate ``e(q)`` from ``label_sum`` ones among ``n >= 2`` labels, by the jackknife.

        ``n e(T/n) - (n-1)/n [ T e((T-1)/(n-1)) + (n-T) e(T/(n-1)) ]``: it removes the bias of the
        plugin ``e(T/n)`` to first order, and exactly for the Brier score.

        Parameters
        ----------
        label_sum, n : array-like
            Ones, and labels in all.

        Returns
        -------
        array
            Estimates of the entropy.
        """
        ones, size = np.asarray(label_sum, float), np.asarray(n, float)
        zeros, rest = size - ones, size - 1
        without_one = np.clip((ones - 1) / rest, 0, 1)
        without_zero = np.clip(ones / rest, 0, 1)
        left_out = ones * self.entropy(without_one) + zeros * self.entropy(without_zero)
        return _floats(size * self.entropy(ones / size) - rest / size * left_out)

    def binned_divergence(
        self,
        score_mean: Floats,
        label_mean: Floats,
        n: Floats,
        score_variance: Floats,
        score_label_covariance: Floats,
    ) -> Floats:
        """Estimate ``d(S_B, C_B)`` of level sets from their means, without the noise of the labels.

        Parameters
        ----------
        score_mean, label_mean, n : array
            Means of scores and labels of each level set, and its number of rows.
        score_variance, score_label_covariance : array
            Moments inside each level set.

        Returns
        -------
        array
            The calibration loss of each level set.

        Examples
        --------
        >>> means = np.array([0.5]), np.array([0.7]), np.array([100.0])
        >>> Brier().binned_divergence(*means, np.zeros(1), np.zeros(1)).round(4).tolist()
        [0.0379]
        """
        entropy = self.debiased_entropy(label_mean * n, n)
        return self.expected(score_mean, label_mean) - entropy

    def pair_entropy(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Return ``2 e((a+b)/2) - (e(a)+e(b))/2``, free of the independent noise of ``a`` and ``b``.

        For two independent estimates of one probability this is, to second order, unbiased for the
        entropy of that probability. For the Brier score it is exactly ``(a+b)/2 - ab``.

        Parameters
        ----------
        a, b : array-like
            Two independent estimates of the same probabilities.

        Returns
        -------
        array
            Estimates of the entropy.
        """
        first, second = np.asarray(a, float), np.asarray(b, float)
        halves = self.entropy(first) + self.entropy(second)
        return 2 * self.entropy((first + second) / 2) - halves / 2

    def per_class(self) -> ScoringRule:
        """Return the rule for one class among several, so that the sum over classes is this score.

        Returns
        -------
        ScoringRule
            The rule itself, or one class's part of it.
        """
        return self

    @staticmethod
    def from_entropy(
        entropy: Callable[[Floats], Floats],
        *,
        slope: Callable[[Floats], Floats] | None = None,
        name: str = "custom",
    ) -> ScoringRule:
        """Make a rule from a concave entropy on [0, 1].

        Parameters
        ----------
        entropy : callable
            A concave function of an array of probabilities.
        slope : callable, optional
            Its derivative; by default it is taken numerically.
        name : str
            What results call the rule.

        Returns
        -------
        ScoringRule
            The rule with this entropy.

        Examples
        --------
        >>> spherical = ScoringRule.from_entropy(lambda p: 1 - np.sqrt(p**2 + (1 - p) ** 2))
        >>> bool(spherical.divergence(0.2, 0.8) > 0)
        True
        """
        return _FromEntropy(entropy, slope, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Brier(ScoringRule):
    """The Brier score ``(p - y)^2``, as ``sklearn.metrics.brier_score_loss``.

    See Also
    --------
    LogLoss : the other common rule.
    ScoringRule.from_entropy : any other.

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
        return _floats(p * (1 - p))

    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``(p - q)^2 + q (1 - q)``."""
        p, q = np.asarray(p, float), np.asarray(q, float)
        return _floats((p - q) ** 2 + q * (1 - q))

    def loss(self, p: ArrayLike, y: ArrayLike) -> Floats:
        """Return ``(p - y)^2``."""
        return _floats((np.asarray(p, float) - np.asarray(y, float)) ** 2)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``(p - q)^2``."""
        return _floats((np.asarray(p, float) - np.asarray(q, float)) ** 2)

    def debiased_entropy(self, label_sum: ArrayLike, n: ArrayLike) -> Floats:
        """Return the unbiased ``T (n - T) / (n (n - 1))``, which the jackknife gives exactly."""
        ones, size = np.asarray(label_sum, float), np.asarray(n, float)
        return _floats(ones * (size - ones) / (size * (size - 1)))

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
    """The log-loss in nats; 0 at certain predictions that are right, infinite at those that are wrong.

    See Also
    --------
    Brier : the default, which is bounded.
    ScoringRule.from_entropy : any other.

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
        return _floats(-xlogy(q, p) - xlog1py(1 - q, -p))

    def conservative_entropy(self, label_sum: ArrayLike, n: ArrayLike, *, upper: bool) -> Floats:
        """Estimate the entropy from counts with a one-sided bias, by digamma functions.

        Without ``upper`` the bias is never positive, with it never negative: used for level sets
        and regions respectively, the explained loss is a lower bound in expectation.

        Parameters
        ----------
        label_sum, n : array-like
            Ones, and labels in all.
        upper : bool
            The sign of the bias.

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
        return _floats(estimate + pure / size if upper else estimate)

    def per_class(self) -> ScoringRule:
        """Return the one-class log-loss, whose sum over classes is the multi-class log-loss."""
        return ClassLogLoss()


class ClassLogLoss(ScoringRule):
    """One class's share of the multi-class log-loss: ``e(p) = -p log p``.

    The loss ``-y log p + p - y`` summed over the classes is ``-log`` of the true class's
    probability, because probabilities and indicators both sum to one.
    """

    name = "log"

    def entropy(self, p: ArrayLike) -> Floats:
        """Return ``-p log p``."""
        p = np.asarray(p, float)
        return _floats(-xlogy(p, p))

    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        """Return ``-q log p + p - q``."""
        p, q = np.asarray(p, float), np.asarray(q, float)
        return _floats(-xlogy(q, p) + p - q)


class _FromEntropy(ScoringRule):
    """A rule known by its entropy alone; the slope is taken numerically if it is not given."""

    def __init__(
        self,
        entropy: Callable[[Floats], Floats],
        slope: Callable[[Floats], Floats] | None,
        name: str,
    ) -> None:
        self.name = name
        self._entropy = entropy
        self._slope = slope or self._numerical_slope
        _check_concave(self, name)

    def entropy(self, p: ArrayLike) -> Floats:
        return _floats(self._entropy(np.asarray(p, float)))

    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        p, q = np.asarray(p, float), np.asarray(q, float)
        gap = q - p
        slope = np.asarray(self._slope(p), float)
        # at p = q the slope has no say, even where it is infinite
        tilt = np.multiply(gap, slope, out=np.zeros(gap.shape), where=gap != 0)
        return _floats(self.entropy(p) + tilt)

    def _numerical_slope(self, p: Floats) -> Floats:
        step = 1e-5
        low, high = np.clip(p - step, 0, 1), np.clip(p + step, 0, 1)
        return _floats((self.entropy(high) - self.entropy(low)) / (high - low))


def resolve_rule(rule: str | ScoringRule) -> ScoringRule:
    """Return the rule that a short-hand names."""
    if isinstance(rule, ScoringRule):
        return rule
    rules: dict[str, ScoringRule] = {"brier": Brier(), "log": LogLoss()}
    if not isinstance(rule, str) or rule not in rules:
        raise OptionError(
            f"rule must be 'brier', 'log' or a ScoringRule, got {rule!r}. "
            "Make your own with ScoringRule.from_entropy(e)."
        )
    return rules[rule]


def _check_concave(rule: ScoringRule, name: str) -> None:
    grid = np.linspace(0, 1, 101)
    values = rule.entropy(grid)
    if values.shape != grid.shape or not np.isfinite(values).all():
        raise OptionError(
            f"the entropy of rule {name!r} must map an array of probabilities to as many finite "
            f"values, got {values!r:.80}. Use numpy functions, and limits at 0 and 1."
        )
    bend = values[:-2] + values[2:] - 2 * values[1:-1]
    if bend.max() > 1e-9:
        raise OptionError(
            f"the entropy of rule {name!r} must be concave on [0, 1], got one that bends upwards at "
            f"{grid[1 + int(bend.argmax())]:.2f}. A convex function is the negative of an entropy."
        )


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, np.float64)


def _times_psi(count: Floats) -> Floats:
    """Return ``x psi(x)`` with the convention 0 at 0."""
    return np.where(count > 0, count * psi(np.where(count > 0, count, 1.0)), 0.0)
