"""The inner loops, compiled: the functions of ``reference``, but faster.

Importing this fails where the package was installed without a C compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels import _kernel, reference  # type: ignore[attr-defined]  # _kernel is compiled
from epiloss._kernels.boosting import LEAF, Growth, Places, no_trees
from epiloss._kernels.layout import Grid, Values
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

_MOST_CODES = 2**16  # of which each row's is read at random: the smaller, the more stay in the cache
ROWS_PER_CELL = 0  # sums cost nothing for each cell
_COLUMN = np.dtype([("first", "i8"), ("stride", "i8"), ("is_double", "i8")])


def _function(name: str, signature: str, returned: Any = None) -> Any:
    """Return a function of the library; ``p`` stands for a pointer, ``i`` for a whole number."""
    function = getattr(ctypes.CDLL(_kernel.__file__), f"epiloss_{name}")
    kinds = {"p": ctypes.c_void_p, "i": ctypes.c_int64}
    function.argtypes, function.restype = [kinds[letter] for letter in signature], returned
    return function


_gather = _function("gather", "piiiippiip")
_edges = _function("edges", "piiip")
_encode = _function("encode", "pippipppi")
_grow = _function("grow", "pipippppiiiipppppp", ctypes.c_int64)
_apply = _function("apply", "pipipp")
_add_fixed_point = _function("add_fixed_point", "ppippi", ctypes.c_int64)
_add_brier = _function("add_brier", "pippppppp", ctypes.c_int64)
_brier_terms = _function("brier_terms", "ppipppppippp")
_spread = _function("spread", "pppipp")
_moments = _function("moments", "pippppip")
_level_sets = _function("level_sets", "pipip")
_first_of_each = _function("first_of_each", "ppipp")
_cumulative_sums = _function("cumulative_sums", "pppip")
_windowed_lines = _function("windowed_lines", "ipppippp")
_interpolate = _function("interpolate", "ppipipip")
_row_keys = _function("row_keys", "piip")
_extremes = _function("extremes", "piip")
_boost = _function("boost", "pipiipppppiiipppppppp")
_boosted = _function("boosted", "pipipiip")
_added_up = _function("added_up", "piiipp")
_single_splits = _function("single_splits", "piiippppp")


def gather(block: NDArray[Any], samples: Sequence[Integers]) -> NDArray[Any]:
    """Return the samples' values (samples, columns, rows), missing ones behind those of fewer rows."""
    starts = offsets(np.array(list(map(len, samples))))
    rows = np.concatenate(samples, dtype=np.int64)
    most = int(np.diff(starts).max())
    gathered = np.empty((len(samples), block.shape[1], most), block.dtype)
    _gather(
        block.ctypes.data,
        *block.strides,
        block.shape[1],
        block.dtype == np.float64,
        _address(rows),
        _address(starts),
        len(samples),
        most,
        _address(gathered),
    )
    return gathered


def edges_among(ordered: NDArray[Any]) -> Floats:
    """Return the quantile edges (..., 63) of sorted values (..., rows), at least two."""
    ordered, n = np.ascontiguousarray(ordered), ordered.shape[-1]
    edges = np.empty((*ordered.shape[:-1], N_EDGES))
    _edges(_address(ordered), ordered.dtype == np.float64, ordered.size // n, n, _address(edges))
    return edges


def encode(values: Values, rows: Integers, starts: Integers, edges: Floats, codes: Bytes) -> None:
    """Write the codes (columns, rows) of some rows, those of level set ``s`` from ``starts[s]`` on."""
    rows, columns = np.ascontiguousarray(rows, np.int64), _columns(values)
    as_floats, as_doubles = edges.astype(np.float32), np.ascontiguousarray(edges)
    _encode(
        _address(columns),
        len(columns),
        _address(rows),
        _address(starts),
        len(starts) - 1,
        _address(as_floats),
        _address(as_doubles),
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
    # of the nodes that wait, each has at most half the rows of the one before
    bins = np.empty((largest.bit_length() + 1, len(kinds), N_CODES), np.uint64)
    weighted = None if weights is None else np.empty((*bins.shape, 2), np.int64)
    n_nodes = _grow(
        _address(codes),
        codes.strides[0],
        _address(kinds),
        len(kinds),
        *map(_address, (rows, labels, weights, starts)),
        len(sizes),
        least,
        criterion,
        deepest,
        *map(_address, spare),
        _address(bins),
        _address(weighted),
        _address(nodes),
    )
    return nodes[:n_nodes]


def apply(values: Values, rows: Integers, nodes: Records, leaves: NDArray[np.int32]) -> None:
    """Let each row go down from the node that ``leaves`` holds to its leaf, in place."""
    rows, columns = np.ascontiguousarray(rows, np.int64), _columns(values)
    _apply(
        _address(columns),
        len(columns),
        _address(rows),
        len(rows),
        _address(nodes),
        _address(leaves),
    )


def add_fixed_point(code: Integers, values: Floats, high: Integers, low: Integers) -> bool:
    """Add values, rounded to 2**-40, to the cells; see ``reference.add_fixed_point``."""
    values, step = np.ascontiguousarray(values), high.strides[0] // high.itemsize
    places = high.ctypes.data, low.ctypes.data
    if _add_fixed_point(_address(code), _address(values), len(code), *places, step):
        return True
    return reference.add_fixed_point(code, values, high, low)  # not finite, or too large


def add_brier(
    code: Integers,
    labels: Floats,
    scores: Floats,
    curves: tuple[Floats, Floats],
    weights: Floats | None,
    weight_sq: Floats | None,
    sums: Integers,
) -> bool:
    """Add rows to the sums of their cells, all fields at once, and tell whether that was done."""
    assert sums.transpose(2, 0, 1).flags.c_contiguous  # the loop knows no other layout
    given = (labels, scores, *curves, weights, weight_sq)
    rows = [None if one is None else np.ascontiguousarray(one) for one in given]
    return bool(_add_brier(_address(code), len(code), *map(_address, rows), sums.ctypes.data))


def brier_terms(
    level_set: Integers,
    cell: NDArray[np.int32],
    scores: Floats,
    labels: Floats,
    curves: tuple[Floats, Floats],
    lines: Floats,
    rates: Floats,
    curve_mean: Floats,
) -> Floats | None:
    """Return what each row adds to four means; see ``reference.brier_terms``."""
    terms = np.empty((4, len(cell)))
    rows = [np.ascontiguousarray(one) for one in (scores, labels, *curves)]
    tables = [np.ascontiguousarray(one) for one in (rates, curve_mean)]
    _brier_terms(
        _address(level_set),
        _address(cell),
        len(cell),
        *map(_address, rows),
        _address(lines),
        lines.shape[1],
        *map(_address, tables),
        _address(terms),
    )
    return terms


def spread_out(
    values: Floats, weights: Floats, rows: Integers, mean: float, total: float, n_rows: int
) -> Floats:
    """Return the weighted deviation of each row from the mean; see ``reference.spread_out``."""
    values, weights = (np.ascontiguousarray(one) for one in (values, weights))
    spread, both = np.zeros(n_rows), np.array([mean, total])
    _spread(*map(_address, (values, weights, rows)), len(rows), _address(both), _address(spread))
    return spread


def moments(
    level_set: Integers,
    n_level_sets: int,
    x: Floats,
    y: Floats,
    weights: Floats | None,
    means: Floats | None = None,
) -> Floats:
    """Return sums over the rows of each level set; see ``reference.moments``."""
    sums = np.zeros((2, n_level_sets))
    given = [None if one is None else np.ascontiguousarray(one) for one in (x, y, weights, means)]
    _moments(_address(level_set), len(level_set), *map(_address, given), n_level_sets, _address(sums))
    return sums


def level_sets_of(scores: Floats, edges: Floats) -> Integers:
    """Return how many of the edges, in order, are at most each score."""
    scores, edges = (np.ascontiguousarray(one, np.float64) for one in (scores, edges))
    level_set = np.empty(len(scores), np.int64)
    _level_sets(_address(scores), len(scores), _address(edges), len(edges), _address(level_set))
    return level_set


def first_of_each(order: Integers, codes: Integers, wanted: Integers) -> NDArray[np.bool_]:
    """Tell of each row whether it is, in the given order, among the first so many of its code."""
    if len(wanted) > _MOST_CODES:
        return reference.first_of_each(order, codes, wanted)
    among, left = np.empty(len(order), bool), wanted.copy()
    small = codes.astype(np.uint16)
    _first_of_each(_address(order), _address(small), len(order), _address(left), _address(among))
    return among


def interpolate(knots: Floats, values: Floats, x: Floats) -> Floats:
    """Return the curve through ``values`` at two or more knots: linear between them, flat outside."""
    knots, values, x = (np.ascontiguousarray(one, np.float64) for one in (knots, values, x))
    grid, found = Grid.of(knots, x.size), np.empty_like(x)
    _interpolate(
        _address(knots),
        _address(values),
        len(knots),
        _address(grid.first),
        grid.n_cells,
        _address(x),
        x.size,
        _address(found),
    )
    return found


def cumulative_sums(w: Floats, x: Floats, y: Floats) -> Floats:
    """Return the sums (5, m + 1) of w, w x, w x^2, w y and w x y before each score."""
    w, x, y = (np.ascontiguousarray(one, np.float64) for one in (w, x, y))
    cumulative = np.empty((5, len(x) + 1))
    _cumulative_sums(*map(_address, (w, x, y)), len(x), _address(cumulative))
    return cumulative


def windowed_lines(
    x: Floats, rank: Floats, cumulative: Floats, windows: Floats
) -> tuple[Floats, Floats]:
    """Return the value at each ``x`` of the least-squares line through each window, and its leverage."""
    fitted, leverage = np.empty((2, len(windows), len(x)))
    _windowed_lines(
        len(x),
        _address(x),
        _address(rank),
        _address(cumulative),
        len(windows),
        _address(windows),
        _address(fitted),
        _address(leverage),
    )
    return fitted, leverage


def row_keys(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return a number for each row that depends on all its values; see ``reference.row_keys``."""
    keys, places = np.empty(len(columns[0]), np.uint64), _places(columns)
    _row_keys(_address(places), len(places), len(keys), _address(keys))
    return keys


def extremes(values: NDArray[Any]) -> tuple[float, bool]:
    """Return the largest size of values side by side, and whether any is missing."""
    if values.dtype not in (np.float32, np.float64):
        return reference.extremes(values)
    values, found = np.require(values, requirements=["C", "A"]), np.empty(2)  # files may lie askew
    _extremes(_address(values), values.dtype == np.float64, values.size, _address(found))
    return float(found[0]), bool(found[1])


def boost(
    codes: Bytes,
    columns: Places,
    target: Floats,
    weight: Floats,
    offset: Floats | None,
    total: Floats,
    growth: Growth,
) -> Records:
    """Boost trees on codes (columns, rows), by some of the columns; see ``boosting.boost``."""
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
        _address(columns),
        len(columns),
        n,
        _address(target),
        _address(weight),
        _address(offset),
        _address(total),
        _address(settings),
        growth.n_trees,
        growth.n_leaves,
        growth.deepest,
        *[_address(one) for one in (slopes, last, own, rows, spare, bins, leaves, nodes)],
    )
    return nodes


def boosted(codes: Bytes, rows: Places | None, nodes: Records, total: Floats) -> None:
    """Add the values of trees to the totals of rows; see ``boosting.boosted``."""
    nodes = np.ascontiguousarray(nodes)
    _boosted(
        codes.ctypes.data,
        codes.strides[0],
        _address(rows),
        len(total),
        _address(nodes),
        *nodes.shape,
        _address(total),
    )


def added_up(codes: Bytes, table: NDArray[np.float32], total: Floats) -> None:
    """Add ``table[column, code]`` of all columns to the totals of rows."""
    place = codes.ctypes.data, codes.strides[0], *codes.shape
    _added_up(*place, _address(np.ascontiguousarray(table)), _address(total))


def single_splits(codes: Bytes, gradient: Floats, hessian: Floats) -> NDArray[np.float32]:
    """Return what the best split of all rows by each column alone explains."""
    d, n = codes.shape
    gradient, hessian = (np.ascontiguousarray(one, np.float64) for one in (gradient, hessian))
    own, rows, gains = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(d, np.float32)
    arrays = [_address(one) for one in (gradient, hessian, own, rows, gains)]
    _single_splits(codes.ctypes.data, codes.strides[0], d, n, *arrays)
    return gains


def _columns(values: Values) -> Records:
    """Return where the columns lie in memory."""
    if isinstance(values, tuple):
        return _places(values)
    columns = np.empty(values.shape[1], _COLUMN)
    columns["first"] = values.ctypes.data + np.arange(values.shape[1]) * values.strides[1]
    columns["stride"] = values.strides[0]
    columns["is_double"] = values.dtype == np.float64
    return columns


def _places(arrays: Sequence[NDArray[Any]]) -> Records:
    """Return where arrays of single or double precision lie in memory."""
    columns = np.empty(len(arrays), _COLUMN)
    columns["first"] = [column.ctypes.data for column in arrays]
    columns["stride"] = [column.strides[0] for column in arrays]
    columns["is_double"] = [column.dtype == np.float64 for column in arrays]
    return columns


def _address(array: NDArray[Any] | None) -> int | None:
    if array is None:
        return None
    try:
        # fails where an array does not lie dense
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, or empty; asked in the first place it is slower
        assert array.flags.c_contiguous  # the loops know no other layout
        return array.ctypes.data
