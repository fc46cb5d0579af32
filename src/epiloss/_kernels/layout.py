"""Memory layout for the loops: blocks that fit into the cache, order by code, grids of knots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats

# A matrix (rows, columns), or a tuple with one array per column.
Values: TypeAlias = NDArray[Any] | tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Grid:
    """A grid of equal cells on [0, 1] that speeds up the search for a score among sorted knots.

    ``first[k]`` is the number of knots in cells before ``k``. A search in cell ``k`` is limited to the
    knots ``first[k]`` to ``first[k + 1]``; usually there are none.
    """

    first: NDArray[np.int32]

    @property
    def n_cells(self) -> int:
        """The number of cells, without the additional cell for the score 1."""
        return len(self.first) - 2

    @classmethod
    def of(cls, knots: Floats, n: int) -> Grid:
        """Return a grid for ``n`` scores that is finer than the knots and fits into the cache."""
        n_cells = max(min(16 * len(knots), n // 2, 2**16), 256)
        cell = (np.clip(knots, 0, 1) * n_cells).astype(np.int64)
        first = np.zeros(n_cells + 2, np.int32)
        np.cumsum(np.bincount(cell, minlength=n_cells + 1), out=first[1:])
        return cls(first)


def order_by_code(codes: Codes) -> Codes:
    """Return the stable order of small non-negative integers, in linear time.

    Examples
    --------
    >>> order_by_code(np.array([2, 0, 2, 1]))
    array([1, 3, 0, 2])
    """
    # NumPy uses radix sort for 16-bit integers.
    few = codes.max(initial=0) < 2**15
    return np.argsort(codes.astype(np.int16) if few else codes, kind="stable")


_BLOCK = 2**13


def blocks(n: int, least: int = 0) -> Iterator[slice]:
    """Divide ``n`` rows into blocks that fit into the cache, but have at least ``least`` rows."""
    size = max(_BLOCK, least)
    return (slice(start, start + size) for start in range(0, n, size))
