"""Type aliases of the arrays that are passed around."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]  # level sets, regions, classes, clusters, row numbers
