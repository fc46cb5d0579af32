"""Columns most of whose values are zero: the others alone are kept, by column and by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes
from epiloss.errors import DataError

_WORTH = 0.25  # of a table's values: if more are kept, its columns are better read as they are

Stored = tuple[NDArray[Any], NDArray[Any]]  # the rows of a column's values that are kept, and these


@dataclass(frozen=True)
class SparseColumns:
    """The columns of a sparse matrix of numbers in single or double precision; NaN is missing."""

    compressed: Any  # by columns or by rows, with no value twice

    @classmethod
    def read(cls, X: Any) -> SparseColumns:
        """Accept a sparse matrix or array of SciPy, of any format.

        Examples
        --------
        >>> from scipy.sparse import coo_array
        >>> found = SparseColumns.read(coo_array(([2.0, 3.0], ([0, 0], [1, 1])), (1, 2)))
        >>> found.rows(np.array([0])).tolist()
        [[0.0, 5.0]]
        """
        from scipy.sparse import csc_array  # not loaded where nothing is sparse

        if X.ndim == 1:
            X = X.reshape(-1, 1)
        if X.dtype.kind not in "biuf":
            raise DataError(
                f"a sparse X must hold real numbers, got {X.dtype}. Convert it by X.astype(float)."
            )
        given = csc_array(X)
        if not given.has_canonical_format:
            given = given.copy()  # the one that was given stays as it is
            given.sum_duplicates()
        if given.dtype not in (np.float32, np.float64) or not given.dtype.isnative:
            given = given.astype(np.float32 if given.dtype == np.dtype(">f4") else np.float64)
        return cls(given)

    @classmethod
    def of(cls, columns: Iterable[Stored], n_rows: int) -> SparseColumns:
        """Return columns of which some values are kept, in double precision unless all are in single."""
        from scipy.sparse import csc_array

        stored = list(columns)
        starts = np.cumsum([0, *(len(rows) for rows, _ in stored)])
        single = all(values.dtype == np.float32 for _, values in stored)
        values = np.empty(starts[-1], np.float32 if single else np.float64)
        rows = np.empty(starts[-1], np.int32 if max(n_rows, starts[-1]) < 2**31 else np.int64)
        for j, one in enumerate(stored):
            rows[starts[j] : starts[j + 1]], values[starts[j] : starts[j + 1]] = one
        return cls(csc_array((values, rows, starts), (n_rows, len(stored))))

    def __len__(self) -> int:
        return int(self.compressed.shape[0])

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return int(self.compressed.shape[1])

    @property
    def kept(self) -> NDArray[Any]:
        """The values that are kept."""
        return np.asarray(self.compressed.data)

    @cached_property
    def by_column(self) -> Any:
        """The values in compressed columns."""
        return self.compressed.tocsc()

    @cached_property
    def by_row(self) -> Any:
        """The values in compressed rows."""
        return self.compressed.tocsr()

    def rows(self, rows: Codes | None) -> NDArray[Any]:
        """Return the values (rows, columns) of some rows, or of all."""
        return np.asarray((self.by_row if rows is None else self.by_row[rows]).toarray())

    def columns(self, first: int, last: int, rows: Codes | None = None) -> NDArray[Any]:
        """Return the values (rows, some columns) of some rows or of all, each column side by side."""
        block = self.by_column[:, first:last]
        return np.asarray((block if rows is None else block[rows]).toarray(order="F"))

    def column(self, j: int) -> NDArray[Any]:
        """Return the values of one column."""
        whole = self.by_column
        own = slice(whole.indptr[j], whole.indptr[j + 1])
        column = np.zeros(len(self), whole.dtype)
        column[whole.indices[own]] = whole.data[own]
        return column

    def take(self, rows: Codes) -> SparseColumns:
        """Return some of the rows."""
        return SparseColumns(self.by_row[rows])

    def select(self, columns: Sequence[int]) -> SparseColumns:
        """Return some of the columns."""
        return SparseColumns(self.by_column[:, list(columns)])


def is_sparse(X: Any) -> bool:
    """Tell whether X is a sparse matrix or array as SciPy has them."""
    return hasattr(X, "tocsc") and hasattr(X, "dtype")


def stored(column: NDArray[Any]) -> Stored:
    """Return which values of a column are to be kept."""
    rows = np.flatnonzero(column != 0)  # NaN too
    return rows, column[rows]


def stored_in_pandas(column: Any) -> Stored | None:
    """Return the values that a sparse column of pandas keeps; None if the others are not zeros."""
    dtype: Any = getattr(column, "dtype", None)
    kind = getattr(getattr(dtype, "subtype", None), "kind", "")
    if kind not in ("b", "i", "u", "f") or getattr(dtype, "fill_value", None) != 0:
        return None
    array = getattr(column, "array", column)
    values = np.asarray(array.sp_values)
    if values.dtype != np.float32:
        values = values.astype(np.float64)
    return np.asarray(array.sp_index.to_int_index().indices), values


def is_worth_it(n_kept: int, n_values: int) -> bool:
    """Tell whether so few values are kept that to keep them alone takes less than to keep all."""
    return n_kept < _WORTH * n_values
