"""Two data sets at the door: the second is read as the first was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from epiloss.errors import DataError
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem


def read_two_samples(
    reference: Sequence[Any],
    current: Sequence[Any],
    *,
    task: str | None,
    pos_label: Any,
    classes: Sequence[Any] | None,
) -> tuple[Problem, Problem]:
    """Return both problems, with the classes and the columns of the reference.

    Examples
    --------
    >>> reference = ([0, 1, 1], [0.2, 0.7, 0.4], {"site": ["a", "b", "b"], "age": [30, 40, 50]})
    >>> current = ([1, 0], [0.5, 0.5], {"age": [20, 30], "site": ["b", "c"]})
    >>> _, problem = read_two_samples(reference, current, task=None, pos_label=None, classes=None)
    >>> problem.features.names, problem.features.matrix.tolist()
    (('site', 'age'), [[1.0, 20.0], [3.0, 30.0]])
    """
    before = _read_one("reference", reference, task, pos_label, classes)
    positive = before.classes[before.positive] if before.task == "binary" else None
    after = _read_one("current", current, before.task, positive, before.classes)
    assert before.features is not None  # as is checked on reading
    assert after.features is not None
    return before, replace(after, features=after.features.like(before.features))


def _read_one(
    name: str, data: Sequence[Any], task: str | None, pos_label: Any, classes: Sequence[Any] | None
) -> Problem:
    if not isinstance(data, tuple | list) or len(data) != 3:
        got = f"{len(data)} entries" if isinstance(data, tuple | list) else f"a {type(data).__name__}"
        raise DataError(
            f"the {name} data must be a tuple of three, got {got}. Pass (y_true, y_prob, X)."
        )
    y_true, y_prob, X = data
    options = {"task": task, "pos_label": pos_label, "classes": classes}
    try:
        problem = read_problem(y_true, y_prob, X, groups=None, sample_weight=None, **options)
    except DataError as error:
        raise DataError(f"{name} data: {error}") from None
    if problem.features is None:
        raise DataError(
            f"the {name} data must have features, got none. Pass (y_true, y_prob, X): regions are "
            "learned from X."
        )
    return problem
