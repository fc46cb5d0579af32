"""The distance of our estimates from the paper's printed values for the same networks and data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epiloss import Estimate
from protocol import Line, escaped
from published_values import DIGIT

COMPARED = ("CL", "CL'", "GL", "GL'")
ERRORS = (
    "The printed values were evaluated on half of the rows and have errors of their own, so that fewer "
    "than 95% can be expected to agree"
)


def printed_lines(lines: Sequence[Line]) -> list[Line]:
    """Return the lines for which the paper has losses."""
    return [line for line in lines if line.published is not None and "GL" in line.published]


def agrees(estimate: Estimate, value: float) -> bool:
    """Return whether a printed value lies within an estimate's interval, up to rounding.

    Examples
    --------
    >>> agrees(Estimate(0.02, low=0.0164, high=0.0236), 0.024), agrees(Estimate(0.02, low=0.01), 0.02)
    (True, False)
    """
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return False
    return low - DIGIT / 2 <= value <= high + DIGIT / 2


def compared(line: Line) -> dict[str, tuple[Estimate, float]]:
    """Return our losses with the printed ones, by column."""
    assert line.published is not None
    ours = line.cl, line.cl_after, line.gl, line.gl_after
    return {
        name: (one, line.published[name])
        for name, one in zip(COMPARED, ours, strict=True)
        if name in line.published
    }


def distances(lines: Sequence[Line]) -> str:
    """Return a Markdown table of our values minus the printed ones."""
    rows = [["ours less printed", "accuracy", *COMPARED], ["---", *["---:"] * (1 + len(COMPARED))]]
    for line in lines:
        assert line.published is not None
        found = compared(line)
        cells = [_cell(*found[name]) if name in found else "" for name in COMPARED]
        accuracy = f"{line.accuracy - line.published['accuracy']:+.3f}"
        rows.append([escaped(line.name), accuracy, *cells])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{table}\n\n*Outside*: the printed value does not lie within our 95% interval."


def _cell(estimate: Estimate, value: float) -> str:
    note = "" if agrees(estimate, value) else ", *outside*"
    return f"{estimate.value - value:+z.4f}{note}"


def agreement(lines: Sequence[Line]) -> str:
    """Return how many printed values lie within our intervals, and how far the others are."""
    found = [compared(line) for line in lines]
    counts = [sum(agrees(*one[name]) for one in found if name in one) for name in COMPARED]
    names = ", ".join(f"{name} in {n}" for name, n in zip(COMPARED, counts, strict=True))
    changes = [one["GL"][0].value - one["GL"][1] for one in found]
    furthest = int(np.argmax(np.abs(changes)))
    accuracies = [line.accuracy - line.published["accuracy"] for line in lines if line.published]
    return (
        f"Compared with the paper's printed values: of {len(lines)} rows, our 95% interval contains the "
        f"printed {names}, up to half a printed digit. Our GL differs from it by "
        f"{np.mean(np.abs(changes)):.4f} on average, most by {changes[furthest]:+z.4f} "
        f"({lines[furthest].name}), and the accuracy by at most {np.max(np.abs(accuracies)):.3f}. "
        f"{ERRORS}"
    )
