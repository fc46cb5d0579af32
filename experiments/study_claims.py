"""What the studies are to show, counted: recalibration leaves the grouping loss, and shift raises it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from epiloss import Estimate
from protocol import Line

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


def crossfit_pairs(lines: Iterable[Line]) -> list[Pair]:
    """Return GL and GL' by the cross-fitted bound, of lines that have it."""
    return [
        (line.crossfit, line.crossfit_after)
        for line in lines
        if line.crossfit is not None and line.crossfit_after is not None
    ]


def within(lines: Sequence[Line]) -> str:
    """Say for how many lines GL' lies within the interval of GL."""
    trees, crossfit = counted(tree_pairs(lines)), counted(crossfit_pairs(lines))
    if not crossfit.n:
        return (
            f"GL' lies within the 95% interval of GL in {trees.within} of {trees.n} rows by trees "
            f"(their intervals overlap in {trees.overlapping})"
        )
    return (
        f"GL' lies within the 95% interval of GL in {trees.within} of {trees.n} rows by trees and in "
        f"{crossfit.within} of {crossfit.n} cross-fitted (their intervals overlap in "
        f"{trees.overlapping} and {crossfit.overlapping})"
    )


def kept_by_recalibration(lines: Sequence[Line]) -> str:
    """Say how far isotonic recalibration moves the bounds on the grouping loss, and why."""
    trees, crossfit = tree_pairs(lines), crossfit_pairs(lines)
    text = (
        f"Isotonic recalibration takes the calibration loss to at most "
        f"{max(line.cl_after.value for line in lines):z.4f}. {within(lines)}. By trees the largest "
        f"change is {_largest_change(lines, explain=counted(trees).within < len(trees))}"
    )
    if not crossfit:
        return text
    changes = [after.value - before.value for before, after in crossfit]
    text += f". The cross-fitted bound has no bins and changes by {_range(changes)}"
    if counted(crossfit).within < len(crossfit):
        text += "; it learns from half as many rows once the other half recalibrates"
    return text


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


def direction(before: Line, after: Line) -> str:
    """Say whether the bound by trees rises or falls, where the intervals lie apart."""
    if overlap(before.gl, after.gl):
        return "does not move beyond its interval"
    return "rises" if after.gl.value > before.gl.value else "falls"


def over_shifts(lines: Sequence[Line]) -> str:
    """Say whether the bound by trees rises from each line to the next, and by how much for sure."""
    steps = list(pairwise(lines))
    if len(steps) == 1:
        first, last = lines
        return (
            f"GL {direction(first, last)} from {first.gl:z.4f} ({first.name}) to {last.gl:z.4f} "
            f"({last.name})"
        )
    up = sum(before.gl.value < after.gl.value for before, after in steps)
    surely = sum(direction(before, after) == "rises" for before, after in steps)
    values = ", ".join(f"{line.gl.value:z.4f} ({line.name})" for line in lines)
    order = "at each step" if up == len(steps) else f"at {up} of {len(steps)} steps"
    return f"GL rises {order}: {values}; at {surely} of {len(steps)} the intervals lie apart"
