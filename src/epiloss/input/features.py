"""Features as numbers with names; categories are codes, missing values NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.errors import FEATURE, DataError, RowsError
from epiloss.input.datetimes import MOMENT, family, in_unit, microseconds, object_microseconds
from epiloss.input.pandas_metadata import category_columns_of, index_columns_of

_TEXTS, _ROWS_PER_TEXT = 50, 10  # more texts, with fewer rows each, are names of rows
LARGEST = 3e38  # trees compare features as 32-bit floats


@dataclass(frozen=True)
class Features:
    """Columns of numbers, their names, and the categories of those that have any.

    ``source`` is a matrix (n, d) or one array for each column, as they came in: nothing is copied
    until somebody asks for ``matrix``. ``rows`` are those of the source that count; None for all.
    ``dtypes`` are what moments, durations and truth values were before they became numbers: of
    moments and durations, microseconds. ``complete`` features are known to lack no value.
    """

    source: NDArray[Any] | tuple[NDArray[Any], ...]
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
        """The values (n, d): a copy, unless all rows of a matrix count."""
        if not isinstance(self.source, tuple):
            return self.source if self.rows is None else self.source[self.rows]
        with np.errstate(invalid="ignore"):  # of single floats that are no numbers, each in its own way
            return np.column_stack([self.column(j) for j in range(self.n_columns)])

    @property
    def is_embedding(self) -> bool:
        """Tell whether there are so many nameless columns that none means anything by itself."""
        return self.n_columns > 50 and self.nameless

    @property
    def nameless(self) -> bool:
        """Tell whether the columns came as a matrix, and are only numbered."""
        return all(name == f"x{j}" for j, name in enumerate(self.names))

    def column(self, j: int) -> NDArray[Any]:
        """Return the values of one column."""
        column = self.source[j] if isinstance(self.source, tuple) else self.source[:, j]
        return column if self.rows is None else column[self.rows]

    def columns(self, first: int, last: int) -> Sequence[NDArray[Any]]:
        """Return the values of some columns, each side by side."""
        if isinstance(self.source, tuple):
            return [self.column(j) for j in range(first, last)]
        block = self.source[:, first:last]
        return list(np.ascontiguousarray((block if self.rows is None else block[self.rows]).T))

    def source_rows(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the rows of ``source`` that some rows are, by default all."""
        if self.rows is None:
            return np.arange(self.n_rows) if rows is None else rows
        return self.rows if rows is None else self.rows[rows]

    def has_missing(self, j: int) -> bool:
        """Tell whether any row lacks a value of one column."""
        return not self.complete and bool(np.isnan(self.column(j)).any())

    def take(self, rows: NDArray[Any]) -> Features:
        """Return some of the rows, without a copy of their values."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def without(self, left_out: Sequence[str]) -> Features | None:
        """Return the other columns; None if there are none."""
        kept = [j for j, name in enumerate(self.names) if name not in left_out]
        if not kept or not isinstance(self.source, tuple):
            return self if not left_out else None
        place = {j: at for at, j in enumerate(kept)}
        return replace(
            self,
            source=tuple(self.source[j] for j in kept),
            names=tuple(self.names[j] for j in kept),
            categories={place[j]: levels for j, levels in self.categories.items() if j in place},
            dtypes={place[j]: kind for j, kind in self.dtypes.items() if j in place},
        )

    def too_varied(self) -> dict[str, int]:
        """Return the columns of so many texts that each has few rows, and the number of their texts."""
        many = {self.names[j]: len(levels) for j, levels in self.categories.items()}
        most = max(_TEXTS, self.n_rows // _ROWS_PER_TEXT)
        return {name: n for name, n in many.items() if n > most}

    def description(self) -> Features:
        """Return the columns without their rows: what other features are to be like."""
        return Features(np.empty((0, self.n_columns)), self.names, self.categories, dtypes=self.dtypes)

    def like(self, reference: Features) -> Features:
        """Return these features with the columns and the category codes of others."""
        if reference.nameless and self.nameless and reference.n_columns != self.n_columns:
            raise DataError(
                f"X must have the {reference.n_columns} columns that were learned from, got "
                f"{self.n_columns}. Pass the same columns in the same order."
            )
        missing = [name for name in reference.names if name not in self.names]
        if missing:
            raise DataError(
                f"X must have the columns that were learned from, got no column {missing[0]!r}. "
                "Pass the same columns; further ones are ignored."
            )
        order = [self.names.index(name) for name in reference.names]
        in_order = order == list(range(self.n_columns)) and self.dtypes == reference.dtypes
        if in_order and not self.categories and not reference.categories:
            return self
        columns = tuple(self._column_like(j, reference, at) for at, j in enumerate(order))
        return Features(columns, reference.names, reference.categories, dtypes=reference.dtypes)

    def _column_like(self, j: int, reference: Features, at: int) -> NDArray[Any]:
        old, new = reference.categories.get(at), self.categories.get(j)
        column = self.column(j)
        kinds = reference._holds(at), self._holds(j)
        if kinds[0] != kinds[1] and not np.isnan(column).all():
            one, other = sorted(kinds, reverse=True)
            raise DataError(
                f"column {self.names[j]!r} of X must be of one kind in both data sets, got {one} in "
                f"one and {other} in the other. Convert it to one type."
            )
        if old is None or new is None:
            return in_unit(column, reference.dtypes.get(at, ""))
        known = {category: code for code, category in enumerate(old)}
        # categories that the others do not have come after theirs
        codes = np.array([known.get(category, len(old) + i) for i, category in enumerate(new)], float)
        present = ~np.isnan(column)
        coded = np.full(len(column), np.nan)
        coded[present] = codes[column[present].astype(np.int64)]
        return coded

    def _holds(self, j: int) -> str:
        """Say what a column holds."""
        return "categories" if j in self.categories else family(self.dtypes.get(j, ""))

    @classmethod
    def read(cls, X: Any) -> Features:
        """Accept an array, a mapping of columns, or a pandas, polars or pyarrow table.

        Examples
        --------
        >>> features = Features.read({"age": [30, 41], "sex": ["f", "m"]})
        >>> features.names, features.matrix.tolist(), dict(features.categories)
        (('age', 'sex'), [[30.0, 0.0], [41.0, 1.0]], {1: ('f', 'm')})
        """
        if isinstance(X, Features):
            return X
        if hasattr(X, "collect") and not hasattr(X, "__array__"):
            raise DataError(f"X must be in memory, got a {type(X).__name__}. Call X.collect() first.")
        columns = _columns(unmasked(X))
        if columns is not None and not columns:
            return cls(np.empty((0 if isinstance(X, Mapping) else len(X), 0)), ())
        features = _from_array(X) if columns is None else _from_columns(columns)
        return checked(features)


def _columns(X: Any) -> dict[str, Any] | None:
    """Return the named columns of a table but for its index, or None for a plain array."""
    if isinstance(X, Mapping):
        return {str(name): column for name, column in X.items()}
    names: Any = getattr(X, "column_names", None)  # pyarrow
    if names is None:
        names = getattr(X, "columns", None)  # pandas, polars
    if names is None or isinstance(X, np.ndarray) or callable(names):
        return None
    texts = [str(name) for name in names]
    repeated = [name for name in texts if texts.count(name) > 1]
    if repeated:
        raise DataError(
            f"the columns of X must have distinct names, got {repeated[0]!r} twice. Rename one of them."
        )
    index = index_columns_of(X)
    columns = {text: X[name] for text, name in zip(texts, names, strict=True) if text not in index}
    declared = [name for name in category_columns_of(X) if name in columns]
    return {**columns, **{name: columns[name].dictionary_encode() for name in declared}}


def _from_array(X: Any) -> Features:
    if hasattr(X, "tocsr"):
        raise DataError(
            f"X must be dense, got a sparse matrix of shape {X.shape}. Pass X.toarray(), or reduce "
            "it first, for instance with sklearn.decomposition.TruncatedSVD."
        )
    try:
        array = np.asarray(unmasked(X))
    except ValueError:
        raise DataError(
            "X must have rows of equal length, got a ragged list. Pad or cut them."
        ) from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise DataError(
            f"X must have rows and columns, got an array of shape {array.shape}. "
            "Reshape it to (n_samples, n_features)."
        )
    names = tuple(f"x{j}" for j in range(array.shape[1]))
    if array.dtype in (np.float32, np.float64):
        return Features(_native(array), names)
    if array.dtype.kind in "biuf":
        return Features(array.astype(np.float64), names)
    return _from_columns({name: array[:, j] for j, name in enumerate(names)})


def _from_columns(columns: Mapping[str, Any]) -> Features:
    numbers, categories, dtypes = [], {}, {}
    for j, (name, column) in enumerate(columns.items()):
        values, levels, dtype = _numbers_or_codes(name, _as_array(column))
        numbers.append(values)
        if dtype is not None:
            dtypes[j] = dtype
        if levels is not None:
            categories[j] = levels
    lengths = {len(values) for values in numbers}
    if len(lengths) > 1:
        raise DataError(
            f"the columns of X must have equal lengths, got {sorted(lengths)}. "
            "Check that they come from the same rows."
        )
    return Features(tuple(numbers), tuple(columns), categories, dtypes=dtypes)


def _as_array(column: Any) -> NDArray[Any]:
    """Return a column as an array: of declared categories, their names.

    Moments of a time zone in pandas are in UTC, not objects.
    """
    names = _category_names(column)
    if names is not None:
        return names
    zone = getattr(getattr(column, "dtype", None), "tz", None)
    return np.asarray(unmasked(column), None if zone is None else MOMENT)


def _category_names(column: Any) -> NDArray[Any] | None:
    """Return the name of each row's category, None where there is none, if they are declared as such."""
    if getattr(getattr(column, "dtype", None), "name", "") == "category":  # of pandas
        declared = getattr(column, "cat", column)
        values, codes = declared.categories, np.asarray(declared.codes)
    elif hasattr(getattr(column, "type", None), "index_type"):  # a dictionary of pyarrow
        whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        values = whole.dictionary.to_pylist()
        codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    else:
        return None
    names = [None if is_missing(value) else category_name(value) for value in values]
    return np.asarray(np.array([*names, None], object)[codes])  # the last one is at -1


def category_name(value: Any) -> str:
    """Return the category's name; integral floats are shown as integers.

    Examples
    --------
    >>> category_name("6"), category_name(6), category_name(6.0), category_name(6.5)
    ('6', '6', '6', '6.5')
    """
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return floats in the machine's own byte order, and where the machine reads them."""
    return np.require(array, array.dtype.newbyteorder("="), "A")


def _numbers_or_codes(
    name: str, column: NDArray[Any]
) -> tuple[Floats, tuple[str, ...] | None, str | None]:
    """Return numbers, or codes and their categories; and what the numbers were before."""
    if column.ndim != 1:
        raise DataError(
            f"column {name!r} of X must be one-dimensional, got shape {column.shape}. "
            "Pass a matrix, or one column per dimension."
        )
    if column.dtype.kind == "c":
        raise DataError(
            f"column {name!r} of X must be real, got complex numbers. Pass real and imaginary parts."
        )
    if column.dtype in (np.float32, np.float64):
        return _native(column), None, None
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
    levels, code = np.unique(np.array([str(value) for value in present]), return_inverse=True)
    codes = np.full(len(column), np.nan)
    codes[~missing] = code
    return codes, tuple(str(level) for level in levels), None


def _as_numbers(values: NDArray[Any]) -> tuple[Floats | None, str | None]:
    """Return objects as numbers, if that is what they are, and what else they were before."""
    if not len(values):
        return None, None
    # of durations first, which NumPy takes for numbers
    moments = object_microseconds(values)
    if moments is not None:
        return moments
    if all(isinstance(value, bool | np.bool_) for value in values):
        return values.astype(np.float64), "bool"
    if all(isinstance(value, int | float | np.number | Decimal) for value in values):
        return np.array([float(value) for value in values]), None
    return None, None


def unmasked(values: Any) -> Any:
    """Return a masked array with what it hides as missing values; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(np.float64), np.nan)
    return np.ma.filled(values.astype(object), None)


def is_missing(value: object) -> bool:
    """Tell whether a value stands for none: None, NaN, NaT or pandas' NA."""
    # pandas' NA answers a comparison with NA, whose truth raises; so it is known by its name
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


@dataclass(frozen=True)
class Place:
    """What rows are rows of, and their numbers there: how errors name them.

    ``rows`` are the numbers of some rows, counted from the first.

    Examples
    --------
    >>> Place("a.csv", 100).of(5), Place(rows=np.array([3, 8])).of(1)
    (('a.csv', 105), ('', 8))
    """

    name: str = ""
    first: int = 0
    rows: NDArray[np.int64] | None = None

    def of(self, row: int) -> tuple[str, int]:
        """Return where a row is."""
        return self.name, self.first + (int(row) if self.rows is None else int(self.rows[row]))


HERE = Place()  # rows of arrays


def checked(features: Features, at: Place = HERE) -> Features:
    """Refuse infinite and enormous values, and tell whether any are missing."""
    if not features.n_rows or not features.n_columns:
        return features
    arrays = features.source if isinstance(features.source, tuple) else (features.source,)
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
        f"features must be missing, or finite and at most {LARGEST:g} in size",
        f"{features.column(first)[row]} in column {features.names[first]!r}",
        at.of(row),
        int(wrong.sum()),
        "Replace infinities by numpy.nan, which is treated as missing, and rescale large numbers.",
    )


def extreme(array: NDArray[Any]) -> tuple[float, bool]:
    """Return the largest size, and whether no value is missing; nothing that lies dense is copied."""
    from epiloss._kernels.dispatch import kernel  # which knows features

    largest, some_missing = kernel().extremes(array.ravel(order="K"))
    return largest, not some_missing
