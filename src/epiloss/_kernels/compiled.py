"""The compiled inner loops: faster versions of the functions of ``reference``.

Importing this module fails if the package was installed without a C compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels import reference
from epiloss._kernels.compiled_boosting import added_up, boost, boosted, single_splits
from epiloss._kernels.compiled_trees import apply, edges_among, encode, gather, grow
from epiloss._kernels.layout import Grid
from epiloss._kernels.library import address, array_places, function
from epiloss._kernels.reference_trees import Integers
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

_MOST_CODES = 2**16  # codes of 16 bits, because more of them fit into the cache
ROWS_PER_CELL = 0  # cells without rows cost nothing

_add_fixed_point = function("add_fixed_point", "ppippi", ctypes.c_int64)
_add_brier = function("add_brier", "pippppppp", ctypes.c_int64)
_brier_terms = function("brier_terms", "ppipppppippp")
_spread = function("spread", "pppipp")
_moments = function("moments", "pippppip")
_level_sets = function("level_sets", "pipip")
_first_of_each = function("first_of_each", "ppipp")
_cumulative_sums = function("cumulative_sums", "pppip")
_windowed_lines = function("windowed_lines", "ipppippp")
_interpolate = function("interpolate", "ppipipip")
_row_keys = function("row_keys", "piip")
_extremes = function("extremes", "piip")


def add_fixed_point(code: Integers, values: Floats, high: Integers, low: Integers) -> bool:
    """Add values, rounded to 2**-40, to the cells; see ``reference.add_fixed_point``."""
    values, step = np.ascontiguousarray(values), high.strides[0] // high.itemsize
    places = high.ctypes.data, low.ctypes.data
    if _add_fixed_point(address(code), address(values), len(code), *places, step):
        return True
    return reference.add_fixed_point(code, values, high, low)  # if not finite, or too large


def add_brier(
    code: Integers,
    labels: Floats,
    scores: Floats,
    curves: tuple[Floats, Floats],
    weights: Floats | None,
    weight_sq: Floats | None,
    sums: Integers,
) -> bool:
    """Add rows to the sums of their cells, all fields at once; return whether that was possible."""
    assert sums.transpose(2, 0, 1).flags.c_contiguous  # the only layout that the loop supports
    given = (labels, scores, *curves, weights, weight_sq)
    rows = [None if one is None else np.ascontiguousarray(one) for one in given]
    return bool(_add_brier(address(code), len(code), *map(address, rows), sums.ctypes.data))


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
    """Return each row's score, calibration loss, grouping loss and noise of the curve: (4, rows)."""
    terms = np.empty((4, len(cell)))
    rows = [np.ascontiguousarray(one) for one in (scores, labels, *curves)]
    tables = [np.ascontiguousarray(one) for one in (rates, curve_mean)]
    _brier_terms(
        address(level_set),
        address(cell),
        len(cell),
        *map(address, rows),
        address(lines),
        lines.shape[1],
        *map(address, tables),
        address(terms),
    )
    return terms


def spread_out(
    values: Floats, weights: Floats, rows: Integers, mean: float, total: float, n_rows: int
) -> Floats:
    """Return the weighted deviation of each row from the mean; see ``reference.spread_out``."""
    values, weights = (np.ascontiguousarray(one) for one in (values, weights))
    spread, both = np.zeros(n_rows), np.array([mean, total])
    _spread(*map(address, (values, weights, rows)), len(rows), address(both), address(spread))
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
    _moments(address(level_set), len(level_set), *map(address, given), n_level_sets, address(sums))
    return sums


def level_sets_of(scores: Floats, edges: Floats) -> Integers:
    """Return the number of sorted edges that are at most each score."""
    scores, edges = (np.ascontiguousarray(one, np.float64) for one in (scores, edges))
    level_set = np.empty(len(scores), np.int64)
    _level_sets(address(scores), len(scores), address(edges), len(edges), address(level_set))
    return level_set


def first_of_each(order: Integers, codes: Integers, wanted: Integers) -> NDArray[np.bool_]:
    """Return which rows are among the first of their code; see ``reference.first_of_each``."""
    if len(wanted) > _MOST_CODES:
        return reference.first_of_each(order, codes, wanted)
    among, left = np.empty(len(order), bool), wanted.copy()
    small = codes.astype(np.uint16)
    _first_of_each(address(order), address(small), len(order), address(left), address(among))
    return among


def interpolate(knots: Floats, values: Floats, x: Floats) -> Floats:
    """Interpolate ``values`` at two or more knots linearly; the curve is constant outside the knots."""
    knots, values, x = (np.ascontiguousarray(one, np.float64) for one in (knots, values, x))
    grid, found = Grid.of(knots, x.size), np.empty_like(x)
    _interpolate(
        address(knots),
        address(values),
        len(knots),
        address(grid.first),
        grid.n_cells,
        address(x),
        x.size,
        address(found),
    )
    return found


def cumulative_sums(w: Floats, x: Floats, y: Floats) -> Floats:
    """Return the cumulative sums (5, m + 1) of w, w x, w x^2, w y and w x y before each score."""
    w, x, y = (np.ascontiguousarray(one, np.float64) for one in (w, x, y))
    cumulative = np.empty((5, len(x) + 1))
    _cumulative_sums(*map(address, (w, x, y)), len(x), address(cumulative))
    return cumulative


def windowed_lines(
    x: Floats, rank: Floats, cumulative: Floats, windows: Floats
) -> tuple[Floats, Floats]:
    """Return the local lines at each ``x`` and their leverages; see ``reference.windowed_lines``."""
    fitted, leverage = np.empty((2, len(windows), len(x)))
    _windowed_lines(
        len(x),
        address(x),
        address(rank),
        address(cumulative),
        len(windows),
        address(windows),
        address(fitted),
        address(leverage),
    )
    return fitted, leverage


def row_keys(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return a hash of each row that depends only on its values; see ``reference.row_keys``."""
    keys, places = np.empty(len(columns[0]), np.uint64), array_places(columns)
    _row_keys(address(places), len(places), len(keys), address(keys))
    return keys


def extremes(values: NDArray[Any]) -> tuple[float, bool]:
    """Return the largest absolute value of a contiguous array, and whether any value is missing."""
    if values.dtype not in (np.float32, np.float64):
        return reference.extremes(values)
    # Arrays read from files may be unaligned.
    values, found = np.require(values, requirements=["C", "A"]), np.empty(2)
    _extremes(address(values), values.dtype == np.float64, values.size, address(found))
    return float(found[0]), bool(found[1])
