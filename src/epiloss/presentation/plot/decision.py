"""The decision curve: the net benefit of acting on the scores, on all rows, and on none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss._threads import limited_threads
from epiloss._typing import Floats
from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit
from epiloss.estimate import percent
from epiloss.metrics.decision_curve import decision_curve
from epiloss.metrics.rows import ScoredRows
from epiloss.presentation.plot.style import (
    BLUE,
    ORANGE,
    SKY,
    axes_for,
    faded,
    is_dark,
    is_narrow,
    legend_below,
    merged,
    plain,
    text_size,
)
from epiloss.repair.excess_risk import predicted_unseen, single_score
from epiloss.table import Table

_FIGSIZE = (5.4, 4.6)
_LEARNED = "learned"
_ROOM = 0.06  # margin below 0 and above the largest benefit, as a fraction of the latter


@dataclass
class DecisionCurveDisplay:
    """The net benefit of acting on the scores for a range of thresholds.

    :meth:`plot` sets ``ax_``, ``figure_``, ``lines_`` by name, ``band_`` and ``legend_``.

    Attributes
    ----------
    curve : Table
        ``threshold``, and the net benefits ``treat_all``, ``score`` and, if there are features,
        ``learned``: that of cross-fitted predictions from features and score. The last two have an
        interval, ``_low`` and ``_high``.
    level : float
        Confidence level of the intervals.
    name : str or None
        Name of the model.

    See Also
    --------
    epiloss.regret : the cost of decisions per row.

    References
    ----------
    Vickers and Elkin, "Decision curve analysis: a novel method for evaluating prediction models",
    Medical Decision Making 26, 2006.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(1_000)
    >>> display = DecisionCurveDisplay.from_predictions(sample.y, sample.scores, thresholds=[0.2, 0.5])
    >>> list(display.curve)
    ['threshold', 'treat_all', 'score', 'score_low', 'score_high']
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> "learned" in DecisionCurveDisplay.from_audit(result).curve
    True
    """

    curve: Table
    level: float = 0.95
    name: str | None = None
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)
    lines_: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    band_: Any = field(default=None, init=False, repr=False)
    legend_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audit(
        cls,
        result: Audit,
        *,
        thresholds: Sequence[float] | Floats | None = None,
        learned: bool = True,
        name: str | None = None,
    ) -> DecisionCurveDisplay:
        """Compute the decision curve of an audit.

        Parameters
        ----------
        result : Audit
            An audit of a binary or top-label task that kept its rows.
        thresholds : sequence of float, optional
            By default 0.01 to 0.99.
        learned : bool
            Whether to add predictions learned from features and score by five-fold cross-fitting, if
            there are features.
        name : str, optional
            Name of the model.

        Returns
        -------
        DecisionCurveDisplay
            The display, not yet drawn.
        """
        problem = single_score(result, "the decision curve")
        assert result.details is not None  # checked by the_score_of
        rows = ScoredRows(problem.scores, problem.labels, problem.weights, problem.clusters)
        others = {}
        if learned and not (problem.features is None and problem.groups is None):
            with limited_threads(openmp=True):
                others[_LEARNED] = predicted_unseen(problem, result.details.options.seed)
        level = result.confidence_level
        return cls(decision_curve(rows, others, thresholds=thresholds, level=level), level, name)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        X: Any = None,
        *,
        thresholds: Sequence[float] | Floats | None = None,
        name: str | None = None,
        **options: Any,
    ) -> DecisionCurveDisplay:
        """Compute the decision curve of labels and scores and, with features, of learned predictions.

        Parameters
        ----------
        y_true, y_prob, X
            As in :func:`epiloss.audit`.
        thresholds : sequence of float, optional
            By default 0.01 to 0.99.
        name : str, optional
            Name of the model.
        **options
            Options of :func:`epiloss.audit`.

        Returns
        -------
        DecisionCurveDisplay
            The display, not yet drawn.
        """
        result = audit(y_true, y_prob, X, **{"method": "partition", **options})
        return cls.from_audit(result, thresholds=thresholds, name=name)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        curve_kw: Mapping[str, Any] | None = None,
        band_kw: Mapping[str, Any] | None = None,
        legend: bool = True,
    ) -> DecisionCurveDisplay:
        """Draw the net benefit of the scores with its band, of learned predictions, of all and none.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        name : str, optional
            Name of the model.
        curve_kw, band_kw : mapping, optional
            Keyword arguments of the line of the scores, and of its band.
        legend : bool
            Whether to draw the legend.

        Returns
        -------
        DecisionCurveDisplay
            The display itself, with its artists.

        Examples
        --------
        With matplotlib::

            DecisionCurveDisplay.from_audit(result).plot()
        """
        ax = axes_for(ax, _FIGSIZE)
        self.ax_, self.figure_, self.legend_ = ax, ax.figure, None
        self.name = self.name if name is None else name
        at, grey = self.curve["threshold"], faded(ax, 0.55)
        blue = SKY if is_dark(ax) else BLUE
        band = {"color": blue, "alpha": 0.2, "linewidth": 0, "label": f"{percent(self.level)} band"}
        ends = self.curve["score_low"], self.curve["score_high"]
        self.band_ = ax.fill_between(at, *ends, **merged(band, band_kw))
        styles: dict[str, dict[str, Any]] = {
            "none": {"color": grey, "linewidth": 1, "label": "treat none"},
            "treat_all": {"color": grey, "linewidth": 1, "linestyle": "--", "label": "treat all"},
            "score": merged({"color": blue, "linewidth": 1.8, "label": "treat by score"}, curve_kw),
        }
        if _LEARNED in self.curve.columns:
            learned = "treat by score and features (learned)"
            styles[_LEARNED] = {"color": ORANGE, "linewidth": 1.6, "linestyle": "-.", "label": learned}
        self.lines_ = {}
        for key, style in styles.items():
            values = np.zeros(len(at)) if key == "none" else self.curve[key]
            (self.lines_[key],) = ax.plot(at, values, **style)
        self._dress(ax)
        if legend:
            self.legend_ = legend_below(ax, columns=1 if is_narrow(ax) else 2)
        return self

    def _dress(self, ax: Any) -> None:
        """Label the axes, and cut off large negative benefits, at which nobody would act."""
        at, high = self.curve["threshold"], self.curve["score_high"]
        top = max(float(high.max()), float(self.curve["treat_all"].max()), 1e-6)
        ax.set(xlim=(min(0.0, float(at.min())), float(at.max())), ylim=(-_ROOM * top, (1 + _ROOM) * top))
        ax.set_xlabel("decision threshold", fontsize=text_size(ax))
        ax.set_ylabel("net benefit (true positives per row)", fontsize=text_size(ax))
        ax.tick_params(labelsize=text_size(ax, 0.9))
        title = "decision curve" if self.name is None else f"{plain(self.name)}\ndecision curve"
        ax.set_title(title, fontsize=text_size(ax))
