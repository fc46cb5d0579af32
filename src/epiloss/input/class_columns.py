"""Matching score columns to classes by the names of the columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes
from epiloss.errors import DataError, OptionError
from epiloss.input.tables import column_names
from epiloss.input.values import category_name

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)


def score_names(y_prob: Any) -> list[str] | None:
    """Return the names of several score columns; None if they have no names."""
    names = column_names(y_prob)
    return None if names is None or len(names) < 2 else [str(name) for name in names]


def one_hot_names(y_true: Any) -> list[str] | None:
    """Return the names of one-hot columns without their common prefix and suffix.

    Examples
    --------
    >>> one_hot_names({"is_no": [0], "is_yes": [1]})
    ['no', 'yes']
    """
    names = score_names(y_true)
    if names is None or len(set(names)) < len(names):
        return None
    before = _n_shared(names)
    after = _n_shared([name[before:][::-1] for name in names])
    cores = [name[before : len(name) - after] for name in names]
    return cores if all(cores) else names


def _n_shared(names: Sequence[str]) -> int:
    """Return the length of the common prefix of all names."""
    characters = zip(*names, strict=False)
    return next((n for n, some in enumerate(characters) if len(set(some)) > 1), min(map(len, names)))


def places_of_classes(names: Sequence[str] | None, classes: Sequence[Any]) -> Codes | None:
    """Return the column index of each class; None for uninformative names such as p0 and p1.

    Names may have a common prefix and suffix around the class. Names of anything but the classes raise
    an error.

    Examples
    --------
    >>> places_of_classes(["P(yes)", "P(no)"], ["no", "yes"]).tolist()
    [1, 0]
    >>> places_of_classes(["p0", "p1"], ["no", "yes"]) is None
    True
    """
    if names is None or len(names) != len(classes):
        return None
    for texts in _texts(classes):
        found = _matched([name.casefold() for name in names], texts)
        if found is not None:
            return found
    if _are_uninformative(names, classes):
        return None
    raise DataError(
        f"the columns of y_prob must be named after the classes {list(classes)!s:.80}, got "
        f"{list(names)!s:.80}. Rename them, or pass an array with the columns in the order of the "
        "classes."
    )


def can_be_placed(names: Sequence[str] | None, classes: Sequence[Any]) -> bool:
    """Return whether the names of columns are those of the classes, or say nothing about them."""
    try:
        places_of_classes(names, classes)
    except DataError:
        return False
    return True


def check_given_order(names: Sequence[str] | None, classes: Sequence[Any]) -> None:
    """Raise an error if columns are named after the classes, but in another order."""
    if not can_be_placed(names, classes):
        return  # the order that the user gave counts
    places = places_of_classes(names, classes)
    if places is not None and (np.diff(places) != 1).any():
        raise OptionError(
            f"classes must be in the order of the columns of y_prob, got {list(classes)!s:.80} for the "
            f"columns {list(names or ())!s:.80}. Leave out classes=: the column names give the order."
        )


def classes_of_columns(names: Sequence[str] | None, labels: NDArray[Any]) -> tuple[str, ...] | None:
    """Return the classes that columns are named after, if some of them do not occur in the labels."""
    if names is None or labels.ndim != 1 or labels.dtype.kind not in "OUT":
        return None
    found = set(labels.tolist())
    return tuple(sorted(names)) if found < set(names) else None


def _texts(classes: Sequence[Any]) -> Iterator[list[str]]:
    """Yield the names that the columns of classes may have; booleans may also be called 0 and 1."""
    yield [category_name(one).casefold() for one in classes]
    if all(isinstance(one, bool | np.bool_) for one in classes):
        yield [str(int(one)) for one in classes]


def _matched(names: list[str], texts: list[str]) -> Codes | None:
    """Return the index of the name of each class, allowing for a common prefix and suffix."""
    place = {name: at for at, name in enumerate(names)}
    for text in filter(None, texts):
        for at in (one.start() for one in re.finditer(re.escape(text), names[0])):
            before, after = names[0][:at], names[0][at + len(text) :]
            wanted = [f"{before}{one}{after}" for one in texts]
            if set(wanted) == set(place):
                return np.array([place[one] for one in wanted])
    return None


def _are_uninformative(names: Sequence[str], classes: Sequence[Any]) -> bool:
    """Return whether names are empty, only numbered, or words where the classes are numbers."""
    if all(name in ("", "None", "nan") for name in names):
        return True
    parts = [_NUMBERED.fullmatch(name) for name in names]
    if all(parts):
        around = {(one[1], one[3]) for one in parts if one}
        numbers = [int(one[2]) for one in parts if one]
        first = numbers[0]
        in_order = numbers == list(range(first, first + len(names)))
        if len(around) == 1 and first in (0, 1) and in_order:
            return True
    texts = next(_texts(classes))
    if any(name.casefold() in texts for name in names):
        return False
    numeric = all(isinstance(one, int | float | np.number) for one in classes)
    return numeric and not all(_is_number(name) for name in names)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
