"""The grouping diagram as SVG: the calibration curve of the level sets, with their regions around it.

All regions with the same appearance are one path, whose points are strokes of length 0 with round ends.
So thousands of regions are drawn quickly, without a script and in print. The script finds the nearest
region by its index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.auditing.judgement import is_there
from epiloss.auditing.result import Audit
from epiloss.auditing.views import HALVES, difference_of_halves, has_predictions, repartitioned
from epiloss.presentation.axes import histogram_within, joined, reach_of
from epiloss.presentation.report.wording import is_blind, p_text
from epiloss.table import Table

MOST_REGIONS = 2_000  # regions that are drawn, the costliest
MOST_CLASSES = 30  # classes to choose from, those with the largest grouping loss
_MOST_EVALUATED = 5_000_000  # rows times classes up to which halves of level sets are computed
_STATES = ("in", "under", "over")  # within noise, under-predicted, over-predicted
_SIZES = (2.0, 2.7, 3.5, 4.5, 5.8)  # radii, by the logarithm of n
_CROWD = 250  # with more regions, points are smaller
_LONG_LABELS = 28  # additional room for long tick labels
_SIGNIFICANT_RADIUS = 3.0  # the smallest radius of a region that differs


@dataclass(frozen=True)
class Frame:
    """Positions in units of the view box."""

    width: float = 640
    height: float = 604
    left: float = 54
    right: float = 628
    top: float = 82
    bottom: float = 548
    histogram_top: float = 12
    histogram_bottom: float = 70
    reach: float = 1.0

    def x(self, score: Any) -> Any:
        """Return the x position of a score."""
        return self.left + (self.right - self.left) * np.minimum(score / self.reach, 1.0)

    def y(self, rate: Any) -> Any:
        """Return the y position of a rate."""
        return self.bottom - (self.bottom - self.top) * np.minimum(rate / self.reach, 1.0)

    def reaching(self, reach: float) -> Frame:
        """Return the frame for scores and rates up to ``reach``; larger ones are drawn at its edge."""
        if reach == 1:
            return self
        left, right = self.left + _LONG_LABELS, self.right - _LONG_LABELS / 2
        return replace(self, reach=reach, left=left, right=right)


FRAME = Frame()


@dataclass(frozen=True)
class Layer:
    """All regions with the same appearance, as one path."""

    state: str
    kind: str  # points or bars
    path: Markup  # contains only numbers
    width: float


@dataclass(frozen=True)
class Panel:
    """One diagram: the regions of one class in one view, and their positions."""

    audit: Audit  # its details hold the rows of the regions
    view: str
    class_name: str | None
    regions: Table  # the regions drawn, with their ``place`` in the audit's table
    levels: Table
    histogram: Table
    n_left_out: int
    x: Floats
    state: NDArray[np.int64]
    size: NDArray[np.int64]
    sizes: tuple[float, ...]
    frame: Frame

    @property
    def n(self) -> int:
        """The number of regions drawn."""
        return len(self.regions)

    @property
    def y(self) -> Floats:
        """The y position of each region's rate."""
        return np.asarray(self.frame.y(self.regions["label_mean"]), float)

    def ticks(self) -> list[tuple[float, float, str, bool]]:
        """Return positions and labels of the ticks, and whether small screens omit them."""
        values = self.frame.reach * np.arange(6) / 5
        x, y = _rounded(self.frame.x(values)), _rounded(self.frame.y(values))
        labels = [f"{value:g}" for value in values]
        return list(zip(x, y, labels, [i % 5 != 0 for i in range(6)], strict=True))

    def layers(self) -> Iterator[Layer]:
        """Return the paths; significant regions come last, so that they are on top."""
        low, high = self.frame.y(self.regions["low"]), self.frame.y(self.regions["high"])
        for code, state in enumerate(_STATES):
            here = np.flatnonzero(self.state == code)
            if len(here):
                bars = (f"M{self.x[i]:.1f} {low[i]:.1f}V{high[i]:.1f}" for i in here)
                yield Layer(state, "bars", Markup("".join(bars)), 1.0)
        for code, state in enumerate(_STATES):
            for size, radius in enumerate(self.sizes):
                here = np.flatnonzero((self.state == code) & (self.size == size))
                if len(here):
                    points = (f"M{self.x[i]:.1f} {self.y[i]:.1f}h0" for i in here)
                    least = _SIGNIFICANT_RADIUS if code else 0.0
                    yield Layer(state, "points", Markup("".join(points)), 2 * max(radius, least))

    def curve(self) -> list[tuple[float, float]]:
        """Return the positions of the level sets that the curve joins, from left to right."""
        return self.level_points(joined(self.levels["n"]))

    def level_points(self, drawn: Any = slice(None)) -> list[tuple[float, float]]:
        """Return the positions of level sets, from left to right."""
        score, rate = self.levels["score_mean"][drawn], self.levels["label_mean"][drawn]
        order = np.argsort(score, kind="stable")
        return list(
            zip(_rounded(self.frame.x(score[order])), _rounded(self.frame.y(rate[order])), strict=True)
        )

    def bars(self) -> Markup:
        """Return the histogram of the scores as a path."""
        n = self.histogram["n"]
        most = float(n.max(initial=0.0))
        if most <= 0:
            return Markup("")
        tall = self.frame.histogram_bottom - self.frame.histogram_top
        height = np.where(n > 0, np.maximum(tall * n / most, 1.0), 0.0)
        left = self.frame.x(self.histogram["low"]) + 0.5
        wide = (self.frame.right - self.frame.left) / max(len(n), 1) - 1
        parts = (
            f"M{a:.1f} {self.frame.histogram_bottom:g}v{-h:.1f}h{wide:.1f}v{h:.1f}z"
            for a, h in zip(left, height, strict=True)
            if h > 0
        )
        return Markup("".join(parts))

    def size_legend(self) -> list[tuple[float, int]]:
        """Return some radii in increasing order, with the number of rows that each represents."""
        legend, sizes = [], np.unique(self.size)
        for size in np.unique(sizes[[0, len(sizes) // 2, -1]]) if len(sizes) else sizes:
            here = self.regions["n"][self.size == size]
            legend.append((self.sizes[size], int(np.median(here))))
        return legend

    def together(self) -> str:
        """Say what all level sets show together, which no single one may show; "" if that is unknown."""
        difference = difference_of_halves(placed(self.audit, self.class_name))
        if self.view != HALVES or math.isnan(difference):
            return ""
        points = f"{100 * abs(difference):.1f} points {'higher' if difference > 0 else 'lower'} than"
        rate = "about the same rate as" if points.startswith("0.0 ") else f"a rate {points}"
        text = (
            f"Over all level sets, rows of the upper halves have {rate} rows of the lower halves with "
            "equal scores."
        )
        loss = self.audit.grouping_loss
        if self.state.any() or self.class_name or loss.pvalue is None or not is_there(loss):
            return text
        evidence = p_text(loss.pvalue)
        return f"{text} No single level set shows the grouping loss, but together they do ({evidence})."

    def counts(self) -> dict[str, int]:
        """Return the number of regions in each state."""
        return {state: int(np.sum(self.state == code)) for code, state in enumerate(_STATES)}


def views(audit: Audit) -> list[tuple[str, Audit]]:
    """Return the audit with halves of level sets, if there are predictions, and with its own regions.

    The first one is shown initially.
    """
    own = [("all", audit)]
    details = audit.details
    if is_blind(audit) or details is None or not has_predictions(audit):
        return own
    if len(details.problem.labels) * len(details.evaluations) > _MOST_EVALUATED:
        return own
    return [(HALVES, repartitioned(audit, HALVES)), *own]


def classes(audit: Audit) -> list[str | None]:
    """Return the classes to choose from, in order; a single None if there is one score."""
    column = audit.level_sets.columns.get("class")
    if column is None:
        return [None]
    names = list(dict.fromkeys(map(str, column)))
    loss = dict.fromkeys(names, 0.0)
    share = audit.level_sets["share"] * audit.level_sets["grouping_loss"]
    for name, part in zip(column, share, strict=True):
        loss[str(name)] += float(part)
    kept = set(sorted(names, key=lambda name: -loss[name])[:MOST_CLASSES])
    return [name for name in names if name in kept]


def panels(shown: Sequence[tuple[str, Audit]], names: list[str | None]) -> list[Panel]:
    """Return a diagram for each view and class; those of one view share their axes."""
    most = MOST_REGIONS // len(names)
    return [panel(audit, view, name, most) for view, audit in shown for name in names]


def panel(audit: Audit, view: str, name: str | None, most: int) -> Panel:
    """Lay out the costliest regions of one class, sorted by rate within each level set."""
    frame = FRAME.reaching(reach_of(audit))
    levels, histogram = _of_class(audit.level_sets, name), histogram_within(audit, frame.reach, name)
    regions = placed(audit, name)
    costliest = np.argsort(-regions["cost"], kind="stable")[:most]
    # The regions go from left to right, in the order of the arrow keys.
    drawn = regions.take(np.sort(costliest))
    drawn = drawn.take(np.lexsort((drawn["label_mean"], drawn["level_set"])))
    if "low" not in levels.columns:  # level sets of score vectors are ordered by mean score
        drawn = drawn.take(np.lexsort((drawn["label_mean"], _centre(drawn, levels))))
    differs = drawn["pvalue_adjusted"] <= 1 - audit.confidence_level
    state = np.where(differs, np.where(drawn["deviation"] > 0, 1, 2), 0)
    blind = is_blind(audit)
    x = frame.x(_centre(drawn, levels) if blind else _fanned(drawn, levels, frame.reach))
    crowd = 0.72 if len(drawn) > _CROWD else 1.0
    if view == HALVES or blind:
        crowd = 1.3
    return Panel(
        audit,
        view,
        name,
        drawn,
        levels,
        histogram,
        len(regions) - len(drawn),
        np.asarray(x, float),
        np.zeros_like(state) if blind else state,
        _size_class(drawn["n"]),
        tuple(crowd * radius for radius in _SIZES),
        frame,
    )


def placed(audit: Audit, name: str | None = None) -> Table:
    """Return the regions of a class with their position in the audit's table."""
    regions = audit.regions
    return _of_class(Table({**regions.columns, "place": np.arange(len(regions))}), name)


def _of_class(table: Table, name: str | None) -> Table:
    if name is None or "class" not in table.columns:
        return table
    return table.take(np.flatnonzero(table["class"].astype(str) == name))


def _size_class(n: NDArray[Any]) -> NDArray[np.int64]:
    """Return the size class of each number of rows, in equal steps of its logarithm."""
    log = np.log(np.maximum(n, 1).astype(float))
    low, high = log.min(initial=np.inf), log.max(initial=-np.inf)
    if not high > low:
        return np.full(len(n), 2, np.int64)
    place = (log - low) / (high - low) * len(_SIZES)
    return np.asarray(np.minimum(place, len(_SIZES) - 1), np.int64)


def _fanned(regions: Table, levels: Table, reach: float) -> Floats:
    """Return the x positions of regions as scores: spread over their level set, ordered by rate."""
    level_set = regions["level_set"]
    _, first, place = np.unique(level_set, return_index=True, return_inverse=True)
    size = np.bincount(place, minlength=len(first))
    rank = np.empty(len(level_set))
    order = np.lexsort((regions["label_mean"], place))
    rank[order] = np.arange(len(order)) - np.concatenate([[0], np.cumsum(size)[:-1]])[place[order]]
    share = 0.08 + 0.84 * (rank + 0.5) / size[place]
    if "low" in levels.columns:
        low, high = _looked_up(regions, levels, "low"), _looked_up(regions, levels, "high")
    else:
        centre = _centre(regions, levels)
        low, high = np.maximum(centre - 0.03 * reach, 0.0), np.minimum(centre + 0.03 * reach, 1.0)
    high = np.maximum(np.minimum(high, reach), low)
    return np.asarray(low + share * (high - low), float)


def _centre(regions: Table, levels: Table) -> Floats:
    return _looked_up(regions, levels, "score_mean")


def _looked_up(regions: Table, levels: Table, column: str) -> Floats:
    """Return a column of the level sets for each region; its mean score if the level set is absent."""
    known = dict(zip(levels["level_set"].tolist(), levels[column].tolist(), strict=True))
    own = zip(regions["level_set"].tolist(), regions["score_mean"].tolist(), strict=True)
    return np.array([known.get(level_set, score) for level_set, score in own], float)


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 1) for value in values]
