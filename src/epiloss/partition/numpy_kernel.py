"""The inner loops in NumPy, of histogram trees, sums, folds and curves: the reference, bit for bit.

``_kernel.c`` and ``_passes.c`` do the same faster.

A column of features has one-byte codes: for numbers, how many of its 63 edges lie below the value; for
categories, one code for each frequent one. Sums are integers, so that no order of adding matters, and
gains are computed by the operations of the compiled version in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.features import Features
from epiloss.levelsets import order_by_code
from epiloss.scoring import Floats

N_CODES, MISSING, RARE, N_EDGES = 64, 63, 62, 63
NUMBER, CATEGORY = 0, 1
SQUARED, ENTROPY = 0, 1

LIMB = 2.0**20  # sums of fractions are whole numbers of 2**-40, in two limbs

SPLIT = np.dtype([("gain", "f8"), ("feature", "i4"), ("code", "u1"), ("missing_left", "u1")], align=True)
NODE = np.dtype(
    [
        ("threshold", "f8"),
        ("feature", "i4"),
        ("left", "i4"),
        ("right", "i4"),
        ("kind", "u1"),
        ("missing_left", "u1"),
    ],
    align=True,
)
Records = NDArray[np.void]
Integers = NDArray[np.int64]


def encode(
    features: Features, rows: Integers, starts: Integers, edges: Floats, codes: NDArray[np.uint8]
) -> None:
    """Write the codes (columns, rows) of some rows, those of level set ``s`` from ``starts[s]`` on."""
    chosen = features.take(rows)
    for j in range(features.n_columns):
        column = chosen.column(j)
        for s, (first, last) in enumerate(pairwise(starts.tolist())):
            # what is missing sorts behind all edges
            codes[j, first:last] = np.searchsorted(edges[s, j], column[first:last])


def best_splits(
    codes: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    first: int,
    last: int,
    rows: NDArray[np.int32],
    starts: Integers,
    labels: NDArray[np.uint8],
    weights: Integers | None,
    least: int,
    criterion: int,
    totals: Integers,
) -> Records:
    """Return the best split of each node among the columns from ``first`` to before ``last``.

    ``totals`` (nodes, 3) are counts, weights and weighted ones. On a tie the first column wins, then
    the lowest code, then missing values on the right.
    """
    n_nodes = len(starts) - 1
    best = np.zeros(n_nodes, SPLIT)
    best["gain"], best["feature"] = -np.inf, -1
    cell = np.repeat(np.arange(n_nodes) * N_CODES, np.diff(starts))
    everything = _Sums(*totals.T[:, :, None])
    for j in range(first, last):
        bins = _bins(cell + codes[j, rows], labels, weights, n_nodes)
        sides = _categories(bins) if kinds[j] == CATEGORY else _numbers(bins)
        gains = np.stack([_gains(left, everything, least, criterion) for left in sides], axis=2)
        found = gains.reshape(n_nodes, -1).argmax(axis=1)
        code, variant = found // len(sides), found % len(sides)
        gain = gains[np.arange(n_nodes), code, variant]
        winner = np.flatnonzero(gain > best["gain"])
        code, variant = code[winner], variant[winner]
        best["gain"][winner], best["feature"][winner], best["code"][winner] = gain[winner], j, code
        if kinds[j] == CATEGORY:
            best["missing_left"][winner] = code == MISSING
        else:
            larger = 2 * sides[0].count[winner, code] >= totals[winner, 0]
            best["missing_left"][winner] = np.where(bins.count[winner, MISSING] > 0, variant, larger)
    return best


@dataclass(frozen=True)
class _Sums:
    """Counts, weights and weighted ones, each (nodes, codes)."""

    count: Integers
    weight: Integers
    ones: Integers

    def __sub__(self, other: _Sums) -> _Sums:
        return _Sums(self.count - other.count, self.weight - other.weight, self.ones - other.ones)

    def map(self, change: Callable[[Integers], Integers]) -> _Sums:
        """Return the sums, each changed; what is one array stays one."""
        count = change(self.count)
        weight = count if self.weight is self.count else change(self.weight)
        return _Sums(count, weight, change(self.ones))


def _bins(key: Integers, labels: NDArray[np.uint8], weights: Integers | None, n_nodes: int) -> _Sums:
    """Return the sums of each code in each node."""
    shape, size = (n_nodes, N_CODES), n_nodes * N_CODES
    pairs = np.bincount(2 * key + labels, minlength=2 * size).reshape(*shape, 2)
    count = pairs[:, :, 0] + pairs[:, :, 1]
    if weights is None:
        return _Sums(count, count, pairs[:, :, 1])
    # sums of integers below 2^53 are exact as floats
    weight, ones = (
        np.bincount(key, values, size).astype(np.int64).reshape(shape)
        for values in (weights, weights * labels)
    )
    return _Sums(count, weight, ones)


def _categories(bins: _Sums) -> list[_Sums]:
    """Return what goes left if one category does; the rare ones never do."""
    return [bins.map(lambda sums: np.where(np.arange(N_CODES) == RARE, 0, sums))]


def _numbers(bins: _Sums) -> list[_Sums]:
    """Return what goes left below each edge: without, and where there are any with, what is missing."""
    left = bins.map(lambda sums: _without_last(sums.cumsum(axis=1)))
    missing = bins.count[:, [MISSING]] > 0
    if not missing.any():
        return [left]
    both = missing & (left.count > 0)
    sums = zip((left.count, left.weight, left.ones), (bins.count, bins.weight, bins.ones), strict=True)
    return [left, _Sums(*(np.where(both, below + own[:, [MISSING]], 0) for below, own in sums))]


def _without_last(sums: Integers) -> Integers:
    sums[:, MISSING] = 0
    return sums


def _gains(left: _Sums, everything: _Sums, least: int, criterion: int) -> Floats:
    right = everything - left
    valid = (left.count >= least) & (right.count >= least) & (left.weight > 0) & (right.weight > 0)
    gain = np.full(valid.shape, -np.inf)
    sides = [part[valid].astype(float) for side in (left, right) for part in (side.weight, side.ones)]
    gain[valid] = _squared(*sides) if criterion == SQUARED else _entropy(*sides)
    return gain


def _squared(left: Floats, left_ones: Floats, right: Floats, right_ones: Floats) -> Floats:
    a = left_ones * left_ones * right
    b = right_ones * right_ones * left
    return (a + b) / (left * right)


def _entropy(left: Floats, left_ones: Floats, right: Floats, right_ones: Floats) -> Floats:
    a = _x_log_x(left_ones) + _x_log_x(left - left_ones) - _x_log_x(left)
    b = _x_log_x(right_ones) + _x_log_x(right - right_ones) - _x_log_x(right)
    return a + b


def _x_log_x(x: Floats) -> Floats:
    """Return ``x log(x)`` by basic operations only, which every machine computes alike."""
    m, exponent = np.frexp(np.where(x > 0, x, 1.0))
    small = m < 0.70710678118654752
    m, exponent = np.where(small, m * 2.0, m), np.where(small, exponent - 1, exponent)
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    series = np.full_like(s, 1.0 / 15.0)
    for k in range(13, 0, -2):
        series = series * t + 1.0 / k
    logarithm = 2.0 * s * series + exponent.astype(float) * 0.69314718055994531
    return np.where(x > 0, x * logarithm, 0.0)


def split_rows(
    codes: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    splits: Records,
    rows: NDArray[np.int32],
    labels: NDArray[np.uint8],
    weights: Integers | None,
    starts: Integers,
) -> Integers:
    """Bring the rows of each node that go left to its front, in place; return where the right begins."""
    node = np.repeat(np.arange(len(splits)), np.diff(starts))
    split = splits[node]
    code = codes[split["feature"], rows]
    is_category = kinds[split["feature"]] == CATEGORY
    number_left = np.where(code == MISSING, split["missing_left"] > 0, code <= split["code"])
    left = np.where(is_category, code == split["code"], number_left) | (split["feature"] < 0)
    order = np.argsort(2 * node + ~left, kind="stable")
    for array in (rows, labels, weights):
        if array is not None:
            array[:] = array[order]
    return np.asarray(starts[:-1] + np.bincount(node, left, len(splits)).astype(np.int64), np.int64)


def apply(features: Features, nodes: Records, leaves: NDArray[np.int32]) -> None:
    """Let each row go down from the node that ``leaves`` holds to its leaf, in place."""
    below = np.flatnonzero(nodes["left"][leaves] >= 0)
    while len(below):
        node = nodes[leaves[below]]
        x = _values(features, below, node["feature"])
        inside = np.where(node["kind"] == CATEGORY, x == node["threshold"], x <= node["threshold"])
        left = np.where(np.isnan(x), node["missing_left"] > 0, inside)
        leaves[below] = np.where(left, node["left"], node["right"])
        below = below[nodes["left"][leaves[below]] >= 0]


def add_fixed_point(code: Integers, values: Floats, high: Integers, low: Integers) -> None:
    """Add values, rounded to 2**-40, to the cells: steps of 2**-20 to ``high``, the rest to ``low``."""
    steps = np.rint(values * (LIMB * LIMB))
    whole = np.floor(steps / LIMB)
    # whole numbers below 2**53, so float64 bincount adds them exactly in any order
    high += np.bincount(code, whole, len(high)).astype(np.int64)
    low += np.bincount(code, steps - whole * LIMB, len(low)).astype(np.int64)


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
    spread = sxx - sx * sx / weight
    steep = spread > 1e-13 * cumulative[2, -1]  # else: rounding, or a single score
    safe = np.where(steep, spread, 1.0)
    slope = np.where(steep, (sxy - sx * sy / weight) / safe, 0.0)
    offset = x - sx / weight
    leverage = 1 / weight + np.where(steep, offset * offset / safe, 0.0)
    return sy / weight + slope * offset, leverage


def _values(features: Features, rows: Integers, column: NDArray[Any]) -> Floats:
    """Return one value of each row, each from a column of its own."""
    rows = rows if features.rows is None else features.rows[rows]
    if not isinstance(features.source, tuple):
        return np.asarray(features.source[rows, column], float)
    values = np.empty(len(rows))
    for j in np.unique(column):
        here = column == j
        values[here] = features.source[j][rows[here]]
    return values
