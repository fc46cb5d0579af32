"""Columns of subgroups as features, so that a repair corrects the scores of subgroups too."""

from __future__ import annotations

import numpy as np

from epiloss._typing import Floats
from epiloss.input.arrays import MISSING_GROUP
from epiloss.input.features import Features
from epiloss.input.problem import Groups, Problem

_TRUTH = {"True": 1.0, "False": 0.0}
_MOST, _ROWS_EACH = 50, 10  # more subgroups with fewer rows each are not learned from


def features_of_subgroups(problem: Problem) -> Features | None:
    """Return the features of a problem and its subgroups as features; None if it has neither.

    Features that came as a matrix without names stay as they are, because new rows would come without
    the subgroups. Subgroups that are features, or too many to learn from, are left out.

    Examples
    --------
    >>> from epiloss.estimation.options import Options
    >>> from epiloss.input.checks import read_problem
    >>> data = [0, 1], [0.2, 0.7], {"age": [30.0, 52.0]}
    >>> problem = read_problem(*data, Options.read().reading, subgroups={"sex": ["f", "m"]})
    >>> seen = features_of_subgroups(problem)
    >>> seen.names, seen.column(1).tolist(), dict(seen.categories)
    (('age', 'sex'), [0.0, 1.0], {1: ('f', 'm')})
    """
    features, subgroups = problem.features, problem.subgroups
    if features is not None and features.nameless:
        return features
    if features is None and problem.groups is not None and not subgroups:
        subgroups = {"subgroup": problem.groups}
    known = () if features is None else features.names
    new = {name: one for name, one in subgroups.items() if name not in known and _is_learnable(one)}
    if not new:
        return features
    columns, categories, dtypes = [], {}, {}
    if features is not None:
        columns = [features.column(j) for j in range(features.n_columns)]
        categories, dtypes = dict(features.categories), dict(features.dtypes)
    for place, groups in enumerate(new.values(), len(known)):
        numbers = _numbers(groups.names)
        if numbers is None:
            categories[place] = tuple(name for name in groups.names if name != MISSING_GROUP)
            places = iter(range(len(groups.names)))
            codes = [np.nan if one == MISSING_GROUP else next(places) for one in groups.names]
            numbers = np.array(codes, float)
        columns.append(numbers[groups.codes])
    return Features(tuple(columns), (*known, *new), categories, dtypes=dtypes)


def _is_learnable(groups: Groups) -> bool:
    return len(groups.names) <= max(_MOST, len(groups.codes) / _ROWS_EACH)


def _numbers(names: tuple[str, ...]) -> Floats | None:
    """Return the values that numeric or logical groups are named by; None for other names."""
    try:
        values = [np.nan if one == MISSING_GROUP else _TRUTH.get(one) for one in names]
        return np.array([float(one) if v is None else v for one, v in zip(names, values, strict=True)])
    except ValueError:
        return None
