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

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import blocks
from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.estimation.region_rows import INSIDE
from epiloss.estimation.region_stats import RegionStats
from epiloss.scoring import Brier, ScoringRule

_FEW = 60  # rows, of which two regions of 30 cannot be made


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

    @property
    def variance(self) -> float:
        """The variance that the rows show one by one."""
        return dot(self.contribution, self.contribution)

    def stderr(self, clusters: Codes | None = None) -> float:
        """Return the standard error; rows of one cluster may depend on each other.

        Examples
        --------
        >>> errors = Influence(np.array([0.1, -0.1, 0.1, -0.1]))
        >>> round(errors.stderr(), 3), round(errors.stderr(np.array([0, 1, 0, 1])), 3)
        (0.231, 0.4)
        """
        parts = self.by_cluster(clusters)
        n = len(parts.contribution)
        if n < 2:
            return float("nan")
        return float(np.sqrt(np.maximum(n / (n - 1) * parts.variance + self.beyond, self.least)))


@dataclass(frozen=True)
class RowTerms:
    """The losses of single rows, and their weights; rows are given by their number.

    ``curve_noise`` is half the difference of the calibration losses by either curve of the pair, and
    ``bin_noise`` the part of it that all rows of a level set have in common.
    """

    rows: Codes
    weight: Floats
    score: Floats
    calibration_loss: Floats
    grouping_loss: Floats
    curve_noise: Floats
    bin_noise: Floats

    def contribution(self, name: str, n_rows: int) -> Floats:
        """Return the weighted deviation of each row from the mean, zero for rows not evaluated."""
        values: Floats = getattr(self, name)
        total = self.weight.sum()
        mean = dot(self.weight, values) / total
        if not np.isfinite(mean):
            return np.full(n_rows, np.nan)  # an infinite loss has no standard error
        spread: Floats = kernel().spread_out(values, self.weight, self.rows, mean, total, n_rows)
        return spread


def joined_terms(parts: Sequence[RowTerms]) -> RowTerms:
    """Return the terms of several sets of rows together."""
    if len(parts) == 1:
        return parts[0]
    return RowTerms(*(np.concatenate(columns) for columns in zip(*map(_columns, parts), strict=True)))


def _columns(terms: RowTerms) -> tuple[NDArray[Any], ...]:
    return tuple(vars(terms).values())


def row_terms(
    rows: Codes,
    stats: RegionStats,
    level_set: Codes,
    cell: NDArray[np.integer],
    *,
    scores: Floats,
    labels: Floats,
    curves: tuple[Floats, Floats],
    weights: Floats | None,
    rule: ScoringRule,
) -> RowTerms:
    """Return what each evaluated row adds; ``stats`` are those of these rows, ``cell`` their places."""
    means = _LevelSetMeans(level_set, weights)
    lines = _Lines.fit(means, scores, labels)
    # a level set in one piece has no regions to compare, and rests on the curve alone
    whole = np.bincount(stats.level_set, minlength=means.n_level_sets) == 1
    # and where it is small, the curve owes little to its rows and nearly all to its neighbours
    borrowed = whole & (np.bincount(level_set) < _FEW)
    curve_mean = np.full(means.n_level_sets, np.nan)
    if whole.any():
        curve_mean[whole] = means.of((curves[0] + curves[1]) / 2)[whole]
    guesses = _Guesses(level_set, cell, scores, curves, lines, stats.mean("label"), curve_mean)
    loss, calibration, gain, noise = guesses.terms(labels, rule)
    if borrowed.any():
        gain = np.where(borrowed[level_set], means.of(gain)[level_set], gain)
    weight = np.ones(len(rows)) if weights is None else weights
    a, b = curves
    common = means.of(a - b)[level_set] * ((a + b) / 2 - labels)
    return RowTerms(rows, weight, loss, calibration, gain, noise, common)


def cell_of(stats: RegionStats, level_set: Codes, region: Codes) -> Codes:
    """Return the place of each row's cell among the cells, which are in order."""
    n_regions = int(max(stats.region.max(), region.max())) + 1
    cells, wanted = stats.level_set * n_regions + stats.region, level_set * n_regions + region
    if cells[-1] > 8 * len(wanted) + 1000:
        return np.searchsorted(cells, wanted)
    place = np.zeros(int(max(cells[-1], wanted.max(initial=0))) + 1, np.int64)  # a table is faster
    place[cells] = np.arange(len(cells))
    return np.asarray(place[wanted], np.int64)


class _LevelSetMeans:
    """Weighted means over the rows of each level set, zero where it has no weight."""

    def __init__(self, level_set: Codes, weights: Floats | None) -> None:
        self.level_set, self.weights = level_set, weights
        total = np.bincount(level_set, weights).astype(float)
        self.total = np.where(total == 0, 1.0, total)

    @property
    def n_level_sets(self) -> int:
        """The number of level sets, empty ones included."""
        return len(self.total)

    def of(self, values: Floats) -> Floats:
        """Return the means of one value a row."""
        weighted = values if self.weights is None else self.weights * values
        return np.asarray(np.bincount(self.level_set, weighted) / self.total, float)


@dataclass(frozen=True)
class _Lines:
    """The least-squares line of the labels on the scores in each level set."""

    x_mean: Floats
    y_mean: Floats
    slope: Floats

    @classmethod
    def fit(cls, means: _LevelSetMeans, x: Floats, y: Floats) -> _Lines:
        """Fit all lines."""
        rows = means.level_set, means.n_level_sets, x, y, means.weights
        centre = kernel().moments(*rows) / means.total
        spread, product = kernel().moments(*rows, centre) / means.total
        steep = spread > 1e-14
        slope = np.where(steep, product / np.where(steep, spread, 1.0), 0.0)
        return cls(centre[0], centre[1], slope)

    def at(self, x: Floats, level_set: Codes) -> Floats:
        """Return the line of each row's level set at its score."""
        line: Floats = self.y_mean[level_set] + self.slope[level_set] * (x - self.x_mean[level_set])
        return line


@dataclass(frozen=True)
class _Guesses:
    """What is known of each row's probability: by its score, the curves, a line and its region's rate.

    ``curve_mean`` is that of level sets in one piece, where it stands for the rate and the curve for
    the line; it is missing for others.
    """

    level_set: Codes
    cell: NDArray[np.integer]
    scores: Floats
    curves: tuple[Floats, Floats]
    lines: _Lines
    rates: Floats
    curve_mean: Floats

    def terms(self, labels: Floats, rule: ScoringRule) -> Floats:
        """Return what each row adds to the score, both losses and the noise of the curve."""
        if type(rule) is Brier:
            lines = np.array([self.lines.x_mean, self.lines.y_mean, self.lines.slope])
            rows = (
                self.level_set,
                self.cell.astype(np.int32, copy=False),
                self.scores,
                labels,
                self.curves,
            )
            terms: Floats | None = kernel().brier_terms(*rows, lines, self.rates, self.curve_mean)
            if terms is not None:
                return terms
        terms, whole = np.empty((4, len(labels))), ~np.isnan(self.curve_mean)
        within = 0.0 if rule.bounded else INSIDE
        for some in blocks(len(labels)):
            level, s, y = self.level_set[some], self.scores[some], labels[some]
            a, b = self.curves[0][some], self.curves[1][some]
            curve, line, rate = (a + b) / 2, self.lines.at(s, level), self.rates[self.cell[some]]
            if whole.any():
                line = np.where(whole[level], curve, line)
                rate = np.where(whole[level], self.curve_mean[level], rate)
            guesses = [np.clip(guess, within, 1 - within) for guess in (curve, line, rate, a, b)]
            of_curve, of_line, of_rate, of_a, of_b = (rule.loss(guess, y) for guess in guesses)
            of_score = rule.loss(s, y)
            terms[:, some] = of_score, of_score - of_curve, of_line - of_rate, (of_a - of_b) / 2
        return terms
