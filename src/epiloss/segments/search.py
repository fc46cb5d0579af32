"""The search: of all pairs of conditions, those that part rows of equal scores the most.

A greedy tree misses what only two columns together tell, as either of them tells little by itself. Here
all pairs of coarse splits are looked at. The best is moved to its best thresholds, and takes a third
condition if that is worth it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.segments.columns import N_CODES, CodedColumn, Side
from epiloss.segments.gaps import Mask
from epiloss.segments.pairs import Pairs

MOST_CONDITIONS = 3
_MOST_COLUMNS = 40  # whose pairs are looked at
_MOST_SHARE = 0.5  # of the rows: a larger segment is told by those outside
_ROUNDS = 2
_LEAST_PART = 0.1  # of the square of a z-score, that each condition must add
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
class Scan:
    """All single conditions and pairs of them, on some rows, ready for any residuals of these.

    ``least`` is the fewest rows of a segment.
    """

    columns: Sequence[CodedColumn]
    rows: Codes
    spread: Floats
    least: float

    def _times(self, variance: Floats, count: Floats) -> Floats:
        """Return what squared sums are multiplied by; 0 for segments that are too small or too large.

        ``variance`` is that of the sum, of which its part of the mean of all is taken off.
        """
        total = self._total
        fits = (count >= self.least) & (count <= _MOST_SHARE * len(self.rows))
        within = np.maximum(variance * (1 - variance / total), _TINY * total)
        return np.where(fits, 1 / within, 0.0)

    @cached_property
    def _total(self) -> float:
        return float(self.spread.sum())

    @cached_property
    def _together(self) -> list[Pairs]:
        """All columns, so many at a time."""
        starts = range(0, len(self.columns), _MOST_COLUMNS)
        return [Pairs(self.columns[start : start + _MOST_COLUMNS], self.rows) for start in starts]

    def _values(self, residuals: Floats) -> Floats:
        return np.column_stack([self.spread, np.ones(len(self.rows)), residuals])

    def _squares(self, sums: Floats) -> Floats:
        """Return squares of z-scores (..., k) of sums: variances, counts, and k of residuals."""
        times = self._times(sums[..., 0], sums[..., 1])
        return np.asarray(sums[..., 2:] ** 2 * times[..., None], float)

    def _singles(self, residuals: Floats) -> Iterator[Floats]:
        """Yield the squares by one condition on each column (sides, k), of residuals (rows, k)."""
        values = self._values(residuals)
        for some in self._together:
            yield from self._squares(some.single_sums(values))

    def column_squares(self, residual: Floats) -> Floats:
        """Return the largest square of a z-score by one condition on each column."""
        return np.array([one.max(initial=0.0) for one in self._singles(residual[:, None])], float)

    def _squares_of_pairs(
        self, chosen: Sequence[int], residuals: Floats
    ) -> Iterator[tuple[int, Floats]]:
        """Yield the places of chosen columns but the last, and the squares by pairs with each later one.

        These are (others, sides, sides, k) for residuals (rows, k).
        """
        pairs, values = self._together[0], self._values(residuals)
        if len(chosen) < len(self.columns):
            pairs = Pairs([self.columns[j] for j in chosen], self.rows)
        for first in range(len(chosen) - 1):
            yield first, self._squares(pairs.sums(first, values))

    def largest(self, residuals: Floats) -> tuple[Floats, Floats]:
        """Return the largest squares of z-scores for each of several columns of residuals (rows, k).

        The first are those of the search (k,), the second those by one condition on each column
        (k, columns).
        """
        d = len(self.columns)
        singles = np.stack([one.max(axis=0) for one in self._singles(residuals)], axis=1)
        if d > _MOST_COLUMNS:  # of which each residual chooses its own
            found = [self.best(one) for one in residuals.T]
            return np.array([0.0 if one is None else one.square for one in found]), singles
        squares = singles.max(axis=1)
        for _, found_squares in self._squares_of_pairs(range(d), residuals):
            squares = np.maximum(squares, found_squares.max(axis=(0, 1, 2)))
        return squares, singles

    def best(self, residual: Floats) -> Found | None:
        """Return the best condition or pair of conditions."""
        every = [one[:, 0] for one in self._singles(residual[:, None])]
        singles = np.array([one.max(initial=0.0) for one in every])
        chosen = np.sort(np.argsort(-singles, kind="stable")[:_MOST_COLUMNS]).tolist()
        square = 0.0
        places: tuple[int, ...] = ()
        at: tuple[int, ...] = ()
        for j in chosen:
            if singles[j] > square:
                square, places, at = float(singles[j]), (j,), (int(every[j].argmax()),)
        for first, squares in self._squares_of_pairs(chosen, residual[:, None]):
            best = np.unravel_index(squares.argmax(), squares.shape)
            if squares[best] > square:
                other, *both, _ = map(int, best)
                square = float(squares[best])
                places, at = (chosen[first], chosen[first + 1 + other]), tuple(both)
        if square == 0:
            return None
        parts = [self.columns[j] for j in places]
        sides = tuple(part.sides[part.places[k]] for part, k in zip(parts, at, strict=True))
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
        """Drop conditions that add no more than noise, or little to the rest; the least useful first."""
        while len(found.sides) > 1:
            fewer = [
                self._moved(self._without(found, k, residual), residual) for k in range(len(found.sides))
            ]
            best = max(fewer, key=lambda one: one.square)
            if best.square < found.square - max(worth, _LEAST_PART * found.square):
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
