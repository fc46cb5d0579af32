"""Reading and checking single columns: scores, labels, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from epiloss._typing import Floats
from epiloss.errors import INFINITE, KEY, KIND, MISSING, OUTSIDE, SUM, WEIGHT, DataError, RowsError
from epiloss.input.features import HERE, Place
from epiloss.input.values import is_missing, plain_array

MISSING_GROUP = "(missing)"  # the name of the group of rows without a value
ROUNDING = 1e-6  # scores outside [0, 1] by at most this are clipped
_ROW_SUM_TOLERANCE = 1e-3  # how far the sum of class probabilities may be from 1


def as_array(values: Any, what: str) -> NDArray[Any]:
    """Return values as an array of real values; masked values are missing."""
    array = plain_array(values, what)
    if array.dtype.kind == "c":
        raise DataError(f"{what} must be real, got complex numbers. Pass their real part.")
    return array


def _floats(
    array: NDArray[Any], what: str, remedy: str, at: Place = HERE, names: Sequence[str] = ()
) -> Floats:
    try:
        with np.errstate(invalid="ignore"):  # NumPy warns when it casts some NaNs of half precision
            numbers = array.astype(np.float64, copy=False)
        return numbers if numbers.flags.forc else numbers.copy()
    except (TypeError, ValueError):
        wrong = np.array([not _is_number(value) for value in array.ravel().tolist()])
        wrong = wrong.reshape(array.shape)
        value = f"{array[tuple(np.argwhere(wrong)[0])]!r:.40}"
        raise _rows_error(KIND, f"{what} must be numbers", value, wrong, at, remedy, names) from None


def _rows_error(
    rank: int,
    rule: str,
    value: str,
    wrong: NDArray[np.bool_],
    at: Place,
    remedy: str,
    names: Sequence[str] = (),
) -> RowsError:
    """Return the error for rows with wrong values in one or several columns."""
    first = np.argwhere(wrong)[0]
    if names:
        value += f" in column {names[first[1] if len(names) > 1 else 0]!r}"
    elif len(first) == 2:
        value += f" in column {first[1]}"
    count = int((wrong if wrong.ndim == 1 else wrong.any(axis=1)).sum())
    return RowsError(rank, rule, value, at.of(first[0]), count, remedy)


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # any object is tried
    except (TypeError, ValueError):
        return False
    return True


def score_numbers(y_prob: Any, at: Place = HERE, names: Sequence[str] = ()) -> Floats:
    """Return scores of any type as floats (n,) or (n, K), not yet checked to be probabilities."""
    raw = _stacked(as_array(y_prob, "y_prob"), at, names)
    if raw.ndim == 0:
        raise DataError(
            f"y_prob must be an array of scores, got {type(y_prob).__name__}. Pass one score per row."
        )
    if raw.size == 0:
        raise DataError("y_prob must have at least one row, got none. Check how the rows were selected.")
    if raw.ndim > 2:
        raise DataError(
            f"y_prob must have shape (n,) or (n, K), got {raw.shape}. Pass one column per class."
        )
    scores = _floats(raw, "scores", "Pass probabilities between 0 and 1.", at, names)
    return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores


def _stacked(raw: NDArray[Any], at: Place, names: Sequence[str]) -> NDArray[Any]:
    """Return a column whose rows are lists of class scores as a matrix."""
    column = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
    if column.dtype != object or column.ndim != 1 or not len(column):
        return raw
    lengths = np.array(
        [len(row) if isinstance(row, list | tuple | np.ndarray) else -1 for row in column]
    )
    if lengths.max() < 0:
        return raw
    missing = np.array([n < 0 and is_missing(row) for n, row in zip(lengths, column, strict=True)])
    width = int(lengths[np.argmax(lengths >= 0)])
    odd = ~missing & (lengths != width)
    if odd.any():
        rule = f"all lists of scores must have the {width} scores of the first list"
        value = f"{column[int(odd.argmax())]!r:.40}"
        raise _rows_error(KIND, rule, value, odd, at, "Pass one score for each class.", names)
    nothing = [np.nan] * width
    return np.array([nothing if none else row for none, row in zip(missing, column, strict=True)])


def read_scores(y_prob: Any, *, logits: bool = False) -> Floats:
    """Return checked scores (n,) or (n, K)."""
    return checked_scores(score_numbers(y_prob), HERE, logits=logits)[0]


def checked_scores(
    scores: Floats, at: Place, names: Sequence[str] = (), *, logits: bool = False
) -> tuple[Floats, int]:
    """Return probabilities, and the number that were clipped to [0, 1].

    Logits are converted with the logistic function, or with softmax if there are several columns.
    """
    if not len(scores):
        raise DataError(
            "the data must have at least one row with a score and a label, got none. Check the names "
            "of the columns and how the rows were selected."
        )
    n_clipped = 0
    if logits:
        _check_finite(scores, at, names)
        scores = expit(scores) if scores.ndim == 1 else softmax(scores, axis=1)
    elif not (scores.min() >= 0 and scores.max() <= 1):
        scores, n_clipped = _clipped(scores, at, names)
    if scores.ndim == 2:
        _check_row_sums(scores, at, names)
    return scores, n_clipped


def lacks_score(scores: Floats) -> NDArray[np.bool_]:
    """Return which rows have a missing score in any column."""
    return np.asarray(np.isnan(scores.reshape(len(scores), -1)).any(axis=1))


def _check_finite(scores: Floats, at: Place, names: Sequence[str]) -> None:
    missing = np.isnan(scores)
    if missing.any():
        remedy = "Pass drop_missing=True to drop such rows, or fill them in."
        raise _rows_error(MISSING, "scores must not be missing", "none", missing, at, remedy, names)
    infinite = np.isinf(scores)
    if infinite.any():
        value = str(scores[tuple(np.argwhere(infinite)[0])])
        remedy = "Pass probabilities between 0 and 1."
        raise _rows_error(INFINITE, "scores must be finite", value, infinite, at, remedy, names)


def _clipped(scores: Floats, at: Place, names: Sequence[str]) -> tuple[Floats, int]:
    """Clip scores outside [0, 1] by rounding and count them; raise an error for any further out."""
    _check_finite(scores, at, names)
    outside = (scores < -ROUNDING) | (scores > 1 + ROUNDING)
    if outside.any():
        value = str(scores[tuple(np.argwhere(outside)[0])])
        remedy = (
            "These look like logits: pass logits=True to convert them, or pass probabilities."
            if scores.min() < -ROUNDING and np.abs(scores).max() > 1
            else "Pass probabilities, not percentages or counts; logits=True converts logits."
        )
        raise _rows_error(OUTSIDE, "scores must lie in [0, 1]", value, outside, at, remedy, names)
    return np.clip(scores, 0.0, 1.0), int(((scores < 0) | (scores > 1)).sum())


def _check_row_sums(scores: Floats, at: Place, names: Sequence[str]) -> None:
    wrong = np.abs(scores.sum(axis=1) - 1) > _ROW_SUM_TOLERANCE
    if wrong.any():
        value = f"{scores[wrong.argmax()].sum():.4g}"
        if names:
            value += f" in columns {', '.join(map(repr, names)):.60}"
        rule = "each row of class probabilities must sum to 1"
        remedy = "Normalise them, or pass one column."
        raise _rows_error(SUM, rule, value, wrong, at, remedy)


def read_labels(
    y_true: Any, scores: Floats, named: tuple[Any, ...] | None, at: Place = HERE
) -> NDArray[Any]:
    """Return a label for each row; one-hot rows become class names, or indices if there are none."""
    labels = as_array(y_true, "y_true")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.shape == scores.shape:
        codes = from_one_hot(labels, at)
        return codes if named is None else _object_array(named)[codes]
    if labels.ndim != 1:
        raise DataError(
            f"y_true must have one label per row, got shape {labels.shape}. "
            "Pass class labels, or one-hot rows with as many columns as y_prob."
        )
    missing = missing_mask(labels)
    if missing.any():
        raise missing_labels(missing, at)
    return labels


def missing_labels(missing: NDArray[np.bool_], at: Place, names: Sequence[str] = ()) -> RowsError:
    """Return the error for rows without a label."""
    remedy = "Pass drop_missing=True to drop such rows, or fill them in."
    return _rows_error(KIND, "labels must not be missing", "none", missing, at, remedy, names)


def missing_mask(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values of an array are missing."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind not in "OmM":
        return np.zeros(values.shape, bool)
    flat = np.array([is_missing(value) for value in values.ravel()], bool)
    return flat.reshape(values.shape)


def from_one_hot(labels: NDArray[Any], at: Place, names: Sequence[str] = ()) -> NDArray[Any]:
    """Return the position of the 1 in each row of zeros."""
    remedy = "Pass class labels instead."
    numbers = _floats(labels, "one-hot labels", remedy, at, names)
    wrong = ~((numbers == 0) | (numbers == 1)).all(axis=1) | (numbers.sum(axis=1) != 1)
    if wrong.any():
        value = f"{labels[wrong.argmax()].tolist()!s:.60}"
        rule = "one-hot labels must have a single 1 in each row"
        raise _rows_error(KIND, rule, value, wrong, at, remedy, names)
    return np.asarray(numbers.argmax(axis=1))


def group_names(groups: Any, what: str) -> NDArray[Any]:
    """Return the name of each row's group; missing values form a group of their own."""
    values = as_array(groups, what)
    if values.ndim != 1:
        raise DataError(
            f"{what} must have one value per row, got shape {values.shape}. Combine its columns first."
        )
    return np.array([MISSING_GROUP if is_missing(value) else str(value) for value in values.tolist()])


def missing_keys(
    what: str, missing: NDArray[np.bool_], at: Place, names: Sequence[str] = ()
) -> RowsError:
    """Return the error for rows without a cluster or an identifier."""
    remedy = "Give such rows a value of their own, or drop them."
    return _rows_error(KEY, f"{what} must not be missing", "none", missing, at, remedy, names)


def read_weights(sample_weight: Any, at: Place = HERE, names: Sequence[str] = ()) -> Floats:
    """Return the checked weights, not yet scaled."""
    raw = as_array(sample_weight, "sample_weight")
    weights = _floats(raw, "weights", "Pass one number per row.", at, names)
    if weights.ndim != 1:
        raise DataError(
            f"sample_weight must have one value per row, got shape {weights.shape}. Pass a 1-D array."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        value = str(weights[wrong.argmax()])
        rule = "weights must be finite and not negative"
        raise _rows_error(WEIGHT, rule, value, wrong, at, "Use 0 to leave a row out.", names)
    return weights


def _object_array(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array
