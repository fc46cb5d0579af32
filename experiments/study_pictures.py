"""The pictures that studies share: grouping diagrams side by side, and losses as bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    legend_below,
    matplotlib_modules,
    plain,
    text_colour,
)
from protocol import Line, doubled

RESOLUTION = 110  # dots per inch
PALE_ORANGE = "#F5D48A"  # beside the orange as the sky beside the blue
HIGHEST, ROW = 10.0, 0.75  # inches of all bars, and of those of a line where there is room


def save(figure: Any, path: Path) -> Path:
    """Write a picture whole, and close its figure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        # no date and no version: the same numbers give the same file
        figure.savefig(temporary, format="png", dpi=RESOLUTION, metadata={"Software": None})
    matplotlib_modules().close(figure)
    return path


def diagrams(results: Sequence[tuple[str, Audit]], path: Path, columns: int = 2) -> Path:
    """Draw grouping diagrams side by side, their losses on the scale of the tables."""
    rows = -(-len(results) // columns)
    size = (4.9 * columns, 4.9 * rows)
    figure, axes = matplotlib_modules().subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False
    )
    for ax in axes.ravel()[len(results) :]:
        ax.set_axis_off()
    drawn = []
    for ax, (name, result) in zip(axes.ravel(), results, strict=False):
        drawn.append(result.plot(ax))
        losses = doubled(result.calibration_loss), doubled(result.partition_bound)
        title = f"{plain(name)}\nCL {losses[0]:z.4f}, GL ≥ {losses[1]:z.4f}"
        ax.set_title(title, fontsize=9.5)
    keep_fullest_legend(drawn, len(results) - columns * (rows - 1))
    return save(figure, path)


def keep_fullest_legend(drawn: Sequence[GroupingDisplay], last: int) -> None:
    """Leave one legend, below one of the ``last`` diagrams: that which names most of what is drawn."""
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
    kinds = (
        ("cl", "CL", "calibration loss", ORANGE, 0.30),
        ("cl_after", "CL'", "calibration loss after isotonic", PALE_ORANGE, 0.12),
        ("gl", "GL", "grouping loss, at least", BLUE, -0.12),
        ("gl_after", "GL'", "grouping loss after isotonic, at least", SKY, -0.30),
    )
    place = np.arange(len(lines))[::-1].astype(float)
    for name, column, label, colour, offset in kinds:
        found: list[Estimate] = [getattr(line, name) for line in lines]
        values = np.array([one.value for one in found])
        errors = np.array([1.96 * (one.stderr or 0) for one in found])
        ax.barh(place + offset, values, 0.17, color=colour, label=label)
        ax.errorbar(values, place + offset, xerr=errors, fmt="none", ecolor=faded(ax, 0.6), lw=0.8)
        _published(ax, lines, column, place + offset)
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
    legend_below(ax)
    return save(figure, path)


def _published(ax: Any, lines: Sequence[Line], column: str, places: NDArray[np.float64]) -> None:
    """Draw what was published of the lines as hollow marks, which the legend names once."""
    known = [
        (line.published[column], place)
        for line, place in zip(lines, places.tolist(), strict=True)
        if line.published is not None and column in line.published
    ]
    if known:
        label = "published" if column == "GL" else None
        ax.plot(*zip(*known, strict=True), "o", mfc="none", mec=text_colour(), ms=4.5, label=label)
