"""Heterogeneity, as in the paper: how far known groups differ from all rows with the same score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from epiloss._typing import Floats
from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.presentation.plot.style import (
    axes_for,
    faded,
    is_narrow,
    loss_axes,
    merged,
    refuse_several_classes,
    side_colours,
    side_map,
    text_colour,
    text_size,
    whisker_lengths,
    wrapped,
)
from epiloss.table import Table

_JOINED = " + "
_LABEL = "rate minus rate\nat equal scores"
_CELL = 0.62, 0.42  # inches
_LEGIBLE = 4.5  # points


@dataclass
class HeterogeneityDisplay:
    """Differences between the rates of groups and those of their level sets, for one or more models.

    With ``n_gl`` rows of group g in level set l and their rate ``r_gl``,

        difference_g  =  sum_l  n_gl / n_g  (r_gl - r_l).

    If it is positive, scores that are calibrated overall are too low for the group. Small groups that an
    audit has merged, "a + b", count as a group of their own. :meth:`plot` sets ``ax_``, ``figure_``, and
    ``bars_``, or ``image_`` with ``texts_`` and ``colorbar_``.

    Attributes
    ----------
    table : Table
        ``n``, ``difference``, ``stderr``, ``low`` and ``high`` for each model and subgroup.
    level : float
        Confidence level of the intervals.

    See Also
    --------
    epiloss.presentation.plot.GapsDisplay : gaps at equal scores instead of level sets.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(4_000)
    >>> side = np.where(sample.X[:, 0] > sample.X[:, 1], "above", "below")
    >>> result = epiloss.audit(sample.y, sample.scores, subgroups=side)
    >>> table = HeterogeneityDisplay.from_audits({"logistic": result}).table
    >>> dict(zip(table["subgroup"], table["difference"] > 0))
    {'above': np.True_, 'below': np.False_}
    """

    table: Table
    level: float = 0.95
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    bars_: Any = field(default=None, init=False, repr=False)
    image_: Any = field(default=None, init=False, repr=False)
    texts_: list[Any] = field(default_factory=list, init=False, repr=False)
    colorbar_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audits(cls, audits: Mapping[str, Audit]) -> HeterogeneityDisplay:
        """Create a display from audits with ``subgroups=``.

        Parameters
        ----------
        audits : mapping of str to Audit
            The audits by name of the model.

        Returns
        -------
        HeterogeneityDisplay
            The display, not yet drawn.
        """
        if not audits:
            raise OptionError(
                "audits must map names to audits, got an empty mapping. Pass at least one audit."
            )
        parts = {name: heterogeneity(result) for name, result in audits.items()}
        model = np.concatenate([np.array([name] * len(part), object) for name, part in parts.items()])
        tables = list(parts.values())
        columns = {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}
        level = next(iter(audits.values())).confidence_level
        return cls(Table({"model": model, **columns}), level)

    @classmethod
    def from_audit(cls, result: Audit, *, name: str = "model") -> HeterogeneityDisplay:
        """Create a display from one audit with ``subgroups=``.

        Parameters
        ----------
        result : Audit
            The audit to show.
        name : str
            Name of the model.

        Returns
        -------
        HeterogeneityDisplay
            The display, not yet drawn.

        Examples
        --------
        With matplotlib::

            HeterogeneityDisplay.from_audit(result, name="logistic").plot()
        """
        return cls.from_audits({name: result})

    @property
    def models(self) -> list[str]:
        """The names of the models, in the given order."""
        return list(dict.fromkeys(self.table["model"].tolist()))

    def groups(self, smallest: int = 0) -> list[str]:
        """Return the groups with enough rows, sorted by decreasing difference, merged groups last.

        Parameters
        ----------
        smallest : int
            Smallest number of rows of a group.

        Returns
        -------
        list of str
            The names of the groups.

        Examples
        --------
        >>> columns = {"subgroup": ["old", "new"], "n": [90, 9], "difference": [0.1, 0.2]}
        >>> table = Table({name: np.array(column) for name, column in columns.items()})
        >>> HeterogeneityDisplay(table, 0.95).groups(smallest=30)
        ['old']
        """
        names = dict.fromkeys(self.table["subgroup"][self.table["n"] >= smallest].tolist())
        mean = {
            name: float(self.table["difference"][self.table["subgroup"] == name].mean())
            for name in names
        }
        return sorted(names, key=lambda name: (_JOINED in name, -mean[name]))

    def plot(
        self,
        ax: Any = None,
        *,
        bar_kw: Mapping[str, Any] | None = None,
        whisker_kw: Mapping[str, Any] | None = None,
        image_kw: Mapping[str, Any] | None = None,
        smallest: int = 30,
        colorbar: bool = True,
    ) -> HeterogeneityDisplay:
        """Draw sorted bars for one model, or a heat map of models and groups for several.

        In the heat map, differences whose interval contains zero are in parentheses. Groups with fewer
        than ``smallest`` rows are not drawn, because their noise would determine the scale.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        bar_kw, whisker_kw, image_kw : mapping, optional
            Keyword arguments of the artists.
        smallest : int
            Smallest number of rows of a group that is drawn.
        colorbar : bool
            Whether to draw a colour bar.

        Returns
        -------
        HeterogeneityDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            HeterogeneityDisplay.from_audits({"model": result}).plot()
        """
        names = self.groups(smallest) or self.groups()
        if len(self.models) == 1:
            self._draw_bars(ax, names, bar_kw, whisker_kw)
        else:
            self._draw_map(ax, names, smallest, image_kw, colorbar)
        return self

    def _draw_bars(
        self,
        ax: Any,
        names: list[str],
        bar_kw: Mapping[str, Any] | None,
        whisker_kw: Mapping[str, Any] | None,
    ) -> None:
        rows = [int(np.flatnonzero(self.table["subgroup"] == name)[0]) for name in names]
        shown = self.table.take(np.array(rows))
        ax = axes_for(ax, (6.0, 1.1 + 0.32 * len(names)))
        self.ax_, self.figure_ = ax, ax.figure
        under, over = side_colours(ax)
        y, value = np.arange(len(names)), shown["difference"]
        noise = (shown["low"] <= 0) & (shown["high"] >= 0)
        signs = np.where(value > 0, under, over).tolist()
        colours = [faded(ax, 0.3) if grey else sign for grey, sign in zip(noise, signs, strict=True)]
        defaults: dict[str, Any] = {"color": colours, "linewidth": 0, "zorder": 2, "height": 0.7}
        self.bars_ = ax.barh(y, value, **merged(defaults, bar_kw))
        whiskers = {"ecolor": text_colour(), "elinewidth": 0.9, "capsize": 2, "capthick": 0.9}
        self.bars_.errorbar = ax.errorbar(
            value,
            y,
            xerr=whisker_lengths(value, shown["low"], shown["high"]),
            fmt="none",
            zorder=3,
            **merged(whiskers, whisker_kw),
        )
        ax.axvline(0, color=faded(ax, 0.7), linewidth=0.8, zorder=1)
        length = 20 if is_narrow(ax) else 34
        labels = [f"{wrapped(name, length)} ({n:,})" for name, n in zip(names, shown["n"], strict=True)]
        ax.set_yticks(y, labels, fontsize=text_size(ax, 0.95))
        ax.set_ylim(len(names) - 0.4, -0.6)
        loss_axes(ax, _LABEL)
        ax.set_title(wrapped(self.models[0], 30 if is_narrow(ax) else 60), fontsize=text_size(ax))

    def _draw_map(
        self,
        ax: Any,
        groups: list[str],
        smallest: int,
        image_kw: Mapping[str, Any] | None,
        colorbar: bool,
    ) -> None:
        models = self.models
        width, height = _CELL
        ax = axes_for(ax, (2.9 + width * len(groups), 1.9 + height * len(models)))
        self.ax_, self.figure_ = ax, ax.figure
        values = np.full((len(models), len(groups)), np.nan)
        texts: dict[tuple[int, int], str] = {}
        large = (self.table["n"] >= smallest) | (self.table["n"].max() < smallest)
        for row in np.flatnonzero(np.isin(self.table["subgroup"], groups) & large).tolist():
            place = models.index(self.table["model"][row]), groups.index(self.table["subgroup"][row])
            values[place], texts[place] = self.table["difference"][row], _cell_text(self.table, row)
        limit = float(np.nanmax(np.abs(values))) or 1.0
        defaults = {"cmap": side_map(ax), "vmin": -limit, "vmax": limit, "aspect": "auto"}
        self.image_ = ax.imshow(values, **merged(defaults, image_kw))
        size = text_size(ax, 0.85)
        self.texts_ = [
            ax.text(
                x, y, text, size=size, ha="center", va="center",
                color=_readable(self.image_.to_rgba(values[y, x])),
            )
            for (y, x), text in texts.items()
        ]  # fmt: skip
        short = (18, 1) if is_narrow(ax) else (24, 2)
        slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "fontsize": size}
        ax.set_xticks(range(len(groups)), [wrapped(name, *short) for name in groups], **slanted)
        names = [wrapped(name, 16 if is_narrow(ax) else 22) for name in models]
        ax.set_yticks(range(len(models)), names, fontsize=text_size(ax, 0.95))
        ax.tick_params(length=0)
        ax.grid(False)
        for spine in ax.spines.values():
            spine.set_visible(False)
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, fraction=0.05, pad=0.02)
            self.colorbar_.set_label(_LABEL, fontsize=size)
            self.colorbar_.ax.tick_params(labelsize=size)
            self.colorbar_.outline.set_visible(False)
        self._fit_texts(len(groups))

    def _fit_texts(self, columns: int) -> None:
        """Shrink numbers that are wider than their cells, or hide them if they become illegible."""
        self.figure_.canvas.figure.draw_without_rendering()  # applies the layout
        cell = self.ax_.get_window_extent().width / columns
        widest = max(text.get_window_extent().width for text in self.texts_)
        size = self.texts_[0].get_size() * min(0.94 * cell / widest, 1)
        for text in self.texts_:
            text.set(size=size, visible=size >= _LEGIBLE)


def heterogeneity(result: Audit) -> Table:
    """Return the rate of each group minus that of its level sets, with standard error and interval.

    The standard error assumes independent labels, and accounts for the group being part of its level
    sets. The variance of a cell is that at Jeffreys' estimate of its rate, so that it is not 0 if all
    labels agree.
    """
    refuse_several_classes(result, "heterogeneity")
    regions = result.regions
    if "subgroup" not in regions.columns:
        raise OptionError(
            "heterogeneity needs subgroups, and this audit has none. Audit with subgroups=, such as a "
            "column of hospitals."
        )
    level_rate, inside = _level_rates(result)
    share, rate, n = regions["share"], regions["label_mean"], np.maximum(regions["n"], 1)
    smooth = (rate * n + 0.5) / (n + 1)
    variance = smooth * (1 - smooth) / n
    names = np.array(list(dict.fromkeys(regions["subgroup"].tolist())), object)
    difference, stderr = np.empty(len(names)), np.empty(len(names))
    for place, name in enumerate(names):
        own = regions["subgroup"] == name
        weight = np.where(own, share, 0) / share[own].sum()
        difference[place] = np.sum(weight * (rate - level_rate))
        # The rate of a level set is the mean over its cells, so the group's weight is subtracted there.
        by_level = np.bincount(inside, weight)[inside] * share / np.bincount(inside, share)[inside]
        stderr[place] = np.sqrt(np.sum((weight - by_level) ** 2 * variance))
    reach = float(ndtri((1 + result.confidence_level) / 2)) * stderr
    counts = [int(regions["n"][regions["subgroup"] == name].sum()) for name in names]
    return Table(
        {
            "subgroup": names,
            "n": np.array(counts),
            "difference": difference,
            "stderr": stderr,
            "low": difference - reach,
            "high": difference + reach,
        }
    )


def _level_rates(result: Audit) -> tuple[Floats, NDArray[np.int64]]:
    """Return the rate of each region's level set, and the index of that level set."""
    levels, known = result.regions["level_set"], result.level_sets["level_set"]
    order = np.argsort(known)
    inside = order[np.searchsorted(known[order], levels)]
    return result.level_sets["label_mean"][inside], inside


def _cell_text(table: Table, row: int) -> str:
    text = f"{table['difference'][row]:+z.3f}".replace("-", "−")  # the minus sign of tick labels
    return f"({text})" if table["low"][row] <= 0 <= table["high"][row] else text


def _readable(colour: Any) -> str:
    red, green, blue = np.asarray(colour)[:3]
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
