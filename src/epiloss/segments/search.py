"""The search: the pair of conditions whose rows differ most from other rows with equal scores.

A greedy tree misses gaps that only two columns show together. So all pairs of coarse splits are
evaluated. The thresholds of the best pair are then refined, and a third condition is added if it is
worthwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.segments.columns import N_CODES, CodedColumn, Side
from epiloss.segments.gaps import Mask
from epiloss.segments.pairs import Pairs

MOST_CONDITIONS = 3
_MOST_COLUMNS = 40  # columns whose pairs are evaluated
_MOST_SHARE = 0.5  # of the rows; a larger segment is described by the rows outside
_ROUNDS = 2
_LEAST_PART = 0.1  # share of the squared z-score that each condition must add
_LEFT_OUT = 0.5  # smallest share of the overlap that a condition must leave out
_TINY = 1e-12


@dataclass(frozen=True)
class Found:
    """A candidate: its conditions, its squared z-score, and the sign of its gap."""

    sides: tuple[Side, ...]
    square: float
    sign: float

    def holds(self, columns: Sequence[CodedColumn]) -> Mask:
        """Return which rows meet all conditions; ``columns`` are those of the search."""
        return _inside(columns, self.sides, len(columns[0].codes))


@dataclass(frozen=True)
class Scan:
    """A scan of all conditions and pairs of conditions on some rows, for any residuals.

    ``least`` is the smallest number of rows of a segment.
    """

    columns: Sequence[CodedColumn]
    rows: Codes
    spread: Floats
    least: float

    def _times(self, variance: Floats, count: Floats) -> Floats:
        """Return the factors that turn squared sums into squared z-scores; 0 if the size is not allowed.

        ``variance`` is that of the sum, which is reduced because the residuals of all rows sum to 0.
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
        """All columns, in blocks of at most ``_MOST_COLUMNS``."""
        starts = range(0, len(self.columns), _MOST_COLUMNS)
        return [Pairs(self.columns[start : start + _MOST_COLUMNS], self.rows) for start in starts]

    def _values(self, residuals: Floats) -> Floats:
        return np.column_stack([self.spread, np.ones(len(self.rows)), residuals])

    def _squares(self, sums: Floats) -> Floats:
        """Return squared z-scores (..., k) of sums of variances, counts and k residuals."""
        times = self._times(sums[..., 0], sums[..., 1])
        return np.asarray(sums[..., 2:] ** 2 * times[..., None], float)

    def _singles(self, residuals: Floats) -> Iterator[Floats]:
        """Yield the squared z-scores (sides, k) of single conditions on each column."""
        values = self._values(residuals)
        for some in self._together:
            yield from self._squares(some.single_sums(values))

    def column_squares(self, residual: Floats) -> Floats:
        """Return the largest squared z-score of a single condition on each column."""
        return np.array([one.max(initial=0.0) for one in self._singles(residual[:, None])], float)

    def _squares_of_pairs(
        self, chosen: Sequence[int], residuals: Floats
    ) -> Iterator[tuple[int, Floats]]:
        """Yield each chosen column but the last, and the squared z-scores of pairs with later ones.

        These have the shape (later columns, sides, sides, k) for residuals (rows, k).
        """
        pairs, values = self._together[0], self._values(residuals)
        if len(chosen) < len(self.columns):
            pairs = Pairs([self.columns[j] for j in chosen], self.rows)
        for first in range(len(chosen) - 1):
            yield first, self._squares(pairs.sums(first, values))

    def largest(self, residuals: Floats) -> tuple[Floats, Floats]:
        """Return the largest squared z-scores for several columns of residuals (rows, k).

        The first are those of the search (k,), the second those of single conditions on each column
        (k, columns).
        """
        d = len(self.columns)
        singles = np.stack([one.max(axis=0) for one in self._singles(residuals)], axis=1)
        if d > _MOST_COLUMNS:  # each column of residuals has its own best columns
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
        """Optimize the thresholds, add a condition, and drop conditions that add little.

        ``worth`` is what each condition, and an additional one, must add to the squared z-score.
        """
        found = self._moved(found, residual)
        if len(found.sides) < MOST_CONDITIONS:
            square, one = self._best_side(found.sides, residual, found.sign)
            if one is not None and square > found.square + worth[1]:
                found = Found((*found.sides, one), square, found.sign)
        return self._pruned(found, residual, worth[0])

    def _moved(self, found: Found, residual: Floats) -> Found:
        """Optimize the thresholds one after another."""
        for _ in range(_ROUNDS):
            for place, side in enumerate(found.sides):
                before, after = found.sides[:place], found.sides[place + 1 :]
                square, one = self._best_side((*before, *after), residual, found.sign, only=side)
                if one is not None and square > found.square:
                    found = Found((*before, one, *after), square, found.sign)
        return found

    def _pruned(self, found: Found, residual: Floats, worth: float) -> Found:
        """Drop conditions that add no more than noise or little to the rest, the least useful first.

        A threshold is dropped for "is known" in the same way: missing values may be all that matters.
        """
        while simpler := list(self._simpler(found, residual)):
            best = max(simpler, key=lambda one: one.square)
            if best.square < found.square - max(worth, _LEAST_PART * found.square):
                break
            found = best
        return found

    def _simpler(self, found: Found, residual: Floats) -> Iterator[Found]:
        """Yield the candidate without one condition, and without one threshold."""
        by_feature = {column.sides[0].column: column for column in self.columns}
        for place, side in enumerate(found.sides):
            before, after = found.sides[:place], found.sides[place + 1 :]
            if before or after:
                sides = (*before, *after)
                square = self._square(sides, residual, found.sign)
                yield self._moved(Found(sides, square, found.sign), residual)
            known = [one for one in by_feature[side.column].sides if one.is_known]
            if known and not np.isinf(side.step.threshold):
                sides = (*before, known[0], *after)
                yield Found(sides, self._square(sides, residual, found.sign), found.sign)

    def _square(self, sides: Sequence[Side], residual: Floats, sign: float) -> float:
        inside = self._inside(sides)
        sums = (residual[inside].sum(), self.spread[inside].sum(), inside.sum())
        total, variance, count = (np.array([one], float) for one in sums)
        return float(self._judged(total, variance, count, sign)[0])

    def _judged(self, total: Floats, variance: Floats, count: Floats, sign: float) -> Floats:
        """Return the squared z-scores of sums with this sign; 0 for others."""
        return np.where(sign * total > 0, total**2 * self._times(variance, count), 0.0)

    def _best_side(
        self, others: Sequence[Side], residual: Floats, sign: float, only: Side | None = None
    ) -> tuple[float, Side | None]:
        """Return the best additional condition: on any column, or ``only`` with another threshold."""
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


def without_earlier(found: Found, columns: Sequence[CodedColumn], rows: Codes, earlier: Mask) -> Found:
    """Add the condition that leaves out most rows of earlier segments, but none of the rows searched.

    The condition is on a column of the candidate: "length <= 4" becomes "length is 4" if an earlier
    segment is "length <= 3". Without such a condition, the candidate is returned as it is.
    """
    inside = found.holds(columns)
    overlap, kept = np.flatnonzero(inside & earlier), rows[inside[rows]]
    best, most = None, _LEFT_OUT * len(overlap)
    for column in columns:
        if column.sides[0].column not in {side.column for side in found.sides}:
            continue
        needed = np.bincount(column.codes[kept], minlength=N_CODES) > 0
        left_out = (1 - column.fine) @ np.bincount(column.codes[overlap], minlength=N_CODES)
        left_out = np.where(column.fine[:, needed].all(axis=1), left_out, 0.0)
        place = int(left_out.argmax())
        if left_out[place] > most:
            best, most = column.sides[place], float(left_out[place])
    return found if best is None else replace(found, sides=(*found.sides, best))


def _alike(column: CodedColumn, side: Side) -> Mask:
    """Return which sides of a column have the same direction."""
    return np.array([one.step.left == side.step.left for one in column.sides])


def _inside(columns: Sequence[CodedColumn], sides: Sequence[Side], n: int) -> Mask:
    by_feature = {column.sides[0].column: column for column in columns}
    inside = np.ones(n, bool)
    for side in sides:
        inside &= side.allowed[by_feature[side.column].codes]
    return inside
