"""Level sets: groups of rows with nearly equal scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._kernels.dispatch import kernel
from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.errors import OptionError

STRATEGIES = ("uniform", "quantile")


@dataclass(frozen=True)
class LevelSets:
    """Bins of the score: level set ``s`` holds the scores in ``[edges[s], edges[s+1])``.

    The last bin includes its upper edge. Scores outside the edges belong to the first or last bin.

    Examples
    --------
    >>> uniform_level_sets(4).assign(np.array([0.0, 0.25, 0.3, 1.0]))
    array([0, 1, 1, 3])
    """

    edges: Floats

    @property
    def n_level_sets(self) -> int:
        """The number of bins, empty ones included."""
        return len(self.edges) - 1

    def assign(self, scores: Floats) -> Codes:
        """Return the level set of each score."""
        level_set: Codes = kernel().level_sets_of(scores, self.edges[1:-1])
        return level_set


@dataclass(frozen=True)
class VectorLevelSets:
    """Cells of the simplex: a vector of class probabilities belongs to the nearest centre."""

    centres: Floats
    exact: bool  # whether each cell contains a single score vector

    @property
    def n_level_sets(self) -> int:
        """The number of cells."""
        return len(self.centres)

    def assign(self, scores: Floats) -> Codes:
        """Return the cell of each score vector."""
        from sklearn.metrics import pairwise_distances_argmin

        nearest = pairwise_distances_argmin(np.ascontiguousarray(scores), self.centres)
        return np.asarray(nearest, np.int64)


def uniform_level_sets(n: int) -> LevelSets:
    """Return ``n`` bins of equal width on [0, 1]."""
    return LevelSets(np.linspace(0, 1, n + 1))


def quantile_level_sets(scores: Floats, n: int, weights: Floats | None = None) -> LevelSets:
    """Return at most ``n`` bins of equal mass; equal scores may leave fewer bins, but none is empty.

    Examples
    --------
    >>> quantile_level_sets(np.array([0.1, 0.1, 0.1, 0.4, 0.8]), 3).edges
    array([0.  , 0.25, 1.  ])
    """
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    mass = np.cumsum(np.ones(len(scores)) if weights is None else weights[order])
    wanted = np.arange(1, n) / n * mass[-1] * (1 + 1e-12)  # tolerance for rounding of the sum
    cuts = np.unique(ordered[np.minimum(np.searchsorted(mass, wanted, side="right"), len(mass) - 1)])
    # Edges lie halfway between two observed scores, so that no bin is empty or has zero width.
    distinct = np.unique(ordered)
    above = np.searchsorted(distinct, cuts[cuts > ordered[0]])
    halfway = (distinct[above - 1] + distinct[above]) / 2
    inner = np.where(halfway > distinct[above - 1], halfway, distinct[above])
    return LevelSets(np.concatenate([[0.0], inner, [1.0]]))


def simplex_level_sets(
    scores: Floats, n: int, generator: np.random.Generator, most_distinct: int
) -> VectorLevelSets:
    """Return the distinct score vectors as level sets, or ``n`` k-means cells if there are many."""
    distinct = np.unique(scores, axis=0)
    if len(distinct) <= max(n, most_distinct):
        return VectorLevelSets(distinct, exact=True)
    from sklearn.cluster import KMeans

    seed = int(generator.integers(2**31))
    with limited_threads(openmp=True):
        clusters = KMeans(n, n_init=3, random_state=seed).fit(scores)
    return VectorLevelSets(np.asarray(clusters.cluster_centers_, float), exact=False)


def resolve_level_sets(
    bins: int | Sequence[float] | Floats, strategy: str, scores: Floats, weights: Floats | None
) -> LevelSets:
    """Return the level sets for the options ``n_bins`` and ``strategy``."""
    check_strategy(strategy)
    n = checked_bins(bins)
    if not isinstance(n, int):
        return LevelSets(n)
    return uniform_level_sets(n) if strategy == "uniform" else quantile_level_sets(scores, n, weights)


def check_strategy(strategy: Any) -> None:
    """Raise an OptionError unless the strategy is known."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise OptionError(f"strategy must be 'uniform' or 'quantile', got {strategy!r}.")


def checked_bins(bins: Any) -> int | Floats:
    """Return the number of bins or their edges; raise an OptionError if they are invalid."""
    return _checked_edges(bins) if np.ndim(bins) == 1 else checked_count(bins)


def checked_count(bins: Any) -> int:
    """Return the number of bins; raise an OptionError if it is invalid."""
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise OptionError(
            f"n_bins must be an integer of at least 1 or an increasing list of edges, got {bins!r}."
        )
    return int(bins)


def _checked_edges(bins: Any) -> Floats:
    try:
        edges = np.asarray(bins, float)
    except (TypeError, ValueError):
        raise OptionError(f"bin edges must be numbers, got {bins!r:.80}.") from None
    if len(edges) < 2 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise OptionError(
            f"bin edges must be at least two increasing numbers, got {edges.tolist()!s:.80}. "
            "For example, pass n_bins=[0, 0.1, 0.5, 1]."
        )
    return edges
