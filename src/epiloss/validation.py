"""The door: raw input -> checked arrays. Nothing behind it checks again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.classes import encode_labels, positive_class, read_classes
from epiloss.errors import DataError, OptionError
from epiloss.features import Features, is_missing, unmasked
from epiloss.levelsets import Codes
from epiloss.scoring import Floats

TASKS = ("binary", "top-label", "classwise", "joint")
Place = Callable[[int], str]  # how a row is named in an error
_ROUNDING = 1e-6  # scores outside [0, 1] by no more are clipped
_ROW_SUM = 1e-3  # class probabilities may miss a sum of one by so much


def row_name(row: int) -> str:
    """Return how a row of an array is named."""
    return f"row {row}"


@dataclass(frozen=True)
class Groups:
    """Groups given by the user: a code for each row, and the groups' names."""

    codes: Codes
    names: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Checked input: ``labels`` are places in ``classes``, ``scores`` are (n,) or (n, K).

    Columns of scores follow ``classes``; a single column is the probability of ``positive``.
    """

    task: str
    classes: tuple[Any, ...]
    positive: int
    labels: Codes
    scores: Floats
    features: Features | None
    groups: Groups | None
    weights: Floats | None  # scaled by a power of two to at most 1
    clusters: Codes | None
    warnings: tuple[str, ...]
    rows: Codes | None = None  # of the input, where some were left out

    def take(self, rows: Codes) -> Problem:
        """Return some of the rows, in increasing order."""
        groups, features = self.groups, self.features
        return replace(
            self,
            labels=self.labels[rows],
            scores=self.scores[rows],
            features=None if features is None else features.take(rows),
            groups=None if groups is None else Groups(groups.codes[rows], groups.names),
            weights=None if self.weights is None else self.weights[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            rows=rows if self.rows is None else self.rows[rows],
        )


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
) -> Problem:
    """Check everything that the user brings, and say in one sentence what is wrong."""
    if task is not None and task not in TASKS:
        raise OptionError(f"task must be one of {', '.join(map(repr, TASKS))}, got {task!r}.")
    scores, warnings = read_scores(y_prob)
    n_columns = 1 if scores.ndim == 1 else scores.shape[1]
    named = read_classes(classes, max(n_columns, 2))
    labels = read_labels(y_true, scores, named)
    _check_lengths(len(scores), y_true=len(labels))
    if task is None:
        task = "binary" if n_columns <= 2 else "top-label"
        columns = "one score column" if n_columns == 1 else f"{n_columns} score columns"
        warnings.append(f"task {task!r} chosen for {columns}; pass task= to change.")
    names, codes = encode_labels(labels, n_columns, named)
    positive = positive_class(names, pos_label)
    if pos_label is None and named is None and len(names) == 2 and isinstance(names[1], str):
        warnings.append(f"the positive class is {names[1]!r}, last in order; pos_label= changes it.")
    features = None if X is None or _is_empty_mapping(X) else Features.read(X)
    read_groups = None if groups is None else _read_groups(groups, "groups")
    read_clusters = None if clusters is None else _read_groups(clusters, "clusters").codes
    weights = None if sample_weight is None else _read_weights(sample_weight)
    _check_lengths(
        len(scores),
        X=None if features is None else features.n_rows,
        groups=None if read_groups is None else len(read_groups.codes),
        sample_weight=None if weights is None else len(weights),
        clusters=None if read_clusters is None else len(read_clusters),
    )
    if features is not None and not features.names:
        features = None  # a table without columns tells nothing
    problem = Problem(
        task,
        names,
        positive,
        codes,
        columns_of_task(scores, task, positive),
        features,
        read_groups,
        weights,
        read_clusters,
        tuple(warnings),
    )
    return _with_two_classes(without_zero_weights(problem))


def _is_empty_mapping(X: Any) -> bool:
    return isinstance(X, Mapping) and not X


def _array(values: Any, what: str) -> NDArray[Any]:
    """Return values as an array; what a mask hides is missing."""
    if hasattr(values, "collect") and not hasattr(values, "__array__"):
        raise DataError(
            f"{what} must be in memory, got a {type(values).__name__}. Call .collect() first."
        )
    try:
        array = np.asarray(unmasked(values))
    except ValueError:
        raise DataError(
            f"{what} must have rows of equal length, got a ragged list. Pad or cut them."
        ) from None
    if array.dtype.kind == "c":
        raise DataError(f"{what} must be real, got complex numbers. Pass their real part.")
    return array


def _floats(array: NDArray[Any], what: str, remedy: str, at: Place = row_name) -> Floats:
    try:
        with np.errstate(invalid="ignore"):  # of half floats that are no numbers, each in its own way
            return array.astype(np.float64)
    except (TypeError, ValueError):
        wrong = next(
            (value, i) for i, value in enumerate(array.ravel().tolist()) if not _is_number(value)
        )
        raise DataError(
            f"{what} must be numbers, got {wrong[0]!r:.40} at "
            f"{at(wrong[1] // (array.shape[1] if array.ndim == 2 else 1))}. {remedy}"
        ) from None


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # that is the question
    except (TypeError, ValueError):
        return False
    return True


def read_scores(y_prob: Any, at: Place = row_name) -> tuple[Floats, list[str]]:
    """Return the scores, a column for each class where there are several, and what to warn of."""
    raw = _array(y_prob, "y_prob")
    if raw.ndim == 0:
        raise DataError(
            f"y_prob must be an array of scores, got {type(y_prob).__name__}. Pass one score per row."
        )
    if raw.size == 0:
        raise DataError("y_prob must hold at least one row, got none. Check the input's filter.")
    if raw.ndim > 2:
        raise DataError(
            f"y_prob must have shape (n,) or (n, K), got {raw.shape}. Reshape it to a column per class."
        )
    scores = _floats(raw, "scores", "Pass probabilities between 0 and 1.", at)
    warnings = [] if scores.min() >= 0 and scores.max() <= 1 else _repaired(scores, at)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 2:
        _check_row_sums(scores, at)
    return scores, warnings


def _repaired(scores: Floats, at: Place) -> list[str]:
    """Clip what is outside [0, 1] by rounding, in place, and say so; refuse what is further out."""
    missing = ~np.isfinite(scores)
    if missing.any():
        raise DataError(
            f"scores must be finite, got {_first(scores, missing, at)} ({int(missing.sum())} in all). "
            "Drop or repair these rows first."
        )
    outside = (scores < -_ROUNDING) | (scores > 1 + _ROUNDING)
    if outside.any():
        raise DataError(
            f"scores must lie in [0, 1], got {_first(scores, outside, at)} ({int(outside.sum())} in "
            "all). Pass probabilities, not logits: scipy.special.expit(logits) for one column, "
            "scipy.special.softmax(logits, axis=1) for several."
        )
    n_rounded = int(((scores < 0) | (scores > 1)).sum())
    np.clip(scores, 0.0, 1.0, out=scores)
    return [f"{n_rounded} scores outside [0, 1] by at most {_ROUNDING:g} were clipped."]


def _check_row_sums(scores: Floats, at: Place) -> None:
    wrong = np.abs(scores.sum(axis=1) - 1) > _ROW_SUM
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"each row of class probabilities must sum to 1, got {scores[row].sum():.4g} at "
            f"{at(row)} ({int(wrong.sum())} rows in all). Normalise them, or pass one column."
        )


def read_labels(
    y_true: Any, scores: Floats, named: tuple[Any, ...] | None, at: Place = row_name
) -> NDArray[Any]:
    """Return a label for each row; one-hot rows become the classes' names or numbers."""
    labels = _array(y_true, "y_true")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.shape == scores.shape:
        codes = _from_one_hot(labels)
        return codes if named is None else _object_array(named)[codes]
    if labels.ndim != 1:
        raise DataError(
            f"y_true must have one label per row, got shape {labels.shape}. "
            "Pass class labels, or one-hot rows with as many columns as y_prob."
        )
    if labels.dtype.kind in "OfmM":
        missing = np.array([is_missing(label) for label in labels], bool)
        if missing.any():
            raise DataError(
                f"labels must not be missing, got {_first(labels, missing, at)} "
                f"({int(missing.sum())} in all). Drop these rows first."
            )
    return labels


def _from_one_hot(labels: NDArray[Any]) -> NDArray[Any]:
    numbers = _floats(labels, "one-hot labels", "Pass class labels instead.")
    wrong = ~((numbers == 0) | (numbers == 1)).all(axis=1) | (numbers.sum(axis=1) != 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"one-hot labels must have a single 1 in each row, got {labels[row].tolist()!s:.60} at "
            f"row {row}. Pass class labels instead."
        )
    return np.asarray(numbers.argmax(axis=1))


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


def group_names(groups: Any, what: str) -> NDArray[Any]:
    """Return the name of each row's group; what is missing is a group of its own."""
    values = _array(groups, what)
    if values.ndim != 1:
        raise DataError(
            f"{what} must have one entry per row, got shape {values.shape}. Join columns into one first."
        )
    return np.array(["(missing)" if is_missing(value) else str(value) for value in values.tolist()])


def _read_weights(sample_weight: Any) -> Floats:
    weights = read_weights(sample_weight)
    if weights.sum() == 0:
        raise DataError("weights must not all be 0. Pass sample_weight=None for equal weights.")
    return scaled_weights(weights, float(weights.max()))


def read_weights(sample_weight: Any, at: Place = row_name) -> Floats:
    """Return the weights as they are given."""
    raw = _array(sample_weight, "sample_weight")
    weights = _floats(raw, "weights", "Pass one number per row.", at)
    if weights.ndim != 1:
        raise DataError(
            f"sample_weight must have one entry per row, got shape {weights.shape}. Pass a vector."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise DataError(
            f"weights must be finite and not negative, got {_first(weights, wrong, at)}. "
            "Use 0 to leave a row out."
        )
    return weights


def scaled_weights(weights: Floats, largest: float) -> Floats:
    """Return weights divided by a power of two, such that the largest is at most 1."""
    scaled = np.ldexp(weights, -int(np.frexp(largest)[1]))
    return np.where(scaled < 2.0**-40, 0.0, scaled)  # less than the sums can hold


def without_zero_weights(problem: Problem) -> Problem:
    """Leave out the rows that do not count."""
    if problem.weights is None or (problem.weights > 0).all():
        return problem
    keep = np.flatnonzero(problem.weights > 0)
    left_out = len(problem.weights) - len(keep)
    return replace(
        problem.take(keep), warnings=(*problem.warnings, f"rows of weight 0, left out: {left_out}.")
    )


def _with_two_classes(problem: Problem) -> Problem:
    present = np.flatnonzero(np.bincount(problem.labels))
    if len(present) < 2:
        raise DataError(
            f"y_true must hold at least two classes to audit, got only {problem.classes[present[0]]!r} "
            f"in all {len(problem.labels)} rows. Calibration and grouping loss need both outcomes: "
            "take more rows."
        )
    return problem


def _check_lengths(n: int, **lengths: int | None) -> None:
    for name, length in lengths.items():
        if length is not None and length != n:
            raise DataError(
                f"y_prob and {name} must have the same number of rows, got {n} and {length}. "
                "Check that both come from the same rows."
            )


def _object_array(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def _first(values: NDArray[Any], wrong: NDArray[np.bool_], at: Place) -> str:
    where = np.argwhere(wrong)[0]
    place = at(int(where[0])) + (f", column {where[1]}" if len(where) == 2 else "")
    value = values[tuple(where)]
    return f"{value.item() if hasattr(value, 'item') else value} at {place}"
