"""The settings of the coverage experiment: problems with known losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit, logit, ndtr

from epiloss._typing import Floats
from epiloss.simulate import MultiClass, Problem, Sigmoid
from epiloss.simulate.base import Law
from epiloss.simulate.quadrature import gaussian

Shape = Literal["all", "one", "product"]
SLOPE = 1.5  # of the score's log-odds along the first column


@dataclass(frozen=True)
class Blind(Problem):
    """A calibrated score that uses the first of ``dimension`` normal columns and ignores the others.

        S = C = expit(1.5 x_0),     Q = C + grouping psi(x) min(C, 1 - C)

    where psi is ``tanh`` of the scaled sum of all other columns ("all"), the sign of one of them
    ("one"), or the product of the signs of two ("product"). With ``n_values``, the score and C are
    rounded to the midpoints of this number of equally wide bins.
    """

    dimension: int
    shape: Shape
    grouping: float = 0.6
    n_values: int | None = None

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Law]:
        X = rng.standard_normal((n, self.dimension))
        return X, self._law(self._rounded(expit(SLOPE * X[:, 0])), self._psi(X[:, 1:]))

    def _nodes(self) -> tuple[Law, Floats]:
        c, c_weights = self._score_nodes()
        psi, psi_weights = self._psi_nodes()
        law = self._law(np.repeat(c, psi.size), np.tile(psi, c.size))
        return law, np.outer(c_weights, psi_weights).ravel()

    def _law(self, c: Floats, psi: Floats) -> Law:
        return Law(c, c, c + self.grouping * psi * np.minimum(c, 1 - c))

    def _rounded(self, c: Floats) -> Floats:
        return c if self.n_values is None else (np.floor(self.n_values * c) + 0.5) / self.n_values

    def _score_nodes(self) -> tuple[Floats, Floats]:
        if self.n_values is None:
            x, weights = gaussian(1.0, kinks=np.zeros(1), scale=1.0)
            return expit(SLOPE * x), weights
        edges = logit(np.arange(self.n_values + 1) / self.n_values) / SLOPE
        return (np.arange(self.n_values) + 0.5) / self.n_values, np.diff(ndtr(edges))

    def _psi(self, others: Floats) -> Floats:
        if self.shape == "all":
            return np.asarray(np.tanh(others.sum(axis=1) / np.sqrt(others.shape[1])), float)
        signs = np.sign(others[:, : 1 if self.shape == "one" else 2])
        return np.asarray(signs.prod(axis=1), float)

    def _psi_nodes(self) -> tuple[Floats, Floats]:
        if self.shape != "all":
            return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
        z, weights = gaussian(1.0, kinks=np.zeros(1), scale=1.0)
        return np.tanh(z), weights


@dataclass(frozen=True)
class Wavy(Problem):
    """A uniform score without grouping loss whose calibration curve has many waves.

    Q = C = S + 0.4 S (1 - S) sin(2 pi waves S)
    """

    waves: int = 10
    n_noise: int = 6

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Law]:
        return rng.standard_normal((n, self.n_noise)), self._law(rng.random(n))

    def _nodes(self) -> tuple[Law, Floats]:
        n = 20_000
        return self._law((np.arange(n) + 0.5) / n), np.full(n, 1 / n)

    def _law(self, s: Floats) -> Law:
        c = s + 0.4 * s * (1 - s) * np.sin(2 * np.pi * self.waves * s)
        return Law(s, c, c)


SETTINGS: Mapping[str, Problem] = {
    "smooth": Sigmoid(),
    "step": Sigmoid(perturbation="step"),
    "noise features": Sigmoid(n_noise=8),
    "overconfident": Sigmoid(miscalibration=2.0),
    "imbalanced": Sigmoid(intercept=-7.0),  # 7% positives
    "three classes": MultiClass(),  # of the top label
    "null": Sigmoid(grouping=0.0),
    "overconfident null": Sigmoid(grouping=0.0, miscalibration=2.0),
    "dense 400": Blind(400, "all"),
    "sparse 768": Blind(768, "one"),
    "interaction": Blind(10, "product"),
    "ten scores": Blind(5, "all", n_values=10),
    "ten scores null": Blind(5, "all", grouping=0.0, n_values=10),
    "wavy null": Wavy(),
}
