"""Histogram-based trees in NumPy, grown level by level: the reference for ``_trees.c``, bit for bit.

Features have one-byte codes: the number of edges (of 63) below the value for numbers, and one code for
each frequent category. Sums are integers, so that the order of addition does not matter. Gains are
computed by the same operations as in the compiled version, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.layout import order_by_code
from epiloss._typing import Codes, Floats

N_CODES, MISSING, RARE, N_EDGES = 64, 63, 62, 63
NUMBER, CATEGORY = 0, 1
SQUARED, ENTROPY = 0, 1
_AT_ONCE = 2**15  # number of codes, or of their sums, that are processed together

SPLIT = np.dtype([("gain", "f8"), ("feature", "i4"), ("code", "u1"), ("missing_left", "u1")], align=True)
GROWN = np.dtype(
    [
        ("first", "i8"),
        ("gain", "f8"),
        ("tree", "i4"),
        ("depth", "i4"),
        ("left", "i4"),
        ("feature", "i4"),
        ("code", "u1"),
        ("missing_left", "u1"),
    ],
    align=True,
)
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
Bytes = NDArray[np.uint8]
Records = NDArray[np.void]
Integers = NDArray[np.int64]


def grow(
    codes: Bytes,
    kinds: Bytes,
    rows: NDArray[np.int32],
    labels: Bytes,
    weights: Integers | None,
    starts: Integers,
    least: int,
    criterion: int,
    deepest: int,
) -> Records:
    """Grow trees of depth at most ``deepest``, with at least ``least`` rows in a leaf.

    ``codes`` has shape (columns, rows), and tree ``s`` is grown on ``rows[starts[s] : starts[s + 1]]``.
    ``labels`` and ``weights`` are in the order of ``rows``; all three may be reordered within a tree of
    depth above 1. The nodes are in any order. Each has the index of its first row, its tree and depth,
    its split with gain, and the index of its left child (-1 for a leaf). The right child follows.
    """
    growing = _Growing.from_roots(rows, labels, weights, starts)
    nodes = np.zeros(len(growing.node) + 2 * (len(growing.rows) // least), GROWN)
    n_nodes, depth = len(growing.node), 0
    nodes["first"][:n_nodes], nodes["tree"][:n_nodes] = growing.first, growing.node
    nodes["left"], nodes["gain"] = -1, -np.inf
    while depth < deepest and growing.keep_divisible(least):
        splits = _best_splits(codes, kinds, growing, least, criterion)
        growing.keep(splits["feature"] >= 0)
        splits, parents, depth = splits[splits["feature"] >= 0], growing.node, depth + 1
        growing.divide(codes, kinds, splits, n_nodes)
        children = growing.node
        for name in ("gain", "feature", "code", "missing_left"):
            nodes[name][parents] = splits[name]
        nodes["left"][parents] = children[::2]
        nodes["first"][children], nodes["depth"][children] = growing.first, depth
        nodes["tree"][children] = np.repeat(nodes["tree"][parents], 2)
        n_nodes += len(children)
    return nodes[:n_nodes]


@dataclass
class _Growing:
    """The rows of the nodes that can still be split, sorted by node.

    ``first`` is the index of a node's first row before other nodes were dropped. ``totals`` (nodes, 3)
    has the number of rows, the weight, and the weight of positive labels.
    """

    rows: Integers
    labels: Bytes
    weights: Integers | None
    starts: Integers
    node: Codes
    first: Integers
    totals: Integers = field(default_factory=lambda: np.empty((0, 3), np.int64))

    @classmethod
    def from_roots(
        cls, rows: NDArray[np.int32], labels: Bytes, weights: Integers | None, starts: Integers
    ) -> _Growing:
        inside, node = slice(starts[0], starts[-1]), np.arange(len(starts) - 1)
        weights = None if weights is None else weights[inside]
        indices = rows[inside].astype(np.int64)  # the integer type that NumPy uses as an index
        return cls(indices, labels[inside], weights, starts - starts[0], node, starts[:-1])

    def _totals(self) -> Integers:
        count = np.diff(self.starts)
        if self.weights is None:
            return np.stack([count, count, _sums(self.labels, self.starts)])
        weighted = _sums(self.weights * self.labels, self.starts)
        return np.stack([count, _sums(self.weights, self.starts), weighted])

    def keep_divisible(self, least: int) -> bool:
        """Drop the nodes that cannot be split; return whether any is left."""
        count, weight, ones = totals = self._totals()
        divisible = (count >= 2 * least) & (ones > 0) & (ones < weight)
        self.keep(divisible)
        self.totals = np.ascontiguousarray(totals[:, divisible].T)
        return len(self.node) > 0

    def divide(self, codes: Bytes, kinds: Bytes, splits: Records, n_nodes: int) -> None:
        """Split every node; the children are numbered from ``n_nodes``, pair by pair."""
        size = np.diff(self.starts)
        node = np.repeat(np.arange(len(splits)), size)
        left = goes_left(codes, kinds, splits[node], self.rows)
        order = order_by_code(2 * node + ~left)
        self.rows, self.labels = self.rows[order], self.labels[order]
        self.weights = None if self.weights is None else self.weights[order]
        n_left = np.bincount(node, left, len(splits)).astype(np.int64)
        self.node = n_nodes + np.arange(2 * len(splits))
        self.starts = offsets(np.stack([n_left, size - n_left], axis=1).ravel())
        self.first = np.stack([self.first, self.first + n_left], axis=1).ravel()

    def keep(self, nodes: NDArray[np.bool_]) -> None:
        """Drop all other nodes and their rows."""
        if nodes.all():
            return
        size = np.diff(self.starts)
        rows = np.repeat(nodes, size)
        self.rows, self.labels = self.rows[rows], self.labels[rows]
        self.weights = None if self.weights is None else self.weights[rows]
        self.starts, self.node, self.first = offsets(size[nodes]), self.node[nodes], self.first[nodes]


def goes_left(
    codes: Bytes, kinds: Bytes, split: Records, rows: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Return which rows go left at their split."""
    code = codes[split["feature"], rows]
    is_category = kinds[split["feature"]] == CATEGORY
    number_left = np.where(code == MISSING, split["missing_left"] > 0, code <= split["code"])
    return np.where(is_category, code == split["code"], number_left)


def _best_splits(codes: Bytes, kinds: Bytes, growing: _Growing, least: int, criterion: int) -> Records:
    """Return the best split of each node.

    Of equal gains, the first column is chosen, then the lowest code, then missing values on the right.
    """
    n_nodes = len(growing.node)
    node = np.repeat(np.arange(n_nodes), np.diff(growing.starts))
    cell = (growing.labels * np.int64(n_nodes) + node) * N_CODES
    best = np.zeros(n_nodes, SPLIT)
    best["gain"], best["feature"] = -np.inf, -1
    for first, last in _runs_of_one_kind(kinds, max(_AT_ONCE // max(len(cell), n_nodes * N_CODES), 1)):
        bins = _bins(codes[first:last].take(growing.rows, axis=1), cell, growing)
        found = _best_by_column(bins, int(kinds[first]), growing.totals, least, criterion)
        column = found["gain"].argmax(axis=0)
        winner = found[column, np.arange(n_nodes)]
        winner["feature"] = first + column
        better = winner["gain"] > best["gain"]
        best[better] = winner[better]
    return best


def _runs_of_one_kind(kinds: Bytes, most: int) -> list[tuple[int, int]]:
    """Divide the columns into runs of the same kind with at most ``most`` columns."""
    ends = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    return [
        (start, min(start + most, last))
        for first, last in pairwise(ends)
        for start in range(first, last, most)
    ]


def _best_by_column(bins: _Sums, kind: int, totals: Integers, least: int, criterion: int) -> Records:
    """Return the best split (columns, nodes) of each node by each column; the columns have one kind."""
    everything = _Sums(*totals.T[:, :, None])
    sides = _categories(bins) if kind == CATEGORY else _numbers(bins)
    gains = np.stack([_gains(left, everything, least, criterion) for left in sides], axis=-1)
    gains = gains.reshape(*gains.shape[:2], -1)
    code, variant = np.divmod(gains.argmax(axis=2), len(sides))
    best = np.empty(code.shape, SPLIT)
    best["gain"], best["code"] = gains.max(axis=2), code
    if kind == CATEGORY:
        best["missing_left"] = code == MISSING
    else:
        n_left = np.take_along_axis(sides[0].count, code[:, :, None], axis=2)[:, :, 0]
        is_missing = bins.count[:, :, MISSING] > 0
        best["missing_left"] = np.where(is_missing, variant, 2 * n_left >= totals[:, 0])
    return best


@dataclass(frozen=True)
class _Sums:
    """Numbers of rows, weights, and weights of positive labels, each (columns, nodes, codes)."""

    count: Integers
    weight: Integers
    ones: Integers

    def __sub__(self, other: _Sums) -> _Sums:
        count = self.count - other.count
        weight = count if other.weight is other.count else self.weight - other.weight
        return _Sums(count, weight, self.ones - other.ones)

    def map(self, change: Callable[[Integers], Integers]) -> _Sums:
        """Apply a function to each sum; the weight stays the same array as the count if it was."""
        count = change(self.count)
        weight = count if self.weight is self.count else change(self.weight)
        return _Sums(count, weight, change(self.ones))


def _bins(codes: Bytes, cell: Integers, growing: _Growing) -> _Sums:
    """Return the sums (columns, nodes, codes) over rows with codes (columns, rows).

    ``cell`` is the index of a row's node and label among the bins.
    """
    k, n_cells = len(codes), 2 * len(growing.node) * N_CODES
    index = codes + cell
    if k > 1:
        index += np.arange(k)[:, None] * n_cells

    def added(weights: Integers | None = None) -> Integers:
        # Sums of integers below 2^53 are exact in floating point.
        repeated = None if weights is None else np.tile(weights, k)
        sums = np.bincount(index.ravel(), repeated, k * n_cells).astype(np.int64, copy=False)
        return sums.reshape(k, 2, -1, N_CODES)

    counts = added()
    count = counts[:, 0] + counts[:, 1]
    if growing.weights is None:
        return _Sums(count, count, counts[:, 1])
    weights = added(growing.weights)
    return _Sums(count, weights[:, 0] + weights[:, 1], weights[:, 1])


def _categories(bins: _Sums) -> list[_Sums]:
    """Return the sums on the left if one category goes left; rare categories always go right."""
    return [bins.map(lambda sums: np.where(np.arange(N_CODES) == RARE, 0, sums))]


def _numbers(bins: _Sums) -> list[_Sums]:
    """Return the sums on the left of each edge, without and (if there are any) with missing values."""
    left = bins.map(lambda sums: _without_last(sums.cumsum(axis=2)))
    missing = bins.count[:, :, [MISSING]] > 0
    if not missing.any():
        return [left]
    both = missing & (left.count > 0)
    sums = zip((left.count, left.weight, left.ones), (bins.count, bins.weight, bins.ones), strict=True)
    return [left, _Sums(*(np.where(both, below + own[:, :, [MISSING]], 0) for below, own in sums))]


def _without_last(sums: Integers) -> Integers:
    sums[:, :, MISSING] = 0
    return sums


def _gains(left: _Sums, everything: _Sums, least: int, criterion: int) -> Floats:
    right = everything - left
    valid = (left.count >= least) & (right.count >= least)
    if left.weight is not left.count:
        valid &= (left.weight > 0) & (right.weight > 0)
    sides = (left.weight, left.ones, right.weight, right.ones)
    if criterion == SQUARED:
        with np.errstate(divide="ignore", invalid="ignore"):  # a side may have no rows
            return np.where(valid, _squared(*(part.astype(float) for part in sides)), -np.inf)
    gain = np.full(valid.shape, -np.inf)
    gain[valid] = _entropy(*(part[valid].astype(float) for part in sides))
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
    """Return ``x log(x)`` by basic operations, which give the same result on every machine."""
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


def offsets(sizes: NDArray[Any]) -> Integers:
    """Return the start of each part of the given sizes, and the end of the last one."""
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def _sums(values: NDArray[Any], starts: Integers) -> Integers:
    """Return the sum over the rows of each node; nodes may be empty."""
    sums = np.zeros(len(starts) - 1, np.int64)
    some = starts[1:] > starts[:-1]
    if len(values):
        sums[some] = np.add.reduceat(values, starts[:-1][some], dtype=np.int64)
    return sums
