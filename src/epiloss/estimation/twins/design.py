"""Who learns from which rows, and who judges which: parts of the rows, and pairs of parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.estimation.twins.centring import ScoreBasis
from epiloss.input.tasks import BinaryProblem

# the five ways to put six parts into pairs that have no pair in common
_WAYS = (
    ((0, 1), (2, 3), (4, 5)),
    ((0, 2), (1, 4), (3, 5)),
    ((0, 3), (1, 5), (2, 4)),
    ((0, 4), (1, 3), (2, 5)),
    ((0, 5), (1, 2), (3, 4)),
)
# from so many rows on: in how many of these ways models are trained; where one is enough, on four parts
_N_WAYS = ((60_000, 1), (12_000, 5), (6_000, 3), (0, 5))
_FEW_ROWS, _DEALS = 4_000, 3  # which are dealt several times, as that is cheap
_MANY_ALIKE, _FEW_ALIKE = 30, 0.02  # rows of one kind on average, and share of rows not alone
_MANY_KINDS, _MANY_OF_FEW = 100, 8  # of fewer kinds of rows so many alike are no copies
_AGREE = 0.1  # of the spread of labels given the score, that copies have less of among themselves
_VERY_MANY = 300_000  # rows, for which three parts are enough instead of four
_MANY_VALUES = 15_000_000  # of features, for which one way is enough work

Parts = NDArray[np.int8]


@dataclass(frozen=True)
class Design:
    """The parts that rows are dealt to, and those that each model is trained on.

    Examples
    --------
    >>> Design.of(100_000, 20).learning
    ((0,), (1,), (2,), (3,))
    >>> [len(Design.of(n, 20).twins(0)) for n in (1_000, 5_000, 10_000, 100_000)]
    [15, 15, 6, 3]
    """

    n_parts: int
    learning: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, n_rows: int, n_columns: int) -> Design:
        """Return the design for so many rows and columns: the fewer, the more models judge a row."""
        n_ways = next(ways for least, ways in _N_WAYS if n_rows >= least)
        if n_ways == 1 or n_rows * n_columns >= _MANY_VALUES:
            n_parts = 4 if n_rows < _VERY_MANY else 3
            return cls(n_parts, tuple((part,) for part in range(n_parts)))
        return cls(6, tuple(pair for way in _WAYS[:n_ways] for pair in way))

    @staticmethod
    def n_deals(n_rows: int) -> int:
        """Return how many times so many rows are dealt, for the mean over all."""
        return _DEALS if n_rows < _FEW_ROWS else 1

    def learns(self, place: int) -> NDArray[np.bool_]:
        """Return of each part whether a model is trained on it."""
        return np.isin(np.arange(self.n_parts), self.learning[place])

    def judges(self, part: int) -> list[int]:
        """Return the models that have not seen a part."""
        return [k for k, parts in enumerate(self.learning) if part not in parts]

    def twins(self, part: int) -> list[tuple[int, int]]:
        """Return the places among its judges of those that have no part in common."""
        sets = [set(self.learning[k]) for k in self.judges(part)]
        return [(i, j) for i, j in combinations(range(len(sets)), 2) if not sets[i] & sets[j]]


def content_keys(problem: BinaryProblem) -> NDArray[np.uint64]:
    """Return a number for each row that is made of its score and features."""
    features = problem.features
    assert features is not None  # twins learn from features
    return features.row_keys(problem.scores)


def in_order(problem: BinaryProblem) -> tuple[Codes, Codes | None]:
    """Return the order of the rows by score and what else they hold, and the unit of each then.

    A unit is a cluster, or a row and its copies; None where each row is one of its own. In this order,
    how the rows came does not matter. Among rows of equal score it knows nothing of labels: parts that
    were dealt by them would be balanced, and learners know too much.
    """
    order = np.argsort(problem.scores)
    scores = problem.scores[order]
    if (scores[1:] > scores[:-1]).all():  # no two rows are alike, and nothing else puts them in order
        return order, None if problem.clusters is None else problem.clusters[order]
    keys = content_keys(problem)
    last = [one for one in (problem.clusters, problem.weights) if one is not None]
    order = np.lexsort((*last, problem.labels, keys, problem.scores))
    units = None
    if problem.clusters is not None:
        units = problem.clusters[order]
    else:
        keys = keys[order]
        alike = np.cumsum(np.append(True, keys[1:] != keys[:-1])) - 1
        if _are_copies(alike, problem.labels[order], problem.scores[order]):
            units = alike
    shuffled = np.lexsort((np.random.default_rng(0).random(len(order)), scores))
    return order[shuffled], None if units is None else units[shuffled]


def _are_copies(alike: Codes, labels: Floats, scores: Floats) -> bool:
    """Tell whether rows that are alike, in the order of their scores, are copies of one another.

    Copies agree in their labels. Rows that are alike because features and scores have few values agree
    only as far as these tell the label, and may be divided. Few of them are taken for copies.
    """
    count = np.bincount(alike)
    n_alike = int(count[count > 1].sum())
    most = _MANY_ALIKE if len(count) >= _MANY_KINDS else _MANY_OF_FEW
    if n_alike == 0 or len(labels) > most * len(count):
        return False
    if n_alike < _FEW_ALIKE * len(labels):
        return True
    rate = np.bincount(alike, labels) / count
    curve = ScoreBasis.of(scores).mean(labels[None])[0]
    expected = np.bincount(alike, curve * (1 - curve)) / count
    within, without = count @ (rate * (1 - rate)), (count - 1) @ expected
    return bool(within < _AGREE * without)


def parts_of_keys(keys: NDArray[np.uint64], salt: int, n_parts: int) -> Codes:
    """Return the part that each key belongs to; another salt parts them anew.

    It does not depend on how large a key is, so that a sample of the smallest has rows of all parts.

    Examples
    --------
    >>> keys = np.arange(6, dtype=np.uint64)
    >>> parts_of_keys(keys, 0, 3).tolist(), parts_of_keys(keys, 5, 3).tolist()
    ([0, 1, 2, 0, 1, 2], [2, 1, 1, 0, 1, 0])
    """
    parts: Codes = ((keys ^ np.uint64(salt)) % np.uint64(n_parts)).astype(np.int64)
    return parts


def dealt(scores: Floats, units: Codes | None, n_parts: int, generator: np.random.Generator) -> Parts:
    """Deal rows, or units, next to each other in score to parts in random order."""
    unit = np.arange(len(scores)) if units is None else units
    count = np.bincount(unit)
    mean = np.bincount(unit, scores) / np.maximum(count, 1)
    order = np.argsort(mean, kind="stable")
    order = order[count[order] > 0]
    deal = np.tile(np.arange(n_parts, dtype=np.int8), (-(-len(order) // n_parts), 1))
    generator.permuted(deal, axis=1, out=deal)
    part = np.zeros(len(count), np.int8)
    part[order] = deal.ravel()[: len(order)]
    rows: Parts = part[unit]
    return rows
