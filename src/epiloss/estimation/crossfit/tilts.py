"""What a lower bound asks of a rule: ``d(c, q) >= t (q - c) - cost(c, t)`` for every tilt ``t``.

The least such cost is the convex conjugate of the divergence ``d`` in ``q - c``. A tilt is best where it
is the difference of the slopes of ``h = -e`` at ``q`` and at ``c``: for the Brier score ``2 (q - c)``,
for the log-loss the difference of the log-odds. Any other gives a lower bound too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from epiloss._typing import Floats
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule

_STEEPEST = 3.0  # tilt of log-odds that is believed: 20 times the odds
_SHARE = 0.1  # of the mean variance, that rows of nearly certain labels are taken to have in addition
_LEAST = 0.01  # of the base rate, that a curve is kept from 0 and from 1


class Tilts(ABC):
    """How a rule prices tilts, and what a learner has to predict so that it predicts tilts."""

    is_even = False  # the curvature is the same for every tilt, and one without a mean costs the least

    def inside(self, c: Floats, base_rate: float) -> Floats:
        """Return a curve's values, kept from where the rule is too steep."""
        return c

    def task(self, residual: Floats, c: Floats, weights: Floats | None) -> tuple[Floats, Floats | None]:
        """Return what is to be predicted from the residuals ``Y - C``, and with which weights."""
        return residual, weights

    @abstractmethod
    def tilt(self, guess: Floats, c: Floats) -> Floats:
        """Return the tilt that a prediction stands for."""

    @abstractmethod
    def cost(self, c: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the cost of a tilt, its slope and its curvature in ``t``."""


@dataclass(frozen=True)
class QuadraticTilts(Tilts):
    """For any rule, with ``kappa(c)`` the least of ``d(c, q) / (q - c)^2``: a cost of ``t^2 / 4 kappa``.

    Examples
    --------
    >>> cost, slope, curvature = QuadraticTilts(Brier()).cost(np.array([0.3]), np.array([0.2]))
    >>> cost.round(3).tolist(), slope.tolist(), curvature.tolist()
    ([0.01], [0.1], [0.5])
    """

    rule: ScoringRule

    @property
    def is_even(self) -> bool:  # type: ignore[override]  # of some rules
        """Tell whether the curvature is the same everywhere."""
        return isinstance(self.rule, Brier)

    def tilt(self, guess: Floats, c: Floats) -> Floats:
        """Return ``2 kappa g`` for a prediction ``g`` of ``Y - C``."""
        return 2 * self.stiffness(c) * guess

    def cost(self, c: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return ``t^2 / 4 kappa`` and its derivatives."""
        curvature = 1 / (2 * self.stiffness(c))
        slope = curvature * t
        return slope * t / 2, slope, curvature

    def stiffness(self, c: Floats) -> Floats:
        """Return ``kappa(c)``, the least of ``d(c, q) / (q - c)^2`` over ``q``, from a grid."""
        if self.is_even:
            return np.ones_like(c)
        grid = np.linspace(0.0025, 0.9975, 200)
        q = np.linspace(0, 1, 401)[None, :]
        gap = grid[:, None] - q
        near = np.abs(gap) < 2e-3
        ratio = self.rule.divergence(grid[:, None], q) / np.where(near, 1.0, gap**2)
        return np.asarray(np.interp(c, grid, np.where(near, np.inf, ratio).min(axis=1)), float)


class LogTilts(Tilts):
    """For the log-loss, tilts of the log-odds: the cost is ``log(1 - c + c e^t) - c t``.

    Where outcomes are rare a bound by squares would find next to nothing of what ratios tell.

    Examples
    --------
    >>> c, q = np.array([0.01]), np.array([0.03])
    >>> t = logit(q) - logit(c)
    >>> bool(np.isclose(t * (q - c) - LogTilts().cost(c, t)[0], LogLoss().divergence(c, q))[0])
    True
    """

    def inside(self, c: Floats, base_rate: float) -> Floats:
        """Keep the curve off 0 and 1, by a part of the rarer outcome's rate."""
        least = _LEAST * min(base_rate, 1 - base_rate)
        return np.clip(c, least, 1 - least)

    def task(self, residual: Floats, c: Floats, weights: Floats | None) -> tuple[Floats, Floats | None]:
        """Return the residual in units of the label's variance, which is its weight."""
        variance = self._variance(c)
        variance = variance + _SHARE * variance.mean()
        share = variance / variance.mean()
        return residual / variance, share if weights is None else share * weights

    def tilt(self, guess: Floats, c: Floats) -> Floats:
        """Return the prediction, where it can be believed."""
        return np.clip(guess, -_STEEPEST, _STEEPEST)

    def cost(self, c: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the logarithm of the mean of ``e^(t (Y - c))``, and its derivatives."""
        tilted = expit(logit(c) + t)
        return np.log1p(c * np.expm1(t)) - c * t, tilted - c, tilted * (1 - tilted)

    def of_steps(self, steps: Floats, c: Floats) -> Floats:
        """Return the tilts that steps of the log-odds stand for, where they can be believed."""
        return np.clip(steps, -_STEEPEST, _STEEPEST)

    def fourth(self, c: Floats) -> Floats:
        """Return the fourth derivative of the cost of no tilt over the second."""
        return 1 - 6 * c * (1 - c)

    def _variance(self, c: Floats) -> Floats:
        return c * (1 - c)


class ClassLogTilts(LogTilts):
    """For one class's share of the log-loss, tilts of the logarithm: the cost is ``c (e^t - 1 - t)``.

    Examples
    --------
    >>> c, q = np.array([0.01]), np.array([0.03])
    >>> t = np.log(q / c)
    >>> bool(np.isclose(t * (q - c) - ClassLogTilts().cost(c, t)[0], ClassLogLoss().divergence(c, q))[0])
    True
    """

    def cost(self, c: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the cost, as if probabilities above 1 were possible, and its derivatives."""
        more = np.expm1(t)
        return c * (more - t), c * more, c * (more + 1)

    def of_steps(self, steps: Floats, c: Floats) -> Floats:
        """Return the logarithm of the ratio of the probabilities, where it can be believed."""
        odds = np.expm1(np.clip(steps, -_STEEPEST, _STEEPEST))
        return np.asarray(np.log1p(odds) - np.log1p(c * odds), float)

    def fourth(self, c: Floats) -> Floats:
        """Return 1: all derivatives are alike."""
        return np.ones_like(c)

    def _variance(self, c: Floats) -> Floats:
        return c


def tilts_of(rule: ScoringRule) -> Tilts:
    """Return the tilts of a rule."""
    if isinstance(rule, ClassLogLoss):
        return ClassLogTilts()
    return LogTilts() if isinstance(rule, LogLoss) else QuadraticTilts(rule)
