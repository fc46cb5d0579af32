"""Sparse columns: only the non-zero values are stored, by column and by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes
from epiloss.errors import DataError

_MAX_DENSITY = 0.25  # tables with a larger fraction of stored values are read as dense columns

Stored = tuple[NDArray[Any], NDArray[Any]]  # row numbers and values of the non-zero values of a column


@dataclass(frozen=True)
class SparseColumns:
    """The columns of a sparse matrix of numbers in single or double precision; NaN is missing."""

    compressed: Any  # compressed by columns or by rows, without duplicate entries

    @classmethod
    def read(cls, X: Any) -> SparseColumns:
        """Read a SciPy sparse matrix or array of any format.

        Examples
        --------
        >>> from scipy.sparse import coo_array
        >>> found = SparseColumns.read(coo_array(([2.0, 3.0], ([0, 0], [1, 1])), (1, 2)))
        >>> found.rows(np.array([0])).tolist()
        [[0.0, 5.0]]
        """
        from scipy.sparse import csc_array  # imported only if there is sparse data

        if X.ndim == 1:
            X = X.reshape(-1, 1)
        if X.dtype.kind not in "biuf":
            raise DataError(
                f"a sparse X must hold real numbers, got {X.dtype}. Convert it with X.astype(float)."
            )
        given = csc_array(X)
        if not given.has_canonical_format:
            given = given.copy()  # sum_duplicates works in place and must not change the user's matrix
            given.sum_duplicates()
        if given.dtype not in (np.float32, np.float64) or not given.dtype.isnative:
            given = given.astype(np.float32 if given.dtype == np.dtype(">f4") else np.float64)
        return cls(given)

    @classmethod
    def of(cls, columns: Iterable[Stored], n_rows: int) -> SparseColumns:
        """Build the matrix from stored columns, in single precision only if all of them are."""
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
        """The stored values."""
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
        """Return the dense values (rows, columns) of some rows, or of all."""
        return np.asarray((self.by_row if rows is None else self.by_row[rows]).toarray())

    def columns(self, first: int, last: int, rows: Codes | None = None) -> NDArray[Any]:
        """Return the dense values (rows, some columns) in column-major order, by default of all rows."""
        block = self.by_column[:, first:last]
        return np.asarray((block if rows is None else block[rows]).toarray(order="F"))

    def column(self, j: int) -> NDArray[Any]:
        """Return the dense values of one column."""
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
    """Return whether X is a SciPy sparse matrix or array."""
    return hasattr(X, "tocsc") and hasattr(X, "dtype")


def stored(column: NDArray[Any]) -> Stored:
    """Return the non-zero values of a dense column, and their rows."""
    rows = np.flatnonzero(column != 0)  # includes NaN
    return rows, column[rows]


def stored_in_pandas(column: Any) -> Stored | None:
    """Return the stored values of a sparse pandas column; None if its fill value is not zero."""
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
    """Return whether sparse storage takes less memory than dense storage."""
    return n_kept < _MAX_DENSITY * n_values
