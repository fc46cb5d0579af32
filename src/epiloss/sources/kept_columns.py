"""Columns of the input table that are copied to an output table with new columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epiloss.errors import OptionError, printable
from epiloss.sources.arrow import arrow, is_of_days


def kept_columns(schema: Any, added: Sequence[str], output: str | Path) -> list[str]:
    """Return the columns to copy: those that the format of ``output`` can hold.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = pa.schema([("p", pa.float64()), ("e", pa.list_(pa.float64()))])
    >>> kept_columns(schema, ["p_repaired"], "better.csv"), lost_columns(schema, "better.csv")
    (['p'], ['e'])
    """
    twice = next((name for name in added if name in schema.names), None)
    if twice is not None:
        raise OptionError(
            printable(
                f"the table must not have a column {twice!r}, because the output adds one of that name. "
                "Rename the column."
            )
        )
    lost = lost_columns(schema, output)
    return [name for name in schema.names if name not in lost]


def lost_columns(schema: Any, output: str | Path) -> list[str]:
    """Return the columns that the format of ``output`` cannot hold, such as lists in CSV."""
    if Path(output).suffix.lower() != ".csv":
        return []
    return [field.name for field in schema if arrow().types.is_nested(field.type)]


def plain_field(field: Any) -> Any:
    """Return a field as every file format can hold it: dictionaries as values, days as dates."""
    pa = arrow()
    if is_of_days(field):  # sources read days as timestamps
        return field.with_type(pa.date32())
    is_dictionary = pa.types.is_dictionary(field.type)
    return field.with_type(field.type.value_type) if is_dictionary else field
