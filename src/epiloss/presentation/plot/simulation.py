"""The paper's simulation figure: estimates of the grouping loss over a setting, and the truth."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from epiloss.errors import OptionError
from epiloss.presentation.plot.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    axes_for,
    faded,
    is_dark,
    legend_below,
    merged,
    plain,
    text_colour,
    text_size,
)
from epiloss.table import Table

# Columns of the experiment's file, and their names in the paper.
ESTIMATES = {"plugin": "plugin", "explained": "debiased", "lower_bound": "lower bound"}
_MARKERS = "osD^vP"
_FIGSIZE = (5.2, 4.2)


@dataclass
class SimulationDisplay:
    """Estimates over many samples whose true grouping loss is known.

    :meth:`plot` sets ``ax_``, ``figure_``, ``truth_``, ``legend_`` and, by name, ``lines_`` and
    ``bands_``.

    Attributes
    ----------
    table : Table
        For each estimate ``name`` and setting ``x``: the ``mean`` over samples, the ends ``low`` and
        ``high`` of its band, and the truth.
    x, truth : str
        Names of the columns with the setting and the truth.

    See Also
    --------
    epiloss.simulate.Sigmoid : a problem with a known truth.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> names = ("name", "region_ratio", "mean", "low", "high", "truth")
    >>> table = Table(dict(zip(names, np.ones((6, 2)), strict=True)))
    >>> SimulationDisplay(table).x
    'region_ratio'
    """

    table: Table
    x: str = "region_ratio"
    truth: str = "truth"
    lines_: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    bands_: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    truth_: Any = field(default=None, init=False, repr=False)
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    legend_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for column in (self.x, self.truth, "name", "mean", "low", "high"):
            if column not in self.table.columns:
                raise OptionError(
                    f"the table must have a column {column!r}, got {', '.join(self.table)}. "
                    "Pass the names of the setting as x= and of the truth as truth=."
                )

    @classmethod
    def from_csv(
        cls, path: str | Path, *, sweep: str = "region_ratio", swap: bool = False
    ) -> SimulationDisplay:
        """Read a file of ``experiments/simulation.py``; bands are one standard deviation wide.

        Parameters
        ----------
        path : str or Path
            The file to read.
        sweep : str
            The setting on the x axis.
        swap : bool
            Whether to show results in which both halves of the rows swap roles.

        Returns
        -------
        SimulationDisplay
            The display, not yet drawn.

        Examples
        --------
        With a file of ``experiments/simulation.py``::

            SimulationDisplay.from_csv("simulation.csv").plot()
        """
        with Path(path).open(newline="", encoding="utf-8") as stream:
            rows = [
                row
                for row in csv.DictReader(stream)
                if row["sweep"] == sweep and row["swap"] == str(swap)
            ]
        if not rows:
            raise OptionError(
                f"{path} must have rows with sweep {sweep!r} and swap {swap}, got none. Run "
                "experiments/simulation.py again."
            )
        names = [name for name in ESTIMATES for _ in rows]
        many = rows * len(ESTIMATES)
        mean = np.array([float(row[f"{name}_mean"]) for name, row in zip(names, many, strict=True)])
        sd = np.array([float(row[f"{name}_sd"]) for name, row in zip(names, many, strict=True)])
        columns = {
            sweep: np.array([float(row["value"]) for row in many]),
            "name": np.array([ESTIMATES[name] for name in names], object),
            "mean": mean,
            "low": mean - sd,
            "high": mean + sd,
            "truth": np.array([float(row["true_mean"]) for row in many]),
        }
        return cls(Table(columns), x=sweep)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: Mapping[str, Any] | None = None,
        band_kw: Mapping[str, Any] | None = None,
        truth_kw: Mapping[str, Any] | None = None,
        legend: bool = True,
    ) -> SimulationDisplay:
        """Draw a line with a band for each estimate, and the truth as a dashed line.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        line_kw, band_kw, truth_kw : mapping, optional
            Keyword arguments of the artists.
        legend : bool
            Whether to draw the legend.

        Returns
        -------
        SimulationDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            SimulationDisplay(table).plot()
        """
        ax = axes_for(ax, _FIGSIZE)
        self.ax_, self.figure_ = ax, ax.figure
        colours = [VERMILLION, SKY if is_dark(ax) else BLUE, GREEN, PURPLE, ORANGE]
        names = list(dict.fromkeys(self.table["name"].tolist()))
        for place, name in enumerate(names):
            rows = self._rows(name)
            x, colour = rows[self.x], colours[place % len(colours)]
            band = {"color": colour, "alpha": 0.18, "linewidth": 0}
            line = {
                "color": colour,
                "marker": _MARKERS[place % len(_MARKERS)],
                "markersize": 0.45 * text_size(ax),
                "linewidth": 1.4,
                "label": plain(name),
            }
            self.bands_[name] = ax.fill_between(x, rows["low"], rows["high"], **merged(band, band_kw))
            (self.lines_[name],) = ax.plot(x, rows["mean"], **merged(line, line_kw))
        self._draw_truth(names[0], truth_kw)
        self._dress(np.unique(self.table[self.x]))
        if legend:
            self.legend_ = legend_below(ax, [*self.lines_.values(), self.truth_])
        return self

    def _rows(self, name: str) -> Table:
        rows = np.flatnonzero(self.table["name"] == name)
        return self.table.take(rows[np.argsort(self.table[self.x][rows], kind="stable")])

    def _draw_truth(self, name: str, keywords: Mapping[str, Any] | None) -> None:
        rows = self._rows(name)
        line = {
            "color": text_colour(),
            "linestyle": "--",
            "linewidth": 1.2,
            "label": "truth",
            "zorder": 3,
        }
        (self.truth_,) = self.ax_.plot(rows[self.x], rows[self.truth], **merged(line, keywords))

    def _dress(self, values: Any) -> None:
        from matplotlib.ticker import NullLocator

        ax = self.ax_
        if values.min() > 0 and values.max() / values.min() >= 10:
            ax.set_xscale("log")
            ax.set_xticks(values, [f"{value:,g}" for value in values])
            ax.xaxis.set_minor_locator(NullLocator())
        ax.axhline(0, color=faded(ax, 0.4), linewidth=0.6, zorder=1)
        ax.set_xlabel(plain(self.x.replace("_", " ")), fontsize=text_size(ax))
        ax.set_ylabel("grouping loss", fontsize=text_size(ax))
        ax.tick_params(labelsize=text_size(ax, 0.9))
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
