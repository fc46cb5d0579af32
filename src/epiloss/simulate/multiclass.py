"""A problem with several classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from epiloss._typing import Floats
from epiloss.scoring import ScoringRule, resolve_rule
from epiloss.simulate.base import Law, Problem, Truth, inside, integrate, require_name, require_range
from epiloss.simulate.quadrature import panels

Task = Literal["top-label", "classwise", "joint"]


@dataclass(frozen=True)
class MultiClass(Problem):
    """A K-class classifier that is calibrated in every sense and ignores an informative feature.

    With x standard normal and the rows of A the corners of a regular polygon,

        S = softmax(separation A x[:2]),     Q = S + sign(x[2]) grouping S_(2) (e_(1) - e_(2)):

    a fraction of the second class's probability moves to the top class, or the same amount moves
    back. As E[Q|S] = S, the scores are jointly, classwise and top-label calibrated.

    Parameters
    ----------
    n_classes, n_noise : int
        Number of classes, and of noise columns.
    separation : float
        How far the scores are from uniform.
    grouping : float
        Size of the grouping loss; 0 means none.

    See Also
    --------
    epiloss.simulate.Sigmoid : a problem with two classes.

    Examples
    --------
    >>> brier = MultiClass(n_classes=3).truth(task="classwise")
    >>> f"{brier.grouping_loss:.4f} of {brier.score:.4f}"
    '0.0254 of 0.3047'
    """

    n_classes: int = 3
    separation: float = 2.0
    grouping: float = 0.5
    n_noise: int = 0

    def __post_init__(self) -> None:
        require_range(2, np.inf, n_classes=self.n_classes)
        require_range(0, np.inf, n_noise=self.n_noise)
        require_range(0, 1, grouping=self.grouping)
        require_range(1e-3, 100, separation=self.separation)

    def truth(self, rule: str | ScoringRule = "brier", *, task: Task = "top-label") -> Truth:
        """Return the exact losses under ``rule``, of the top label or summed over the K classes.

        The classwise and joint losses are equal, because E[Q_k|S_k] = E[Q_k|S] = S_k.

        Parameters
        ----------
        rule : {"brier", "log"} or ScoringRule
            The scoring rule.
        task : {"top-label", "classwise", "joint"}
            Which probabilities the losses concern.

        Returns
        -------
        Truth
            The exact losses.
        """
        require_name("task", task, get_args(Task))
        law, weights = self._nodes()
        if task != "top-label":
            return integrate(resolve_rule(rule).per_class(), law, weights)
        rows, top = np.arange(len(law.q)), law.scores.argmax(axis=1)
        return integrate(resolve_rule(rule), Law(*(part[rows, top] for part in law)), weights)

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Law]:
        X = rng.standard_normal((n, 3 + self.n_noise))
        return X, self._law(X[:, 0] + 1j * X[:, 1], np.sign(X[:, 2]))

    def _nodes(self) -> tuple[Law, Floats]:
        # By symmetry one sector of the polygon is enough; the order of the classes is constant in it.
        sector, reach = np.pi / self.n_classes, 9.0
        angle, angle_weights = panels(sector * (1 - np.append(0.5 ** np.arange(8), 0)))
        grades = reach * 0.5 ** np.arange(10)
        radius, radius_weights = panels(np.union1d(np.linspace(0, reach, 10), grades))
        radius_weights *= radius * np.exp(-(radius**2) / 2)
        signal = np.outer(radius, np.exp(1j * angle)).ravel()
        weights = np.outer(radius_weights, angle_weights / sector).ravel()
        law = self._law(np.tile(signal, 2), np.repeat([1.0, -1.0], signal.size))
        return law, np.tile(weights / 2, 2)

    def _law(self, signal: NDArray[np.complex128], sign: Floats) -> Law:
        corners = np.exp(2j * np.pi * np.arange(self.n_classes) / self.n_classes)
        s = inside(softmax(self.separation * np.outer(signal, corners.conj()).real, axis=1))
        rows, ranked = np.arange(len(s)), np.argsort(-s, axis=1)
        moved = self.grouping * sign * s[rows, ranked[:, 1]]
        q = s.copy()
        q[rows, ranked[:, 0]] += moved
        q[rows, ranked[:, 1]] -= moved
        return Law(s, s, np.clip(q, 0, 1))
