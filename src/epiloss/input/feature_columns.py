"""Converting table columns to numbers: categories become codes, lists become several columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.errors import DataError
from epiloss.input.datetimes import DATETIME, microseconds, object_microseconds
from epiloss.input.pandas_metadata import category_columns_of, index_columns_of
from epiloss.input.sparse import SparseColumns, Stored, is_worth_it, stored, stored_in_pandas
from epiloss.input.tables import column_names, nearest_name
from epiloss.input.text import as_levels, text_columns, text_of
from epiloss.input.values import category_name, is_missing, plain_array


@dataclass
class ReadColumns:
    """Columns as numbers, with their names, categories and original types."""

    arrays: list[NDArray[Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    categories: dict[int, tuple[str, ...]] = field(default_factory=dict)
    dtypes: dict[int, str] = field(default_factory=dict)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Add a column, or several if it is a matrix or holds lists."""
        matrix = _as_matrix(name, array)
        if matrix is not None:
            for j, column in enumerate(matrix.T):
                self.add(f"{name}[{j}]", column)
            return
        values, levels, dtype = _numbers_or_codes(name, array)
        if dtype is not None:
            self.dtypes[len(self.arrays)] = dtype
        if levels is not None:
            self.categories[len(self.arrays)] = levels
        self.arrays.append(values)
        self.names.append(name)


def named_columns(X: Any) -> dict[str, Any] | None:
    """Return the named columns of a table without its index, or None for a plain array."""
    names = column_names(X)
    if names is None:
        return None
    texts = [str(name) for name in names]
    _check_distinct(texts)
    if isinstance(X, Mapping):
        return dict(zip(texts, X.values(), strict=True))
    index = index_columns_of(X)
    columns = {text: X[name] for text, name in zip(texts, names, strict=True) if text not in index}
    declared = [name for name in category_columns_of(X) if name in columns]
    return {**columns, **{name: columns[name].dictionary_encode() for name in declared}}


def _check_distinct(names: Collection[str]) -> None:
    if len(set(names)) == len(names):
        return
    repeated = next(name for name, count in Counter(names).items() if count > 1)
    raise DataError(
        f"the columns of X must have distinct names, got {repeated!r} twice. Rename one of them."
    )


def only_wanted(columns: Mapping[str, Any], wanted: Collection[str]) -> dict[str, Any]:
    """Return the columns with these names, or of lists whose elements have these names (``e[0]``)."""
    kept = {}
    for name in wanted:
        whole = name if name in columns else name.rpartition("[")[0]
        if whole not in columns:
            raise missing_column(name, columns)
        kept[whole] = columns[whole]
    return kept


def with_words_of(columns: Mapping[str, Any], wanted: Collection[str]) -> dict[str, Any]:
    """Return the columns, adding the wanted word features that can be made from text columns."""
    words: dict[str, list[str]] = {}
    for name in wanted:
        made_of = None if name in columns else text_of(name)
        if made_of is not None and made_of[0] in columns:
            words.setdefault(made_of[0], []).extend([made_of[1]] if made_of[1] is not None else [])
    made = {
        name: numbers
        for column, own in words.items()
        for name, numbers in _of_texts(column, columns[column], own)
    }
    return {**columns, **made}


def _of_texts(column: str, values: Any, words: list[str]) -> Iterator[tuple[str, NDArray[Any]]]:
    levels, codes = as_levels(_as_array(column, values))
    return text_columns(column, levels, codes, words)


def missing_column(name: str, names: Collection[str]) -> DataError:
    """Return the error for a missing column; for a word feature, it names the text column."""
    made_of = text_of(name)
    name = name if made_of is None else made_of[0]
    near = nearest_name(name, names)
    meant = "" if near is None else f"Did you mean {near!r}? "
    return DataError(
        f"X must have the columns that were used for learning, got no column {name!r}. {meant}Pass the "
        "same columns; additional ones are ignored."
    )


def only_lists(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the column of lists or matrices if there is exactly one, else all columns."""
    nested = {name: one for name, one in columns.items() if _is_nested(_as_array(name, one))}
    return nested if len(nested) == 1 else dict(columns)


def lone_matrix(columns: Mapping[str, Any]) -> NDArray[Any] | None:
    """Return the matrix in the only column of a table; None if there are others or it has no lists."""
    if len(columns) != 1:
        return None
    ((name, column),) = columns.items()
    return _as_matrix(name, _as_array(name, column))


def read_columns(columns: Mapping[str, Any]) -> ReadColumns:
    """Read all columns and check that they have equal lengths and distinct names."""
    found = ReadColumns()
    for name, column in columns.items():
        found.add(name, _as_array(name, column))
    lengths = {len(values) for values in found.arrays}
    if len(lengths) > 1:
        raise DataError(
            f"the columns of X must have equal lengths, got {sorted(lengths)}. "
            "Check that they come from the same rows."
        )
    _check_distinct(found.names)
    return found


def read_sparse_columns(columns: Mapping[str, Any]) -> tuple[SparseColumns, ReadColumns] | None:
    """Read the columns of a sparse data frame; return None if it is not sparse enough.

    Dense columns are read as usual, and their non-zero values are stored.
    """
    kept = {name: one for name in columns if (one := stored_in_pandas(columns[name]))}
    if not kept:
        return None
    n_rows = len(next(iter(columns.values())))
    n_kept = sum(len(rows) for rows, _ in kept.values()) + (len(columns) - len(kept)) * n_rows
    if not is_worth_it(n_kept, len(columns) * n_rows):
        return None
    found, parts = ReadColumns(), list[Stored]()
    for name, column in columns.items():
        if name not in kept:
            found.add(name, _as_array(name, column))
            parts.extend(map(stored, found.arrays[len(parts) :]))
            continue
        if column.dtype.subtype.kind == "b":
            found.dtypes[len(parts)] = "bool"
        found.arrays.append(kept[name][1])
        found.names.append(name)
        parts.append(kept[name])
    _check_distinct(found.names)
    return SparseColumns.of(parts, n_rows), found


def _as_array(name: str, column: Any) -> NDArray[Any]:
    """Return a column as an array; categorical columns as the names of their categories.

    pandas datetimes with a time zone are converted to UTC.
    """
    names = _category_names(column)
    if names is not None:
        return names
    if isinstance(column, list | tuple) and all(isinstance(one, str | None) for one in column):
        return np.array(column, object)  # a NumPy string array would be as wide as the longest string
    zone = getattr(getattr(column, "dtype", None), "tz", None)
    return plain_array(column, f"column {name!r} of X", None if zone is None else DATETIME)


def _category_names(column: Any) -> NDArray[Any] | None:
    """Return the category names of a categorical column (None if missing); None for other columns."""
    if getattr(getattr(column, "dtype", None), "name", "") == "category":  # pandas
        declared = getattr(column, "cat", column)
        values, codes = declared.categories, np.asarray(declared.codes)
    elif hasattr(getattr(column, "type", None), "index_type"):  # a pyarrow dictionary array
        whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        values = whole.dictionary.to_pylist()
        codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    else:
        return None
    names = [None if is_missing(value) else category_name(value) for value in values]
    return np.asarray(np.array([*names, None], object)[codes])  # code -1 is the last element, None


def _is_nested(array: NDArray[Any]) -> bool:
    """Return whether each row of a column holds several values."""
    if array.dtype != object or array.ndim != 1:
        return array.ndim == 2
    first = next((value for value in array if value is not None), None)
    if isinstance(first, list | tuple | np.ndarray):
        return True
    return hasattr(first, "__array__") and hasattr(first, "__len__") and not isinstance(first, str)


def _as_matrix(name: str, array: NDArray[Any]) -> NDArray[Any] | None:
    """Return lists of numbers as a matrix with NaN for missing lists; None for other columns."""
    if not _is_nested(array):
        return None
    if array.ndim == 2:
        return array
    rows = [None if value is None else plain_array(value, f"column {name!r} of X") for value in array]
    first = next(place for place, row in enumerate(rows) if row is not None)
    shape = rows[first].shape  # type: ignore[union-attr]  # this row is not None
    for place, row in enumerate(rows):
        if row is not None and row.shape != shape:
            raise DataError(
                f"lists in column {name!r} of X must have equal lengths, got {_length(row)} at row "
                f"{place} and {_length(rows[first])} at row {first}. Pad or truncate them."
            )
    if len(shape) != 1 or not all(row is None or row.dtype.kind in "biuf" for row in rows):
        return None  # such as lists of strings
    nothing = np.full(shape, np.nan, np.float32)
    return np.stack([nothing if row is None else row for row in rows])


def _length(row: Any) -> str:
    return f"{len(row)} numbers" if row.ndim == 1 else f"shape {row.shape}"


def native(array: NDArray[Any]) -> NDArray[Any]:
    """Return floats in native byte order and aligned in memory."""
    return np.require(array, array.dtype.newbyteorder("="), "A")


def _numbers_or_codes(
    name: str, column: NDArray[Any]
) -> tuple[Floats, tuple[str, ...] | None, str | None]:
    """Return numbers, or codes and their categories; and the original type of the numbers."""
    if column.ndim != 1:
        raise DataError(
            f"column {name!r} of X must have one or two dimensions, got shape {column.shape}. "
            "Pass a matrix, or one column per dimension."
        )
    if column.dtype.kind == "c":
        raise DataError(
            f"column {name!r} of X must be real, got complex numbers. Pass real and imaginary parts."
        )
    if column.dtype in (np.float32, np.float64):
        return native(column), None, None
    if column.dtype.kind in "biuf":
        return column.astype(np.float64), None, "bool" if column.dtype == bool else None
    if column.dtype.kind in "mM":
        ticks, kind = microseconds(column)
        return ticks, None, kind
    missing = np.array([is_missing(value) for value in column], bool)
    present = column[~missing]
    read, dtype = _as_numbers(present)
    if read is not None:
        numbers = np.full(len(column), np.nan)
        numbers[~missing] = read
        return numbers, None, dtype
    levels, code = as_levels(present)
    codes = np.full(len(column), np.nan)
    codes[~missing] = code
    return codes, tuple(levels), None


def _as_numbers(values: NDArray[Any]) -> tuple[Floats | None, str | None]:
    """Return objects as numbers, with their original type; None if they are not numeric."""
    if not len(values):
        return None, None
    # Durations come first because NumPy counts them as numbers.
    converted = object_microseconds(values)
    if converted is not None:
        return converted
    if all(isinstance(value, bool | np.bool_) for value in values):
        return values.astype(np.float64), "bool"
    if all(isinstance(value, int | float | np.number | Decimal) for value in values):
        return np.array([float(value) for value in values]), None
    return None, None
