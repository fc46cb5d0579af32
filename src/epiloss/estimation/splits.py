"""Split rows into those that learn regions and those that evaluate them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epiloss._kernels.dispatch import kernel
from epiloss._typing import Codes
from epiloss.errors import DataError
from epiloss.estimation.options import Options
from epiloss.input.tasks import BinaryProblem


@dataclass(frozen=True)
class Fold:
    """Disjoint sets of rows for learning and for evaluation."""

    learn: Codes
    evaluate: Codes

    def swapped(self) -> Fold:
        """Return the fold with learning and evaluation swapped."""
        return Fold(self.evaluate, self.learn)


def stratified_fold(level_set: Codes, fraction: float, generator: np.random.Generator) -> Fold:
    """Draw ``fraction`` of each level set for learning; fractional numbers are rounded at random.

    Examples
    --------
    >>> fold = stratified_fold(np.repeat([0, 1], 4), 0.5, np.random.default_rng(0))
    >>> np.bincount(np.repeat([0, 1], 4)[fold.learn]).tolist()
    [2, 2]
    """
    order = generator.permutation(len(level_set))
    size = np.bincount(level_set)
    wanted = np.floor(size * fraction + generator.random(len(size))).astype(np.int64)
    learns = kernel().first_of_each(order, level_set, wanted)
    return Fold(np.flatnonzero(learns), np.flatnonzero(~learns))


def clustered_fold(clusters: Codes, fraction: float, generator: np.random.Generator) -> Fold:
    """Draw whole clusters for learning, so that no cluster has rows on both sides.

    Examples
    --------
    >>> fold = clustered_fold(np.array([0, 0, 1, 1]), 0.5, np.random.default_rng(0))
    >>> len(fold.learn), len(fold.evaluate)
    (2, 2)
    """
    rank = generator.permutation(int(clusters.max()) + 1)[clusters]
    learns = rank < np.floor((clusters.max() + 1) * fraction + generator.random())
    return Fold(np.flatnonzero(learns), np.flatnonzero(~learns))


def folds_of(
    problem: BinaryProblem, options: Options, level_set: Codes, generator: np.random.Generator
) -> list[list[Fold]]:
    """Return the folds of each repeat; if no regions are learned, one fold that evaluates all rows."""
    if problem.groups is not None or problem.features is None:
        everything = np.arange(len(level_set))
        return [[Fold(everything[:0], everything)]]
    return split_folds(problem, options, level_set, generator)


def split_folds(
    problem: BinaryProblem, options: Options, level_set: Codes, generator: np.random.Generator
) -> list[list[Fold]]:
    """Return the folds of each repeat, which split level sets or clusters."""
    repeats = []
    for _ in range(options.repeats):
        fold = (
            stratified_fold(level_set, options.split, generator)
            if problem.clusters is None
            else clustered_fold(problem.clusters, options.split, generator)
        )
        if not len(fold.learn) or not len(fold.evaluate):
            raise DataError(
                f"{len(level_set)} rows are too few to learn regions on some rows and evaluate them on "
                "others. Use more rows, or pass subgroups=."
            )
        repeats.append([fold, fold.swapped()] if options.swap else [fold])
    return repeats
