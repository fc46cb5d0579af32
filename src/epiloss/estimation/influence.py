"""Influence of each row on the losses, from which standard errors are computed.

All losses are differences of mean scores. The calibration loss is the score of ``S`` minus that of the
calibrated score ``C``. The grouping loss is the score of ``C`` minus that of the region's rate. The
difference of a row, minus the mean, is its influence. Errors of the fitted ``C`` and rates only have
second-order effects.
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

_LEAST_OTHERS = 0.05  # minimum share of the weight of all other clusters
_FEW = 60  # number of rows below which a level set has no two regions of 30 rows


@dataclass(frozen=True)
class Influence:
    """The contribution of each row to the error of an estimate; contributions sum to 0.

    ``beyond`` is added to the variance of the contributions. It is negative if contributions vary too
    much because they are deviations from fitted rates. ``least`` is a lower limit of the variance: that
    of the squared noise of level sets, which remains if a loss is zero. ``model_noise`` is the variance
    that the noise of twin models adds to that of the contributions.
    """

    contribution: Floats
    beyond: float = 0.0
    least: float = 0.0
    model_noise: float = 0.0

    def __add__(self, other: Influence) -> Influence:
        return self._with(self.contribution + other.contribution, other)

    def __sub__(self, other: Influence) -> Influence:
        return self._with(self.contribution - other.contribution, other)

    def _with(self, contribution: Floats, other: Influence) -> Influence:
        sums = (
            getattr(self, name) + getattr(other, name) for name in ("beyond", "least", "model_noise")
        )
        return Influence(contribution, *sums)

    def by_cluster(self, clusters: Codes | None) -> Influence:
        """Return the influence of whole clusters, whose rows may be dependent."""
        if clusters is None:
            return self
        sums = np.bincount(clusters, self.contribution).astype(float)
        return replace(self, contribution=sums[np.bincount(clusters) > 0])

    def of_clusters(self, clusters: Codes | None, weights: Floats | None) -> Influence:
        """Return the influence of whole clusters, as a jackknife finds it by leaving one out.

        A cluster with a large share of the weight moves the mean towards itself. Clusters of equal
        weight keep their contributions.
        """
        if clusters is None:
            return self
        rows = np.bincount(clusters)
        share = np.bincount(clusters, weights)[rows > 0] / (
            len(clusters) if weights is None else weights.sum()
        )
        own, n = self.by_cluster(clusters), len(share)
        scale = (1 - 1 / n) / np.maximum(1 - share, _LEAST_OTHERS) if n > 1 else 1.0
        return replace(own, contribution=own.contribution * scale)

    @property
    def variance(self) -> float:
        """The variance of the estimate from the contributions alone."""
        return dot(self.contribution, self.contribution)

    @property
    def degrees_of_freedom(self) -> float | None:
        """The degrees of freedom of the variance, which few or unequal clusters determine badly.

        They are twice the squared mean of the variance over its own variance (Satterthwaite).
        """
        squares = self.contribution**2
        n, total = len(squares), float(squares.sum())
        if n < 2 or not 0 < total < np.inf:
            return None
        excess = n * float(squares @ squares) / total**2 - 1
        return float(np.clip(2 * n / max(excess, 2 / n), 1.0, n - 1))

    def stderr(self, clusters: Codes | None = None) -> float:
        """Return the standard error; rows of the same cluster may be dependent.

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
    """The losses of single rows, with their indices and weights.

    ``curve_noise`` is half the difference of the calibration losses by the two curves, and
    ``bin_noise`` the part of it that is common to all rows of a level set.
    """

    rows: Codes
    weight: Floats
    score: Floats
    calibration_loss: Floats
    grouping_loss: Floats
    curve_noise: Floats
    bin_noise: Floats

    def contribution(self, name: str, n_rows: int) -> Floats:
        """Return each row's weighted deviation from the mean; 0 for rows that were not evaluated."""
        values: Floats = getattr(self, name)
        total = self.weight.sum()
        mean = dot(self.weight, values) / total
        if not np.isfinite(mean):
            return np.full(n_rows, np.nan)  # an infinite loss has no standard error
        spread: Floats = kernel().spread_out(values, self.weight, self.rows, mean, total, n_rows)
        return spread


def joined_terms(parts: Sequence[RowTerms]) -> RowTerms:
    """Concatenate the terms of several sets of rows."""
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
    """Return the losses of evaluated rows; ``cell`` is the index of each row's cell in ``stats``."""
    means = _LevelSetMeans(level_set, weights)
    lines = _Lines.fit(means, scores, labels)
    # A level set with a single region has nothing to compare; its terms come from the curve alone.
    whole = np.bincount(stats.level_set, minlength=means.n_level_sets) == 1
    # If it is small as well, its curve is determined by neighbouring level sets.
    borrowed = whole & (np.bincount(level_set) < _FEW)
    curve_mean = np.full(means.n_level_sets, np.nan)
    if whole.any():
        curve_mean[whole] = means.of((curves[0] + curves[1]) / 2)[whole]
    predictions = _Predictions(level_set, cell, scores, curves, lines, stats.mean("label"), curve_mean)
    loss, calibration, gain, noise = predictions.terms(labels, rule)
    if borrowed.any():
        gain = np.where(borrowed[level_set], means.of(gain)[level_set], gain)
    weight = np.ones(len(rows)) if weights is None else weights
    a, b = curves
    common = means.of(a - b)[level_set] * ((a + b) / 2 - labels)
    return RowTerms(rows, weight, loss, calibration, gain, noise, common)


def cell_of(stats: RegionStats, level_set: Codes, region: Codes) -> Codes:
    """Return the index of each row's cell among the sorted cells of ``stats``."""
    n_regions = int(max(stats.region.max(), region.max())) + 1
    cells, wanted = stats.level_set * n_regions + stats.region, level_set * n_regions + region
    if cells[-1] > 8 * len(wanted) + 1000:
        return np.searchsorted(cells, wanted)
    # A lookup table is faster than a search.
    table = np.zeros(int(max(cells[-1], wanted.max(initial=0))) + 1, np.int64)
    table[cells] = np.arange(len(cells))
    return np.asarray(table[wanted], np.int64)


class _LevelSetMeans:
    """Weighted means over the rows of each level set; 0 for level sets without weight."""

    def __init__(self, level_set: Codes, weights: Floats | None) -> None:
        self.level_set, self.weights = level_set, weights
        total = np.bincount(level_set, weights).astype(float)
        self.total = np.where(total == 0, 1.0, total)

    @property
    def n_level_sets(self) -> int:
        """The number of level sets, empty ones included."""
        return len(self.total)

    def of(self, values: Floats) -> Floats:
        """Return the means of one value per row."""
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
class _Predictions:
    """Predictions of each row's probability: its score, two curves, a line and its region's rate.

    In a level set with a single region, ``curve_mean`` replaces the rate and the curve replaces the
    line. ``curve_mean`` is NaN for other level sets.
    """

    level_set: Codes
    cell: NDArray[np.integer]
    scores: Floats
    curves: tuple[Floats, Floats]
    lines: _Lines
    rates: Floats
    curve_mean: Floats

    def terms(self, labels: Floats, rule: ScoringRule) -> Floats:
        """Return each row's score, calibration loss, grouping loss and noise of the curve: (4, rows)."""
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
        margin = 0.0 if rule.bounded else INSIDE
        for some in blocks(len(labels)):
            level, s, y = self.level_set[some], self.scores[some], labels[some]
            a, b = self.curves[0][some], self.curves[1][some]
            curve, line, rate = (a + b) / 2, self.lines.at(s, level), self.rates[self.cell[some]]
            if whole.any():
                line = np.where(whole[level], curve, line)
                rate = np.where(whole[level], self.curve_mean[level], rate)
            inside = [np.clip(p, margin, 1 - margin) for p in (curve, line, rate, a, b)]
            of_curve, of_line, of_rate, of_a, of_b = (rule.loss(p, y) for p in inside)
            of_score = rule.loss(s, y)
            terms[:, some] = of_score, of_score - of_curve, of_line - of_rate, (of_a - of_b) / 2
        return terms
