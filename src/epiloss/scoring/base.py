"""The base class of scoring rules, and rules made from an entropy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from epiloss._typing import Floats
from epiloss.errors import OptionError


class ScoringRule(ABC):
    """A proper scoring rule; lower scores are better.

    To define your own rule, subclass this class and implement ``entropy`` and ``expected``, or call
    :meth:`from_entropy`.

    Attributes
    ----------
    name : str
        The name shown in results.
    bounded : bool
        Whether the loss is finite for every prediction.

    See Also
    --------
    Brier, LogLoss : the scoring rules that are included.

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
    bounded = False  # with a bounded loss, a small error of a curve remains a small error of the loss

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
            The entropy of each probability.
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
            The excess score of predicting ``p`` instead of ``q``.
        """
        return np.maximum(self.expected(p, q) - self.entropy(q), 0.0)

    def debiased_entropy(self, label_sum: ArrayLike, n: ArrayLike) -> Floats:
        """Estimate ``e(q)`` from ``label_sum`` ones among ``n >= 2`` labels, by the jackknife.

        ``n e(T/n) - (n-1)/n [ T e((T-1)/(n-1)) + (n-T) e(T/(n-1)) ]`` removes the bias of the plugin
        estimate ``e(T/n)`` to first order, and removes all of it for the Brier score.

        Parameters
        ----------
        label_sum, n : array-like
            Number of ones, and number of labels.

        Returns
        -------
        array
            Estimates of the entropy.
        """
        ones, size = np.asarray(label_sum, float), np.asarray(n, float)
        zeros, rest = size - ones, size - 1
        without_one = np.clip((ones - 1) / rest, 0, 1)
        without_zero = np.clip(ones / rest, 0, 1)
        leave_one_out = ones * self.entropy(without_one) + zeros * self.entropy(without_zero)
        return as_floats(size * self.entropy(ones / size) - rest / size * leave_one_out)

    def binned_divergence(
        self,
        score_mean: Floats,
        label_mean: Floats,
        n: Floats,
        score_variance: Floats,
        score_label_covariance: Floats,
    ) -> Floats:
        """Estimate ``d(S_B, C_B)`` of each level set from its means, corrected for label noise.

        Parameters
        ----------
        score_mean, label_mean, n : array
            Mean score, mean label and number of rows of each level set.
        score_variance, score_label_covariance : array
            Variance of the scores and covariance of scores and labels within each level set.

        Returns
        -------
        array
            The calibration loss of each level set.

        Examples
        --------
        >>> from epiloss import Brier
        >>> means = np.array([0.5]), np.array([0.7]), np.array([100.0])
        >>> Brier().binned_divergence(*means, np.zeros(1), np.zeros(1)).round(4).tolist()
        [0.0379]
        """
        entropy = self.debiased_entropy(label_mean * n, n)
        return self.expected(score_mean, label_mean) - entropy

    def pair_entropy(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Return ``2 e((a+b)/2) - (e(a)+e(b))/2``, in which independent noise cancels.

        If ``a`` and ``b`` are independent estimates of the same probability, this estimates the
        entropy of that probability without bias to second order. For the Brier score it equals
        ``(a+b)/2 - ab``.

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
        """Return the rule for one class, such that the sum over classes is the multi-class score.

        Returns
        -------
        ScoringRule
            The rule for a single class; for most rules, the rule itself.
        """
        return self

    @staticmethod
    def from_entropy(
        entropy: Callable[[Floats], Floats],
        *,
        slope: Callable[[Floats], Floats] | None = None,
        name: str = "custom",
    ) -> ScoringRule:
        """Create a scoring rule from an entropy that is concave on [0, 1].

        Parameters
        ----------
        entropy : callable
            A concave function of an array of probabilities.
        slope : callable, optional
            The derivative of the entropy. By default it is computed numerically.
        name : str
            The name shown in results.

        Returns
        -------
        ScoringRule
            The scoring rule with this entropy.

        Examples
        --------
        >>> spherical = ScoringRule.from_entropy(lambda p: 1 - np.sqrt(p**2 + (1 - p) ** 2))
        >>> bool(spherical.divergence(0.2, 0.8) > 0)
        True
        """
        return _FromEntropy(entropy, slope, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _FromEntropy(ScoringRule):
    """A scoring rule defined by its entropy; the slope is computed numerically if it is not given."""

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
        return as_floats(self._entropy(np.asarray(p, float)))

    def expected(self, p: ArrayLike, q: ArrayLike) -> Floats:
        p, q = np.asarray(p, float), np.asarray(q, float)
        gap = q - p
        slope = np.asarray(self._slope(p), float)
        # The slope does not matter where p = q, even if it is infinite there.
        change = np.multiply(gap, slope, out=np.zeros(gap.shape), where=gap != 0)
        return as_floats(self.entropy(p) + change)

    def _numerical_slope(self, p: Floats) -> Floats:
        step = 1e-5
        low, high = np.clip(p - step, 0, 1), np.clip(p + step, 0, 1)
        return as_floats((self.entropy(high) - self.entropy(low)) / (high - low))


def _check_concave(rule: ScoringRule, name: str) -> None:
    grid = np.linspace(0, 1, 101)
    values = rule.entropy(grid)
    if values.shape != grid.shape or not np.isfinite(values).all():
        raise OptionError(
            f"the entropy of scoring rule {name!r} must map an array of probabilities to finite values "
            f"of the same shape, got {values!r:.80}. Use NumPy functions, with limits at 0 and 1."
        )
    second_difference = values[:-2] + values[2:] - 2 * values[1:-1]
    if second_difference.max() > 1e-9:
        worst = grid[1 + int(second_difference.argmax())]
        raise OptionError(
            f"the entropy of scoring rule {name!r} must be concave on [0, 1], got one that is convex at "
            f"{worst:.2f}. If the function is convex, pass its negative."
        )


def as_floats(values: ArrayLike) -> Floats:
    """Return values as an array of float64."""
    return np.asarray(values, np.float64)
