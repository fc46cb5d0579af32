"""Whether rows are copies of each other: then they tell less than their number, and intervals lie.

Rows that are alike in score and features need not be copies: where features take few values, many are
alike by chance. But the labels of such rows differ as often as their scores say, and those of copies
never do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import blocks
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features

_KEYS = 2**64
_ROWS, _NUMBERS = 2**13, 2**21  # that are looked at, drawn so that copies are drawn together
_BLOCK = 2**16  # rows, whose keys stay in the cache
_COLUMNS = 16  # by which they are drawn where scores alone do not tell rows apart
_EXPECTED = 5.0  # labels that should differ before much is made of their not differing
_LEAST = 0.01  # of the rows, that are worth a word


def copied_share(labels: Codes, scores: Floats, features: Features) -> float:
    """Return about which share of the rows are copies of others; 0 where chance may explain it.

    With ``D`` the neighbours among rows alike whose labels differ, and ``E = sum 2 s (1 - s)`` how many
    would if they were drawn anew, the share is that of the rows alike times ``1 - D / E``.

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
    rows = _drawn(scores, features)
    known = scores[rows]
    if _n_repeated(_columns(known)[0]) < _LEAST * len(rows):
        return 0.0  # hardly any two have the same score, not to speak of features
    chosen = features.take(rows)
    keys = kernel().row_keys([*_columns(known), *chosen.columns(0, chosen.n_columns)])
    order = np.argsort(keys, kind="stable")
    alike = np.flatnonzero(np.diff(keys[order]) == 0)
    share = len(alike) / len(rows)
    if share < _LEAST:
        return 0.0
    label, other = labels[rows][order[alike]], labels[rows][order[alike + 1]]
    p = known[order[alike]]
    expected = float((2 * p * (1 - p)).sum() if p.ndim == 1 else (1 - (p**2).sum(axis=1)).sum())
    differ = int((label != other).sum())
    if expected < _EXPECTED or differ > expected / 2:
        return 0.0
    found = share * (1 - differ / expected)
    return found if found >= _LEAST else 0.0


def _n_repeated(values: NDArray[np.float64]) -> int:
    return int((np.diff(np.sort(values)) == 0).sum())


def _drawn(scores: Floats, features: Features) -> Codes:
    """Draw rows by what they hold: by their scores, and where these are few, by features too."""
    n = len(scores)
    wanted = min(_ROWS, max(_NUMBERS // features.n_columns, 256))
    if n <= wanted:
        return np.arange(n)
    columns = _columns(scores)
    rows = _below(columns, wanted)
    if not wanted / 2 < len(rows) < 2 * wanted:
        some = [features.column(j) for j in range(min(features.n_columns, _COLUMNS))]
        rows = _below([*columns, *some], wanted)
    if len(rows) < wanted / 2:  # rows take so few values that any will do
        rows = np.arange(n)
    return rows[: 4 * wanted]


def _below(columns: list[NDArray[np.float64]], wanted: int) -> Codes:
    n = len(columns[0])
    least = np.uint64(wanted * _KEYS // n)
    keys = (kernel().row_keys([column[some] for column in columns]) for some in blocks(n, _BLOCK))
    return np.concatenate(
        [start * _BLOCK + np.flatnonzero(own <= least) for start, own in enumerate(keys)]
    )


def _columns(scores: Floats) -> list[NDArray[np.float64]]:
    return [scores] if scores.ndim == 1 else list(np.ascontiguousarray(scores.T))
