"""Trees grown by any number of threads: the trees are shared out, and of large ones the subtrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import Bytes, Integers, Records, goes_left
from epiloss._threads import Workers

MANY = 2**14  # rows; of fewer, a tree is grown sooner than it is shared out
_ANY_DEPTH = 2**31


@dataclass(frozen=True)
class Ground:
    """What trees are grown on: the codes (columns, rows), and the rows, those of each tree side by side.

    ``labels`` and ``weights`` are in the order of ``rows``, and change places with them.
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
        """Return the nodes of a tree on each part of the rows, by some of the columns."""
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
        """Move the rows of a part that go left to its front, in their order."""
        left = goes_left(self.codes, self.kinds, split, self.rows[inside])
        order = np.argsort(~left, kind="stable")
        for values in (self.rows, self.labels, self.weights):
            if values is not None:
                values[inside] = values[inside][order]


@dataclass(frozen=True)
class _Part:
    """Rows side by side that a tree, or what is below a node of it, is grown on."""

    tree: int
    depth: int
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first


def grown_by(workers: Workers, ground: Ground, starts: Integers) -> Records:
    """Return the nodes of all trees, in any order; ``left`` only tells splits from leaves.

    Sums are whole numbers, and of equal gains the first column's wins, so that the trees do not depend
    on who looks at which rows and columns: any number of threads has the same bits.
    """
    if workers.n == 1:
        return ground.grown(starts)
    parts = [_Part(tree, 0, *ends) for tree, ends in enumerate(pairwise(starts.tolist()))]
    trunk, parts = _divided(workers, ground, parts)

    def grow(part: _Part) -> Records:
        return _placed(ground.grown(np.array([part.first, part.last])), part)

    largest_first = sorted(parts, key=lambda part: -part.size)
    return np.concatenate([*trunk, *workers.run(grow, largest_first)])


def _divided(
    workers: Workers, ground: Ground, parts: Sequence[_Part]
) -> tuple[list[Records], list[_Part]]:
    """Split parts larger than a thread's share; return these nodes, and the parts that are left.

    Not for long: where each split takes off but a few rows, what it costs to look at all the others
    would exceed what there is to share.
    """
    most, deepest = max(len(ground.rows) // workers.n, MANY), workers.n.bit_length() + 1
    trunk, small, waiting = [], [], list(parts)
    while waiting:
        part = waiting.pop()
        if part.size <= most or part.depth == deepest:
            small.append(part)
            continue
        nodes = _best_stump(workers, ground, part)
        trunk.append(_placed(nodes[:1], part))
        if len(nodes) > 1:
            ground.divide(slice(part.first, part.last), nodes[0])
            middle = int(nodes["first"][2])
            waiting.append(_Part(part.tree, part.depth + 1, part.first, middle))
            waiting.append(_Part(part.tree, part.depth + 1, middle, part.last))
    return trunk, small


def _best_stump(workers: Workers, ground: Ground, part: _Part) -> Records:
    """Return a node and its children, if any; each thread looks at some of the columns."""
    d = len(ground.kinds)
    width = -(-d // workers.n)

    def stump(first: int) -> Records:
        nodes = ground.grown(np.array([part.first, part.last]), slice(first, first + width), 1)
        nodes["feature"][0] += first
        return nodes

    return max(workers.run(stump, range(0, d, width)), key=lambda nodes: nodes["gain"][0])


def _placed(nodes: Records, part: _Part) -> Records:
    """Return the nodes as they are in their tree, by the part that they were grown on."""
    nodes["tree"] = part.tree
    nodes["depth"] += part.depth
    return nodes
