"""The figures of the counter-examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from epiloss._typing import Floats
from epiloss.presentation.plot.style import (
    BLUE,
    GREEN,
    ORANGE,
    SKY,
    VERMILLION,
    diagonal,
    faded,
    matplotlib_modules,
    side_colours,
)
from epiloss.simulate import Link
from study_pictures import save

if TYPE_CHECKING:
    from examples import Binned, Example

SHOWN = 1_500  # points of a scatter
LEVEL = (0.55, 0.65)  # the level set that is looked into


def _bare(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _losses(one: Example) -> str:
    found = one.result
    assert found.twin_estimate is not None
    return (
        f"CL {one.truth.calibration_loss:.4f}, estimated {found.calibration_loss.value:z.4f}\n"
        f"GL {one.truth.grouping_loss:.4f}, twins {found.twin_estimate.value:.4f}"
    )


def _draw_law(ax: Any, problem: Link, legend: bool) -> None:
    """Draw score and truth against the feature, which is negative on one side."""
    from examples import sides

    s: Floats = np.linspace(0, 1, 801)
    plus, minus, _ = sides(problem, s)
    x = np.concatenate([-s[::-1], [np.nan], s])
    q = np.concatenate([minus[::-1], [np.nan], plus])
    if problem.link == "half-step":  # break the line where it jumps
        q = np.where(np.abs(np.abs(x) - 0.5) < 1e-3, np.nan, q)
    ax.plot(x, np.abs(x), color="black", lw=1.4, label="score S = calibrated score")
    ax.plot(x, q, color=VERMILLION, lw=1.8, label="true probability Q")
    ax.fill_between(x, np.abs(x), q, color=VERMILLION, alpha=0.12, lw=0)
    ax.set(xlabel="feature x", ylabel="probability", xlim=(-1, 1), ylim=(-0.03, 1.03))
    ax.set_xticks(np.linspace(-1, 1, 5))
    _bare(ax)
    if legend:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize=9)


def _draw_reliability(ax: Any, one: Example, legend: bool) -> None:
    """Draw the rates of bins of the score, for all rows and for each side of the feature."""
    sample, edges = one.sample, np.linspace(0, 1, 16)
    bins = np.digitize(sample.scores, edges[1:-1])
    positive = sample.X[:, 0] > 0
    diagonal(ax, None)
    for rows, colour, label in (
        (positive, BLUE, "rows with x > 0"),
        (~positive, ORANGE, "rows with x < 0"),
        (np.ones(len(positive), bool), "black", "all rows"),
    ):
        count = np.bincount(bins[rows], minlength=15)
        rate = np.bincount(bins[rows], sample.y[rows], 15) / np.maximum(count, 1)
        score = np.bincount(bins[rows], sample.scores[rows], 15) / np.maximum(count, 1)
        ax.plot(score[count > 0], rate[count > 0], "o-", ms=3.5, lw=1.1, color=colour, label=label)
    ax.set(xlabel="score", ylabel="rate of positives", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    ax.set_xticks(np.linspace(0, 1, 6))
    _bare(ax)
    if legend:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize=9, ncols=2)


def wrong_everywhere(one: Example, path: Path) -> Path:
    """Draw a calibrated classifier of best accuracy whose scores are wrong."""
    figure, (left, right) = matplotlib_modules().subplots(1, 2, figsize=(9, 4.4), layout="constrained")
    assert isinstance(one.problem, Link)
    _draw_law(left, one.problem, legend=True)
    left.axhline(0.5, color=faded(left, 0.4), lw=0.7, ls=":")
    left.set_title("Both are above 1/2 for the same x: the best accuracy", fontsize=10)
    _draw_reliability(right, one, legend=True)
    right.set_title(_losses(one), fontsize=10)
    return save(figure, path)


def two_regions(one: Example, path: Path) -> Path:
    """Draw one level set with two regions whose rates differ from the score."""
    sample = one.sample
    inside = (sample.scores >= LEVEL[0]) & (sample.scores < LEVEL[1])
    across = (sample.X[:, 0] - sample.X[:, 1]) > 0
    figure, (left, right) = matplotlib_modules().subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    left.scatter(*sample.X[:SHOWN].T, s=5, color=faded(left, 0.22), lw=0, label="other rows")
    for rows, colour, label in ((across, BLUE, "region A"), (~across, ORANGE, "region B")):
        left.scatter(*sample.X[inside & rows].T, s=9, color=colour, lw=0, label=f"level set, {label}")
    left.set(xlabel="first feature", ylabel="second feature", xlim=(-8, 8), ylim=(-8, 8), aspect="equal")
    left.set_title(f"Rows scored {LEVEL[0]:g} to {LEVEL[1]:g}", fontsize=10)
    left.legend(loc="upper left", fontsize=8, frameon=False)
    groups = {"region A": inside & across, "all": inside, "region B": inside & ~across}
    truth = [float(sample.q[rows].mean()) for rows in groups.values()]
    rates = [float(sample.y[rows].mean()) for rows in groups.values()]
    right.bar(list(groups), truth, 0.55, color=[SKY, faded(right, 0.35), "#F5D48A"])
    errors = [1.96 * np.sqrt(r * (1 - r) / groups[g].sum()) for g, r in zip(groups, rates, strict=True)]
    right.errorbar(
        list(groups), rates, errors, fmt="o", color="black", ms=4, lw=1, label="rate in the sample"
    )
    right.axhline(0.6, color=VERMILLION, lw=1.2, ls="--", label="score, about 0.6")
    right.set(ylabel="true probability (bars)", ylim=(0, 1.3), yticks=np.linspace(0, 1, 6))
    spread = (truth[0] - truth[2]) ** 2 / 4
    right.set_title(f"Right on average, wrong in both: variance {spread:.3f} inside", fontsize=10)
    right.legend(loc="upper right", fontsize=8, frameon=False, ncols=2)
    _bare(left)
    _bare(right)
    return save(figure, path)


def binning_picture(found: Sequence[Binned], path: Path) -> Path:
    """Draw the effect of binning on the grouping loss: exact values as lines, estimates as points."""
    figure, ax = matplotlib_modules().subplots(figsize=(7.2, 4.6), layout="constrained")
    bins = [one.bins for one in found]
    ax.axhline(1 / 30, color="black", lw=1.3, ls="--", label="GL of the score, 1/30")
    kinds = (
        ("GL of the binned score", VERMILLION, [one.grouping_loss for one in found], None),
        ("induced by binning", ORANGE, [one.induced for one in found], "induced"),
        ("explained by the sides of x", GREEN, [one.explained for one in found], "explained"),
        ("lower bound: explained less induced", BLUE, [one.lower_bound for one in found], "bound"),
    )
    for label, colour, exact, name in kinds:
        ax.plot(bins, exact, color=colour, lw=1.4, label=label)
        if name is None:
            continue
        values = [
            one.found.partition_bound.value if name == "bound" else float(getattr(one.found, name))
            for one in found
        ]
        ax.plot(bins, values, "o", color=colour, ms=5, mfc="white", mew=1.3)
    ax.plot([], [], "o", color=faded(ax, 0.7), ms=5, mfc="white", mew=1.3, label="estimated")
    ax.set_xscale("log")
    ax.set_xticks(bins, [str(count) for count in bins])
    ax.minorticks_off()
    ax.axhline(0, color=faded(ax, 0.4), lw=0.6)
    ax.set(xlabel="bins", ylabel="loss")
    ax.set_title("The square link: binning inflates the grouping loss", fontsize=10)
    ax.legend(loc="upper right", frameon=False, fontsize=9)
    _bare(ax)
    return save(figure, path)


def link_picture(found: Sequence[Example], path: Path) -> Path:
    """Draw the links with their reliability curves."""
    figure, axes = matplotlib_modules().subplots(
        2, len(found), figsize=(3.1 * len(found), 6.6), layout="constrained"
    )
    for column, one in enumerate(found):
        assert isinstance(one.problem, Link)
        _draw_law(axes[0, column], one.problem, legend=False)
        axes[0, column].set_title(one.name, fontsize=10)
        _draw_reliability(axes[1, column], one, legend=False)
        axes[1, column].set_title(_losses(one), fontsize=9)
    handles = [*axes[0, 0].get_lines(), *axes[1, 0].get_lines()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return save(figure, path)


def sigmoid_picture(found: Sequence[Example], path: Path) -> Path:
    """Draw two features coloured by how wrong the score is, and the grouping diagrams."""
    figure, axes = matplotlib_modules().subplots(
        2, len(found), figsize=(3.4 * len(found), 7.4), layout="constrained"
    )
    figure.get_layout_engine().set(h_pad=0.1)
    under, over = side_colours(axes[0, 0])
    sides = LinearSegmentedColormap.from_list("sides", [over, "0.85", under])
    points: Any = None
    legend: Any = None
    for column, one in enumerate(found):
        top, bottom = axes[:, column]
        sample = one.sample
        X, error = sample.X[:SHOWN], (sample.q - sample.c)[:SHOWN]
        points = top.scatter(*X.T, c=error, s=7, lw=0, cmap=sides, vmin=-0.5, vmax=0.5)
        top.set(xlim=(-8, 8), ylim=(-8, 8), aspect="equal", xlabel="first feature")
        top.set_title(one.name, fontsize=10)
        if column == 0:
            top.set_ylabel("second feature")
        _bare(top)
        legend = one.result.plot(bottom).legend_
        legend.remove()  # one for all
        bottom.set_title(_losses(one), fontsize=10)
        bottom.set_xlabel("score", fontsize=10)
        bottom.set_ylabel("rate of positives" if column == 0 else "", fontsize=10)
        bottom.tick_params(labelsize=9)
    labels = [text.get_text() for text in legend.get_texts()]
    outside = {"loc": "outside lower center", "ncols": len(labels), "frameon": False}
    figure.legend(legend.legend_handles, labels, **outside)
    bar = figure.colorbar(points, ax=axes[0, :], fraction=0.02, pad=0.01)
    bar.set_label("true minus calibrated probability", fontsize=9)
    return save(figure, path)
