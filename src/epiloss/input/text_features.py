"""Text columns among the features: they are replaced by features of their words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epiloss._typing import Codes
from epiloss.errors import Remark
from epiloss.input.datetimes import look_like_dates
from epiloss.input.features import Features
from epiloss.input.remarks import varied_remarks
from epiloss.input.sparse import SparseColumns
from epiloss.input.text import WORD, are_texts, frequent_words, text_columns, text_of


@dataclass(frozen=True)
class TextFeatures:
    """Features in which text columns are replaced by features of their words.

    ``words`` are the words of each text column, ``left_out`` the columns that hold names, with their
    numbers of distinct values. ``dates`` are those of them whose values look like dates.
    """

    features: Features | None
    words: Mapping[str, tuple[str, ...]]
    left_out: Mapping[str, int]
    dates: frozenset[str] = frozenset()

    def remarks(self, n_rows: int) -> list[Remark]:
        """Return remarks on the columns that were read as text, and on those that were left out."""
        as_words = [
            Remark(
                "texts-as-words",
                f"column {name!r} holds text: {_described(words)}.",
            )
            for name, words in self.words.items()
        ]
        return [*as_words, *varied_remarks(self.left_out, n_rows, self.dates)]


def _described(words: Sequence[str]) -> str:
    if not words:
        return "its only feature is its number of words, as no word is frequent and not in all texts"
    said = "whether each text contains a frequent word"
    if len(words) > 1:
        said = f"which of {len(words)} frequent words each text contains"
    return f"its features are {said}, and its number of words"


def with_words(features: Features, *, keep: bool = False) -> TextFeatures:
    """Replace text columns by features of their words; leave out columns of names unless ``keep``.

    A column with too many distinct values is text if these have three words or more on average, and
    holds names otherwise, unless most rows have one of its frequent values. Sparse features have no text
    columns.
    """
    varied = features.too_varied()
    place = {name: j for j, name in enumerate(features.names)}
    texts = {
        name: (features.categories[place[name]], _codes(features, place[name]))
        for name in varied
        if not features.is_sparse and are_texts(features.categories[place[name]])
    }
    names = {} if keep else {name: n for name, n in varied.items() if name not in texts}
    left_out = {name: n for name, n in names.items() if not features.is_mostly_frequent(place[name])}
    dates = frozenset(name for name in left_out if look_like_dates(features.categories[place[name]]))
    kept = features.without([*texts, *left_out])
    words = frequent_words(texts)
    columns = {
        name: numbers
        for column, (levels, codes) in texts.items()
        for name, numbers in text_columns(column, levels, codes, words[column])
    }
    if not columns:
        return TextFeatures(kept, {}, left_out, dates)
    found = Features(
        tuple(columns.values()), tuple(columns), dtypes=word_kinds(columns, words), complete=True
    )
    return TextFeatures(found if kept is None else joined(kept, found), words, left_out, dates)


def word_kinds(names: Collection[str], words: Mapping[str, tuple[str, ...]]) -> dict[int, str]:
    """Return the kinds of word features: all columns of a text but the first, its number of words."""
    first = np.cumsum([0, *(1 + len(own) for own in words.values())])
    return {j: WORD for j in range(len(names)) if j not in set(first.tolist())}


def column_titles(names: Sequence[str], chosen: Sequence[int]) -> tuple[str, ...]:
    """Return the names of some columns; those of one text as one, and only if all are chosen.

    Examples
    --------
    >>> names = ["age", "words in title", "title contains 'not'"]
    >>> column_titles(names, [0, 1, 2]), column_titles(names, [0, 1])
    (('age', 'words of title'), ('age',))
    """
    made_of = {j: found[0] for j, name in enumerate(names) if (found := text_of(name)) is not None}
    texts = {column for j, column in made_of.items() if _is_word_feature(names[j])}
    whole = {
        column for column in texts if all(j in chosen for j, own in made_of.items() if own == column)
    }
    titles = (
        names[j] if made_of.get(j) not in texts else f"words of {made_of[j]}"
        for j in chosen
        if made_of.get(j) not in texts - whole
    )
    return tuple(dict.fromkeys(titles))


def _is_word_feature(name: str) -> bool:
    """Return whether a column says if a word occurs, as opposed to the number of words."""
    found = text_of(name)
    return found is not None and found[1] is not None


def _codes(features: Features, j: int) -> Codes:
    codes: Codes = np.nan_to_num(features.column(j), nan=-1.0).astype(np.int64)
    return codes


def joined(first: Features, second: Features) -> Features:
    """Return the columns of both, which must have the same rows and be dense."""
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
