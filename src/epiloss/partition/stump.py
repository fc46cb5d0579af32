"""Two regions in each level set, from one balanced split: what a diagram shows best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    def join_small(self, level_set: Codes, region: Codes, n: NDArray[Any]) -> Codes:
        """Delete every split that leaves fewer than two evaluated rows on one side."""
        joined = region.copy()
        for level in np.unique(level_set[n < 2]):
            tree, inside = self.trees[level], np.flatnonzero(level_set == level)
            if tree is not None:
                joined[inside] = tree.without_small_leaves(region[inside], n[inside])
        return joined


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

    def without_small_leaves(self, leaf: Codes, n: NDArray[Any]) -> Codes:
        """Return the leaf that each of the given leaves is joined to.

        A leaf with one row climbs to the first split with rows on the other side too; that split
        is deleted, and the row goes down the other side, always towards the more rows.
        """
        left, right = self.model.tree_.children_left, self.model.tree_.children_right
        count = np.zeros(len(left), np.int64)
        count[leaf] = n
        parent = np.full(len(left), -1)
        # scikit-learn numbers children after their parent (depth or best first), so this is bottom-up
        for node in range(len(left) - 1, -1, -1):
            if left[node] >= 0:
                parent[left[node]] = parent[right[node]] = node
                count[node] = count[left[node]] + count[right[node]]
        target = {int(one): int(one) for one in leaf}
        for one in leaf[n < 2]:
            target[int(one)] = _new_home(int(one), left, right, parent, count)
        return np.array([_follow(target, int(one)) for one in leaf], np.int64)


def _new_home(
    leaf: int, left: NDArray[Any], right: NDArray[Any], parent: NDArray[Any], count: NDArray[Any]
) -> int:
    node = leaf
    while parent[node] >= 0 and count[parent[node]] < 2:
        node = parent[node]
    if parent[node] < 0:
        return leaf  # the only row of its level set
    above = parent[node]
    other = right[above] if left[above] == node else left[above]
    while left[other] >= 0:
        other = left[other] if count[left[other]] >= count[right[other]] else right[other]
    # two single rows that meet here both take the lower leaf, so that neither follows the other
    return min(leaf, int(other)) if count[above] == 2 else int(other)


def _follow(target: Mapping[int, int], leaf: int) -> int:
    while target[leaf] != leaf:
        leaf = target[leaf]
    return leaf


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
