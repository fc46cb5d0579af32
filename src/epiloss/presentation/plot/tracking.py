"""A model over time: its score, and the evidence for a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss.analysis.tracking_result import LOSSES, POPULATION, Tracking
from epiloss.errors import OptionError
from epiloss.presentation.plot.style import (
    faded,
    matplotlib_modules,
    merged,
    side_colours,
    text_colour,
    text_size,
)
from epiloss.presentation.smoothing import MANY, WINDOW, running_mean

_MOST_TICKS = 6


@dataclass
class TrackingDisplay:
    """Two panels over time: the score of each batch with the expected one, and the evidence.

    :meth:`plot` sets ``axes_``, ``figure_``, ``score_``, ``expected_`` and ``evidence_``.

    Attributes
    ----------
    tracking : Tracking
        The result to show.

    See Also
    --------
    epiloss.Tracking.plot : draw a result.

    Examples
    --------
    >>> import epiloss, numpy as np
    >>> one, two = (epiloss.simulate.Sigmoid().sample(2_000, random_state=i) for i in range(2))
    >>> days = np.arange(2_000) // 100
    >>> result = epiloss.track((one.y, one.scores, one.X), (two.y, two.scores, two.X), days)
    >>> TrackingDisplay(result).tracking is result
    True
    """

    tracking: Tracking
    axes_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    score_: Any = field(default=None, init=False, repr=False)
    expected_: Any = field(default=None, init=False, repr=False)
    evidence_: Any = field(default=None, init=False, repr=False)

    def plot(
        self,
        axes: Any = None,
        *,
        score_kw: Mapping[str, Any] | None = None,
        expected_kw: Mapping[str, Any] | None = None,
        evidence_kw: Mapping[str, Any] | None = None,
    ) -> TrackingDisplay:
        """Draw the score over time, and below it the evidence for a change with the alarm threshold.

        Parameters
        ----------
        axes : two matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        score_kw, expected_kw, evidence_kw : mapping, optional
            Keyword arguments of the lines.

        Returns
        -------
        TrackingDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            TrackingDisplay(result).plot()
        """
        pyplot = matplotlib_modules()
        if axes is None:
            _, axes = pyplot.subplots(2, 1, figsize=(8.0, 5.6), sharex=True, layout="constrained")
        axes = np.ravel(axes)
        if len(axes) != 2:
            raise OptionError(
                f"axes must be two, for the score and the evidence, got {len(axes)}. Pass those of "
                "pyplot.subplots(2, 1)."
            )
        self.axes_, self.figure_ = axes, axes[0].figure
        self._draw_score(axes[0], score_kw, expected_kw)
        self._draw_evidence(axes[1], evidence_kw)
        for ax in axes:
            for edge in ("top", "right"):
                ax.spines[edge].set_visible(False)
            ax.tick_params(labelsize=text_size(ax, 0.9))
        names = [str(one) for one in self.tracking.periods["period"]]
        shown = np.unique(np.linspace(0, len(names) - 1, min(len(names), _MOST_TICKS)).astype(int))
        axes[1].set_xticks(shown, [names[k] for k in shown])
        return self

    def _draw_score(
        self, ax: Any, score_kw: Mapping[str, Any] | None, expected_kw: Mapping[str, Any] | None
    ) -> None:
        periods, reference = self.tracking.periods, self.tracking.reference["score"]
        at, under = np.arange(len(periods)), side_colours(ax)[0]
        many = len(periods) > MANY
        line = {"color": text_colour(), "linewidth": 1.4, "label": "score"}
        if many:
            ax.plot(at, periods["score"], color=faded(ax, 0.3), linewidth=0.8)
            line["label"] = f"score, mean of {WINDOW} batches"
        smooth = running_mean(periods["score"], periods["n"]) if many else periods["score"]
        expected = periods["expected_score"]
        expected = running_mean(expected, periods["n"]) if many else expected
        dashed = {"color": under, "linewidth": 1.4, "linestyle": "--", "label": "expected"}
        (self.score_,) = ax.plot(at, smooth, **merged(line, score_kw))
        (self.expected_,) = ax.plot(at, expected, **merged(dashed, expected_kw))
        ax.axhline(reference, color=faded(ax, 0.5), linewidth=0.8, linestyle=":", label="reference")
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.15 * (high - low))  # room for the legend
        ax.set_ylabel("score", fontsize=text_size(ax))
        ax.legend(frameon=False, fontsize=text_size(ax, 0.9), ncols=3, loc="upper left")

    def _draw_evidence(self, ax: Any, keywords: Mapping[str, Any] | None) -> None:
        under, over = side_colours(ax)
        titles = {LOSSES: ("outcomes", over), POPULATION: ("population", under)}
        self.evidence_ = []
        for kind, (title, colour) in titles.items():
            values = self.tracking.periods[f"evidence_{kind}"]
            line = {"color": colour, "linewidth": 1.6, "label": title}
            self.evidence_ += ax.plot(np.arange(len(values)), values, **merged(line, keywords))
        limit = self.tracking.limit
        ax.axhline(limit, color=text_colour(), linewidth=1.0, linestyle="--", label="alarm threshold")
        high = max(float(np.max(line.get_ydata())) for line in self.evidence_)
        ax.set_ylim(min(-0.5, -0.05 * high), max(1.2 * limit, 1.1 * high))
        ax.set_ylabel("evidence (powers of ten)", fontsize=text_size(ax))
        ax.legend(frameon=False, fontsize=text_size(ax, 0.9), ncols=3, loc="upper left")
