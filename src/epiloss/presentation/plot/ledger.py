"""The ledger as stacked bars: the parts of the score, as given and recalibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss.auditing.ledger import RULES
from epiloss.auditing.result import Audit
from epiloss.estimate import Estimate
from epiloss.number_format import loss_spec
from epiloss.presentation.plot.style import (
    COLOURS,
    SKY,
    axes_for,
    faded,
    is_dark,
    loss_axes,
    merged,
    text_colour,
    text_size,
    width_of,
)
from epiloss.table import Table

PARTS = ("calibration_loss", "grouping_loss", "remainder")
_LINE = 1.0  # the height of a line of text, in units of the y axis
_BAR = 1.5
_BETWEEN = 0.9
_INCHES = 0.2  # of a line of text
_SMALL = 0.3  # parts below this fraction of the score are also drawn enlarged
_ENLARGED = 0.64  # fraction of the width at which the enlarged bars begin
_LEAST_INCHES = 3.6  # width of the axes below which they would begin inside the text


@dataclass
class LedgerDisplay:
    """The parts of a score as a stacked bar; a negative part has no width.

    :meth:`plot` sets ``ax_``, ``figure_``, ``enlarged_axes_`` and, in the order of the table, ``bars_``,
    ``whiskers_`` (None without an interval) and ``labels_``.

    Attributes
    ----------
    audit : Audit
        The audit to show.
    table : Table
        For each part, as given and recalibrated: ``value``, ``low`` and ``high``, and the ``left`` end
        and ``width`` of its bar.

    See Also
    --------
    epiloss.presentation.plot.ComparisonDisplay : several models.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(2_000)
    >>> display = LedgerDisplay.from_audit(epiloss.audit(sample.y, sample.scores, sample.X))
    >>> display.table["part"].tolist()
    ['calibration_loss', 'grouping_loss', 'remainder']
    """

    audit: Audit
    table: Table = field(init=False, repr=False)
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    bars_: list[Any] = field(default_factory=list, init=False, repr=False)
    whiskers_: list[Any] = field(default_factory=list, init=False, repr=False)
    labels_: list[Any] = field(default_factory=list, init=False, repr=False)
    enlarged_axes_: list[Any] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        rows = []
        for name, one in self._versions():
            left = 0.0
            for part in PARTS:
                estimate: Estimate = getattr(one, part)
                width = max(estimate.value, 0.0)
                rows.append((name, part, estimate.value, estimate.low, estimate.high, left, width))
                left += width
        columns = list(zip(*rows, strict=True))
        names = ("version", "part", "value", "low", "high", "left", "width")
        kinds = (object, object, float, float, float, float, float)
        self.table = Table(
            {name: np.array(c, kind) for name, c, kind in zip(names, columns, kinds, strict=True)}
        )

    @classmethod
    def from_audit(cls, result: Audit) -> LedgerDisplay:
        """Create a display of the ledger of an audit.

        Parameters
        ----------
        result : Audit
            The audit to show.

        Returns
        -------
        LedgerDisplay
            The display, not yet drawn.
        """
        return cls(result)

    def plot(
        self,
        ax: Any = None,
        *,
        bar_kw: Mapping[str, Any] | None = None,
        whisker_kw: Mapping[str, Any] | None = None,
    ) -> LedgerDisplay:
        """Draw stacked bars, as given and recalibrated, with a line of text for each part below.

        If calibration and grouping loss are a small part of the score, they are also drawn enlarged
        beside their lines, unless the axes are narrow.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        bar_kw, whisker_kw : mapping, optional
            Keyword arguments of the artists.

        Returns
        -------
        LedgerDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            LedgerDisplay(result).plot()
        """
        versions = self._versions()
        band = _BAR + (1 + len(PARTS)) * _LINE + _BETWEEN
        ax = axes_for(ax, (6.4, 0.7 + _INCHES * band * len(versions)))
        self.ax_, self.figure_ = ax, ax.figure
        self.bars_, self.whiskers_, self.labels_, self.enlarged_axes_ = [], [], [], []
        is_small = self._is_small() and width_of(ax) >= _LEAST_INCHES
        spec = loss_spec(*(one.score.value for _, one in versions), least=4)
        for place, (name, one) in enumerate(versions):
            top, rows = -place * band, range(place * len(PARTS), (place + 1) * len(PARTS))
            self._write(top - _LINE / 2, None, f"score {one.score:{spec}}, {name}", bold=True)
            bottom = top - _LINE - _BAR
            lines = [bottom - (row + 0.65) * _LINE for row in range(len(PARTS))]
            inset = self._enlarged(lines) if is_small else None
            for row, y in zip(rows, lines, strict=True):
                part = PARTS[row % len(PARTS)]
                text = f"{self._title(part)} {getattr(one, part):{spec}}"
                self.labels_.append(self._write(y, self._colour(part), text))
                self._draw_bar(row, bottom, bar_kw)
                if inset is None or part == "remainder":
                    # One above the other, so that the whiskers of thin parts do not overlap.
                    y = bottom + _BAR * (1 - (row % len(PARTS) + 0.5) / len(PARTS))
                    self._draw_whisker(ax, row, self.table["left"][row], y, whisker_kw)
                else:
                    inset.barh(y, self.table["value"][row], 0.55, color=self._colour(part))
                    self._draw_whisker(inset, row, 0.0, y, whisker_kw)
        self._dress(-band * len(versions) + _BETWEEN - 0.4)
        return self

    def _dress(self, bottom: float) -> None:
        ax = self.ax_
        ax.set_ylim(bottom, 0.2)
        ax.set_xlim(0, 1.03 * float(self._reach(PARTS)[1]))
        ax.set_yticks([])
        ax.grid(False)
        loss_axes(ax, RULES.get(self.audit.rule, self.audit.rule))

    def _is_small(self) -> bool:
        return bool(self._reach(PARTS[:2])[1] < _SMALL * self._reach(PARTS)[1])

    def _reach(self, parts: Sequence[str]) -> tuple[float, float]:
        """Return the lowest and highest end of some stacked parts and their intervals."""
        here = np.isin(self.table["part"], parts)
        left, value = self.table["left"][here], self.table["value"][here]
        low, high = self.table["low"][here], self.table["high"][here]
        return float(np.fmin(value, low).min()), float((left + np.fmax(value, high)).max())

    def _enlarged(self, lines: Sequence[float]) -> Any:
        """Return axes with their own scale beside the first two lines of text."""
        ax = self.ax_
        low, high = lines[1] - 0.5 * _LINE, lines[0] + 0.5 * _LINE
        inset = ax.inset_axes(
            [_ENLARGED, low, 1 - _ENLARGED, high - low], transform=ax.get_yaxis_transform()
        )
        inset.set_ylim(low, high)
        here = np.isin(self.table["part"], PARTS[:2])
        ends = np.concatenate([self.table[name][here] for name in ("value", "low", "high")])
        least, most = min(np.nanmin(ends), 0.0), max(np.nanmax(ends), 1e-12)
        room = 0.04 * (most - least)
        inset.set_xlim(least - room * (least < 0), most + room)
        inset.set_facecolor("none")
        inset.set_yticks([])
        inset.grid(False)
        loss_axes(inset, "")
        inset.locator_params(axis="x", nbins=4)
        inset.axvline(0, color=faded(ax, 0.7), linewidth=0.8)
        inset.tick_params(axis="x", labelsize=text_size(ax, 0.75), length=2, pad=1.5)
        inset.set_ylabel("enlarged", fontsize=text_size(ax, 0.75), labelpad=3, color=faded(ax, 0.7))
        self.enlarged_axes_.append(inset)
        return inset

    def _versions(self) -> list[tuple[str, Audit]]:
        again = self.audit.recalibrated
        return [("as given", self.audit), *([] if again is None else [("recalibrated", again)])]

    def _title(self, part: str) -> str:
        exact = part != "grouping_loss" or not self.audit.is_bound
        return part.replace("_", " ") + ("" if exact else ", at least")

    def _colour(self, part: str) -> Any:
        if part == "remainder":
            return faded(self.ax_, 0.22)
        return SKY if is_dark(self.ax_) and part == "grouping_loss" else COLOURS[part]

    def _draw_bar(self, row: int, bottom: float, keywords: Mapping[str, Any] | None) -> None:
        table = self.table
        bar = {"color": self._colour(str(table["part"][row])), "linewidth": 0, "zorder": 2}
        drawn = self.ax_.barh(
            bottom + _BAR / 2,
            table["width"][row],
            _BAR,
            left=table["left"][row],
            **merged(bar, keywords),
        )
        self.bars_.append(drawn[0])

    def _draw_whisker(
        self, ax: Any, row: int, left: float, y: float, keywords: Mapping[str, Any] | None
    ) -> None:
        low, high = self.table["low"][row], self.table["high"][row]
        if np.isnan(low) or np.isnan(high):
            self.whiskers_.append(None)
            return
        whisker = {
            "color": text_colour(),
            "linewidth": 0.9,
            "marker": "|",
            "markersize": 4,
            "markeredgewidth": 0.9,
            "zorder": 4,
        }
        (line,) = ax.plot([left + low, left + high], [y, y], clip_on=False, **merged(whisker, keywords))
        self.whiskers_.append(line)

    def _write(self, y: float, colour: Any, text: str, *, bold: bool = False) -> Any:
        """Write a line of text at the left edge, after a patch with the colour of its bar."""
        ax, size = self.ax_, text_size(self.ax_, 0.9)
        at = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
        if colour is not None:
            ax.annotate("■", (0, y), (0, 0), color=colour, fontsize=size, **at)
        weight = "bold" if bold else "normal"
        indent = 0 if colour is None else 1.3 * size
        return ax.annotate(
            text, (0, y), (indent, 0), color=text_colour(), fontsize=size, weight=weight, **at
        )
