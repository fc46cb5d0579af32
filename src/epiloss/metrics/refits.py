"""Refit a logistic regression to many sets of simulated labels at once, on cells of similar scores.

With few positive labels, the coefficients are far from normal. The noise of a calibration curve is
therefore simulated by refitting the curve to labels drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from epiloss._typing import Floats
from epiloss.metrics.noise import DRAWS
from epiloss.metrics.rows import ScoredRows

_CELLS = 150
_STEPS, _HALVINGS = 50, 20  # number of Newton steps, and of halvings of one
_TOLERANCE = 1e-5  # change of log-odds below which a fit has converged
_RIDGE = 1e-9  # keeps the curvature invertible where scores separate the outcomes


@dataclass(frozen=True)
class Cells:
    """Rows joined by similar scores: share of the weight, mean design, number of independent labels."""

    share: Floats  # (m,)
    design: Floats  # (m, p)
    size: Floats  # (m,)

    @classmethod
    def of(cls, rows: ScoredRows, design: Floats, effect: float) -> Cells:
        """Join rows into cells that balance the weight of rows and the variance of their labels.

        ``effect`` is the number of rows that count as one independent label because of clusters.
        """
        order = np.argsort(rows.scores, kind="stable")
        share, scores = rows.share[order], rows.scores[order]
        variance = share * scores * (1 - scores)
        mass = np.cumsum(share + variance / max(float(variance.sum()), 1e-300))
        cell = np.minimum((mass / mass[-1] * _CELLS).astype(np.int64), _CELLS - 1)
        start = np.flatnonzero(np.diff(cell, prepend=-1))

        def summed(values: Floats) -> Floats:
            return np.asarray(np.add.reduceat(values, start, axis=0), float)

        total = summed(share)
        mean = summed(share[:, None] * design[order]) / total[:, None]
        return cls(total, mean, total**2 / summed(share**2) / effect)

    def drawn_fits(self, centre: Floats, generator: np.random.Generator) -> Floats:
        """Return coefficients (draws, p) fitted to labels drawn with the coefficients ``centre``.

        Draws without a solution, because scores separate their labels, are left out.
        """
        probability = expit(self.design @ centre)
        n = np.maximum(np.rint(self.size), 1).astype(np.int64)
        rate = generator.binomial(n, probability, (DRAWS, len(n))) / n
        # The number of labels is rounded to draw them, so that the gaps have to be rescaled.
        gap = (rate - probability) * np.sqrt(n / np.maximum(self.size, 1e-300))
        rates = np.clip(probability + gap, 0.0, 1.0)
        coefficients, converged = self._fits(rates, centre)
        return coefficients[converged] if converged.any() else centre[None]

    def _fits(self, rates: Floats, start: Floats) -> tuple[Floats, Floats]:
        """Fit rates (draws, m) by Newton's method; return coefficients and which fits have converged."""
        p = len(start)
        products = (self.design[:, :, None] * self.design[:, None, :]).reshape(-1, p * p)
        coefficients, converged = np.tile(start, (len(rates), 1)), np.zeros(len(rates), bool)
        todo, ridge = np.arange(len(rates)), _RIDGE * np.eye(p)
        linear = coefficients @ self.design.T
        least = self._log_losses(rates, linear)
        for _ in range(_STEPS):
            fitted = expit(linear)
            slope = ((rates - fitted) * self.share) @ self.design
            curvature = ((fitted * (1 - fitted) * self.share) @ products).reshape(-1, p, p) + ridge
            step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
            along = step @ self.design.T
            size, least = self._sizes(rates, linear, along, least)
            coefficients[todo] += size * step
            settled = np.abs(along).max(axis=1) < _TOLERANCE
            converged[todo[settled]] = True
            todo, rates, least = todo[~settled], rates[~settled], least[~settled]
            if not len(todo):
                break
            linear = coefficients[todo] @ self.design.T
        return coefficients, converged

    def _sizes(
        self, rates: Floats, linear: Floats, along: Floats, least: Floats
    ) -> tuple[Floats, Floats]:
        """Halve the steps (draws, m) that would increase the log-loss ``least``.

        Return how much of each step to take (draws, 1), and the log-losses after it.
        """
        sizes = np.ones((len(rates), 1))
        found = self._log_losses(rates, linear + along)
        for _ in range(_HALVINGS):
            too_far = found > least + 1e-12
            if not too_far.any():
                break
            sizes[too_far] /= 2
            shorter = linear[too_far] + sizes[too_far] * along[too_far]
            found[too_far] = self._log_losses(rates[too_far], shorter)
        return sizes, found

    def _log_losses(self, rates: Floats, linear: Floats) -> Floats:
        # log(1 + e^x) as max(x, 0) + log(1 + e^-|x|), several times as fast as np.logaddexp
        softplus = np.maximum(linear, 0) + np.log(1 + np.exp(-np.abs(linear)))
        return np.asarray((softplus - rates * linear) @ self.share, float)
