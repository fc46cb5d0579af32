"""Sums over the rows of many pairs of conditions at once: one column with each of several others.

One product of a sparse indicator matrix (cells, rows) with the values (rows, k) gives the sums for all
pairs that share their first column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from epiloss._typing import Codes, Floats
from epiloss.segments.columns import CodedColumn


@dataclass(frozen=True)
class Pairs:
    """Some columns and rows; all columns are padded to the same numbers of cells and sides."""

    columns: Sequence[CodedColumn]
    rows: Codes

    @cached_property
    def n_cells(self) -> int:
        """The number of cells of each column; surplus cells are empty."""
        return max(column.n_cells for column in self.columns)

    @cached_property
    def coarse(self) -> Floats:
        """The cells on each side of each column (columns, sides, cells)."""
        n_sides = max(len(column.places) for column in self.columns)
        sides = np.zeros((len(self.columns), n_sides, self.n_cells))
        for j, column in enumerate(self.columns):
            sides[j, : len(column.places), : column.n_cells] = column.coarse
        return sides

    @cached_property
    def _cells(self) -> NDArray[np.int32]:
        """The cell of each row in each column (rows, columns)."""
        every = [column.cells[self.rows] for column in self.columns]
        return np.stack(every, axis=1).astype(np.int32)

    @cached_property
    def _codes(self) -> NDArray[np.int32]:
        """The first code of each row's cell when it is paired with the cells of another column."""
        start = np.arange(len(self.columns), dtype=np.int32) * np.int32(self.n_cells**2)
        return self._cells * np.int32(self.n_cells) + start

    @cached_property
    def _ones(self) -> Floats:
        return np.ones(self._cells.size)

    def single_sums(self, values: Floats) -> Floats:
        """Return sums of values (rows, k) by the sides of each column (columns, sides, k)."""
        d = len(self.columns)
        codes = (self._cells + np.arange(d, dtype=np.int32) * np.int32(self.n_cells)).ravel()
        found = self._summed(codes, d, values)[: d * self.n_cells].reshape(d, self.n_cells, -1)
        return np.asarray(self.coarse @ found, float)

    def _summed(self, codes: NDArray[np.int32], n_each: int, values: Floats) -> Floats:
        """Return sums of values (rows, k) by cell; ``codes`` are ``n_each`` cells of each row."""
        ends = np.arange(0, len(codes) + 1, n_each, dtype=np.int32)
        shape = (n_each * self.n_cells**2, len(self.rows))
        return np.asarray(
            csc_array((self._ones[: len(codes)], codes, ends), shape=shape) @ values, float
        )

    def sums(self, first: int, values: Floats) -> Floats:
        """Return sums of values (rows, k) by the sides of a column and those of each later one.

        They are (later columns, sides of the first, sides of the other, k).
        """
        n_others, size, k = len(self.columns) - first - 1, self.n_cells, values.shape[1]
        own = self._cells[:, first, None] - np.int32((first + 1) * size**2)
        codes = (self._codes[:, first + 1 :] + own).ravel()
        found = self._summed(codes, n_others, values).reshape(n_others, size, size * k)
        others = (self.coarse[first + 1 :] @ found).reshape(n_others, -1, size, k)
        both = self.coarse[first] @ others.transpose(0, 2, 1, 3).reshape(n_others, size, -1)
        return np.asarray(both.reshape(n_others, self.coarse.shape[1], -1, k), float)
