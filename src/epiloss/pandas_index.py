"""The index of a pandas data frame where it has become a column, of a file or of an Arrow table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAMELESS = re.compile(r"__index_level_\d+__")  # how pandas calls an index that has no name


def index_columns(names: Sequence[str], metadata: Mapping[bytes, bytes] | None) -> list[str]:
    """Return the columns that have been an index, as pandas has noted beside the columns' types.

    Examples
    --------
    >>> noted = {b"pandas": b'{"index_columns": ["patient"]}'}
    >>> index_columns(["age", "patient"], noted), index_columns(["age", "__index_level_0__"], None)
    (['patient'], ['__index_level_0__'])
    """
    noted = _noted((metadata or {}).get(b"pandas", b""))
    return [name for name in names if name in noted or _NAMELESS.fullmatch(name)]


def index_columns_of(X: Any) -> list[str]:
    """Return the columns of a table in memory that have been an index."""
    names: Any = getattr(X, "column_names", None)  # pyarrow
    metadata = getattr(getattr(X, "schema", None), "metadata", None)
    if names is None:
        names = getattr(X, "columns", None)  # pandas, polars
    if names is None or callable(names) or isinstance(X, Mapping):
        return []
    return index_columns([str(name) for name in names], metadata)


def index_remark(name: str) -> str:
    """Say that a column is left out."""
    return f"{name!r} is the index of a pandas data frame and is no feature."


def _noted(text: bytes) -> list[str]:
    """Return the names that pandas' note gives; none where the note is not pandas' own."""
    try:
        note = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return []
    columns = note.get("index_columns") if isinstance(note, dict) else None
    # of an index that only counts there is no column, but a description
    return [one for one in columns if isinstance(one, str)] if isinstance(columns, list) else []
