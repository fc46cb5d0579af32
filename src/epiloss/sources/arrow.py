"""Reading columns of Arrow batches as NumPy arrays: numbers, codes of strings, matrices of lists."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.errors import DataError, MissingExtraError, printable
from epiloss.input.datetimes import DATE, DATETIME, DURATION, TIME
from epiloss.input.features import (
    LARGEST,
    Features,
    Place,
    checked,
    extreme,
)
from epiloss.input.pandas_metadata import category_columns, index_columns
from epiloss.input.text import WORD, length_name, text_columns, word_name
from epiloss.input.values import category_name, is_missing

NUMBER, TEXT, MATRIX, WORDS = "number", "text", "matrix", "words"
IDENTIFIER, INDEX = b"identifier", b"index"  # marks of columns that are not features
_KIND = b"epiloss.kind"  # metadata key for columns whose Arrow type does not say what they hold
OF_DAYS = {_KIND: DATE.encode()}  # datetimes that were dates
OF_CATEGORIES = {_KIND: b"category"}  # numbers that are categories


def arrow() -> Any:
    """Return pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "reading files needs pyarrow, which is not installed. Run: pip install 'epiloss[files]'"
        ) from None
    return pyarrow


@dataclass(frozen=True)
class FeatureColumn:
    """A column of the data that is one feature, or several if it holds lists or text.

    Lists of ``width`` numbers are that many features. A text column is one feature for each of its
    ``words``, and one for the number of words.
    """

    name: str
    kind: str
    width: int = 1
    dtype: str | None = None  # original type of datetimes, durations and booleans
    words: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of its features."""
        if self.kind == WORDS:
            return [length_name(self.name), *(word_name(self.name, word) for word in self.words)]
        return [self.name] if self.kind != MATRIX else [f"{self.name}[{j}]" for j in range(self.width)]


@dataclass(frozen=True)
class FeatureColumns:
    """The columns that are features; ``categories`` of string columns are set by ``learned``."""

    columns: tuple[FeatureColumn, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Any, names: Sequence[str], widths: Mapping[str, int]) -> FeatureColumns:
        """Infer the kinds of columns from their types; ``widths`` are the lengths of lists."""
        return cls(tuple(_feature(schema.field(name), widths) for name in names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features: x0, x1, ... for a single matrix."""
        if len(self.columns) == 1 and self.columns[0].kind == MATRIX:
            return tuple(f"x{j}" for j in range(self.columns[0].width))
        return tuple(name for one in self.columns for name in one.names)

    def learned(self, table: Any) -> FeatureColumns:
        """Return the columns with the categories of a table."""
        texts = (one.name for one in self.columns if one.kind == TEXT)
        known = {name: sorted(_distinct_texts(table.column(name))) for name in texts}
        return replace(self, categories={name: tuple(values) for name, values in known.items()})

    def read(self, batch: Any) -> Features:
        """Return the features of a batch or table; unknown categories share one additional code."""
        arrays: list[NDArray[Any]] = []
        categories, dtypes = {}, {}
        for one in self.columns:
            values = _whole(batch.column(one.name))
            if one.dtype is not None:
                dtypes[len(arrays)] = one.dtype
            if one.kind == MATRIX:
                matrix = read_matrix(one.name, values, one.width)
                if len(self.columns) == 1:
                    return Features(matrix, self.names)
                arrays.extend(matrix.T)
            elif one.kind == WORDS:
                dtypes |= dict.fromkeys(range(len(arrays) + 1, len(arrays) + one.width), WORD)
                found = text_columns(one.name, *_as_texts(*encoded(values)), one.words)
                arrays.extend(numbers for _, numbers in found)
            elif one.kind == TEXT:
                known = self.categories[one.name]
                categories[len(arrays)] = known
                places = {category: code for code, category in enumerate(known)}
                arrays.append(_text_codes(values, lambda text: places.get(text, len(known))))  # noqa: B023
            else:
                arrays.append(read_numbers(values))
        return Features(tuple(arrays), self.names, categories, dtypes=dtypes)

    def key_values(self, batch: Any, at: Place) -> list[NDArray[Any]]:
        """Return numbers that identify each row; strings are replaced by their digests.

        Infinite and very large values raise an error.
        """
        arrays: list[NDArray[Any]] = []
        names: list[str] = []
        sizes = [0.0]
        for one in sorted(self.columns, key=lambda column: column.name):  # the order may differ by file
            values = _whole(batch.column(one.name))
            if one.kind == MATRIX:
                matrix = read_matrix(one.name, values, one.width)
                sizes.append(extreme(matrix)[0])
                arrays.extend(matrix.T)
                names.extend(f"{one.name}[{j}]" for j in range(one.width))
                continue
            is_text = one.kind in (TEXT, WORDS)
            numbers = key_numbers(values) if is_text else read_numbers(values)
            sizes.append(extreme(numbers)[0])
            arrays.append(numbers)
            names.append(one.name)
        if max(sizes) > LARGEST:
            checked(Features(tuple(arrays), tuple(names)), at)
        return arrays


def _feature(field: Any, widths: Mapping[str, int]) -> FeatureColumn:
    types, kind = arrow().types, field.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind) or is_of_categories(field):
        return FeatureColumn(field.name, TEXT)
    if is_list(kind):
        width = kind.list_size if types.is_fixed_size_list(kind) else widths.get(field.name, 0)
        inner = kind.value_type
        if width and (types.is_floating(inner) or types.is_integer(inner) or types.is_boolean(inner)):
            return FeatureColumn(field.name, MATRIX, width)
    if types.is_boolean(kind):
        return FeatureColumn(field.name, NUMBER, dtype="bool")
    if types.is_date(kind) or is_of_days(field):
        return FeatureColumn(field.name, NUMBER, dtype=DATE)
    if types.is_timestamp(kind):
        return FeatureColumn(field.name, NUMBER, dtype=DATETIME)
    if types.is_duration(kind):
        return FeatureColumn(field.name, NUMBER, dtype=DURATION)
    if types.is_time(kind):
        return FeatureColumn(field.name, NUMBER, dtype=TIME)
    if (
        types.is_floating(kind)
        or types.is_integer(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    ):
        return FeatureColumn(field.name, NUMBER)
    raise DataError(
        printable(
            f"feature column {field.name!r} must hold numbers, strings, dates or lists of numbers, got "
            f"{kind}. Exclude it, or list the features."
        )
    )


def mark_of(field: Any) -> bytes | None:
    """Return the mark of a column that is not a feature; None if it has none."""
    mark: bytes | None = (field.metadata or {}).get(b"epiloss")
    return mark


def marked(field: Any, mark: bytes) -> Any:
    """Return a column with a mark, unless it already has one."""
    return field.with_metadata({b"epiloss": mark, **(field.metadata or {})})


def with_notes(schema: Any) -> Any:
    """Return a schema in which columns that were a pandas index or categorical are marked."""
    index = index_columns(schema.names, schema.metadata)
    categories = category_columns(schema)
    fields = []
    for one in schema:
        if one.name in categories or is_of_categories(one):
            one = one.with_metadata({**(one.metadata or {}), **OF_CATEGORIES})
        fields.append(marked(one, INDEX) if one.name in index else one)
    return arrow().schema(fields)


def is_of_categories(field: Any) -> bool:
    """Return whether a column is declared to be categorical."""
    is_dictionary = arrow().types.is_dictionary(field.type)
    return is_dictionary or (field.metadata or {}).items() >= OF_CATEGORIES.items()


def is_of_days(field: Any) -> bool:
    """Return whether a column of datetimes was a column of dates."""
    return (field.metadata or {}).items() >= OF_DAYS.items()


def in_microseconds(kind: Any) -> Any:
    """Return the type of datetimes, durations or times in microseconds; other types unchanged."""
    pa = arrow()
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_date(kind):
        return pa.timestamp("us")
    if types.is_duration(kind):
        return pa.duration("us")
    return pa.time64("us") if types.is_time(kind) else kind


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is a string type."""
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is a list type."""
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _whole(values: Any) -> Any:
    """Return a column in one chunk."""
    pa = arrow()
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def read_numbers(values: Any) -> NDArray[Any]:
    """Return numbers in single or double precision, NaN for missing values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> read_numbers(pa.array([1, None, 3], pa.int32())).tolist()
    [1.0, nan, 3.0]
    """
    pa = arrow()
    values, types = _whole(values), pa.types
    kind = values.type
    if types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if types.is_null(kind):
        return np.full(len(values), np.nan)
    if types.is_float16(kind):
        values = values.cast(pa.float32())
    elif types.is_decimal(kind):
        values = values.cast(pa.float64())
    elif types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif types.is_temporal(kind):
        values = values.cast(in_microseconds(kind), safe=False).cast(pa.int64())
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float64)


def read_matrix(name: str, values: Any, width: int) -> NDArray[Any]:
    """Return lists of ``width`` numbers as the rows of a matrix."""
    values = _whole(values)
    fixed = arrow().types.is_fixed_size_list(values.type)
    if values.null_count or (not fixed and len(values) and _lengths(values) != {width}):
        raise DataError(
            printable(
                f"column {name!r} must hold lists of {width} numbers without missing rows, got missing "
                "lists or other lengths. Drop or fill such rows."
            )
        )
    return read_numbers(values.flatten()).reshape(-1, width)


def _lengths(values: Any) -> set[int]:
    from pyarrow import compute

    return set(compute.list_value_length(values).unique().to_pylist())


def encoded(values: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct values, and the index of each row's value among them; -1 if missing."""
    pa = arrow()
    values = _whole(values)
    if not pa.types.is_dictionary(values.type):
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        values = values.dictionary_encode()
    places = values.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return values.dictionary.to_pylist(), places.astype(np.int64)


def _as_texts(distinct: Sequence[Any], places: Codes) -> tuple[list[str], Codes]:
    """Return the names of the categories, and each row's index among them; -1 if missing."""
    missing = np.array([is_missing(one) for one in distinct] + [True], bool)
    names = ["" if lacks else category_name(one) for one, lacks in zip(distinct, missing, strict=False)]
    return names, np.where(missing[places], -1, places)


def _distinct_texts(values: Any) -> set[str]:
    distinct, places = encoded(values)
    present = (distinct[place] for place in np.unique(places[places >= 0]))
    return {category_name(one) for one in present if not is_missing(one)}


def _text_codes(values: Any, code: Any) -> Floats:
    """Return the code of each string, NaN for missing values."""
    distinct, places = encoded(values)
    codes = [np.nan if is_missing(text) else float(code(category_name(text))) for text in distinct]
    return np.array([*codes, np.nan])[places]  # index -1 is the last element, NaN


def key_numbers(values: Any) -> Floats:
    """Return a number for each value, equal for equal values; strings are hashed."""
    if is_text(values.type) or arrow().types.is_dictionary(values.type):
        return _text_codes(values, _digest)
    return read_numbers(values)


@lru_cache(2**16)
def _digest(text: str) -> float:
    whole = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    return float(whole >> 11)  # a double holds 53 bits exactly


def read_codes(values: Any, places: Mapping[Any, int]) -> NDArray[np.int64]:
    """Return the code of each value; -1 for missing and unknown values."""
    values, types = _whole(values), arrow().types
    if types.is_integer(values.type) and not values.null_count and list(places) == [*range(len(places))]:
        numbers: NDArray[Any] = values.to_numpy()  # the values are the codes
        if numbers.min(initial=0) >= 0 and numbers.max(initial=0) < len(places):
            return numbers.astype(np.int64)
    distinct, rows = encoded(values)
    known = [-1 if one is None else places.get(one, -1) for one in distinct]
    return np.array([*known, -1], np.int64)[rows]


def value_counts(values: Any) -> dict[Any, int]:
    """Return the number of rows of each value; None stands for missing values."""
    from pyarrow import compute

    counts = compute.value_counts(_whole(values))
    found: dict[Any, int] = {}
    for one, n in zip(*(counts.field(k).to_pylist() for k in (0, 1)), strict=True):
        value = None if one is None or one != one else one
        found[value] = found.get(value, 0) + n
    return found
