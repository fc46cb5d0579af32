"""The paper's comparison figures for networks that were measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epiloss import Audit, Estimate
from epiloss.presentation.plot import HeterogeneityDisplay
from epiloss.presentation.plot.style import BLUE, ORANGE, SKY, faded, matplotlib_modules, plain
from protocol import Line
from published_pictures import UNIT, accuracy_axes, name_points, open_axes
from study_pictures import GREEN, KINDS, diagrams, keep_fullest_legend, reach, save, whiskers
from study_verdicts import rank_correlation
from vision_many_claims import Known, Lines, loss, pairs
from vision_parts import CLEAN, MERGED, SNOW

_TITLES = {CLEAN: "clean images", MERGED: "19 corruptions, mixed", SNOW: "snow"}
_SMALLEST = 30  # rows of a group


def losses(lines: Lines, path: Path) -> Path:
    """Draw all losses before and after recalibration, with networks sorted by accuracy."""
    n = max(map(len, lines.values()))
    figure, axes = matplotlib_modules().subplots(
        1, len(lines), figsize=(4.6 * len(lines), 1.8 + 0.42 * n), layout="constrained"
    )
    for ax, (part, some) in zip(axes, lines.items(), strict=True):
        place = np.arange(len(some))[::-1].astype(float)
        for k, (name, _, label, colour, pale) in enumerate(KINDS):
            offset = 0.24 * (1 - k)
            first, second = ([getattr(line, name + when) for line in some] for when in ("", "_after"))
            values, changed = (np.array([one.value for one in column]) for column in (first, second))
            ax.hlines(place + offset, values, changed, color=pale, lw=1, zorder=1)
            ax.plot(changed, place + offset, "o", color=pale, ms=4, label=f"{label}, after isotonic")
            whiskers(ax, first, place + offset, colour, label)
        ax.axvline(0, color=faded(ax, 0.4), lw=0.8, zorder=0)
        names = [plain(f"{short(line.name)}\n{line.accuracy:.1%}") for line in some]
        ax.set_yticks(place, names, fontsize=7.5)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(-0.6, len(some) - 0.4)
        ax.set_title(_TITLES[part], fontsize=10)
        ax.set_xlabel(UNIT, fontsize=8.5)
        ax.set_xscale("symlog", linthresh=0.02)
        ax.set_xticks([0, 0.01, 0.02, 0.1, 0.5], ["0", "0.01", "0.02", "0.1", "0.5"], fontsize=8)
        open_axes(ax, ("top", "right", "left"))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return save(figure, path)


def accuracies(lines: Lines, path: Path) -> Path:
    """Draw the grouping loss against accuracy on each part, with the rank correlation."""
    figure, axes = matplotlib_modules().subplots(
        1, len(lines), figsize=(4.6 * len(lines), 4.3), layout="constrained"
    )
    for ax, (part, some) in zip(axes, lines.items(), strict=True):
        accuracy = [line.accuracy for line in some]
        found = [loss(line) for line in some]
        ax.plot(
            accuracy,
            [line.gl.value for line in some],
            *("o",),
            mfc="none",
            mec=GREEN,
            ms=5,
            label="trees, at least",
        )
        values = [one.value for one in found]
        ax.errorbar(accuracy, values, reach(found), fmt="o", color=BLUE, ms=5, lw=1, label="twins")
        order = rank_correlation(accuracy, values)
        ax.set_title(f"{_TITLES[part]}: rank correlation {order}", fontsize=9.5)
        accuracy_axes(ax)
        ax.set_ylabel("grouping loss")
    axes[0].legend(frameon=False, fontsize=8.5, loc="center right")
    for ax, some in zip(axes, lines.values(), strict=True):
        _named(ax, [(line, line.accuracy, loss(line).value) for line in some])
    return save(figure, path)


def shifts(lines: Lines, path: Path) -> Path:
    """Draw the grouping loss on snow against all corruptions mixed, and mixed against clean."""
    compared = ((MERGED, SNOW), (CLEAN, MERGED))
    known = [
        [(one, loss(one), loss(other)) for one, other in pairs(lines, *parts)] for parts in compared
    ]
    return _against(known, [tuple(_TITLES[part] for part in parts) for parts in compared], path)


def recalibration(lines: Lines, path: Path) -> Path:
    """Draw the grouping loss after recalibration against that before, by trees and by twins."""
    every = [line for some in lines.values() for line in some]
    trees = [(line, line.gl, line.gl_after) for line in every]
    twins = [(line, loss(line), line.twin_after) for line in every if line.twin_after is not None]
    words = ("before recalibration, {}", "after recalibration, {}")
    names = [tuple(word.format(how) for word in words) for how in ("by trees", "by twins")]
    return _against([trees, twins], names, path, named=False)


def _against(
    known: Sequence[Sequence[tuple[Line, Estimate, Estimate]]],
    words: Sequence[tuple[str, ...]],
    path: Path,
    *,
    named: bool = True,
) -> Path:
    """Draw pairs of estimates against each other, with the diagonal."""
    figure, axes = matplotlib_modules().subplots(
        1, len(known), figsize=(5 * len(known), 4.7), layout="constrained"
    )
    for ax, rows, (first, second) in zip(axes, known, words, strict=True):
        columns = [row[1] for row in rows], [row[2] for row in rows]
        x, y = (np.array([one.value for one in column]) for column in columns)
        errors = [reach(column) for column in columns]
        ax.errorbar(x, y, errors[1], errors[0], fmt="o", color=BLUE, ecolor=SKY, ms=4.5, elinewidth=0.9)
        ax.margins(0.1)
        ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())  # which the line below shall not widen
        ax.axline((0, 0), slope=1, color=faded(ax, 0.5), ls=":", lw=1, label="the same on both")
        ax.set_xlabel(f"grouping loss: {first}")
        ax.set_ylabel(f"grouping loss: {second}")
        ax.legend(frameon=False, fontsize=8, loc="upper left")
        above = int((y > x).sum())
        order = rank_correlation(x.tolist(), y.tolist())
        ax.set_title(f"{above} of {len(x)} above the line; rank correlation {order}", fontsize=9.5)
        open_axes(ax, ("top", "right"))
    if named:
        for ax, rows in zip(axes, known, strict=True):
            _named(ax, [(line, one.value, other.value) for line, one, other in rows])
    return save(figure, path)


def _named(ax: Any, points: Sequence[tuple[Line, float, float]]) -> None:
    name_points(ax, [(short(line.name), x, y) for line, x, y in points], every=True)


def short(name: str) -> str:
    """Return a network's name for a picture.

    Examples
    --------
    >>> short("EfficientNet-Lite0, zero-shot"), short("2 convolutions, batch norm")
    ('Lite0, zero-shot', '2 conv., BN')
    """
    if name.startswith("ensemble"):
        return "ensemble"
    for word, brief in (
        ("EfficientNet-", ""),
        ("convolutions", "conv."),
        ("batch norm", "BN"),
        ("linear head", "head"),
    ):
        name = name.replace(word, brief)
    return name


def corruptions(known: Mapping[str, Mapping[str, Estimate]], names: Sequence[str], path: Path) -> Path:
    """Draw the grouping loss of each network under each corruption and the mixture as a heat map."""
    pyplot = matplotlib_modules()
    means = {part: np.mean([one.value for one in some.values()]) for part, some in known.items()}
    single = sorted(set(means) - {CLEAN, MERGED}, key=lambda part: -means[part])
    order = [CLEAN, MERGED, *single]
    values = np.array([[known[part][name].value for part in order] for name in names])
    figure, ax = pyplot.subplots(
        figsize=(2.6 + 0.45 * len(order), 1.9 + 0.33 * len(names)), layout="constrained"
    )
    limit = float(np.quantile(values, 0.98))
    image = ax.imshow(values, cmap="viridis", vmin=0, vmax=limit, aspect="auto")
    for row, column in np.ndindex(*values.shape):
        value = values[row, column]
        colour = "white" if value < 0.6 * limit else "black"
        shown = f"{value:z.2f}".lstrip("0") if value >= 0.005 else "0"
        ax.text(column, row, shown, ha="center", va="center", fontsize=6.5, color=colour)
    ax.set_xticks(
        range(len(order)),
        [part.replace("_", " ") for part in order],
        rotation=55,
        ha="right",
        fontsize=8,
    )
    ax.set_yticks(range(len(names)), [short(name) for name in names], fontsize=8)
    ax.axvline(1.5, color="white", lw=3)
    ax.tick_params(length=0)
    figure.colorbar(image, ax=ax, label="grouping loss by twins", fraction=0.03)
    return save(figure, path)


def grouping(name: str, audits: Mapping[str, Audit], lines: Lines, path: Path) -> Path:
    """Draw the grouping diagrams of a network on each part."""
    by_part = {part: next(line for line in some if line.name == name) for part, some in lines.items()}
    drawn = [(f"{name}: {_TITLES[part]}", by_part[part], one) for part, one in audits.items()]
    return diagrams(drawn, path, columns=len(drawn))


def every_grouping(found: Sequence[tuple[Line, Audit]], path: Path) -> Path:
    """Draw the grouping diagrams of all networks, small and with common axes."""
    columns = 5
    rows = -(-len(found) // columns)
    figure, axes = matplotlib_modules().subplots(
        rows, columns, figsize=(2.9 * columns, 3.1 * rows), layout="constrained", squeeze=False
    )
    drawn = []
    for ax, (line, result) in zip(axes.ravel(), found, strict=False):
        drawn.append(result.plot(ax))
        title = f"{short(line.name)}, {line.accuracy:.1%}\nGL {loss(line).value:z.4f}"
        ax.set_title(plain(title), fontsize=9)
    for ax in axes.ravel()[len(found) :]:
        ax.set_axis_off()
    keep_fullest_legend(drawn, len(found) - columns * (rows - 1))
    return save(figure, path)


def known(found: Sequence[Known], path: Path) -> Path:
    """Draw the grouping loss of each network from known groups, from features and from both."""
    names = [short(one.name) for one in found]
    figure, ax = matplotlib_modules().subplots(
        figsize=(7.2, 1.5 + 0.42 * len(names)), layout="constrained"
    )
    place = np.arange(len(names))[::-1].astype(float)
    for kind, label, colour, offset in (
        ("both", "both", BLUE, 0.2),
        ("features", "the network's features", SKY, 0.0),
        ("groups", "the corruption alone", ORANGE, -0.2),
    ):
        whiskers(ax, [getattr(one, kind) for one in found], place + offset, colour, label)
    ax.axvline(0, color=faded(ax, 0.4), lw=0.8, zorder=0)
    ax.set_yticks(place, names, fontsize=8.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"grouping loss by twins ({UNIT})")
    open_axes(ax, ("top", "right", "left"))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return save(figure, path)


def heterogeneity(audits: Mapping[str, Audit], path: Path) -> Path:
    """Draw the differences of corruptions from all images with the same score."""
    named = {short(name): one for name, one in audits.items()}
    return save(HeterogeneityDisplay.from_audits(named).plot(smallest=_SMALLEST).figure_, path)
