"""The inner loops of the histogram trees in NumPy: the reference for ``_kernel.c``, bit for bit.

A column of features has one-byte codes: for numbers, how many of its 63 edges lie below the value; for
categories, one code for each frequent one. Sums are integers, so that no order of adding matters, and
gains are computed by the operations of the compiled version in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.features import Features
from epiloss.scoring import Floats

N_CODES, MISSING, RARE, N_EDGES = 64, 63, 62, 63
NUMBER, CATEGORY = 0, 1
SQUARED, ENTROPY = 0, 1

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
    features: Features, rows: Integers, edges: Floats, first: int, last: int, codes: NDArray[np.uint8]
) -> None:
    """Write the codes of some rows, in the columns from ``first`` to before ``last``."""
    chosen = features.take(rows)
    for j in range(first, last):
        codes[j] = np.searchsorted(
            edges[j - first], chosen.column(j)
        )  # what is missing sorts behind all edges


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
    cell = np.repeat(np.arange(n_nodes), np.diff(starts)) * N_CODES
    for j in range(first, last):
        bins = _bins(cell + codes[j, rows], labels, weights, n_nodes)
        left, missing_left = _candidates(bins, kinds[j], totals)
        gain = _gains(left, totals[:, None, :], least, criterion)
        found = gain.argmax(axis=1)
        each = np.arange(n_nodes)
        better = gain[each, found] > best["gain"]
        winner, found = each[better], found[better]
        code, variant = found >> 1, found & 1
        best["gain"][winner] = gain[winner, found]
        best["feature"][winner], best["code"][winner] = j, code
        no_choice = bins[winner, MISSING, 0] == 0
        count = left[winner, found, 0]
        larger = 2 * count >= totals[winner, 0]
        chosen = missing_left[code, variant]
        is_number = kinds[j] == NUMBER
        best["missing_left"][winner] = np.where(no_choice & is_number, larger, chosen)
    return best


def _bins(key: Integers, labels: NDArray[np.uint8], weights: Integers | None, n_nodes: int) -> Integers:
    """Return (nodes, codes, 3): the counts, weights and weighted ones."""
    size = n_nodes * N_CODES
    pairs = np.bincount(2 * key + labels, minlength=2 * size).reshape(n_nodes, N_CODES, 2)
    count = pairs.sum(axis=2)
    if weights is None:
        return np.stack([count, count, pairs[:, :, 1]], axis=2)
    # sums of integers below 2^53 are exact as floats
    weight, ones = (
        np.bincount(key, values, size).astype(np.int64).reshape(n_nodes, N_CODES)
        for values in (weights, weights * labels)
    )
    return np.stack([count, weight, ones], axis=2)


def _candidates(bins: Integers, kind: int, totals: Integers) -> tuple[Integers, NDArray[np.uint8]]:
    """Return what goes left in each of 2 x 64 splits (nodes, 128, 3), and missing values' side."""
    if kind == CATEGORY:
        left = bins.copy()
        left[:, RARE] = 0
        missing_left = np.zeros((N_CODES, 2), np.uint8)
        missing_left[MISSING] = 1
        other = np.zeros_like(left)
    else:
        left = bins.cumsum(axis=1)
        left[:, MISSING] = 0
        missing_left = np.tile(np.array([0, 1], np.uint8), (N_CODES, 1))
        missing = bins[:, [MISSING]]
        both_present = (missing[:, :, [0]] > 0) & (left[:, :, [0]] > 0)
        other = np.where(both_present, left + missing, 0)
    both = np.stack([left, other], axis=2)
    return both.reshape(len(bins), 2 * N_CODES, 3), missing_left


def _gains(left: Integers, totals: Integers, least: int, criterion: int) -> Floats:
    right = totals - left
    valid = (left[..., 0] >= least) & (right[..., 0] >= least) & (left[..., 1] > 0) & (right[..., 1] > 0)
    sides = [side[..., field].astype(float)[valid] for side in (left, right) for field in (1, 2)]
    gain = np.full(valid.shape, -np.inf)
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
