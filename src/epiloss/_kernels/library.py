"""Access to the compiled library: its functions, and the memory addresses of arrays.

Importing this module fails if the package was installed without a C compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels import _kernel  # type: ignore[attr-defined]  # the compiled extension
from epiloss._kernels.layout import Values
from epiloss._kernels.reference_trees import Records

_COLUMN = np.dtype([("first", "i8"), ("stride", "i8"), ("is_double", "i8")])


def function(name: str, signature: str, returned: Any = None) -> Any:
    """Return a function of the library; in its signature, ``p`` is a pointer and ``i`` an integer."""
    found = getattr(ctypes.CDLL(_kernel.__file__), f"epiloss_{name}")
    kinds = {"p": ctypes.c_void_p, "i": ctypes.c_int64}
    found.argtypes, found.restype = [kinds[letter] for letter in signature], returned
    return found


def column_places(values: Values) -> Records:
    """Return the memory addresses and strides of columns."""
    if isinstance(values, tuple):
        return array_places(values)
    columns = np.empty(values.shape[1], _COLUMN)
    columns["first"] = values.ctypes.data + np.arange(values.shape[1]) * values.strides[1]
    columns["stride"] = values.strides[0]
    columns["is_double"] = values.dtype == np.float64
    return columns


def array_places(arrays: Sequence[NDArray[Any]]) -> Records:
    """Return the memory addresses and strides of arrays of single or double precision."""
    columns = np.empty(len(arrays), _COLUMN)
    columns["first"] = [column.ctypes.data for column in arrays]
    columns["stride"] = [column.strides[0] for column in arrays]
    columns["is_double"] = [column.dtype == np.float64 for column in arrays]
    return columns


def address(array: NDArray[Any] | None) -> int | None:
    """Return the memory address of a contiguous array."""
    if array is None:
        return None
    try:
        # Raises an error if the array is not contiguous.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # the array is read-only or empty; checking first would be slower
        assert array.flags.c_contiguous  # the only layout that the loops support
        return array.ctypes.data
