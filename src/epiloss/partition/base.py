"""What a partition is, and how regions too small to evaluate are joined to others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._threads import Fitted, Workers, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features
from epiloss.partition.descriptions import Step
from epiloss.scoring import ScoringRule


@dataclass(frozen=True)
class LearningRows:
    """The rows that a partition is learned from; it sees their labels."""

    features: Features
    labels: Floats
    level_set: Codes
    n_level_sets: int
    weights: Floats | None
    rule: ScoringRule

    def of_level_set(self, level_set: int) -> LearningRows:
        """Return the rows of one level set."""
        rows = np.flatnonzero(self.level_set == level_set)
        weights = None if self.weights is None else self.weights[rows]
        features, labels = self.features.take(rows), self.labels[rows]
        return LearningRows(features, labels, self.level_set[rows], 1, weights, self.rule)


class Partition(ABC):
    """Regions of the feature space, learned for each level set.

    Attributes
    ----------
    noun : str
        What a region is called where no splits lead to it.

    See Also
    --------
    Partitioner : learns it.

    Examples
    --------
    >>> class Sides(Partition):
    ...     def assign(self, features, level_set):
    ...         return (features.column(0) > 0).astype(np.int64)
    >>> sides = Sides().assign(Features((np.array([-1.0, 2.0]),), ("x",), {}), np.array([0, 0]))
    >>> sides.tolist(), Sides().path(0, 1) is None
    ([0, 1], True)
    >>> Sides().join_small(np.array([0, 0]), np.array([0, 1]), np.array([1, 5])).tolist()
    [1, 1]
    """

    noun = "region"

    @abstractmethod
    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return each row's region, counted from 0 inside its level set.

        Parameters
        ----------
        features : Features
            The features of the rows.
        level_set : array of int
            The level set of each row.

        Returns
        -------
        array of int
            The region of each row.
        """

    def join_small(self, level_set: Codes, region: Codes, n: NDArray[Any]) -> Codes:
        """Return new regions of at least two rows each, decided from the counts ``n`` alone.

        Parameters
        ----------
        level_set, region : array of int
            Of each cell.
        n : array
            The rows of each cell.

        Returns
        -------
        array of int
            The new region of each cell.
        """
        return pool_small_regions(level_set, region, n)

    def path(self, level_set: int, region: int) -> Sequence[Step] | None:
        """Return the splits that lead to a region; None where no splits do.

        Parameters
        ----------
        level_set, region : int
            The region.

        Returns
        -------
        sequence of Step or None
            The splits, from the first one on.
        """
        return None


class Partitioner(ABC):
    """A way to learn a partition; pass one as ``partition=``.

    Attributes
    ----------
    name : str
        What results call it.

    See Also
    --------
    epiloss.partition.Tree, epiloss.partition.Stump, epiloss.partition.KMeans : those that are there.
    epiloss.partition.Custom : any scikit-learn estimator.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> class Sides(Partition):
    ...     def assign(self, features, level_set):
    ...         return (features.column(0) > 0).astype(np.int64)
    >>> class BySides(Partitioner):
    ...     name = "sides"
    ...     def fit(self, rows, generator, n_jobs):
    ...         return Sides()
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X, partition=BySides(), n_bins=3)
    >>> result.options["partition"]
    'sides'
    """

    name: str

    @abstractmethod
    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Learn the regions of every level set.

        Parameters
        ----------
        rows : LearningRows
            The rows to learn from, with their labels.
        generator : numpy Generator
            The source of randomness.
        n_jobs : int or None
            Number of threads.

        Returns
        -------
        Partition
            The regions.
        """


def pool_small_regions(level_set: Codes, region: Codes, n: NDArray[Any]) -> Codes:
    """Pool the regions of a level set that have fewer than two rows.

    If the pool itself has one row, it joins the smallest other region, the first on ties. The
    cells must be ordered by level set and region.

    Examples
    --------
    >>> pool_small_regions(np.array([0, 0, 0]), np.array([4, 5, 6]), np.array([1, 9, 2]))
    array([6, 5, 6])
    """
    joined = region.copy()
    for level in np.unique(level_set[n < 2]):
        inside = np.flatnonzero(level_set == level)
        small, large = inside[n[inside] < 2], inside[n[inside] >= 2]
        target = small[0]
        if n[small].sum() < 2 and len(large):
            target = large[np.argmin(n[large])]
        joined[small] = region[target]
    return joined


def for_each_level_set(
    fit: Callable[[LearningRows, int], Fitted],
    rows: LearningRows,
    generator: np.random.Generator,
    n_jobs: int | None,
) -> list[Fitted]:
    """Fit every level set in its own thread, each with a seed of its own: any ``n_jobs``, same bits."""
    seeds = generator.integers(2**31, size=rows.n_level_sets)

    def one(level_set: int) -> Fitted:
        with limited_threads(openmp=True):  # of each thread
            return fit(rows.of_level_set(level_set), int(seeds[level_set]))

    with Workers(n_jobs) as workers:
        return workers.run(one, range(rows.n_level_sets))
