"""Columns of subgroups as features, so that a repair corrects the scores of subgroups too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epiloss._typing import Floats
from epiloss.input.arrays import MISSING_GROUP
from epiloss.input.features import Features
from epiloss.input.problem import Groups

_TRUTH = {"True": 1.0, "False": 0.0}
_MOST, _ROWS_EACH = 50, 10  # more subgroups with fewer rows each are not learned from


def features_with_subgroups(features: Features, subgroups: Mapping[str, Groups]) -> Features:
    """Return features with the columns of subgroups that are not among them.

    Features that came as a matrix without names stay as they are, because new rows would come without
    the subgroups.

    Examples
    --------
    >>> sex = Groups(np.array([0, 1]), ("f", "m"))
    >>> seen = features_with_subgroups(Features.read({"age": [30.0, 52.0]}), {"sex": sex})
    >>> seen.names, seen.column(1).tolist(), dict(seen.categories)
    (('age', 'sex'), [0.0, 1.0], {1: ('f', 'm')})
    """
    new = {
        name: groups
        for name, groups in subgroups.items()
        if name not in features.names and len(groups.names) <= max(_MOST, len(groups.codes) / _ROWS_EACH)
    }
    if features.nameless or not new:
        return features
    d = features.n_columns
    columns, categories = [features.column(j) for j in range(d)], dict(features.categories)
    for place, groups in enumerate(new.values(), d):
        numbers = _numbers(groups.names)
        if numbers is None:
            categories[place] = tuple(name for name in groups.names if name != MISSING_GROUP)
            known = iter(range(len(groups.names)))
            codes = [np.nan if one == MISSING_GROUP else next(known) for one in groups.names]
            numbers = np.array(codes, float)
        columns.append(numbers[groups.codes])
    names = (*features.names, *new)
    return Features(tuple(columns), names, categories, dtypes=features.dtypes)


def _numbers(names: tuple[str, ...]) -> Floats | None:
    """Return the values that numeric or logical groups are named by; None for other names."""
    try:
        values = [np.nan if one == MISSING_GROUP else _TRUTH.get(one) for one in names]
        return np.array([float(one) if v is None else v for one, v in zip(names, values, strict=True)])
    except ValueError:
        return None
