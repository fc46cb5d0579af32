"""Histogram-based decision trees, one per level set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import order_by_code
from epiloss._kernels.reference_trees import (
    CATEGORY,
    ENTROPY,
    NODE,
    SQUARED,
    Integers,
    Records,
    offsets,
)
from epiloss._kernels.threads import Ground, grown_by
from epiloss._threads import Workers
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features
from epiloss.partition.base import LearningRows
from epiloss.partition.descriptions import Step
from epiloss.partition.quantized import CodedFeatures, coded
from epiloss.scoring import Brier

_WEIGHT_STEPS = 2**24  # weights are rounded to multiples of the largest weight / 2**24


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees: roots first, and children after their parents.

    ``leaf_rank`` numbers the leaves of each tree from 0; it is -1 for splits.
    """

    nodes: Records
    tree: Codes
    leaf_rank: Codes

    def apply(self, features: Features, tree: Codes, workers: Workers) -> Codes:
        """Return the leaf of each row in its tree, numbered from 0."""
        return self.leaf_rank[self.leaf_nodes(features, tree, workers)]

    def leaf_nodes(self, features: Features, tree: Codes, workers: Workers) -> NDArray[np.int32]:
        """Return the leaf node of each row."""
        leaves = tree.astype(np.int32)  # the root of tree s is node s
        loops = kernel()

        def descend(part: Codes | None) -> None:
            first = 0 if part is None or not len(part) else int(part[0])
            for some, values, rows in features.row_blocks(part):
                loops.apply(values, rows, self.nodes, leaves[first + some.start : first + some.stop])

        if workers.n == 1:
            descend(None)
        else:
            workers.run(descend, np.array_split(np.arange(len(leaves)), workers.n))
        return leaves

    def path(self, tree: int, leaf: int) -> list[Step]:
        """Return the splits from a tree's root to one of its leaves."""
        node = int(self._node_of(np.array([tree]), np.array([leaf]))[0])
        steps = []
        while self._parent[node] >= 0:
            parent = int(self._parent[node])
            split, left = self.nodes[parent], self.nodes["left"][parent] == node
            steps.append(
                Step(
                    int(split["feature"]),
                    bool(split["kind"] == CATEGORY),
                    float(split["threshold"]),
                    bool(left),
                    bool(split["missing_left"]),
                )
            )
            node = parent
        return steps[::-1]

    @cached_property
    def _parent(self) -> Codes:
        left, right = self.nodes["left"], self.nodes["right"]
        parent = np.full(len(left), -1)
        splits = np.flatnonzero(left >= 0)
        parent[left[splits]] = parent[right[splits]] = splits
        return parent

    def without_small_leaves(self, tree: Codes, leaf: Codes, n: NDArray[np.int64]) -> Codes:
        """Return the leaf with which each of the given leaves, of ``n`` rows, is merged.

        A leaf with one row moves up to the first split that has rows on the other side too. That split
        is removed, and the row moves down the other side, always to the child with more rows.
        """
        node = self._node_of(tree, leaf)
        left, right = self.nodes["left"], self.nodes["right"]
        count = np.zeros(len(left), np.int64)
        np.add.at(count, node, n)
        splits = np.flatnonzero(left >= 0)
        children = zip(splits.tolist(), left[splits].tolist(), right[splits].tolist(), strict=True)
        total = count.tolist()  # a list is faster than an array, item by item
        for one, a, b in reversed(list(children)):
            total[one] = total[a] + total[b]
        count = np.array(total, np.int64)
        target = np.arange(len(left))
        for one in node[n < 2].tolist():
            target[one] = self._merge_target(one, self._parent, count)
        while (target[target] != target).any():
            target = target[target]
        return self.leaf_rank[target[node]]

    def _node_of(self, tree: Codes, leaf: Codes) -> Codes:
        keys, nodes = self._leaves
        return nodes[np.searchsorted(keys, tree * (int(self.leaf_rank.max()) + 1) + leaf)]

    @cached_property
    def _leaves(self) -> tuple[Codes, Codes]:
        """Search keys and nodes of the leaves, sorted by tree and rank."""
        leaves = np.flatnonzero(self.leaf_rank >= 0)
        keys = self.tree[leaves] * (int(self.leaf_rank.max()) + 1) + self.leaf_rank[leaves]
        order = np.argsort(keys)
        return keys[order], leaves[order]

    def _merge_target(self, leaf: int, parent: Codes, count: Codes) -> int:
        left, right = self.nodes["left"], self.nodes["right"]
        node = leaf
        while parent[node] >= 0 and count[parent[node]] < 2:
            node = int(parent[node])
        if parent[node] < 0:
            return leaf  # the level set has no other row
        above = parent[node]
        other = int(right[above] if left[above] == node else left[above])
        while left[other] >= 0:
            other = int(left[other] if count[left[other]] >= count[right[other]] else right[other])
        # Two single rows that meet here both go to the leaf of lower index, so that they do not swap.
        return min(leaf, other) if count[above] == 2 else other


def grow(rows: LearningRows, least: int, workers: Workers) -> Forest:
    """Grow a tree in each level set, with at least ``least`` rows per leaf."""
    order = order_by_code(rows.level_set)
    starts = offsets(np.bincount(rows.level_set, minlength=rows.n_level_sets))
    features = coded(rows.features, order, starts, workers)
    labels = (rows.labels[order] > 0).astype(np.uint8)
    weights = None if rows.weights is None else _integer_weights(rows.weights[order])
    criterion = SQUARED if isinstance(rows.rule, Brier) else ENTROPY
    places = np.arange(len(order), dtype=np.int32)
    ground = Ground(features.codes, features.kinds, places, labels, weights, least, criterion, kernel())
    return _forest(_in_order(grown_by(workers, ground, starts), rows.n_level_sets), features)


def _in_order(nodes: Records, n_trees: int) -> Records:
    """Sort the nodes of all trees by depth, then by tree, then from left to right."""
    nodes = nodes[np.lexsort((nodes["first"], nodes["tree"], nodes["depth"]))]
    # Apart from the roots, all nodes are children of splits, in the same order as the splits.
    splits = np.flatnonzero(nodes["left"] >= 0)
    nodes["left"][splits] = n_trees + 2 * np.arange(len(splits))
    return nodes


def _forest(grown: Records, features: CodedFeatures) -> Forest:
    """Return the forest, with splits that compare values instead of codes."""
    nodes, tree = np.zeros(len(grown), NODE), grown["tree"].astype(np.int64)
    splits, leaves = np.flatnonzero(grown["left"] >= 0), np.flatnonzero(grown["left"] < 0)
    split = grown[splits]
    for name in ("feature", "missing_left"):
        nodes[name] = grown[name]
    nodes["left"], nodes["right"][splits] = grown["left"], split["left"] + 1
    nodes["kind"][splits] = features.kinds[split["feature"]]
    nodes["threshold"][splits] = features.threshold(split["tree"], split["feature"], split["code"])
    order = leaves[np.argsort(tree[leaves], kind="stable")]
    rank = np.full(len(nodes), -1)
    rank[order] = np.arange(len(order)) - np.searchsorted(tree[order], tree[order])
    return Forest(nodes, tree, rank)


def _integer_weights(weights: Floats) -> Integers:
    """Return weights as integers, so that their sums do not depend on the order of rows."""
    steps = np.rint(weights / weights.max() * _WEIGHT_STEPS).astype(np.int64)
    return np.asarray(np.maximum(steps, weights > 0), np.int64)
