"""Several models side by side: bars of the losses, before and after recalibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss._typing import Floats
from epiloss.analysis.comparison import Comparison, compared
from epiloss.auditing.differences import loss_title
from epiloss.auditing.ledger import RULES
from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.number_format import loss_spec
from epiloss.presentation.plot.style import (
    COLOURS,
    SKY,
    axes_for,
    faded,
    is_dark,
    is_narrow,
    legend_below,
    loss_axes,
    merged,
    text_colour,
    text_size,
    whisker_lengths,
    wrapped,
)

_THICK = 0.13  # inches per bar
_BETWEEN = 0.16  # inches between models
_AROUND = 1.35  # inches for axis, legend and title
_AGAIN = "_recalibrated"


@dataclass
class ComparisonDisplay:
    """The losses of several models as bars, with the best score at the top.

    :meth:`plot` sets ``ax_``, ``figure_``, ``legend_``, and ``bars_`` with the keys of ``y``.

    Attributes
    ----------
    comparison : Comparison
        The comparison to show.
    y : dict of str to array
        The positions of the bars for each column of ``comparison.table`` that is drawn.

    See Also
    --------
    epiloss.Comparison.plot : draw a comparison.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(1_000)
    >>> models = {"scores": sample.scores, "truth": sample.q}
    >>> ComparisonDisplay(epiloss.compare(sample.y, models)).comparison.baseline in models
    True
    """

    comparison: Comparison
    y: dict[str, Floats] = field(default_factory=dict, init=False, repr=False)
    bars_: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    legend_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audit(cls, *results: Audit, names: Sequence[str] = ()) -> ComparisonDisplay:
        """Show one audit, or several of the same rows.

        Parameters
        ----------
        *results : Audit
            The results that are shown.
        names : sequence of str, optional
            Names of the models; by default "model 1" and so on.

        Returns
        -------
        ComparisonDisplay
            The display, not yet drawn.

        Examples
        --------
        With matplotlib::

            ComparisonDisplay.from_audit(old, new, names=["old", "new"]).plot()
        """
        called = list(names) or [f"model {k + 1}" for k in range(len(results))]
        if not results or len(set(called)) != len(results):
            raise OptionError(
                f"names must be distinct and one for each audit, got {called} for {len(results)} "
                "audits. Leave them out to number the models."
            )
        return cls(compared(dict(zip(called, results, strict=True))))

    def plot(
        self,
        ax: Any = None,
        *,
        losses: Sequence[str] = ("calibration_loss", "grouping_loss"),
        recalibrated: bool = True,
        scores: bool = True,
        bar_kw: Mapping[str, Any] | None = None,
        whisker_kw: Mapping[str, Any] | None = None,
        legend: bool = True,
    ) -> ComparisonDisplay:
        """Draw a bar for each model and loss, hatched for the recalibrated scores.

        The height of a new figure grows with the number of models.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        losses : sequence of str
            The losses to draw.
        recalibrated, scores, legend : bool
            Whether to draw the losses after recalibration, the scores at the right (if there is room)
            and the legend.
        bar_kw, whisker_kw : mapping, optional
            Keyword arguments of the artists.

        Returns
        -------
        ComparisonDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            ComparisonDisplay(comparison).plot(losses=["grouping_loss"])
        """
        table = self.comparison.table
        after = recalibrated and f"{losses[0]}{_AGAIN}" in table.columns
        shown = [loss + end for loss in losses for end in (("", _AGAIN) if after else ("",))]
        height = _AROUND + len(table) * (_THICK * len(shown) + _BETWEEN)
        ax = axes_for(ax, (6.4, height))
        self.ax_, self.figure_ = ax, ax.figure
        thick = _THICK / (_THICK * len(shown) + _BETWEEN)
        middle = np.arange(len(table), dtype=float)
        for place, column in enumerate(shown):
            self.y[column] = middle + (place - (len(shown) - 1) / 2) * thick
            self.bars_[column] = self._bars(column, 0.9 * thick, bar_kw, whisker_kw)
        ax.axvline(0, color=faded(ax, 0.7), linewidth=0.8, zorder=3)
        ax.set_ylim(len(table) - 0.5, -0.5)
        small = 0.85 if len(table) > 12 else 0.95
        names = [wrapped(str(name), 16 if is_narrow(ax) else 26) for name in table["name"]]
        ax.set_yticks(middle, names, fontsize=text_size(ax, small))
        loss_axes(ax, f"loss ({_unit(self.comparison)})")
        if scores and not is_narrow(ax):
            self._write_scores(text_size(ax, small), after)
        if legend:
            self.legend_ = legend_below(ax, list(self.bars_.values()), columns=1 if is_narrow(ax) else 2)
        return self

    def _bars(
        self,
        column: str,
        thick: float,
        bar_kw: Mapping[str, Any] | None,
        whisker_kw: Mapping[str, Any] | None,
    ) -> Any:
        table, ax = self.comparison.table, self.ax_
        loss, again = column.removesuffix(_AGAIN), column.endswith(_AGAIN)
        colour = COLOURS.get(loss, faded(ax, 0.5))
        colour = SKY if is_dark(ax) and loss == "grouping_loss" else colour
        defaults: dict[str, Any] = {"color": colour, "linewidth": 0, "zorder": 2}
        if again:
            defaults = {
                "facecolor": (*_rgb(colour), 0.3),
                "edgecolor": colour,
                "hatch": "//////",
                "linewidth": 0.6,
                "zorder": 2,
            }
        name = loss_title(loss, next(iter(self.comparison.audits.values())))
        defaults["label"] = f"{name} (recalibrated)" if again else name
        bars = ax.barh(self.y[column], table[column], thick, **merged(defaults, bar_kw))
        end = _AGAIN if again else ""
        lengths = whisker_lengths(table[column], table[f"{loss}_low{end}"], table[f"{loss}_high{end}"])
        if lengths is not None:
            whiskers = {"ecolor": text_colour(), "elinewidth": 0.8, "capsize": 1.5, "capthick": 0.8}
            bars.errorbar = ax.errorbar(
                table[column],
                self.y[column],
                xerr=lengths,
                fmt="none",
                zorder=4,
                **merged(whiskers, whisker_kw),
            )
        return bars

    def _write_scores(self, size: float, after: bool) -> None:
        table, ax = self.comparison.table, self.ax_
        spec = loss_spec(*table["score"].tolist(), least=4)
        for place in range(len(table)):
            text = f"{table['score'][place]:{spec}}"
            if after:
                text += f" → {table[f'score{_AGAIN}'][place]:{spec}}"
            _beside(ax, place, text, size, va="center")
        _beside(ax, -0.5, "score", size, va="bottom")


def _beside(ax: Any, y: float, text: str, size: float, va: str) -> None:
    ax.annotate(
        text,
        (1, y),
        (6, 0),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        va=va,
        fontsize=size,
        color=text_colour(),
        annotation_clip=False,
    )


def _unit(comparison: Comparison) -> str:
    rule = next(iter(comparison.audits.values())).rule
    return RULES.get(rule, rule)


def _rgb(colour: Any) -> tuple[float, float, float]:
    from matplotlib import colors

    red, green, blue = colors.to_rgb(colour)
    return red, green, blue
