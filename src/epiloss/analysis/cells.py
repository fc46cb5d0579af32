"""What is watched over time: groups of rows, fixed on the reference, in words.

Each way to divide the rows (by score, by each column) puts every row into one cell, so that sums of a
batch are one count for each way.
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
from epiloss.partition.descriptions import Step, rule_of

LEAST_ROWS, LEAST_SHARE = 50, 0.01  # of a cell in the reference; smaller ones are pooled
MOST_COLUMNS = 50  # of features that are watched one by one
_LEVELS, _QUARTERS = 5, 4
_OTHER = "another value"


@dataclass(frozen=True)
class Way:
    """One way to divide rows: into ranges of a number, or into values of a category.

    ``edges`` are the upper ends of ranges; ``cell_of`` gives the cell of each category, and all that it
    does not know go into the last cell.
    """

    kind: str  # "all", "score" or "column"
    names: tuple[str, ...]
    edges: Floats | None = None
    cell_of: Codes | None = None
    column: int | str | None = None
    values: tuple[str, ...] = ()  # of subgroups, by which they are found again

    @property
    def n_cells(self) -> int:
        """The number of cells, that of missing or unknown values included."""
        return len(self.names)

    def cells(self, values: Floats) -> Codes:
        """Return the cell of each value."""
        missing = np.isnan(values)
        if self.edges is not None:
            cells = np.searchsorted(self.edges, values, side="left").astype(np.int64)
        else:
            assert self.cell_of is not None  # a way has the one or the other
            known = (values >= 0) & (values < len(self.cell_of))
            place = np.where(known & ~missing, values, 0).astype(np.int64)
            cells = np.where(known & ~missing, self.cell_of[place], self.n_cells - 1)
        return np.where(missing, self.n_cells - 1, cells)


@dataclass(frozen=True)
class Ways:
    """All ways in which the rows of a problem are divided."""

    ways: tuple[Way, ...]

    @property
    def names(self) -> list[str]:
        """The cells in words."""
        return [name for way in self.ways for name in way.names]

    @property
    def way_of(self) -> Codes:
        """The way that each cell belongs to."""
        return np.repeat(np.arange(len(self.ways)), [way.n_cells for way in self.ways])

    def cells(self, scores: Floats, features: Features, subgroups: Mapping[str, Groups]) -> list[Codes]:
        """Return the cells of rows, for each way."""
        found = []
        for way in self.ways:
            if way.kind == "all":
                found.append(np.zeros(len(scores), np.int64))
            elif way.kind == "score":
                found.append(way.cells(scores))
            elif isinstance(way.column, int):
                found.append(way.cells(np.asarray(features.column(way.column), float)))
            else:
                groups = subgroups[str(way.column)]
                place = {name: k for k, name in enumerate(way.values)}
                table = [place.get(name, len(place)) for name in groups.names]
                found.append(np.array(table, np.int64)[groups.codes])
        return found


def learn_ways(scores: Floats, features: Features, subgroups: Mapping[str, Groups]) -> Ways:
    """Return the ways to divide rows like those of the reference."""
    ways = [Way("all", ("all rows",), edges=np.zeros(0))]
    edges = _edges(scores, _LEVELS)
    if len(edges):
        ways.append(Way("score", _score_names(edges), edges=edges))
    if features.n_columns <= MOST_COLUMNS:
        found = [_of_column(features, j) for j in range(features.n_columns)]
        ways += [way for way in found if way is not None]
    ways += [_of_groups(name, groups) for name, groups in subgroups.items()]
    return Ways(tuple(way for way in ways if way.n_cells > 1 or way.kind == "all"))


def _edges(values: Floats, n: int, *, tidy: bool = True) -> Floats:
    """Return the inner ends of ranges that hold about equally many values, each with enough.

    Ends that are ``tidy`` have few digits.
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


def _of_column(features: Features, j: int) -> Way | None:
    values = np.asarray(features.column(j), float)
    if j in features.categories:
        return _of_categories(features, j, values)
    edges = _edges(values, _QUARTERS, tidy=j not in features.dtypes)
    if not len(edges):
        return None
    names = tuple(str(rule_of(path, features)) for path in _paths(j, edges))
    return Way("column", (*names, f"{features.names[j]} is missing"), edges=edges, column=j)


def _paths(j: int, edges: Floats) -> list[list[Step]]:
    """Return the splits that lead to each range; missing values go the other way."""
    ends = [-np.inf, *edges.tolist(), np.inf]
    paths = []
    for low, high in pairwise(ends):
        path = [] if low == -np.inf else [Step(j, False, low, left=False, missing_left=True)]
        path += [] if high == np.inf else [Step(j, False, high, left=True, missing_left=False)]
        paths.append(path)
    return paths


def _of_categories(features: Features, j: int, values: Floats) -> Way | None:
    names, title = features.categories[j], features.names[j]
    known = values[~np.isnan(values)].astype(np.int64)
    n = np.bincount(known, minlength=len(names))
    kept = np.flatnonzero(n[: len(names)] >= max(LEAST_ROWS, LEAST_SHARE * len(values)))
    if not len(kept):
        return None
    cell_of = np.full(len(n), len(kept), np.int64)
    cell_of[kept] = np.arange(len(kept))
    told = tuple(f"{title} is {names[k]}" for k in kept)
    return Way("column", (*told, f"{title} is {_OTHER}"), cell_of=cell_of, column=j)


def _of_groups(name: str, groups: Groups) -> Way:
    n = np.bincount(groups.codes, minlength=len(groups.names))
    kept = np.flatnonzero(n >= max(LEAST_ROWS, LEAST_SHARE * len(groups.codes)))
    told = tuple(f"{name} is {groups.names[k]}" for k in kept)
    values = tuple(groups.names[k] for k in kept)
    return Way("column", (*told, f"{name} is {_OTHER}"), column=name, values=values)
