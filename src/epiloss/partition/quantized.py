"""Features as one-byte codes: quantile bins within each level set, and one code per category."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import CATEGORY, MISSING, N_EDGES, RARE
from epiloss._threads import Workers
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features
from epiloss.input.sparse import SparseColumns

SAMPLE = 512  # number of rows of a level set from which its edges are computed
_COLUMNS, _ROWS = 256, 16_384  # size of the blocks that are processed at a time
_FEW = 128  # with fewer columns, several level sets are sorted together


@dataclass(frozen=True)
class CodedFeatures:
    """The codes (columns, rows) of learning rows, sorted by level set, and the meaning of the codes.

    ``edges`` has shape (level sets, columns, 63): a number with code ``k`` is at most edge ``k`` and
    above edge ``k - 1``. ``categories`` maps each categorical column to the category of each code.
    """

    codes: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    edges: Floats
    categories: Mapping[int, Codes]

    def threshold(self, level_set: Codes, feature: Codes, code: Codes) -> Floats:
        """Return the number or category with which splits at these codes compare values."""
        values = self.edges[level_set, feature, np.minimum(code, N_EDGES - 1)]
        for column, names in self.categories.items():
            here = feature == column
            known = np.append(names.astype(float), np.nan)
            values[here] = known[np.minimum(code[here], len(names))]
        return values


def coded(features: Features, rows: Codes, starts: Codes, workers: Workers) -> CodedFeatures:
    """Encode rows; those of level set ``s`` are ``rows[starts[s] : starts[s + 1]]``."""
    n_level_sets, d = len(starts) - 1, features.n_columns
    edges = np.full((n_level_sets, d, N_EDGES), np.inf)
    codes = np.empty((d, len(rows)), np.uint8)
    loops = kernel()

    def find_edges(some: tuple[int, int]) -> None:
        first, last = some
        samples = [_sample(rows[starts[s] : starts[s + 1]]) for s in range(first, last)]
        edges[first:last] = _edges(features, samples)

    def encode(part: tuple[slice, Codes, slice]) -> None:
        some, ends, columns = part
        inside = slice(ends[0], ends[-1])
        loops.encode(
            features.values(columns),
            features.source_rows(rows[inside]),
            ends - ends[0],
            np.ascontiguousarray(edges[some, columns]),
            codes[columns, inside],
        )

    blocks = features.column_blocks()
    parts = [(slice(0, n_level_sets), starts, columns) for columns in blocks]
    # For few rows, the overhead of the calls would outweigh the work.
    if workers.n > 1 and len(rows) > _ROWS and len(blocks) == 1:
        parts = [
            (slice(s, s + 1), np.array(part), blocks[0])
            for s, ends in enumerate(pairwise(starts.tolist()))
            for part in _ranges(*ends, _ROWS)
        ]
    workers.run(find_edges, _ranges(0, n_level_sets, max(_FEW // max(d, 1), 1)))
    workers.run(encode, parts)
    kinds = np.zeros(d, np.uint8)
    categories = {}
    for j in features.categories:
        kinds[j] = CATEGORY
        codes[j], categories[j] = _category_codes(features.take(rows).column(j))
    return CodedFeatures(codes, kinds, edges, categories)


def _ranges(first: int, last: int, most: int) -> list[tuple[int, int]]:
    return [(start, min(start + most, last)) for start in range(first, last, most)]


def _sample(rows: Codes) -> Codes:
    """Return a random sample of rows, with a fixed seed; evenly spaced rows could follow a pattern."""
    if len(rows) <= SAMPLE:
        return rows
    return rows[np.random.default_rng(0).choice(len(rows), SAMPLE, replace=False)]


def quantile_edges(values: NDArray[Any]) -> Floats:
    """Return up to 62 edges between the values (..., rows) of each column, padded with infinity.

    A column with few distinct values has an edge between any two of them.

    Examples
    --------
    >>> quantile_edges(np.array([[1.0, 3.0, np.nan, 1.0]]))[0, :2].tolist()
    [2.0, inf]
    """
    return _edges_among(np.sort(values, axis=-1))


def _edges_among(ordered: NDArray[Any]) -> Floats:
    """Return the quantile edges of sorted values (..., rows)."""
    if ordered.shape[-1] < 2:
        return np.full((*ordered.shape[:-1], N_EDGES), np.inf)
    edges: Floats = kernel().edges_among(ordered)
    return edges


def _edges(features: Features, samples: Sequence[Codes]) -> Floats:
    """Return the edges (samples, columns, 63) in the precision of the columns."""
    if features.is_sparse:  # only the samples are made dense
        chosen = features.take(np.concatenate(samples))
        ends = np.cumsum([len(sample) for sample in samples])
        features, samples = chosen, np.split(np.arange(ends[-1]), ends[:-1])
    else:
        samples = [features.source_rows(sample) for sample in samples]
    edges = []
    for block in _blocks(features):
        values = kernel().gather(block, samples)
        values.sort(axis=-1)
        edges.append(_edges_among(values))
    return np.concatenate(edges, axis=1)


def _blocks(features: Features) -> Iterator[NDArray[Any]]:
    """Yield blocks of values (rows, columns) that are sorted together."""
    source = features.source
    if isinstance(source, tuple):
        yield from (column[:, None] for column in source)
        return
    for first, last in _ranges(0, features.n_columns, _COLUMNS):
        if isinstance(source, SparseColumns):
            yield source.columns(first, last, features.rows)
        else:
            yield source[:, first:last]


def _category_codes(values: Floats) -> tuple[NDArray[np.uint8], Codes]:
    """Return the codes of categories, and the most frequent categories, which have their own codes."""
    missing = np.isnan(values)
    category = np.where(missing, 0, values).astype(np.int64)
    count = np.bincount(category[~missing])
    frequent = np.sort(np.argsort(-count, kind="stable")[:RARE])
    table = np.full(max(len(count), 1), RARE, np.uint8)
    table[frequent] = np.arange(len(frequent))
    return np.where(missing, MISSING, table[category]).astype(np.uint8), frequent
