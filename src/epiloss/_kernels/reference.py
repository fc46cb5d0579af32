"""The inner loops in NumPy: the reference for the compiled loops, which must agree bit for bit.

``_kernel.c``, ``_trees.c`` and ``_passes.c`` are the faster versions.
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

ROWS_PER_CELL = 2  # rows are added in blocks of at least this many per cell, as each cell costs time
LIMB = 2.0**20  # fixed-point sums are multiples of 2**-40, stored in two limbs
_VALUES = 2**19  # number of values that are copied at a time
_MANY = 2_000  # number of scores from which a grid is faster than bisection
_BLOCK = 2**14  # number of scores that fit into the cache
LEAST_SPREAD = 1e-290  # smallest spread of a window for which a slope is computed
_NUMBERS = 2**15  # number of values that fit into the cache
# Odd numbers that mix bits well; the last two are from splitmix64 (Steele, Lea and Flood, 2014).
_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


def gather(block: NDArray[Any], samples: Sequence[Integers]) -> NDArray[Any]:
    """Return the values of samples (samples, columns, rows), padded with NaN to equal sizes."""
    most = max(map(len, samples))
    whole = np.full((len(samples), block.shape[1], most), np.nan, block.dtype)
    for sample, target in zip(samples, whole, strict=True):
        target[:, : len(sample)] = block[sample].T
    return whole


def edges_among(ordered: NDArray[Any]) -> Floats:
    """Return the quantile edges (..., 63) of sorted values (..., rows) of at least two rows."""
    shape = (*ordered.shape[:-1], N_EDGES)
    ordered = ordered.reshape(-1, ordered.shape[-1])
    d, n = ordered.shape
    edges = np.full((d, N_EDGES), np.inf)
    present = n - np.isnan(ordered).sum(axis=1)  # NaN is sorted last
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
    """Return the midpoint, or ``low`` if no number lies between."""
    middle = low / 2 + high / 2
    return np.where((low <= middle) & (middle < high), middle, low)


def encode(
    values: Values, rows: Integers, starts: Integers, edges: Floats, codes: NDArray[np.uint8]
) -> None:
    """Write the codes (columns, rows) of rows; those of level set ``s`` start at ``starts[s]``."""
    d = codes.shape[0]
    at_once = max(_VALUES // max(len(rows), 1), 1)
    for j in range(d):
        if j % at_once == 0:  # copy several columns together, because they are adjacent in memory
            block = _columns(values, rows, j, min(j + at_once, d))
        column = block[j % at_once]
        for s, (first, last) in enumerate(pairwise(starts.tolist())):
            # NaN is sorted behind all edges.
            codes[j, first:last] = edges[s, j].searchsorted(column[first:last])


def _columns(values: Values, rows: Integers, first: int, last: int) -> Sequence[NDArray[Any]]:
    """Return contiguous copies of some columns of some rows."""
    if isinstance(values, tuple):
        return [values[j][rows] for j in range(first, last)]
    return list(np.ascontiguousarray(values[:, first:last][rows].T))


def apply(values: Values, rows: Integers, nodes: Records, leaves: NDArray[np.int32]) -> None:
    """Move each row from its node in ``leaves`` down to its leaf, in place."""
    below = np.flatnonzero(nodes["left"][leaves] >= 0)
    while len(below):
        node = nodes[leaves[below]]
        x = _values(values, rows[below], node["feature"])
        inside = np.where(node["kind"] == CATEGORY, x == node["threshold"], x <= node["threshold"])
        left = np.where(np.isnan(x), node["missing_left"] > 0, inside)
        leaves[below] = np.where(left, node["left"], node["right"])
        below = below[nodes["left"][leaves[below]] >= 0]


def add_fixed_point(code: Integers, values: Floats, high: Integers, low: Integers) -> bool:
    """Add values to the sums of cells in fixed point, in limbs of 2**-20 (``high``) and below (``low``).

    Values are rounded to multiples of 2**-40. Returns False, and adds nothing, if a value is not finite.
    """
    if not np.isfinite(values).all():
        return False
    steps = np.rint(values * (LIMB * LIMB))
    whole = np.floor(steps / LIMB)
    # These are integers below 2**53, so that bincount adds them exactly in any order.
    high += np.bincount(code, whole, len(high)).astype(np.int64)
    low += np.bincount(code, steps - whole * LIMB, len(low)).astype(np.int64)
    return True


def add_brier(*rows: object) -> bool:
    """Return False, as nothing was added: NumPy has no faster way than field by field."""
    return False


def brier_terms(*rows: object) -> None:
    """Return None: NumPy has no faster way than the general one."""


def spread_out(
    values: Floats, weights: Floats, rows: Integers, mean: float, total: float, n_rows: int
) -> Floats:
    """Return the weighted deviation of each row from the mean, divided by the total weight.

    ``rows`` are the indices of the rows that have values; all other rows get 0.
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

    If ``means`` (2, level sets) are given, return instead the sums of the squared deviations of ``x``
    and of the products of the deviations of ``x`` and ``y``.
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
    """Return the number of sorted edges that are at most each score."""
    if len(scores) < _MANY or not (scores.min() >= 0 and scores.max() <= 1):
        return np.searchsorted(edges, scores, side="right").astype(np.int64)
    grid, level_set = Grid.of(edges, len(scores)), np.empty(len(scores), np.int64)
    for start in range(0, len(scores), _BLOCK):
        some, target = scores[start : start + _BLOCK], level_set[start : start + _BLOCK]
        cell = (some * grid.n_cells).astype(np.int32)
        target[:] = grid.first[cell]
        unsure = np.flatnonzero(grid.first[cell + 1] > target)
        target[unsure] = np.searchsorted(edges, some[unsure], side="right")
    return level_set


def first_of_each(order: Integers, codes: Integers, wanted: Integers) -> NDArray[np.bool_]:
    """Return which rows are among the first ``wanted[code]`` rows of their code, in the given order."""
    order = order[order_by_code(codes[order])]
    size = np.bincount(codes, minlength=len(wanted))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    among = np.empty(len(order), bool)
    among[order] = rank < np.repeat(wanted, size)
    return among


def interpolate(knots: Floats, values: Floats, x: Floats) -> Floats:
    """Interpolate ``values`` at two or more knots linearly; the curve is constant outside the knots."""
    right = np.clip(np.searchsorted(knots, x), 1, len(knots) - 1)
    start, end = knots[right - 1], knots[right]
    # numpy.interp divides by the step first, which overflows for denormal scores.
    share = np.clip((x - start) / (end - start), 0, 1)
    low, high = values[right - 1], values[right]
    return np.asarray(low + share * (high - low), float)


def cumulative_sums(w: Floats, x: Floats, y: Floats) -> Floats:
    """Return the cumulative sums (5, m + 1) of w, w x, w x^2, w y and w x y before each score."""
    cumulative = np.zeros((5, len(x) + 1))
    for terms, sums in zip((w, w * x, w * x * x, w * y, w * x * y), cumulative, strict=True):
        np.cumsum(terms, out=sums[1:])
    return cumulative


def windowed_lines(
    x: Floats, rank: Floats, cumulative: Floats, windows: Floats
) -> tuple[Floats, Floats]:
    """Return the value at each ``x`` of the least-squares line in its window, and its leverage.

    A window contains the given weight, centred at the rank of ``x`` and shifted at the ends.
    ``cumulative`` is the result of ``cumulative_sums``. The results have shape (windows, m).
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
    # Smaller spreads are rounding errors, single scores, or too small to divide by.
    steep = spread > max(1e-13 * cumulative[2, -1], LEAST_SPREAD)
    inverse = np.where(steep, 1 / np.where(steep, spread, 1.0), 0.0)
    slope, offset = (sxy - sx * y_mean) * inverse, x - x_mean
    return y_mean + slope * offset, share + offset * offset * inverse


def _values(values: Values, rows: Integers, column: NDArray[Any]) -> Floats:
    """Return one value per row, from the column given for that row."""
    if not isinstance(values, tuple):
        return np.asarray(values[rows, column], float)
    found = np.empty(len(rows))
    for j in np.unique(column):
        here = column == j
        found[here] = values[j][rows[here]]
    return found


def row_keys(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return a hash of each row that depends only on its values.

    Equal values have equal hashes in single and double precision. 0.0 and -0.0 are equal, and so are
    all missing values.
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
    """Return the largest absolute value of a contiguous array, and whether any value is missing."""
    largest, some_missing = 0.0, False
    for start in range(0, len(values), _NUMBERS):
        part = values[start : start + _NUMBERS]
        high, low = np.maximum.reduce(part), np.minimum.reduce(part)
        if np.isnan(high):
            high, low, some_missing = np.fmax.reduce(part), np.fmin.reduce(part), True
        # If all values are missing, NaN does not compare as larger.
        largest = max(largest, float(high), -float(low))
    return largest, some_missing
