"""Random halves of the rows that depend on the content of the rows, not on their order."""

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
    """Split rows into random halves with similar scores.

    Of every two rows (or clusters) with adjacent scores, one goes to each half. The split depends on
    the content of the rows, not on their order.
    """
    unit = np.arange(len(scores))
    if clusters is not None and clusters.min() < clusters.max():
        unit = np.unique(clusters, return_inverse=True)[1]
    n = np.bincount(unit)
    keys = [np.bincount(unit, values) / n for values in (labels, scores)]
    if len(n) < len(scores):
        keys[1] = keys[1].round(12)  # rounding must not separate means of equal scores
    if weights is not None or clusters is not None:
        keys.insert(0, np.bincount(unit, weights).astype(float))
    order = np.lexsort(keys)
    shuffled = shuffled_ties(keys[-1][order], generator)
    order = order if shuffled is None else order[shuffled]
    second = np.zeros(len(n), bool)
    second[order[random_pairs(len(n), generator)[1]]] = True
    return np.flatnonzero(~second[unit]), np.flatnonzero(second[unit])


def shuffled_ties(ordered: Floats, generator: np.random.Generator) -> Codes | None:
    """Return an order that shuffles equal scores of a sorted array; None if all scores differ.

    Without shuffling, equal scores would be in the order of their labels. Both halves would then have
    the same rate at each score, and their errors would not be independent. If a score occurs an odd
    number of times, its last occurrence is moved to the end, so that all pairs have equal scores.

    Examples
    --------
    >>> shuffled_ties(np.array([0.1, 0.2]), np.random.default_rng(0))
    >>> sorted(shuffled_ties(np.array([0.1, 0.2, 0.2]), np.random.default_rng(0))[:2].tolist())
    [1, 2]
    """
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    if starts.all():
        return None
    order = np.lexsort((generator.random(len(ordered)), ordered))
    size = np.diff(np.flatnonzero(np.append(starts, True)))
    last = np.zeros(len(ordered), bool)
    last[np.cumsum(size) - 1] = size % 2 == 1
    return np.concatenate([order[~last], order[last]])


def random_pairs(n: int, generator: np.random.Generator) -> tuple[Codes, Codes]:
    """Split the indices 0 to n - 1 into random halves; of 0 and 1, 2 and 3, ... one goes to each half.

    Examples
    --------
    >>> first, second = random_pairs(4, np.random.default_rng(0))
    >>> np.sort(np.concatenate([first, second])).tolist()
    [0, 1, 2, 3]
    """
    first = np.arange(0, n, 2)
    first += generator.random(len(first)) < 0.5
    second = first ^ 1  # the other index of the pair
    if n % 2 == 0:
        return first, second
    return first[first < n], second[second < n]  # the last index has no partner


def sorted_rows(scores: Floats, labels: Floats) -> tuple[Floats, Floats]:
    """Return scores and binary labels sorted by score, and by label where scores are equal.

    Examples
    --------
    >>> sorted_rows(np.array([0.5, 0.2, 0.5]), np.array([1.0, 1.0, 0.0]))
    (array([0.2, 0.5, 0.5]), array([1., 0., 1.]))
    """
    # Non-negative floats sort like their bits. The sign bit is free, and is used for the label.
    bits = (scores + 0.0).view(np.uint64)  # adding 0.0 turns -0.0 into 0.0
    bits <<= 1
    bits |= labels > 0
    bits.sort()
    ordered = np.empty(len(bits))
    np.bitwise_and(bits, 1, out=ordered, casting="unsafe")
    bits >>= 1
    return bits.view(np.float64), ordered
