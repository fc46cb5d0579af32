"""Classes: their order, the positive class, and the class of each row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes
from epiloss.errors import DataError, OptionError


def read_classes(classes: Any, n_columns: int) -> tuple[Any, ...] | None:
    """Return the classes that the user gave, one for each column; None if none were given."""
    if classes is None:
        return None
    if isinstance(classes, str) or np.ndim(np.asarray(classes, object)) != 1:
        raise OptionError(
            f"classes must be a list with the class of each score column, got {classes!r}. Pass "
            "classes=[...]."
        )
    names = tuple(np.asarray(classes).tolist()) if isinstance(classes, np.ndarray) else tuple(classes)
    names = tuple(name.item() if hasattr(name, "item") else name for name in names)
    if len(names) != n_columns:
        raise OptionError(
            f"classes must list {n_columns} classes, got {len(names)}: {list(names)!s:.80}. Pass one "
            "for each score column."
        )
    if len(set(names)) < len(names):
        raise OptionError(f"classes must be distinct, got {list(names)!s:.80}. List each class once.")
    return names


def encode_labels(
    labels: NDArray[Any], n_columns: int, named: tuple[Any, ...] | None
) -> tuple[tuple[Any, ...], Codes]:
    """Return the classes in column order, and the index of each row's class."""
    distinct, code = _distinct(labels)
    found = _ordered(distinct)
    names = _class_names(found, n_columns) if named is None else named
    place = {name: code for code, name in enumerate(names)}
    unknown = [label for label in found if label not in place]
    if unknown:
        raise DataError(
            f"labels must be among the classes {list(names)!s:.80}, got {unknown[0]!r}. "
            "Add it to classes=, in the order of the columns of y_prob."
        )
    places = [place[label] for label in distinct]
    in_order = places == list(range(len(places)))
    return names, code if in_order else np.array(places, np.int64)[code]


def _distinct(labels: NDArray[Any]) -> tuple[list[Any], Codes]:
    """Return the distinct labels, and the index of each row's label among them."""
    if labels.dtype.kind in "biu":
        if labels.dtype != bool and labels.min(initial=0) >= 0 and labels.max(initial=0) < len(labels):
            # Small integers can be counted, which is faster than sorting.
            whole = np.ascontiguousarray(labels, np.int64)
            occurs = np.bincount(whole) > 0
            code = whole if occurs.all() else (np.cumsum(occurs) - 1)[whole]
            return np.flatnonzero(occurs).tolist(), code
        values, code = np.unique(labels, return_inverse=True)
        return values.tolist(), code
    texts = labels.tolist()
    place = {label: code for code, label in enumerate(dict.fromkeys(texts))}
    return list(place), np.array([place[label] for label in texts], np.int64)


def _class_names(found: list[Any], n_columns: int) -> tuple[Any, ...]:
    most = max(n_columns, 2)
    if len(found) > most:
        columns = "one score column" if n_columns == 1 else f"{n_columns} score columns"
        raise DataError(
            f"labels must have at most {most} distinct values for {columns}, got {len(found)}: "
            f"{found[:5]!s:.80}. Pass one score column per class, or binary labels."
        )
    if len(found) == most:
        return tuple(found)
    numbered = all(isinstance(label, int | float) and label == int(label) for label in found)
    if most > 2 or (numbered and found[0] in (0, 1)):
        if not numbered or min(found) < 0 or max(found) >= most:
            raise DataError(
                f"y_true must hold all {n_columns} classes, or the order of the score columns is "
                f"unknown, got {len(found)} classes. Pass classes=[...], one for each score column."
            )
        return tuple(range(most))
    return tuple(found)  # a single class, which raises an error once weights are known


def positive_class(names: tuple[Any, ...], pos_label: Any) -> int:
    """Return the index of the positive class of a binary task."""
    if pos_label is None:
        return names.index(_ordered(list(names))[-1])  # whatever the order of the columns
    if pos_label not in names:
        raise OptionError(
            f"pos_label must be one of the labels {list(names)!s:.80}, got {pos_label!r}. "
            "Pass it as it occurs in y_true."
        )
    return names.index(pos_label)


def label_named(labels: Iterable[Any], text: str) -> Any:
    """Return the label that equals a text, as a string or as a number; if there is none, the text.

    Examples
    --------
    >>> label_named([0.0, 1.0], "1"), label_named([False, True], "true"), label_named(["a"], "b")
    (1.0, True, 'b')
    """
    distinct = list(labels)
    for label in distinct:
        if str(label) == text:
            return label
    try:
        number = float({"true": "1", "false": "0"}.get(text.lower(), text))
    except ValueError:
        return text
    equal = [label for label in distinct if isinstance(label, int | float) and label == number]
    return equal[0] if equal else text


def _ordered(values: list[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        raise DataError(
            f"labels must be of one type, got {values[:4]!s:.80}. Convert all of them to strings or to "
            "numbers."
        ) from None
