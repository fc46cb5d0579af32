"""Grow trees with several threads, which share trees and the subtrees of large trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import Bytes, Integers, Records, goes_left
from epiloss._threads import Workers

MANY = 2**14  # number of rows below which sharing a tree costs more time than growing it
_ANY_DEPTH = 2**31


@dataclass(frozen=True)
class Ground:
    """The data on which trees are grown: codes (columns, rows), and the rows sorted by tree.

    ``labels`` and ``weights`` are in the order of ``rows`` and are reordered with them.
    """

    codes: Bytes
    kinds: Bytes
    rows: NDArray[np.int32]
    labels: Bytes
    weights: Integers | None
    least: int
    criterion: int
    loops: ModuleType

    def grown(
        self, starts: Integers, columns: slice = slice(None), deepest: int = _ANY_DEPTH
    ) -> Records:
        """Grow a tree on each part of the rows, using some of the columns, and return the nodes."""
        nodes: Records = self.loops.grow(
            self.codes[columns],
            self.kinds[columns],
            self.rows,
            self.labels,
            self.weights,
            starts,
            self.least,
            self.criterion,
            deepest,
        )
        return nodes

    def divide(self, inside: slice, split: Records) -> None:
        """Move the rows of a part that go left to its front, in stable order."""
        left = goes_left(self.codes, self.kinds, split, self.rows[inside])
        order = np.argsort(~left, kind="stable")
        for values in (self.rows, self.labels, self.weights):
            if values is not None:
                values[inside] = values[inside][order]


@dataclass(frozen=True)
class _Part:
    """A range of rows on which a tree or a subtree is grown."""

    tree: int
    depth: int
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first


def grown_by(workers: Workers, ground: Ground, starts: Integers) -> Records:
    """Return the nodes of all trees, in any order; ``left`` only distinguishes splits from leaves.

    The result is the same for any number of threads: sums are integers, and of equal gains the first
    column is chosen, so that it does not matter which thread processes which rows and columns.
    """
    if workers.n == 1:
        return ground.grown(starts)
    parts = [_Part(tree, 0, *ends) for tree, ends in enumerate(pairwise(starts.tolist()))]
    trunk, parts = _divide_large(workers, ground, parts)

    def grow(part: _Part) -> Records:
        return _with_position(ground.grown(np.array([part.first, part.last])), part)

    largest_first = sorted(parts, key=lambda part: -part.size)
    return np.concatenate([*trunk, *workers.run(grow, largest_first)])


def _divide_large(
    workers: Workers, ground: Ground, parts: Sequence[_Part]
) -> tuple[list[Records], list[_Part]]:
    """Split parts that are larger than a thread's share; return their nodes and the remaining parts.

    The depth of these splits is limited. If each of them separates only a few rows, scanning all
    other rows would cost more than sharing the work saves.
    """
    largest, deepest = max(len(ground.rows) // workers.n, MANY), workers.n.bit_length() + 1
    trunk, small, waiting = [], [], list(parts)
    while waiting:
        part = waiting.pop()
        if part.size <= largest or part.depth == deepest:
            small.append(part)
            continue
        nodes = _best_stump(workers, ground, part)
        trunk.append(_with_position(nodes[:1], part))
        if len(nodes) > 1:
            ground.divide(slice(part.first, part.last), nodes[0])
            middle = int(nodes["first"][2])
            waiting.append(_Part(part.tree, part.depth + 1, part.first, middle))
            waiting.append(_Part(part.tree, part.depth + 1, middle, part.last))
    return trunk, small


def _best_stump(workers: Workers, ground: Ground, part: _Part) -> Records:
    """Return a node and its children, if any; each thread scans some of the columns."""
    d = len(ground.kinds)
    width = -(-d // workers.n)

    def stump(first: int) -> Records:
        nodes = ground.grown(np.array([part.first, part.last]), slice(first, first + width), 1)
        nodes["feature"][0] += first
        return nodes

    return max(workers.run(stump, range(0, d, width)), key=lambda nodes: nodes["gain"][0])


def _with_position(nodes: Records, part: _Part) -> Records:
    """Set the tree and depth of nodes that were grown on a part."""
    nodes["tree"] = part.tree
    nodes["depth"] += part.depth
    return nodes
