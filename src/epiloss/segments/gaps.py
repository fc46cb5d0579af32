"""The gap of a group: its rate minus the rate of all rows with the same scores.

With ``r`` the residuals of the labels given the score, and ``g`` the indicator of the group,

    gap = sum(w g r) / sum(w g).

The influence of a row is ``w (g - E[g | S]) r``, as in a partial regression: the group itself is part of
the curve that it is compared with, and is less informative the better the score predicts membership.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.estimation.influence import Influence
from epiloss.estimation.twins.centring import ScoreBasis
from epiloss.input.tasks import BinaryProblem

_EDGE = 0.005  # rates are clipped this far from 0 and 1 in variances
_FEW_OUTCOMES = 20.0
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Gap:
    """The measurements of a group; ``value`` is the gap and ``stderr`` its standard error."""

    n: int
    share: float
    score_mean: float
    rate: float
    value: float
    stderr: float

    @property
    def expected(self) -> float:
        """The rate of all rows with the same scores."""
        return self.rate - self.value

    @property
    def z(self) -> float:
        """The gap in standard errors; 0 if the standard error is unknown."""
        return self.value / self.stderr if self.stderr > 0 else 0.0


@dataclass(frozen=True)
class CentredRows:
    """Rows sorted by score, and the mean of their labels given the score."""

    scores: Floats
    labels: Floats
    weights: Floats | None
    clusters: Codes | None
    basis: ScoreBasis
    curve: Floats

    @classmethod
    def of(cls, problem: BinaryProblem, rows: Codes) -> CentredRows:
        """Centre some rows of a problem whose rows are sorted by score."""
        scores, labels = problem.scores[rows], problem.labels[rows]
        weights = None if problem.weights is None else problem.weights[rows]
        clusters = None if problem.clusters is None else problem.clusters[rows]
        basis = ScoreBasis.of(scores, weights)
        return cls(scores, labels, weights, clusters, basis, basis.mean(labels[None])[0])

    @property
    def weight(self) -> Floats:
        """The weight of each row."""
        return np.ones(len(self.labels)) if self.weights is None else self.weights

    @property
    def residual(self) -> Floats:
        """The residual of each label, times the weight of the row."""
        return (self.labels - self.curve) * self.weight

    @property
    def spread(self) -> Floats:
        """The variance of each weighted residual if the features add nothing to the score."""
        curve = np.clip(self.curve, _EDGE, 1 - _EDGE)
        return curve * (1 - curve) * self.weight**2

    def influence(self, group: Floats) -> Floats:
        """Return the influence of each row on the sum of residuals over a group of 0 and 1."""
        return np.asarray(self._beyond(group[None])[0] * self.residual, float)

    def gap(self, inside: Mask) -> Gap:
        """Measure a group."""
        return self.gaps(inside[None])[0]

    def gaps(self, inside: Mask) -> list[Gap]:
        """Measure groups (groups, rows)."""
        groups = inside.astype(float)
        beyond, residual = self._beyond(groups), self.residual
        return [self._gap(*one, residual) for one in zip(groups, beyond, strict=True)]

    def _beyond(self, groups: Floats) -> Floats:
        """Return what groups (groups, rows) of 0 and 1 are beyond their means given the score."""
        return np.asarray((groups - self.basis.mean(groups)) * self.basis.inflation**2, float)

    def _gap(self, group: Floats, beyond: Floats, residual: Floats) -> Gap:
        weighted = group if self.weights is None else self.weights * group
        mass = float(weighted.sum())
        if mass == 0:
            return Gap(0, 0.0, float("nan"), float("nan"), 0.0, float("nan"))
        influence = beyond * residual / mass
        stderr = Influence(influence).stderr(self.clusters)
        return Gap(
            n=int(group.sum()),
            share=mass / float(self.weight.sum()),
            score_mean=dot(weighted, self.scores) / mass,
            rate=dot(weighted, self.labels) / mass,
            value=float(influence.sum()),
            stderr=max(stderr, self._least_stderr(group, beyond) / mass),
        )

    def _least_stderr(self, group: Floats, beyond: Floats) -> float:
        """Return the standard error of the sum without any gap, for groups with few expected outcomes.

        All labels of a small group may be the same, and then its residuals show hardly any noise.
        """
        outcomes = dot(group, self.curve)
        if min(outcomes, float(group.sum()) - outcomes) >= _FEW_OUTCOMES:
            return 0.0
        return float(np.sqrt(dot(beyond**2, self.spread)))
