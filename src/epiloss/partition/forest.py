"""A histogram tree in each level set, all grown together, one depth after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.features import Features
from epiloss.levelsets import Codes, order_by_code
from epiloss.partition.base import LearningRows, Workers
from epiloss.partition.codes import CodedFeatures, coded
from epiloss.partition.kernel import kernel
from epiloss.partition.numpy_kernel import CATEGORY, ENTROPY, NODE, SQUARED, Integers, Records
from epiloss.rules import Step
from epiloss.scoring import Brier, Floats

_WEIGHT_STEPS = 2**24  # weights are whole numbers of the largest one's steps


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees: children behind their parents, the first ones are the roots.

    ``leaf_rank`` counts the leaves of each tree from 0 on; it is -1 for splits.
    """

    nodes: Records
    tree: Codes
    leaf_rank: Codes

    def apply(self, features: Features, tree: Codes, workers: Workers) -> Codes:
        """Return the leaf of each row in its tree, counted from 0 on."""
        return self.leaf_rank[self.leaf_nodes(features, tree, workers)]

    def leaf_nodes(self, features: Features, tree: Codes, workers: Workers) -> NDArray[np.int32]:
        """Return the node that each row ends in."""
        leaves = tree.astype(np.int32)  # the root of tree s is node s
        loops = kernel()

        def go_down(part: Codes) -> None:
            if len(part):
                loops.apply(features.take(part), self.nodes, leaves[part[0] : part[-1] + 1])

        workers.run(go_down, np.array_split(np.arange(len(leaves)), workers.n))
        return leaves

    def path(self, tree: int, leaf: int) -> list[Step]:
        """Return the splits from a tree's root to one of its leaves."""
        node = int(self._node_of(np.array([tree]), np.array([leaf]))[0])
        steps = []
        while self._parent[node] >= 0:
            above = int(self._parent[node])
            split, left = self.nodes[above], self.nodes["left"][above] == node
            steps.append(
                Step(
                    int(split["feature"]),
                    bool(split["kind"] == CATEGORY),
                    float(split["threshold"]),
                    bool(left),
                    bool(split["missing_left"]),
                )
            )
            node = above
        return steps[::-1]

    @cached_property
    def _parent(self) -> Codes:
        left, right = self.nodes["left"], self.nodes["right"]
        parent = np.full(len(left), -1)
        splits = np.flatnonzero(left >= 0)
        parent[left[splits]] = parent[right[splits]] = splits
        return parent

    def without_small_leaves(self, tree: Codes, leaf: Codes, n: NDArray[np.int64]) -> Codes:
        """Return the leaf that each of the given leaves, with ``n`` rows, is joined to.

        A leaf with one row climbs to the first split with rows on the other side too; that split
        is deleted, and the row goes down the other side, always towards the more rows.
        """
        node = self._node_of(tree, leaf)
        left, right = self.nodes["left"], self.nodes["right"]
        count = np.zeros(len(left), np.int64)
        np.add.at(count, node, n)
        splits = np.flatnonzero(left >= 0)
        children = zip(splits.tolist(), left[splits].tolist(), right[splits].tolist(), strict=True)
        total = count.tolist()  # a list is faster, item by item
        for one, a, b in reversed(list(children)):
            total[one] = total[a] + total[b]
        count = np.array(total, np.int64)
        target = np.arange(len(left))
        for one in node[n < 2].tolist():
            target[one] = self._new_home(one, self._parent, count)
        while (target[target] != target).any():
            target = target[target]
        return self.leaf_rank[target[node]]

    def _node_of(self, tree: Codes, leaf: Codes) -> Codes:
        keys, nodes = self._leaves
        return nodes[np.searchsorted(keys, tree * (int(self.leaf_rank.max()) + 1) + leaf)]

    @cached_property
    def _leaves(self) -> tuple[Codes, Codes]:
        """The leaves in order of tree and rank: what they are sought by, and their nodes."""
        leaves = np.flatnonzero(self.leaf_rank >= 0)
        keys = self.tree[leaves] * (int(self.leaf_rank.max()) + 1) + self.leaf_rank[leaves]
        order = np.argsort(keys)
        return keys[order], leaves[order]

    def _new_home(self, leaf: int, parent: Codes, count: Codes) -> int:
        left, right = self.nodes["left"], self.nodes["right"]
        node = leaf
        while parent[node] >= 0 and count[parent[node]] < 2:
            node = int(parent[node])
        if parent[node] < 0:
            return leaf  # the only row of its level set
        above = parent[node]
        other = int(right[above] if left[above] == node else left[above])
        while left[other] >= 0:
            other = int(left[other] if count[left[other]] >= count[right[other]] else right[other])
        # two single rows that meet here both take the lower leaf, so that neither follows the other
        return min(leaf, other) if count[above] == 2 else other


@dataclass
class _Growing:
    """The rows of the nodes that may still be split, those of one node side by side.

    ``totals`` (nodes, 3) are their counts, weights and weighted ones.
    """

    rows: NDArray[np.int32]
    labels: NDArray[np.uint8]
    weights: Integers | None
    starts: Integers
    node: Codes
    totals: Integers = field(default_factory=lambda: np.empty((0, 3), np.int64))

    def _totals(self) -> Integers:
        count = np.diff(self.starts)
        if self.weights is None:
            return np.stack([count, count, _sums(self.labels, self.starts)])
        weighted = _sums(self.weights * self.labels, self.starts)
        return np.stack([count, _sums(self.weights, self.starts), weighted])

    def keep_divisible(self, least: int) -> bool:
        """Forget the nodes that cannot be split; tell whether any is left."""
        count, weight, ones = totals = self._totals()
        divisible = (count >= 2 * least) & (ones > 0) & (ones < weight)
        self._keep(divisible)
        self.totals = np.ascontiguousarray(totals[:, divisible].T)
        return len(self.node) > 0

    def divide(self, features: CodedFeatures, splits: Records, n_nodes: int) -> tuple[Codes, Codes]:
        """Split the nodes that have a split; return them, and their children (nodes, 2)."""
        middles = kernel().split_rows(
            features.codes,
            features.kinds,
            splits,
            self.rows,
            self.labels,
            self.weights,
            self.starts,
        )
        sizes = np.stack([middles - self.starts[:-1], self.starts[1:] - middles], axis=1)
        found = splits["feature"] >= 0
        self._keep(found)
        parents, children = self.node, n_nodes + np.arange(2 * len(self.node)).reshape(-1, 2)
        self.node, self.starts = children.ravel(), _offsets(sizes[found].ravel())
        return parents, children

    def _keep(self, nodes: NDArray[np.bool_]) -> None:
        if nodes.all():
            return
        size = np.diff(self.starts)
        rows = np.repeat(nodes, size)
        self.rows, self.labels = self.rows[rows], self.labels[rows]
        self.weights = None if self.weights is None else self.weights[rows]
        self.starts, self.node = _offsets(size[nodes]), self.node[nodes]


def grow(rows: LearningRows, least: int, workers: Workers) -> Forest:
    """Grow a tree in each level set, with at least ``least`` rows in a leaf."""
    order = order_by_code(rows.level_set)
    sizes = np.bincount(rows.level_set, minlength=rows.n_level_sets)
    features = coded(rows.features, order, _offsets(sizes), workers)
    growing = _Growing(
        np.arange(len(order), dtype=np.int32),
        (rows.labels[order] > 0).astype(np.uint8),
        None if rows.weights is None else _whole_weights(rows.weights[order]),
        _offsets(sizes),
        np.arange(rows.n_level_sets),
    )
    criterion = SQUARED if isinstance(rows.rule, Brier) else ENTROPY
    capacity = rows.n_level_sets + 2 * (len(order) // least)
    nodes, tree = np.zeros(capacity, NODE), np.arange(capacity)
    nodes["left"] = -1
    n_nodes = rows.n_level_sets
    while growing.keep_divisible(least):
        splits = _best_splits(features, growing, least, criterion, workers)
        parents, children = growing.divide(features, splits, n_nodes)
        split = splits[splits["feature"] >= 0]
        threshold = features.threshold(tree[parents], split["feature"], split["code"])
        for name in ("feature", "missing_left"):
            nodes[name][parents] = split[name]
        nodes["kind"][parents], nodes["threshold"][parents] = features.kinds[split["feature"]], threshold
        nodes["left"][parents], nodes["right"][parents] = children.T
        tree[children] = tree[parents][:, None]
        n_nodes += children.size
    return _finished(nodes[:n_nodes], tree[:n_nodes])


def _best_splits(
    features: CodedFeatures, growing: _Growing, least: int, criterion: int, workers: Workers
) -> Records:
    """Return the best split of each node over all columns, each thread searching some of them."""
    edges = np.linspace(0, len(features.kinds), workers.n + 1).astype(int).tolist()
    loops = kernel()

    def search(columns: tuple[int, int]) -> Records:
        splits: Records = loops.best_splits(
            features.codes,
            features.kinds,
            *columns,
            growing.rows,
            growing.starts,
            growing.labels,
            growing.weights,
            least,
            criterion,
            growing.totals,
        )
        return splits

    found = workers.run(search, [pair for pair in pairwise(edges) if pair[0] < pair[1]])
    best = found[0]
    for other in found[1:]:  # in the order of columns: on a tie the first stays
        best = np.where(other["gain"] > best["gain"], other, best)
    return best


def _finished(nodes: Records, tree: Codes) -> Forest:
    leaves = np.flatnonzero(nodes["left"] < 0)
    order = leaves[np.argsort(tree[leaves], kind="stable")]
    rank = np.full(len(nodes), -1)
    rank[order] = np.arange(len(order)) - np.searchsorted(tree[order], tree[order])
    return Forest(nodes, tree, rank)


def _whole_weights(weights: Floats) -> Integers:
    """Return weights as whole numbers, so that their sums do not depend on the order of rows."""
    steps = np.rint(weights / weights.max() * _WEIGHT_STEPS).astype(np.int64)
    return np.asarray(np.maximum(steps, weights > 0), np.int64)


def _offsets(sizes: NDArray[Any]) -> Integers:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _sums(values: NDArray[Any], starts: Integers) -> Integers:
    """Return the sum over each node's rows; a node may have none."""
    sums = np.zeros(len(starts) - 1, np.int64)
    some = starts[1:] > starts[:-1]
    if len(values):
        sums[some] = np.add.reduceat(values, starts[:-1][some], dtype=np.int64)
    return sums
