"""Breaks of a calibration curve: jumps, and scores that keep their own rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.calibration.smoothers import DistinctScores, WindowedLines

_OWN = 50.0  # number of labels from which a score keeps its own rate
_FEW, _OWN_OF_FEW = 50, 8.0  # with at most 50 distinct scores, 8 labels are enough
_PAIR = 2.0  # number of labels from which a score can show that rates are rough
_ROUGH = 1.0  # number of standard errors from which deviations count as rough
_COPIES = 0.5  # correlation of labels of equal score above which rows are copies
_LEAST = 60.0  # minimum number of labels on each side of a jump
_SIDES = np.array(
    [4.0, 8, 16, 32, 64]
)  # a jump is searched with windows of 1/4 to 1/64 of the rows on each side
_SIGNIFICANT, _GAIN = 3.0, 10.0  # standard errors of a jump, and reduction of error in label variances
_MOST_JUMPS = 7


@dataclass(frozen=True)
class Breaks:
    """Scores that keep their own rate, and jumps between other scores, both in increasing order."""

    own: Floats
    jumps: Floats

    def has_own_rate(self, rows: DistinctScores, all_scores: Floats) -> NDArray[np.bool_]:
        """Return which scores keep their own rate; ``all_scores`` are the scores of both halves.

        Each score is matched to the nearest of ``all_scores``, as cells have slightly different means.
        """
        if not len(self.own):
            return np.zeros(len(rows.scores), bool)
        middle = (all_scores[1:] + all_scores[:-1]) / 2
        nearest = all_scores[np.searchsorted(middle, rows.scores)]
        return np.isin(nearest, self.own)

    def split(self, scores: Floats) -> list[Codes]:
        """Return the indices of the rows with own rates, if any, and of those between the jumps."""
        own = np.isin(scores, self.own)
        piece = np.where(own, -1, np.searchsorted(self.jumps, scores, side="right"))
        return [np.flatnonzero(piece == k) for k in np.unique(piece)]


def pieces(rows: DistinctScores, jumps: Floats) -> list[DistinctScores]:
    """Split scores at the jumps; each jump starts a new piece."""
    if not len(jumps):
        return [rows]
    ends = [0, *np.searchsorted(rows.scores, jumps).tolist(), len(rows.scores)]
    return [rows.take(slice(start, end)) for start, end in pairwise(ends) if end > start]


def repeated_enough(rows: DistinctScores) -> NDArray[np.bool_]:
    """Return which scores have enough labels to keep their own rate."""
    return np.asarray(rows.repeats >= (_OWN_OF_FEW if len(rows.scores) <= _FEW else _OWN))


def repeated(rows: DistinctScores) -> NDArray[np.bool_]:
    """Return which scores have at least two labels, and so can show whether rates are rough."""
    return np.asarray(rows.repeats >= _PAIR - 1e-9)


def are_copies(rows: DistinctScores, curve: Floats) -> bool:
    """Return whether labels of equal score mostly agree, as in copied rows, which do not show a rate."""
    n, mean = rows.repeats, rows.label_mean
    deviation = (mean - curve) ** 2
    squares = n * (mean * (1 - mean) + deviation)  # sums over labels
    products = float((n**2 * deviation - squares).sum())  # sum over pairs of labels of equal score
    return products > _COPIES * float(((n - 1) * squares).sum())


def is_rough(rows: DistinctScores, curve: Floats) -> bool:
    """Return whether the rates of repeated scores deviate from a smooth curve more than by chance.

    The test uses squared standardised deviations, which have mean 1 and variance ``2 + (1/v - 6)/n``.
    """
    n = rows.repeats
    fitted = np.clip(curve, 0.5 / n, 1 - 0.5 / n)
    v = fitted * (1 - fitted)
    excess = n * (rows.label_mean - curve) ** 2 / v - 1
    spread = np.maximum(2 + (1 / v - 6) / n, 0.1)
    return bool(n @ excess > _ROUGH * np.sqrt(n**2 @ spread))  # scores with more labels have more weight


Fit = Callable[[DistinctScores], tuple[float, WindowedLines]]


def find_jumps(rows: DistinctScores, fit: Fit) -> Floats:
    """Return the scores at which a jump improves the leave-one-out error of the curve.

    ``fit`` returns the leave-one-out error of the best curve, and its lines. A jump is accepted if it
    reduces the error by more than chance would. Both sides are then searched again.
    """
    jumps: list[float] = []
    if float(rows.weight.sum()) < 2 * _LEAST:
        return np.zeros(0)
    error, lines = fit(rows)
    todo = [(rows, error, lines)]
    while todo and len(jumps) < _MOST_JUMPS:
        rows, error, lines = todo.pop()
        best, variance = None, _label_variance(lines)
        for index in _candidates(lines):
            sides = [
                (part, *fit(part))
                for part in (rows.take(slice(0, index)), rows.take(slice(index, None)))
            ]
            gain = (error - sum(side[1] for side in sides)) / variance
            if gain > (_GAIN if best is None else best[0]):
                best = gain, index, sides
        if best is not None:
            jumps.append(float(rows.scores[best[1]]))
            todo += best[2]
    return np.sort(jumps)


def _label_variance(lines: WindowedLines) -> float:
    """Return the largest variance of a label in 20 bins, as rates may vary by orders of magnitude."""
    parts = 20
    ends = np.searchsorted(lines.cumulative[0], np.linspace(0, lines.cumulative[0, -1], parts + 1))
    weight, ones = (np.diff(lines.cumulative[row, ends]) for row in (0, 3))
    rate = (ones + 0.5) / (weight + 1)
    return float((rate * (1 - rate)).max())


def _candidates(lines: WindowedLines) -> list[int]:
    """Return the indices where the lines on both sides differ most, at most one per window width."""
    sums, x = lines.cumulative, lines.x
    mass = sums[0]
    split = np.flatnonzero((mass[:-1] >= _LEAST) & (mass[-1] - mass[:-1] >= _LEAST))
    side = mass[-1] / _SIDES
    side = side[side >= _LEAST]
    if not len(split) or not len(side):
        return []
    at = (x[split - 1] + x[split]) / 2
    low = np.minimum(np.searchsorted(mass, mass[split] - side[:, None]), split - 1)
    high = np.searchsorted(mass, mass[split] + side[:, None], side="right") - 1
    high = np.maximum(high, split + 1)
    middle = sums[:, None, split]
    left, right = _line(middle - sums[:, low], at), _line(sums[:, high] - middle, at)
    z_score = np.abs(right[0] - left[0]) / np.sqrt(left[1] + right[1])
    best = z_score.argmax(axis=1)
    found = split[best[z_score[np.arange(len(side)), best] > _SIGNIFICANT]]
    return sorted(set(found.tolist()))


def _line(sums: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Return the values at ``at`` of the least-squares lines of windows, and their variances."""
    weight, sx, sxx, sy, sxy = sums
    x_mean, y_mean = sx / weight, sy / weight
    spread = sxx - sx * x_mean
    steep = spread > 1e-9 * np.maximum(sxx, 1e-290)
    inverse = np.where(steep, 1 / np.where(steep, spread, 1.0), 0.0)
    offset = at - x_mean
    rate = (sy + 0.5) / (weight + 1)  # never 0 or 1
    value = y_mean + (sxy - sx * y_mean) * inverse * offset
    return value, rate * (1 - rate) * (1 / weight + offset * offset * inverse)
