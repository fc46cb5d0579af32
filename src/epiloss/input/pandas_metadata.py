"""pandas metadata in files and Arrow tables: which columns were an index or categorical."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from epiloss.errors import Remark
from epiloss.input.tables import column_names

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # pandas' name for an index without a name


def index_columns(names: Sequence[str], metadata: Mapping[bytes, bytes] | None) -> list[str]:
    """Return the columns that were an index of a pandas data frame, according to its metadata.

    Examples
    --------
    >>> noted = {b"pandas": b'{"index_columns": ["patient"]}'}
    >>> index_columns(["age", "patient"], noted), index_columns(["age", "__index_level_0__"], None)
    (['patient'], ['__index_level_0__'])
    """
    # A RangeIndex has no column, only a description, which is a dictionary.
    noted = [one for one in _noted(metadata, "index_columns") if isinstance(one, str)]
    return [name for name in names if name in noted or _UNNAMED_INDEX.fullmatch(name)]


def category_columns(schema: Any) -> list[str]:
    """Return the columns of an Arrow schema that were categorical in pandas.

    Parquet keeps the categorical type of strings only; for numbers, the metadata is the only source.

    Examples
    --------
    >>> import pyarrow as pa
    >>> noted = '{"columns": [{"field_name": "code", "pandas_type": "categorical"}]}'
    >>> category_columns(pa.schema({"code": pa.int64(), "age": pa.int64()}, {"pandas": noted}))
    ['code']
    """
    notes = [one for one in _noted(schema.metadata, "columns") if isinstance(one, dict)]
    noted = [one.get("field_name") for one in notes if one.get("pandas_type") == "categorical"]
    # Lists cannot be categories, whatever the metadata says.
    return [one.name for one in schema if one.name in noted and one.type.num_fields == 0]


def index_columns_of(X: Any) -> list[str]:
    """Return the columns of a table in memory that were an index."""
    names = column_names(X)
    if names is None or isinstance(X, Mapping):
        return []
    return index_columns([str(name) for name in names], getattr(_schema(X), "metadata", None))


def category_columns_of(X: Any) -> list[str]:
    """Return the columns of a table in memory that were categorical in pandas."""
    schema = _schema(X)
    return [] if getattr(schema, "metadata", None) is None else category_columns(schema)


def _schema(X: Any) -> Any:
    return getattr(X, "schema", None)


def shown_name(name: str) -> str:
    """Return the name of a column as reports show it: pandas' name for a nameless index is "index".

    Examples
    --------
    >>> shown_name("__index_level_0__"), shown_name("age")
    ('index', 'age')
    """
    return "index" if _UNNAMED_INDEX.fullmatch(name) else name


def index_remark(name: str) -> Remark:
    """Return the remark that an index column is not used as a feature."""
    text = f"{name!r} is the index of a pandas data frame and is not used as a feature."
    return Remark("index-left-out", text)


def _noted(metadata: Mapping[bytes, bytes] | None, what: str) -> list[Any]:
    """Return a list from the pandas metadata; an empty one if the metadata is malformed."""
    text = (metadata or {}).get(b"pandas", b"")
    try:
        note = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return []
    listed = note.get(what) if isinstance(note, dict) else None
    return listed if isinstance(listed, list) else []
