"""Usual names of the columns of correctness and confidence in files of answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# in order of priority; case, spaces, hyphens and underscores are ignored
CORRECT = (
    "correct", "is_correct", "was_correct", "answer_correct", "correctness", "acc", "accuracy",
    "exact_match",
)  # fmt: skip
CONFIDENCE = (
    "confidence", "conf", "confidence_score", "model_confidence", "answer_confidence", "probability",
    "prob", "answer_probability", "p_correct", "p_true",
)  # fmt: skip


def plain(name: Any) -> str:
    """Return a name in lower case without spaces, hyphens and underscores.

    Examples
    --------
    >>> plain("Is Correct"), plain("is-correct")
    ('iscorrect', 'iscorrect')
    """
    return "".join(character for character in str(name).lower() if character not in " _-")


def find_name(names: Iterable[str], wanted: Iterable[str]) -> str | None:
    """Return the first wanted name that occurs, as it is spelled in ``names``; None if none does."""
    known: dict[str, str] = {}
    for name in names:
        known.setdefault(plain(name), name)
    return next((known[plain(one)] for one in wanted if plain(one) in known), None)


def first_of(values: Mapping[str, Any], wanted: Iterable[str]) -> Any:
    """Return the value of the first wanted name that occurs; None if none does."""
    name = find_name(values, wanted)
    return None if name is None else values[name]
