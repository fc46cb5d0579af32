"""Encode features and score as one-byte codes, once and without labels, for all models.

Numbers are binned at quantiles. A value that many rows share gets a code of its own, so that ties do not
waste codes. Categories are ordered by the mean score of their rows. The score is one more column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import MISSING, N_CODES, N_EDGES, Bytes
from epiloss._threads import ALONE, Workers
from epiloss._typing import Codes, Floats
from epiloss.estimation.learning.levels import Levels, levels_of, numbers_of_levels
from epiloss.input.features import Features

# Edges are found from a sample of the rows: at most about 2^22 values in all columns together, to bound
# memory and time, but between 1,024 and 4,096 rows, so that a code has 16 of them or more.
_MAX_SAMPLE_VALUES = 2**22
_MIN_SAMPLE_ROWS, _MAX_SAMPLE_ROWS = 1_024, 4_096
# Number of columns whose samples are sorted in one call, as a compromise between memory and overhead.
_COLUMNS_PER_BLOCK = 256
# Minimum number of rows that a thread encodes; with fewer, starting a thread is not worth its cost.
_MIN_ROWS_PER_THREAD = 4_096
# Ranks are clipped to this distance from 0 and 1, because their normal scores would be infinite there.
_RANK_MARGIN = 1e-4


@dataclass(frozen=True)
class Coded:
    """Encoded rows: the codes of all columns, and the levels of categorical columns that have many.

    ``codes`` (columns + 1, rows) end with a row for the codes of a model's own predictions.
    """

    codes: Bytes
    levels: Levels

    def take(self, rows: Codes) -> Coded:
        """Return some of the rows."""
        codes = np.empty((len(self.codes), len(rows)), np.uint8)
        np.take(self.codes, rows, axis=1, out=codes, mode="clip")
        return Coded(codes, {j: level[rows] for j, level in self.levels.items()})


@dataclass(frozen=True)
class Encoding:
    """The map from values to codes, and the number that represents each code in a linear model.

    ``edges`` (columns, 63): code ``k`` stands for the numbers above edge ``k - 1`` and up to edge ``k``.
    The last column is the score. If scores refer to different classes, the column before it is the
    class. ``tables`` map a column to the codes of its categories. ``values`` (columns, 64) are the
    normal scores of the codes' ranks, with mean 0 and variance 1, and 0 for missing values.
    """

    edges: Floats
    tables: Mapping[int, Bytes]
    values: NDArray[np.float32]

    @cached_property
    def n_levels(self) -> dict[int, int]:
        """The number of levels of each categorical column that has many."""
        return numbers_of_levels(self.tables)

    def coded(self, features: Features, scores: Floats, claimed: Codes | None = None) -> Coded:
        """Encode the features, the class if there is one, and the score."""
        codes = _encode(self.edges, self.tables, features, scores, claimed)
        return Coded(codes, levels_of(features, self.n_levels, claimed))

    def codes(self, features: Features, scores: Floats) -> Bytes:
        """Return the codes (columns, rows) of the features and the score."""
        return _encode(self.edges, self.tables, features, scores, None)[:-1]


def learn_encoding(
    features: Features, scores: Floats, claimed: Codes | None = None, workers: Workers = ALONE
) -> tuple[Encoding, Coded]:
    """Learn the encoding of features and scores without labels; return it and the encoded rows.

    ``claimed`` is the class that each row's score refers to, if these classes differ.
    """
    n, d = len(scores), features.n_columns
    rows = _sampled_rows(n, d)
    edges = np.full((d + 1 + (claimed is not None), N_EDGES), np.inf)
    sample = features.take(rows)

    def find_edges(first: int) -> None:
        last = min(first + _COLUMNS_PER_BLOCK, d)
        values = np.stack([column.astype(np.float64) for column in sample.columns(first, last)])
        edges[first:last] = edges_of(values)

    workers.run(find_edges, range(0, d, _COLUMNS_PER_BLOCK))
    edges[-1] = edges_of(scores[rows][None])[0]
    tables = {}
    for j in features.categories:
        edges[j], tables[j] = np.inf, _category_codes(features.column(j), scores)
    if claimed is not None:
        tables[d] = _category_codes(claimed.astype(float), scores)
    codes = _encode(edges, tables, features, scores, claimed, workers)
    values = np.stack([_normal_scores(column) for column in codes[:-1]])
    encoding = Encoding(edges, tables, values)
    return encoding, Coded(codes, levels_of(features, encoding.n_levels, claimed))


def _sampled_rows(n: int, d: int) -> Codes:
    """Return the rows from which edges are found; they depend only on the shape of the features."""
    size = int(np.clip(_MAX_SAMPLE_VALUES // max(d, 1), _MIN_SAMPLE_ROWS, _MAX_SAMPLE_ROWS))
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def _encode(
    edges: Floats,
    tables: Mapping[int, Bytes],
    features: Features,
    scores: Floats,
    claimed: Codes | None,
    workers: Workers = ALONE,
) -> Bytes:
    n, d = len(scores), features.n_columns
    codes = np.empty((len(edges) + 1, n), np.uint8)
    rows = features.source_rows()

    def encode(block: tuple[slice, slice]) -> None:
        columns, chunk = block
        ends = np.array([0, chunk.stop - chunk.start])
        block_edges = np.ascontiguousarray(edges[None, columns])
        kernel().encode(features.values(columns), rows[chunk], ends, block_edges, codes[columns, chunk])

    size = max(-(-n // workers.n), _MIN_ROWS_PER_THREAD)
    chunks = [slice(first, min(first + size, n)) for first in range(0, n, size)]
    workers.run(encode, product(features.column_blocks(), chunks))
    write_codes(scores, edges[-1], codes[-2:-1])
    for j, table in tables.items():
        column = features.column(j) if j < d or claimed is None else claimed.astype(float)
        missing = np.isnan(column)
        category = np.minimum(np.where(missing, 0, column).astype(np.int64), len(table) - 1)
        codes[j] = np.where(missing, MISSING, table[category])
    return codes


def write_codes(values: Floats, edges: Floats, codes: Bytes) -> None:
    """Write the codes of numbers, binned at ``edges``, into ``codes`` (1, rows)."""
    n = len(values)
    kernel().encode((values,), np.arange(n), np.array([0, n]), edges.reshape(1, 1, -1), codes)


def edges_of(values: Floats) -> Floats:
    """Return the edges (columns, 63) of values (columns, rows)."""
    values = np.sort(values, axis=1)
    if values.shape[1] < 2:
        return np.full((len(values), N_EDGES), np.inf)
    edges: Floats = kernel().edges_among(values)
    per_code = values.shape[1] // N_EDGES
    # A value that fills more than one code shows as equal sorted values ``per_code`` rows apart.
    tied = (values[:, per_code:] == values[:, :-per_code]).any(axis=1) if per_code >= 1 else []
    for j in np.flatnonzero(tied):
        edges[j] = tie_aware_edges(values[j])
    return edges


def tie_aware_edges(ordered: Floats) -> Floats:
    """Return up to 62 edges between sorted values, at most one between two neighbouring values.

    Each code in turn gets an equal share of the remaining rows, and at least one distinct value. A value
    that many rows share therefore uses only one code.

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
    cumulative = np.cumsum(count)
    total, n_used, first = int(cumulative[-1]), 0, 0  # rows with a code, first value without one
    for k in range(N_EDGES - 1):
        wanted = n_used + (total - n_used) / (N_EDGES - k)
        last = max(int(np.searchsorted(cumulative, wanted)), first)
        if last > first and wanted - cumulative[last - 1] < cumulative[last] - wanted:
            last -= 1  # ending at the value before is closer to the wanted number of rows
        last = min(last, len(distinct) - 2)
        edges[k] = distinct[last] / 2 + distinct[last + 1] / 2
        n_used, first = int(cumulative[last]), last + 1
        if first > len(distinct) - 2:
            break
    return edges


def _category_codes(column: Floats, scores: Floats) -> Bytes:
    """Return the code of each category, followed by the code of unknown categories.

    Categories are ordered by their mean score. If there are more than 63, neighbours share a code.
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
    """Return the normal score of each code's rank, with mean 0 and variance 1 over the rows."""
    count = np.bincount(codes, minlength=N_CODES).astype(float)
    count[MISSING] = 0.0
    total = max(count.sum(), 1.0)
    middle = (np.cumsum(count) - count / 2) / total
    value = np.where(count > 0, ndtri(np.clip(middle, _RANK_MARGIN, 1 - _RANK_MARGIN)), 0.0)
    value = np.where(count > 0, value - count @ value / total, 0.0)
    spread = np.sqrt(count @ value**2 / total)
    return (value / spread if spread > 0 else np.zeros(N_CODES)).astype(np.float32)
