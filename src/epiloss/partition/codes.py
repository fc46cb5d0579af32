"""Features as one-byte codes: quantile edges inside each level set, one code for each category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss.features import Features
from epiloss.levelsets import Codes
from epiloss.partition.base import Workers
from epiloss.partition.kernel import kernel
from epiloss.partition.numpy_kernel import CATEGORY, MISSING, N_EDGES, RARE
from epiloss.scoring import Floats

SAMPLE = 512  # rows of a level set that its edges are found from
_BLOCK = 64  # columns that are encoded together, so that their part of the rows stays in the cache


@dataclass(frozen=True)
class CodedFeatures:
    """The codes (columns, rows) of learning rows, sorted by level set, and what the codes mean.

    ``edges`` (level sets, columns, 63): a number with code ``k`` is at most edge ``k`` and above the
    edge before. ``categories`` has, for a column of categories, the category of each code.
    """

    codes: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    edges: Floats
    categories: Mapping[int, Codes]

    def threshold(self, level_set: Codes, feature: Codes, code: Codes) -> Floats:
        """Return the number, or the category, that splits of these codes compare with."""
        values = self.edges[level_set, feature, np.minimum(code, N_EDGES - 1)]
        for column, names in self.categories.items():
            here = feature == column
            known = np.append(names.astype(float), np.nan)
            values[here] = known[np.minimum(code[here], len(names))]
        return values


def coded(features: Features, rows: Codes, starts: Codes, workers: Workers) -> CodedFeatures:
    """Encode rows, those of level set ``s`` being ``rows[starts[s] : starts[s + 1]]``."""
    n_level_sets, d = len(starts) - 1, features.n_columns
    edges = np.full((n_level_sets, d, N_EDGES), np.inf)
    codes = np.empty((d, len(rows)), np.uint8)
    blocks = [(s, a, min(a + _BLOCK, d)) for s in range(n_level_sets) for a in range(0, d, _BLOCK)]
    loops = kernel()

    def encode(block: tuple[int, int, int]) -> None:
        s, first, last = block
        inside, out = rows[starts[s] : starts[s + 1]], codes[:, starts[s] : starts[s + 1]]
        if len(inside):
            edges[s, first:last] = _edges(features, _sample(inside), first, last)
            loops.encode(features, inside, edges[s, first:last], first, last, out)

    workers.run(encode, blocks)
    kinds = np.zeros(d, np.uint8)
    categories = {}
    for j in features.categories:
        kinds[j] = CATEGORY
        codes[j], categories[j] = _category_codes(features.take(rows).column(j))
    return CodedFeatures(codes, kinds, edges, categories)


def _sample(rows: Codes) -> Codes:
    """Return some rows, the same for the same number; at random, as rows may alternate."""
    if len(rows) <= SAMPLE:
        return rows
    return rows[np.random.default_rng(0).choice(len(rows), SAMPLE, replace=False)]


def quantile_edges(values: Floats) -> Floats:
    """Return up to 62 numbers between the values (columns, rows) of each column, then infinities.

    Where a column has few values there is an edge between any two.

    Examples
    --------
    >>> quantile_edges(np.array([[1.0, 3.0, np.nan, 1.0]]))[0, :2].tolist()
    [2.0, inf]
    """
    ordered = np.sort(values, axis=1)
    d, n = ordered.shape
    edges = np.full((d, N_EDGES), np.inf)
    if n < 2:
        return edges
    rises = ordered[:, 1:] > ordered[:, :-1]  # never into a missing value, which sorts last
    n_rises = rises.sum(axis=1)
    few = np.flatnonzero(n_rises < N_EDGES)
    column, place = np.nonzero(rises[few])
    rank = np.arange(len(column)) - np.searchsorted(column, column)
    edges[few[column], rank] = _between(ordered[few[column], place], ordered[few[column], place + 1])
    many = np.flatnonzero(n_rises >= N_EDGES)
    present = n - np.isnan(ordered[many]).sum(axis=1)
    place = np.arange(1, N_EDGES) * present[:, None] // N_EDGES
    below, above = (np.take_along_axis(ordered[many], place - k, axis=1) for k in (1, 0))
    edges[many, :-1] = _between(below, above)
    return edges


def _between(low: Floats, high: Floats) -> Floats:
    """Return the middle, or ``low`` where no number lies between."""
    middle = low / 2 + high / 2
    return np.where((low <= middle) & (middle < high), middle, low)


def _edges(features: Features, rows: Codes, first: int, last: int) -> Floats:
    """Return the edges of some columns, each a number of the column's own precision."""
    rows = rows if features.rows is None else features.rows[rows]
    if not isinstance(features.source, tuple):
        return quantile_edges(np.ascontiguousarray(features.source[rows, first:last].T))
    return np.concatenate([quantile_edges(column[None, rows]) for column in features.source[first:last]])


def _category_codes(values: Floats) -> tuple[NDArray[np.uint8], Codes]:
    """Return the codes of categories, and the categories that have one: the most frequent."""
    missing = np.isnan(values)
    category = np.where(missing, 0, values).astype(np.int64)
    count = np.bincount(category[~missing])
    frequent = np.sort(np.argsort(-count, kind="stable")[:RARE])
    table = np.full(max(len(count), 1), RARE, np.uint8)
    table[frequent] = np.arange(len(frequent))
    return np.where(missing, MISSING, table[category]).astype(np.uint8), frequent
