"""Two regions in each level set, from one balanced split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes
from epiloss.input.features import Features
from epiloss.partition.base import LearningRows, Partition, Partitioner, for_each_level_set
from epiloss.partition.descriptions import Step
from epiloss.scoring import Brier

_NEARLY_HALF = 0.4  # minimum fraction of rows on each side, if ties prevent halves
_MUCH_MORE = 1.5  # factor by which such a split must explain more than halves


@dataclass(frozen=True)
class Stump(Partitioner):
    """One balanced split in each level set, which gives two regions that are easy to show in a diagram.

    Splits divide the rows in halves. A column with ties, such as sex, may also have only 40% of the rows
    on one side if that split explains much more. If no column allows halves, the smaller side has at
    least a quarter or a tenth of the rows.

    See Also
    --------
    epiloss.partition.Tree : more regions, which explain more of the grouping loss.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X, partition="stump")
    >>> result.options["partition"]
    'stump'
    """

    name: str = "stump"

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Split each level set into halves by the feature that separates the labels best."""
        return StumpPartition(for_each_level_set(self._split, rows, generator, n_jobs))

    def _split(self, rows: LearningRows, seed: int) -> _Tree | None:
        tree = None
        for part in (2, 4, 10):
            least = len(rows.labels) // part
            if least >= 1 and (tree is None or tree.model.tree_.node_count == 1):
                tree = _fit_tree(rows, seed, max_depth=1, min_samples_leaf=least)
        nearly = int(_NEARLY_HALF * len(rows.labels))
        if tree is None or nearly < 1:
            return tree
        tied = _fit_tree(rows, seed, max_depth=1, min_samples_leaf=nearly)
        better = tied.explained > _MUCH_MORE * tree.explained
        return tied if better and not tied.column_has_halves(rows.features) else tree


@dataclass(frozen=True)
class StumpPartition(Partition):
    """A tree for each level set; ``None`` if it has too few rows to split."""

    trees: Sequence[_Tree | None]

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the leaf of each row."""
        region = np.zeros(len(level_set), np.int64)
        for level, tree in enumerate(self.trees):
            rows = np.flatnonzero(level_set == level)
            if tree is not None and len(rows):
                region[rows] = tree.apply(features.take(rows))
        return region

    def path(self, level_set: int, region: int) -> list[Step]:
        """Return the split, or an empty list if the level set was not split."""
        tree = self.trees[level_set]
        return [] if tree is None else tree.path(region)


@dataclass(frozen=True)
class _Columns:
    """The columns for a tree: numbers as they are, and one indicator for each frequent category.

    On real data, indicators explained more than ordering the categories by their rate, which overfits
    in small level sets.
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
    """A fitted scikit-learn tree and its columns."""

    model: Any
    columns: _Columns

    def apply(self, features: Features) -> Codes:
        return np.asarray(self.model.apply(self.columns.matrix(features)), np.int64)

    @property
    def explained(self) -> float:
        """The decrease in impurity by the first split."""
        nodes = self.model.tree_
        if nodes.node_count == 1:
            return 0.0
        children = nodes.weighted_n_node_samples[1:3] @ nodes.impurity[1:3]
        return float(nodes.impurity[0] - children / nodes.weighted_n_node_samples[0])

    def column_has_halves(self, features: Features) -> bool:
        """Return whether the column of the first split can be split into halves in spite of ties."""
        values = np.sort(self.columns.matrix(features)[:, int(self.model.tree_.feature[0])])
        middle = len(values) // 2
        ends = values[middle - 1], values[middle], values[min(middle + len(values) % 2, len(values) - 1)]
        return bool(ends[0] < ends[1] or ends[1] < ends[2])

    def path(self, leaf: int) -> list[Step]:
        nodes = self.model.tree_
        if leaf == 0:
            return []  # the root itself
        column, left = int(nodes.feature[0]), leaf == nodes.children_left[0]
        indicator = column - len(self.columns.numbers)
        if indicator >= 0:  # rows of the category have 1, and go right
            feature, code = self.columns.indicators[indicator]
            return [Step(feature, True, code, not left, math.isnan(code))]
        missing_left = bool(nodes.missing_go_to_left[0])
        feature = int(self.columns.numbers[column])
        return [Step(feature, False, float(nodes.threshold[0]), left, missing_left)]


def _fit_tree(rows: LearningRows, seed: int, **limits: Any) -> _Tree:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    columns = _Columns.of(rows.features)
    matrix = columns.matrix(rows.features)
    if isinstance(rows.rule, Brier):
        model = DecisionTreeRegressor(random_state=seed, **limits)
    else:
        model = DecisionTreeClassifier(criterion="entropy", random_state=seed, **limits)
    model.fit(matrix, rows.labels, sample_weight=rows.weights)
    return _Tree(model, columns)
