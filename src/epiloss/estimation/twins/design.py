"""Which rows each model is trained on, and which models evaluate each row.

Rows are split into parts. A model is trained on one part, or on a pair of parts, and evaluates the rows
of all other parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.estimation.twins.centring import ScoreBasis
from epiloss.input.tasks import BinaryProblem

# The five ways to group six parts into three pairs such that no pair occurs twice.
_PAIRINGS = (
    ((0, 1), (2, 3), (4, 5)),
    ((0, 2), (1, 4), (3, 5)),
    ((0, 3), (1, 5), (2, 4)),
    ((0, 4), (1, 3), (2, 5)),
    ((0, 5), (1, 2), (3, 4)),
)
# From this number of rows on: the number of pairings, with a model for each of their pairs. More models
# reduce the noise of the estimate, larger trees its bias; on real data with 6,000 to 18,000 rows, the
# time is better spent on trees. 1 stands for one model per part, without pairs.
_N_PAIRINGS = ((60_000, 1), (18_000, 5), (12_000, 3), (6_000, 2), (0, 5))
# Fewer rows than this are split several times and the results averaged, which is cheap.
_FEW_ROWS, _N_SPLITS_OF_FEW = 4_000, 3
# From this number of rows on, three parts are enough instead of four.
_VERY_MANY_ROWS = 300_000
# From this number of feature values on, there is one model per part, for the sake of speed.
_MANY_VALUES = 15_000_000
# Rows of the same kind, with equal score and features, are either copies of each other or equal because
# score and features have few distinct values. Labels decide between the two, except in clear cases: with
# more than 30 rows per kind (8, if there are fewer than 100 kinds) there are few distinct values, and if
# less than 2% of the rows have an equal one, they are treated as copies.
_MAX_COPIES, _MAX_COPIES_OF_FEW_KINDS, _FEW_KINDS = 30, 8, 100
_SMALL_SHARE = 0.02
# Copies agree in their labels: the variance within kinds is below this fraction of that given the score.
_MAX_VARIANCE_RATIO = 0.1

Parts = NDArray[np.int8]


@dataclass(frozen=True)
class Design:
    """The number of parts, and the parts that each model is trained on.

    Examples
    --------
    >>> Design.of(100_000, 20).training_parts
    ((0,), (1,), (2,), (3,))
    >>> [len(Design.of(n, 20).twins(0)) for n in (1_000, 5_000, 10_000, 100_000)]
    [15, 15, 3, 3]
    """

    n_parts: int
    training_parts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, n_rows: int, n_columns: int) -> Design:
        """Return the design for a number of rows and columns."""
        n_pairings = next(number for from_rows, number in _N_PAIRINGS if n_rows >= from_rows)
        if n_pairings == 1 or n_rows * n_columns >= _MANY_VALUES:
            n_parts = 4 if n_rows < _VERY_MANY_ROWS else 3
            return cls(n_parts, tuple((part,) for part in range(n_parts)))
        return cls(6, tuple(pair for pairing in _PAIRINGS[:n_pairings] for pair in pairing))

    @staticmethod
    def n_splits(n_rows: int) -> int:
        """Return the number of random splits into parts, over which the estimate is averaged."""
        return _N_SPLITS_OF_FEW if n_rows < _FEW_ROWS else 1

    def is_training_part(self, model: int) -> NDArray[np.bool_]:
        """Return, for each part, whether a model is trained on it."""
        is_training = np.zeros(self.n_parts, bool)
        is_training[list(self.training_parts[model])] = True
        return is_training

    def evaluating_models(self, part: int) -> list[int]:
        """Return the models that are not trained on a part, and so evaluate its rows."""
        return [model for model, parts in enumerate(self.training_parts) if part not in parts]

    def twins(self, part: int) -> list[tuple[int, int]]:
        """Return the pairs of evaluating models without a common part, as indices among these models."""
        sets = [set(self.training_parts[model]) for model in self.evaluating_models(part)]
        return [(i, j) for i, j in combinations(range(len(sets)), 2) if not sets[i] & sets[j]]


def content_keys(problem: BinaryProblem) -> NDArray[np.uint64]:
    """Return a number for each row that depends only on its score and features."""
    features = problem.features
    assert features is not None  # twins learn from features
    return features.row_keys(problem.scores)


def order_and_units(problem: BinaryProblem) -> tuple[Codes, Codes | None]:
    """Return the order of the rows by score, and the unit of each row in this order.

    A unit is a cluster, or a row with its copies, and must not be divided between parts; None means that
    every row is a unit. The order depends on the content of the rows, not on the order in which they
    were passed. Among rows with equal scores it is random: if it depended on the labels, parts would be
    balanced in them, and models would learn something about the labels of the rows that they evaluate.
    """
    order = np.argsort(problem.scores)
    scores = problem.scores[order]
    if (scores[1:] > scores[:-1]).all():  # distinct scores determine the order, and there are no copies
        return order, None if problem.clusters is None else problem.clusters[order]
    keys = content_keys(problem)
    last = [values for values in (problem.clusters, problem.weights) if values is not None]
    order = np.lexsort((*last, problem.labels, keys, problem.scores))
    units = None
    if problem.clusters is not None:
        units = problem.clusters[order]
    else:
        keys = keys[order]
        kind = np.cumsum(np.append(True, keys[1:] != keys[:-1])) - 1
        if _are_copies(kind, problem.labels[order], problem.scores[order]):
            units = kind
    shuffled = np.lexsort((np.random.default_rng(0).random(len(order)), scores))
    return order[shuffled], None if units is None else units[shuffled]


def _are_copies(kind: Codes, labels: Floats, scores: Floats) -> bool:
    """Return whether rows of the same kind, with equal score and features, are copies of each other.

    Copies agree in their labels. Rows that are equal because score and features have few distinct values
    agree only as far as these predict the label, and may be divided between parts. If only a few rows
    have an equal one, they are assumed to be copies. The rows must be sorted by score.
    """
    count = np.bincount(kind)
    n_equal = int(count[count > 1].sum())
    most = _MAX_COPIES if len(count) >= _FEW_KINDS else _MAX_COPIES_OF_FEW_KINDS
    if n_equal == 0 or len(labels) > most * len(count):
        return False
    if n_equal < _SMALL_SHARE * len(labels):
        return True
    rate = np.bincount(kind, labels) / count
    curve = ScoreBasis.of(scores).mean(labels[None])[0]
    variance = np.bincount(kind, curve * (1 - curve)) / count
    within, expected = count @ (rate * (1 - rate)), (count - 1) @ variance
    return bool(within < _MAX_VARIANCE_RATIO * expected)


def parts_of_keys(keys: NDArray[np.uint64], salt: int, n_parts: int) -> Codes:
    """Return the part of each key; a different salt gives a different split.

    The part does not depend on the size of the key, so that the rows with the smallest keys, which form
    the sample of a streamed audit, come from all parts.

    Examples
    --------
    >>> keys = np.arange(6, dtype=np.uint64)
    >>> parts_of_keys(keys, 0, 3).tolist(), parts_of_keys(keys, 5, 3).tolist()
    ([0, 1, 2, 0, 1, 2], [2, 1, 1, 0, 1, 0])
    """
    parts: Codes = ((keys ^ np.uint64(salt)) % np.uint64(n_parts)).astype(np.int64)
    return parts


def split_into_parts(
    scores: Floats, units: Codes | None, n_parts: int, generator: np.random.Generator
) -> Parts:
    """Assign rows to parts at random, stratified by score: neighbouring rows go to different parts.

    Units are not divided; their mean scores are used.
    """
    unit = np.arange(len(scores)) if units is None else units
    count = np.bincount(unit)
    mean = np.bincount(unit, scores) / np.maximum(count, 1)
    order = np.argsort(mean, kind="stable")
    order = order[count[order] > 0]
    strata = np.tile(np.arange(n_parts, dtype=np.int8), (-(-len(order) // n_parts), 1))
    generator.permuted(strata, axis=1, out=strata)
    part_of_unit = np.zeros(len(count), np.int8)
    part_of_unit[order] = strata.ravel()[: len(order)]
    part: Parts = part_of_unit[unit]
    return part
