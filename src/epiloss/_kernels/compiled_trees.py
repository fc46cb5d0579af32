"""Compiled trees: encode rows, grow trees, and find the leaves of rows; see ``reference_trees``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.layout import Values
from epiloss._kernels.library import address, column_places, function
from epiloss._kernels.reference_trees import (
    GROWN,
    N_CODES,
    N_EDGES,
    Bytes,
    Integers,
    Records,
    offsets,
)
from epiloss._typing import Floats

_gather = function("gather", "piiiippiip")
_edges = function("edges", "piiip")
_encode = function("encode", "pippipppi")
_grow = function("grow", "pipippppiiiipppppp", ctypes.c_int64)
_apply = function("apply", "pipipp")


def gather(block: NDArray[Any], samples: Sequence[Integers]) -> NDArray[Any]:
    """Return the values of samples (samples, columns, rows), padded with NaN to equal sizes."""
    starts = offsets(np.array(list(map(len, samples))))
    rows = np.concatenate(samples, dtype=np.int64)
    most = int(np.diff(starts).max())
    gathered = np.empty((len(samples), block.shape[1], most), block.dtype)
    _gather(
        block.ctypes.data,
        *block.strides,
        block.shape[1],
        block.dtype == np.float64,
        address(rows),
        address(starts),
        len(samples),
        most,
        address(gathered),
    )
    return gathered


def edges_among(ordered: NDArray[Any]) -> Floats:
    """Return the quantile edges (..., 63) of sorted values (..., rows) of at least two rows."""
    ordered, n = np.ascontiguousarray(ordered), ordered.shape[-1]
    edges = np.empty((*ordered.shape[:-1], N_EDGES))
    _edges(address(ordered), ordered.dtype == np.float64, ordered.size // n, n, address(edges))
    return edges


def encode(values: Values, rows: Integers, starts: Integers, edges: Floats, codes: Bytes) -> None:
    """Write the codes (columns, rows) of rows; those of level set ``s`` start at ``starts[s]``."""
    rows, columns = np.ascontiguousarray(rows, np.int64), column_places(values)
    as_floats, as_doubles = edges.astype(np.float32), np.ascontiguousarray(edges)
    _encode(
        address(columns),
        len(columns),
        address(rows),
        address(starts),
        len(starts) - 1,
        address(as_floats),
        address(as_doubles),
        codes.ctypes.data,
        codes.strides[0],
    )


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
    """Grow a tree on each part of the rows; see ``reference_trees.grow``."""
    sizes = np.diff(starts)
    largest, n_rows = int(sizes.max()), int(sizes.sum())
    nodes = np.empty(len(sizes) + 2 * (n_rows // least), GROWN)
    spare = [None if one is None else np.empty(largest, one.dtype) for one in (rows, labels, weights)]
    # Each waiting node has at most half the rows of the one before it.
    bins = np.empty((largest.bit_length() + 1, len(kinds), N_CODES), np.uint64)
    weighted = None if weights is None else np.empty((*bins.shape, 2), np.int64)
    n_nodes = _grow(
        address(codes),
        codes.strides[0],
        address(kinds),
        len(kinds),
        *map(address, (rows, labels, weights, starts)),
        len(sizes),
        least,
        criterion,
        deepest,
        *map(address, spare),
        address(bins),
        address(weighted),
        address(nodes),
    )
    return nodes[:n_nodes]


def apply(values: Values, rows: Integers, nodes: Records, leaves: NDArray[np.int32]) -> None:
    """Move each row from its node in ``leaves`` down to its leaf, in place."""
    rows, columns = np.ascontiguousarray(rows, np.int64), column_places(values)
    _apply(
        address(columns),
        len(columns),
        address(rows),
        len(rows),
        address(nodes),
        address(leaves),
    )
