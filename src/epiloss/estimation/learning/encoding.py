"""Features and score as one-byte codes, found once without labels and shared by every model.

Numbers are cut at quantiles; a value that many rows share has a code of its own, so that none is wasted
on ties. Categories are put in the order of their rows' mean score. The score is one more column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import MISSING, N_CODES, N_EDGES, Bytes
from epiloss._threads import ALONE, Workers
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features

_MOST_SAMPLED, _LEAST_SAMPLED, _VALUES = 4_096, 1_024, 2**22  # rows that edges are found from
_COLUMNS = 256  # whose samples are sorted together
_ROWS = 4_096  # that a thread encodes at least
_FURTHEST = 1e-4  # of the mass, beyond which a rank is not told from the last


@dataclass(frozen=True)
class Encoding:
    """How values become codes, and what number a code stands for in a linear model.

    ``edges`` (columns, 63): a number with code ``k`` is at most edge ``k`` and above the edge before.
    The last column is the score; before it may stand the class that it is of. ``tables`` have the code
    of each category. ``values`` (columns, 64) are normal scores of the codes' ranks, with mean 0 and
    variance 1; 0 for missing values.
    """

    edges: Floats
    tables: Mapping[int, Bytes]
    values: NDArray[np.float32]

    def codes(self, features: Features, scores: Floats, claimed: Codes | None = None) -> Bytes:
        """Return the codes (columns, rows) of features, of the class if there is one, of the score."""
        return _codes(self.edges, self.tables, features, scores, claimed)


def learn_encoding(
    features: Features, scores: Floats, claimed: Codes | None = None, workers: Workers = ALONE
) -> tuple[Encoding, Bytes]:
    """Find codes for rows without looking at labels; return them too.

    ``claimed`` is the class of which a row's score is, where that differs.
    """
    n, d = len(scores), features.n_columns
    rows = _sample(n, d)
    edges = np.full((d + 1 + (claimed is not None), N_EDGES), np.inf)
    some = features.take(rows)

    def find_edges(first: int) -> None:
        last = min(first + _COLUMNS, d)
        values = np.stack([column.astype(np.float64) for column in some.columns(first, last)])
        edges[first:last] = edges_of(values)

    workers.run(find_edges, range(0, d, _COLUMNS))
    edges[-1] = edges_of(scores[rows][None])[0]
    tables = {}
    for j in features.categories:
        edges[j], tables[j] = np.inf, _ordered_codes(features.column(j), scores)
    if claimed is not None:
        tables[d] = _ordered_codes(claimed.astype(float), scores)
    codes = _codes(edges, tables, features, scores, claimed, workers)
    return Encoding(edges, tables, np.stack([_normal_scores(column) for column in codes])), codes


def _sample(n: int, d: int) -> Codes:
    """Return rows that edges are found from, the same for the same numbers."""
    size = int(np.clip(_VALUES // max(d, 1), _LEAST_SAMPLED, _MOST_SAMPLED))
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def _codes(
    edges: Floats,
    tables: Mapping[int, Bytes],
    features: Features,
    scores: Floats,
    claimed: Codes | None,
    workers: Workers = ALONE,
) -> Bytes:
    n, d = len(scores), features.n_columns
    codes = np.empty((len(edges), n), np.uint8)
    rows = features.source_rows()

    def encode(part: tuple[slice, slice]) -> None:
        columns, some = part
        ends = np.array([0, some.stop - some.start])
        own = np.ascontiguousarray(edges[None, columns])
        kernel().encode(features.values(columns), rows[some], ends, own, codes[columns, some])

    size = max(-(-n // workers.n), _ROWS)
    parts = [slice(first, min(first + size, n)) for first in range(0, n, size)]
    workers.run(encode, product(features.column_blocks(), parts))
    write_codes(scores, edges[-1], codes[-1:])
    for j, table in tables.items():
        column = features.column(j) if j < d or claimed is None else claimed.astype(float)
        missing = np.isnan(column)
        category = np.minimum(np.where(missing, 0, column).astype(np.int64), len(table) - 1)
        codes[j] = np.where(missing, MISSING, table[category])
    return codes


def write_codes(values: Floats, edges: Floats, codes: Bytes) -> None:
    """Write the codes of numbers that are cut at edges, in a line (1, rows)."""
    n = len(values)
    kernel().encode((values,), np.arange(n), np.array([0, n]), edges.reshape(1, 1, -1), codes)


def edges_of(values: Floats) -> Floats:
    """Return the edges (columns, 63) of values (columns, rows)."""
    values = np.sort(values, axis=1)
    if values.shape[1] < 2:
        return np.full((len(values), N_EDGES), np.inf)
    edges: Floats = kernel().edges_among(values)
    mass = values.shape[1] / N_EDGES
    tied = (values[:, int(mass) :] == values[:, : -int(mass) or None]).any(axis=1) if mass >= 1 else []
    for j in np.flatnonzero(tied):
        edges[j] = tie_aware_edges(values[j])
    return edges


def tie_aware_edges(ordered: Floats) -> Floats:
    """Return up to 62 numbers between sorted values, no two of them between the same two.

    Each code in turn takes its part of the rows that are left, at least one value; values that many rows
    share use up a code and no more.

    Examples
    --------
    >>> values = np.sort(np.concatenate([np.zeros(900), np.arange(1.0, 101.0)]))
    >>> edges = tie_aware_edges(values)
    >>> float(edges[0]), int(np.isfinite(edges).sum())
    (0.5, 62)
    """
    edges = np.full(N_EDGES, np.inf)
    distinct, count = np.unique(ordered[~np.isnan(ordered)], return_counts=True)
    if len(distinct) <= N_EDGES:
        edges[: max(len(distinct) - 1, 0)] = (distinct[1:] + distinct[:-1]) / 2
        return edges
    below = np.cumsum(count)
    total, done, place = int(below[-1]), 0, 0
    for k in range(N_EDGES - 1):
        wanted = done + (total - done) / (N_EDGES - k)
        found = max(int(np.searchsorted(below, wanted)), place)
        if found > place and wanted - below[found - 1] < below[found] - wanted:
            found -= 1  # which is nearer
        found = min(found, len(distinct) - 2)
        edges[k] = distinct[found] / 2 + distinct[found + 1] / 2
        done, place = int(below[found]), found + 1
        if place > len(distinct) - 2:
            break
    return edges


def _ordered_codes(column: Floats, scores: Floats) -> Bytes:
    """Return the code of each category, and last that of unknown ones.

    Categories are in the order of their mean score; where there are many, neighbours share a code.
    """
    present = ~np.isnan(column)
    category = column[present].astype(np.int64)
    n = int(category.max(initial=-1)) + 1
    count = np.bincount(category, minlength=n)
    mean = np.bincount(category, scores[present], n) / np.maximum(count, 1)
    order = np.lexsort((np.arange(n), np.where(count > 0, mean, 0.5)))
    codes = np.empty(n + 1, np.uint8)
    rank = np.arange(n)
    if n > N_EDGES:
        mass = np.cumsum(count[order]) - count[order] / 2
        rank = np.minimum(mass * N_EDGES / max(int(count.sum()), 1), N_EDGES - 1).astype(np.int64)
    codes[:n][order] = rank
    codes[n] = codes[order[n // 2]] if n else 0
    return codes


def _normal_scores(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the normal score of each code's rank, of mean 0 and variance 1 over the rows."""
    count = np.bincount(codes, minlength=N_CODES).astype(float)
    count[MISSING] = 0.0
    total = max(count.sum(), 1.0)
    middle = (np.cumsum(count) - count / 2) / total
    value = np.where(count > 0, ndtri(np.clip(middle, _FURTHEST, 1 - _FURTHEST)), 0.0)
    value = np.where(count > 0, value - count @ value / total, 0.0)
    spread = np.sqrt(count @ value**2 / total)
    return (value / spread if spread > 0 else np.zeros(N_CODES)).astype(np.float32)
