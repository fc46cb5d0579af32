"""What people call the columns of answers: the confidence in them, and whether they were right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# in the order in which they are looked for; case, blanks, hyphens and underscores do not matter
CORRECT = (
    "correct", "is_correct", "was_correct", "answer_correct", "correctness", "acc", "accuracy",
    "exact_match",
)  # fmt: skip
CONFIDENCE = (
    "confidence", "conf", "confidence_score", "model_confidence", "answer_confidence", "probability",
    "prob", "answer_probability", "p_correct", "p_true",
)  # fmt: skip


def plain(name: Any) -> str:
    """Return a name without case, blanks, hyphens and underscores.

    Examples
    --------
    >>> plain("Is Correct"), plain("is-correct")
    ('iscorrect', 'iscorrect')
    """
    return "".join(sign for sign in str(name).lower() if sign not in " _-")


def find_name(names: Iterable[str], wanted: Iterable[str]) -> str | None:
    """Return the first of the wanted names that there is, as it is written."""
    known: dict[str, str] = {}
    for name in names:
        known.setdefault(plain(name), name)
    return next((known[plain(one)] for one in wanted if plain(one) in known), None)


def first_of(values: Mapping[str, Any], wanted: Iterable[str]) -> Any:
    """Return the value of the first of the wanted names that there is."""
    name = find_name(values, wanted)
    return None if name is None else values[name]
