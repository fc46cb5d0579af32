"""Two halves of the rows, dealt by what the rows hold and not by their order."""

from __future__ import annotations

import numpy as np

from epiloss._typing import Codes, Floats


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
    second = np.zeros(len(n), bool)
    second[np.lexsort(keys)[dealt(len(n), generator)[1]]] = True
    return np.flatnonzero(~second[unit]), np.flatnonzero(second[unit])


def dealt(n: int, generator: np.random.Generator) -> tuple[Codes, Codes]:
    """Deal the places 0 and 1, 2 and 3, ... to two halves at random, one each.

    Examples
    --------
    >>> first, second = dealt(4, np.random.default_rng(0))
    >>> np.sort(np.concatenate([first, second])).tolist()
    [0, 1, 2, 3]
    """
    first = np.arange(0, n, 2)
    first += generator.random(len(first)) < 0.5
    second = first ^ 1  # the other of the two
    if n % 2 == 0:
        return first, second
    return first[first < n], second[second < n]  # the last one has no other


def sorted_rows(scores: Floats, labels: Floats) -> tuple[Floats, Floats]:
    """Return scores and labels, 0 or 1, in the order of scores; of equal scores, zeros are first.

    Examples
    --------
    >>> sorted_rows(np.array([0.5, 0.2, 0.5]), np.array([1.0, 1.0, 0.0]))
    (array([0.2, 0.5, 0.5]), array([1., 0., 1.]))
    """
    # the bits of numbers that are not negative sort as they do, and leave a place for the label
    bits = (scores + 0.0).view(np.uint64)  # + 0.0: of -0.0, too
    bits <<= 1
    bits |= labels > 0
    bits.sort()
    ordered = np.empty(len(bits))
    np.bitwise_and(bits, 1, out=ordered, casting="unsafe")
    bits >>= 1
    return bits.view(np.float64), ordered
