"""Where the regions of a grouping diagram are drawn within their level sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.table import Table

_FILLED = 0.8  # share of the width of a level set that many regions fill
_SPANS = (1, 2, 7), (0, 0.3, _FILLED)  # numbers of regions, and the share of the width they take


def fanned(level_sets: Table, regions: Table, reach: float = 1.0) -> Floats:
    """Return an x position for each region, side by side within the width of its level set.

    Regions are ordered by rate and equally spaced: two are close to the mean score of the level set,
    many fill most of its width.
    """
    low, high = widths(level_sets)
    high = np.maximum(np.minimum(high, reach), low)
    x = np.empty(len(regions))
    for place, level_set in enumerate(level_sets["level_set"]):
        inside = np.flatnonzero(regions["level_set"] == level_set)
        if not len(inside):
            continue
        width = high[place] - low[place]
        span = width * float(np.interp(len(inside), *_SPANS))
        margin = span / 2 + (1 - _FILLED) / 2 * width
        centre = np.clip(level_sets["score_mean"][place], low[place] + margin, high[place] - margin)
        ordered = inside[np.lexsort((regions["n"][inside], regions["label_mean"][inside]))]
        x[ordered] = centre + np.linspace(-span / 2, span / 2, len(inside))
    return x


def distances(x: Floats, level_set: NDArray[Any]) -> Floats:
    """Return the distance from each region to the nearest one of its level set; infinite if alone.

    Examples
    --------
    >>> distances(np.array([0.5, 0.25, 0.3, 0.8]), np.array([0, 0, 0, 1])).round(2).tolist()
    [0.2, 0.05, 0.05, inf]
    """
    order = np.lexsort((x, level_set))
    between = np.where(np.diff(level_set[order]) == 0, np.diff(x[order]), np.inf)
    nearest = np.empty(len(x))
    nearest[order] = np.minimum(np.append(np.inf, between), np.append(between, np.inf))
    return nearest


def widths(level_sets: Table) -> tuple[Floats, Floats]:
    """Return both ends of each level set: its edges, or half-way to its neighbours."""
    if "low" in level_sets.columns:
        return level_sets["low"], level_sets["high"]
    middle = level_sets["score_mean"]
    order = np.argsort(middle, kind="stable")
    between = (middle[order][1:] + middle[order][:-1]) / 2
    if not len(between):
        return np.maximum(middle - 0.05, 0), np.minimum(middle + 0.05, 1)
    first = max(2 * middle[order][0] - between[0], 0.0)
    last = min(2 * middle[order][-1] - between[-1], 1.0)
    edges = np.concatenate([[first], between, [last]])
    low, high = np.empty(len(middle)), np.empty(len(middle))
    low[order], high[order] = edges[:-1], edges[1:]
    return low, high
