"""Tables of any type: pandas, polars, pyarrow, mappings, and everything that Arrow can read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from epiloss.errors import DataError, MissingExtraError, printable

_MAX_SHOWN = 12  # column names listed in an error when none is similar to the one asked for
_MIN_LETTERS = 3  # of a name to match it to longer names that contain it


def column_names(table: Any) -> list[Any] | None:
    """Return the names of a table's columns; None for objects without named columns.

    Examples
    --------
    >>> column_names({"age": [30], "sex": ["f"]}), column_names(np.zeros((1, 2)))
    (['age', 'sex'], None)
    """
    if hasattr(table, "tocsr"):  # a sparse matrix; SciPy's dok_matrix is also a mapping
        return None
    if isinstance(table, Mapping):
        return list(table)
    names: Any = getattr(table, "column_names", None)  # pyarrow
    if names is None:
        names = getattr(table, "columns", None)  # pandas, polars
    if names is None or callable(names) or isinstance(table, np.ndarray):
        return None
    return list(names)


def from_records(values: Any) -> Any:
    """Return a list of rows, each a mapping, as a mapping of columns; anything else unchanged.

    Examples
    --------
    >>> from_records([{"age": 30, "sex": "f"}, {"age": 41}]), from_records([30, 41])
    ({'age': [30, 41], 'sex': ['f', None]}, [30, 41])
    """
    if not isinstance(values, list | tuple) or not values:
        return values
    if not all(isinstance(row, Mapping) for row in values):
        return values
    names = dict.fromkeys(name for row in values for name in row)
    return {name: [row.get(name) for row in values] for name in names}


def as_table(values: Any, what: str) -> Any:
    """Convert objects that Arrow can read and NumPy cannot to a pyarrow table or array."""
    if hasattr(values, "__array__") or isinstance(values, Mapping):
        return values
    speaks_arrow = hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")
    if not speaks_arrow and not hasattr(values, "__dataframe__"):
        return values
    pa = _arrow(values, what)
    try:
        if hasattr(values, "__arrow_c_array__"):
            found = pa.array(values)
            return pa.RecordBatch.from_struct_array(found) if pa.types.is_struct(found.type) else found
        if speaks_arrow:
            found = pa.chunked_array(values)
            return pa.Table.from_struct_array(found) if pa.types.is_struct(found.type) else found
        return pa.interchange.from_dataframe(values)
    except Exception as error:  # objects of other packages may raise anything
        reason = printable(str(error).strip().split("\n")[0]).rstrip(".")
        raise DataError(
            f"{what} must be an array or a table, got a {type(values).__name__} that cannot be "
            f"converted: {reason:.200}. Convert it to a pandas data frame or a NumPy array."
        ) from None


def _arrow(values: Any, what: str) -> Any:
    try:
        import pyarrow
        import pyarrow.interchange
    except ImportError:
        raise MissingExtraError(
            f"reading {what}, a {type(values).__name__}, needs pyarrow, which is not installed. "
            "Run: pip install 'epiloss[files]'"
        ) from None
    return pyarrow


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to a misspelled one; None if none is similar.

    Examples
    --------
    >>> nearest_name("Label", ["age", "label_y", "label"]), nearest_name("score", ["age"])
    ('label', None)
    """
    known = {one.casefold(): one for one in reversed(list(names))}  # the first of equal names wins
    asked = name.casefold()
    close = difflib.get_close_matches(asked, list(known), n=1)
    if not close and len(asked) >= _MIN_LETTERS:
        close = sorted((one for one in known if asked in one), key=len)[:1]
    return known[close[0]] if close else None


def no_column(name: str, names: Iterable[str]) -> str:
    """Return the end of an error about a missing column: a similar name, or the existing columns.

    Examples
    --------
    >>> no_column("Age", ["age", "sex"]), no_column("bmi", ["age", "sex"])
    ("did you mean 'age'?", 'it has age, sex.')
    """
    known = list(names)
    meant = nearest_name(name, known)
    if meant is not None:
        return f"did you mean {meant!r}?"
    more = f" and {len(known) - _MAX_SHOWN:,} more" if len(known) > _MAX_SHOWN else ""
    return f"it has {', '.join(f'{one:.30}' for one in known[:_MAX_SHOWN])}{more}."
