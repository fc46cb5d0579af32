"""The smooth calibration curve with its confidence band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.estimate import Estimate, percent
from epiloss.presentation.axes import histogram_within, reach_to
from epiloss.presentation.plot.style import (
    BLUE,
    SKY,
    axes_for,
    diagonal,
    dress,
    is_dark,
    is_narrow,
    legend_below,
    loss_text,
    merged,
    plain,
    score_strip,
    text_size,
)
from epiloss.table import Table

_FIGSIZE = (5.0, 5.4)


@dataclass
class CurveDisplay:
    """A calibration curve without bins.

    :meth:`plot` sets ``ax_``, ``figure_``, ``line_``, ``band_``, ``diagonal_``, ``legend_`` and
    ``histogram_ax_``.

    Attributes
    ----------
    curve : Table
        Score, rate, and the confidence band of the rate.
    histogram : Table
        The distribution of the scores.
    calibration_loss : Estimate
        The calibration loss of the curve.
    level : float
        Confidence level of the band.
    task, name : str
        The task of the audit, and the name of the model.

    See Also
    --------
    epiloss.GroupingDisplay : also shows the regions of each level set.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(2_000)
    >>> display = CurveDisplay.from_audit(epiloss.audit(sample.y, sample.scores))
    >>> list(display.curve)
    ['score', 'rate', 'low', 'high']
    """

    curve: Table
    histogram: Table
    calibration_loss: Estimate
    level: float = 0.95
    task: str = "binary"
    name: str | None = None
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    line_: Any = field(default=None, init=False, repr=False)
    band_: Any = field(default=None, init=False, repr=False)
    diagonal_: Any = field(default=None, init=False, repr=False)
    legend_: Any = field(default=None, init=False, repr=False)
    histogram_ax_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audit(
        cls, result: Audit, class_name: str | None = None, *, name: str | None = None
    ) -> CurveDisplay:
        """Fit the curve to the rows of an audit; with several classes, ``class_name`` selects one.

        Parameters
        ----------
        result : Audit
            An audit that kept its rows.
        class_name : str, optional
            The class to show, if there are several.
        name : str, optional
            Name of the model.

        Returns
        -------
        CurveDisplay
            The display, not yet drawn.
        """
        if result.details is None:
            raise OptionError(
                "the calibration curve needs the rows of the audit, which were not kept. Run the audit "
                "again."
            )
        curve = result.details.calibration_curve(class_name)
        reach = reach_to(max(curve["score"].max(), curve["rate"].max()))
        histogram, loss = histogram_within(result, reach, class_name), result.calibration_loss
        if class_name is not None and "class" in result.histogram.columns:
            levels = result.level_sets.take(np.flatnonzero(result.level_sets["class"] == class_name))
            # The interval is known only for the sum over all classes.
            loss = Estimate(float(levels["calibration_loss"] @ levels["share"]))
            name = f"class {class_name}" if name is None else name
        return cls(curve, histogram, loss, result.confidence_level, result.task, name)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        curve_kw: Mapping[str, Any] | None = None,
        band_kw: Mapping[str, Any] | None = None,
        histogram_kw: Mapping[str, Any] | None = None,
        diagonal_kw: Mapping[str, Any] | None = None,
        histogram: bool = True,
        legend: bool = True,
    ) -> CurveDisplay:
        """Draw the curve, its band, the diagonal, and the histogram of the scores.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        name : str, optional
            Name of the model.
        curve_kw, band_kw, histogram_kw, diagonal_kw : mapping, optional
            Keyword arguments of the artists.
        histogram, legend : bool
            Whether to draw them.

        Returns
        -------
        CurveDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            CurveDisplay.from_audit(result).plot()
        """
        ax = axes_for(ax, _FIGSIZE)
        self.ax_, self.figure_ = ax, ax.figure
        self.name = self.name if name is None else name
        self.histogram_ax_ = self.legend_ = None
        dress(ax, self.task, reach_to(max(self.curve["score"].max(), self.curve["rate"].max())))
        self.diagonal_ = diagonal(ax, diagonal_kw)
        colour = SKY if is_dark(ax) else BLUE
        score, rate = self.curve["score"], self.curve["rate"]
        band = {"color": colour, "alpha": 0.25, "linewidth": 0, "label": f"{percent(self.level)} band"}
        line = {"color": colour, "linewidth": 1.6, "label": "calibration curve"}
        self.band_ = ax.fill_between(
            score, self.curve["low"], self.curve["high"], **merged(band, band_kw)
        )
        (self.line_,) = ax.plot(score, rate, **merged(line, curve_kw))
        if histogram:
            self.histogram_ax_ = score_strip(ax, self.histogram, histogram_kw)
        if legend:
            handles = [self.line_, self.band_, self.diagonal_]
            self.legend_ = legend_below(ax, handles, columns=2 if is_narrow(ax) else 3)
        lines = [] if self.name is None else [plain(self.name)]
        lines.append(loss_text("calibration loss", self.calibration_loss))
        ax.set_title("\n".join(lines), fontsize=text_size(ax))
        return self
