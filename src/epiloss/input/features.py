"""Features as named columns of numbers; categories are codes, missing values are NaN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import Values
from epiloss._typing import Codes
from epiloss.errors import FEATURE, DataError, RowsError
from epiloss.input.datetimes import family, in_unit
from epiloss.input.feature_columns import (
    lone_matrix,
    missing_column,
    named_columns,
    native,
    only_lists,
    only_wanted,
    read_columns,
    read_sparse_columns,
    with_words_of,
)
from epiloss.input.sparse import SparseColumns, is_sparse, stored
from epiloss.input.tables import as_table, from_records
from epiloss.input.text import WORD
from epiloss.input.values import check_in_memory, plain_array, unmasked

_MAX_CATEGORIES, _ROWS_PER_CATEGORY = 50, 10  # more categories with fewer rows each are too many
_BLOCK = 2**20  # values of sparse features that are made dense at a time
_COPY_BELOW = 4  # sparse rows are copied if they are less than a quarter of all, else only indexed
LARGEST = 3e38  # trees compare features as 32-bit floats


@dataclass(frozen=True)
class Features:
    """Columns of numbers with their names, and the categories of categorical columns.

    ``source`` is a matrix (n, d), a tuple of columns, or sparse, as the user gave it; it is not copied
    unless ``matrix`` is used. ``rows`` are the rows of the source in use; None for all. ``dtypes`` are
    the original types of datetimes, durations and booleans; datetimes and durations are stored as
    microseconds. ``complete`` features are known to have no missing values.
    """

    source: NDArray[Any] | tuple[NDArray[Any], ...] | SparseColumns
    names: tuple[str, ...]
    categories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    rows: NDArray[np.int64] | None = None
    dtypes: Mapping[int, str] = field(default_factory=dict)
    complete: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        if self.rows is not None:
            return len(self.rows)
        return len(self.source[0]) if isinstance(self.source, tuple) else len(self.source)

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def matrix(self) -> NDArray[Any]:
        """The values (n, d): a copy, unless the source is a matrix of which all rows are used."""
        if isinstance(self.source, SparseColumns):
            return self.source.rows(self.rows)
        if not isinstance(self.source, tuple):
            return self.source if self.rows is None else self.source[self.rows]
        with np.errstate(invalid="ignore"):  # NumPy warns when it casts some NaNs of single precision
            return np.column_stack([self.column(j) for j in range(self.n_columns)])

    @property
    def is_embedding(self) -> bool:
        """Whether there are so many unnamed columns that single columns have no meaning."""
        return self.n_columns > 50 and self.nameless

    @property
    def nameless(self) -> bool:
        """Whether the columns came as a matrix without names, and are only numbered."""
        return all(name == f"x{j}" for j, name in enumerate(self.names))

    def column(self, j: int) -> NDArray[Any]:
        """Return the values of one column."""
        if isinstance(self.source, SparseColumns):
            column = self.source.column(j)
        else:
            column = self.source[j] if isinstance(self.source, tuple) else self.source[:, j]
        return column if self.rows is None else column[self.rows]

    def columns(self, first: int, last: int) -> Sequence[NDArray[Any]]:
        """Return the values of some columns, each contiguous in memory."""
        if isinstance(self.source, tuple):
            return [self.column(j) for j in range(first, last)]
        if isinstance(self.source, SparseColumns):
            return list(self.source.columns(first, last, self.rows).T)
        block = self.source[:, first:last]
        return list(np.ascontiguousarray((block if self.rows is None else block[self.rows]).T))

    def column_blocks(self) -> list[slice]:
        """Return the blocks in which columns are processed: one block, or several if sparse."""
        d = self.n_columns
        most = max(_BLOCK // max(len(self.source), 1), 1) if self.is_sparse else max(d, 1)
        return [slice(first, min(first + most, d)) for first in range(0, d, most)]

    def values(self, columns: slice) -> Values:
        """Return the values of one of the ``column_blocks``, for all rows of the source."""
        if isinstance(self.source, SparseColumns):
            return self.source.columns(columns.start, columns.stop)
        return self.source

    def row_blocks(self, rows: Codes | None = None) -> Iterator[tuple[slice, Values, Codes]]:
        """Yield blocks of rows, by default of all: the slice, values, and the rows of these values.

        Sparse features are made dense block by block; dense features are one block.
        """
        own = self.source_rows(rows)
        if not isinstance(self.source, SparseColumns):
            yield slice(0, len(own)), self.source, own
            return
        most = max(_BLOCK // max(self.n_columns, 1), 1)
        for first in range(0, len(own), most):
            some = slice(first, min(first + most, len(own)))
            yield some, self.source.rows(own[some]), np.arange(some.stop - some.start)

    def row_keys(self, scores: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Return a hash of each row's score and features."""
        if not self.is_sparse:
            columns = map(self.column, range(self.n_columns))
            whole: NDArray[np.uint64] = kernel().row_keys([scores, *columns])
            return whole
        keys = np.empty(len(scores), np.uint64)
        for some, values, _ in self.row_blocks():
            assert not isinstance(values, tuple)  # blocks of sparse rows are matrices
            keys[some] = kernel().row_keys([scores[some], *values.T])
        return keys

    @property
    def is_sparse(self) -> bool:
        """Whether only non-zero values are stored."""
        return isinstance(self.source, SparseColumns)

    def source_rows(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the rows of ``source`` for some rows, by default all."""
        if self.rows is None:
            return np.arange(self.n_rows) if rows is None else rows
        return self.rows if rows is None else self.rows[rows]

    def has_missing(self, j: int) -> bool:
        """Return whether a column has missing values."""
        return not self.complete and bool(np.isnan(self.column(j)).any())

    def take(self, rows: NDArray[Any]) -> Features:
        """Return some of the rows without copying values, except for few rows of sparse features."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        own = rows if self.rows is None else self.rows[rows]
        if isinstance(self.source, SparseColumns) and _COPY_BELOW * len(own) < len(self.source):
            return replace(self, source=self.source.take(own), rows=None)
        return replace(self, rows=own)

    def without(self, left_out: Sequence[str]) -> Features | None:
        """Return the other columns; None if there are none."""
        kept = [j for j, name in enumerate(self.names) if name not in left_out]
        own = self.source
        if not kept or isinstance(own, np.ndarray):
            return self if not left_out else None
        place = {j: at for at, j in enumerate(kept)}
        return replace(
            self,
            source=tuple(own[j] for j in kept) if isinstance(own, tuple) else own.select(kept),
            names=tuple(self.names[j] for j in kept),
            categories={place[j]: levels for j, levels in self.categories.items() if j in place},
            dtypes={place[j]: kind for j, kind in self.dtypes.items() if j in place},
        )

    def too_varied(self) -> dict[str, int]:
        """Return the columns with too many categories, and the number of their categories."""
        n_categories = {self.names[j]: len(levels) for j, levels in self.categories.items()}
        most = max(_MAX_CATEGORIES, self.n_rows // _ROWS_PER_CATEGORY)
        return {name: n for name, n in n_categories.items() if n > most}

    def is_mostly_frequent(self, j: int) -> bool:
        """Return whether most rows are in categories of a column with enough rows to learn from."""
        column = self.column(j)
        count = np.bincount(column[~np.isnan(column)].astype(np.int64))
        return bool(2 * count[count >= _ROWS_PER_CATEGORY].sum() > self.n_rows)

    def description(self) -> Features:
        """Return the columns without rows, as the reference for other features."""
        return Features(np.empty((0, self.n_columns)), self.names, self.categories, dtypes=self.dtypes)

    def like(self, reference: Features) -> Features:
        """Return these features with the columns and the category codes of ``reference``."""
        if reference.nameless and self.nameless and reference.n_columns != self.n_columns:
            raise DataError(
                f"X must have the {reference.n_columns} columns that were used for learning, got "
                f"{self.n_columns}. Pass the same columns in the same order."
            )
        missing = [name for name in reference.names if name not in self.names]
        if missing:
            raise missing_column(missing[0], self.names)
        place = {name: j for j, name in enumerate(self.names)}
        order = [place[name] for name in reference.names]
        in_order = order == list(range(self.n_columns)) and self.dtypes == reference.dtypes
        if in_order and self.categories == reference.categories:
            return self  # already has the codes of the reference, also for categories new to it
        columns = (self._column_like(j, reference, at) for at, j in enumerate(order))
        is_sparse, n = self.is_sparse, self.n_rows
        source = SparseColumns.of(map(stored, columns), n) if is_sparse else tuple(columns)
        return Features(source, reference.names, reference.categories, dtypes=reference.dtypes)

    def _column_like(self, j: int, reference: Features, at: int) -> NDArray[Any]:
        old, new = reference.categories.get(at), self.categories.get(j)
        column = self.column(j)
        kinds = reference._holds(at), self._holds(j)
        if kinds[0] != kinds[1] and not np.isnan(column).all():
            one, other = sorted(kinds, reverse=True)
            raise DataError(
                f"column {self.names[j]!r} of X must have the same type in both data sets, got {one} "
                f"in one and {other} in the other. Convert it to one type."
            )
        if old is None or new is None:
            return in_unit(column, reference.dtypes.get(at, ""))
        known = {category: code for code, category in enumerate(old)}
        # Categories that the reference does not have get codes after those of the reference.
        codes = np.array([known.get(category, len(old) + i) for i, category in enumerate(new)], float)
        present = ~np.isnan(column)
        coded = np.full(len(column), np.nan)
        coded[present] = codes[column[present].astype(np.int64)]
        return coded

    def _holds(self, j: int) -> str:
        """Return what a column holds, for error messages."""
        return "categories" if j in self.categories else family(self.dtypes.get(j, ""))

    @classmethod
    def read(cls, X: Any, like: Features | None = None) -> Features:
        """Read an array, a sparse matrix, a mapping of columns, or a table of any type.

        A column of lists of numbers is read as several columns. With ``like``, only the columns of these
        features are read, in their order and with their category codes.

        Examples
        --------
        >>> features = Features.read({"age": [30, 41], "sex": ["f", "m"]})
        >>> features.names, features.matrix.tolist(), dict(features.categories)
        (('age', 'sex'), [[30.0, 0.0], [41.0, 1.0]], {1: ('f', 'm')})
        """
        features = X if isinstance(X, Features) else cls._read(X, like)
        return features if like is None else features.like(like)

    @classmethod
    def _read(cls, X: Any, like: Features | None) -> Features:
        check_in_memory(X, "X")
        if is_sparse(X):
            matrix = SparseColumns.read(X)
            return checked(cls(matrix, _numbered(matrix.n_columns)))
        X = as_table(from_records(unmasked(X)), "X")
        columns = named_columns(X)
        if columns is None:
            return checked(_from_array(plain_array(X, "X")))
        if not columns:
            return cls(np.empty((0 if isinstance(X, Mapping) else len(X), 0)), ())
        if like is not None:
            columns = with_words_of(columns, like.names)
            is_named = not like.nameless or all(name in columns for name in like.names)
            columns = only_wanted(columns, like.names) if is_named else only_lists(columns)
        found = _from_columns(columns, keep_names=like is not None and not like.nameless)
        return checked(found if like is None else _with_word_kinds(found, like))


def _with_word_kinds(features: Features, like: Features) -> Features:
    """Mark the columns that are word features in ``like`` as word features."""
    kinds = {like.names[j]: kind for j, kind in like.dtypes.items() if kind == WORD}
    if not kinds:
        return features
    words = {j: WORD for j, name in enumerate(features.names) if name in kinds}
    return replace(features, dtypes={**features.dtypes, **words})


def _numbered(d: int) -> tuple[str, ...]:
    """Return names for unnamed columns."""
    return tuple(f"x{j}" for j in range(d))


def _from_array(array: NDArray[Any]) -> Features:
    if array.ndim == 1:
        array = array[:, None]
        if array.dtype == object:  # the objects may be lists
            return _from_columns({"x0": array[:, 0]})
    if array.ndim != 2:
        raise DataError(
            f"X must be 2-dimensional, got an array of shape {array.shape}. "
            "Reshape it to (n_samples, n_features)."
        )
    names = _numbered(array.shape[1])
    if array.dtype in (np.float32, np.float64):
        return Features(native(array), names)
    if array.dtype.kind in "biuf":
        return Features(array.astype(np.float64), names)
    return _from_columns({name: array[:, j] for j, name in enumerate(names)})


def _from_columns(columns: Mapping[str, Any], *, keep_names: bool = False) -> Features:
    """Read columns; a single column of lists is a matrix, whose columns are only numbered."""
    matrix = None if keep_names else lone_matrix(columns)
    if matrix is not None:
        return _from_array(matrix)
    sparse = read_sparse_columns(columns)
    if sparse is not None:
        source, found = sparse
        return Features(source, tuple(found.names), found.categories, dtypes=found.dtypes)
    found = read_columns(columns)
    return Features(tuple(found.arrays), tuple(found.names), found.categories, dtypes=found.dtypes)


@dataclass(frozen=True)
class Place:
    """Where rows come from, a file and their numbers in it, as error messages name them.

    ``rows`` are the row numbers relative to ``first``, if some rows were dropped.

    Examples
    --------
    >>> Place("a.csv", 100).of(5), Place(rows=np.array([3, 8])).of(1)
    (('a.csv', 105), ('', 8))
    """

    name: str = ""
    first: int = 0
    rows: NDArray[np.int64] | None = None

    def of(self, row: int) -> tuple[str, int]:
        """Return the name and the number of a row."""
        return self.name, self.first + (int(row) if self.rows is None else int(self.rows[row]))


HERE = Place()  # rows of arrays in memory


def checked(features: Features, at: Place = HERE) -> Features:
    """Raise an error for infinite and very large values; mark features without missing values."""
    if not features.n_rows or not features.n_columns:
        return features
    source = features.source
    if isinstance(source, SparseColumns):
        source = source.kept
    arrays = source if isinstance(source, tuple) else (source,)
    sizes, complete = zip(*map(extreme, arrays), strict=True)
    if max(sizes) <= LARGEST:
        return replace(features, complete=all(complete))
    wrong = np.zeros(features.n_rows, bool)
    columns = (features.column(j) for j in range(features.n_columns))
    for column in columns:
        wrong |= np.abs(column) > LARGEST
    row = int(wrong.argmax())
    first = next(j for j in range(features.n_columns) if abs(features.column(j)[row]) > LARGEST)
    raise RowsError(
        FEATURE,
        f"features must be finite with absolute values of at most {LARGEST:g}, or missing",
        f"{features.column(first)[row]} in column {features.names[first]!r}",
        at.of(row),
        int(wrong.sum()),
        "Replace infinite values by numpy.nan, which is treated as missing, and rescale large ones.",
    )


def extreme(array: NDArray[Any]) -> tuple[float, bool]:
    """Return the largest absolute value, and whether no value is missing."""
    largest, some_missing = kernel().extremes(array.ravel(order="K"))
    return largest, not some_missing
