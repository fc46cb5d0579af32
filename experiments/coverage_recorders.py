"""Partitions and models that are kept, and the losses that their bounds estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverage_targets import NAN
from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import uniform_level_sets
from epiloss.estimation.crossfit.learners import Blend, Fitted
from epiloss.input.features import Features
from epiloss.partition.base import LearningRows, Partition, Partitioner
from epiloss.partition.tree import Tree
from epiloss.simulate import Sample


@dataclass
class RecordedPartition(Partition):
    """A partition that records which small regions were merged into which others."""

    inner: Partition
    joined: dict[tuple[int, int], int] = field(default_factory=dict)

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the region of each row as it was learned."""
        return self.inner.assign(features, level_set)

    def join_small(self, level_set: Codes, region: Codes, n: NDArray[Any]) -> Codes:
        """Merge small regions, and record it."""
        into = self.inner.join_small(level_set, region, n)
        cells = zip(level_set.tolist(), region.tolist(), strict=True)
        self.joined.update(zip(cells, into.tolist(), strict=True))
        return into

    def evaluated_region(self, features: Features, level_set: Codes) -> Codes:
        """Return the region in which each row is evaluated."""
        region = self.inner.assign(features, level_set)
        for (level, old), new in self.joined.items():
            if new != old:
                region[(level_set == level) & (region == old)] = new
        return region


@dataclass
class RecordingPartitioner(Partitioner):
    """A partitioner that keeps its partitions."""

    inner: Partitioner = field(default_factory=Tree)
    name: str = "tree"
    partitions: list[RecordedPartition] = field(default_factory=list)

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Learn the regions of every level set, and keep them."""
        self.partitions.append(RecordedPartition(self.inner.fit(rows, generator, n_jobs)))
        return self.partitions[-1]


@dataclass
class RecordingLearner:
    """The learner of the cross-fitted bound, which keeps its models."""

    sharing = Blend.sharing
    models: list[Fitted] = field(default_factory=list)

    def prepare(self, features: Features, seed: int) -> Features:
        """Return the features to learn from."""
        return Blend().prepare(features, seed)

    def fit(
        self, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> Fitted:
        """Learn to predict ``target``, and keep the model."""
        self.models.append(Blend().fit(features, scores, target, weights, seed))
        return self.models[-1]


def partition_target(partitions: Sequence[RecordedPartition], bins: int, rows: Sample | None) -> float:
    """Return ``E[(E[Q|region] - E[Q|bin])^2] - E[Var(C|bin)]``, averaged over the partitions."""
    if rows is None:
        return NAN
    level_set = uniform_level_sets(bins).assign(rows.scores)
    features = Features.read(rows.X)
    regions = [one.evaluated_region(features, level_set) for one in partitions]
    within = [_mean_squared_mean(level_set * (region.max() + 1) + region, rows.q) for region in regions]
    explained = float(np.mean(within)) - _mean_squared_mean(level_set, rows.q)
    induced = float(np.mean(rows.c**2)) - _mean_squared_mean(level_set, rows.c)
    return explained - induced


def _mean_squared_mean(group: Codes, values: Floats) -> float:
    """Return ``E[E[values|group]^2]`` without bias, from products of different rows."""
    n, total, squares = (np.bincount(group, w) for w in (np.ones_like(values), values, values**2))
    alone = n < 2  # no two rows to multiply
    parts = np.where(alone, squares, (total**2 - squares) / np.where(alone, 1, n - 1))
    return float(parts.sum() / len(values))


def crossfit_target(models: Sequence[Fitted], rows: Sample | None) -> float:
    """Return ``E[g (Q-C)]^2 / E[Var(g|S)]`` pooled over the models; ``rows`` are sorted by score."""
    if rows is None:
        return NAN
    features = Features.read(rows.X)
    guesses = [model.predict(features, rows.scores) for model in models]
    theta = np.mean([np.mean(guess * (rows.q - rows.c)) for guess in guesses])
    # neighbours have nearly equal scores, so half their squared difference estimates Var(g|S)
    v = np.mean([np.mean(np.diff(guess) ** 2) / 2 for guess in guesses])
    return float(theta**2 / v) if v > 0 else 0.0
