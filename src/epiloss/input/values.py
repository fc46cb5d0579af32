"""Values of any make: which are missing, what categories are called, and arrays of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import DataError, printable
from epiloss.input.tables import as_table


def is_missing(value: object) -> bool:
    """Tell whether a value stands for none: None, NaN, NaT or pandas' NA."""
    # pandas' NA answers a comparison with NA, whose truth raises; so it is known by its name
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    differs = value != value
    return isinstance(differs, bool | np.bool_) and bool(differs)  # arrays answer with arrays


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
    """Return a masked array with what it hides as missing values; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(np.float64), np.nan)
    return np.ma.filled(values.astype(object), None)


def plain_array(values: Any, what: str, dtype: Any = None) -> NDArray[Any]:
    """Return values of any make as an array; what a mask hides is missing.

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
    except Exception as error:  # foreign objects raise anything
        if isinstance(values, list | tuple) and isinstance(error, ValueError):
            raise DataError(
                f"{what} must have rows of equal length, got a ragged list. Pad or cut them."
            ) from None
        reason = printable(str(error).strip().split("\n")[0]).rstrip(".")
        raise DataError(
            f"{what} must be an array or a table, got a {type(values).__name__} that cannot be read as "
            f"one: {reason:.200}. Convert it to a NumPy array."
        ) from None


def check_in_memory(values: Any, what: str) -> None:
    """Refuse tables that are only a plan of what to read."""
    if hasattr(values, "collect") and not hasattr(values, "__array__"):
        raise DataError(
            f"{what} must be in memory, got a {type(values).__name__}. Call .collect() first."
        )


def _without_gradient(values: Any) -> Any:
    """Return a tensor as NumPy can read it: off its device and its graph, in a precision NumPy has."""
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
