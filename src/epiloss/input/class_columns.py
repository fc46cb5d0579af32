"""Which score column is of which class, as far as the columns' names tell."""

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
    """Return the names of several score columns; None where they have none."""
    names = column_names(y_prob)
    return None if names is None or len(names) < 2 else [str(name) for name in names]


def one_hot_names(y_true: Any) -> list[str] | None:
    """Return the names of one-hot columns without what all have in common at their ends.

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
    """Return with how many signs all names begin alike."""
    signs = zip(*names, strict=False)
    return next((n for n, some in enumerate(signs) if len(set(some)) > 1), min(map(len, names)))


def places_of_classes(names: Sequence[str] | None, classes: Sequence[Any]) -> Codes | None:
    """Return the place of each class's column; None where names say nothing, as 0 and 1 or p0 and p1.

    Names may have something before and after the class. Names of something else than the classes are
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
    if _say_nothing(names, classes):
        return None
    raise DataError(
        f"the columns of y_prob must be named after the classes {list(classes)!s:.80}, got "
        f"{list(names)!s:.80}. Rename them, or pass an array whose columns are in the order of the "
        "classes."
    )


def check_given_order(names: Sequence[str] | None, classes: Sequence[Any]) -> None:
    """Refuse classes in another order than that of columns that are named after them."""
    try:
        places = places_of_classes(names, classes)
    except DataError:
        return  # the user has said which column is whose
    if places is not None and (np.diff(places) != 1).any():
        raise OptionError(
            f"classes must be in the order of the columns of y_prob, got {list(classes)!s:.80} for the "
            f"columns {list(names or ())!s:.80}. Leave classes= out: the names give the order."
        )


def classes_of_columns(names: Sequence[str] | None, labels: NDArray[Any]) -> tuple[str, ...] | None:
    """Return the classes that columns are named after, where not all of them occur among the labels."""
    if names is None or labels.ndim != 1 or labels.dtype.kind not in "OUT":
        return None
    found = set(labels.tolist())
    return tuple(sorted(names)) if found < set(names) else None


def _texts(classes: Sequence[Any]) -> Iterator[list[str]]:
    """Yield the names of classes that columns may have: truth values are numbers as well."""
    yield [category_name(one).casefold() for one in classes]
    if all(isinstance(one, bool | np.bool_) for one in classes):
        yield [str(int(one)) for one in classes]


def _matched(names: list[str], texts: list[str]) -> Codes | None:
    """Return the place of each text among names, which all have the same before and after it."""
    place = {name: at for at, name in enumerate(names)}
    for text in filter(None, texts):
        for at in (one.start() for one in re.finditer(re.escape(text), names[0])):
            before, after = names[0][:at], names[0][at + len(text) :]
            wanted = [f"{before}{one}{after}" for one in texts]
            if set(wanted) == set(place):
                return np.array([place[one] for one in wanted])
    return None


def _say_nothing(names: Sequence[str], classes: Sequence[Any]) -> bool:
    """Tell whether names are places in order, or none, or of another kind than the classes."""
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
