"""Which rows learn the regions, and which rows evaluate them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epiloss.levelsets import Codes
from epiloss.scoring import Floats


@dataclass(frozen=True)
class Fold:
    """Two disjoint sets of rows."""

    learn: Codes
    evaluate: Codes

    def swapped(self) -> Fold:
        """Return the fold with the roles exchanged."""
        return Fold(self.evaluate, self.learn)


def stratified_fold(level_set: Codes, fraction: float, generator: np.random.Generator) -> Fold:
    """Draw ``fraction`` of each level set for learning; what is left over is rounded at random.

    Examples
    --------
    >>> fold = stratified_fold(np.repeat([0, 1], 4), 0.5, np.random.default_rng(0))
    >>> np.bincount(np.repeat([0, 1], 4)[fold.learn]).tolist()
    [2, 2]
    """
    order = generator.permutation(len(level_set))
    order = order[order_by_code(level_set[order])]
    size = np.bincount(level_set)
    rank = np.arange(len(level_set)) - np.repeat(np.cumsum(size) - size, size)
    wanted = np.floor(size * fraction + generator.random(len(size)))
    learns = rank < np.repeat(wanted, size)
    return Fold(np.sort(order[learns]), np.sort(order[~learns]))


def clustered_fold(clusters: Codes, fraction: float, generator: np.random.Generator) -> Fold:
    """Draw whole clusters for learning, so that none has rows on both sides.

    Examples
    --------
    >>> fold = clustered_fold(np.array([0, 0, 1, 1]), 0.5, np.random.default_rng(0))
    >>> len(fold.learn), len(fold.evaluate)
    (2, 2)
    """
    rank = generator.permutation(int(clusters.max()) + 1)[clusters]
    learns = rank < np.floor((clusters.max() + 1) * fraction + generator.random())
    return Fold(np.flatnonzero(learns), np.flatnonzero(~learns))


def order_by_code(codes: Codes) -> Codes:
    """Return the stable order of small whole numbers, in linear time.

    Examples
    --------
    >>> order_by_code(np.array([2, 0, 2, 1]))
    array([1, 3, 0, 2])
    """
    # NumPy sorts 16-bit numbers by their digits
    few = codes.max(initial=0) < 2**15
    return np.argsort(codes.astype(np.int16) if few else codes, kind="stable")


def even_halves(
    scores: Floats,
    labels: Floats,
    weights: Floats | None,
    clusters: Codes | None,
    generator: np.random.Generator,
) -> tuple[Codes, Codes]:
    """Deal each two rows, or clusters, that are next to each other in score to two halves at random.

    It depends on what the rows hold, not on their order.
    """
    unit = np.arange(len(scores))
    if clusters is not None and clusters.min() < clusters.max():
        unit = np.unique(clusters, return_inverse=True)[1]
    n = np.bincount(unit)
    keys = [np.bincount(unit, values) / n for values in (labels, scores)]
    if weights is not None or clusters is not None:
        keys.insert(0, np.bincount(unit, weights).astype(float))
    coin = generator.random(-(-len(n) // 2)) < 0.5
    second = np.empty(len(n), bool)
    second[np.lexsort(keys)] = np.stack([coin, ~coin], axis=1).ravel()[: len(n)]
    return np.flatnonzero(~second[unit]), np.flatnonzero(second[unit])
