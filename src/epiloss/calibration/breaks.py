"""Where a calibration curve is not smooth: scores with a rate of their own, and jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.calibration.smoothers import DistinctScores, WindowedLines

_OWN = 50.0  # labels of one score, from which on its rate is their mean,
_FEW, _OWN_OF_FEW = 50, 8.0  # and where there are so few scores that the noise of all is small
_PAIR = 2.0  # labels of one score that tell whether rates are rough
_ROUGH = 1.0  # standard errors above what chance makes of smooth rates
_COPIES = 0.5  # correlation of two labels of one score, more than which no classifier leaves
_LEAST = 60.0  # labels on either side of a jump
_SIDES = (4, 8, 16, 32, 64)  # of so many parts of the rows a jump is looked for in one on either side
_SEEN, _GAIN = 3.0, 10.0  # standard errors, and labels' variances of error saved, that make a jump
_MOST_JUMPS = 7


@dataclass(frozen=True)
class Breaks:
    """Scores that have a rate of their own, and jumps between others, both in increasing order."""

    own: Floats
    jumps: Floats

    def owners(self, rows: DistinctScores, among: Floats) -> NDArray[np.bool_]:
        """Tell which scores have a rate of their own; ``among`` are all that there are in the data.

        Cells of scores are found again by the nearest of them.
        """
        if not len(self.own):
            return np.zeros(len(rows.scores), bool)
        middle = (among[1:] + among[:-1]) / 2
        nearest = among[np.searchsorted(middle, rows.scores)]
        return np.isin(nearest, self.own)


def pieces(rows: DistinctScores, jumps: Floats) -> list[DistinctScores]:
    """Return the scores between jumps, at each of which a new piece starts."""
    if not len(jumps):
        return [rows]
    ends = [0, *np.searchsorted(rows.scores, jumps).tolist(), len(rows.scores)]
    return [rows.take(slice(start, end)) for start, end in pairwise(ends) if end > start]


def repeated_enough(rows: DistinctScores) -> NDArray[np.bool_]:
    """Tell which scores have so many labels that their mean is their rate."""
    return np.asarray(rows.repeats >= (_OWN_OF_FEW if len(rows.scores) <= _FEW else _OWN))


def repeated(rows: DistinctScores) -> NDArray[np.bool_]:
    """Tell which scores have labels enough to show whether rates are rough."""
    return np.asarray(rows.repeats >= _PAIR - 1e-9)


def are_copies(rows: DistinctScores, curve: Floats) -> bool:
    """Tell whether labels of one score are nearly all the same: rows were copied, and tell no rate."""
    n, mean = rows.repeats, rows.label_mean
    deviation = (mean - curve) ** 2
    squares = n * (mean * (1 - mean) + deviation)  # of all labels
    products = float((n**2 * deviation - squares).sum())  # of each two of one score
    return products > _COPIES * float(((n - 1) * squares).sum())


def is_rough(rows: DistinctScores, curve: Floats) -> bool:
    """Tell whether the rates of repeated scores are further from a smooth curve than chance makes them.

    By squared standardised deviations, each of mean 1 and variance ``2 + (1/v - 6)/n``.
    """
    n = rows.repeats
    fitted = np.clip(curve, 0.5 / n, 1 - 0.5 / n)
    v = fitted * (1 - fitted)
    excess = n * (rows.label_mean - curve) ** 2 / v - 1
    spread = np.maximum(2 + (1 / v - 6) / n, 0.1)
    return bool(n @ excess > _ROUGH * np.sqrt(n**2 @ spread))  # weighted: more labels tell more


Fit = Callable[[DistinctScores], tuple[float, WindowedLines]]


def find_jumps(rows: DistinctScores, fit: Fit) -> Floats:
    """Return the scores at which a curve in pieces predicts labels better than one without.

    ``fit`` returns the leave-one-out error of the best curve, and its lines. A jump is kept if it
    saves more error than chance would, and is looked for on either side of it again.
    """
    jumps: list[float] = []
    if float(rows.weight.sum()) < 2 * _LEAST:
        return np.zeros(0)
    error, lines = fit(rows)
    todo = [(rows, error, lines)]
    while todo and len(jumps) < _MOST_JUMPS:
        rows, error, lines = todo.pop()
        best, variance = None, _label_variance(lines)
        for place in _candidates(lines):
            sides = [
                (part, *fit(part))
                for part in (rows.take(slice(0, place)), rows.take(slice(place, None)))
            ]
            gain = (error - sum(side[1] for side in sides)) / variance
            if gain > (_GAIN if best is None else best[0]):
                best = gain, place, sides
        if best is not None:
            jumps.append(float(rows.scores[best[1]]))
            todo += best[2]
    return np.sort(jumps)


def _label_variance(lines: WindowedLines) -> float:
    """Return the variance of a label where it is large: rates of rare outcomes vary by orders."""
    parts = 20
    ends = np.searchsorted(lines.cumulative[0], np.linspace(0, lines.cumulative[0, -1], parts + 1))
    weight, ones = (np.diff(lines.cumulative[row, ends]) for row in (0, 3))
    rate = (ones + 0.5) / (weight + 1)
    return float((rate * (1 - rate)).max())


def _candidates(lines: WindowedLines) -> list[int]:
    """Return the places where lines on both sides differ most, one for each width."""
    sums, x = lines.cumulative, lines.x
    mass, found = sums[0], set()
    place = np.flatnonzero((mass[:-1] >= _LEAST) & (mass[-1] - mass[:-1] >= _LEAST))
    if not len(place):
        return []
    at = (x[place - 1] + x[place]) / 2
    for parts in _SIDES:
        side = mass[-1] / parts
        if side < _LEAST:
            break
        low = np.minimum(np.searchsorted(mass, mass[place] - side), place - 1)
        high = np.maximum(np.searchsorted(mass, mass[place] + side, side="right") - 1, place + 1)
        left = _line(sums[:, place] - sums[:, low], at)
        right = _line(sums[:, high] - sums[:, place], at)
        seen = np.abs(right[0] - left[0]) / np.sqrt(left[1] + right[1])
        most = int(np.argmax(seen))
        if seen[most] > _SEEN:
            found.add(int(place[most]))
    return sorted(found)


def _line(sums: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Return the least-squares lines of windows at a point, and their variances."""
    weight, sx, sxx, sy, sxy = sums
    x_mean, y_mean = sx / weight, sy / weight
    spread = sxx - sx * x_mean
    steep = spread > 1e-9 * np.maximum(sxx, 1e-290)
    inverse = np.where(steep, 1 / np.where(steep, spread, 1.0), 0.0)
    offset = at - x_mean
    rate = (sy + 0.5) / (weight + 1)  # never 0 or 1
    value = y_mean + (sxy - sx * y_mean) * inverse * offset
    return value, rate * (1 - rate) * (1 / weight + offset * offset * inverse)
