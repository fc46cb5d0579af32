"""The inner loops in NumPy, of codes, trees, sums, folds and curves: the reference, bit for bit.

``_kernel.c``, ``_trees.c`` and ``_passes.c`` do the same faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.boosting import added_up, boost, boosted, single_splits
from epiloss._kernels.layout import Grid, Values, order_by_code
from epiloss._kernels.reference_trees import CATEGORY, N_EDGES, Integers, Records, grow
from epiloss._typing import Floats

__all__ = [
    "add_brier",
    "add_fixed_point",
    "added_up",
    "apply",
    "boost",
    "boosted",
    "brier_terms",
    "cumulative_sums",
    "edges_among",
    "encode",
    "extremes",
    "first_of_each",
    "gather",
    "grow",
    "interpolate",
    "level_sets_of",
    "moments",
    "row_keys",
    "single_splits",
    "spread_out",
    "windowed_lines",
]

ROWS_PER_CELL = 2  # that sums of rows take together, for each costs as much as a row
LIMB = 2.0**20  # sums of fractions are whole numbers of 2**-40, in two limbs
_VALUES = 2**19  # that are copied at a time
_MANY = 2_000  # scores, from which on a grid is faster than bisection
_BLOCK = 2**14  # scores that stay in the cache
LEAST_SPREAD = 1e-290  # of a window, that has a slope
_NUMBERS = 2**15  # that are looked at twice while they are in the cache
# odd numbers that mix bits well, the last two those of splitmix64 (Steele, Lea and Flood, 2014)
_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


def gather(block: NDArray[Any], samples: Sequence[Integers]) -> NDArray[Any]:
    """Return the samples' values (samples, columns, rows), missing ones behind those of fewer rows."""
    most = max(map(len, samples))
    whole = np.full((len(samples), block.shape[1], most), np.nan, block.dtype)
    for sample, place in zip(samples, whole, strict=True):
        place[:, : len(sample)] = block[sample].T
    return whole


def edges_among(ordered: NDArray[Any]) -> Floats:
    """Return the quantile edges (..., 63) of sorted values (..., rows), at least two."""
    shape = (*ordered.shape[:-1], N_EDGES)
    ordered = ordered.reshape(-1, ordered.shape[-1])
    d, n = ordered.shape
    edges = np.full((d, N_EDGES), np.inf)
    present = n - np.isnan(ordered).sum(axis=1)  # what is missing sorts last
    place = np.maximum(np.arange(1, N_EDGES) * present[:, None] // N_EDGES, 1)
    place += n * np.arange(d)[:, None]
    edges[:, :-1] = _between(ordered.take(place - 1), ordered.take(place))
    repeated = ~(np.diff(edges[:, :-1], axis=1) > 0).all(axis=1)
    few = np.flatnonzero(repeated | (present < N_EDGES))
    few = few[(ordered[few, 1:] > ordered[few, :-1]).sum(axis=1) < N_EDGES]
    column, place = np.nonzero(ordered[few, 1:] > ordered[few, :-1])
    rank = np.arange(len(column)) - np.searchsorted(column, column)
    edges[few] = np.inf
    edges[few[column], rank] = _between(ordered[few[column], place], ordered[few[column], place + 1])
    return edges.reshape(shape)


def _between(low: Floats, high: Floats) -> Floats:
    """Return the middle, or ``low`` where no number lies between."""
    middle = low / 2 + high / 2
    return np.where((low <= middle) & (middle < high), middle, low)


def encode(
    values: Values, rows: Integers, starts: Integers, edges: Floats, codes: NDArray[np.uint8]
) -> None:
    """Write the codes (columns, rows) of some rows, those of level set ``s`` from ``starts[s]`` on."""
    d = codes.shape[0]
    at_once = max(_VALUES // max(len(rows), 1), 1)
    for j in range(d):
        if j % at_once == 0:  # some columns together, as their values lie side by side
            block = _columns(values, rows, j, min(j + at_once, d))
        column = block[j % at_once]
        for s, (first, last) in enumerate(pairwise(starts.tolist())):
            # what is missing sorts behind all edges
            codes[j, first:last] = edges[s, j].searchsorted(column[first:last])


def _columns(values: Values, rows: Integers, first: int, last: int) -> Sequence[NDArray[Any]]:
    """Return some columns of some rows, each side by side."""
    if isinstance(values, tuple):
        return [values[j][rows] for j in range(first, last)]
    return list(np.ascontiguousarray(values[:, first:last][rows].T))


def apply(values: Values, rows: Integers, nodes: Records, leaves: NDArray[np.int32]) -> None:
    """Let each row go down from the node that ``leaves`` holds to its leaf, in place."""
    below = np.flatnonzero(nodes["left"][leaves] >= 0)
    while len(below):
        node = nodes[leaves[below]]
        x = _values(values, rows[below], node["feature"])
        inside = np.where(node["kind"] == CATEGORY, x == node["threshold"], x <= node["threshold"])
        left = np.where(np.isnan(x), node["missing_left"] > 0, inside)
        leaves[below] = np.where(left, node["left"], node["right"])
        below = below[nodes["left"][leaves[below]] >= 0]


def add_fixed_point(code: Integers, values: Floats, high: Integers, low: Integers) -> bool:
    """Add values, rounded to 2**-40, to the cells: steps of 2**-20 to ``high``, the rest to ``low``.

    If any is not finite none is added, and the answer is no.
    """
    if not np.isfinite(values).all():
        return False
    steps = np.rint(values * (LIMB * LIMB))
    whole = np.floor(steps / LIMB)
    # whole numbers below 2**53, so float64 bincount adds them exactly in any order
    high += np.bincount(code, whole, len(high)).astype(np.int64)
    low += np.bincount(code, steps - whole * LIMB, len(low)).astype(np.int64)
    return True


def add_brier(*rows: object) -> bool:
    """Say that nothing was added: in NumPy nothing is faster than field by field."""
    return False


def brier_terms(*rows: object) -> None:
    """Return nothing: in NumPy nothing is faster than the general way."""


def spread_out(
    values: Floats, weights: Floats, rows: Integers, mean: float, total: float, n_rows: int
) -> Floats:
    """Return the weighted deviation of each row from the mean, as a part of the total weight.

    ``rows`` are the numbers of the rows that there are values of; others have none.
    """
    spread = np.zeros(n_rows)
    for start in range(0, len(rows), _BLOCK):
        some = slice(start, start + _BLOCK)
        deviation = values[some] - mean
        deviation *= weights[some]
        deviation /= total
        spread[rows[some]] = deviation
    return spread


def moments(
    level_set: Integers,
    n_level_sets: int,
    x: Floats,
    y: Floats,
    weights: Floats | None,
    means: Floats | None = None,
) -> Floats:
    """Return weighted sums (2, level sets) of ``x`` and ``y`` over the rows of each level set.

    With their means (2, level sets), of the squared deviation of ``x`` and the product of both.
    """
    first, second = x, y
    if means is not None:
        first = x - means[0][level_set]
        second = first * (y - means[1][level_set])
        first = first * first
    if weights is not None:
        first, second = weights * first, weights * second
    return np.array([np.bincount(level_set, one, n_level_sets) for one in (first, second)])


def level_sets_of(scores: Floats, edges: Floats) -> Integers:
    """Return how many of the edges, in order, are at most each score."""
    if len(scores) < _MANY or not (scores.min() >= 0 and scores.max() <= 1):
        return np.searchsorted(edges, scores, side="right").astype(np.int64)
    grid, level_set = Grid.of(edges, len(scores)), np.empty(len(scores), np.int64)
    for start in range(0, len(scores), _BLOCK):
        some, place = scores[start : start + _BLOCK], level_set[start : start + _BLOCK]
        cell = (some * grid.n_cells).astype(np.int32)
        place[:] = grid.first[cell]
        unsure = np.flatnonzero(grid.first[cell + 1] > place)
        place[unsure] = np.searchsorted(edges, some[unsure], side="right")
    return level_set


def first_of_each(order: Integers, codes: Integers, wanted: Integers) -> NDArray[np.bool_]:
    """Tell of each row whether it is, in the given order, among the first so many of its code."""
    order = order[order_by_code(codes[order])]
    size = np.bincount(codes, minlength=len(wanted))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    among = np.empty(len(order), bool)
    among[order] = rank < np.repeat(wanted, size)
    return among


def interpolate(knots: Floats, values: Floats, x: Floats) -> Floats:
    """Return the curve through ``values`` at two or more knots: linear between them, flat outside."""
    right = np.clip(np.searchsorted(knots, x), 1, len(knots) - 1)
    start, end = knots[right - 1], knots[right]
    # numpy.interp divides by the step first, which overflows where scores are denormal
    share = np.clip((x - start) / (end - start), 0, 1)
    low, high = values[right - 1], values[right]
    return np.asarray(low + share * (high - low), float)


def cumulative_sums(w: Floats, x: Floats, y: Floats) -> Floats:
    """Return the sums (5, m + 1) of w, w x, w x^2, w y and w x y before each score."""
    cumulative = np.zeros((5, len(x) + 1))
    for terms, sums in zip((w, w * x, w * x * x, w * y, w * x * y), cumulative, strict=True):
        np.cumsum(terms, out=sums[1:])
    return cumulative


def windowed_lines(
    x: Floats, rank: Floats, cumulative: Floats, windows: Floats
) -> tuple[Floats, Floats]:
    """Return the value at each ``x`` of the least-squares line through each window, and its leverage.

    A window is so much mass around the rank of ``x``, shifted at the ends. ``cumulative`` (5, m + 1)
    are sums of w, w x, w x^2, w y and w x y before each score. The results are (windows, m).
    """
    lines = [_lines(x, rank, cumulative, window) for window in windows.tolist()]
    return np.stack([fitted for fitted, _ in lines]), np.stack([leverage for _, leverage in lines])


def _lines(x: Floats, rank: Floats, cumulative: Floats, window: float) -> tuple[Floats, Floats]:
    start = np.clip(rank - window / 2, 0, max(cumulative[0, -1] - window, 0))
    own = np.arange(len(x))
    low = np.minimum(np.searchsorted(rank, start, side="left"), own)
    high = np.maximum(np.searchsorted(rank, start + window, side="right"), own + 1)
    weight, sx, sxx, sy, sxy = (sums[high] - sums[low] for sums in cumulative)
    share = 1 / weight
    x_mean, y_mean = sx * share, sy * share
    spread = sxx - sx * x_mean
    # else: rounding, a single score, or numbers too small to divide by
    steep = spread > max(1e-13 * cumulative[2, -1], LEAST_SPREAD)
    inverse = np.where(steep, 1 / np.where(steep, spread, 1.0), 0.0)
    slope, offset = (sxy - sx * y_mean) * inverse, x - x_mean
    return y_mean + slope * offset, share + offset * offset * inverse


def _values(values: Values, rows: Integers, column: NDArray[Any]) -> Floats:
    """Return one value of each row, each from a column of its own."""
    if not isinstance(values, tuple):
        return np.asarray(values[rows, column], float)
    found = np.empty(len(rows))
    for j in np.unique(column):
        here = column == j
        found[here] = values[j][rows[here]]
    return found


def row_keys(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return a number for each row that depends on all its values, and on nothing else.

    Equal values have equal keys whatever their precision; 0.0 and -0.0 are equal, and so are all
    missing values.
    """
    keys = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        bits = np.asarray(column, np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        bits[np.isnan(bits)] = np.nan
        keys ^= bits.view(np.uint64)
        keys *= _MIX[0]
        keys ^= keys >> np.uint64(32)
    for shift, factor in zip((30, 27), _MIX[1:], strict=True):
        keys ^= keys >> np.uint64(shift)
        keys *= factor
    keys ^= keys >> np.uint64(31)
    return keys


def extremes(values: NDArray[Any]) -> tuple[float, bool]:
    """Return the largest size of values side by side, and whether any is missing."""
    largest, some_missing = 0.0, False
    for start in range(0, len(values), _NUMBERS):
        part = values[start : start + _NUMBERS]
        high, low = np.maximum.reduce(part), np.minimum.reduce(part)
        if np.isnan(high):
            high, low, some_missing = np.fmax.reduce(part), np.fmin.reduce(part), True
        largest = max(largest, float(high), -float(low))  # what is all missing is not larger
    return largest, some_missing
