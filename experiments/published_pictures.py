"""The paper's comparison figures, drawn from its printed values, with ours for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epiloss.presentation.plot.style import BLUE, ORANGE, SKY, faded, matplotlib_modules
from protocol import Line
from published_statements import accuracy_correlation, both
from published_values import MERGED, RENDITIONS, SNOW, VALIDATION, VISION, printed_on
from study_pictures import PALE_ORANGE, save
from study_verdicts import rank_correlation

NAMED = (  # in scatter plots: those of which the text speaks, and the extremes
    *("ConvNeXt Large", "ConvNeXt Tiny", "ViT L-16", "ViT B-16", "EfficientNet-B7"),
    *("Inception", "Inception v3", "AlexNet", "ResNeXt-101"),
)
_PLACES = (  # of names beside points, in points of print, best first
    *((6, 2, "left"), (6, -8, "left"), (-6, 2, "right"), (0, 7, "center"), (0, -13, "center")),
    *((-6, -8, "right"), (12, 10, "left"), (12, -16, "left"), (-12, 10, "right")),
)
_CROWDED = 4.0  # a penalty from which on a label is left out: it would cover two points, or a label
UNIT = "Brier score over both classes"
_KINDS = (
    ("cl", "cl_after", "calibration loss", ORANGE, PALE_ORANGE, 0.18),
    ("gl", "gl_after", "grouping loss, at least", BLUE, SKY, -0.18),
)


def losses(path: Path) -> Path:
    """Draw both losses before and after recalibration, with networks sorted by accuracy."""
    figure, axes = matplotlib_modules().subplots(2, 2, figsize=(10.6, 11.2), layout="constrained")
    for ax, data_set in zip(axes.ravel(), VISION, strict=True):
        _losses(ax, data_set)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return save(figure, path)


def _losses(ax: Any, data_set: str) -> None:
    rows = list(printed_on(data_set).values())
    place = np.arange(len(rows))[::-1].astype(float)
    for before, after, label, colour, pale, offset in _KINDS:
        values, changed = (np.array([getattr(one, name) for one in rows]) for name in (before, after))
        ax.hlines(place + offset, values, changed, color=pale, lw=1, zorder=1)
        ax.plot(values, place + offset, "o", color=colour, ms=4, zorder=3, label=label)
        ax.plot(changed, place + offset, "o", color=pale, ms=4, label=f"{label}, after isotonic")
    ax.axvline(0, color=faded(ax, 0.4), lw=0.8, zorder=0)
    names = [f"{one.model}  {one.accuracy:.1%}" for one in rows]
    ax.set_yticks(place, names, fontsize=7.5)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8.5)
    ax.locator_params(axis="x", nbins=5)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_title(data_set, fontsize=10)
    ax.set_xlabel(UNIT, fontsize=8.5)
    open_axes(ax, ("top", "right", "left"))


def accuracies(path: Path) -> Path:
    """Draw the grouping loss against accuracy on each data set, with the rank correlation."""
    figure, axes = matplotlib_modules().subplots(2, 2, figsize=(9.6, 7.6), layout="constrained")
    for ax, data_set in zip(axes.ravel(), VISION, strict=True):
        rows = printed_on(data_set).values()
        _hollow(ax, [one.accuracy for one in rows], [one.gl for one in rows])
        ax.set_title(f"{data_set}: rank correlation {accuracy_correlation(data_set)}", fontsize=9.5)
        accuracy_axes(ax)
    for ax, data_set in zip(axes.ravel(), VISION, strict=True):
        name_points(ax, [(one.model, one.accuracy, one.gl) for one in printed_on(data_set).values()])
    return save(figure, path)


def shifts(path: Path) -> Path:
    """Draw the grouping loss on snow against 19 corruptions mixed, and on ImageNet-R against -1K."""
    figure, axes = matplotlib_modules().subplots(1, 2, figsize=(9.6, 4.6), layout="constrained")
    compared = ((MERGED, SNOW), (VALIDATION, RENDITIONS))
    for ax, (first, second) in zip(axes, compared, strict=True):
        _shift(ax, first, second)
    for ax, (first, second) in zip(axes, compared, strict=True):
        name_points(ax, [(one.model, one.gl, other.gl) for one, other in both(first, second)])
    return save(figure, path)


def _shift(ax: Any, first: str, second: str) -> None:
    pairs = list(both(first, second))
    before, after = ([one.gl for one in column] for column in zip(*pairs, strict=True))
    _hollow(ax, before, after)
    ax.margins(x=0.16, y=0.08)
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())  # which the line below shall not widen
    ax.axline((0, 0), slope=1, color=faded(ax, 0.5), ls=":", lw=1, label="the same on both")
    ax.set_xlabel(f"grouping loss on {first}, at least")
    ax.set_ylabel(f"grouping loss on {second}, at least")
    ax.tick_params(labelsize=8.5)
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    above = sum(b > a for a, b in zip(before, after, strict=True))
    found = rank_correlation(before, after)
    ax.set_title(f"{above} of {len(pairs)} above the line; rank correlation {found}", fontsize=9.5)
    open_axes(ax, ("top", "right"))


def beside_print(lines: Sequence[Line], path: Path, title: str) -> Path:
    """Draw our bounds (filled, with 95% intervals) and the printed ones (hollow) against accuracy."""
    figure, ax = matplotlib_modules().subplots(figsize=(7.2, 5.2), layout="constrained")
    ours = np.array([(line.accuracy, line.gl.value) for line in lines])
    known = [k for k, line in enumerate(lines) if line.published is not None]
    printed = np.array([(one["accuracy"], one["GL"]) for line in lines if (one := line.published)])
    for start, end in zip(ours[known], printed, strict=True):
        ax.plot(*zip(start, end, strict=True), color=faded(ax, 0.3), lw=0.8, zorder=1)
    errors = [1.96 * (line.gl.stderr or 0) for line in lines]
    ax.errorbar(*ours.T, yerr=errors, fmt="o", color=BLUE, ms=5, elinewidth=0.8, label="ours")
    _hollow(ax, printed[:, 0], printed[:, 1], "printed in the paper")
    ax.set_title(title, fontsize=10)
    accuracy_axes(ax)
    ax.legend(frameon=False, fontsize=9)
    name_points(ax, [(line.name, *place) for line, place in zip(lines, ours.tolist(), strict=True)])
    return save(figure, path)


def _hollow(ax: Any, x: ArrayLike, y: ArrayLike, label: str | None = None) -> None:
    ax.plot(x, y, "o", mfc="none", mec=BLUE, ms=6, mew=1.2, label=label)


def name_points(ax: Any, points: Sequence[tuple[str, float, float]], *, every: bool = False) -> None:
    """Label some points or all of them where there is room between other labels and points."""
    ax.figure.draw_without_rendering()  # so that places in pixels are known
    marks = ax.transData.transform([(x, y) for _, x, y in points])
    taken: list[Any] = []
    for name, x, y in points:
        if not every and name not in NAMED:
            continue
        text = ax.annotate(name, (x, y), (0, 0), textcoords="offset points", fontsize=7.5)
        boxes = [_placed(text, place) for place in _PLACES]
        covered = [_covered(box, taken, marks, ax.bbox) for box in boxes]
        best = int(np.argmin(covered))
        if covered[best] >= _CROWDED:
            text.remove()
        else:
            taken.append(_placed(text, _PLACES[best]))


def _placed(text: Any, place: tuple[float, float, str]) -> Any:
    """Move a label next to its point, and return its bounding box."""
    text.set_position(place[:2])
    text.set_horizontalalignment(place[2])
    return text.get_window_extent()


def _covered(box: Any, taken: Sequence[Any], marks: Any, axes: Any) -> float:
    """Return a penalty for what a box covers: labels most, then points, then the edge of the axes."""
    points = sum(bool(box.padded(3).contains(*mark)) for mark in marks)
    outside = bool(box.x1 > axes.x1 or box.y1 > axes.y1 or box.x0 < axes.x0)
    return 10.0 * sum(bool(box.overlaps(one)) for one in taken) + 2.0 * points + 1.0 * outside


def accuracy_axes(ax: Any) -> None:
    """Name the axes of a picture of grouping loss against accuracy."""
    from matplotlib.ticker import PercentFormatter

    ax.axhline(0, color=faded(ax, 0.4), lw=0.8, zorder=0)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.margins(x=0.2)
    ax.set_xlabel("accuracy")
    ax.set_ylabel("grouping loss, at least")
    open_axes(ax, ("top", "right"))


def open_axes(ax: Any, sides: Iterable[str]) -> None:
    """Hide some sides of the frame."""
    for side in sides:
        ax.spines[side].set_visible(False)
