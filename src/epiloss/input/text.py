"""Features of text columns: whether a text contains frequent words, and its number of words.

Words are chosen by their number of rows, without using labels, so that equal rows give equal words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes
from epiloss.input.values import is_missing

WORD = "word"  # the kind of a column that says whether a text contains a word
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_MAX_WORDS = 100  # of all text columns together
_MIN_ROWS, _MIN_SHARE = 20, 0.01  # of the rows with a word, and of the rows without it
_MAX_TEXT, _MAX_WORD = 50_000, 40  # characters; the rest of a text and longer words are ignored
_SENTENCE = 3.0  # values with fewer words on average are names, not text
_INSPECTED = 1_000  # values that decide whether a column is text
_CONTAINS, _COUNT = " contains '", "words in "

Numbers = NDArray[np.float32]


def word_name(column: str, word: str) -> str:
    """Return the name of the feature that says whether a text contains a word."""
    return f"{column}{_CONTAINS}{word}'"


def length_name(column: str) -> str:
    """Return the name of the feature that counts the words of a text."""
    return f"{_COUNT}{column}"


def absence(name: str) -> str:
    """Return the description of rows whose text does not contain the word of a feature.

    Examples
    --------
    >>> absence(word_name("question", "not"))
    "question does not contain 'not'"
    """
    column, _, word = name.rpartition(_CONTAINS)
    return f"{column} does not contain '{word}"


def text_of(name: str) -> tuple[str, str | None] | None:
    """Return the text column of a feature and its word (None for the number of words), or None.

    Examples
    --------
    >>> text_of("question contains 'not'"), text_of("words in question"), text_of("age")
    (('question', 'not'), ('question', None), None)
    """
    column, found, word = name.rpartition(_CONTAINS)
    if found and word.endswith("'"):
        return column, word[:-1]
    return (name.removeprefix(_COUNT), None) if name.startswith(_COUNT) else None


def words_of(text: Any) -> list[str]:
    """Return the words of a text in lower case; an empty list if it is missing.

    Examples
    --------
    >>> words_of("Which of these is NOT a prime? (1999)")
    ['which', 'of', 'these', 'is', 'not', 'a', 'prime']
    """
    if is_missing(text):
        return []
    return _WORDS.findall(str(text)[:_MAX_TEXT].lower())


def are_texts(levels: Sequence[str]) -> bool:
    """Return whether distinct values are texts of several words, not names or codes.

    Examples
    --------
    >>> are_texts(["What is the capital of Peru?", "Who wrote Faust?"]), are_texts(["A1-7", "Ada King"])
    (True, False)
    """
    some = levels[:: max(len(levels) // _INSPECTED, 1)]
    return bool(some) and sum(len(words_of(one)) for one in some) >= _SENTENCE * len(some)


def frequent_words(texts: Mapping[str, tuple[Sequence[str], Codes]]) -> dict[str, tuple[str, ...]]:
    """Return the words of each column that are neither in nearly all nor in nearly no rows.

    A column is given as its distinct texts and each row's index among them, -1 for missing. At most a
    hundred words of all columns together are kept: those that split the rows most evenly.

    Examples
    --------
    >>> frequent_words({"question": (["is it not so?", "is it so?"], np.arange(100) % 2)})
    {'question': ('not',)}
    """
    found: list[tuple[int, str, str]] = []
    for column, (levels, codes) in texts.items():
        n = len(codes)
        least = max(_MIN_ROWS, _MIN_SHARE * n)
        for word, count in _row_counts(levels, codes).items():
            if least <= count <= n - least and len(word) <= _MAX_WORD:
                found.append((-min(count, n - count), column, word))
    kept = sorted(found)[:_MAX_WORDS]
    return {column: tuple(sorted(word for _, own, word in kept if own == column)) for column in texts}


def _row_counts(levels: Sequence[str], codes: Codes) -> Counter[str]:
    """Return the number of rows whose text contains each word."""
    counts: Counter[str] = Counter()
    rows = np.bincount(codes[codes >= 0], minlength=len(levels)).tolist()
    for text, n in zip(levels, rows, strict=True):
        words = set(words_of(text))
        if n == 1:
            counts.update(words)
        else:
            for word in words:
                counts[word] += n
    return counts


def text_columns(
    column: str, levels: Sequence[str], codes: Codes, words: Sequence[str]
) -> Iterator[tuple[str, Numbers]]:
    """Yield name and values of the features of a text: its number of words, and whether it has each.

    A missing text has no words.
    """
    place = {word: at for at, word in enumerate(words)}
    present = np.zeros((len(words), len(levels) + 1), np.float32)  # the last column is for code -1
    lengths = np.zeros(len(levels) + 1, np.float32)
    for level, text in enumerate(levels):
        found = words_of(text)
        lengths[level] = len(found)
        for word in place.keys() & set(found):
            present[place[word], level] = 1
    yield length_name(column), lengths[codes]
    for word, numbers in zip(words, present, strict=True):
        yield word_name(column, word), numbers[codes]


def as_levels(values: Iterable[Any]) -> tuple[list[str], Codes]:
    """Return the sorted distinct strings, and the index of each value among them; -1 for missing.

    Examples
    --------
    >>> as_levels(["b", None, "a", "b"])
    (['a', 'b'], array([ 1, -1,  0,  1]))
    """
    texts = [None if is_missing(value) else str(value) for value in values]
    levels = sorted({text for text in texts if text is not None})
    place: dict[str | None, int] = {text: at for at, text in enumerate(levels)}
    place[None] = -1
    return levels, np.fromiter((place[text] for text in texts), np.int64, len(texts))
