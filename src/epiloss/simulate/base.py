"""Samples, exact losses, and the base class of simulated problems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.scoring import ScoringRule, resolve_rule


@dataclass(frozen=True)
class Sample:
    """Rows drawn from a problem, with the true probabilities that real data do not show.

    Attributes
    ----------
    X : array of shape (n, d)
        Features.
    y : array of int of shape (n,)
        Labels.
    scores, q, c : array of shape (n,) or (n, K)
        Scores, true probabilities and calibrated scores.

    See Also
    --------
    Problem.sample : draw a sample.

    Examples
    --------
    >>> from epiloss.simulate import Link
    >>> sample = Link("square").sample(100)
    >>> sample.X.shape, bool((sample.c == sample.scores).all())
    ((100, 1), True)
    """

    X: Floats
    y: NDArray[np.int64]
    scores: Floats
    q: Floats
    c: Floats


@dataclass(frozen=True)
class Truth:
    """The exact losses of a problem under one scoring rule.

    Attributes
    ----------
    calibration_loss, grouping_loss, irreducible_loss : float
        The exact losses.

    See Also
    --------
    Problem.truth : return the exact losses of a problem.

    Examples
    --------
    >>> round(Truth(0.01, 0.02, 0.17).score, 3)
    0.2
    """

    calibration_loss: float
    grouping_loss: float
    irreducible_loss: float

    @property
    def score(self) -> float:
        """The expected loss ``E loss(S, Y)``, the sum of the three."""
        return self.calibration_loss + self.grouping_loss + self.irreducible_loss


class Law(NamedTuple):
    """Scores, calibrated scores and true probabilities, of rows or of quadrature nodes."""

    scores: Floats
    c: Floats
    q: Floats


class Problem(ABC):
    """A joint distribution of features, label and score whose losses are known.

    See Also
    --------
    epiloss.simulate.Sigmoid, epiloss.simulate.Link, epiloss.simulate.MultiClass : included problems.
    epiloss.simulate.problems : the problems of the paper by name.

    Examples
    --------
    >>> from epiloss.simulate import Sigmoid
    >>> problem = Sigmoid(perturbation="step")
    >>> len(problem.sample(100).y), bool(problem.truth().grouping_loss > 0.02)
    (100, True)
    """

    def sample(self, n: int, *, random_state: int | np.random.Generator = 0) -> Sample:
        """Draw ``n`` independent rows.

        Parameters
        ----------
        n : int
            The number of rows.
        random_state : int or Generator
            The source of randomness.

        Returns
        -------
        Sample
            The rows.
        """
        require_range(1, np.inf, n=n)
        rng = np.random.default_rng(random_state)
        X, law = self._draw(n, rng)
        return Sample(X=X, y=_labels(law.q, rng), scores=law.scores, q=law.q, c=law.c)

    def truth(self, rule: str | ScoringRule = "brier") -> Truth:
        """Return the exact losses under ``rule``, computed by quadrature.

        Parameters
        ----------
        rule : {"brier", "log"} or ScoringRule
            The scoring rule.

        Returns
        -------
        Truth
            The exact losses.
        """
        return integrate(resolve_rule(rule), *self._nodes())

    @abstractmethod
    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Law]:
        """Draw features, and return them with the probabilities of each row."""

    @abstractmethod
    def _nodes(self) -> tuple[Law, Floats]:
        """Return the probabilities at quadrature nodes, and the weights of the nodes, which sum to 1."""


def _labels(q: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    uniform = rng.random(len(q))
    if q.ndim == 1:
        return (uniform < q).astype(np.int64)
    return np.asarray((uniform[:, None] >= q.cumsum(axis=1)[:, :-1]).sum(axis=1), np.int64)


def integrate(rule: ScoringRule, law: Law, weights: Floats) -> Truth:
    """Return the losses as weighted sums over quadrature nodes."""
    parts = rule.divergence(law.scores, law.c), rule.divergence(law.c, law.q), rule.entropy(law.q)
    return Truth(*(float(np.sum(weights @ part)) for part in parts))


def inside(p: Floats) -> Floats:
    """Return probabilities strictly between 0 and 1.

    A score rounded to 0 or 1 could have an infinite log-loss where the exact one is finite.
    """
    return np.clip(p, np.finfo(float).tiny, np.nextafter(1.0, 0.0))


def require_name(option: str, value: str, names: tuple[str, ...]) -> None:
    """Raise an OptionError unless an option is one of the names."""
    if value not in names:
        listed = ", ".join(map(repr, names))
        raise OptionError(f"{option} must be one of {listed}, got {value!r}.")


def require_range(low: float, high: float, **options: float) -> None:
    """Raise an OptionError unless all options lie between two limits."""
    limits = f"at least {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
    for option, value in options.items():
        if not low <= value <= high:
            raise OptionError(f"{option} must be {limits}, got {value!r}.")
