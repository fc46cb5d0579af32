"""The groups of rows that are monitored over time. They are defined on the reference.

A division of the rows (by score, or by a column) assigns each row to one cell, so that the sums of a
batch over all cells need one count for each division.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.input.features import Features
from epiloss.input.problem import Groups
from epiloss.number_format import rate_spec
from epiloss.partition.descriptions import Step, describe

LEAST_ROWS, LEAST_SHARE = 50, 0.01  # of a cell in the reference; smaller cells are pooled
MOST_COLUMNS = 50  # data with more features are not monitored column by column
_LEVELS, _QUARTERS = 5, 4
_OTHER = "another value"


@dataclass(frozen=True)
class Division:
    """A division of the rows, by ranges of a number or by values of a category.

    ``edges`` are the upper ends of the ranges. ``cell_of`` maps categories to cells; unknown categories
    belong to the last cell.
    """

    kind: str  # "all", "score" or "column"
    names: tuple[str, ...]
    edges: Floats | None = None
    cell_of: Codes | None = None
    column: int | str | None = None
    values: tuple[str, ...] = ()  # names of the subgroups

    @property
    def n_cells(self) -> int:
        """The number of cells, including that of missing or unknown values."""
        return len(self.names)

    def cells(self, values: Floats) -> Codes:
        """Return the cell of each value."""
        missing = np.isnan(values)
        if self.edges is not None:
            cells = np.searchsorted(self.edges, values, side="left").astype(np.int64)
        else:
            assert self.cell_of is not None  # a division has either edges or cell_of
            known = (values >= 0) & (values < len(self.cell_of))
            place = np.where(known & ~missing, values, 0).astype(np.int64)
            cells = np.where(known & ~missing, self.cell_of[place], self.n_cells - 1)
        return np.where(missing, self.n_cells - 1, cells)


@dataclass(frozen=True)
class Divisions:
    """All divisions of the rows of a problem."""

    divisions: tuple[Division, ...]

    @property
    def names(self) -> list[str]:
        """The descriptions of all cells."""
        return [name for division in self.divisions for name in division.names]

    def cells(self, scores: Floats, features: Features, subgroups: Mapping[str, Groups]) -> list[Codes]:
        """Return the cells of rows, for each division."""
        found = []
        for division in self.divisions:
            if division.kind == "all":
                found.append(np.zeros(len(scores), np.int64))
            elif division.kind == "score":
                found.append(division.cells(scores))
            elif isinstance(division.column, int):
                found.append(division.cells(np.asarray(features.column(division.column), float)))
            else:
                groups = subgroups[str(division.column)]
                place = {name: k for k, name in enumerate(division.values)}
                table = [place.get(name, len(place)) for name in groups.names]
                found.append(np.array(table, np.int64)[groups.codes])
        return found


def learn_divisions(scores: Floats, features: Features, subgroups: Mapping[str, Groups]) -> Divisions:
    """Return the divisions that the rows of the reference define."""
    divisions = [Division("all", ("all rows",), edges=np.zeros(0))]
    edges = _edges(scores, _LEVELS)
    if len(edges):
        divisions.append(Division("score", _score_names(edges), edges=edges))
    if features.n_columns <= MOST_COLUMNS:
        found = [_of_column(features, j) for j in range(features.n_columns)]
        divisions += [division for division in found if division is not None]
    divisions += [_of_groups(name, groups) for name, groups in subgroups.items()]
    return Divisions(
        tuple(division for division in divisions if division.n_cells > 1 or division.kind == "all")
    )


def _edges(values: Floats, n: int, *, tidy: bool = True) -> Floats:
    """Return the boundaries between ranges of about equally many values, none with too few.

    ``tidy`` boundaries are rounded to few digits.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return np.zeros(0)
    inner = np.quantile(known, np.arange(1, n) / n, method="lower")
    spread = float(np.ptp(np.quantile(known, (0.1, 0.9))))
    if tidy and spread > 0:
        inner = np.round(inner, 2 - math.ceil(math.log10(spread)))
    inner = np.unique(inner)
    kept: list[float] = []
    least = max(LEAST_ROWS, LEAST_SHARE * len(values))
    below = 0.0
    for edge in inner:
        n_below = float(np.sum(known <= edge))
        if n_below - below >= least and len(known) - n_below >= least:
            kept.append(float(edge))
            below = n_below
    return np.array(kept)


def _score_names(edges: Floats) -> tuple[str, ...]:
    spec = rate_spec(*edges.tolist())
    shown = [format(edge, spec) for edge in edges]
    inner = [f"scores {low} to {high}" for low, high in pairwise(shown)]
    return (f"scores up to {shown[0]}", *inner, f"scores above {shown[-1]}")


def _of_column(features: Features, j: int) -> Division | None:
    values = np.asarray(features.column(j), float)
    if j in features.categories:
        return _of_categories(features, j, values)
    edges = _edges(values, _QUARTERS, tidy=j not in features.dtypes)
    if not len(edges):
        return None
    names = tuple(str(describe(path, features)) for path in _paths(j, edges))
    return Division("column", (*names, f"{features.names[j]} is missing"), edges=edges, column=j)


def _paths(j: int, edges: Floats) -> list[list[Step]]:
    """Return the splits that define each range and exclude missing values."""
    ends = [-np.inf, *edges.tolist(), np.inf]
    paths = []
    for low, high in pairwise(ends):
        path = [] if low == -np.inf else [Step(j, False, low, left=False, missing_left=True)]
        path += [] if high == np.inf else [Step(j, False, high, left=True, missing_left=False)]
        paths.append(path)
    return paths


def _of_categories(features: Features, j: int, values: Floats) -> Division | None:
    names, title = features.categories[j], features.names[j]
    known = values[~np.isnan(values)].astype(np.int64)
    n = np.bincount(known, minlength=len(names))
    kept = np.flatnonzero(n[: len(names)] >= max(LEAST_ROWS, LEAST_SHARE * len(values)))
    if not len(kept):
        return None
    cell_of = np.full(len(n), len(kept), np.int64)
    cell_of[kept] = np.arange(len(kept))
    titles = tuple(f"{title} is {names[k]}" for k in kept)
    return Division("column", (*titles, f"{title} is {_OTHER}"), cell_of=cell_of, column=j)


def _of_groups(name: str, groups: Groups) -> Division:
    n = np.bincount(groups.codes, minlength=len(groups.names))
    kept = np.flatnonzero(n >= max(LEAST_ROWS, LEAST_SHARE * len(groups.codes)))
    titles = tuple(f"{name} is {groups.names[k]}" for k in kept)
    values = tuple(groups.names[k] for k in kept)
    return Division("column", (*titles, f"{name} is {_OTHER}"), column=name, values=values)
