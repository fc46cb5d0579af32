"""Compiled boosted trees: faster versions of the functions of ``boosting``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.boosting import LEAF, Growth, Places, no_trees
from epiloss._kernels.library import address, function
from epiloss._kernels.reference_trees import N_CODES, Bytes, Records
from epiloss._typing import Floats

_boost = function("boost", "pipiipppppiiipppppppp")
_boosted = function("boosted", "pipipiip")
_added_up = function("added_up", "piiipp")
_single_splits = function("single_splits", "piiippppp")


def boost(
    codes: Bytes,
    columns: Places,
    target: Floats,
    weight: Floats,
    offset: Floats | None,
    total: Floats,
    growth: Growth,
) -> Records:
    """Boost trees on codes (columns, rows); see ``boosting.boost``."""
    n, nodes = codes.shape[1], no_trees(growth)
    target, weight = (np.ascontiguousarray(one, np.float64) for one in (target, weight))
    offset = None if offset is None else np.ascontiguousarray(offset, np.float64)
    slopes, last, own = np.empty((2, n)), np.empty(len(columns), np.uint8), np.empty(n, np.int64)
    rows, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    bins = np.empty((growth.n_leaves, len(columns), N_CODES), np.int64)
    leaves, settings = np.empty(growth.n_leaves, LEAF), growth.settings
    _boost(
        codes.ctypes.data,
        codes.strides[0],
        address(columns),
        len(columns),
        n,
        address(target),
        address(weight),
        address(offset),
        address(total),
        address(settings),
        growth.n_trees,
        growth.n_leaves,
        growth.deepest,
        *[address(one) for one in (slopes, last, own, rows, spare, bins, leaves, nodes)],
    )
    return nodes


def boosted(codes: Bytes, rows: Places | None, nodes: Records, total: Floats) -> None:
    """Add the predictions of trees to the totals of rows; see ``boosting.boosted``."""
    nodes = np.ascontiguousarray(nodes)
    _boosted(
        codes.ctypes.data,
        codes.strides[0],
        address(rows),
        len(total),
        address(nodes),
        *nodes.shape,
        address(total),
    )


def added_up(codes: Bytes, table: NDArray[np.float32], total: Floats) -> None:
    """Add ``table[column, code]``, summed over columns, to the totals of rows."""
    place = codes.ctypes.data, codes.strides[0], *codes.shape
    _added_up(*place, address(np.ascontiguousarray(table)), address(total))


def single_splits(codes: Bytes, gradient: Floats, hessian: Floats) -> NDArray[np.float32]:
    """Return the gain of the best single split of all rows by each column."""
    d, n = codes.shape
    gradient, hessian = (np.ascontiguousarray(one, np.float64) for one in (gradient, hessian))
    own, rows, gains = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(d, np.float32)
    arrays = [address(one) for one in (gradient, hessian, own, rows, gains)]
    _single_splits(codes.ctypes.data, codes.strides[0], d, n, *arrays)
    return gains
