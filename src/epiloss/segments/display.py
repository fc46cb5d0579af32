"""What is displayed of rows, as columns that segments are told by: texts are told by their words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from epiloss.errors import DataError
from epiloss.input.features import Features
from epiloss.input.problem import Problem
from epiloss.input.row_display import Display

_WORD = re.compile(r"[^\W\d_]{3,}")
_MOST_WORDS = 60
_RARE, _COMMON = 0.01, 0.5  # shares of the texts that a word is in
_LEVELS = ("absent", "present")


def shown_features(display: Display, problem: Problem) -> Features | None:
    """Return the columns of a display as features; None where it has images alone."""
    columns = {name or "text": np.asarray(column) for name, column in display.columns.items()}
    if not columns:
        return None
    n = len(next(iter(columns.values())))
    if problem.rows is not None and n > len(problem.labels):
        columns = {name: column[problem.rows] for name, column in columns.items()}
    try:
        features = Features.read(columns)
    except DataError:  # of columns that hold neither numbers nor texts
        return None
    texts = [name for name in features.too_varied() if name in columns]
    kept = features.without(texts)
    words = {
        label: found for name in texts for label, found in word_columns(columns[name].tolist()).items()
    }
    if not words:
        return kept
    present = Features(
        tuple(words.values()), tuple(words), dict.fromkeys(range(len(words)), _LEVELS), complete=True
    )
    return present if kept is None else _joined(kept, present)


def word_columns(texts: Sequence[object]) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return a column of 0 and 1 for each word that is neither rare nor common in texts.

    Examples
    --------
    >>> list(word_columns(["late refund", "refund please", "thanks", "thank you"]))
    ['word "refund"', 'word "late"', 'word "please"', 'word "thank"', 'word "thanks"', 'word "you"']
    """
    sets = [set(_WORD.findall(str(text).lower())) for text in texts]
    count = Counter(word for one in sets for word in one)
    n = len(sets)
    fits = [word for word, k in count.items() if _RARE * n <= k <= _COMMON * n]
    chosen = sorted(fits, key=lambda word: (-count[word], word))[:_MOST_WORDS]
    return {f'word "{word}"': np.fromiter((word in one for one in sets), float, n) for word in chosen}


def _joined(first: Features, second: Features) -> Features:
    d = first.n_columns
    return Features(
        tuple(one.column(j) for one in (first, second) for j in range(one.n_columns)),
        (*first.names, *second.names),
        {**first.categories, **{d + j: levels for j, levels in second.categories.items()}},
        dtypes=first.dtypes,
    )
