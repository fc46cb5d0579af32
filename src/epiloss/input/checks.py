"""Reading and checking the user's arrays and data frames; no later code checks them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.errors import DataError, OptionError, Remark
from epiloss.input.arrays import (
    as_array,
    checked_scores,
    group_names,
    lacks_score,
    missing_keys,
    missing_mask,
    read_labels,
    read_weights,
    score_numbers,
)
from epiloss.input.class_columns import (
    can_be_placed,
    check_given_order,
    classes_of_columns,
    one_hot_names,
    places_of_classes,
    score_names,
)
from epiloss.input.features import HERE, Features, Place
from epiloss.input.labels import encode_labels, positive_class, read_classes
from epiloss.input.pandas_metadata import index_columns_of, index_remark
from epiloss.input.problem import OneClassError, Problem, Reading
from epiloss.input.remarks import (
    clipped_remark,
    dropped_remark,
    misaligned_remarks,
    remarks_on,
    weightless_remarks,
)
from epiloss.input.sparse import is_sparse
from epiloss.input.subgroups import columns_by_name, combined, grouped, read_subgroups
from epiloss.input.text_features import with_words

TASKS = ("binary", "top-label", "classwise", "joint")


def read_problem(
    y_true: Any,
    y_prob: Any,
    X: Any = None,
    reading: Reading = Reading(),  # noqa: B008  # frozen
    *,
    subgroups: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    like: Problem | None = None,
) -> Problem:
    """Read and check the user's data; raise an error with one sentence if something is wrong.

    All audits of rows in memory start here. With ``like``, rows are read in the same way as those of
    an earlier problem, with its task, classes and columns; a single class is then no error, and the
    remarks on the data are not repeated.
    """
    own_classes = reading.classes
    if like is not None:
        reading = reading_like(like, reading)
    raw, given = score_numbers(y_prob), as_array(y_true, "y_true")
    n = len(raw)
    _check_lengths(n, y_true=len(given) if given.ndim else None)
    rows, remarks = _complete_rows(raw, given) if reading.drop_missing else (None, [])
    if rows is not None:
        raw, given = raw[rows], given[rows]
    at = HERE if rows is None else Place(rows=rows)
    remarks += misaligned_remarks(y_prob, y_true=y_true, X=X)
    remarks += [index_remark(name) for name in index_columns_of(X)]
    columns = score_names(y_prob)
    if like is not None and own_classes is not None and not can_be_placed(columns, like.classes):
        columns = None  # as for the earlier problem, the order of the given classes counts
    outcomes = _read_outcomes(y_true, raw, given, reading, at, columns, is_like=like is not None)
    features = _read_features(X, like)
    known = read_subgroups(columns_by_name(subgroups, X, n))
    read_clusters = None if clusters is None else _read_clusters(clusters)
    weights = None if sample_weight is None else read_weights(sample_weight)
    _check_lengths(
        n,
        X=None if features is None else features.n_rows,
        subgroups=len(next(iter(known.values())).codes) if known else None,
        sample_weight=None if weights is None else len(weights),
        clusters=None if read_clusters is None else len(read_clusters),
    )
    if features is not None and not features.names:
        features = None  # a table without columns is the same as no table
    if rows is not None:
        features = None if features is None else features.take(rows)
        known = {name: groups.take(rows) for name, groups in known.items()}
        weights = None if weights is None else weights[rows]
        read_clusters = None if read_clusters is None else read_clusters[rows]
    problem = Problem(
        outcomes.task,
        outcomes.classes,
        outcomes.positive,
        outcomes.labels,
        columns_of_task(outcomes.scores, outcomes.task, outcomes.positive),
        features,
        None,
        None if weights is None else _scaled(weights),
        read_clusters,
        (*remarks, *outcomes.remarks),
        rows,
        subgroups=known,
    )
    problem = without_equal_weights(without_zero_weights(problem))
    if like is not None:
        return problem
    _check_two_classes(problem)
    problem = _with_subgroups_as_regions(with_text_features(problem))
    return problem.with_remarks(*remarks_on(problem))


@dataclass(frozen=True)
class _Outcomes:
    """Checked labels and scores, with the task and the classes."""

    task: str
    classes: tuple[Any, ...]
    positive: int
    labels: Codes
    scores: Floats
    remarks: tuple[Remark, ...]


def _read_outcomes(
    y_true: Any,
    raw: Floats,
    given: NDArray[Any],
    reading: Reading,
    at: Place,
    columns: list[str] | None,
    *,
    is_like: bool,
) -> _Outcomes:
    """Return checked labels and scores, with score columns in the order of the classes.

    ``given`` is ``y_true`` as an array without the dropped rows, and ``columns`` are the names of the
    score columns, None if they have no names.
    """
    scores, n_clipped = checked_scores(raw, at, logits=reading.logits)
    remarks = []
    if reading.logits and raw.min() >= 0 and raw.max() <= 1:
        text = "all logits lie in [0, 1]: are they probabilities already?"
        remarks.append(Remark("logits-in-unit", text))
    n_columns = 1 if scores.ndim == 1 else scores.shape[1]
    named = read_classes(reading.classes, max(n_columns, 2)) or classes_of_columns(columns, given)
    labels = read_labels(given, scores, named, at)
    names, codes = encode_labels(labels, n_columns, named)
    if reading.classes is not None and not is_like:
        check_given_order(columns, names)
        order = None
    else:
        from_labels = one_hot_names(y_true) if given.ndim == 2 and named is None else None
        order = places_of_classes(columns, from_labels or names)
        scores = scores if order is None else np.ascontiguousarray(scores[:, order])
    task, chosen = task_and_remarks(reading, names, n_columns, named if order is None else names)
    positive = positive_class(names, reading.pos_label)
    remarks += [*clipped_remark(n_clipped), *chosen]
    return _Outcomes(task, names, positive, codes, scores, tuple(remarks))


def _with_subgroups_as_regions(problem: Problem) -> Problem:
    """Use the subgroups as regions if there are no features to learn regions from."""
    if problem.features is not None or not problem.subgroups:
        return problem
    return replace(problem, groups=combined(problem.subgroups))


def reading_like(like: Problem, reading: Reading) -> Reading:
    """Return how to read more rows of a problem: its task and classes, the other options as given."""
    binary = like.task == "binary"
    return replace(
        reading,
        task=like.task,
        classes=like.classes,
        pos_label=like.classes[like.positive] if binary else None,
    )


def _read_features(X: Any, like: Problem | None) -> Features | None:
    """Return the features; with ``like``, only the columns of that problem, encoded in the same way."""
    is_none = X is None or _is_empty_mapping(X)
    if like is None:
        return None if is_none else Features.read(X)
    if like.features is None:
        return None
    if is_none:
        raise DataError(
            "X must have the columns that were used for learning, got none. Pass the features as X."
        )
    return Features.read(X, like.features)


def task_and_remarks(
    reading: Reading, names: tuple[Any, ...], n_columns: int, named: tuple[Any, ...] | None
) -> tuple[str, list[Remark]]:
    """Return the task, and remarks on the choices made for the user."""
    task, pos_label = reading.task, reading.pos_label
    if task is not None and task not in TASKS:
        raise OptionError(f"task must be one of {', '.join(map(repr, TASKS))}, got {task!r}.")
    remarks = []
    columns = "one score column" if n_columns == 1 else f"{n_columns} score columns"
    if task is None:
        task = "binary" if n_columns <= 2 else "top-label"
        text = f"task {task!r} chosen for {columns}; pass task= to change."
        remarks.append(Remark("task-chosen", text))
    texts = named is None and all(isinstance(name, str) for name in names)
    if texts and n_columns == 1 and len(names) == 2 and pos_label is None:
        raise OptionError(
            "pos_label must be given when labels are strings and there is one score column, got "
            f"labels {', '.join(map(repr, names)):.80}. Pass pos_label=, the label whose probability "
            "the score is."
        )
    plain = {(0, 1), (-1, 1), (False, True)}
    if n_columns == 1 and pos_label is None and named is None and not texts and names not in plain:
        text = f"the positive class is {names[-1]!r}, the larger one; pass pos_label= to change."
        remarks.append(Remark("positive-class-chosen", text))
    if texts and n_columns > 1:
        order = ", ".join(map(repr, names))
        text = f"the score columns are taken to be {order:.80}, in this order; pass classes= to change."
        remarks.append(Remark("class-order-chosen", text))
    if pos_label is not None and task != "binary" and n_columns > 1:
        remarks.append(Remark("pos-label-unused", f"pos_label is ignored for task {task!r}."))
    return task, remarks


def _complete_rows(
    scores: Floats, labels: NDArray[Any]
) -> tuple[NDArray[np.int64] | None, list[Remark]]:
    """Return the rows that have a score and a label, None for all, and a remark on the others."""
    missing = lacks_score(scores)
    unlabelled = missing_mask(labels)
    missing |= unlabelled if unlabelled.ndim == 1 else unlabelled.any(axis=1)
    if not missing.any():
        return None, []
    return np.flatnonzero(~missing), [dropped_remark(int(missing.sum()), len(missing))]


def with_text_features(problem: Problem) -> Problem:
    """Replace text columns by features of their words, and leave out columns of names."""
    if problem.features is None or not problem.features.too_varied():
        return problem
    found = with_words(problem.features)
    remarks = found.remarks(len(problem.labels))
    return replace(problem, features=found.features).with_remarks(*remarks)


def _is_empty_mapping(X: Any) -> bool:
    return isinstance(X, Mapping) and not is_sparse(X) and not X  # SciPy's dok_matrix is a mapping


def columns_of_task(scores: Floats, task: str, positive: int) -> Floats:
    """Return one column for the binary task, and one per class for the others."""
    if task != "binary":
        if scores.ndim == 2:
            return scores
        return np.column_stack([scores, 1 - scores] if positive == 0 else [1 - scores, scores])
    if scores.ndim == 1:
        return scores
    if scores.shape[1] != 2:
        raise OptionError(
            f"task 'binary' needs one score column, or two that sum to 1, got {scores.shape[1]}. "
            "Use task='top-label', 'classwise' or 'joint'."
        )
    return np.ascontiguousarray(scores[:, positive])


def _read_clusters(clusters: Any) -> Codes:
    values = as_array(clusters, "clusters")
    missing = missing_mask(values)
    if values.ndim == 1 and missing.any():
        raise missing_keys("clusters", missing, HERE)
    return grouped(group_names(values, "clusters")).codes


def _scaled(weights: Floats) -> Floats:
    if weights.sum() == 0:
        raise DataError("weights must not all be 0. Leave sample_weight out for equal weights.")
    return scaled_weights(weights, float(weights.max()))


def scaled_weights(weights: Floats, largest: float) -> Floats:
    """Return weights divided by a power of two so that the largest is at most 1."""
    return np.ldexp(weights, -int(np.frexp(largest)[1]))


def has_weight(weights: Floats) -> NDArray[np.bool_]:
    """Return which scaled weights are large enough for the fixed-point sums."""
    return weights >= 2.0**-40


def without_zero_weights(problem: Problem) -> Problem:
    """Leave out the rows whose weight is zero or negligible."""
    if problem.weights is None or has_weight(problem.weights).all():
        return problem
    keep = np.flatnonzero(has_weight(problem.weights))
    n_zero = int((problem.weights == 0).sum())
    remarks = weightless_remarks(n_zero, len(problem.weights) - len(keep))
    return problem.take(keep).with_remarks(*remarks)


def without_equal_weights(problem: Problem) -> Problem:
    """Drop weights that are all equal, which has the same effect as no weights."""
    weights = problem.weights
    all_equal = weights is not None and weights.min() == weights.max()
    return replace(problem, weights=None) if all_equal else problem


def _check_two_classes(problem: Problem) -> None:
    present = np.flatnonzero(np.bincount(problem.labels))
    if len(present) < 2:
        raise OneClassError(problem.classes[present[0]], len(problem.labels), problem)


def _check_lengths(n: int, **lengths: int | None) -> None:
    for name, length in lengths.items():
        if length is not None and length != n:
            raise DataError(
                f"y_prob and {name} must have the same number of rows, got {n} and {length}. "
                "Check that both come from the same rows."
            )
