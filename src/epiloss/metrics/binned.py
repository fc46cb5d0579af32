"""Binned calibration errors: ECE with bins of equal width or mass, debiased ECE, largest error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import LevelSets
from epiloss.estimate import Estimate
from epiloss.estimation.inference import unified_interval
from epiloss.metrics.noise import DRAWS, Norm, chance_gaps, inverted_interval, noise_floor, with_interval
from epiloss.metrics.result import NoiseFloor
from epiloss.metrics.rows import ScoredRows


@dataclass(frozen=True)
class Bins:
    """Non-empty bins: their share of the weight, mean score, and gap between rate and mean score.

    ``squared`` estimates the squared gap without the bias of noise. ``variance`` is the variance of
    the gap, and ``by_chance`` its variance for a calibrated model. ``size`` is the number of
    independent labels.
    """

    share: Floats
    score: Floats
    gap: Floats
    squared: Floats
    variance: Floats
    by_chance: Floats
    size: Floats

    @classmethod
    def of(cls, rows: ScoredRows, level_sets: LevelSets) -> Bins:
        """Assign rows to bins; rows of one cluster in the same bin count as one."""
        bin_of = np.unique(level_sets.assign(rows.scores), return_inverse=True)[1]

        def summed(values: Floats) -> Floats:
            return np.bincount(bin_of, values).astype(float)

        share, residual = rows.share, rows.labels - rows.scores
        total, product = summed(share), summed(share * residual)
        spread = summed(share**2 * rows.scores * (1 - rows.scores)) / total**2 * rows.design_effect
        gap = product / total
        squared, variance = _pairs(bin_of, rows.clusters, share, share * residual, gap)
        return cls(
            share=total,
            score=summed(share * rows.scores) / total,
            gap=gap,
            squared=squared,
            # The empirical variance of a bin with a single row is 0.
            variance=np.maximum(variance, spread),
            by_chance=spread,
            size=total**2 / summed(share**2) / rows.design_effect,
        )

    @classmethod
    def joined(cls, classes: Sequence[Bins]) -> Bins:
        """Return the bins of several classes together; all classes have the same share."""
        columns = zip(*(vars(one).values() for one in classes), strict=True)
        bins = cls(*(np.concatenate(column) for column in columns))
        return Bins(**{**vars(bins), "share": bins.share / len(classes)})

    @property
    def mean_norm(self) -> Norm:
        """The weighted mean of absolute gaps."""
        return lambda gaps: np.abs(gaps) @ self.share


def _pairs(
    bin_of: Codes, clusters: Codes | None, weight: Floats, product: Floats, gap: Floats
) -> tuple[Floats, Floats]:
    """Return the squared gap from pairs of rows of different clusters, and the variance of the gap."""
    if clusters is not None:
        key = bin_of * (int(clusters.max()) + 1) + clusters
        first, part = np.unique(key, return_index=True, return_inverse=True)[1:]
        weight, product = (np.bincount(part, one).astype(float) for one in (weight, product))
        bin_of = bin_of[first]
    n = np.bincount(bin_of)
    total, squares = np.bincount(bin_of, weight), np.bincount(bin_of, weight**2)
    pairs = total**2 - squares
    products = np.bincount(bin_of, product) ** 2 - np.bincount(bin_of, product**2)
    several = pairs > 1e-12 * total**2
    squared = np.divide(products, pairs, out=np.zeros(len(n)), where=several)
    deviation = np.bincount(bin_of, (product - weight * gap[bin_of]) ** 2)
    return squared, deviation / total**2 * n / np.maximum(n - 1, 1)


def ece(bins: Bins, level: float, generator: np.random.Generator) -> tuple[Estimate, NoiseFloor]:
    """Return the expected calibration error: the weighted mean of abs(rate - mean score) over bins.

    Examples
    --------
    >>> from epiloss.calibration.level_sets import uniform_level_sets
    >>> s, y = np.array([0.1, 0.3, 0.6, 0.8]), np.array([0.0, 1.0, 1.0, 1.0])
    >>> bins = Bins.of(ScoredRows(s, y), uniform_level_sets(2))
    >>> round(ece(bins, 0.95, np.random.default_rng(0))[0].value, 3)
    0.3
    """
    return _with_noise(bins, bins.mean_norm, level, generator)


def largest_gap(bins: Bins, level: float, generator: np.random.Generator) -> tuple[Estimate, NoiseFloor]:
    """Return the largest absolute gap between rate and mean score of any bin."""
    return _with_noise(bins, lambda gaps: np.abs(gaps).max(axis=1), level, generator)


def _with_noise(
    bins: Bins, norm: Norm, level: float, generator: np.random.Generator
) -> tuple[Estimate, NoiseFloor]:
    floor = noise_floor(norm(chance_gaps(bins.score, bins.size, bins.by_chance, generator)))
    noise = np.sqrt(bins.variance) * generator.standard_normal((DRAWS, len(bins.gap)))
    ends = inverted_interval(norm, bins.gap, noise, level)
    value = float(norm(bins.gap[None])[0])
    if ends is not None:  # a gap between rates and probabilities is at most 1, noise is not
        ends = min(ends[0], 1.0), min(ends[1], 1.0)
    return with_interval(value, ends), floor


def debiased_ece(
    bins: Bins, level: float, generator: np.random.Generator
) -> tuple[Estimate, NoiseFloor]:
    """Return the root mean squared gap, estimated without the bias of noise (0 if negative).

    The squared gap of a bin is the mean product of the residuals ``y - s`` of two different rows, as
    in Kumar, Liang and Ma (2019), who use residuals from the bin's mean score.
    """
    share, squared = bins.share, bins.squared
    value = float(share @ squared)
    variance = 4 * np.maximum(squared, 0) * bins.variance + 2 * bins.variance**2
    stderr = float(np.sqrt(share**2 @ variance))
    gaps = chance_gaps(bins.score, bins.size, bins.by_chance, generator)
    floor = noise_floor(_root((gaps**2 - bins.by_chance) @ share))
    if stderr == 0:
        return Estimate(float(_root(value))), floor
    low, high = (stderr * end for end in unified_interval(value / stderr, level))
    return Estimate(float(_root(value)), None, float(_root(low)), float(_root(high))), floor


def _root(values: Floats | float) -> Floats:
    return np.sqrt(np.maximum(values, 0.0))
