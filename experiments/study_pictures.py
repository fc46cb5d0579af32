"""The figures that studies share: grouping diagrams side by side, and losses as bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epiloss import Audit, Estimate
from epiloss._saving import replacing
from epiloss.presentation.plot import GroupingDisplay
from epiloss.presentation.plot.style import (
    BLUE,
    ORANGE,
    SKY,
    faded,
    matplotlib_modules,
    plain,
    text_colour,
)
from protocol import Line

RESOLUTION = 110  # dots per inch
PALE_ORANGE = "#F5D48A"  # is to orange as sky is to blue
GREEN, PALE_GREEN = "#3B6B35", "#A9C9A4"


class Kind(NamedTuple):
    """A loss of a line: its field, its column, its label, and its colours before and after."""

    name: str
    column: str
    label: str
    colour: str
    pale: str

    def known(self, line: Line) -> bool:
        """Return whether a line has this loss before and after recalibration."""
        return getattr(line, self.name) is not None and getattr(line, f"{self.name}_after") is not None


KINDS = (
    Kind("cl", "CL", "calibration loss", ORANGE, PALE_ORANGE),
    Kind("twin", "", "grouping loss by twins", BLUE, SKY),
    Kind("gl", "GL", "grouping loss by trees, at least", GREEN, PALE_GREEN),
)
HIGHEST, ROW = 10.0, 0.75  # inches of all bars, and of those of a line where there is room


def save(figure: Any, path: Path) -> Path:
    """Write a figure atomically, and close it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        # no date and no version: the same numbers give the same file
        figure.savefig(temporary, format="png", dpi=RESOLUTION, metadata={"Software": None})
    matplotlib_modules().close(figure)
    return path


def diagrams(results: Sequence[tuple[str, Line, Audit]], path: Path, columns: int = 2) -> Path:
    """Draw grouping diagrams side by side, with the losses of their lines."""
    rows = -(-len(results) // columns)
    size = (4.9 * columns, 4.9 * rows)
    figure, axes = matplotlib_modules().subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False
    )
    for ax in axes.ravel()[len(results) :]:
        ax.set_axis_off()
    drawn = []
    for ax, (name, line, result) in zip(axes.ravel(), results, strict=False):
        drawn.append(result.plot(ax))
        ax.set_title(f"{plain(name)}\n{losses(line)}", fontsize=9.5)
    keep_fullest_legend(drawn, len(results) - columns * (rows - 1))
    return save(figure, path)


def losses(line: Line) -> str:
    """Return both losses of a line as a short text."""
    grouping = line.gl if line.twin is None else line.twin
    return f"CL {line.cl:z.4f}, GL {grouping:z.4f}"


def whiskers(
    ax: Any, found: Sequence[Estimate], places: NDArray[np.float64], colour: str, label: str
) -> None:
    """Draw estimates in a column, with their intervals."""
    values = [one.value for one in found]
    ax.errorbar(values, places, xerr=reach(found), fmt="o", ms=4, color=colour, lw=1.1, label=label)


def reach(found: Sequence[Estimate]) -> NDArray[np.float64]:
    """Return the lower and upper lengths of the error bars (2, n)."""
    ends = [[one.value - (one.low or 0), (one.high or 0) - one.value] for one in found]
    return np.array(ends).clip(0).T


def keep_fullest_legend(drawn: Sequence[GroupingDisplay], last: int) -> None:
    """Keep only one legend: the one with the most entries among the ``last`` diagrams."""
    fullest = max(drawn[-last:], key=lambda one: len(one.legend_.get_texts()))
    for one in drawn:
        if one is not fullest:
            one.legend_.remove()


def bars(lines: Sequence[Line], path: Path, title: str) -> Path:
    """Draw the losses of each line before and after isotonic recalibration, with their intervals."""
    pyplot = matplotlib_modules()
    row = min(ROW, HIGHEST / len(lines))
    narrow = row < 0.5  # no room for two lines of text
    figure, ax = pyplot.subplots(figsize=(7.2, 1.6 + row * len(lines)), layout="constrained")
    kinds = [kind for kind in KINDS if all(kind.known(line) for line in lines)]
    height = 0.72 / (2 * len(kinds))
    place = np.arange(len(lines))[::-1].astype(float)
    for k, (name, column, label, *colours) in enumerate(kinds):
        for after, colour in enumerate(colours):
            found = [getattr(line, f"{name}_after" if after else name) for line in lines]
            at = place + 0.36 - height * (2 * k + after + 0.5)
            words = f"{label}, after isotonic" if after else label
            values = [one.value for one in found]
            ax.barh(at, values, 0.95 * height, color=colour, label=words)
            ax.errorbar(values, at, xerr=reach(found), fmt="none", ecolor=faded(ax, 0.6), lw=0.8)
            _published(ax, lines, f"{column}'" if after else column, at)
    ax.axvline(0, color=faded(ax, 0.5), lw=0.8)
    between = ", " if narrow else "\naccuracy "
    names = [plain(f"{line.name}{between}{line.accuracy:.3f}") for line in lines]
    ax.set_yticks(place, names, fontsize=8 if narrow else None)
    ax.set_ylim(-0.6, len(lines) - 0.4)
    if narrow:
        ax.set_ylabel("network, accuracy")
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("Brier score over both classes")
    ax.set_title(plain(title), fontsize=10)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    handles = ax.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    return save(figure, path)


def _published(ax: Any, lines: Sequence[Line], column: str, places: NDArray[np.float64]) -> None:
    """Draw published values as hollow markers, with one entry in the legend."""
    known = [
        (line.published[column], place)
        for line, place in zip(lines, places.tolist(), strict=True)
        if line.published is not None and column in line.published
    ]
    if known:
        label = "published" if column == "GL" else None
        ax.plot(*zip(*known, strict=True), "o", mfc="none", mec=text_colour(), ms=4.5, label=label)
