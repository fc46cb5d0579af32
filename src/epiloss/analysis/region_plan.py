"""Regions that are learned once and used for batch after batch of other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._random import stream
from epiloss.errors import DataError, OptionError
from epiloss.estimation.learned import Learned, fitted_curves, learn_regions, level_sets_of
from epiloss.estimation.losses import LevelSetLosses
from epiloss.estimation.options import read_options
from epiloss.estimation.region_stats import RegionStats
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem, Reading
from epiloss.input.tasks import binary_problems
from epiloss.scoring import ScoringRule


@dataclass(frozen=True)
class RegionPlan:
    """Level sets, calibration curves and regions of a binary or top-label problem, learned once.

    Batches of other rows are then counted in these regions, and their statistics merged. The sums do
    not depend on the order of the batches or on the machine. Do not count rows that the plan has
    learned from.

    Attributes
    ----------
    rule : ScoringRule
        The scoring rule.
    shape : tuple of int
        The number of level sets, and the largest number of regions of a level set.
    name : tuple of str
        Identifies the plan; only statistics with the same name can be merged.
    known, reading, learned
        How rows are read and assigned to regions.

    See Also
    --------
    drift : two data sets at once, with intervals.
    RegionStats : the statistics of a batch.

    Examples
    --------
    >>> from epiloss.simulate import Sigmoid
    >>> first, *batches = (Sigmoid(perturbation="step").sample(4_000, random_state=i) for i in range(4))
    >>> plan = RegionPlan.learn(first.y, first.scores, first.X)
    >>> stats = RegionStats.empty(plan.name)
    >>> for batch in batches:
    ...     stats = stats.merge(plan.stats(batch.y, batch.scores, batch.X))
    >>> bool(plan.losses(stats).total("grouping_loss") > 0.02)
    True
    """

    known: Problem  # without its rows
    reading: Reading
    rule: ScoringRule
    learned: Learned
    shape: tuple[int, int]  # number of level sets, largest number of regions of one of them
    name: tuple[str, str]

    @classmethod
    def learn(
        cls,
        y_true: Any,
        y_prob: Any,
        X: Any,
        *,
        sample_weight: Any = None,
        clusters: Any = None,
        **options: Any,
    ) -> RegionPlan:
        """Learn level sets, curves and regions from rows.

        Parameters
        ----------
        y_true, y_prob, X, sample_weight, clusters
            As in :func:`epiloss.audit`.
        **options
            Options of :func:`epiloss.audit`.

        Returns
        -------
        RegionPlan
            The plan, without the rows.
        """
        chosen = read_options(options, "RegionPlan.learn", ("sample_weight", "clusters"))
        rows = {"sample_weight": sample_weight, "clusters": clusters}
        problem = read_problem(y_true, y_prob, X, chosen.reading, **rows)
        chosen.check_rows(len(problem.labels))
        if problem.task not in ("binary", "top-label"):
            raise OptionError(
                f"task must be 'binary' or 'top-label' for a plan, got {problem.task!r}. For one class "
                "of several pass y_true == k and y_prob[:, k]."
            )
        if problem.features is None:
            raise DataError("X must be given to learn regions, got None. Pass features or embeddings.")
        binary = binary_problems(problem, chosen.rule)[0]
        level_sets = level_sets_of(binary, chosen)
        level_set = level_sets.assign(binary.scores)
        curves = fitted_curves(binary, chosen, stream(chosen.seed, "curves"))
        trees = stream(chosen.seed, "trees")
        regions = learn_regions(binary, level_set, level_sets.n_level_sets, chosen, trees)
        learned = Learned(level_sets, curves, regions)
        shape = (level_sets.n_level_sets, int(learned.place(binary).region.max()) + 1)
        name = (f"{chosen.rule.name} {len(binary.labels)} {chosen.seed}", chosen.partitioner.name)
        known = replace(problem.take(np.arange(0)), features=problem.features.description())
        return cls(known, chosen.reading, chosen.rule, learned, shape, name)

    def stats(
        self, y_true: Any, y_prob: Any, X: Any, *, sample_weight: Any = None, clusters: Any = None
    ) -> RegionStats:
        """Count a batch of rows; its labels must be among those that the plan has learned from.

        Parameters
        ----------
        y_true, y_prob, X, sample_weight, clusters
            As in :func:`epiloss.audit`.

        Returns
        -------
        RegionStats
            The statistics of the batch, to be merged with others of the same plan.
        """
        rows = {"sample_weight": sample_weight, "clusters": clusters}
        problem = read_problem(y_true, y_prob, X, self.reading, like=self.known, **rows)
        binary = binary_problems(problem, self.rule)[0]
        return self.learned.place(binary).stats(self.name)

    def losses(self, stats: RegionStats) -> LevelSetLosses:
        """Return the losses of each level set; regions with fewer than two rows are merged with others.

        Parameters
        ----------
        stats : RegionStats
            The merged statistics of all batches.

        Returns
        -------
        LevelSetLosses
            The losses of each level set; ``.total("grouping_loss")`` is their mean.
        """
        regions = self.learned.partition
        assert regions is not None  # every plan has learned regions
        into = regions.join_small(stats.level_set, stats.region, stats.n)
        return stats.relabel(into).compute(self.rule)
