"""Columns of Arrow batches as NumPy arrays: numbers, texts as codes, lists as matrices."""

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
from epiloss.input.datetimes import DATE, DURATION, MOMENT, TIME
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
IDENTIFIER, INDEX = b"identifier", b"index"  # how columns are marked that are no features
_KIND = b"epiloss.kind"  # the mark of columns whose type does not tell what they are
OF_DAYS = {_KIND: DATE.encode()}  # moments that have been days
OF_CATEGORIES = {_KIND: b"category"}  # numbers that are declared to be names


def arrow() -> Any:
    """Return pyarrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "files need pyarrow, which is not installed. Run: pip install 'epiloss[files]'"
        ) from None
    return pyarrow


@dataclass(frozen=True)
class FeatureColumn:
    """A column of the data that is a feature, or several where it holds lists of ``width`` numbers.

    A text of which ``words`` are known is as many features, and one for their number.
    """

    name: str
    kind: str
    width: int = 1
    dtype: str | None = None  # of moments, durations and truth values, before they became numbers
    words: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of its features."""
        if self.kind == WORDS:
            return [length_name(self.name), *(word_name(self.name, word) for word in self.words)]
        return [self.name] if self.kind != MATRIX else [f"{self.name}[{j}]" for j in range(self.width)]


@dataclass(frozen=True)
class FeatureColumns:
    """The columns that are features; ``categories`` are those of texts, once they are known."""

    columns: tuple[FeatureColumn, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Any, names: Sequence[str], widths: Mapping[str, int]) -> FeatureColumns:
        """Tell from the types what the columns are; ``widths`` are those of lists of any length."""
        return cls(tuple(_feature(schema.field(name), widths) for name in names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features: of a lone matrix, x0, x1 and so on."""
        if len(self.columns) == 1 and self.columns[0].kind == MATRIX:
            return tuple(f"x{j}" for j in range(self.columns[0].width))
        return tuple(name for one in self.columns for name in one.names)

    def learned(self, table: Any) -> FeatureColumns:
        """Return the columns with the categories that occur in a table."""
        texts = (one.name for one in self.columns if one.kind == TEXT)
        known = {name: sorted(_distinct_texts(table.column(name))) for name in texts}
        return replace(self, categories={name: tuple(values) for name, values in known.items()})

    def read(self, batch: Any) -> Features:
        """Return the features of a batch or table; categories that are not known are one more."""
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
        """Return numbers for each row, from which it is known again: of texts, their digests.

        Infinite and enormous values are refused.
        """
        arrays: list[NDArray[Any]] = []
        names: list[str] = []
        sizes = [0.0]
        for one in sorted(self.columns, key=lambda column: column.name):  # files differ in their order
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
        return FeatureColumn(field.name, NUMBER, dtype=MOMENT)
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
            f"column {field.name!r} must hold numbers, texts, moments or lists of numbers to be a "
            f"feature, got {kind}. Leave it out: exclude it, or name the features."
        )
    )


def mark_of(field: Any) -> bytes | None:
    """Return how a column is marked that is no feature; None where it is not."""
    mark: bytes | None = (field.metadata or {}).get(b"epiloss")
    return mark


def marked(field: Any, mark: bytes) -> Any:
    """Return a column with a mark, which it keeps if it has one."""
    return field.with_metadata({b"epiloss": mark, **(field.metadata or {})})


def with_notes(schema: Any) -> Any:
    """Return a schema where columns that have been a pandas index, and categories, are marked."""
    index = index_columns(schema.names, schema.metadata)
    categories = category_columns(schema)
    fields = []
    for one in schema:
        if one.name in categories or is_of_categories(one):
            one = one.with_metadata({**(one.metadata or {}), **OF_CATEGORIES})
        fields.append(marked(one, INDEX) if one.name in index else one)
    return arrow().schema(fields)


def is_of_categories(field: Any) -> bool:
    """Tell whether a column is declared to hold categories, whatever they are."""
    is_dictionary = arrow().types.is_dictionary(field.type)
    return is_dictionary or (field.metadata or {}).items() >= OF_CATEGORIES.items()


def is_of_days(field: Any) -> bool:
    """Tell whether a column of moments has been one of days."""
    return (field.metadata or {}).items() >= OF_DAYS.items()


def in_microseconds(kind: Any) -> Any:
    """Return the type of moments, durations or times of day in microseconds; others as they are."""
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
    """Tell whether an Arrow type is one of texts."""
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: Any) -> bool:
    """Tell whether an Arrow type is one of lists."""
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _whole(values: Any) -> Any:
    """Return a column in one piece."""
    pa = arrow()
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def read_numbers(values: Any) -> NDArray[Any]:
    """Return numbers in single or double precision, NaN where there is none.

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
    """Return lists of ``width`` numbers each as the rows of a matrix."""
    values = _whole(values)
    fixed = arrow().types.is_fixed_size_list(values.type)
    if values.null_count or (not fixed and len(values) and _lengths(values) != {width}):
        raise DataError(
            printable(
                f"column {name!r} must hold lists of {width} numbers each, none missing, got others. "
                "Drop or repair them."
            )
        )
    return read_numbers(values.flatten()).reshape(-1, width)


def _lengths(values: Any) -> set[int]:
    from pyarrow import compute

    return set(compute.list_value_length(values).unique().to_pylist())


def encoded(values: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct values, and the place of each row's among them; -1 where it has none."""
    pa = arrow()
    values = _whole(values)
    if not pa.types.is_dictionary(values.type):
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        values = values.dictionary_encode()
    places = values.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return values.dictionary.to_pylist(), places.astype(np.int64)


def _as_texts(distinct: Sequence[Any], places: Codes) -> tuple[list[str], Codes]:
    """Return what categories are called, and the places of rows among them; -1 for missing ones."""
    missing = np.array([is_missing(one) for one in distinct] + [True], bool)
    names = ["" if lacks else category_name(one) for one, lacks in zip(distinct, missing, strict=False)]
    return names, np.where(missing[places], -1, places)


def _distinct_texts(values: Any) -> set[str]:
    distinct, places = encoded(values)
    present = (distinct[place] for place in np.unique(places[places >= 0]))
    return {category_name(one) for one in present if not is_missing(one)}


def _text_codes(values: Any, code: Any) -> Floats:
    """Return the code of each text, NaN where there is none."""
    distinct, places = encoded(values)
    codes = [np.nan if is_missing(text) else float(code(category_name(text))) for text in distinct]
    return np.array([*codes, np.nan])[places]  # the last one is at -1


def key_numbers(values: Any) -> Floats:
    """Return a number for each value, equal for equal ones: of texts, one that is made of the text."""
    if is_text(values.type) or arrow().types.is_dictionary(values.type):
        return _text_codes(values, _digest)
    return read_numbers(values)


@lru_cache(2**16)
def _digest(text: str) -> float:
    whole = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    return float(whole >> 11)  # what a double holds


def read_codes(values: Any, places: Mapping[Any, int]) -> NDArray[np.int64]:
    """Return the place of each value; -1 for those that have none, and for missing ones."""
    values, types = _whole(values), arrow().types
    if types.is_integer(values.type) and not values.null_count and list(places) == [*range(len(places))]:
        numbers: NDArray[Any] = values.to_numpy()  # which are their own places
        if numbers.min(initial=0) >= 0 and numbers.max(initial=0) < len(places):
            return numbers.astype(np.int64)
    distinct, rows = encoded(values)
    known = [-1 if one is None else places.get(one, -1) for one in distinct]
    return np.array([*known, -1], np.int64)[rows]


def value_counts(values: Any) -> dict[Any, int]:
    """Return how often each value occurs; None stands for missing ones."""
    from pyarrow import compute

    counts = compute.value_counts(_whole(values))
    found: dict[Any, int] = {}
    for one, n in zip(*(counts.field(k).to_pylist() for k in (0, 1)), strict=True):
        value = None if one is None or one != one else one
        found[value] = found.get(value, 0) + n
    return found
