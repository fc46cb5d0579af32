"""Gaps of segments or subgroups: their rates minus those of all rows with equal scores."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.auditing.ledger import EMPTY
from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.estimate import percent
from epiloss.presentation.plot.style import (
    axes_for,
    faded,
    is_narrow,
    legend_below,
    merged,
    plain,
    side_colours,
    text_colour,
    text_size,
)
from epiloss.segments.subgroups import GAP_COLUMNS

_GREY = 0.35  # strength of the text colour for gaps within noise
_WIDEST = 34  # characters per line of a name
_MOST_LINES = 3
_SIDES = {1: "under-predicted", -1: "over-predicted", 0: "within noise"}
_NARROW_LABEL = 24  # characters per line under narrow axes


@dataclass
class GapsDisplay:
    """Gaps with their intervals as bars, one for each segment or subgroup.

    :meth:`plot` sets ``ax_``, ``figure_``, ``bars_``, ``whiskers_`` and ``legend_``.

    Attributes
    ----------
    names : list of str
        The segments or subgroups.
    n, gap, low, high : array
        Number of rows, gap and interval in percentage points for each bar.
    side : array of int
        1 for under-predicted, -1 for over-predicted, 0 for gaps within noise.
    title : str
        The title of the plot.
    level : float
        Confidence level of the intervals.

    See Also
    --------
    epiloss.Audit.segments, epiloss.Audit.subgroup_gaps : the gaps as tables.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(3_000)
    >>> side = np.where(sample.X[:, 0] > sample.X[:, 1], "left", "right")
    >>> result = epiloss.audit(sample.y, sample.scores, subgroups={"side": side})
    >>> GapsDisplay.from_audit(result, subgroups="side").names
    ['left', 'right']
    """

    names: list[str]
    n: NDArray[np.int64]
    gap: Floats
    low: Floats
    high: Floats
    side: NDArray[np.int64]
    title: str
    level: float = 0.95
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    bars_: Any = field(default=None, init=False, repr=False)
    whiskers_: Any = field(default=None, init=False, repr=False)
    legend_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audit(cls, result: Audit, *, subgroups: str | Sequence[str] | None = None) -> GapsDisplay:
        """Create a display of the segments of an audit, or of the subgroups of a column.

        Parameters
        ----------
        result : Audit
            An audit that kept its rows.
        subgroups : str or sequence of str, optional
            A column of ``subgroups=``, or several columns, whose combinations are shown. By default,
            the segments are shown.

        Returns
        -------
        GapsDisplay
            The display, not yet drawn.
        """
        if subgroups is None:
            rows = [{**vars(one), "name": one.description} for one in result.segments]
            return cls._of(rows, "segments", result.confidence_level)
        columns = [subgroups] if isinstance(subgroups, str) else list(subgroups)
        tables = result.subgroup_gaps
        for column in columns:
            if column not in tables:
                known = f"Choose from {', '.join(map(repr, tables))}." if tables else "It had none."
                raise OptionError(
                    f"subgroups must be a column of the audit's subgroups, got {column!r}. {known}"
                )
        rows = [
            {**row, "name": row["subgroup"] or EMPTY, "pvalue": row["pvalue_adjusted"]}
            for row in result.subgroup_intersections(*columns).rows(*GAP_COLUMNS)
        ]
        return cls._of(rows, f"subgroups of {' and '.join(columns)}", result.confidence_level)

    @classmethod
    def _of(cls, rows: list[dict[str, Any]], title: str, level: float) -> GapsDisplay:
        def column(name: str) -> Floats:
            return np.array([float(row[name]) for row in rows])

        sure = column("pvalue") <= 1 - level
        side = np.where(sure, np.sign(column("gap")), 0).astype(np.int64)
        gap, low, high = (100 * column(name) for name in ("gap", "low", "high"))
        names = [str(row["name"]) for row in rows]
        return cls(names, column("n").astype(np.int64), gap, low, high, side, title, level)

    def plot(
        self,
        ax: Any = None,
        *,
        bar_kw: Mapping[str, Any] | None = None,
        whisker_kw: Mapping[str, Any] | None = None,
    ) -> GapsDisplay:
        """Draw a bar for each gap, the first at the top; gaps within noise are grey.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        bar_kw, whisker_kw : mapping, optional
            Keyword arguments of the artists.

        Returns
        -------
        GapsDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            GapsDisplay.from_audit(result).plot()
        """
        ax = axes_for(ax, (7.0, 1.4 + 0.55 * max(len(self.names), 1)))
        self.ax_, self.figure_ = ax, ax.figure
        place = np.arange(len(self.names))
        under, over = side_colours(ax)
        of_side: dict[int, Any] = {0: faded(ax, _GREY), 1: under, -1: over}
        colours = [of_side[side] for side in self.side.tolist()]
        self.bars_ = ax.barh(place, self.gap, **merged({"height": 0.55, "color": colours}, bar_kw))
        lines = {"color": text_colour(), "linewidth": 1.0}
        self.whiskers_ = ax.hlines(place, self.low, self.high, **merged(lines, whisker_kw))
        ax.axvline(0, color=text_colour(), linewidth=0.8)
        size = text_size(ax, 0.9)
        width = _WIDEST // 2 if is_narrow(ax) else _WIDEST
        labels = [_label(*one, width) for one in zip(self.names, self.n, strict=True)]
        ax.set_yticks(place, labels, fontsize=size)
        ax.set_ylim(len(place) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=size)
        label = f"gap in points (rate minus rate at equal scores), {percent(self.level)} interval"
        ax.set_xlabel(textwrap.fill(label, _NARROW_LABEL) if is_narrow(ax) else label, fontsize=size)
        for edge in ("top", "right", "left"):
            ax.spines[edge].set_visible(False)
        ax.set_title(plain(self.title), fontsize=text_size(ax))
        if self.names:
            self.legend_ = self._legend(of_side)
        else:
            ax.text(0.5, 0.5, "no gap found", ha="center", va="center", transform=ax.transAxes)
        return self

    def _legend(self, of_side: Mapping[int, Any]) -> Any:
        """Say what the colours mean that are drawn."""
        from matplotlib.patches import Patch

        drawn = [one for one in _SIDES if (self.side == one).any()]
        patches = [Patch(color=of_side[one], label=_SIDES[one]) for one in drawn]
        narrow = is_narrow(self.ax_)
        return legend_below(self.ax_, patches, columns=1 if narrow else 3, gap=4.6 if narrow else 2.6)


def _label(name: str, n: int, width: int) -> str:
    lines = textwrap.wrap(f"{name} ({n:,}\N{NO-BREAK SPACE}rows)", width) or [""]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"{lines[_MOST_LINES - 1]} …"]
    return plain("\n".join(lines))
