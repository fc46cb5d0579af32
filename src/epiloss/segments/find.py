"""Finding segments and confirming them.

Segments are found one after another: each is the best segment of the rows that no earlier one contains.
A segment is reported if the search would find as much in at most one of twenty problems without any gap,
and if repeating the whole search on four fifths of the rows finds segments that hold on the remaining
fifth, over all five. Two estimates of what the search adds to the gap are removed from it: what a search
finds without any gap, and how much larger the gaps of the repetitions are on the rows that found them
than on the others. The second also knows the order: of several equal gaps, the one that chance made
largest is found first, and that which chance made smallest last. It has more weight the noisier the
segment may be. What reporting only significant segments adds is removed as well, and the interval must
not contain 0. With many rows, one part of them finds segments and the other part measures them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.estimation.inference import adjusted_pvalues
from epiloss.estimation.twins.design import order_and_units, split_into_parts
from epiloss.input.tasks import BinaryProblem
from epiloss.segments.columns import CodedColumn, coded_columns
from epiloss.segments.gaps import CentredRows, Gap, Mask
from epiloss.segments.inference import Noise, replayed
from epiloss.segments.search import Found, Scan, without_earlier

MOST = 10  # segments that are reported
LEAST_SHARE, LEAST_ROWS = 0.01, 50  # of a segment
_FEWEST = 200  # rows that a search needs
_MANY, _FINDING = 20_000, 20_000  # above this number, rows are divided; this many find segments
_FOLDS = 5
_HOLDS = 1.28  # z-score required on held-out rows; one in ten reaches it by chance
_PROMISING = 0.5  # p-value up to which a candidate is measured on the other rows
_OVERLAP = 0.5  # largest share of a segment's rows that earlier segments may contain
_MOST_TRIES = 15


@dataclass(frozen=True)
class Confirmed:
    """A segment to report: its conditions, its rows, and its measured gap.

    ``gap``, ``stderr`` and ``pvalue`` are adjusted for the search. ``outer`` is the gap adjusted only
    for what a search finds without any gap; the interval covers both.
    """

    found: Found
    inside: Mask
    measured: Gap
    gap: float
    outer: float
    stderr: float
    pvalue: float

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of the gap."""
        sign = 1.0 if self.gap >= 0 else -1.0
        reach = float(ndtri((1 + level) / 2)) * self.stderr
        near, far = sorted((sign * self.gap, sign * self.outer))
        low, high = sorted((sign * (near - reach), sign * (far + reach)))
        return low, high

    def is_clear(self, level: float) -> bool:
        """Whether the gap has the sign that was found, and its interval does not contain 0."""
        low, high = self.interval(level)
        return low > 0 if self.found.sign > 0 else high < 0


@dataclass(frozen=True)
class Search:
    """The rows of a problem sorted by score, with coded features."""

    problem: BinaryProblem
    units: Codes | None
    columns: tuple[CodedColumn, ...]
    order: Codes
    generator: np.random.Generator

    @classmethod
    def of(cls, problem: BinaryProblem, generator: np.random.Generator) -> Search:
        """Sort rows by score and code their features."""
        order, units = order_and_units(problem)
        ordered = problem.take(order)
        assert ordered.features is not None
        columns = coded_columns(ordered.features, _least(len(order)))
        return cls(ordered, units, columns, order, generator)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.order)

    @property
    def least(self) -> float:
        """The fewest rows of a segment."""
        return _least(self.n_rows)

    @property
    def is_possible(self) -> bool:
        """Whether there are enough rows, and columns to split them by."""
        return bool(self.columns) and self.n_rows >= _FEWEST

    @cached_property
    def noise(self) -> Noise:
        """What the search finds in problems without any gap."""
        share = self.least / self.n_rows
        return replayed(self.problem, self.units, self.columns, share)

    def confirmed(self, level: float) -> list[Confirmed]:
        """Return the segments to report."""
        if not self.is_possible:
            return []
        with limited_threads():
            return self._divided(level) if self.n_rows > _MANY else self._cross_fitted(level)

    def passed(self, level: float) -> list[int]:
        """Return the features on which no single condition finds a gap."""
        if not self.is_possible:
            return []
        with limited_threads():
            everything = np.arange(self.n_rows)
            centred = CentredRows.of(self.problem, everything)
            scan = Scan(self.columns, everything, centred.spread, self.least)
            pvalues = self.noise.column_pvalues(scan.column_squares(centred.residual))
        adjusted = adjusted_pvalues(pvalues, "max")
        features = [column.sides[0].column for column in self.columns]
        return [j for j, pvalue in zip(features, adjusted, strict=True) if pvalue > 1 - level]

    def best(self, rows: Codes, earlier: Mask | None = None) -> tuple[Found, float] | None:
        """Return the best segment of some rows, and its squared z-score before refinement.

        ``earlier`` are rows of earlier segments, which the new one leaves out if one condition does so.
        """
        centred = CentredRows.of(self.problem, rows)
        scan = Scan(self.columns, rows, centred.spread, self.least * len(rows) / self.n_rows)
        found = scan.best(centred.residual)
        if found is None:
            return None
        worth = (self.noise.single, self.noise.mean)
        refined = scan.refined(found, centred.residual, worth)
        if earlier is not None:
            refined = without_earlier(refined, self.columns, rows, earlier)
        return refined, found.square

    def _in_turn(self, rows: Codes) -> Iterator[tuple[Found, float, Codes, Mask]]:
        """Yield the best segments in turn, with the rows searched and the rows of earlier segments."""
        earlier = np.zeros(self.n_rows, bool)
        for _ in range(_MOST_TRIES):
            best = self.best(rows, earlier) if len(rows) >= _FEWEST else None
            if best is None:
                return
            yield (*best, rows, earlier)
            earlier = earlier | best[0].holds(self.columns)
            rows = rows[~earlier[rows]]

    def _cross_fitted(self, level: float) -> list[Confirmed]:
        """Return segments found on all rows and confirmed by repeating the search on four fifths."""
        everything = np.arange(self.n_rows)
        centred = CentredRows.of(self.problem, everything)
        part = split_into_parts(self.problem.scores, self.units, _FOLDS, self.generator).astype(np.int64)
        repeats = [_Repeat.of(self, part != k) for k in range(_FOLDS)]
        reported: list[Confirmed] = []
        for found, square, _, earlier in self._in_turn(everything):
            if self.noise.pvalue(square) > 1 - level or len(reported) == MOST:
                break
            again = [repeat.next(self) for repeat in repeats]
            inside = found.holds(self.columns)
            if (inside & earlier).sum() > _OVERLAP * inside.sum():
                continue
            z, optimism = _held_out([one for one in again if one is not None])
            one = self._adjusted(found, square, inside, centred.gap(inside), optimism, level)
            if z >= _HOLDS and one.is_clear(level):
                reported.append(one)
        return reported

    def _adjusted(
        self, found: Found, square: float, inside: Mask, gap: Gap, optimism: float, level: float
    ) -> Confirmed:
        """Return a segment with its gap reduced by what the search adds to it.

        This is estimated in two ways: by what the search finds without any gap, and by the ``optimism``
        of its repetitions. ``square`` is the squared z-score before refinement, which was tested.
        """
        noise, size = self.noise, found.sign * gap.value
        trust, kept = noise.trust_in_repeats(found.square), noise.kept(found.square) * size
        hidden = noise.truncation(square, level) * gap.stderr
        told = min((1 - trust) * kept + trust * (size - optimism), size) - hidden
        wider = noise.widening(found.square) * gap.stderr
        ends = found.sign * told, found.sign * (kept - hidden)
        return Confirmed(found, inside, gap, *ends, wider, noise.pvalue(square))

    def _divided(self, level: float) -> list[Confirmed]:
        """Return segments found on some rows and confirmed on all others."""
        n_parts = max(round(self.n_rows / _FINDING), 2)
        finds = split_into_parts(self.problem.scores, self.units, n_parts, self.generator) == 0
        others = np.flatnonzero(~finds)
        centred = CentredRows.of(self.problem, others)
        candidates: list[Confirmed] = []
        for found, square, _, earlier in self._in_turn(np.flatnonzero(finds)):
            if self.noise.pvalue(square) > _PROMISING:
                break
            inside = found.holds(self.columns)
            is_new = (inside & earlier).sum() <= _OVERLAP * inside.sum()
            gap = centred.gap(inside[others])
            if is_new and gap.n > 1:
                pvalue = float(2 * ndtr(-gap.z * found.sign))
                ends = gap.value, gap.value, gap.stderr
                candidates.append(Confirmed(found, inside, gap, *ends, pvalue))
        return _holm(candidates, 1 - level)[:MOST]


@dataclass(frozen=True)
class _HeldOut:
    """What one segment of a repetition shows on the rows that found it, and on those held out.

    The gaps are sums of residuals and of weights, in the direction found, and ``influence`` is that of
    the held-out rows outside earlier segments.
    """

    seen: Floats
    unseen: Floats
    influence: Floats
    clusters: Codes | None


@dataclass(frozen=True)
class _Repeat:
    """A search that is repeated on some rows, and the others."""

    sequence: Iterator[tuple[Found, float, Codes, Mask]]
    learn: CentredRows
    left_out: CentredRows
    learns: Mask

    @classmethod
    def of(cls, search: Search, learns: Mask) -> _Repeat:
        """Start a search on the given rows."""
        learn, left_out = (
            CentredRows.of(search.problem, np.flatnonzero(rows)) for rows in (learns, ~learns)
        )
        return cls(search._in_turn(np.flatnonzero(learns)), learn, left_out, learns)

    def next(self, search: Search) -> _HeldOut | None:
        """Find the next segment; None if there is none, or if too few rows are left to check it."""
        best = next(self.sequence, None)
        if best is None:
            return None
        found, _, _, earlier = best
        inside, rest = found.holds(search.columns), np.flatnonzero(~self.learns & ~earlier)
        if len(rest) < 2:
            return None
        group = inside.astype(float)
        seen, unseen = (
            np.array([found.sign * rows.influence(group[of]).sum(), group[of] @ rows.weight])
            for rows, of in ((self.learn, self.learns), (self.left_out, ~self.learns))
        )
        others = CentredRows.of(search.problem, rest)
        return _HeldOut(seen, unseen, found.sign * others.influence(group[rest]), others.clusters)


def _held_out(repeats: Sequence[_HeldOut]) -> tuple[float, float]:
    """Return the z-score on held-out rows, and the optimism of the search, over all repetitions.

    The z-score is positive if the gaps have the sign that was found. The optimism is how much larger the
    gaps are on the rows that found them, reduced because a search on all rows is less optimistic.
    """
    variance = sum(_square_sum(one.influence, one.clusters) for one in repeats)
    if not variance > 0:
        return 0.0, 0.0
    z = sum(float(one.influence.sum()) for one in repeats) / np.sqrt(variance)
    (seen, mass), (unseen, other_mass) = (
        np.sum([getattr(one, name) for one in repeats], axis=0) for name in ("seen", "unseen")
    )
    if not min(mass, other_mass) > 0:
        return 0.0, 0.0
    return float(z), (1 - 1 / _FOLDS) * float(seen / mass - unseen / other_mass)


def _holm(candidates: list[Confirmed], most: float) -> list[Confirmed]:
    """Return the candidates that are significant after Holm's adjustment for their number."""
    significant, largest = [], 0.0
    for place, one in enumerate(sorted(candidates, key=lambda one: one.pvalue)):
        largest = max(largest, min(one.pvalue * (len(candidates) - place), 1.0))
        if largest > most:
            break
        significant.append(replace(one, pvalue=largest))
    return significant


def _least(n_rows: int) -> float:
    return max(LEAST_ROWS, LEAST_SHARE * n_rows)


def _square_sum(influence: Floats, clusters: Codes | None) -> float:
    """Return the sum of squares over rows, or over clusters."""
    sums = influence if clusters is None else np.bincount(clusters, influence)
    return float(sums @ sums)
