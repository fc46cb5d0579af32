"""Two data sets at the door: the second is read as the first was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epiloss.errors import DataError
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem, Reading

_NAMES = ("y_true", "y_prob", "X")
_FURTHER = ("sample_weight", "clusters")


def read_two_samples(
    reference: Sequence[Any] | Mapping[str, Any],
    current: Sequence[Any] | Mapping[str, Any],
    reading: Reading,
) -> tuple[Problem, Problem]:
    """Return both problems, with the classes and the columns of the reference.

    Examples
    --------
    >>> reference = ([0, 1, 1], [0.2, 0.7, 0.4], {"site": ["a", "b", "b"], "age": [30, 40, 50]})
    >>> current = ([1, 0], [0.5, 0.5], {"age": [20, 30], "site": ["b", "c"]})
    >>> _, problem = read_two_samples(reference, current, Reading())
    >>> problem.features.names, problem.features.matrix.tolist()
    (('site', 'age'), [[1.0, 20.0], [3.0, 30.0]])
    """
    before = _read_one("reference", reference, reading, None)
    return before, _read_one("current", current, reading, before)


def _read_one(name: str, data: Any, reading: Reading, like: Problem | None) -> Problem:
    given = _by_name(name, data)
    if given.get("X") is None:
        raise DataError(
            f"the {name} data must have features, got none. Pass (y_true, y_prob, X): regions are "
            "learned from X."
        )
    try:
        return read_problem(**given, reading=reading, like=like)
    except DataError as error:
        raise DataError(f"{name} data: {error}") from None


def _by_name(name: str, data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        unknown = [key for key in data if key not in (*_NAMES, *_FURTHER)]
        missing = [key for key in _NAMES if key not in data]
        if unknown or missing:
            got = f"{unknown[0]!r}" if unknown else f"no {missing[0]!r}"
            raise DataError(
                f"the {name} data must be a mapping with {', '.join(_NAMES)} and perhaps "
                f"{' and '.join(_FURTHER)}, got {got}."
            )
        return dict(data)
    if not isinstance(data, tuple | list) or len(data) != 3:
        got = f"{len(data)} entries" if isinstance(data, tuple | list) else f"a {type(data).__name__}"
        raise DataError(
            f"the {name} data must be a tuple of three, got {got}. Pass (y_true, y_prob, X)."
        )
    return dict(zip(_NAMES, data, strict=True))
