"""Subgroups given by the user: one or several named columns, and their combinations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from epiloss._typing import Codes
from epiloss.errors import DataError
from epiloss.input.arrays import group_names
from epiloss.input.problem import Groups
from epiloss.input.tables import column_names, from_records, no_column

_MAX_COMBINATIONS = 10_000


def read_subgroups(subgroups: Any) -> dict[str, Groups]:
    """Return the subgroups of each column; a single unnamed column is called "subgroup".

    Examples
    --------
    >>> found = read_subgroups({"sex": ["F", "M"], "old": [True, False]})
    >>> {name: (groups.names, groups.codes.tolist()) for name, groups in found.items()}
    {'sex': (('F', 'M'), [0, 1]), 'old': (('False', 'True'), [1, 0])}
    """
    if subgroups is None:
        return {}
    columns = _columns(subgroups)
    if not columns:
        raise DataError("subgroups must have at least one column, got none. Pass one, or leave it out.")
    found = {
        name: grouped(group_names(column, "subgroups" if len(columns) == 1 else f"subgroups[{name!r}]"))
        for name, column in columns.items()
    }
    lengths = {len(groups.codes) for groups in found.values()}
    if len(lengths) > 1:
        raise DataError(
            f"the columns of subgroups must have equal lengths, got {sorted(lengths)}. Check that they "
            "come from the same rows."
        )
    return found


def columns_by_name(subgroups: Any, X: Any, n_rows: int) -> Any:
    """Return the columns of ``X`` that are named, or ``subgroups`` itself if it holds values.

    A list of strings names columns unless it has one string per row.

    Examples
    --------
    >>> columns_by_name("sex", {"sex": ["F", "M", "F"], "age": [30, 40, 50]}, 3)
    {'sex': ['F', 'M', 'F']}
    """
    names = [subgroups] if isinstance(subgroups, str) else subgroups
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return subgroups
    table = from_records(X)
    known = {str(name): name for name in column_names(table) or ()}
    missing = [name for name in names if name not in known]
    if not isinstance(subgroups, str) and (not known or not names or (missing and len(names) == n_rows)):
        return subgroups  # values, which are checked like those of an array
    if not known:
        raise DataError(
            f"subgroups must have one value per row if X has no named columns, got {subgroups!r}. Pass "
            "the values, or X as a data frame."
        )
    if missing:
        raise DataError(
            f"subgroups must name columns of X or have one value per row, got {missing[0]!r}; X: "
            f"{no_column(missing[0], known)}"
        )
    return {name: table[known[name]] for name in names}


def grouped(names: Any) -> Groups:
    """Return the groups, given the name of each row's group."""
    distinct, codes = np.unique(names, return_inverse=True)
    return Groups(codes.astype(np.int64), tuple(str(name) for name in distinct))


def combined(subgroups: Mapping[str, Groups]) -> Groups:
    """Return the combinations of all columns that occur; a single column is returned unchanged.

    Examples
    --------
    >>> combined(read_subgroups({"sex": ["F", "M"], "old": [True, False]})).names
    ('sex=F, old=True', 'sex=M, old=False')
    """
    if len(subgroups) == 1:
        return next(iter(subgroups.values()))
    present, codes = np.unique(_joint_codes(subgroups), return_inverse=True)
    return Groups(codes.astype(np.int64), _joint_names(subgroups, present))


def all_combinations(subgroups: Mapping[str, Groups]) -> Groups:
    """Return all combinations of the columns, even those without rows, so all parts have the same."""
    if len(subgroups) == 1:
        return next(iter(subgroups.values()))
    n = math.prod(len(groups.names) for groups in subgroups.values())
    if n > _MAX_COMBINATIONS:
        raise DataError(
            f"subgroups must have at most {_MAX_COMBINATIONS:,} combinations if there are no features, "
            f"got {n:,}. Pass fewer columns of subgroups, or features."
        )
    return Groups(_joint_codes(subgroups), _joint_names(subgroups, np.arange(n)))


def _joint_codes(subgroups: Mapping[str, Groups]) -> Codes:
    codes = np.zeros(1, np.int64)
    for groups in subgroups.values():
        codes = codes * len(groups.names) + groups.codes
    return codes


def _joint_names(subgroups: Mapping[str, Groups], codes: Codes) -> tuple[str, ...]:
    parts = []
    for column, groups in reversed(list(subgroups.items())):
        codes, place = np.divmod(codes, len(groups.names))
        parts.append([f"{column}={groups.names[one]}" for one in place])
    return tuple(", ".join(row) for row in zip(*reversed(parts), strict=True))


def _columns(subgroups: Any) -> dict[str, Any]:
    """Return the columns of a table by name; a 1-D array is one column."""
    names = column_names(subgroups)
    if names is not None:
        return {str(name): subgroups[name] for name in names}
    if getattr(subgroups, "ndim", 1) == 2:
        return {f"subgroup_{k}": subgroups[:, k] for k in range(subgroups.shape[1])}
    return {_name_of(subgroups): subgroups}


def _name_of(column: Any) -> str:
    """Return the name of a pandas or polars series, or "subgroup"."""
    name = getattr(column, "name", None)
    return str(name) if isinstance(name, str) and name else "subgroup"
