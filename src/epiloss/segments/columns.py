"""Columns as a few codes, and the conditions on them that a segment may consist of.

Numeric columns are cut at up to 62 quantiles, rounded to the fewest digits that move almost no row; the
search starts with a coarse subset of these cuts. A category has a code of its own if it has enough rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import Bytes
from epiloss._typing import Codes, Floats
from epiloss.estimation.learning.encoding import edges_of
from epiloss.input.datetimes import DATETIME
from epiloss.input.features import Features
from epiloss.partition.descriptions import Step
from epiloss.partition.thresholds import last_moment_of_a_day
from epiloss.segments.gaps import Mask

MISSING, OTHER, N_CODES = 64, 65, 66
_CELLS = 8  # coarse cells of a numeric column
_CATEGORIES = 16  # categories with a code of their own
_SAMPLED = 4_096  # rows that quantiles are computed from
_DIGITS = 12
_FILLINGS, _TINY = 20, 1e-12
_FEWEST_NUMBERED, _UNEVEN = 200, 2.0  # rows, and Kolmogorov-Smirnov distance of row numbers
_MOVED = 0.004  # share of rows that rounding an edge may move to its other side
# For each edge, which codes are at most that of the edge, and which are above it.
_AT_MOST = np.arange(N_CODES) <= np.arange(MISSING)[:, None]
_ABOVE = ~_AT_MOST & (np.arange(N_CODES) < MISSING)


@dataclass(frozen=True)
class Side:
    """One side of a split: the allowed codes of a column, and the split."""

    column: int
    allowed: Mask
    step: Step

    @property
    def is_known(self) -> bool:
        """Whether the condition is that the value is not missing."""
        return not self.step.is_category and self.step.left and np.isinf(self.step.threshold)


@dataclass(frozen=True)
class CodedColumn:
    """The codes of a column, its coarse cells, and the sides of all its splits.

    ``fine`` (sides, codes) and ``coarse`` (coarse sides, cells) are 1 for codes and cells on a side;
    ``places`` are the indices of the coarse sides among all sides.
    """

    codes: Bytes
    cells: Bytes
    sides: tuple[Side, ...]
    fine: Floats
    coarse: Floats
    places: Codes

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return int(self.coarse.shape[1])

    @classmethod
    def of(cls, codes: Bytes, cell_of: Bytes, sides: list[Side]) -> CodedColumn:
        """Build a column from its sides; sides that do not cut through a cell are coarse."""
        fine = np.array([side.allowed for side in sides], float).reshape(len(sides), N_CODES)
        n_cells = int(cell_of.max()) + 1
        used = np.bincount(codes, minlength=N_CODES) > 0
        one_hot = np.zeros((N_CODES, n_cells))
        one_hot[np.flatnonzero(used), cell_of[used]] = 1.0
        share = fine @ one_hot / np.maximum(one_hot.sum(axis=0), 1.0)
        whole = np.flatnonzero(((share == 0) | (share == 1)).all(axis=1) & (share > 0).any(axis=1))
        return cls(codes, cell_of[codes], tuple(sides), fine, share[whole], whole)


def coded_columns(features: Features, least: float) -> tuple[CodedColumn, ...]:
    """Code all columns with at least two values; rarer categories than ``least`` rows share a code.

    Columns that number the rows are left out.
    """
    n = features.n_rows
    some = np.unique(np.linspace(0, n - 1, min(n, _SAMPLED)).astype(np.int64))
    row_numbers = set(row_number_columns(features))
    found = (
        _category(features, j, least) if j in features.categories else _number(features, j, some)
        for j in range(features.n_columns)
        if j not in row_numbers
    )
    return tuple(column for column in found if len(column.places))


def row_number_columns(features: Features) -> list[int]:
    """Return the columns that look like row numbers or identifiers.

    They have a different integer in every row, and the integers are spread evenly.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = {"id": rng.permutation(900) + 4.0, "sales": np.exp(rng.normal(9, 2, 900)).round()}
    >>> row_number_columns(Features.read(X))
    [0]
    """
    n = features.n_rows
    if n < _FEWEST_NUMBERED:
        return []
    others = {*features.categories, *features.dtypes}
    numbers = (j for j in range(features.n_columns) if j not in others)
    return [j for j in numbers if _is_evenly_numbered(np.asarray(features.column(j), float))]


def _is_evenly_numbered(values: Floats) -> bool:
    first = values[:_FEWEST_NUMBERED]
    if not (first == np.rint(first)).all() or len(np.unique(first)) < len(first):
        return False
    ordered = np.sort(values)
    steps = np.diff(ordered)
    if not (steps > 0).all() or not (ordered == np.rint(ordered)).all():
        return False
    place = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    even = np.linspace(0, 1, len(ordered))
    return bool(np.abs(place - even).max() < _UNEVEN / np.sqrt(len(ordered)))


def _number(features: Features, j: int, some: Codes) -> CodedColumn:
    values = np.asarray(features.column(j), float)
    missing = np.isnan(values)
    edges = edges_of(values[some][None])[0]
    edges = edges[np.isfinite(edges)]
    ordered = np.sort(values[some][~missing[some]])
    if j not in features.dtypes:
        edges = rounded(edges, ordered)
    elif features.dtypes[j] == DATETIME:
        edges = in_days(edges, ordered)
    codes = np.searchsorted(edges, values).astype(np.uint8)
    codes[missing] = MISSING
    cell_of = np.zeros(N_CODES, np.uint8)
    cell_of[:MISSING] = _cells(np.bincount(codes, minlength=N_CODES)[:MISSING])
    cell_of[MISSING] = cell_of[:MISSING].max() + 1
    has_missing = bool(missing.any())
    return CodedColumn.of(codes, cell_of, list(_number_sides(j, edges, has_missing)))


def _cells(count: Codes) -> Codes:
    """Return the cell of each code, with equal rows per cell; a frequent code takes a single cell.

    Examples
    --------
    >>> _cells(np.array([960, 10, 10, 10, 10])).tolist()
    [0, 2, 4, 5, 7]
    """
    mass = count.astype(float)
    for _ in range(_FILLINGS):
        mass = np.minimum(mass, mass.sum() / _CELLS)
    middle = np.cumsum(mass) - mass / 2
    cells = middle * _CELLS / max(float(mass.sum()), _TINY)
    return np.asarray(np.minimum(cells, _CELLS - 1), np.int64)


def _number_sides(j: int, edges: Floats, has_missing: bool) -> Iterator[Side]:
    """Yield both sides of each edge, without missing values, and the sides missing and not missing."""
    code = np.arange(N_CODES)
    for place, edge in enumerate(edges.tolist()):
        yield Side(j, _AT_MOST[place], Step(j, False, edge, left=True, missing_left=False))
        yield Side(j, _ABOVE[place], Step(j, False, edge, left=False, missing_left=True))
    if has_missing:
        for left in (True, False):
            side = (code == MISSING) != left
            yield Side(j, side, Step(j, False, np.inf, left=left, missing_left=False))


def rounded(edges: Floats, ordered: Floats) -> Floats:
    """Return edges rounded to the fewest digits that move almost no value to another side.

    Examples
    --------
    >>> rounded(np.array([0.2519, 0.7503]), np.linspace(0, 1, 1_001)).tolist()
    [0.25, 0.75]
    >>> rounded(np.array([30.5, 31.5]), np.repeat([30.0, 31.0, 32.0], 100)).tolist()
    [30.0, 31.0]
    """
    most = _MOVED * len(ordered)
    rank = np.searchsorted(ordered, edges, side="right")
    found, open_ = edges.astype(float), np.arange(len(edges))
    size = np.abs(np.where(edges == 0, 1.0, edges))
    unit = 10.0 ** np.floor(np.log10(size))
    for digits in range(-1, _DIGITS):
        for towards in (np.rint, np.floor):
            near = _in_digits(towards(edges[open_] * 10.0**digits / unit[open_]), unit[open_], digits)
            fits = np.abs(np.searchsorted(ordered, near, side="right") - rank[open_]) <= most
            found[open_[fits]] = near[fits]
            open_ = open_[~fits]
        if not len(open_):
            break
    return np.unique(found)


def in_days(edges: Floats, ordered: Floats) -> Floats:
    """Return moments moved to midnight, except those that would move many values to another side."""
    near = last_moment_of_a_day(edges)
    before, after = (np.searchsorted(ordered, one, side="right") for one in (edges, near))
    return np.unique(np.where(np.abs(after - before) <= _MOVED * len(ordered), near, edges))


def _in_digits(steps: Floats, unit: Floats, digits: int) -> Floats:
    """Return multiples of a unit as decimal numbers, without binary rounding errors."""
    near = steps * (unit / 10.0**digits)
    return np.array([float(f"{one:.{_DIGITS}g}") for one in near.tolist()])


def _category(features: Features, j: int, least: float) -> CodedColumn:
    values = np.asarray(features.column(j), float)
    missing = np.isnan(values)
    category = np.where(missing, 0, values).astype(np.int64)
    count = np.bincount(category[~missing], minlength=1)
    frequent = np.argsort(-count, kind="stable")[:_CATEGORIES]
    frequent = frequent[count[frequent] >= max(least, 1)]
    table = np.full(len(count), OTHER, np.uint8)
    table[frequent] = np.arange(len(frequent))
    codes = np.where(missing, MISSING, table[category]).astype(np.uint8)
    cell_of = np.zeros(N_CODES, np.uint8)
    cell_of[: len(frequent)] = np.arange(len(frequent))
    cell_of[OTHER], cell_of[MISSING] = len(frequent), len(frequent) + 1
    sides = list(_category_sides(j, frequent, codes))
    return CodedColumn.of(codes, cell_of, sides)


def _category_sides(j: int, frequent: Codes, codes: NDArray[np.uint8]) -> Iterator[Side]:
    code = np.arange(N_CODES)
    named = [(place, float(one)) for place, one in enumerate(frequent.tolist())]
    if (codes == MISSING).any():
        named.append((MISSING, float("nan")))
    # With two categories, "is a" and "is not b" are the same condition.
    ways = (True, False) if len(np.unique(codes)) > 2 else (True,)
    for place, category in named:
        for left in ways:
            step = Step(j, True, category, left=left, missing_left=False)
            yield Side(j, (code == place) == left, step)
