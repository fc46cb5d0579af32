"""The door: raw input -> checked arrays. Nothing behind it checks again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.errors import DataError, OptionError
from epiloss.input.arrays import (
    ROUNDING,
    as_array,
    checked_scores,
    group_names,
    is_lacking,
    lacks_score,
    missing_keys,
    read_labels,
    read_weights,
    score_numbers,
)
from epiloss.input.duplicate_rows import copied_share
from epiloss.input.features import HERE, Features, Place
from epiloss.input.labels import encode_labels, positive_class, read_classes
from epiloss.input.pandas_metadata import index_columns_of, index_remark
from epiloss.input.problem import Groups, OneClassError, Problem

TASKS = ("binary", "top-label", "classwise", "joint")
_FIRST = 256  # rows that are looked at to see whether a column can be the label
_UNEVEN = 0.1  # weights by which rows count as so small a part of them are remarked on


def read_problem(
    y_true: Any,
    y_prob: Any,
    X: Any,
    *,
    task: str | None,
    groups: Any,
    sample_weight: Any,
    pos_label: Any,
    classes: Sequence[Any] | None,
    clusters: Any = None,
    drop_missing: bool = False,
    logits: bool = False,
    leave_out_names: bool = False,
) -> Problem:
    """Check everything that the user brings, and say in one sentence what is wrong.

    ``leave_out_names`` leaves out columns of texts that tell rows apart.
    """
    raw, given = score_numbers(y_prob), as_array(y_true, "y_true")
    n = len(raw)
    _check_lengths(n, y_true=len(given) if given.ndim else None)
    rows, remarks = _present(raw, given) if drop_missing else (None, [])
    if rows is not None:
        raw, given = raw[rows], given[rows]
    at = HERE if rows is None else Place(rows=rows)
    remarks += misaligned_remarks(y_prob, y_true=y_true, X=X)
    remarks += [index_remark(name) for name in index_columns_of(X)]
    scores, clipped = checked_scores(raw, at, logits=logits)
    if logits and raw.min() >= 0 and raw.max() <= 1:
        remarks.append("all logits lie in [0, 1]: are they probabilities already?")
    n_columns = 1 if scores.ndim == 1 else scores.shape[1]
    named = read_classes(classes, max(n_columns, 2))
    labels = read_labels(given, scores, named, at)
    names, codes = encode_labels(labels, n_columns, named)
    task, chosen = task_and_remarks(task, names, n_columns, pos_label, named)
    positive = positive_class(names, pos_label)
    features = None if X is None or _is_empty_mapping(X) else Features.read(X)
    read_groups = None if groups is None else _read_groups(groups, "groups")
    read_clusters = None if clusters is None else _read_clusters(clusters)
    weights = None if sample_weight is None else read_weights(sample_weight)
    _check_lengths(
        n,
        X=None if features is None else features.n_rows,
        groups=None if read_groups is None else len(read_groups.codes),
        sample_weight=None if weights is None else len(weights),
        clusters=None if read_clusters is None else len(read_clusters),
    )
    if features is not None and not features.names:
        features = None  # a table without columns tells nothing
    if rows is not None:
        features = None if features is None else features.take(rows)
        read_groups = None if read_groups is None else Groups(read_groups.codes[rows], read_groups.names)
        weights = None if weights is None else weights[rows]
        read_clusters = None if read_clusters is None else read_clusters[rows]
    problem = Problem(
        task,
        names,
        positive,
        codes,
        columns_of_task(scores, task, positive),
        features,
        read_groups,
        None if weights is None else _scaled(weights),
        read_clusters,
        (*remarks, *clipped_remark(clipped), *chosen),
        rows,
    )
    problem = _with_two_classes(without_equal_weights(without_zero_weights(problem)))
    problem = without_names(problem) if leave_out_names else problem
    return replace(problem, warnings=(*problem.warnings, *remarks_on(problem)))


def misaligned_remarks(y_prob: Any, **others: Any) -> list[str]:
    """Say where pandas objects have one index in different orders: rows are taken by their places."""
    found = []
    one: Any = getattr(y_prob, "index", None)
    for name, other in others.items():
        two: Any = getattr(other, "index", None)
        if not (hasattr(one, "equals") and hasattr(two, "equals")) or one.equals(two):
            continue
        if len(one) == len(two) and set(one) == set(two):
            found.append(
                f"{name} has the index of y_prob in another order, and rows are taken by their places: "
                "align them by .loc[y_prob.index] if they are to match."
            )
    return found


def task_and_remarks(
    task: str | None,
    names: tuple[Any, ...],
    n_columns: int,
    pos_label: Any,
    named: tuple[Any, ...] | None,
) -> tuple[str, list[str]]:
    """Return the task, and what was decided for the user."""
    if task is not None and task not in TASKS:
        raise OptionError(f"task must be one of {', '.join(map(repr, TASKS))}, got {task!r}.")
    remarks = []
    columns = "one score column" if n_columns == 1 else f"{n_columns} score columns"
    if task is None:
        task = "binary" if n_columns <= 2 else "top-label"
        remarks.append(f"task {task!r} chosen for {columns}; pass task= to change.")
    texts = named is None and all(isinstance(name, str) for name in names)
    if texts and n_columns == 1 and len(names) == 2 and pos_label is None:
        raise OptionError(
            f"with one score column and labels that are texts, {', '.join(map(repr, names)):.80}, it "
            "must be said whose probability the score is. Pass pos_label=, one of the two."
        )
    plain = {(0, 1), (-1, 1), (False, True)}
    if n_columns == 1 and pos_label is None and named is None and not texts and names not in plain:
        remarks.append(f"the positive class is {names[-1]!r}, the larger; pos_label= changes it.")
    if texts and n_columns > 1:
        order = ", ".join(map(repr, names))
        remarks.append(f"the score columns are of {order:.80}, in this order; classes= changes it.")
    if pos_label is not None and task != "binary" and n_columns > 1:
        remarks.append(f"pos_label has no part in task {task!r}.")
    return task, remarks


def _present(scores: Floats, labels: NDArray[Any]) -> tuple[NDArray[np.int64] | None, list[str]]:
    """Return the rows that have a score and a label, and what to say of the others."""
    missing = lacks_score(scores)
    lacking = is_lacking(labels)
    missing |= lacking if lacking.ndim == 1 else lacking.any(axis=1)
    if not missing.any():
        return None, []
    return np.flatnonzero(~missing), [dropped_remark(int(missing.sum()), len(missing))]


def dropped_remark(n: int, of: int) -> str:
    """Say how many rows were left out for want of a score or a label."""
    return f"rows without a score or a label, left out: {n:,} of {of:,}."


def clipped_remark(n: int) -> list[str]:
    """Say how many scores were clipped, if any were."""
    return [f"{n:,} scores outside [0, 1] by at most {ROUNDING:g} were clipped."] if n else []


def remarks_on(problem: Problem) -> list[str]:
    """Say what makes an audit of these rows tell less than it seems to."""
    remarks = []
    scores = problem.scores
    if len(scores) > 1 and (scores.min(axis=0) == scores.max(axis=0)).all():
        one = f"all scores are {scores[0]:.6g}" if scores.ndim == 1 else "all rows have the same scores"
        remarks.append(f"{one}: there is one level set, and no calibration curve to speak of.")
    if problem.features is not None and problem.clusters is None:
        share = copied_share(problem.labels, scores, problem.features)
        if share:
            remarks.append(
                f"about {share:.0%} of the rows are copies of others, alike in score, features and "
                "label: the grouping loss is overstated and intervals are too narrow. Drop them, or "
                "name what they belong to as clusters."
            )
    if problem.features is not None and problem.task == "binary":
        leak = told_label(problem.labels, problem.features)
        if leak is not None:
            remarks.append(
                f"column {leak!r} tells the label of every row. If it is known only with the outcome, "
                "leave it out: all that is found rests on it."
            )
    empty = [] if problem.features is None else empty_columns(problem.features)
    if empty:
        shown = f"{', '.join(map(repr, empty)):.80}"
        remarks.append(f"no row has a value in column {shown}: nothing is found there.")
    weights = problem.weights
    if weights is not None:
        count = float(weights.sum() ** 2 / (weights**2).sum())
        if count < _UNEVEN * len(weights):
            remarks.append(
                f"weights are so uneven that {len(weights):,} rows tell as much as {count:,.0f}: "
                "standard errors rest on few rows."
            )
    return remarks


def without_names(problem: Problem) -> Problem:
    """Leave out columns of texts that tell rows apart, as names do."""
    varied = {} if problem.features is None else problem.features.too_varied()
    if problem.features is None or not varied:
        return problem
    return replace(
        problem,
        features=problem.features.without(list(varied)),
        warnings=(*problem.warnings, *varied_remarks(varied, len(problem.labels))),
    )


def varied_remarks(varied: Mapping[str, int], n_rows: int) -> list[str]:
    """Say which columns of texts were left out, and why."""
    return [
        f"column {name!r} has {n:,} texts in {n_rows:,} rows, too many to learn from: left out."
        for name, n in varied.items()
    ]


def told_label(labels: Codes, features: Features) -> str | None:
    """Return the name of a column that takes two values, and with them tells the label of every row."""
    first = features.take(np.arange(min(len(labels), _FIRST))).matrix
    same = labels[: len(first)] == labels[0]
    for j in np.flatnonzero(((first == first[0]) == same[:, None]).all(axis=0)):
        values = features.column(int(j))
        one = values == values[0]
        others = values[~one]
        if len(others) and (others == others[0]).all() and (one == (labels == labels[0])).all():
            return features.names[j]
    return None


def empty_columns(features: Features) -> list[str]:
    """Return the names of columns in which every value is missing."""
    if features.complete or not features.n_rows:
        return []
    first = features.take(np.arange(min(features.n_rows, _FIRST))).matrix
    maybe = np.flatnonzero(np.isnan(first).all(axis=0)).tolist()
    return [features.names[j] for j in maybe if np.isnan(features.column(j)).all()]


def _is_empty_mapping(X: Any) -> bool:
    return isinstance(X, Mapping) and not X


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
            f"task 'binary' needs one score column or two that sum to one, got {scores.shape[1]}. "
            "Use task='top-label', 'classwise' or 'joint'."
        )
    return np.ascontiguousarray(scores[:, positive])


def _read_groups(groups: Any, what: str) -> Groups:
    names = group_names(groups, what)
    distinct, codes = np.unique(names, return_inverse=True)
    return Groups(codes.astype(np.int64), tuple(str(name) for name in distinct))


def _read_clusters(clusters: Any) -> Codes:
    values = as_array(clusters, "clusters")
    missing = is_lacking(values)
    if values.ndim == 1 and missing.any():
        raise missing_keys("clusters", missing, HERE)
    return _read_groups(values, "clusters").codes


def _scaled(weights: Floats) -> Floats:
    if weights.sum() == 0:
        raise DataError("weights must not all be 0. Leave sample_weight out for equal weights.")
    return scaled_weights(weights, float(weights.max()))


def scaled_weights(weights: Floats, largest: float) -> Floats:
    """Return weights divided by a power of two, such that the largest is at most 1."""
    return np.ldexp(weights, -int(np.frexp(largest)[1]))


def counts(weights: Floats) -> NDArray[np.bool_]:
    """Tell which scaled weights are more than the least that sums can hold."""
    return weights >= 2.0**-40


def without_zero_weights(problem: Problem) -> Problem:
    """Leave out the rows that do not count."""
    if problem.weights is None or counts(problem.weights).all():
        return problem
    keep = np.flatnonzero(counts(problem.weights))
    n_zero = int((problem.weights == 0).sum())
    return replace(
        problem.take(keep),
        warnings=(*problem.warnings, *weightless_remarks(n_zero, len(problem.weights) - len(keep))),
    )


def without_equal_weights(problem: Problem) -> Problem:
    """Forget weights that are all the same: they say no more than none."""
    weights = problem.weights
    is_even = weights is not None and weights.min() == weights.max()
    return replace(problem, weights=None) if is_even else problem


def weightless_remarks(n_zero: int, n: int) -> list[str]:
    """Say how many rows have no weight, and how many next to none."""
    remarks = [f"rows of weight 0, left out: {n_zero:,}."] if n_zero else []
    if n > n_zero:
        remarks.append(f"rows of next to no weight beside the largest one, left out: {n - n_zero:,}.")
    return remarks


def _with_two_classes(problem: Problem) -> Problem:
    present = np.flatnonzero(np.bincount(problem.labels))
    if len(present) < 2:
        raise OneClassError(problem.classes[present[0]], len(problem.labels), problem)
    return problem


def _check_lengths(n: int, **lengths: int | None) -> None:
    for name, length in lengths.items():
        if length is not None and length != n:
            raise DataError(
                f"y_prob and {name} must have the same number of rows, got {n} and {length}. "
                "Check that both come from the same rows."
            )
