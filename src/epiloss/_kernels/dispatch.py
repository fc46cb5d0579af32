"""The inner loops, of the trees and over rows: compiled where the package has them, else in NumPy."""

from __future__ import annotations

import os
import warnings
from functools import cache
from types import ModuleType


@cache
def kernel() -> ModuleType:
    """Return the module of the loops; that it is the slower one is said once.

    ``EPILOSS_KERNEL=numpy`` in the environment asks for the NumPy loops, which give the same bits.
    """
    from epiloss._kernels import reference

    if os.environ.get("EPILOSS_KERNEL") == "numpy":
        return reference
    try:
        from epiloss._kernels import compiled
    except ImportError:
        warnings.warn(
            "epiloss was installed without its compiled part, so trees take several times as long, with "
            "the same result. Install a C compiler and epiloss again.",
            RuntimeWarning,
            stacklevel=2,
        )
        return reference
    return compiled
