"""Columns of texts among the features: their words take the place of what would be names of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epiloss._typing import Codes
from epiloss.errors import Remark
from epiloss.input.features import Features
from epiloss.input.remarks import varied_remarks
from epiloss.input.sparse import SparseColumns
from epiloss.input.text import WORD, are_texts, frequent_words, text_columns, text_of


@dataclass(frozen=True)
class Worded:
    """Features with the words of texts as columns, and without names of rows.

    ``words`` are those of each column of texts, ``left_out`` are the columns of names.
    """

    features: Features | None
    words: Mapping[str, tuple[str, ...]]
    left_out: Mapping[str, int]

    def remarks(self, n_rows: int) -> list[Remark]:
        """Say which columns were read as texts, and which were left out."""
        told = [
            Remark(
                "texts-as-words",
                f"column {name!r} has texts: its features are which of {len(words)} frequent words "
                "they contain, and how many words they have.",
            )
            for name, words in self.words.items()
        ]
        return [*told, *varied_remarks(self.left_out, n_rows)]


def with_words(features: Features, *, keep: bool = False) -> Worded:
    """Return features with the words of texts; columns of names are left out unless all are to be kept.

    Texts are columns of so many values that each has few rows, of three words or more on average; what
    has fewer words are names. Sparse features keep no texts.
    """
    varied = features.too_varied()
    place = {name: j for j, name in enumerate(features.names)}
    texts = {
        name: (features.categories[place[name]], _codes(features, place[name]))
        for name in varied
        if not features.is_sparse and are_texts(features.categories[place[name]])
    }
    left_out = {} if keep else {name: n for name, n in varied.items() if name not in texts}
    kept = features.without([*texts, *left_out])
    words = frequent_words(texts)
    columns = {
        name: numbers
        for column, (levels, codes) in texts.items()
        for name, numbers in text_columns(column, levels, codes, words[column])
    }
    if not columns:
        return Worded(kept, {}, left_out)
    found = Features(
        tuple(columns.values()), tuple(columns), dtypes=word_kinds(columns, words), complete=True
    )
    return Worded(found if kept is None else joined(kept, found), words, left_out)


def word_kinds(names: Collection[str], words: Mapping[str, tuple[str, ...]]) -> dict[int, str]:
    """Return which of the columns of texts tell of words: all but the first of each text."""
    first = np.cumsum([0, *(1 + len(own) for own in words.values())])
    return {j: WORD for j in range(len(names)) if j not in set(first.tolist())}


def told_columns(names: Sequence[str], chosen: Sequence[int]) -> tuple[str, ...]:
    """Return the names of some columns; those of one text together, and only if all are chosen.

    Examples
    --------
    >>> names = ["age", "words in title", "title contains 'not'"]
    >>> told_columns(names, [0, 1, 2]), told_columns(names, [0, 1])
    (('age', 'words of title'), ('age',))
    """
    made_of = {j: found[0] for j, name in enumerate(names) if (found := text_of(name)) is not None}
    texts = {column for j, column in made_of.items() if word_is_told(names[j])}
    whole = {
        column for column in texts if all(j in chosen for j, own in made_of.items() if own == column)
    }
    told = (
        names[j] if made_of.get(j) not in texts else f"words of {made_of[j]}"
        for j in chosen
        if made_of.get(j) not in texts - whole
    )
    return tuple(dict.fromkeys(told))


def word_is_told(name: str) -> bool:
    """Tell whether a column tells of a word, and not of the number of words."""
    found = text_of(name)
    return found is not None and found[1] is not None


def _codes(features: Features, j: int) -> Codes:
    codes: Codes = np.nan_to_num(features.column(j), nan=-1.0).astype(np.int64)
    return codes


def joined(first: Features, second: Features) -> Features:
    """Return the columns of both, which have the same rows and are not sparse."""
    assert not isinstance(first.source, SparseColumns)
    d = first.n_columns
    return replace(
        first,
        source=tuple(one.column(j) for one in (first, second) for j in range(one.n_columns)),
        names=(*first.names, *second.names),
        categories={**first.categories, **{d + j: own for j, own in second.categories.items()}},
        rows=None,
        dtypes={**first.dtypes, **{d + j: kind for j, kind in second.dtypes.items()}},
        complete=first.complete and second.complete,
    )
