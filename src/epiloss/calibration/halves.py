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
    if len(n) < len(scores):
        keys[1] = keys[1].round(12)  # means of equal scores are equal, however they are rounded
    if weights is not None or clusters is not None:
        keys.insert(0, np.bincount(unit, weights).astype(float))
    order = np.lexsort(keys)
    again = shuffled_ties(keys[-1][order], generator)
    order = order if again is None else order[again]
    second = np.zeros(len(n), bool)
    second[order[dealt(len(n), generator)[1]]] = True
    return np.flatnonzero(~second[unit]), np.flatnonzero(second[unit])


def shuffled_ties(ordered: Floats, generator: np.random.Generator) -> Codes | None:
    """Return an order in which equal scores, of those in order, come by chance; none if there are none.

    Dealt by their labels, halves would have the same rates at each score: their errors would be one.
    Of an odd number of equal scores the last comes behind all pairs, so that each score is halved.

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
