"""The door: raw input -> checked arrays. Nothing behind it checks again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import DataError, OptionError
from epiloss.features import Features, is_missing
from epiloss.levelsets import Codes
from epiloss.scoring import Floats

TASKS = ("binary", "top-label", "classwise", "joint")
_ROUNDING = 1e-6  # scores outside [0, 1] by no more are clipped
_ROW_SUM = 1e-3  # class probabilities may miss a sum of one by so much


@dataclass(frozen=True)
class Groups:
    """Groups given by the user: a code for each row, and the groups' names."""

    codes: Codes
    names: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Checked input: ``labels`` are places in ``classes``, ``scores`` are (n,) or (n, K)."""

    task: str
    classes: tuple[Any, ...]
    labels: Codes
    scores: Floats
    features: Features | None
    groups: Groups | None
    weights: Floats | None  # scaled by a power of two to at most 1
    warnings: tuple[str, ...]


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
) -> Problem:
    """Check everything that the user brings, and say in one sentence what is wrong."""
    if task is not None and task not in TASKS:
        raise OptionError(f"task must be one of {', '.join(map(repr, TASKS))}, got {task!r}.")
    scores, warnings = _read_scores(y_prob)
    labels = _read_labels(y_true, scores)
    _check_lengths(len(scores), y_true=len(labels))
    chosen = task or _task_for(scores)
    if task is None:
        columns = 1 if scores.ndim == 1 else scores.shape[1]
        warnings.append(f"task {chosen!r} chosen for {columns} score column(s); pass task= to change.")
    names, codes, notes = _encode_labels(labels, scores, pos_label, classes)
    if chosen == "binary":
        scores = _one_column(scores, names)
    elif scores.ndim == 1:
        scores = np.column_stack([1 - scores, scores])
    features = None if X is None else Features.read(X)
    read_groups = None if groups is None else _read_groups(groups)
    weights = None if sample_weight is None else _read_weights(sample_weight)
    _check_lengths(
        len(scores),
        X=None if features is None else features.n_rows,
        groups=None if read_groups is None else len(read_groups.codes),
        sample_weight=None if weights is None else len(weights),
    )
    problem = Problem(chosen, names, codes, scores, features, read_groups, weights, (*warnings, *notes))
    return _without_zero_weights(problem)


def _read_scores(y_prob: Any) -> tuple[Floats, list[str]]:
    raw = np.asarray(y_prob)
    if raw.ndim == 0 or raw.size == 0:
        raise DataError("y_prob must hold at least one row, got none. Check the input's filter.")
    if raw.ndim > 2:
        raise DataError(f"y_prob must have shape (n,) or (n, K), got {raw.shape}.")
    try:
        scores = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"scores must be numbers, got {raw.flat[0]!r} of type {type(raw.flat[0]).__name__}. "
            "Pass probabilities between 0 and 1."
        ) from None
    missing = ~np.isfinite(scores)
    if missing.any():
        raise DataError(
            f"scores must be finite, got {_first(scores, missing)} ({int(missing.sum())} in all). "
            "Drop or repair these rows first."
        )
    outside = (scores < -_ROUNDING) | (scores > 1 + _ROUNDING)
    if outside.any():
        raise DataError(
            f"scores must lie in [0, 1], got {_first(scores, outside)} ({int(outside.sum())} in "
            "all). Pass probabilities, not logits: scipy.special.expit(logits) for one column, "
            "scipy.special.softmax(logits, axis=1) for several."
        )
    warnings = []
    n_rounded = int(((scores < 0) | (scores > 1)).sum())
    if n_rounded:
        warnings.append(f"{n_rounded} scores outside [0, 1] by at most {_ROUNDING:g} were clipped.")
    scores = np.clip(scores, 0.0, 1.0)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 2:
        _check_row_sums(scores)
    return scores, warnings


def _check_row_sums(scores: Floats) -> None:
    wrong = np.abs(scores.sum(axis=1) - 1) > _ROW_SUM
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"each row of class probabilities must sum to 1, got {scores[row].sum():.4g} at row "
            f"{row} ({int(wrong.sum())} rows in all). Normalise them, or pass one column."
        )


def _read_labels(y_true: Any, scores: Floats) -> NDArray[Any]:
    labels = np.asarray(y_true)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.shape == scores.shape:
        return _from_one_hot(labels)
    if labels.ndim != 1:
        raise DataError(
            f"y_true must have one label per row, got shape {labels.shape}. "
            "Pass class labels, or one-hot rows with as many columns as y_prob."
        )
    if labels.dtype.kind in "OfcmM":
        missing = np.array([is_missing(label) for label in labels], bool)
        if missing.any():
            raise DataError(
                f"labels must not be missing, got {_first(labels, missing)} "
                f"({int(missing.sum())} in all). Drop these rows first."
            )
    return labels


def _from_one_hot(labels: NDArray[Any]) -> NDArray[Any]:
    wrong = ~((labels == 0) | (labels == 1)).all(axis=1) | (labels.sum(axis=1) != 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"one-hot labels must have a single 1 in each row, got {labels[row].tolist()!s:.60} at "
            f"row {row}. Pass class labels instead."
        )
    return np.asarray(labels.argmax(axis=1))


def _task_for(scores: Floats) -> str:
    return "binary" if scores.ndim == 1 or scores.shape[1] == 2 else "top-label"


def _encode_labels(
    labels: NDArray[Any], scores: Floats, pos_label: Any, classes: Sequence[Any] | None
) -> tuple[tuple[Any, ...], Codes, list[str]]:
    """Return the classes in column order, each row's place among them, and what was assumed."""
    found = _distinct(labels)
    n_columns = 2 if scores.ndim == 1 else scores.shape[1]
    names, notes = _class_names(found, n_columns, pos_label, classes)
    place = {name: code for code, name in enumerate(names)}
    unknown = [label for label in found if label not in place]
    if unknown:
        raise DataError(
            f"labels must be among the classes {list(names)!s:.80}, got {unknown[0]!r}. "
            "Add it to classes=, in the order of the columns of y_prob."
        )
    values, inverse = np.unique(labels, return_inverse=True)
    codes = np.array([place[value.item() if hasattr(value, "item") else value] for value in values])
    if len(found) < 2:
        only = int((labels == labels[0]).sum())
        raise DataError(
            f"y_true must hold at least two classes to audit, got only {found[0]!r} in all {only} "
            "rows. Calibration and grouping loss need both outcomes: take more rows."
        )
    return names, codes[inverse].astype(np.int64), notes


def _class_names(
    found: list[Any], n_columns: int, pos_label: Any, classes: Sequence[Any] | None
) -> tuple[tuple[Any, ...], list[str]]:
    if classes is not None:
        names = [value.item() if hasattr(value, "item") else value for value in classes]
        if len(names) != n_columns:
            raise OptionError(f"classes must name {n_columns} classes, got {len(names)}: {names}.")
    elif len(found) > n_columns:
        raise DataError(
            f"labels must have at most {n_columns} values for {max(n_columns - 1, 1)} score "
            f"column(s), got {len(found)}: {found[:5]!s:.80}. Pass one column per class, or binary "
            "labels."
        )
    elif n_columns > 2 and len(found) < n_columns:
        names = _numbered_classes(found, n_columns)
    elif len(found) == 1 and found[0] in (0, 1):
        names = [0, 1]
    else:
        names = found
    notes = []
    if pos_label is not None:
        if pos_label not in names:
            raise OptionError(f"pos_label must be one of the labels {names}, got {pos_label!r}.")
        if n_columns == 2 and classes is None:
            names = [name for name in names if name != pos_label] + [pos_label]
    elif n_columns == 2 and classes is None and isinstance(names[-1], str):
        notes.append(f"the positive class is {names[-1]!r}, last in order; pos_label= changes it.")
    return tuple(names), notes


def _numbered_classes(found: list[Any], n_columns: int) -> list[Any]:
    whole = all(isinstance(label, int | float) and label == int(label) for label in found)
    if not whole or min(found) < 0 or max(found) >= n_columns:
        raise DataError(
            f"with {n_columns} score columns and only {len(found)} labels in y_true the order of "
            "the classes is unknown. Pass classes=[...], one name per column."
        )
    return list(range(n_columns))


def _one_column(scores: Floats, names: tuple[Any, ...]) -> Floats:
    if scores.ndim == 1:
        return scores
    if scores.shape[1] != 2:
        raise OptionError(
            f"task 'binary' needs one score column or two that sum to one, got {scores.shape[1]}. "
            "Use task='top-label', 'classwise' or 'joint'."
        )
    # two columns follow the sorted labels; pos_label only turns the names round
    return scores[:, 1] if names == tuple(_ordered(list(names))) else scores[:, 0]


def _read_groups(groups: Any) -> Groups:
    values = np.asarray(groups)
    if values.ndim != 1:
        raise DataError(f"groups must have one entry per row, got shape {values.shape}.")
    names = np.array(["(missing)" if is_missing(value) else str(value) for value in values.tolist()])
    distinct, codes = np.unique(names, return_inverse=True)
    return Groups(codes.astype(np.int64), tuple(str(name) for name in distinct))


def _read_weights(sample_weight: Any) -> Floats:
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim != 1:
        raise DataError(f"sample_weight must have one entry per row, got shape {weights.shape}.")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise DataError(
            f"weights must be finite and not negative, got {_first(weights, wrong)}. "
            "Use 0 to leave a row out."
        )
    if weights.sum() == 0:
        raise DataError("weights must not all be 0. Pass sample_weight=None for equal weights.")
    return np.ldexp(weights, -int(np.frexp(weights.max())[1]))


def _without_zero_weights(problem: Problem) -> Problem:
    if problem.weights is None or (problem.weights > 0).all():
        return problem
    keep = problem.weights > 0
    groups, features = problem.groups, problem.features
    return Problem(
        problem.task,
        problem.classes,
        problem.labels[keep],
        problem.scores[keep],
        None if features is None else features.take(np.flatnonzero(keep)),
        None if groups is None else Groups(groups.codes[keep], groups.names),
        problem.weights[keep],
        (*problem.warnings, f"{int((~keep).sum())} rows of weight 0 were left out."),
    )


def _check_lengths(n: int, **lengths: int | None) -> None:
    for name, length in lengths.items():
        if length is not None and length != n:
            raise DataError(
                f"y_prob and {name} must have the same number of rows, got {n} and {length}. "
                "Check that both come from the same rows."
            )


def _distinct(labels: NDArray[Any]) -> list[Any]:
    return _ordered(list(dict.fromkeys(labels.tolist())))


def _ordered(values: list[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        raise DataError(
            f"labels must be of one kind, got {values[:4]!s:.80}. Convert them to one type."
        ) from None


def _first(values: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    where = np.argwhere(wrong)[0]
    place = f"row {where[0]}" + (f", column {where[1]}" if len(where) == 2 else "")
    value = values[tuple(where)]
    return f"{value.item() if hasattr(value, 'item') else value} at {place}"
