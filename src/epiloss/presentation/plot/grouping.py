"""The grouping diagram: a reliability diagram that also shows the regions of each level set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._models import predicted_probabilities
from epiloss._typing import Floats
from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit
from epiloss.auditing.views import HALVES, STUMP, repartitioned
from epiloss.number_format import loss_spec
from epiloss.presentation.axes import histogram_within, joined, reach_of
from epiloss.presentation.plot.region_places import distances, fanned
from epiloss.presentation.plot.style import (
    axes_for,
    diagonal,
    dress,
    faded,
    legend_below,
    loss_text,
    merged,
    plain,
    refuse_several_classes,
    score_strip,
    side_colours,
    text_colour,
    text_size,
    width_of,
)

_GREY = 0.35  # strength of the text colour for regions within noise
_FIGSIZE = (5.6, 5.4)


@dataclass
class GroupingDisplay:
    """A grouping diagram, similar to :class:`sklearn.calibration.CalibrationDisplay`.

    Attributes
    ----------
    audit : Audit
        The audit, with the regions that are drawn.
    name : str or None
        Name of the model.
    x, rate, low, high, n : array
        Position, rate, interval and number of rows of each region of ``audit.regions``.
    side : array of int
        1 for under-predicted regions, -1 for over-predicted ones, 0 for regions within noise, by
        adjusted p-values.
    reach : float
        Upper end of both axes: 1, or less for rare outcomes.
    ax_, figure_, curve_, points_, bars_, diagonal_, legend_, histogram_ax_
        The artists of :meth:`plot`.

    See Also
    --------
    Audit.plot : draw the diagram of an audit.
    epiloss.presentation.plot.CurveDisplay : the calibration curve without bins.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(3_000)
    >>> display = GroupingDisplay.from_audit(audit(sample.y, sample.scores, sample.X))
    >>> display.audit.n_samples, len(display.x) == len(display.audit.regions)
    (3000, True)
    """

    audit: Audit
    name: str | None = None
    reach: float = field(init=False, repr=False)
    x: Floats = field(init=False, repr=False)
    rate: Floats = field(init=False, repr=False)
    low: Floats = field(init=False, repr=False)
    high: Floats = field(init=False, repr=False)
    n: NDArray[Any] = field(init=False, repr=False)
    side: NDArray[np.int64] = field(init=False, repr=False)
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    curve_: Any = field(default=None, init=False, repr=False)
    points_: Any = field(default=None, init=False, repr=False)
    bars_: Any = field(default=None, init=False, repr=False)
    diagonal_: Any = field(default=None, init=False, repr=False)
    legend_: Any = field(default=None, init=False, repr=False)
    histogram_ax_: Any = field(default=None, init=False, repr=False)
    _is_coloured: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        regions = self.audit.regions
        self.reach = reach_of(self.audit)
        self.x = fanned(self.audit.level_sets, regions, self.reach)
        self.rate, self.low, self.high = regions["label_mean"], regions["low"], regions["high"]
        self.n = regions["n"]
        differs = regions["pvalue_adjusted"] <= 1 - self.audit.confidence_level
        self.side = np.where(differs, np.sign(regions["deviation"]), 0).astype(np.int64)

    @classmethod
    def from_audit(
        cls, result: Audit, *, name: str | None = None, partition: Any = None
    ) -> GroupingDisplay:
        """Create a display from an audit, with its own regions or others.

        Parameters
        ----------
        result : Audit
            An audit of a binary or top-label task.
        name : str, optional
            Name of the model.
        partition : {"halves", "stump", "kmeans"} or Partitioner, optional
            "halves" splits each level set at the median of cross-fitted predictions. Other partitions
            learn regions on one half of the rows and show them on the other. By default, the regions of
            the audit are shown.

        Returns
        -------
        GroupingDisplay
            The display, not yet drawn.
        """
        refuse_several_classes(result, "a grouping diagram")
        return cls(result if partition is None else repartitioned(result, partition), name)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        X: Any = None,
        *,
        name: str | None = None,
        ax: Any = None,
        partition: Any = None,
        **options: Any,
    ) -> GroupingDisplay:
        """Audit labels, scores and features, and draw the diagram.

        Parameters
        ----------
        y_true, y_prob, X
            As in :func:`epiloss.audit`.
        name : str, optional
            Name of the model.
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        partition : {"tree", "stump", "kmeans"}, Partitioner or estimator, optional
            The partition whose regions are drawn. By default each level set is split at the median of
            cross-fitted predictions.
        **options
            Options of :func:`epiloss.audit`.

        Returns
        -------
        GroupingDisplay
            The display, drawn.

        Examples
        --------
        With matplotlib::

            GroupingDisplay.from_predictions(y_true, y_prob, X).figure_.savefig("diagram.png")
        """
        if partition is not None:
            options["partition"] = partition
        elif options.get("method") == "paper":
            options["partition"] = "stump"
        result = audit(y_true, y_prob, X, **options)
        return cls.from_audit(result, name=name, partition=_view(partition, options)).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> GroupingDisplay:
        """Predict probabilities with a fitted classifier, audit them, and draw the diagram.

        Parameters
        ----------
        estimator : classifier
            A classifier fitted on other rows.
        X, y : array-like
            Features and labels.
        name : str, optional
            Name of the model; by default that of its class.
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        **options
            As in :meth:`from_predictions`.

        Returns
        -------
        GroupingDisplay
            The display, drawn.

        Examples
        --------
        With matplotlib::

            GroupingDisplay.from_estimator(classifier, X_test, y_test)
        """
        scores, classes = predicted_probabilities(estimator, X)
        options.setdefault("classes", classes)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, scores, X, name=name, ax=ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        curve_kw: Mapping[str, Any] | None = None,
        region_kw: Mapping[str, Any] | None = None,
        bar_kw: Mapping[str, Any] | None = None,
        histogram_kw: Mapping[str, Any] | None = None,
        diagonal_kw: Mapping[str, Any] | None = None,
        histogram: bool = True,
        legend: bool = True,
    ) -> GroupingDisplay:
        """Draw the calibration curve of the level sets, with the regions of each level set around it.

        The regions of a level set are drawn side by side, ordered by rate, each with the exact interval
        of its rate. Colours mark under- and over-predicted regions; grey ones are within noise, by
        p-values adjusted for the number of regions. Title, histogram and legend are placed outside the
        axes: pass axes of ``pyplot.subplots(layout="constrained")`` to leave room for them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        name : str, optional
            Name of the model.
        curve_kw, region_kw, bar_kw, histogram_kw, diagonal_kw : mapping, optional
            Keyword arguments of the artists: the curve, the points, the intervals, the histogram of the
            scores, the diagonal.
        histogram, legend : bool
            Whether to draw them.

        Returns
        -------
        GroupingDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            GroupingDisplay.from_audit(result).plot(legend=False)
        """
        ax = axes_for(ax, _FIGSIZE)
        self.ax_, self.figure_ = ax, ax.figure
        self.name = self.name if name is None else name
        self.histogram_ax_ = self.legend_ = None
        dress(ax, self.audit.task, self.reach)
        self.diagonal_ = diagonal(ax, diagonal_kw)
        self._draw_regions(region_kw, bar_kw)
        levels = self.audit.level_sets
        defaults = {
            "color": text_colour(),
            "marker": "o",
            "markersize": 0.35 * text_size(ax),
            "markeredgewidth": 0,
            "linewidth": 1.1,
            "zorder": 4,
            "label": "level sets",
        }
        style = merged(defaults, curve_kw)
        score, rate, on_curve = levels["score_mean"], levels["label_mean"], joined(levels["n"])
        (self.curve_,) = ax.plot(score[on_curve], rate[on_curve], **style)
        if not on_curve.all():
            apart = {**style, "linestyle": "", "label": None}
            ax.plot(score[~on_curve], rate[~on_curve], **apart)
        if histogram:
            scores = histogram_within(self.audit, self.reach)
            self.histogram_ax_ = score_strip(ax, scores, histogram_kw)
        if legend:
            self.legend_ = self._draw_legend()
        self._write_title()
        return self

    def _draw_regions(
        self, region_kw: Mapping[str, Any] | None, bar_kw: Mapping[str, Any] | None
    ) -> None:
        """Draw regions within noise first and small regions last, so that nothing is covered."""
        ax, noise = self.ax_, self.side == 0
        order = np.lexsort((-self.n, ~noise))
        crowd = np.clip(30 / np.bincount(self.audit.regions["level_set"]).max(), 1, 6) / 6
        scale = text_size(ax) / 10
        area = (4 + 14 * crowd + 56 * crowd * self.n[order] / max(self.n.max(), 1)) * scale**2
        room = distances(self.x, self.audit.regions["level_set"])[order] / self.reach * 72 * width_of(ax)
        thickness = np.clip(0.7 * room, np.where(noise[order], 0.35, 0.8), 1.6) * scale
        given, own = merged({}, region_kw), merged({}, bar_kw)
        self._is_coloured = not {"color", "facecolor"} & given.keys()
        points = {"s": area, "linewidth": 0, "zorder": 3, "label": "regions"}
        bars = {"linewidth": thickness, "zorder": 2, "alpha": 0.9, "label": "intervals of the regions"}
        if self._is_coloured:
            points["color"] = self._colours(_GREY)[order]
            bars["color"] = self._colours(_GREY * (0.45 + 0.55 * crowd))[order]
        else:
            bars["color"] = given.get("color", given.get("facecolor"))
        self.points_ = ax.scatter(self.x[order], self.rate[order], **points | given)
        self.bars_ = ax.vlines(self.x[order], self.low[order], self.high[order], **bars)
        self.bars_.set(**own)

    def _colours(self, grey: float) -> NDArray[Any]:
        """Return the colour of each region; regions within noise are grey, with this strength."""
        from matplotlib import colors

        under, over = side_colours(self.ax_)
        of_side: dict[int, Any] = {0: faded(self.ax_, grey), 1: under, -1: over}
        return np.array([colors.to_rgba(of_side[side]) for side in self.side.tolist()])

    def _draw_legend(self) -> Any:
        from matplotlib.lines import Line2D

        def region(colour: Any, label: str) -> Any:
            size = 0.45 * text_size(self.ax_)
            return Line2D(
                [], [], color=colour, marker="o", markersize=size, markeredgewidth=0, lw=1, label=label
            )

        handles = [self.curve_, self.diagonal_]
        if not self._is_coloured:
            handles.append(region(self.points_.get_facecolor()[0], "regions"))
            return legend_below(self.ax_, handles)
        under, over = side_colours(self.ax_)
        kinds = (1, under, "under-predicted"), (-1, over, "over-predicted")
        handles += [region(colour, label) for side, colour, label in kinds if (self.side == side).any()]
        if (self.side == 0).any():
            handles.append(region(faded(self.ax_, _GREY), "within noise"))
        return legend_below(self.ax_, handles)

    def _write_title(self) -> None:
        result = self.audit
        at_least = "grouping loss ≥" if result.is_bound else "grouping loss"
        spec = loss_spec(result.score.value, least=4)
        lines = [
            loss_text("calibration loss", result.calibration_loss, spec),
            loss_text(at_least, result.grouping_loss, spec),
        ]
        if self.name is not None:
            lines.insert(0, plain(self.name))
        self.ax_.set_title("\n".join(lines), fontsize=text_size(self.ax_))


def _view(partition: Any, options: Mapping[str, Any]) -> Any:
    """Return the regions to draw for a new audit; None for those of the audit."""
    if options.get("method") == "paper":
        return None
    if partition is None:
        return HALVES
    # The regions of a stump are learned again, once: each swapped half of the audit has two of its own.
    return STUMP if partition == STUMP else None
