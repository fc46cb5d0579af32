"""Single values and arrays of any type: missing values, category names, conversion to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import DataError, printable
from epiloss.input.tables import as_table


def is_missing(value: object) -> bool:
    """Return whether a value is missing: None, NaN, NaT or pandas.NA."""
    # Comparing pandas.NA returns NA, whose truth value raises, so it is recognised by its type.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    differs = value != value
    return isinstance(differs, bool | np.bool_) and bool(differs)  # comparing arrays returns arrays


def category_name(value: Any) -> str:
    """Return the category's name; integral floats are shown as integers.

    Examples
    --------
    >>> category_name("6"), category_name(6), category_name(6.0), category_name(6.5)
    ('6', '6', '6', '6.5')
    """
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def unmasked(values: Any) -> Any:
    """Return a masked array with masked values as missing values; anything else unchanged."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(np.float64), np.nan)
    return np.ma.filled(values.astype(object), None)


def plain_array(values: Any, what: str, dtype: Any = None) -> NDArray[Any]:
    """Return values of any type as an array; masked values are missing.

    Examples
    --------
    >>> plain_array([0.5, None], "scores").tolist()
    [0.5, None]
    """
    check_in_memory(values, what)
    try:
        return np.asarray(_without_gradient(unmasked(as_table(values, what))), dtype)
    except (DataError, ImportError):
        raise
    except Exception as error:  # objects of other packages may raise anything
        if isinstance(values, list | tuple) and isinstance(error, ValueError):
            raise DataError(
                f"{what} must have rows of equal length, got a ragged list. Pad or truncate the rows."
            ) from None
        reason = printable(str(error).strip().split("\n")[0]).rstrip(".")
        raise DataError(
            f"{what} must be an array or a table, got a {type(values).__name__} that cannot be "
            f"converted: {reason:.200}. Convert it to a NumPy array."
        ) from None


def check_in_memory(values: Any, what: str) -> None:
    """Raise an error for lazy tables."""
    if hasattr(values, "collect") and not hasattr(values, "__array__"):
        raise DataError(
            f"{what} must be in memory, got a {type(values).__name__}. Call .collect() first."
        )


def _without_gradient(values: Any) -> Any:
    """Return a tensor that NumPy can read: detached, on the CPU, and not in bfloat16."""
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
