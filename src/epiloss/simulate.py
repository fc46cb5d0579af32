"""Problems with known answers: draw samples, and know the losses they estimate.

Every problem knows the law of its score S, calibrated score C = E[Y|S] and true probability
Q = P(Y=1|X). The truths are integrals over one or two dimensions, so they carry no sampling error:

    E loss(S, Y)  =  E d(S, C)  +  E d(C, Q)  +  E e(Q)
      score        calibration     grouping    irreducible
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.scoring import ScoringRule, resolve_rule

LinkName = Literal["square", "double", "plateau", "half-step"]
Perturbation = Literal["smooth", "step"]
Task = Literal["top-label", "classwise", "joint"]


@dataclass(frozen=True)
class Sample:
    """Rows drawn from a problem, with the probabilities that real data hide.

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
    Problem : draws it.

    Examples
    --------
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
    Problem : knows it.

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


class _Law(NamedTuple):
    scores: Floats
    c: Floats
    q: Floats


class Problem(ABC):
    """A joint law of features, label and score whose losses are known.

    See Also
    --------
    Sigmoid, Link, MultiClass : the problems that are there.
    problems : all of the paper, by name.

    Examples
    --------
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
        _require_range(1, np.inf, n=n)
        rng = np.random.default_rng(random_state)
        X, law = self._draw(n, rng)
        return Sample(X=X, y=_labels(law.q, rng), scores=law.scores, q=law.q, c=law.c)

    def truth(self, rule: str | ScoringRule = "brier") -> Truth:
        """Return the losses under ``rule``, by quadrature.

        Parameters
        ----------
        rule : {"brier", "log"} or ScoringRule
            The scoring rule.

        Returns
        -------
        Truth
            The exact losses.
        """
        return _integrate(resolve_rule(rule), *self._nodes())

    @abstractmethod
    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, _Law]:
        """Draw features, and the law at each row."""

    @abstractmethod
    def _nodes(self) -> tuple[_Law, Floats]:
        """Return the law at quadrature nodes, and the weights of the nodes, which sum to one."""


@dataclass(frozen=True)
class Link(Problem):
    """A calibrated classifier S = abs(x), uniform on (0, 1), that mixes two sides of the feature.

    ``Q = link(S)`` for x > 0 and ``2 S - link(S)`` for x < 0, each with probability 1/2. The links
    are "square" ``2s - s^2``, "double" ``min(2s, 1)`` and "plateau" ``max(min(2s, 1/2), 2s - 1)``,
    which keeps the optimal accuracy. In "half-step" Q is 0, 1/2 or 1, and the sides are uneven.

    Parameters
    ----------
    link : {"square", "double", "plateau", "half-step"}
        How the true probability depends on the score.

    See Also
    --------
    Sigmoid : several features, and miscalibration.

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
        _require_name("link", self.link, get_args(LinkName))

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, _Law]:
        s = rng.random(n)
        q_plus, q_minus, chance = _sides(self.link, s)
        plus = rng.random(n) < chance
        return np.where(plus, s, -s)[:, None], _Law(s, s, np.where(plus, q_plus, q_minus))

    def _nodes(self) -> tuple[_Law, Floats]:
        s, weights = _panels(np.linspace(0, 1, 5))
        q_plus, q_minus, chance = _sides(self.link, s)
        both = np.tile(s, 2)
        law = _Law(both, both, np.append(q_plus, q_minus))
        return law, np.append(weights * chance, weights * (1 - chance))


@dataclass(frozen=True)
class Sigmoid(Problem):
    """A logistic classifier of Gaussian features, blind to one direction that matters.

    X is Gaussian, of variance ``variance`` along u = (1, ..., 1)/sqrt(dimension) and 1 across. With
    v = (1, -1, 0, ..., 0)/sqrt(2),

        C = expit(t),  t = sqrt(2) x.u + intercept,     S = expit(miscalibration t),
        Q = C + grouping psi(x.v) min(C, 1 - C),

    where psi is the sign of its argument ("step"), or ``2 expit(z / width) - 1`` ("smooth").
    ``optimal_accuracy`` bounds the perturbation by ``abs(C - 1/2)`` too, so that thresholding C
    at 1/2 still gives the best label. ``n_noise`` standard normal columns follow the others.
    Above a ``miscalibration`` of 3, rounding of scores near one shows in the log-loss.

    Parameters
    ----------
    dimension, n_noise : int
        Numbers of features that matter, and of noise columns after them.
    perturbation : {"smooth", "step"}
        The shape of what the classifier does not see; ``width`` is that of "smooth".
    width, variance, intercept : float
        As in the formulas above.
    optimal_accuracy : bool
        Whether thresholding the calibrated score at 1/2 gives the best label.
    miscalibration, grouping : float
        Sizes of the calibration loss (1 is none) and the grouping loss (0 is none).

    See Also
    --------
    MultiClass : several classes.

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
        _require_name("perturbation", self.perturbation, get_args(Perturbation))
        _require_range(2, np.inf, dimension=self.dimension)
        _require_range(0, np.inf, n_noise=self.n_noise)
        _require_range(0, 1, grouping=self.grouping)
        _require_range(-30, 30, intercept=self.intercept)
        _require_range(1e-3, 1e3, width=self.width, variance=self.variance)
        _require_range(1e-3, 1e3, miscalibration=self.miscalibration)

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, _Law]:
        X = rng.standard_normal((n, self.dimension + self.n_noise))
        informative = X[:, : self.dimension]
        along = informative.sum(axis=1) / np.sqrt(self.dimension)
        stretch = np.sqrt(self.variance)
        informative += ((stretch - 1) * along / np.sqrt(self.dimension))[:, None]
        across = (X[:, 0] - X[:, 1]) / np.sqrt(2)
        return X, self._law(np.sqrt(2) * stretch * along + self.intercept, across)

    def _nodes(self) -> tuple[_Law, Floats]:
        kinks = logit([0.25, 0.5, 0.75]) if self.optimal_accuracy else np.zeros(1)
        deviation = np.sqrt(2 * self.variance)
        scale = 1 / max(self.miscalibration, 1.0)
        t, t_weights = _gaussian(deviation, kinks=kinks - self.intercept, scale=scale)
        if self.perturbation == "step":
            z, z_weights = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
        else:
            z, z_weights = _gaussian(1.0, kinks=np.zeros(1), scale=self.width)
        law = self._law(np.repeat(t + self.intercept, z.size), np.tile(z, t.size))
        return law, np.outer(t_weights, z_weights).ravel()

    def _law(self, t: Floats, z: Floats) -> _Law:
        c = _inside(expit(t))
        room = np.minimum(c, 1 - c)
        if self.optimal_accuracy:
            room = np.minimum(room, np.abs(c - 0.5))
        psi = np.sign(z) if self.perturbation == "step" else np.tanh(z / (2 * self.width))
        return _Law(_inside(expit(self.miscalibration * t)), c, c + self.grouping * psi * room)


@dataclass(frozen=True)
class MultiClass(Problem):
    """A K-class classifier, calibrated in every sense, blind to a feature that matters.

    With x standard normal and the rows of A the corners of a regular polygon,

        S = softmax(separation A x[:2]),     Q = S + sign(x[2]) grouping S_(2) (e_(1) - e_(2)):

    a share of the runner-up's probability moves to the top class, or as much the other way.
    E[Q|S] = S, hence S is jointly, classwise and top-label calibrated.

    Parameters
    ----------
    n_classes, n_noise : int
        Numbers of classes, and of noise columns.
    separation : float
        How sure the scores are.
    grouping : float
        The size of the grouping loss; 0 is none.

    See Also
    --------
    Sigmoid : two classes.

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
        _require_range(2, np.inf, n_classes=self.n_classes)
        _require_range(0, np.inf, n_noise=self.n_noise)
        _require_range(0, 1, grouping=self.grouping)
        _require_range(1e-3, 100, separation=self.separation)

    def truth(self, rule: str | ScoringRule = "brier", *, task: Task = "top-label") -> Truth:
        """Return the losses under ``rule``: of the top label, or summed over the K classes.

        The classwise and the joint losses are equal here, because E[Q_k|S_k] = E[Q_k|S] = S_k.

        Parameters
        ----------
        rule : {"brier", "log"} or ScoringRule
            The scoring rule.
        task : {"top-label", "classwise", "joint"}
            What a prediction claims.

        Returns
        -------
        Truth
            The exact losses.
        """
        _require_name("task", task, get_args(Task))
        law, weights = self._nodes()
        if task != "top-label":
            return _integrate(resolve_rule(rule).per_class(), law, weights)
        rows, top = np.arange(len(law.q)), law.scores.argmax(axis=1)
        return _integrate(resolve_rule(rule), _Law(*(part[rows, top] for part in law)), weights)

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, _Law]:
        X = rng.standard_normal((n, 3 + self.n_noise))
        return X, self._law(X[:, 0] + 1j * X[:, 1], np.sign(X[:, 2]))

    def _nodes(self) -> tuple[_Law, Floats]:
        # the polygon's symmetries repeat this sector, where the order of the classes is constant
        sector, reach = np.pi / self.n_classes, 9.0
        angle, angle_weights = _panels(sector * (1 - np.append(0.5 ** np.arange(8), 0)))
        grades = reach * 0.5 ** np.arange(10)
        radius, radius_weights = _panels(np.union1d(np.linspace(0, reach, 10), grades))
        radius_weights *= radius * np.exp(-(radius**2) / 2)
        signal = np.outer(radius, np.exp(1j * angle)).ravel()
        weights = np.outer(radius_weights, angle_weights / sector).ravel()
        law = self._law(np.tile(signal, 2), np.repeat([1.0, -1.0], signal.size))
        return law, np.tile(weights / 2, 2)

    def _law(self, signal: NDArray[np.complex128], sign: Floats) -> _Law:
        corners = np.exp(2j * np.pi * np.arange(self.n_classes) / self.n_classes)
        s = _inside(softmax(self.separation * np.outer(signal, corners.conj()).real, axis=1))
        rows, ranked = np.arange(len(s)), np.argsort(-s, axis=1)
        moved = self.grouping * sign * s[rows, ranked[:, 1]]
        q = s.copy()
        q[rows, ranked[:, 0]] += moved
        q[rows, ranked[:, 1]] -= moved
        return _Law(s, s, np.clip(q, 0, 1))


def problems() -> dict[str, Problem]:
    """Return every problem of the paper, and our variants, by name.

    Returns
    -------
    dict of str to Problem
        The problems.

    See Also
    --------
    Sigmoid, Link : make others.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> problems()["link-square"]
    Link(link='square')
    """
    return {
        **{f"link-{name}": Link(name) for name in get_args(LinkName)},
        "sigmoid-smooth": Sigmoid(),
        "sigmoid-step": Sigmoid(perturbation="step"),
        "sigmoid-smooth-optimal-accuracy": Sigmoid(optimal_accuracy=True),
        "sigmoid-step-optimal-accuracy": Sigmoid(perturbation="step", optimal_accuracy=True),
        "sigmoid-noise-features": Sigmoid(n_noise=8),
        "sigmoid-ten-dimensions": Sigmoid(dimension=10),
        "sigmoid-overconfident": Sigmoid(miscalibration=2.0),
        "sigmoid-underconfident": Sigmoid(miscalibration=0.5),
        "sigmoid-imbalanced": Sigmoid(intercept=-4.0),
        "sigmoid-null": Sigmoid(grouping=0.0),
        "sigmoid-overconfident-null": Sigmoid(grouping=0.0, miscalibration=2.0),
        "three-classes": MultiClass(n_classes=3),
        "ten-classes": MultiClass(n_classes=10, separation=6.0),
        "three-classes-null": MultiClass(n_classes=3, grouping=0.0),
    }


def _sides(link: LinkName, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Q on the plus side, Q on the minus side, and the probability of the plus side."""
    if link == "half-step":
        floor = np.where(s >= 0.5, 0.5, 0.0)
        return floor + 0.5, floor, 2 * (s - floor)
    plateau = np.maximum(np.minimum(2 * s, 0.5), 2 * s - 1)
    links = {"square": s * (2 - s), "double": 2 * s, "plateau": plateau}
    plus = np.minimum(links[link], 1)
    return plus, 2 * s - plus, np.full_like(s, 0.5)


def _labels(q: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    uniform = rng.random(len(q))
    if q.ndim == 1:
        return (uniform < q).astype(np.int64)
    return np.asarray((uniform[:, None] >= q.cumsum(axis=1)[:, :-1]).sum(axis=1), np.int64)


def _integrate(rule: ScoringRule, law: _Law, weights: Floats) -> Truth:
    parts = rule.divergence(law.scores, law.c), rule.divergence(law.c, law.q), rule.entropy(law.q)
    return Truth(*(float(np.sum(weights @ part)) for part in parts))


def _inside(p: Floats) -> Floats:
    # rounded to 0 or 1, a score would have an infinite log-loss that the exact one has not
    return np.clip(p, np.finfo(float).tiny, np.nextafter(1.0, 0.0))


def _panels(edges: Floats) -> tuple[Floats, Floats]:
    """Return nodes and weights of the Gauss-Legendre rule, repeated between successive edges."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    u = (nodes + 1) / 2
    # a smooth step crowds the nodes at the edges, where p log p has its singularities
    step, slope = u**3 * (10 - 15 * u + 6 * u**2), 30 * u**2 * (1 - u) ** 2
    length = np.diff(edges)[:, None]
    return (edges[:-1, None] + length * step).ravel(), (length * slope * weights / 2).ravel()


def _gaussian(deviation: float, *, kinks: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return nodes and weights of N(0, deviation^2), finer within ``scale`` of the kinks."""
    reach = 9 * deviation
    grades = scale * 2.0 ** np.arange(np.ceil(np.log2(2 * reach / scale)))
    offsets = np.concatenate([-grades, [0.0], grades])
    edges = np.union1d(np.linspace(-reach, reach, 19), kinks[:, None] + offsets)
    x, weights = _panels(edges[np.abs(edges) <= reach])
    return x, weights * np.exp(-((x / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))


def _require_name(option: str, value: str, names: tuple[str, ...]) -> None:
    if value not in names:
        listed = ", ".join(map(repr, names))
        raise OptionError(f"{option} must be a known name, got {value!r}. Choose one of {listed}.")


def _require_range(low: float, high: float, **options: float) -> None:
    for option, value in options.items():
        if not low <= value <= high:
            bounds = f"[{low:g}, {high:g}]"
            raise OptionError(f"{option} must lie in {bounds}, got {value!r}. Choose it inside.")
