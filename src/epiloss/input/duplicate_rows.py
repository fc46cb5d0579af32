"""Detecting duplicate rows, which make confidence intervals too narrow.

Rows with equal scores and features need not be duplicates: if features have few values, many rows are
equal by chance. But the labels of such rows differ as often as their scores imply, whereas the labels of
duplicates never differ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import blocks
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features

_KEYS = 2**64
_ROWS, _NUMBERS = 2**13, 2**21  # rows and values in the sample, which contains all copies of a row
_BLOCK = 2**16  # rows whose keys fit in the cache
_COLUMNS = 16  # feature columns used for sampling if scores alone do not distinguish rows
_EXPECTED = 5.0  # expected number of differing labels needed to call rows duplicates
_MIN_SHARE = 0.01  # smaller shares of duplicates are reported as 0


def copied_share(labels: Codes, scores: Floats, features: Features) -> float:
    """Return the approximate share of rows that are duplicates of others; 0 if chance may explain it.

    Among neighbouring equal rows, let ``D`` be the number of pairs whose labels differ, and
    ``E = sum 2 s (1 - s)`` its expectation for independent labels. The share of duplicates is the share
    of equal rows times ``1 - D / E``.

    Examples
    --------
    >>> g = np.random.default_rng(0)
    >>> s, X = g.random(1_000), g.random((1_000, 2))
    >>> y = (g.random(1_000) < s).astype(int)
    >>> copied_share(y, s, Features.read(X))
    0.0
    >>> twice = np.tile(np.arange(1_000), 2)
    >>> copied_share(y[twice], s[twice], Features.read(X[twice]))
    0.5
    """
    rows = _sampled_rows(scores, features)
    known = scores[rows]
    if _n_repeated(_columns(known)[0]) < _MIN_SHARE * len(rows):
        return 0.0  # so few rows have equal scores that features need not be compared
    chosen = features.take(rows)
    keys = kernel().row_keys([*_columns(known), *chosen.columns(0, chosen.n_columns)])
    order = np.argsort(keys, kind="stable")
    alike = np.flatnonzero(np.diff(keys[order]) == 0)
    share = len(alike) / len(rows)
    if share < _MIN_SHARE:
        return 0.0
    label, other = labels[rows][order[alike]], labels[rows][order[alike + 1]]
    p = known[order[alike]]
    expected = float((2 * p * (1 - p)).sum() if p.ndim == 1 else (1 - (p**2).sum(axis=1)).sum())
    differ = int((label != other).sum())
    if expected < _EXPECTED or differ > expected / 2:
        return 0.0
    found = share * (1 - differ / expected)
    return found if found >= _MIN_SHARE else 0.0


def _n_repeated(values: NDArray[np.float64]) -> int:
    return int((np.diff(np.sort(values)) == 0).sum())


def _sampled_rows(scores: Floats, features: Features) -> Codes:
    """Sample rows by a hash of their scores and, if scores have few values, also of features."""
    n = len(scores)
    wanted = min(_ROWS, max(_NUMBERS // features.n_columns, 256))
    if n <= wanted:
        return np.arange(n)
    columns = _columns(scores)
    rows = _sampled_by_key(columns, wanted)
    if not wanted / 2 < len(rows) < 2 * wanted:
        some = [features.column(j) for j in range(min(features.n_columns, _COLUMNS))]
        rows = _sampled_by_key([*columns, *some], wanted)
    if len(rows) < wanted / 2:  # there are so few distinct rows that the first rows will do
        rows = np.arange(n)
    return rows[: 4 * wanted]


def _sampled_by_key(columns: list[NDArray[np.float64]], wanted: int) -> Codes:
    """Return the rows with the smallest keys, about as many as wanted."""
    n = len(columns[0])
    limit = np.uint64(wanted * _KEYS // n)
    keys = (kernel().row_keys([column[some] for column in columns]) for some in blocks(n, _BLOCK))
    return np.concatenate(
        [start * _BLOCK + np.flatnonzero(own <= limit) for start, own in enumerate(keys)]
    )


def _columns(scores: Floats) -> list[NDArray[np.float64]]:
    return [scores] if scores.ndim == 1 else list(np.ascontiguousarray(scores.T))
