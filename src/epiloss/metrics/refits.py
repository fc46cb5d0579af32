"""Logistic regressions of many drawn labels at once, on few cells that stand for all rows.

Coefficients of few positive labels are far from normal, so that what chance makes of a calibration curve
is found by fitting it again to labels that are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from epiloss._typing import Floats
from epiloss.metrics.noise import DRAWS
from epiloss.metrics.rows import ScoredRows

_CELLS = 150
_STEPS, _REACH = 20, 3.0  # of Newton's method, and the most that a step may change log-odds
_SETTLED = 1e-5  # a step of log-odds that no longer matters
_RIDGE = 1e-9  # so that separated outcomes leave no singular curvature


@dataclass(frozen=True)
class Cells:
    """Neighbouring scores joined: their share, design, and number of independent labels."""

    share: Floats  # (m,)
    design: Floats  # (m, p)
    size: Floats  # (m,)

    @classmethod
    def of(cls, rows: ScoredRows, design: Floats, effect: float) -> Cells:
        """Join rows into cells that hold equal parts of the rows and of what their labels tell.

        ``effect`` is how many rows count as one independent label, because of clusters.
        """
        order = np.argsort(rows.scores, kind="stable")
        share, scores = rows.share[order], rows.scores[order]
        told = share * scores * (1 - scores)
        mass = np.cumsum(share + told / max(float(told.sum()), 1e-300))
        cell = np.minimum((mass / mass[-1] * _CELLS).astype(np.int64), _CELLS - 1)
        start = np.flatnonzero(np.diff(cell, prepend=-1))

        def summed(values: Floats) -> Floats:
            return np.asarray(np.add.reduceat(values, start, axis=0), float)

        total = summed(share)
        mean = summed(share[:, None] * design[order]) / total[:, None]
        return cls(total, mean, total**2 / summed(share**2) / effect)

    def drawn_fits(self, centre: Floats, generator: np.random.Generator) -> Floats:
        """Return coefficients (draws, p) fitted to labels that are drawn from those of ``centre``.

        Draws whose labels have no fit, because scores separate them, are left out.
        """
        probability = expit(self.design @ centre)
        n = np.maximum(np.rint(self.size), 1).astype(np.int64)
        rate = generator.binomial(n, probability, (DRAWS, len(n))) / n
        # a cell of 2.4 labels is drawn as one of 2
        gap = (rate - probability) * np.sqrt(n / np.maximum(self.size, 1e-300))
        rates = np.clip(probability + gap, 0.0, 1.0)
        coefficients, settled = self._fits(rates, centre)
        return coefficients[settled] if settled.any() else centre[None]

    def _fits(self, rates: Floats, start: Floats) -> tuple[Floats, Floats]:
        """Return the fits of rates (draws, m) by Newton's method, and which have converged."""
        p = len(start)
        products = (self.design[:, :, None] * self.design[:, None, :]).reshape(-1, p * p)
        coefficients, settled = np.tile(start, (len(rates), 1)), np.zeros(len(rates), bool)
        ridge = _RIDGE * np.eye(p)
        for _ in range(_STEPS):
            fitted = expit(coefficients @ self.design.T)
            slope = ((rates - fitted) * self.share) @ self.design
            curvature = ((fitted * (1 - fitted) * self.share) @ products).reshape(-1, p, p) + ridge
            step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
            reach = np.abs(step @ self.design.T).max(axis=1)
            settled = reach < _SETTLED
            if settled.all():
                break
            coefficients = (
                coefficients + step * np.minimum(1.0, _REACH / np.maximum(reach, 1e-300))[:, None]
            )
        return coefficients, settled
