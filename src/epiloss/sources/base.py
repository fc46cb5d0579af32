"""Where rows come from: parts that are read batch by batch, each alone, the same each time."""

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
    """Some rows of the data, the same each time they are read."""

    first_row: int  # of the part, among the rows of what ``name`` names
    n_rows: int | None
    n_bytes: int | None = None  # that are stored, where it is known

    @property
    @abstractmethod
    def name(self) -> str:
        """What an error says that a row is a row of."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells the part, in this state, from all others."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read some columns, in order, as Arrow record batches."""

    def bytes_of(self, columns: Sequence[str]) -> int | None:
        """Return about how many stored bytes are read for some columns; None where that is not known."""
        return self.n_bytes


@dataclass(frozen=True)
class Source:
    """The parts of the data, and what is known before any row is read."""

    schema: Any
    parts: Sequence[Part]
    widths: Mapping[str, int] = field(default_factory=dict)  # of lists of any length
    remarks: tuple[str, ...] = ()  # for the result to make

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where it is known."""
        return count_rows(self.parts)


def count_rows(parts: Sequence[Part]) -> int | None:
    """Return the number of rows, where it is known of all parts."""
    numbers = [part.n_rows for part in parts]
    return None if None in numbers else sum(n for n in numbers if n is not None)


def completed(batch: Any, schema: Any, columns: Sequence[str], constants: Mapping[str, Any]) -> Any:
    """Return a batch with all columns, each of the type that it has in the whole data."""
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
    if pa.types.is_dictionary(values.type):  # of views, which Arrow cannot cast as they are
        values = pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(kind))
    return values.cast(kind, safe=not pa.types.is_temporal(kind))  # parts of a microsecond may be lost


def plain_schema(schema: Any) -> Any:
    """Return a schema with texts of one kind, moments in microseconds, decimals as doubles.

    What has been a pandas index, and categories, are marked. Formats differ in these, and so do files.
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
    """Return how many rows a batch of some columns has, so that it stays small."""
    widths = (
        schema.field(name).type.list_size
        if arrow().types.is_fixed_size_list(schema.field(name).type)
        else 1
        for name in columns
    )
    return max(256, min(_BATCH_ROWS, _BATCH_BYTES // (8 * max(sum(widths), 1))))


def list_widths(schema: Any, parts: Sequence[Part]) -> dict[str, int]:
    """Return how many numbers the lists of a column have, where the type does not tell."""
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
