"""The search: of all pairs of conditions, those that part rows of equal scores the most.

A greedy tree misses what only two columns together tell, as either of them tells little by itself. Here
all pairs of coarse splits are looked at. The best is moved to its best thresholds, and takes a third
condition if that is worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.segments.columns import N_CODES, CodedColumn, Side
from epiloss.segments.gaps import Mask

MOST_CONDITIONS = 3
_MOST_COLUMNS = 40  # whose pairs are looked at
_MOST_SHARE = 0.5  # of the rows: a larger segment is told by those outside
_ROUNDS = 2
_TINY = 1e-12


@dataclass(frozen=True)
class Found:
    """Conditions, the square of their rows' z-score by the search, and the direction of the gap."""

    sides: tuple[Side, ...]
    square: float
    sign: float

    def holds(self, columns: Sequence[CodedColumn]) -> Mask:
        """Tell which rows meet all conditions; ``columns`` are those of the search."""
        return _inside(columns, self.sides, len(columns[0].codes))


@dataclass(frozen=True)
class _Cells:
    """The cells that rows are in, and what squared sums of residuals are multiplied by."""

    columns: tuple[int, ...]
    codes: NDArray[np.uint16]
    times: Floats


@dataclass(frozen=True)
class Scan:
    """All single conditions and pairs of them, on some rows, ready for any residuals of these.

    ``least`` is the fewest rows of a segment.
    """

    columns: Sequence[CodedColumn]
    rows: Codes
    spread: Floats
    least: float

    @cached_property
    def _singles(self) -> list[_Cells]:
        return [self._cells((j,)) for j in range(len(self.columns))]

    def _cells(self, places: tuple[int, ...]) -> _Cells:
        parts = [self.columns[j] for j in places]
        codes = parts[0].cells[self.rows].astype(np.uint16)
        for part in parts[1:]:
            codes = codes * np.uint16(part.n_cells) + part.cells[self.rows]
        variance, count = self._sums(places, codes, self.spread), self._sums(places, codes, None)
        return _Cells(places, codes, self._times(variance, count))

    def _times(self, variance: Floats, count: Floats) -> Floats:
        """Return what squared sums are multiplied by; 0 for segments that are too small or too large.

        ``variance`` is that of the sum, of which its part of the mean of all is taken off.
        """
        total = float(self.spread.sum())
        fits = (count >= self.least) & (count <= _MOST_SHARE * len(self.rows))
        within = np.maximum(variance * (1 - variance / total), _TINY * total)
        return np.where(fits, 1 / within, 0.0)

    def _sums(self, places: tuple[int, ...], codes: NDArray[np.uint16], values: Floats | None) -> Floats:
        """Return sums over the rows of each condition (sides,) or pair of conditions (sides, sides)."""
        first, *second = (self.columns[j] for j in places)
        n_cells = first.n_cells
        if not second:
            return np.asarray(first.coarse @ np.bincount(codes, values, n_cells), float)
        width = second[0].n_cells
        sums = np.bincount(codes, values, n_cells * width).reshape(n_cells, width)
        return np.asarray(first.coarse @ sums @ second[0].coarse.T, float)

    def column_squares(self, residual: Floats) -> Floats:
        """Return the largest square of a z-score by one condition on each column."""
        found = [self._squares(one, residual).max(initial=0.0) for one in self._singles]
        return np.array(found, float)

    def _squares(self, cells: _Cells, residual: Floats) -> Floats:
        sums = self._sums(cells.columns, cells.codes, residual)
        return np.asarray(sums * sums * cells.times, float)

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], _Cells]:
        return {}

    def _pair(self, places: tuple[int, int]) -> _Cells:
        if places not in self._pairs:
            self._pairs[places] = self._cells(places)
        return self._pairs[places]

    def largest(self, residuals: Floats) -> tuple[Floats, Floats]:
        """Return the largest squares of z-scores for each of several columns of residuals (rows, k).

        The first are those of the search (k,), the second those by one condition on each column
        (k, columns).
        """
        singles = np.stack([self._largest(one, residuals) for one in self._singles], axis=1)
        if len(self.columns) > _MOST_COLUMNS:  # of which each residual chooses its own
            found = [self.best(one) for one in residuals.T]
            return np.array([0.0 if one is None else one.square for one in found]), singles
        squares = singles.max(axis=1)
        for pair in combinations(range(len(self.columns)), 2):
            squares = np.maximum(squares, self._largest(self._pair(pair), residuals))
        return squares, singles

    def _largest(self, cells: _Cells, residuals: Floats) -> Floats:
        """Return the largest square of each column of residuals (rows, k) among some conditions."""
        order = np.argsort(cells.codes, kind="stable")
        ordered = cells.codes[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        parts = [self.columns[j] for j in cells.columns]
        shape = [part.n_cells for part in parts]
        sums = np.zeros((int(np.prod(shape)), residuals.shape[1]))
        sums[ordered[starts]] = np.add.reduceat(residuals[order], starts, axis=0)
        sums = (parts[0].coarse @ sums.reshape(shape[0], -1)).reshape(-1, *shape[1:], residuals.shape[1])
        if len(parts) > 1:
            sums = np.matmul(parts[1].coarse, sums)
        squares = sums**2 * cells.times[..., None]
        return np.asarray(squares.reshape(-1, residuals.shape[1]).max(axis=0, initial=0.0), float)

    def best(self, residual: Floats) -> Found | None:
        """Return the best condition or pair of conditions."""
        singles = self.column_squares(residual)
        chosen = np.sort(np.argsort(-singles, kind="stable")[:_MOST_COLUMNS]).tolist()
        candidates = [self._singles[j] for j in chosen]
        candidates += [self._pair(pair) for pair in combinations(chosen, 2)]
        square, best = 0.0, None
        for cells in candidates:
            squares = self._squares(cells, residual)
            place = squares.argmax()
            if squares.flat[place] > square:
                square = float(squares.flat[place])
                best = cells, np.unravel_index(place, squares.shape)
        if best is None:
            return None
        cells, places = best
        parts = [self.columns[j] for j in cells.columns]
        sides = tuple(part.sides[part.places[k]] for part, k in zip(parts, places, strict=True))
        return Found(sides, square, self._sign(sides, residual))

    def _sign(self, sides: tuple[Side, ...], residual: Floats) -> float:
        inside = self._inside(sides)
        return 1.0 if residual[inside].sum() >= 0 else -1.0

    def _inside(self, sides: Sequence[Side]) -> Mask:
        return _inside(self.columns, sides, len(self.columns[0].codes))[self.rows]

    def refined(self, found: Found, residual: Floats, worth: tuple[float, float]) -> Found:
        """Move thresholds to their best places, add a condition and drop those that add little.

        ``worth`` is what each condition, and what one more must add to the square of the z-score.
        """
        found = self._moved(found, residual)
        if len(found.sides) < MOST_CONDITIONS:
            square, one = self._best_side(found.sides, residual, found.sign)
            if one is not None and square > found.square + worth[1]:
                found = Found((*found.sides, one), square, found.sign)
        return self._pruned(found, residual, worth[0])

    def _moved(self, found: Found, residual: Floats) -> Found:
        """Move thresholds to their best places, one after the other."""
        for _ in range(_ROUNDS):
            for place, side in enumerate(found.sides):
                before, after = found.sides[:place], found.sides[place + 1 :]
                square, one = self._best_side((*before, *after), residual, found.sign, only=side)
                if one is not None and square > found.square:
                    found = Found((*before, one, *after), square, found.sign)
        return found

    def _pruned(self, found: Found, residual: Floats, worth: float) -> Found:
        """Drop conditions that add less than they must, the least useful first."""
        while len(found.sides) > 1:
            fewer = [
                self._moved(self._without(found, k, residual), residual) for k in range(len(found.sides))
            ]
            best = max(fewer, key=lambda one: one.square)
            if best.square < found.square - worth:
                break
            found = best
        return found

    def _without(self, found: Found, place: int, residual: Floats) -> Found:
        sides = found.sides[:place] + found.sides[place + 1 :]
        return Found(sides, self._square(sides, residual, found.sign), found.sign)

    def _square(self, sides: Sequence[Side], residual: Floats, sign: float) -> float:
        inside = self._inside(sides)
        sums = (residual[inside].sum(), self.spread[inside].sum(), inside.sum())
        total, variance, count = (np.array([one], float) for one in sums)
        return float(self._judged(total, variance, count, sign)[0])

    def _judged(self, total: Floats, variance: Floats, count: Floats, sign: float) -> Floats:
        """Return the squares of z-scores of sums that have the sign, 0 for others."""
        return np.where(sign * total > 0, total**2 * self._times(variance, count), 0.0)

    def _best_side(
        self, others: Sequence[Side], residual: Floats, sign: float, only: Side | None = None
    ) -> tuple[float, Side | None]:
        """Return the best further condition: on any column, or like ``only`` with another threshold."""
        inside = self._inside(others)
        rows, values, spread = self.rows[inside], residual[inside], self.spread[inside]
        square, best = 0.0, None
        for column in self.columns:
            if only is not None and column.sides[0].column != only.column:
                continue
            codes = column.codes[rows]
            sums = [np.bincount(codes, one, N_CODES) for one in (values, spread, None)]
            total, variance, count = (column.fine @ one for one in sums)
            squares = self._judged(total, variance, count, sign)
            if only is not None:
                squares = np.where(_alike(column, only), squares, 0.0)
            place = int(squares.argmax())
            if squares[place] > square:
                square, best = float(squares[place]), column.sides[place]
        return square, best


def _alike(column: CodedColumn, side: Side) -> Mask:
    """Tell which sides of a column go in the same direction."""
    return np.array([one.step.left == side.step.left for one in column.sides])


def _inside(columns: Sequence[CodedColumn], sides: Sequence[Side], n: int) -> Mask:
    by_feature = {column.sides[0].column: column for column in columns}
    inside = np.ones(n, bool)
    for side in sides:
        inside &= side.allowed[by_feature[side.column].codes]
    return inside
