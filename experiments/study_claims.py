"""What the studies are to show, counted: recalibration leaves the grouping loss, and shift raises it."""

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
    """Of ``n`` estimates, those that lie after something within their interval before it."""

    n: int
    within: int
    overlapping: int  # have intervals with something in common


def holds(estimate: Estimate, value: float) -> bool:
    """Tell whether a value lies within an estimate's interval."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low <= value <= high


def overlap(one: Estimate, other: Estimate) -> bool:
    """Tell whether two intervals have something in common."""
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
    """Return GL and GL' by twins, of lines that have them."""
    return [
        (line.twin, line.twin_after)
        for line in lines
        if line.twin is not None and line.twin_after is not None
    ]


def within(lines: Sequence[Line]) -> str:
    """Say for how many lines GL' lies within the interval of GL."""
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
    """Say how far isotonic recalibration moves the bounds on the grouping loss, and why."""
    trees, twins = tree_pairs(lines), twin_pairs(lines)
    text = (
        f"Isotonic recalibration takes the calibration loss to at most "
        f"{max(line.cl_after.value for line in lines):z.4f}. {within(lines)}. By trees the largest "
        f"change is {_largest_change(lines, explain=counted(trees).within < len(trees))}"
    )
    if not twins:
        return text
    changes = [after.value - before.value for before, after in twins]
    return f"{text}. Twins have no bins, learn from all rows both times, and change by {_range(changes)}"


def _largest_change(lines: Sequence[Line], *, explain: bool) -> str:
    """Say which bound by trees moves most, and which of its two parts does: explained less induced."""
    line = max(lines, key=lambda line: abs(line.gl_after.value - line.gl.value))
    change = line.gl_after.value - line.gl.value
    text = f"{change:+z.4f} ({line.name})"
    if not explain or line.induced is None or line.induced_after is None:
        return text
    induced = line.induced_after - line.induced
    return (
        f"{text}, because recalibrated scores fall into other bins: what regions explain changes by "
        f"{change + induced:+z.4f}, and what binning itself induces, which is subtracted, by "
        f"{induced:+z.4f}"
    )


def _range(changes: Sequence[float]) -> str:
    if len(changes) == 1:
        return f"{changes[0]:+z.4f}"
    return f"{min(changes):+z.4f} to {max(changes):+z.4f}"


def grouping_loss(line: Line) -> Estimate:
    """Return the grouping loss by twins, or by trees where there are none."""
    return line.gl if line.twin is None else line.twin


def direction(before: Line, after: Line) -> str:
    """Say whether the grouping loss rises or falls, where the intervals lie apart."""
    if overlap(grouping_loss(before), grouping_loss(after)):
        return "does not move beyond its interval"
    return "rises" if grouping_loss(after).value > grouping_loss(before).value else "falls"


def over_shifts(lines: Sequence[Line]) -> str:
    """Say whether the grouping loss rises from each line to the next, and how often for sure."""
    n, up, surely = _rises(lines)
    if n == 1:
        first, last = lines
        return (
            f"GL {direction(first, last)} from {grouping_loss(first):z.4f} ({first.name}) to "
            f"{grouping_loss(last):z.4f} ({last.name})"
        )
    order = "at each step" if up == n else f"at {up} of {n} steps"
    return f"GL rises {order}: {_listed(lines)}; at {surely} of {n} the intervals lie apart"


def _rises(lines: Sequence[Line]) -> tuple[int, int, int]:
    """Return the number of steps, of those that rise, and of those that do beyond the intervals."""
    steps = list(pairwise(lines))
    up = sum(grouping_loss(before).value < grouping_loss(after).value for before, after in steps)
    return len(steps), up, sum(direction(before, after) == "rises" for before, after in steps)


def _listed(lines: Sequence[Line]) -> str:
    return ", ".join(f"{grouping_loss(line).value:z.4f} ({line.name})" for line in lines)


def removed_claim(lines: Sequence[Line], data: str) -> Statement:
    """Count the lines whose calibration loss is gone after recalibration."""
    n = sum(line.cl_after.low is None or line.cl_after.low <= DIGIT for line in lines)
    before, after = (
        sum(getattr(line, name).value for line in lines) / len(lines) for name in ("cl", "cl_after")
    )
    count = (
        f"CL' is not surely above {DIGIT} in {n} of {len(lines)} rows; the mean falls from {before:.4f} "
        f"to {after:.4f}"
    )
    verdict = by_share(n, len(lines))
    return Statement("Recalibration removes the calibration loss", data, count, verdict)


def left_claim(pairs: Sequence[Pair], data: str, how: str = "by twins") -> Statement:
    """Count the grouping losses that recalibration leaves within their intervals."""
    kept = counted(pairs)
    change = sum(after.value - before.value for before, after in pairs) / kept.n
    size = sum(before.value for before, _ in pairs) / kept.n
    count = (
        f"{how}, GL' lies within the 95% interval of GL in {kept.within} of {kept.n} rows (intervals "
        f"overlap in {kept.overlapping}); the mean goes from {size:.4f} to {size + change:.4f}"
    )
    text = "Recalibration leaves the grouping loss where it was"
    return Statement(text, data, count, by_share(kept.within, kept.n))


def shift_claim(lines: Sequence[Line], text: str, data: str) -> Statement:
    """Count the steps at which the grouping loss by twins rises beyond the intervals."""
    n, up, surely = _rises(lines)
    count = f"by twins {_listed(lines)}; it rises at {up} of {n} steps, beyond intervals at {surely}"
    return Statement(text, data, count, HOLDS if surely == n else IN_PART if up == n else NOT)


def usual_claims(
    lines: Sequence[Line], data: str, text: str = "Under shift there is more"
) -> list[Statement]:
    """Return what is counted wherever lines go from less to more of a shift."""
    return [
        shift_claim(lines, text, data),
        removed_claim(lines, data),
        left_claim(twin_pairs(lines), data),
        left_claim(tree_pairs(lines), data, "by trees"),
    ]
