"""Two data sets at the door: the second is read as the first was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epiloss.errors import DataError
from epiloss.features import Features
from epiloss.validation import Problem, read_problem


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
    return before, replace(after, features=_like(before.features, after.features))


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


def _like(reference: Features, current: Features) -> Features:
    """Return the current features with the columns and the category codes of the reference."""
    if set(reference.names) != set(current.names):
        odd = sorted(set(reference.names) ^ set(current.names))[0]
        raise DataError(
            f"X must have the same columns in both data sets, got {odd!r} in one only. "
            "Select the columns that both have."
        )
    order = [current.names.index(name) for name in reference.names]
    matrix = current.matrix[:, order]
    for column, name in enumerate(reference.names):
        old, new = reference.categories.get(column), current.categories.get(order[column])
        if (old is None and new) or (new is None and old):
            raise DataError(
                f"column {name!r} of X must be of one kind in both data sets, got numbers in one and "
                "categories in the other. Convert it to one type."
            )
        if old and new:
            known = {category: code for code, category in enumerate(old)}
            # categories that the reference does not have come after its own
            codes = np.array(
                [known.get(category, len(old) + i) for i, category in enumerate(new)], float
            )
            present = ~np.isnan(matrix[:, column])
            matrix[present, column] = codes[matrix[present, column].astype(np.int64)]
    return Features(matrix, reference.names, reference.categories)
