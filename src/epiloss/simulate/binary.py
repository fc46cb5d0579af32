"""Binary problems: a score of one feature, and a logistic classifier of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import expit, logit

from epiloss._typing import Floats
from epiloss.simulate.base import Law, Problem, inside, require_name, require_range
from epiloss.simulate.quadrature import gaussian, panels

LinkName = Literal["square", "double", "plateau", "half-step"]
Perturbation = Literal["smooth", "step"]


@dataclass(frozen=True)
class Link(Problem):
    """A calibrated classifier S = abs(x), uniform on (0, 1), that ignores the sign of the feature x.

    ``Q = link(S)`` for x > 0 and ``2 S - link(S)`` for x < 0, each with probability 1/2. The links
    are "square" ``2s - s^2``, "double" ``min(2s, 1)`` and "plateau" ``max(min(2s, 1/2), 2s - 1)``,
    which keeps the optimal accuracy. With "half-step", Q is 0, 1/2 or 1, and the probability of x > 0
    depends on S.

    Parameters
    ----------
    link : {"square", "double", "plateau", "half-step"}
        How the true probability depends on the score.

    See Also
    --------
    Sigmoid : a problem with several features and miscalibration.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> round(1 / Link("square").truth().grouping_loss, 6)
    30.0
    """

    link: LinkName = "square"

    def __post_init__(self) -> None:
        require_name("link", self.link, get_args(LinkName))

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Law]:
        s = rng.random(n)
        q_plus, q_minus, chance = _sides(self.link, s)
        plus = rng.random(n) < chance
        return np.where(plus, s, -s)[:, None], Law(s, s, np.where(plus, q_plus, q_minus))

    def _nodes(self) -> tuple[Law, Floats]:
        s, weights = panels(np.linspace(0, 1, 5))
        q_plus, q_minus, chance = _sides(self.link, s)
        both = np.tile(s, 2)
        law = Law(both, both, np.append(q_plus, q_minus))
        return law, np.append(weights * chance, weights * (1 - chance))


@dataclass(frozen=True)
class Sigmoid(Problem):
    """A logistic classifier of Gaussian features that ignores one informative direction.

    X is Gaussian, with ``variance`` along u = (1, ..., 1)/sqrt(dimension) and variance 1 across it. With
    v = (1, -1, 0, ..., 0)/sqrt(2),

        C = expit(t),  t = sqrt(2) x.u + intercept,     S = expit(miscalibration t),
        Q = C + grouping psi(x.v) min(C, 1 - C),

    where psi is the sign of its argument ("step"), or ``2 expit(z / width) - 1`` ("smooth").
    ``optimal_accuracy`` also bounds the perturbation by ``abs(C - 1/2)``, so that thresholding C
    at 1/2 still gives the best label. ``n_noise`` standard normal columns follow the others.
    With ``miscalibration`` above 3, rounding of scores near 1 affects the log-loss.

    Parameters
    ----------
    dimension, n_noise : int
        Number of informative features, and of noise columns after them.
    perturbation : {"smooth", "step"}
        How the true probability depends on the direction that the classifier ignores.
    width, variance, intercept : float
        See the formulas above; ``width`` applies to "smooth".
    optimal_accuracy : bool
        Whether thresholding the calibrated score at 1/2 gives the best label.
    miscalibration, grouping : float
        Sizes of the calibration loss (1 means none) and of the grouping loss (0 means none).

    See Also
    --------
    epiloss.simulate.MultiClass : a problem with several classes.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> f"{Sigmoid().truth().grouping_loss:.7f}"
    '0.0058624'
    >>> Sigmoid(grouping=0.0).truth("log").grouping_loss
    0.0
    """

    dimension: int = 2
    perturbation: Perturbation = "smooth"
    width: float = 1.0
    optimal_accuracy: bool = False
    n_noise: int = 0
    variance: float = 10.0
    miscalibration: float = 1.0
    grouping: float = 1.0
    intercept: float = 0.0

    def __post_init__(self) -> None:
        require_name("perturbation", self.perturbation, get_args(Perturbation))
        require_range(2, np.inf, dimension=self.dimension)
        require_range(0, np.inf, n_noise=self.n_noise)
        require_range(0, 1, grouping=self.grouping)
        require_range(-30, 30, intercept=self.intercept)
        require_range(1e-3, 1e3, width=self.width, variance=self.variance)
        require_range(1e-3, 1e3, miscalibration=self.miscalibration)

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Law]:
        X = rng.standard_normal((n, self.dimension + self.n_noise))
        informative = X[:, : self.dimension]
        along = informative.sum(axis=1) / np.sqrt(self.dimension)
        stretch = np.sqrt(self.variance)
        informative += ((stretch - 1) * along / np.sqrt(self.dimension))[:, None]
        across = (X[:, 0] - X[:, 1]) / np.sqrt(2)
        return X, self._law(np.sqrt(2) * stretch * along + self.intercept, across)

    def _nodes(self) -> tuple[Law, Floats]:
        kinks = logit([0.25, 0.5, 0.75]) if self.optimal_accuracy else np.zeros(1)
        deviation = np.sqrt(2 * self.variance)
        scale = 1 / max(self.miscalibration, 1.0)
        t, t_weights = gaussian(deviation, kinks=kinks - self.intercept, scale=scale)
        if self.perturbation == "step":
            z, z_weights = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
        else:
            z, z_weights = gaussian(1.0, kinks=np.zeros(1), scale=self.width)
        law = self._law(np.repeat(t + self.intercept, z.size), np.tile(z, t.size))
        return law, np.outer(t_weights, z_weights).ravel()

    def _law(self, t: Floats, z: Floats) -> Law:
        c = inside(expit(t))
        room = np.minimum(c, 1 - c)
        if self.optimal_accuracy:
            room = np.minimum(room, np.abs(c - 0.5))
        psi = np.sign(z) if self.perturbation == "step" else np.tanh(z / (2 * self.width))
        return Law(inside(expit(self.miscalibration * t)), c, c + self.grouping * psi * room)


def _sides(link: LinkName, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Q on the plus side, Q on the minus side, and the probability of the plus side."""
    if link == "half-step":
        floor = np.where(s >= 0.5, 0.5, 0.0)
        return floor + 0.5, floor, 2 * (s - floor)
    plateau = np.maximum(np.minimum(2 * s, 0.5), 2 * s - 1)
    links = {"square": s * (2 - s), "double": 2 * s, "plateau": plateau}
    plus = np.minimum(links[link], 1)
    return plus, 2 * s - plus, np.full_like(s, 0.5)
