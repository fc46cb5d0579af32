"""Two regions in each level set, from one balanced split: what a diagram shows best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.features import Features
from epiloss.levelsets import Codes
from epiloss.partition.base import LearningRows, Partition, Partitioner, for_each_level_set
from epiloss.scoring import Brier


@dataclass(frozen=True)
class StumpPartitioner(Partitioner):
    """One balanced split in each level set: two regions, which a diagram shows best."""

    name: str = "stump"

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Split each level set in two halves, on the feature that tells the labels best apart."""
        return StumpPartition(for_each_level_set(self._split, rows, generator, n_jobs))

    def _split(self, rows: LearningRows, seed: int) -> _Tree | None:
        half = len(rows.labels) // 2
        return _grown(rows, seed, max_depth=1, min_samples_leaf=half) if half >= 1 else None


@dataclass(frozen=True)
class StumpPartition(Partition):
    """A tree for each level set; ``None`` where there is nothing to split."""

    trees: Sequence[_Tree | None]

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the leaf of each row."""
        region = np.zeros(len(level_set), np.int64)
        for level, tree in enumerate(self.trees):
            rows = np.flatnonzero(level_set == level)
            if tree is not None and len(rows):
                region[rows] = tree.apply(features.take(rows))
        return region


@dataclass(frozen=True)
class _Columns:
    """What a tree splits on: numbers as they are, and one indicator for each frequent category.

    On real data indicators found more than an order of the categories by their rate, which small
    level sets overfit.
    """

    numbers: Codes
    indicators: Sequence[tuple[int, float]]  # (column, code); a code of NaN stands for missing

    @classmethod
    def of(cls, features: Features, most: int = 63) -> _Columns:
        indicators: list[tuple[int, float]] = []
        for column in features.categories:
            codes, count = np.unique(features.matrix[:, column], return_counts=True)
            frequent = np.argsort(-count, kind="stable")[:most]
            indicators += [(column, float(code)) for code in codes[np.sort(frequent)]]
        columns = range(features.matrix.shape[1])
        numbers = [column for column in columns if column not in features.categories]
        return cls(np.array(numbers, np.int64), indicators)

    def matrix(self, features: Features) -> NDArray[Any]:
        if not features.categories:
            return features.matrix
        columns = [features.matrix[:, self.numbers].astype(np.float32)]
        for column, code in self.indicators:
            values = features.matrix[:, [column]]
            columns.append((np.isnan(values) if np.isnan(code) else values == code).astype(np.float32))
        return np.hstack(columns)


@dataclass(frozen=True)
class _Tree:
    """A fitted scikit-learn tree and the columns that it splits on."""

    model: Any
    columns: _Columns

    def apply(self, features: Features) -> Codes:
        return np.asarray(self.model.apply(self.columns.matrix(features)), np.int64)


def _grown(rows: LearningRows, seed: int, **limits: Any) -> _Tree:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    columns = _Columns.of(rows.features)
    matrix = columns.matrix(rows.features)
    if isinstance(rows.rule, Brier):
        model = DecisionTreeRegressor(random_state=seed, **limits)
    else:
        model = DecisionTreeClassifier(criterion="entropy", random_state=seed, **limits)
    model.fit(matrix, rows.labels, sample_weight=rows.weights)
    return _Tree(model, columns)
