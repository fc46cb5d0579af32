"""What pandas notes beside a file or an Arrow table: columns that were an index, or categories."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from epiloss.errors import Remark
from epiloss.input.tables import column_names

_NAMELESS = re.compile(r"__index_level_\d+__")  # how pandas calls an index that has no name


def index_columns(names: Sequence[str], metadata: Mapping[bytes, bytes] | None) -> list[str]:
    """Return the columns that have been an index, as pandas has noted beside the columns' types.

    Examples
    --------
    >>> noted = {b"pandas": b'{"index_columns": ["patient"]}'}
    >>> index_columns(["age", "patient"], noted), index_columns(["age", "__index_level_0__"], None)
    (['patient'], ['__index_level_0__'])
    """
    # of an index that only counts there is no column, but a description
    noted = [one for one in _noted(metadata, "index_columns") if isinstance(one, str)]
    return [name for name in names if name in noted or _NAMELESS.fullmatch(name)]


def category_columns(schema: Any) -> list[str]:
    """Return the columns of an Arrow schema that pandas has declared to be categories.

    Parquet keeps the type of texts only, so that of numbers this note alone tells.

    Examples
    --------
    >>> import pyarrow as pa
    >>> noted = '{"columns": [{"field_name": "code", "pandas_type": "categorical"}]}'
    >>> category_columns(pa.schema({"code": pa.int64(), "age": pa.int64()}, {"pandas": noted}))
    ['code']
    """
    notes = [one for one in _noted(schema.metadata, "columns") if isinstance(one, dict)]
    noted = [one.get("field_name") for one in notes if one.get("pandas_type") == "categorical"]
    # lists are no categories, whatever the note says
    return [one.name for one in schema if one.name in noted and one.type.num_fields == 0]


def index_columns_of(X: Any) -> list[str]:
    """Return the columns of a table in memory that have been an index."""
    names = column_names(X)
    if names is None or isinstance(X, Mapping):
        return []
    return index_columns([str(name) for name in names], getattr(_schema(X), "metadata", None))


def category_columns_of(X: Any) -> list[str]:
    """Return the columns of a table in memory that pandas has declared to be categories."""
    schema = _schema(X)
    return [] if getattr(schema, "metadata", None) is None else category_columns(schema)


def _schema(X: Any) -> Any:
    return getattr(X, "schema", None)


def index_remark(name: str) -> Remark:
    """Say that a column is left out."""
    text = f"{name!r} is the index of a pandas data frame and is not used as a feature."
    return Remark("index-left-out", text)


def _noted(metadata: Mapping[bytes, bytes] | None, what: str) -> list[Any]:
    """Return a list of pandas' note; an empty one where the note is not pandas' own."""
    text = (metadata or {}).get(b"pandas", b"")
    try:
        note = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return []
    listed = note.get(what) if isinstance(note, dict) else None
    return listed if isinstance(listed, list) else []
