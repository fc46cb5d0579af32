"""How rows are laid out for the loops: blocks that stay in the cache, order by code, a grid of knots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats

# a matrix (rows, columns), or one array for each column
Values: TypeAlias = NDArray[Any] | tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Grid:
    """Equal cells of [0, 1] that tell a score's place among sorted knots, but for knots in its cell.

    ``first[k]`` knots lie in cells before ``k``; what is left of a search is between the knots
    ``first[k]`` and ``first[k + 1]``, most often none.
    """

    first: NDArray[np.int32]

    @property
    def n_cells(self) -> int:
        """The number of cells; one more is for the score 1."""
        return len(self.first) - 2

    @classmethod
    def of(cls, knots: Floats, n: int) -> Grid:
        """Return a grid for ``n`` scores: finer than the knots, and small enough for the cache."""
        n_cells = max(min(16 * len(knots), n // 2, 2**16), 256)
        cell = (np.clip(knots, 0, 1) * n_cells).astype(np.int64)
        first = np.zeros(n_cells + 2, np.int32)
        np.cumsum(np.bincount(cell, minlength=n_cells + 1), out=first[1:])
        return cls(first)


def order_by_code(codes: Codes) -> Codes:
    """Return the stable order of small whole numbers, in linear time.

    Examples
    --------
    >>> order_by_code(np.array([2, 0, 2, 1]))
    array([1, 3, 0, 2])
    """
    # NumPy sorts 16-bit numbers by their digits
    few = codes.max(initial=0) < 2**15
    return np.argsort(codes.astype(np.int16) if few else codes, kind="stable")


_BLOCK = 2**13


def blocks(n: int, least: int = 0) -> Iterator[slice]:
    """Cut ``n`` rows into parts whose values, all of them, stay in the cache, or of ``least`` rows."""
    size = max(_BLOCK, least)
    return (slice(start, start + size) for start in range(0, n, size))
