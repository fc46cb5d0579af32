"""Gradient-boosted histogram trees in NumPy: the reference for ``_boost.c``, bit for bit.

Gradients and hessians are summed as integers, so that the order of addition does not matter. Gains,
values and probabilities are computed by the same operations as in the compiled version, in the same
order. The unit is a power of 2 such that sums have 31 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import MISSING, N_CODES, Bytes, Records
from epiloss._typing import Floats

BITS, MOST_LEAVES = 30, 64
NO_GAIN = np.float32(0.0)
SMALLER = np.float32(2.0**-16)  # scale of gradients at which their squares do not overflow
TINY = np.float32(1e-6)  # minimum gain of a split, relative to what its leaf explains
BOOSTED = np.dtype(
    [("value", "f8"), ("left", "i4"), ("feature", "i4"), ("code", "u1"), ("missing_left", "u1")],
    align=True,
)
# The leaves of the compiled version, which uses memory allocated by Python.
LEAF = np.dtype(
    [
        *((name, "i8") for name in ("first", "n", "all", "left")),
        ("gain", "f4"),
        *((name, "i4") for name in ("node", "depth", "place", "column")),
        ("code", "u1"),
        ("missing_left", "u1"),
    ],
    align=True,
)
Places = NDArray[np.int32]


@dataclass(frozen=True)
class Growth:
    """How trees grow: leaves have a hessian of at least ``least``, and splits gain more than ``worth``.

    Trees have at most 64 leaves, and ``least`` must be positive.
    """

    n_trees: int
    n_leaves: int
    deepest: int
    rate: float
    ridge: float
    least: float
    worth: float = 0.0

    def __post_init__(self) -> None:
        assert self.n_leaves <= MOST_LEAVES
        assert self.least > 0

    @property
    def settings(self) -> Floats:
        """The settings that are passed to the compiled loops as one array."""
        return np.array([self.rate, self.ridge, self.least, self.worth])


def no_trees(growth: Growth) -> Records:
    """Return the nodes (trees, nodes) of trees that consist of a single leaf of value 0."""
    nodes = np.zeros((growth.n_trees, 2 * growth.n_leaves - 1), BOOSTED)
    nodes["left"] = -1
    return nodes


def boost(
    codes: Bytes,
    columns: Places,
    target: Floats,
    weight: Floats,
    offset: Floats | None,
    total: Floats,
    growth: Growth,
) -> Records:
    """Boost trees on codes (columns, rows), using some of the columns; return their nodes.

    Without ``offset``, the loss is quadratic: the gradient is ``target - weight * total`` and the
    hessian ``weight``. With an ``offset`` of log-odds, ``target`` is a label and the loss is the
    weighted log-loss. ``total`` is the sum of the trees for each row; it is updated in
    place.
    """
    nodes = no_trees(growth)
    for tree in nodes:
        gradient, hessian = target - weight * total, weight
        if offset is not None:
            p = plain_expit(offset + total)
            gradient, hessian = weight * (target - p), weight * (p * (1.0 - p))
        g_unit, h_unit = _units(gradient), _units(hessian)
        pairs = np.rint(np.stack([gradient * g_unit, hessian * h_unit])).astype(np.int64)
        worth = growth.worth * g_unit * g_unit / h_unit * float(SMALLER) ** 2
        in_units = replace(growth, ridge=growth.ridge * h_unit, least=growth.least * h_unit, worth=worth)
        for leaf in _grown(codes, columns, pairs, tree, in_units):
            value = growth.rate * (leaf.g / g_unit / (leaf.h / h_unit + growth.ridge))
            tree["value"][leaf.node] = value
            total[leaf.rows] += value
    return nodes


def _units(numbers: Floats) -> float:
    """Return the inverse of the unit in which the sum of these numbers fits into 30 bits."""
    largest = float(np.abs(numbers).max(initial=0.0))
    return float(np.ldexp(1.0, BITS - np.frexp(len(numbers) * largest)[1])) if largest > 0 else 1.0


def boosted(codes: Bytes, rows: Places | None, nodes: Records, total: Floats) -> None:
    """Add the predictions of trees to the totals of rows, in place; by default of all rows."""
    rows = np.arange(codes.shape[1], dtype=np.int32) if rows is None else rows
    for tree in nodes:
        at = np.zeros(len(rows), np.int64)
        below = np.flatnonzero(tree["left"][at] >= 0)
        while len(below):
            node = tree[at[below]]
            code = codes[node["feature"], rows[below]]
            left = np.where(code == MISSING, node["missing_left"] > 0, code <= node["code"])
            at[below] = node["left"] + ~left
            below = below[tree["left"][at[below]] >= 0]
        total += tree["value"][at]


def added_up(codes: Bytes, table: NDArray[np.float32], total: Floats) -> None:
    """Add ``table[column, code]``, summed over columns, to the totals of rows."""
    for column, values in zip(codes, table, strict=True):
        total += values[column]


def single_splits(codes: Bytes, gradient: Floats, hessian: Floats) -> NDArray[np.float32]:
    """Return the gain of the best single split of all rows by each column, in arbitrary units."""
    pairs = np.rint(np.stack([gradient * _units(gradient), hessian * _units(hessian)])).astype(np.int64)
    growth = Growth(1, 2, 1, 1.0, ridge=1.0, least=0.5)  # in integer units: positive weight on each side
    gains = np.zeros(len(codes), np.float32)
    every = np.arange(pairs.shape[1])
    for j in range(len(codes)):
        leaf = _Leaf.of(every, pairs, 0, 0)
        _scan(codes, np.array([j], np.int32), pairs, leaf, growth)
        gains[j] = leaf.gain
    return gains


def plain_expit(x: Floats) -> Floats:
    """Return the logistic function, computed by the same basic operations as the compiled version.

    Examples
    --------
    >>> plain_expit(np.array([0.0, 2.0, -50.0])).round(6).tolist()
    [0.5, 0.880797, 0.0]
    """
    x = -np.clip(x, -36.0, 36.0)
    k = np.rint(x * 1.4426950408889634)
    f = (x - k * 0.693145751953125) - k * 1.4286068203094172e-06
    series = np.ones_like(x)
    for i in range(13, 0, -1):
        series = 1.0 + series * f / float(i)
    expit: Floats = 1.0 / (1.0 + np.ldexp(series, k.astype(np.int64)))
    return expit


@dataclass
class _Leaf:
    rows: NDArray[np.int64]
    g: int
    h: int
    node: int
    depth: int
    gain: np.float32 = NO_GAIN
    column: int = -1
    code: int = 0
    missing_left: int = 0

    @classmethod
    def of(cls, rows: NDArray[np.int64], pairs: NDArray[np.int64], node: int, depth: int) -> _Leaf:
        g, h = pairs[:, rows].sum(axis=1).tolist()
        return cls(rows, g, h, node, depth)


def _grown(
    codes: Bytes, columns: Places, pairs: NDArray[np.int64], tree: Records, growth: Growth
) -> list[_Leaf]:
    """Grow one tree by splitting the leaf with the largest gain first."""
    everything = np.arange(pairs.shape[1])
    leaves = [_Leaf.of(everything, pairs, 0, 0)]
    n_nodes = 1
    _scan(codes, columns, pairs, leaves[0], growth)
    while len(leaves) < growth.n_leaves:
        best = int(np.argmax([leaf.gain for leaf in leaves]))
        leaf = leaves[best]
        if leaf.column < 0 or not leaf.gain > growth.worth:
            break
        code = codes[columns[leaf.column], leaf.rows]
        left = np.where(code == MISSING, leaf.missing_left > 0, code <= leaf.code)
        tree[leaf.node] = (0.0, n_nodes, columns[leaf.column], leaf.code, leaf.missing_left)
        children = []
        for k, side in enumerate((left, ~left)):
            children.append(_Leaf.of(leaf.rows[side], pairs, n_nodes + k, leaf.depth + 1))
        if len(leaves) + 1 < growth.n_leaves and leaf.depth + 1 < growth.deepest:
            for child in children:
                if float(child.h) >= 2 * growth.least:
                    _scan(codes, columns, pairs, child, growth)
        leaves[best] = children[0]
        leaves.append(children[1])
        n_nodes += 2
    return leaves


def _scan(codes: Bytes, columns: Places, pairs: NDArray[np.int64], leaf: _Leaf, growth: Growth) -> None:
    """Find the best split of a leaf.

    Of equal gains, the first column is chosen, then missing values on the right, then the lowest code.
    """
    g, h, ridge, least = np.array([leaf.g, leaf.h, growth.ridge, growth.least], np.float32)
    g = g * SMALLER
    whole = g * g / (h + ridge)
    leaf.gain = TINY * whole  # smaller gains are rounding errors
    some = pairs[:, leaf.rows]
    for j, column in enumerate(columns):
        bins = np.zeros((2, N_CODES), np.int64)
        code = codes[column, leaf.rows]
        np.add.at(bins[0], code, some[0])
        np.add.at(bins[1], code, some[1])
        below, missing = np.cumsum(bins[:, :MISSING], axis=1), bins[:, MISSING:]
        present = bool(missing.any())  # rows of very small weight may round to 0
        for side in range(2 if present else 1):
            left_g, left_h = (below + side * missing).astype(np.float32)
            left_g = left_g * SMALLER
            right_g, right_h = g - left_g, h - left_h
            left, right = left_h + ridge, right_h + ridge
            # Weights near 0 overflow, as in the compiled version.
            with np.errstate(over="ignore", invalid="ignore"):
                both = (left_g * left_g * right + right_g * right_g * left) / (left * right) - whole
            gain = np.where((left_h >= least) & (right_h >= least), both, np.float32(-1.0))
            if not gain.max() > leaf.gain:
                continue
            best = int(gain.argmax())
            leaf.gain, leaf.column, leaf.code = gain[best], j, best
            larger_left = left_h[best] >= right_h[best]
            leaf.missing_left = side if present else int(larger_left)
