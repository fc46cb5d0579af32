"""Which rows an estimate owes its value to: the influence of each row on the losses.

All losses are differences of mean scores: the calibration loss is that of ``S`` less that of the
calibrated ``C``, the grouping loss that of ``C`` less that of the region's rate. Each row's own
difference is its influence; errors of the fitted ``C`` and rates enter only squared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.levelsets import Codes
from epiloss.regions import RegionStats
from epiloss.scoring import Floats, ScoringRule

_FEW = 60  # rows, of which two regions of 30 cannot be made
_INSIDE = 1e-6  # fitted probabilities are kept so far from 0 and 1 where the score is not bounded


@dataclass(frozen=True)
class Influence:
    """What each row adds to the error of an estimate: contributions that sum to nothing.

    ``beyond`` is the variance that rows do not show one by one, negative where they show too much
    because the rates they are compared with are fitted. ``least`` is the variance of the squared
    noise of level sets, which is all there is where a loss is zero.
    """

    contribution: Floats
    beyond: float = 0.0
    least: float = 0.0

    def __add__(self, other: Influence) -> Influence:
        return self._with(self.contribution + other.contribution, other)

    def __sub__(self, other: Influence) -> Influence:
        return self._with(self.contribution - other.contribution, other)

    def _with(self, contribution: Floats, other: Influence) -> Influence:
        return Influence(contribution, self.beyond + other.beyond, self.least + other.least)

    def by_cluster(self, clusters: Codes | None) -> Influence:
        """Return the influence of whole clusters, whose rows may depend on each other."""
        if clusters is None:
            return self
        sums = np.bincount(clusters, self.contribution).astype(float)
        return replace(self, contribution=sums[np.bincount(clusters) > 0])

    def stderr(self, clusters: Codes | None = None) -> float:
        """Return the standard error; rows of one cluster may depend on each other.

        Examples
        --------
        >>> errors = Influence(np.array([0.1, -0.1, 0.1, -0.1]))
        >>> round(errors.stderr(), 3), round(errors.stderr(np.array([0, 1, 0, 1])), 3)
        (0.231, 0.4)
        """
        parts = self.by_cluster(clusters).contribution
        n = len(parts)
        if n < 2:
            return float("nan")
        return float(np.sqrt(np.maximum(n / (n - 1) * (parts @ parts) + self.beyond, self.least)))


@dataclass(frozen=True)
class RowTerms:
    """The losses of single rows, and their weights; rows are given by their number.

    ``curve_noise`` is half the difference of the calibration losses by either curve of the pair.
    """

    rows: Codes
    weight: Floats
    score: Floats
    calibration_loss: Floats
    grouping_loss: Floats
    curve_noise: Floats

    def contribution(self, name: str, n_rows: int) -> Floats:
        """Return the weighted deviation of each row from the mean, zero for rows not evaluated."""
        values: Floats = getattr(self, name)
        if not np.isfinite(values).all():
            return np.full(n_rows, np.nan)  # an infinite loss has no standard error
        total = self.weight.sum()
        spread = np.zeros(n_rows)
        spread[self.rows] = self.weight * (values - self.weight @ values / total) / total
        return spread


def joined_terms(parts: Sequence[RowTerms]) -> RowTerms:
    """Return the terms of several sets of rows together."""
    return RowTerms(*(np.concatenate(columns) for columns in zip(*map(_columns, parts), strict=True)))


def _columns(terms: RowTerms) -> tuple[NDArray[Any], ...]:
    return tuple(vars(terms).values())


def row_terms(
    rows: Codes,
    stats: RegionStats,
    level_set: Codes,
    region: Codes,
    *,
    scores: Floats,
    labels: Floats,
    curves: tuple[Floats, Floats],
    weights: Floats | None,
    rule: ScoringRule,
) -> RowTerms:
    """Return what each evaluated row adds; ``stats`` are those of these rows."""
    weight = np.ones(len(rows)) if weights is None else weights
    curve = (curves[0] + curves[1]) / 2
    # a level set in one piece has no regions to compare, and rests on the curve alone
    whole = (np.bincount(stats.level_set) == 1)[level_set]
    line = np.where(whole, curve, _lines(level_set, scores, labels, weight))
    region_rate = stats.mean("label")[cell_of(stats, level_set, region)]
    rate = np.where(whole, _means(level_set, curve, weight)[level_set], region_rate)
    within = 0.0 if rule.bounded else _INSIDE
    loss = rule.loss(scores, labels)

    def loss_of(guess: Floats) -> Floats:
        return rule.loss(np.clip(guess, within, 1 - within), labels)

    gain = loss_of(line) - loss_of(rate)
    # and where it is small, the curve owes little to its rows and nearly all to its neighbours
    borrowed = whole & (np.bincount(level_set) < _FEW)[level_set]
    return RowTerms(
        rows,
        weight,
        score=loss,
        calibration_loss=loss - loss_of(curve),
        grouping_loss=np.where(borrowed, _means(level_set, gain, weight)[level_set], gain),
        curve_noise=(loss_of(curves[0]) - loss_of(curves[1])) / 2,
    )


def cell_of(stats: RegionStats, level_set: Codes, region: Codes) -> Codes:
    """Return the place of each row's cell among the cells, which are in order."""
    n_regions = int(max(stats.region.max(), region.max())) + 1
    cells, wanted = stats.level_set * n_regions + stats.region, level_set * n_regions + region
    if cells[-1] > 8 * len(wanted) + 1000:
        return np.searchsorted(cells, wanted)
    place = np.zeros(int(max(cells[-1], wanted.max(initial=0))) + 1, np.int64)  # a table is faster
    place[cells] = np.arange(len(cells))
    return np.asarray(place[wanted], np.int64)


def _lines(level_set: Codes, x: Floats, y: Floats, weight: Floats) -> Floats:
    """Return the least-squares line of the labels on the scores, fitted inside each level set."""

    def mean(values: Floats) -> Floats:
        return _means(level_set, values, weight)[level_set]

    dx, dy = x - mean(x), y - mean(y)
    spread = mean(dx * dx)
    steep = spread > 1e-14
    slope = np.where(steep, mean(dx * dy) / np.where(steep, spread, 1.0), 0.0)
    return np.asarray(mean(y) + slope * dx, float)


def _means(level_set: Codes, values: Floats, weight: Floats) -> Floats:
    """Return the weighted mean of each level set, zero where it has no weight."""
    total = np.bincount(level_set, weight)
    sums = np.bincount(level_set, weight * values)
    return np.asarray(sums / np.where(total == 0, 1.0, total), float)
