"""Base classes of partitions, and merging of regions that are too small to evaluate."""

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
    """The rows from which a partition is learned, with their labels."""

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
        What a region is called if it is not defined by splits.

    See Also
    --------
    Partitioner : learns a partition.

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
        """Return each row's region, numbered from 0 within its level set.

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
        """Merge regions such that each has at least two rows, based on the counts ``n`` alone.

        Parameters
        ----------
        level_set, region : array of int
            The level set and region of each cell.
        n : array
            The number of rows of each cell.

        Returns
        -------
        array of int
            The new region of each cell.
        """
        return pool_small_regions(level_set, region, n)

    def path(self, level_set: int, region: int) -> Sequence[Step] | None:
        """Return the splits that define a region, or None if it is not defined by splits.

        Parameters
        ----------
        level_set, region : int
            The level set, and the region within it.

        Returns
        -------
        sequence of Step or None
            The splits, starting at the root.
        """
        return None


class Partitioner(ABC):
    """A method to learn a partition; pass one as ``partition=``.

    Attributes
    ----------
    name : str
        The name shown in results.

    See Also
    --------
    epiloss.partition.Tree, epiloss.partition.Stump, epiloss.partition.KMeans : included partitioners.
    epiloss.partition.Custom : use any scikit-learn estimator.

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
            The random number generator.
        n_jobs : int or None
            Number of threads.

        Returns
        -------
        Partition
            The learned regions.
        """


def pool_small_regions(level_set: Codes, region: Codes, n: NDArray[Any]) -> Codes:
    """Pool the regions of a level set that have fewer than two rows.

    If the pooled region still has a single row, it is merged with the smallest other region (the first
    of several). The cells must be sorted by level set and region.

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
    """Fit each level set with its own seed, in parallel; the result does not depend on ``n_jobs``."""
    seeds = generator.integers(2**31, size=rows.n_level_sets)

    def fit_one(level_set: int) -> Fitted:
        with limited_threads(openmp=True):  # the limit holds for the current thread
            return fit(rows.of_level_set(level_set), int(seeds[level_set]))

    with Workers(n_jobs) as workers:
        return workers.run(fit_one, range(rows.n_level_sets))
