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
from epiloss.presentation.axes import histogram_within, reach_of
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
from epiloss.table import Table

_FILLED = 0.8  # of the width of a level set, by many regions
_SPANS = (1, 2, 7), (0, 0.3, _FILLED)  # regions, and the part of the width they take
_GREY = 0.35  # of the colour of text, for what may be noise
_FIGSIZE = (5.6, 5.4)


@dataclass
class GroupingDisplay:
    """A grouping diagram, in the manner of :class:`sklearn.calibration.CalibrationDisplay`.

    Everything that is drawn is kept.

    Attributes
    ----------
    audit : Audit
        The result that is shown, with the regions that are drawn.
    name : str or None
        The name of the model.
    x, rate, low, high, n : array
        Place, rate, interval and number of rows of each region of ``audit.regions``.
    side : array of int
        1 for under-predicted regions, -1 for over-predicted ones, 0 for what may be noise, by adjusted
        p-values.
    reach : float
        Where the axes end: 1, or less for rare outcomes.
    ax_, figure_, curve_, points_, bars_, diagonal_, legend_, histogram_ax_
        What :meth:`plot` has drawn.

    See Also
    --------
    Audit.plot : draws it.
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
        """Show a result that is there already, with its own regions or others.

        Parameters
        ----------
        result : Audit
            Of a binary or top-label task.
        name : str, optional
            The name of the model.
        partition : {"halves", "stump", "kmeans"} or Partitioner, optional
            "halves" divides each level set by what cross-fitted models predict beyond the score; others
            learn regions on one half of the rows and show them on the other. By default the audit's own.

        Returns
        -------
        GroupingDisplay
            Not drawn yet.
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
        """Audit labels, scores and features, and draw.

        Parameters
        ----------
        y_true, y_prob, X
            As in :func:`epiloss.audit`.
        name : str, optional
            The name of the model.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        partition : {"tree", "stump", "kmeans"}, Partitioner or estimator, optional
            Draws its regions; by default each level set is divided into halves by what cross-fitted
            models predict beyond the score.
        **options
            Options of :func:`epiloss.audit`.

        Returns
        -------
        GroupingDisplay
            Drawn.

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
        """Predict probabilities with a fitted classifier, audit them, and draw.

        Parameters
        ----------
        estimator : classifier
            Fitted on other rows.
        X, y : array-like
            Features and classes.
        name : str, optional
            The name of the model; by default that of its class.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            As in :meth:`from_predictions`.

        Returns
        -------
        GroupingDisplay
            Drawn.

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
        """Draw the calibration curve of the level sets, and their regions around it.

        The regions of a level set are side by side, the lowest rate first, each with the exact interval
        of its rate. Colours mark under- and over-predicted regions; grey ones may be noise, by p-values
        adjusted for the number of regions. Title, scores and legend are around the axes: give axes of
        ``pyplot.subplots(layout="constrained")``, which has room for them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        name : str, optional
            The name of the model.
        curve_kw, region_kw, bar_kw, histogram_kw, diagonal_kw : mapping, optional
            Keywords of the artists: the line, the points, the intervals, the scores on top, the
            diagonal.
        histogram, legend : bool
            Whether to draw them.

        Returns
        -------
        GroupingDisplay
            Itself, with the artists.

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
        (self.curve_,) = ax.plot(
            levels["score_mean"], levels["label_mean"], **merged(defaults, curve_kw)
        )
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
        """Draw what may be noise first, so that it covers nothing; then the smaller regions last."""
        ax, noise = self.ax_, self.side == 0
        order = np.lexsort((-self.n, ~noise))
        crowd = np.clip(30 / np.bincount(self.audit.regions["level_set"]).max(), 1, 6) / 6
        scale = text_size(ax) / 10
        area = (4 + 14 * crowd + 56 * crowd * self.n[order] / max(self.n.max(), 1)) * scale**2
        room = gaps(self.x, self.audit.regions["level_set"])[order] / self.reach * 72 * width_of(ax)
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
        """Return the colour of each region, with a ``grey`` for noise."""
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


def fanned(level_sets: Table, regions: Table, reach: float = 1.0) -> Floats:
    """Return a place for each region, beside the others of its level set and inside its width.

    Regions are in the order of their rates, equally far apart: two stand close to the level set's
    mean score, many fill most of the width.
    """
    low, high = widths(level_sets)
    high = np.maximum(np.minimum(high, reach), low)
    x = np.empty(len(regions))
    for place, level_set in enumerate(level_sets["level_set"]):
        inside = np.flatnonzero(regions["level_set"] == level_set)
        if not len(inside):
            continue
        width = high[place] - low[place]
        span = width * float(np.interp(len(inside), *_SPANS))
        margin = span / 2 + (1 - _FILLED) / 2 * width
        centre = np.clip(level_sets["score_mean"][place], low[place] + margin, high[place] - margin)
        ordered = inside[np.lexsort((regions["n"][inside], regions["label_mean"][inside]))]
        x[ordered] = centre + np.linspace(-span / 2, span / 2, len(inside))
    return x


def gaps(x: Floats, level_set: NDArray[Any]) -> Floats:
    """Return how far each region stands from the next of its level set; infinity for one alone.

    Examples
    --------
    >>> gaps(np.array([0.5, 0.25, 0.3, 0.8]), np.array([0, 0, 0, 1])).round(2).tolist()
    [0.2, 0.05, 0.05, inf]
    """
    order = np.lexsort((x, level_set))
    between = np.where(np.diff(level_set[order]) == 0, np.diff(x[order]), np.inf)
    gap = np.empty(len(x))
    gap[order] = np.minimum(np.append(np.inf, between), np.append(between, np.inf))
    return gap


def widths(level_sets: Table) -> tuple[Floats, Floats]:
    """Return where each level set begins and ends: its edges, or half-way to its neighbours."""
    if "low" in level_sets.columns:
        return level_sets["low"], level_sets["high"]
    middle = level_sets["score_mean"]
    order = np.argsort(middle, kind="stable")
    between = (middle[order][1:] + middle[order][:-1]) / 2
    if not len(between):
        return np.maximum(middle - 0.05, 0), np.minimum(middle + 0.05, 1)
    first = max(2 * middle[order][0] - between[0], 0.0)
    last = min(2 * middle[order][-1] - between[-1], 1.0)
    edges = np.concatenate([[first], between, [last]])
    low, high = np.empty(len(middle)), np.empty(len(middle))
    low[order], high[order] = edges[:-1], edges[1:]
    return low, high


def _view(partition: Any, options: Mapping[str, Any]) -> Any:
    """Return the regions to draw of an audit that was just made; None for its own."""
    if options.get("method") == "paper":
        return None
    if partition is None:
        return HALVES
    # the losses are those of all rows; swapped halves would each have their own two regions
    return STUMP if partition == STUMP else None
