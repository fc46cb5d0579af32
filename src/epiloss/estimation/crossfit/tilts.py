"""Tilts: the functions from which lower bounds on a divergence are made.

For every tilt ``t``, ``d(c, q) >= t (q - c) - cost(c, t)``. The smallest such cost is the convex
conjugate of the divergence ``d`` in ``q - c``. The best tilt is the difference of the slopes of
``h = -e`` at ``q`` and at ``c``: ``2 (q - c)`` for the Brier score, and the difference of the log-odds
for the log-loss. Any other tilt gives a lower bound as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from epiloss._typing import Floats
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule

_STEEPEST = 3.0  # largest plausible tilt of log-odds: a factor of 20 in the odds
_SHARE = 0.1  # fraction of the mean variance added to that of each label, which may be almost 0
_LEAST = 0.01  # distance of a curve from 0 and 1, relative to the base rate


class Tilts(ABC):
    """The cost of tilts under a scoring rule, and the learning task whose predictions are tilts."""

    is_even = False  # whether the curvature is constant, so that a centred tilt has the smallest cost

    def inside(self, c: Floats, base_rate: float) -> Floats:
        """Return the values of a curve, clipped to where the scoring rule is not too steep."""
        return c

    def task(self, residual: Floats, c: Floats, weights: Floats | None) -> tuple[Floats, Floats | None]:
        """Return the target to predict, from residuals ``Y - C``, and its weights."""
        return residual, weights

    @abstractmethod
    def tilt(self, guess: Floats, c: Floats) -> Floats:
        """Return the tilt for a prediction."""

    @abstractmethod
    def cost(self, c: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the cost of a tilt ``t``, and its first and second derivatives in ``t``."""


@dataclass(frozen=True)
class QuadraticTilts(Tilts):
    """Tilts for any scoring rule, of cost ``t^2 / 4 kappa``.

    ``kappa(c)`` is the minimum of ``d(c, q) / (q - c)^2`` over ``q``.

    Examples
    --------
    >>> cost, slope, curvature = QuadraticTilts(Brier()).cost(np.array([0.3]), np.array([0.2]))
    >>> cost.round(3).tolist(), slope.tolist(), curvature.tolist()
    ([0.01], [0.1], [0.5])
    """

    rule: ScoringRule

    @property
    def is_even(self) -> bool:  # type: ignore[override]
        """Whether the curvature is constant, as for the Brier score."""
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
        """Return ``kappa(c)``, the minimum of ``d(c, q) / (q - c)^2`` over a grid of ``q``."""
        if self.is_even:
            return np.ones_like(c)
        grid = np.linspace(0.0025, 0.9975, 200)
        q = np.linspace(0, 1, 401)[None, :]
        gap = grid[:, None] - q
        near = np.abs(gap) < 2e-3
        ratio = self.rule.divergence(grid[:, None], q) / np.where(near, 1.0, gap**2)
        return np.asarray(np.interp(c, grid, np.where(near, np.inf, ratio).min(axis=1)), float)


class LogTilts(Tilts):
    """Tilts of the log-odds for the log-loss, of cost ``log(1 - c + c e^t) - c t``.

    For rare outcomes, a quadratic bound would miss almost all of the information in ratios.

    Examples
    --------
    >>> c, q = np.array([0.01]), np.array([0.03])
    >>> t = logit(q) - logit(c)
    >>> bool(np.isclose(t * (q - c) - LogTilts().cost(c, t)[0], LogLoss().divergence(c, q))[0])
    True
    """

    def inside(self, c: Floats, base_rate: float) -> Floats:
        """Clip the curve to a distance from 0 and 1 relative to the rate of the rarer outcome."""
        least = _LEAST * min(base_rate, 1 - base_rate)
        return np.clip(c, least, 1 - least)

    def task(self, residual: Floats, c: Floats, weights: Floats | None) -> tuple[Floats, Floats | None]:
        """Return the residual divided by the variance of the label, with the variance as weight."""
        variance = self._variance(c)
        variance = variance + _SHARE * variance.mean()
        share = variance / variance.mean()
        return residual / variance, share if weights is None else share * weights

    def tilt(self, guess: Floats, c: Floats) -> Floats:
        """Return the prediction, clipped to plausible values."""
        return np.clip(guess, -_STEEPEST, _STEEPEST)

    def cost(self, c: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the logarithm of the mean of ``e^(t (Y - c))``, and its derivatives."""
        tilted = expit(logit(c) + t)
        return np.log1p(c * np.expm1(t)) - c * t, tilted - c, tilted * (1 - tilted)

    def of_steps(self, steps: Floats, c: Floats) -> Floats:
        """Return the tilts for steps of the log-odds, clipped to plausible values."""
        return np.clip(steps, -_STEEPEST, _STEEPEST)

    def fourth(self, c: Floats) -> Floats:
        """Return the fourth derivative of the cost at 0, divided by the second."""
        return 1 - 6 * c * (1 - c)

    def _variance(self, c: Floats) -> Floats:
        return c * (1 - c)


class ClassLogTilts(LogTilts):
    """Tilts of the logarithm for one class's part of the log-loss, of cost ``c (e^t - 1 - t)``.

    Examples
    --------
    >>> c, q = np.array([0.01]), np.array([0.03])
    >>> t = np.log(q / c)
    >>> bool(np.isclose(t * (q - c) - ClassLogTilts().cost(c, t)[0], ClassLogLoss().divergence(c, q))[0])
    True
    """

    def cost(self, c: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the cost, which allows probabilities above 1, and its derivatives."""
        more = np.expm1(t)
        return c * (more - t), c * more, c * (more + 1)

    def of_steps(self, steps: Floats, c: Floats) -> Floats:
        """Return the logarithm of the ratio of probabilities, clipped to plausible values."""
        odds = np.expm1(np.clip(steps, -_STEEPEST, _STEEPEST))
        return np.asarray(np.log1p(odds) - np.log1p(c * odds), float)

    def fourth(self, c: Floats) -> Floats:
        """Return 1, because all derivatives are equal."""
        return np.ones_like(c)

    def _variance(self, c: Floats) -> Floats:
        return c


def tilts_of(rule: ScoringRule) -> Tilts:
    """Return the tilts for a scoring rule."""
    if isinstance(rule, ClassLogLoss):
        return ClassLogTilts()
    return LogTilts() if isinstance(rule, LogLoss) else QuadraticTilts(rule)
