"""Data sources: parts that can be read independently and repeatedly, batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epiloss.sources.arrow import (
    OF_DAYS,
    arrow,
    in_microseconds,
    is_list,
    is_of_categories,
    with_notes,
)

_BATCH_BYTES, _BATCH_ROWS = 2**24, 2**17


class Part(ABC):
    """Some rows of the data; reading them again returns the same rows."""

    first_row: int  # number of the part's first row within ``name``, such as a file
    n_rows: int | None
    n_bytes: int | None = None  # stored size, if known

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the part in error messages."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A string that identifies the part and its current content."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read some columns, in order, as Arrow record batches."""

    def bytes_of(self, columns: Sequence[str]) -> int | None:
        """Return the approximate number of stored bytes of some columns; None if unknown."""
        return self.n_bytes


@dataclass(frozen=True)
class Source:
    """The parts of the data, and what is known before rows are read."""

    schema: Any
    parts: Sequence[Part]
    widths: Mapping[str, int] = field(default_factory=dict)  # lengths of lists without a fixed size
    remarks: tuple[str, ...] = ()  # shown with the result

    @property
    def n_rows(self) -> int | None:
        """The number of rows, if known."""
        return count_rows(self.parts)


def count_rows(parts: Sequence[Part]) -> int | None:
    """Return the number of rows of all parts; None if unknown for any."""
    numbers = [part.n_rows for part in parts]
    return None if None in numbers else sum(n for n in numbers if n is not None)


def completed(batch: Any, schema: Any, columns: Sequence[str], constants: Mapping[str, Any]) -> Any:
    """Return a batch with all columns, cast to their types in the whole data."""
    pa = arrow()
    arrays = []
    for name in columns:
        kind = schema.field(name).type
        if name in constants:
            value = constants[name]
            n = batch.num_rows
            arrays.append(pa.nulls(n, kind) if value is None else pa.repeat(pa.scalar(value, kind), n))
            continue
        values = batch.column(batch.schema.get_field_index(name))
        arrays.append(values if values.type == kind else _cast(values, kind))
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def _cast(values: Any, kind: Any) -> Any:
    pa = arrow()
    if pa.types.is_dictionary(values.type):  # Arrow cannot cast dictionaries of string views directly
        values = pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(kind))
    return values.cast(kind, safe=not pa.types.is_temporal(kind))  # fractions of microseconds are cut


def plain_schema(schema: Any) -> Any:
    """Return a schema with one type of strings, datetimes in microseconds and decimals as doubles.

    Columns that were a pandas index or categorical are marked. This makes files of different formats
    and writers comparable.
    """
    pa = arrow()
    types = pa.types

    def plain(field: Any) -> Any:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if types.is_string_view(kind):
            kind = pa.large_string()
        elif types.is_decimal(kind):
            kind = pa.float64()
        if types.is_date(kind) and not is_of_categories(field):
            field = field.with_metadata({**(field.metadata or {}), **OF_DAYS})
        return field.with_type(in_microseconds(kind))

    return pa.schema([plain(field) for field in with_notes(schema)])


def batch_rows(schema: Any, columns: Sequence[str]) -> int:
    """Return the number of rows of a batch, such that it takes little memory."""
    widths = (
        schema.field(name).type.list_size
        if arrow().types.is_fixed_size_list(schema.field(name).type)
        else 1
        for name in columns
    )
    return max(256, min(_BATCH_ROWS, _BATCH_BYTES // (8 * max(sum(widths), 1))))


def list_widths(schema: Any, parts: Sequence[Part]) -> dict[str, int]:
    """Return the lengths of the lists in columns whose type does not fix them, from the first row."""
    types = arrow().types
    names = [
        field.name
        for field in schema
        if is_list(field.type) and not types.is_fixed_size_list(field.type)
    ]
    if not names or not parts:
        return {}
    first = next(iter(parts[0].batches(names)), None)
    if first is None:
        return {}
    lists = {name: first.column(name)[0].as_py() for name in names}
    return {name: len(values or ()) for name, values in lists.items()}
