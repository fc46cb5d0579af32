"""What is learned from a sample and then stays: level sets, curves and regions of one problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.calibration.curves import Curve
from epiloss.calibration.level_sets import LevelSets
from epiloss.estimation.region_stats import RegionStats
from epiloss.input.tasks import BinaryProblem
from epiloss.partition import Partition
from epiloss.scoring import ScoringRule


@dataclass(frozen=True)
class Frozen:
    """The level sets, the pair of curves and the regions in which rows of a problem are added up."""

    rule: ScoringRule
    level_sets: LevelSets
    curves: tuple[Curve, Curve]
    partition: Partition | None

    @property
    def n_level_sets(self) -> int:
        """The number of level sets, empty ones included."""
        return self.level_sets.n_level_sets

    def placed(self, problem: BinaryProblem) -> tuple[Codes, Codes, tuple[Floats, Floats]]:
        """Return each row's level set, its region, and both curves at its score."""
        level_set = self.level_sets.assign(problem.scores)
        if problem.groups is not None:
            region = problem.groups
        elif self.partition is None or problem.features is None:
            region = np.zeros_like(level_set)
        else:
            region = self.partition.assign(problem.features, level_set)
        a, b = self.curves
        return level_set, region, (a(problem.scores), b(problem.scores))

    def stats(self, problem: BinaryProblem, plan: tuple[str, str] = ("", "")) -> RegionStats:
        """Return the sums of the rows of each region."""
        level_set, region, curves = self.placed(problem)
        return RegionStats.from_rows(
            level_set,
            region,
            labels=problem.labels,
            scores=problem.scores,
            rule=problem.rule,
            weights=problem.weights,
            curves=curves,
            plan=plan,
        )
