"""Reading two data sets so that they have the same classes, columns and category codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.errors import DataError
from epiloss.input.checks import read_problem
from epiloss.input.features import Features
from epiloss.input.problem import Problem, Reading
from epiloss.input.sparse import SparseColumns, stored
from epiloss.input.tasks import BinaryProblem

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
    given = by_name(name, data)
    if given.get("X") is None:
        raise DataError(
            f"the {name} data must have features, got none. Pass (y_true, y_prob, X): regions are "
            "learned from X."
        )
    try:
        return read_problem(**given, reading=reading, like=like)
    except DataError as error:
        raise DataError(f"{name} data: {error}") from None


def by_name(name: str, data: Any, further: Sequence[str] = _FURTHER) -> dict[str, Any]:
    """Return the parts of a data set by name; ``further`` are the optional parts."""
    if isinstance(data, Mapping):
        unknown = [key for key in data if key not in (*_NAMES, *further)]
        missing = [key for key in _NAMES if key not in data]
        if unknown or missing:
            got = f"{unknown[0]!r}" if unknown else f"no {missing[0]!r}"
            raise DataError(
                f"the {name} data must be a mapping with {', '.join(_NAMES)} and optionally "
                f"{', '.join(further)}, got {got}. Rename or add it."
            )
        return dict(data)
    if not isinstance(data, tuple | list) or len(data) != 3:
        got = f"{len(data)} entries" if isinstance(data, tuple | list) else type(data).__name__
        raise DataError(
            f"the {name} data must be a tuple or a mapping, got {got}. Pass (y_true, y_prob, X)."
        )
    return dict(zip(_NAMES, data, strict=True))


def pooled(first: BinaryProblem, second: BinaryProblem) -> BinaryProblem:
    """Concatenate two problems; weights are scaled to mean 1 in each, and clusters are kept apart.

    Examples
    --------
    >>> from epiloss.scoring import Brier
    >>> column = Features((np.array([1.0, 2.0]),), ("age",))
    >>> ages = np.array([0.4, 0.5]), np.array([0.0, 1.0])
    >>> one = BinaryProblem(None, *ages, Brier(), None, column, None, None)
    >>> both = pooled(one, one)
    >>> both.features.column(0).tolist(), both.scores.tolist()
    ([1.0, 2.0, 1.0, 2.0], [0.4, 0.5, 0.4, 0.5])
    """
    assert first.features is not None  # checked by read_two_samples
    assert second.features is not None
    weights = None
    if first.weights is not None or second.weights is not None:
        weights = np.concatenate([_mean_one(one) for one in (first, second)])
    clusters = None
    if first.clusters is not None or second.clusters is not None:
        own, others = (_clusters(one) for one in (first, second))
        clusters = np.concatenate([own, others + own.max(initial=-1) + 1])
    claimed = None
    if first.claimed is not None and second.claimed is not None:
        claimed = np.concatenate([first.claimed, second.claimed])
    return replace(
        first,
        scores=np.concatenate([first.scores, second.scores]),
        labels=np.concatenate([first.labels, second.labels]),
        features=_joined(first.features, second.features),
        weights=weights,
        clusters=clusters,
        claimed=claimed,
    )


def _joined(first: Features, second: Features) -> Features:
    """Concatenate the rows; categories that only the second has come after the others."""
    n = first.n_rows + second.n_rows
    columns = [np.concatenate([first.column(j), second.column(j)]) for j in range(first.n_columns)]
    categories = {}
    for j, names in first.categories.items():
        last = np.nanmax(columns[j], initial=len(names) - 1)
        new = int(last) + 1 - len(names)
        categories[j] = (*names, *(f"new category {i + 1}" for i in range(new)))
    source = SparseColumns.of(map(stored, columns), n) if first.is_sparse else tuple(columns)
    complete = first.complete and second.complete
    return Features(source, first.names, categories, dtypes=first.dtypes, complete=complete)


def _mean_one(problem: BinaryProblem) -> Floats:
    if problem.weights is None:
        return np.ones(len(problem.labels))
    return problem.weights / float(problem.weights.mean())


def _clusters(problem: BinaryProblem) -> Codes:
    return np.arange(len(problem.labels)) if problem.clusters is None else problem.clusters
