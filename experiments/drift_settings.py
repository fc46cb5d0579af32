"""Pairs of data sets with known truth: the population, the model of the labels, or both differ.

The score is ``S = 0.2 + 0.6 u`` with ``u`` between 0 and 1. The true probability is

    Q = S + rate + slope (S - 0.5) + grouping sign(x_1) + moved sign(x_2)

If the population changes, only ``u`` and the means of the features differ. If the model of the labels
changes, only the coefficients differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from epiloss._typing import Floats

N_COLUMNS = 5


@dataclass(frozen=True)
class Population:
    """Distribution of the rows: beta for the scores, normal with given means for the features."""

    a: float = 1.0
    b: float = 1.0
    means: tuple[float, ...] = (0.0,) * N_COLUMNS
    tied: float = 0.0  # correlation of the first feature with the score's rank

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        """Return scores and features."""
        u = generator.beta(self.a, self.b, n)
        X = generator.normal(size=(n, N_COLUMNS))
        X[:, 0] = self.tied * ndtri(np.clip(u, 1e-9, 1 - 1e-9)) + np.sqrt(1 - self.tied**2) * X[:, 0]
        return 0.2 + 0.6 * u, X + np.array(self.means)


@dataclass(frozen=True)
class LabelModel:
    """The true probability as a function of scores and features."""

    rate: float = 0.0
    slope: float = 0.0
    grouping: float = 0.15
    moved: float = 0.0
    smooth: bool = False

    def q(self, scores: Floats, X: Floats) -> Floats:
        """Return the true probabilities."""
        one, two = (2 * ndtr(2 * X[:, k]) - 1 if self.smooth else np.sign(X[:, k]) for k in (1, 2))
        wave = self.grouping * one + self.moved * two
        return np.clip(scores + self.rate + self.slope * (scores - 0.5) + wave, 0.01, 0.99)


@dataclass(frozen=True)
class Shift:
    """The reference and the current data set."""

    before: tuple[Population, LabelModel]
    after: tuple[Population, LabelModel]

    @property
    def population(self) -> bool:
        """Whether the population changes."""
        return self.before[0] != self.after[0]

    @property
    def losses(self) -> bool:
        """Whether the model of the labels changes."""
        return self.before[1] != self.after[1]

    def draw(
        self, n: tuple[int, int], generator: np.random.Generator
    ) -> list[tuple[Floats, Floats, Floats]]:
        """Return labels, scores and features of both."""
        found = []
        for (population, model), count in zip((self.before, self.after), n, strict=True):
            scores, X = population.draw(count, generator)
            q = model.q(scores, X)
            found.append(((generator.random(count) < q).astype(float), scores, X))
        return found


PLAIN, LABELS = Population(), LabelModel()
UP, MUCH_UP = Population(a=2.0), Population(a=4.0)
NARROW = Population(a=4.0, b=4.0)
ONE_SIDE = Population(means=(0.0, 0.7, 0.0, 0.0, 0.0))
OTHER_NOISE = Population(means=(0.0, 0.0, 0.0, 1.0, 1.0))
BOTH_SIDES = replace(ONE_SIDE, a=3.0)
NONE, SMOOTH = replace(LABELS, grouping=0.0), LabelModel(smooth=True)

SHIFTS: Mapping[str, Shift] = {
    "nothing": Shift((PLAIN, LABELS), (PLAIN, LABELS)),
    "nothing, no grouping loss": Shift((PLAIN, NONE), (PLAIN, NONE)),
    "scores up": Shift((PLAIN, LABELS), (UP, LABELS)),
    "scores much up": Shift((PLAIN, LABELS), (MUCH_UP, LABELS)),
    "scores narrower": Shift((PLAIN, LABELS), (NARROW, LABELS)),
    "scores up, smooth": Shift((PLAIN, SMOOTH), (MUCH_UP, SMOOTH)),
    "scores up, no grouping loss": Shift((PLAIN, NONE), (MUCH_UP, NONE)),
    "noise columns": Shift((PLAIN, LABELS), (OTHER_NOISE, LABELS)),
    "one side of the segment": Shift((PLAIN, LABELS), (ONE_SIDE, LABELS)),
    "scores and one side": Shift((PLAIN, LABELS), (BOTH_SIDES, LABELS)),
    "scores and one side, smooth": Shift((PLAIN, SMOOTH), (BOTH_SIDES, SMOOTH)),
    "rates 5 points up": Shift((PLAIN, LABELS), (PLAIN, replace(LABELS, rate=0.05))),
    "slope of the curve": Shift((PLAIN, LABELS), (PLAIN, replace(LABELS, slope=-0.4))),
    "segment 10 points worse": Shift((PLAIN, LABELS), (PLAIN, replace(LABELS, grouping=0.25))),
    "another segment": Shift((PLAIN, LABELS), (PLAIN, LabelModel(grouping=0.0, moved=0.15))),
    "scores up, and rates": Shift((PLAIN, LABELS), (UP, replace(LABELS, rate=0.06))),
    "scores up, and segment": Shift((PLAIN, LABELS), (UP, replace(LABELS, grouping=0.25))),
    "one side, and rates": Shift((PLAIN, LABELS), (ONE_SIDE, replace(LABELS, rate=0.06))),
}
