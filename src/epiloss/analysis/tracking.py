"""Regions that are learned once, in which batches of further rows are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._random import RandomState, seed_of, stream
from epiloss._typing import Codes
from epiloss.calibration.curves import fit_curve_pair, resolve_curve
from epiloss.calibration.level_sets import resolve_level_sets
from epiloss.errors import DataError, OptionError
from epiloss.estimation.learned import Frozen
from epiloss.estimation.losses import LevelSetLosses
from epiloss.estimation.planning import Plan
from epiloss.estimation.region_stats import RegionStats
from epiloss.input.arrays import read_scores
from epiloss.input.checks import columns_of_task, read_problem
from epiloss.input.features import Features
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.partition import resolve_partition
from epiloss.partition.base import LearningRows
from epiloss.scoring import ScoringRule, resolve_rule


@dataclass(frozen=True)
class RegionPlan:
    """Level sets, curves and regions of a binary or top-label problem, learned on some rows.

    Rows that are counted later must not be among them. Batches are counted apart and merged: in any
    order, on any machine, the sums are the same.

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

    task: str
    classes: tuple[Any, ...]
    positive: int
    features: Features
    frozen: Frozen
    shape: tuple[int, int]  # level sets, and the most regions that one of them has
    name: tuple[str, str]

    @classmethod
    def learn(
        cls,
        y_true: Any,
        y_prob: Any,
        X: Any,
        *,
        task: str | None = None,
        rule: str | ScoringRule = "brier",
        bins: int | Sequence[float] = 15,
        binning: str = "uniform",
        partition: Any = "tree",
        region_ratio: float = 12,
        curve: Any = None,
        pos_label: Any = None,
        classes: Sequence[Any] | None = None,
        random_state: RandomState = 0,
    ) -> RegionPlan:
        """Learn from rows; all options are those of :func:`epiloss.audit`."""
        problem = read_problem(
            y_true,
            y_prob,
            X,
            task=task,
            groups=None,
            sample_weight=None,
            pos_label=pos_label,
            classes=classes,
        )
        if problem.task not in ("binary", "top-label"):
            raise OptionError(
                f"a plan is for the tasks 'binary' and 'top-label', got {problem.task!r}. For one class "
                "of several pass y_true == k and y_prob[:, k]."
            )
        if problem.features is None:
            raise DataError("a plan needs X, in which regions are sought. Pass features or embeddings.")
        seed = seed_of(random_state)
        fitter, partitioner = resolve_curve(curve), resolve_partition(partition, region_ratio)
        plan = Plan(bins, binning, partitioner, fitter, 0.5, False, 1, None, None)
        binary = binary_problems(problem, resolve_rule(rule))[0]
        level_sets = resolve_level_sets(bins, binning, binary.scores, None)
        rows = LearningRows(
            problem.features,
            binary.labels,
            level_sets.assign(binary.scores),
            level_sets.n_level_sets,
            None,
            binary.rule,
        )
        curves = fit_curve_pair(fitter, binary.scores, binary.labels, None, stream(seed, "curves"))
        regions = partitioner.fit(rows, stream(seed, "trees"), None)
        n_regions = int(regions.assign(rows.features, rows.level_set).max()) + 1
        shape = (level_sets.n_level_sets, n_regions)
        frozen = Frozen(binary.rule, level_sets, curves, regions)
        own = (f"{binary.rule.name} {len(binary.labels)} {seed}", partitioner.name)
        known = problem.features.description()
        return cls(problem.task, problem.classes, problem.positive, known, frozen, shape, own)

    def stats(self, y_true: Any, y_prob: Any, X: Any) -> RegionStats:
        """Count rows: labels must be among those that the plan has learned from."""
        return self.frozen.stats(self._read(y_true, y_prob, X), self.name)

    def losses(self, stats: RegionStats) -> LevelSetLosses:
        """Return the losses of each level set from the sums; small regions are joined."""
        regions = self.frozen.partition
        assert regions is not None  # a plan has learned some
        return stats.relabel(regions.join_small(stats.level_set, stats.region, stats.n)).compute(
            self.frozen.rule
        )

    def _read(self, y_true: Any, y_prob: Any, X: Any) -> BinaryProblem:
        scores = read_scores(y_prob)
        features = Features.read(X).like(self.features)
        codes = self._codes(y_true)
        if not len(codes) == len(scores) == features.n_rows:
            raise DataError(
                "y_true, y_prob and X must have the same number of rows, got "
                f"{len(codes)}, {len(scores)} and {features.n_rows}."
            )
        columns = columns_of_task(scores, self.task, self.positive)
        if self.task == "binary":
            hit = codes == self.positive
        else:
            hit, columns = codes == columns.argmax(axis=1), columns.max(axis=1)
        labels = hit.astype(float)
        return BinaryProblem(None, columns, labels, self.frozen.rule, None, features, None, None)

    def _codes(self, y_true: Any) -> Codes:
        place = {name: code for code, name in enumerate(self.classes)}
        labels = np.asarray(y_true).tolist()
        try:
            return np.array([place[label] for label in labels], np.int64)
        except (KeyError, TypeError):
            wrong = next(label for label in labels if isinstance(label, list) or label not in place)
            raise DataError(
                f"labels must be among the classes {list(self.classes)!s:.80} that the plan has learned "
                f"from, got {wrong!r:.40}."
            ) from None
