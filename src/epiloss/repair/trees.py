"""Boosted trees as plain arrays: what is applied is what is saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import NODE, Records
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features


@dataclass(frozen=True)
class TreeSum:
    """A constant and a sum of trees: ``nodes`` of all, the ``roots``, and a value for each node."""

    constant: float
    nodes: Records
    roots: Codes
    values: Floats

    @classmethod
    def from_boosting(cls, model: Any) -> TreeSum:
        """Return the trees of a fitted ``HistGradientBoostingRegressor``, before any link."""
        trees = [predictor.nodes for (predictor,) in model._predictors]
        sizes = np.array([len(tree) for tree in trees], np.int64)
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        both = np.concatenate(trees)
        shift = np.repeat(roots, sizes)
        nodes = np.zeros(len(both), NODE)
        is_leaf = both["is_leaf"].astype(bool)
        nodes["feature"] = np.where(is_leaf, 0, both["feature_idx"])
        # a threshold of infinity sends all numbers one way and what is missing the other
        largest = np.finfo(np.float64).max
        nodes["threshold"] = np.where(is_leaf, 0.0, np.minimum(both["num_threshold"], largest))
        nodes["missing_left"] = both["missing_go_to_left"]
        for side in ("left", "right"):
            nodes[side] = np.where(is_leaf, -1, both[side] + shift)
        constant = float(np.ravel(model._baseline_prediction)[0])
        return cls(constant, nodes, roots, np.where(is_leaf, both["value"], 0.0))

    def predict(self, features: Features) -> Floats:
        """Return the sum for each row."""
        return self.predict_stages(features, (len(self.roots),))[:, 0]

    def predict_stages(self, features: Features, stages: Sequence[int]) -> Floats:
        """Return the sums of the first trees, a column for each number of them."""
        total = np.full(features.n_rows, self.constant)
        columns = np.empty((features.n_rows, len(stages)))
        loops, rows = kernel(), features.source_rows()
        for k in range(len(self.roots) + 1):
            for place in (place for place, stage in enumerate(stages) if stage == k):
                columns[:, place] = total
            if k < len(self.roots):
                leaves = np.full(features.n_rows, self.roots[k], np.int32)
                loops.apply(features.source, rows, self.nodes, leaves)
                total += self.values[leaves]
        return columns

    def weighed(self, stages: Sequence[int], weights: Floats) -> TreeSum:
        """Return one sum that equals the stages' sums, each times its weight, of the trees used."""
        used = [stage for stage, weight in zip(stages, weights, strict=True) if weight > 0]
        last = max(used, default=0)
        order = np.arange(1, last + 1)
        share = np.array([weights[np.array(stages) >= k].sum() for k in order])
        end = int(self.roots[last]) if last < len(self.roots) else len(self.nodes)
        tree = np.searchsorted(self.roots[:last], np.arange(end), side="right") - 1
        values = self.values[:end] * share[tree] if last else self.values[:end]
        constant = self.constant * float(weights.sum())
        return TreeSum(constant, self.nodes[:end], self.roots[:last], values)
