"""Corrections by region: trees inside level sets, each region's rate shrunk towards its level set.

Regions and rates are learned on different rows, in turns, so that no region was selected for its large
rate. The true variance of the rates, ``tau^2``, is estimated as their variance minus the noise, and a
rate ``r`` with noise ``v`` is shrunk to ``r tau^2 / (tau^2 + v)`` (empirical Bayes). Small regions, and
all regions if there is nothing to find, are hardly corrected. Between the centres of two level sets, the
trees of both are interpolated, so that the correction is continuous in the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epiloss._threads import Workers
from epiloss._typing import Codes, Floats
from epiloss.estimation.region_rows import cluster_weight
from epiloss.input.features import Features
from epiloss.partition.base import LearningRows
from epiloss.partition.forest import Forest, grow
from epiloss.repair.base import moved
from epiloss.scoring import Brier

_ROWS_PER_LEVEL_SET = 300
_MOST_LEVEL_SETS = 15


@dataclass(frozen=True)
class RegionalCorrection:
    """Forests with a tree for each level set, and the offset of each node.

    ``centres`` are the mean probabilities of the level sets, in ascending order.
    """

    centres: Floats
    forests: Sequence[Forest]
    offsets: Sequence[Floats]

    def corrected(self, features: Features, base: Floats) -> Floats:
        """Return the probabilities with the offsets of their regions."""
        return moved(base, self.offset(features, base))

    def offset(self, features: Features, base: Floats) -> Floats:
        """Return the mean offset over forests, interpolated between level sets."""
        below, above, nearness = self._neighbours(base)
        total = np.zeros(len(base))
        with Workers(None) as workers:
            for forest, added in zip(self.forests, self.offsets, strict=True):
                for tree, share in ((below, 1 - nearness), (above, nearness)):
                    total += share * added[forest.leaf_nodes(features, tree, workers)]
        return total / max(len(self.forests), 1)

    def _neighbours(self, base: Floats) -> tuple[Codes, Codes, Floats]:
        """Return the level sets whose centres lie below and above, and the weight of the second."""
        if len(self.centres) == 1:
            only = np.zeros(len(base), np.int64)
            return only, only, np.zeros(len(base))
        below = np.clip(np.searchsorted(self.centres, base) - 1, 0, len(self.centres) - 2)
        step = self.centres[below + 1] - self.centres[below]
        return below, below + 1, np.clip((base - self.centres[below]) / step, 0, 1)


@dataclass(frozen=True)
class _Rates:
    """The level set, weight, residual sum and variance of that sum of each node."""

    tree: Codes
    weight: Floats
    residual: Floats
    variance: Floats

    def excess(self, n_level_sets: int) -> tuple[Floats, Floats]:
        """Return, for each level set, the weighted sum of ``r^2 - v`` over regions and the weight."""
        weight = np.where(self.weight > 0, self.weight, 1.0)
        square = (self.residual**2 - self.variance) / weight
        above, total = (
            np.bincount(self.tree, part, n_level_sets).astype(float) for part in (square, self.weight)
        )
        return above, total

    def shrunk(self, spread: Floats) -> Floats:
        """Return the shrunk rate of each node; 0 for nodes without rows."""
        weight = np.where(self.weight > 0, self.weight, 1.0)
        tau, noise = spread[self.tree], self.variance / weight**2
        share = tau / np.where(tau + noise > 0, tau + noise, 1.0)
        return np.where(self.weight > 0, share * self.residual / weight, 0.0)


def fit_regions(
    features: Features,
    base: Floats,
    labels: Floats,
    weights: Floats | None,
    *,
    region_ratio: float,
    repeats: int,
    generator: np.random.Generator,
    n_jobs: int | None,
    clusters: Codes | None = None,
) -> RegionalCorrection:
    """Fit a correction of the probabilities ``base``; clusters are not split."""
    level_set, centres = _level_sets(base)
    weight = np.ones(len(base)) if weights is None else weights
    forests, rates = [], []
    with Workers(n_jobs) as workers:
        for learn, measure in _halves(len(base), clusters, repeats, generator):
            learning = LearningRows(
                features.take(learn),
                labels[learn],
                level_set[learn],
                len(centres),
                None if weights is None else weights[learn],
                Brier(),
            )
            forest = grow(learning, int(np.ceil(region_ratio)), workers)
            leaves = forest.leaf_nodes(features.take(measure), level_set[measure], workers)
            w, p = weight[measure], base[measure]
            of_unit = w
            if clusters is not None:
                of_unit = cluster_weight(leaves.astype(np.int64), clusters[measure], w)
            n = len(forest.nodes)
            forests.append(forest)
            rates.append(
                _Rates(
                    forest.tree,
                    np.bincount(leaves, w, n).astype(float),
                    np.bincount(leaves, w * (labels[measure] - p), n).astype(float),
                    np.bincount(leaves, w * of_unit * p * (1 - p), n).astype(float),
                )
            )
    noise = np.bincount(level_set, weight * base * (1 - base)) / np.bincount(level_set, weight)
    spread = _spread(rates, noise)
    return RegionalCorrection(centres, forests, [one.shrunk(spread) for one in rates])


def _level_sets(base: Floats) -> tuple[Codes, Floats]:
    """Return level sets of about equal size, and their distinct mean probabilities."""
    wanted = int(np.clip(len(base) // _ROWS_PER_LEVEL_SET, 1, _MOST_LEVEL_SETS))
    edges = np.unique(np.quantile(base, np.linspace(0, 1, wanted + 1)[1:-1]))
    place = np.searchsorted(edges, base, side="right")
    _, level_set = np.unique(place, return_inverse=True)  # ties may leave a level set empty
    centres = np.bincount(level_set, base) / np.bincount(level_set)
    return level_set.astype(np.int64), np.asarray(centres, float)


def _halves(
    n: int, clusters: Codes | None, repeats: int, generator: np.random.Generator
) -> list[tuple[Codes, Codes]]:
    unit = np.arange(n)
    if clusters is not None and clusters.min() < clusters.max():
        unit = np.unique(clusters, return_inverse=True)[1]
    n_units = int(unit.max()) + 1
    pairs = []
    for _ in range(repeats):
        is_first = (generator.permutation(n_units) < n_units // 2)[unit]
        one, other = np.flatnonzero(is_first), np.flatnonzero(~is_first)
        pairs += [(one, other), (other, one)]
    return pairs


def _spread(rates: Sequence[_Rates], noise: Floats) -> Floats:
    """Return ``tau^2`` of each level set, shrunk towards a common value proportional to ``noise``."""
    above, weight = np.sum([one.excess(len(noise)) for one in rates], axis=0)
    everywhere = max(float(above.sum() / weight.sum()), 0.0)
    usual = everywhere * noise / max(float(weight @ noise / weight.sum()), 1e-12)
    pull = weight.mean()
    return np.asarray((np.maximum(above, 0.0) + pull * usual) / (weight + pull), float)
