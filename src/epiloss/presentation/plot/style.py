"""Colours, sizes and elements that all displays share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.auditing.result import Audit
from epiloss.errors import MissingExtraError, OptionError
from epiloss.estimate import Estimate
from epiloss.table import Table

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
COLOURS = {"calibration_loss": ORANGE, "grouping_loss": BLUE}

_ALIASES = {
    "lw": "linewidth",
    "linewidths": "linewidth",
    "ls": "linestyle",
    "linestyles": "linestyle",
    "ms": "markersize",
    "c": "color",
    "colors": "color",
    "fc": "facecolor",
    "facecolors": "facecolor",
    "ec": "edgecolor",
    "edgecolors": "edgecolor",
}
_FULL_WIDTH = 3.6  # inches; text shrinks in narrower axes
_NARROW = 3.0  # inches; in narrower axes long texts are wrapped or left out
_SMALLEST = 0.62  # of the normal font size, which is above 6 points in print
_SIDES, _DARK_SIDES = ("#1466b8", "#c2410c"), ("#62abf0", "#ff9257")  # under-, over-predicted
_STRIP = 0.11  # height of the histogram relative to the axes


def matplotlib_modules() -> Any:
    """Return pyplot, or raise an error that says what to install."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError(
            "plots need matplotlib, which is not installed. Run: pip install 'epiloss[plot]'"
        ) from None
    return pyplot


def axes_for(ax: Any, figsize: tuple[float, float]) -> Any:
    """Return the given axes, or those of a new figure.

    A figure with default margins, such as that of ``plt.subplots(1, 3)``, gets the constrained layout,
    so that titles, labels and legends do not overlap. Other figures are left as they are.
    """
    pyplot = matplotlib_modules()
    if ax is None:
        _, ax = pyplot.subplots(figsize=figsize, layout="constrained")
    elif _is_as_made(ax.figure, pyplot.rcParams):
        ax.figure.set_layout_engine("constrained")
    return ax


def _is_as_made(figure: Any, defaults: Mapping[str, Any]) -> bool:
    """Return whether a figure has no layout engine and default margins."""
    margins = getattr(figure, "subplotpars", None)
    if margins is None or getattr(figure, "get_layout_engine", lambda: True)() is not None:
        return False
    names = ("left", "right", "bottom", "top", "wspace", "hspace")
    return all(getattr(margins, name) == defaults[f"figure.subplot.{name}"] for name in names)


def refuse_several_classes(result: Audit, picture: str) -> None:
    """Refuse an audit of several classes."""
    if len(np.unique(result.regions.columns.get("class", np.array([""])))) > 1:
        raise OptionError(
            f"{picture} needs one score per row, got task {result.task!r} with several classes. "
            "Audit with task='top-label', or one class at a time."
        )


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the defaults updated with the user's keywords, which may be aliases.

    Examples
    --------
    >>> merged({"linewidth": 1, "color": "red"}, {"lw": 3})
    {'linewidth': 3, 'color': 'red'}
    """
    return {**defaults, **{_ALIASES.get(name, name): value for name, value in (given or {}).items()}}


def text_colour() -> Any:
    """Return the text colour of the current style."""
    return matplotlib_modules().rcParams["text.color"]


def is_dark(ax: Any) -> bool:
    """Return whether the axes have a dark background."""
    from matplotlib import colors

    return bool(np.mean(colors.to_rgb(ax.get_facecolor())) < 0.4)


def faded(ax: Any, strength: float) -> tuple[float, ...]:
    """Return the text colour mixed into the background, which is grey on white and on black."""
    from matplotlib import colors

    text, ground = np.array(colors.to_rgb(text_colour())), np.array(colors.to_rgb(ax.get_facecolor()))
    return tuple((strength * text + (1 - strength) * ground).tolist())


def side_colours(ax: Any) -> tuple[str, str]:
    """Return the colours of under- and over-predicted groups, as in the HTML reports."""
    return _DARK_SIDES if is_dark(ax) else _SIDES


def side_map(ax: Any) -> Any:
    """Return the colour map from over- to under-predicted groups, with the background in the middle."""
    from matplotlib.colors import LinearSegmentedColormap

    under, over = side_colours(ax)
    return LinearSegmentedColormap.from_list("sides", [over, ax.get_facecolor(), under])


def width_of(ax: Any) -> float:
    """Return the width of the axes in inches."""
    figure = ax.figure
    whole = figure.bbox.width / figure.dpi
    return float(ax.get_position().width * whole)


def is_narrow(ax: Any) -> bool:
    """Return whether the axes are as narrow as in one column of a paper."""
    return width_of(ax) < _NARROW


def text_size(ax: Any, relative: float = 1.0) -> float:
    """Return the font size in points, which is smaller in narrow axes."""
    scale = np.clip(width_of(ax) / _FULL_WIDTH, _SMALLEST, 1)
    return float(matplotlib_modules().rcParams["font.size"] * relative * scale)


def dress(ax: Any, task: str, reach: float = 1.0) -> None:
    """Label the axes of scores and rates for a task, and set their range up to ``reach``."""
    xlabel, ylabel = "score", "rate of the positive class"
    if task == "top-label":
        xlabel, ylabel = "score of the predicted class", "rate of correct predictions"
    elif task != "binary":
        ylabel = "rate of the class"
    ends = (-0.02 * reach, 1.02 * reach)
    ax.set(xlim=ends, ylim=ends)
    ax.set_xticks(np.linspace(0, reach, 6))
    ax.set_yticks(np.linspace(0, reach, 6))
    ax.set_xlabel(xlabel, fontsize=text_size(ax))
    ax.set_ylabel(ylabel, fontsize=text_size(ax))
    ax.tick_params(labelsize=text_size(ax, 0.9))


def diagonal(ax: Any, keywords: Mapping[str, Any] | None) -> Any:
    """Draw the diagonal of perfect calibration."""
    defaults = {
        "color": faded(ax, 0.55),
        "linestyle": ":",
        "linewidth": 1,
        "zorder": 1,
        "label": "perfectly calibrated",
    }
    (line,) = ax.plot([0, 1], [0, 1], **merged(defaults, keywords))
    return line


def score_strip(ax: Any, histogram: Table, keywords: Mapping[str, Any] | None) -> Any:
    """Draw a thin histogram of the scores above the axes, and return its axes."""
    strip = ax.inset_axes([0, 1.015, 1, _STRIP], sharex=ax)
    low, high, n = histogram["low"], histogram["high"], histogram["n"]
    defaults = {"color": faded(ax, 0.45), "linewidth": 0, "align": "edge", "label": "scores"}
    strip.bar(low, n, width=high - low, **merged(defaults, keywords))
    strip.set_facecolor("none")
    strip.grid(False)
    strip.tick_params(left=False, labelleft=False, bottom=False, labelbottom=False, which="both")
    for side, spine in strip.spines.items():
        spine.set_visible(side == "bottom")
    strip.spines["bottom"].set(color=faded(ax, 0.45), linewidth=0.6)
    strip.set_ylim(0, max(float(n.max()), 1e-12) * 1.02)
    return strip


def legend_below(ax: Any, handles: Any = None, *, columns: int = 2, gap: float = 2.6) -> Any:
    """Put the legend below the label of the x axis.

    ``gap`` is the room for tick labels and axis label, in lines of text.
    """
    from matplotlib.transforms import ScaledTranslation

    size = text_size(ax, 0.9)
    down = ScaledTranslation(0, -(gap * text_size(ax) + 9) / 72, ax.figure.dpi_scale_trans)
    return ax.legend(
        **({} if handles is None else {"handles": handles}),
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=ax.transAxes + down,
        ncols=columns,
        frameon=False,
        fontsize=size,
        borderaxespad=0,
        columnspacing=1.2,
        handlelength=1.6,
    )


def loss_axes(ax: Any, label: str) -> None:
    """Keep only the lower axis, for horizontal bars."""
    ax.grid(False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=text_size(ax, 0.9))
    ax.locator_params(axis="x", nbins=2 if is_narrow(ax) else 5)
    ax.set_xlabel(label, fontsize=text_size(ax))
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def plain(text: str) -> str:
    r"""Return text with dollar signs escaped, so that matplotlib does not parse it as mathematics.

    Examples
    --------
    >>> plain("over 50k $")
    'over 50k \\$'
    """
    return text.replace("$", r"\$")


def wrapped(name: str, width: int = 22, lines: int = 2) -> str:
    r"""Return a name wrapped to a few lines, with an ellipsis if it is longer.

    Examples
    --------
    >>> wrapped("gradient boosting with monotone constraints", 18)
    'gradient boosting\nwith monotone…'
    """
    parts = textwrap.wrap(name, width, max_lines=lines, placeholder="…", break_long_words=True)
    return plain("\n".join(parts)) if parts else ""


def loss_text(name: str, estimate: Estimate, spec: str = "z.4f") -> str:
    """Return the name of a loss with its value and interval.

    Examples
    --------
    >>> loss_text("grouping loss ≥", Estimate(0.0312, low=0.0274, high=0.035))
    'grouping loss ≥ 0.0312 [0.0274, 0.0350]'
    """
    return f"{name} {estimate:{spec}}"


def whisker_lengths(
    value: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
) -> NDArray[np.float64] | None:
    """Return the distances from values to both ends of their intervals, as errorbar expects."""
    lengths = np.array([value - low, high - value], float)
    if np.isnan(lengths).all():
        return None
    return np.asarray(np.maximum(lengths, 0), float)
