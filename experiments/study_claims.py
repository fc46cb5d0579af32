"""Counts of what the studies should show: recalibration keeps the grouping loss, shift raises it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from epiloss import Estimate
from protocol import Line
from study_verdicts import HOLDS, IN_PART, NOT, Statement, by_share

DIGIT = 0.001  # of the paper's tables
Pair = tuple[Estimate, Estimate]  # before and after


@dataclass(frozen=True)
class Kept:
    """How many of ``n`` estimates stay within their earlier interval."""

    n: int
    within: int
    overlapping: int  # estimates whose intervals overlap


def holds(estimate: Estimate, value: float) -> bool:
    """Return whether a value lies within an estimate's interval."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low <= value <= high


def overlap(one: Estimate, other: Estimate) -> bool:
    """Return whether two intervals overlap."""
    ends = (one.low, one.high, other.low, other.high)
    if None in ends:
        return False
    low, high, other_low, other_high = (float(end) for end in ends if end is not None)
    return low <= other_high and other_low <= high


def counted(pairs: Iterable[Pair]) -> Kept:
    """Count the estimates that stay within their intervals.

    Examples
    --------
    >>> one = Estimate(1.0, low=0.5, high=1.5)
    >>> counted([(one, Estimate(1.2, low=0.9, high=1.6)), (one, Estimate(1.6, low=1.4, high=1.8))])
    Kept(n=2, within=1, overlapping=2)
    """
    known = list(pairs)
    return Kept(
        len(known),
        sum(holds(before, after.value) for before, after in known),
        sum(overlap(before, after) for before, after in known),
    )


def tree_pairs(lines: Iterable[Line]) -> list[Pair]:
    """Return GL and GL' by trees."""
    return [(line.gl, line.gl_after) for line in lines]


def twin_pairs(lines: Iterable[Line]) -> list[Pair]:
    """Return GL and GL' by twins of the lines that have them."""
    return [
        (line.twin, line.twin_after)
        for line in lines
        if line.twin is not None and line.twin_after is not None
    ]


def within(lines: Sequence[Line]) -> str:
    """Return a sentence on how many lines have GL' within the interval of GL."""
    trees, twins = counted(tree_pairs(lines)), counted(twin_pairs(lines))
    if not twins.n:
        return (
            f"GL' lies within the 95% interval of GL in {trees.within} of {trees.n} rows by trees "
            f"(their intervals overlap in {trees.overlapping})"
        )
    return (
        f"GL' lies within the 95% interval of GL in {trees.within} of {trees.n} rows by trees and in "
        f"{twins.within} of {twins.n} by twins (their intervals overlap in {trees.overlapping} and "
        f"{twins.overlapping})"
    )


def kept_by_recalibration(lines: Sequence[Line]) -> str:
    """Return sentences on how isotonic recalibration changes the losses, and why."""
    trees, twins = tree_pairs(lines), twin_pairs(lines)
    text = (
        f"Isotonic recalibration reduces the calibration loss to at most "
        f"{max(line.cl_after.value for line in lines):z.4f}. {within(lines)}. The largest change by "
        f"trees is {_largest_change(lines, explain=counted(trees).within < len(trees))}"
    )
    if not twins:
        return text
    changes = [after.value - before.value for before, after in twins]
    return (
        f"{text}. The estimates by twins, which use no bins and learn from all rows both times, change "
        f"by {_range(changes)}"
    )


def _largest_change(lines: Sequence[Line], *, explain: bool) -> str:
    """Return the largest change by trees, and how its two parts change."""
    line = max(lines, key=lambda line: abs(line.gl_after.value - line.gl.value))
    change = line.gl_after.value - line.gl.value
    text = f"{change:+z.4f} ({line.name})"
    if not explain or line.induced is None or line.induced_after is None:
        return text
    induced = line.induced_after - line.induced
    return (
        f"{text}, because recalibrated scores fall into other bins: the explained loss changes by "
        f"{change + induced:+z.4f}, and the loss induced by binning, which is subtracted, by "
        f"{induced:+z.4f}"
    )


def _range(changes: Sequence[float]) -> str:
    if len(changes) == 1:
        return f"{changes[0]:+z.4f}"
    return f"{min(changes):+z.4f} to {max(changes):+z.4f}"


def grouping_loss(line: Line) -> Estimate:
    """Return the grouping loss by twins, or by trees if there is none by twins."""
    return line.gl if line.twin is None else line.twin


def direction(before: Line, after: Line) -> str:
    """Return whether the grouping loss rises or falls beyond the intervals."""
    if overlap(grouping_loss(before), grouping_loss(after)):
        return "does not move beyond its interval"
    return "rises" if grouping_loss(after).value > grouping_loss(before).value else "falls"


def over_shifts(lines: Sequence[Line]) -> str:
    """Return a sentence on whether the grouping loss rises from each line to the next."""
    n, up, apart = _rises(lines)
    if n == 1:
        first, last = lines
        return (
            f"GL {direction(first, last)} from {grouping_loss(first):z.4f} ({first.name}) to "
            f"{grouping_loss(last):z.4f} ({last.name})"
        )
    order = "at each step" if up == n else f"at {up} of {n} steps"
    return f"GL rises {order}: {_listed(lines)}; at {apart} of {n} the intervals do not overlap"


def _rises(lines: Sequence[Line]) -> tuple[int, int, int]:
    """Return the number of steps, of rises, and of rises beyond the intervals."""
    steps = list(pairwise(lines))
    up = sum(grouping_loss(before).value < grouping_loss(after).value for before, after in steps)
    return len(steps), up, sum(direction(before, after) == "rises" for before, after in steps)


def _listed(lines: Sequence[Line]) -> str:
    return ", ".join(f"{grouping_loss(line).value:z.4f} ({line.name})" for line in lines)


def removed_claim(lines: Sequence[Line], data: str) -> Statement:
    """Count the lines without calibration loss after recalibration."""
    n = sum(line.cl_after.low is None or line.cl_after.low <= DIGIT for line in lines)
    before, after = (
        sum(getattr(line, name).value for line in lines) / len(lines) for name in ("cl", "cl_after")
    )
    count = (
        f"CL' is not significantly above {DIGIT} in {n} of {len(lines)} rows; the mean falls from "
        f"{before:.4f} to {after:.4f}"
    )
    verdict = by_share(n, len(lines))
    return Statement("Recalibration removes the calibration loss", data, count, verdict)


def left_claim(pairs: Sequence[Pair], data: str, how: str = "by twins") -> Statement:
    """Count the grouping losses that stay within their intervals after recalibration."""
    kept = counted(pairs)
    change = sum(after.value - before.value for before, after in pairs) / kept.n
    size = sum(before.value for before, _ in pairs) / kept.n
    count = (
        f"{how}, GL' lies within the 95% interval of GL in {kept.within} of {kept.n} rows (intervals "
        f"overlap in {kept.overlapping}); the mean goes from {size:.4f} to {size + change:.4f}"
    )
    text = "Recalibration does not change the grouping loss"
    return Statement(text, data, count, by_share(kept.within, kept.n))


def shift_claim(lines: Sequence[Line], text: str, data: str) -> Statement:
    """Count the steps at which the grouping loss by twins rises beyond the intervals."""
    n, up, apart = _rises(lines)
    count = f"by twins {_listed(lines)}; it rises at {up} of {n} steps, beyond the intervals at {apart}"
    # a rise within the intervals may be chance
    verdict = HOLDS if apart == n else IN_PART if apart and up == n else NOT
    return Statement(text, data, count, verdict)


def usual_claims(
    lines: Sequence[Line], data: str, text: str = "The grouping loss is larger under shift"
) -> list[Statement]:
    """Return the usual claims about lines in the order of an increasing shift."""
    return [
        shift_claim(lines, text, data),
        removed_claim(lines, data),
        left_claim(twin_pairs(lines), data),
        left_claim(tree_pairs(lines), data, "by trees"),
    ]
