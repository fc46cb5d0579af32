"""Choose the inner loops: compiled if available, else NumPy."""

from __future__ import annotations

import os
import warnings
from functools import cache
from types import ModuleType


@cache
def kernel() -> ModuleType:
    """Return the module with the inner loops; warn once if the compiled loops are missing.

    The environment variable ``EPILOSS_KERNEL=numpy`` selects the NumPy loops, which give identical
    results.
    """
    from epiloss._kernels import reference

    if os.environ.get("EPILOSS_KERNEL") == "numpy":
        return reference
    try:
        from epiloss._kernels import compiled
    except ImportError:
        warnings.warn(
            "epiloss was installed without its compiled extension. Results are the same, but take "
            "several times as long. Install a C compiler and reinstall epiloss.",
            RuntimeWarning,
            stacklevel=2,
        )
        return reference
    return compiled
