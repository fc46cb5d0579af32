"""RegionStats: mergeable sums per level set and region, from which all losses are computed.

Sums are stored in fixed point (multiples of 2**-40, in two int64 limbs per sum), so that merging is
exactly associative and commutative: any split of the rows, in any order, gives identical results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference import LIMB
from epiloss._typing import Codes, Floats
from epiloss.calibration.clusters import ClusterParts
from epiloss.errors import OptionError
from epiloss.estimation.label_weights import squares_factor
from epiloss.estimation.region_rows import (
    ADDED,
    FIELDS,
    add_rows,
    add_up,
    carried,
    compressed,
    residuals,
    with_level_field,
    zero_sums,
)
from epiloss.scoring import ScoringRule

if TYPE_CHECKING:
    from epiloss.estimation.losses import LevelSetLosses

_LEAST_SQUARE = 2.0**-30  # mean squared weight from which its sum in fixed point is accurate


@dataclass(frozen=True)
class RegionStats:
    """Sums over the rows of each region of each level set, which can be merged exactly in any order.

    A cell is a region of a level set with at least one row. ``stats["label"]`` returns one sum per cell.

    Attributes
    ----------
    level_set, region : array of int
        The level set and region of each cell.
    sums : array of int of shape (2, fields, cells)
        The sums in fixed point.
    plan : tuple of str
        Identifies how the cells are defined: level sets and scoring rule, and the partition. Statistics
        of different plans cannot be merged.

    See Also
    --------
    RegionPlan : learns regions and counts rows in them.

    Examples
    --------
    >>> from epiloss.scoring import Brier
    >>> rows = dict(scores=np.array([0.2, 0.2, 0.8]), labels=np.array([0.0, 1.0, 1.0]), rule=Brier())
    >>> stats = RegionStats.from_rows(np.array([0, 0, 1]), np.array([3, 3, 1]), **rows)
    >>> stats.region, stats.n, stats["label"], stats.mean("label")
    (array([3, 1]), array([2., 1.]), array([1., 1.]), array([0.5, 1. ]))
    >>> twice = RegionStats.empty().merge(stats).update(np.array([0, 0, 1]), np.array([3, 3, 1]), **rows)
    >>> twice.n.tolist(), twice.without(stats).n.tolist()
    ([4.0, 2.0], [2.0, 1.0])
    >>> stats.relabel(np.array([0, 0])).region.tolist(), stats.by_level_set().n_cells
    ([0, 0], 2)
    >>> RegionStats.with_cells(np.array([0, 0, 1]), np.array([3, 3, 1]), **rows)[1]
    array([0, 0, 1])
    """

    level_set: Codes
    region: Codes
    sums: NDArray[np.int64]  # (2 limbs, fields, cells)
    plan: tuple[str, str] = ("", "")

    @classmethod
    def from_rows(cls, level_set: Codes, region: Codes, **rows: Any) -> RegionStats:
        """Sum rows by level set and region.

        Parameters
        ----------
        level_set, region : array of int
            The level set and region of each row.
        **rows
            The arguments of :meth:`with_cells`.

        Returns
        -------
        RegionStats
            The sums over these rows.
        """
        return cls.with_cells(level_set, region, **rows)[0]

    @classmethod
    def with_cells(
        cls,
        level_set: Codes,
        region: Codes,
        *,
        labels: Floats,
        scores: Floats,
        rule: ScoringRule,
        weights: Floats | None = None,
        clusters: Codes | None = None,
        curves: tuple[Floats, Floats] | None = None,
        plan: tuple[str, str] = ("", ""),
    ) -> tuple[RegionStats, Codes]:
        """Sum rows by level set and region, and return the cell of each row.

        Parameters
        ----------
        level_set, region : array of int
            The level set and region of each row.
        labels, scores : array
            Labels in {0, 1}, and scores.
        rule : ScoringRule
            The scoring rule.
        weights : array, optional
            Weights in [0, 1]; scale them first.
        clusters : array of int, optional
            Rows of the same cell and cluster count less, according to the correlation of their labels.
        curves : pair of arrays, optional
            Two independent estimates of each row's calibrated score.
        plan : tuple of str
            Identifies how the cells are defined.

        Returns
        -------
        RegionStats
            The sums.
        array of int
            The index of each row's cell.
        """
        n_regions = int(region.max(initial=0)) + 1
        cell = level_set * n_regions
        cell += region
        cell, code = compressed(cell)
        weight_sq = level_weight_sq = None
        if clusters is not None:
            levels = ClusterParts.of(level_set, clusters, weights)
            correlation = levels.correlation(residuals(labels, curves, level_set, weights))
            level_weight_sq = levels.squares(correlation)
            weight_sq = ClusterParts.of(code, clusters, weights).squares(correlation)
        if weights is not None and curves is not None:
            factor = squares_factor(labels, weights, scores, (curves[0] + curves[1]) / 2)
            if factor is not None:
                squares = weights * weights if level_weight_sq is None else level_weight_sq
                level_weight_sq = factor * squares
                if not rule.bounded:  # otherwise Kish's number is conservative for regions
                    weight_sq = factor * (weights * weights if weight_sq is None else weight_sq)
        sums = zero_sums(len(cell), rule)
        own = add_rows(code, sums, rule, labels, scores, weights, weight_sq, curves)
        sums = with_level_field(sums, own)
        if level_weight_sq is not None:
            sums[:, -1] = 0
            add_up(code, level_weight_sq, sums[:, -1])
        return cls(cell // n_regions, cell % n_regions, carried(sums), plan), code

    @classmethod
    def empty(cls, plan: tuple[str, str] = ("", "")) -> RegionStats:
        """Return statistics without rows, into which others can be merged.

        Parameters
        ----------
        plan : tuple of str
            Identifies how the cells are defined.

        Returns
        -------
        RegionStats
            Statistics without cells.
        """
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, np.zeros((2, len(FIELDS), 0), np.int64), plan)

    def update(self, level_set: Codes, region: Codes, **rows: Any) -> RegionStats:
        """Return the statistics with more rows added.

        Parameters
        ----------
        level_set, region : array of int
            The level set and region of each row.
        **rows
            The arguments of :meth:`with_cells`.

        Returns
        -------
        RegionStats
            The statistics of all rows.
        """
        return self.merge(RegionStats.from_rows(level_set, region, plan=self.plan, **rows))

    def compute(self, rule: ScoringRule) -> LevelSetLosses:
        """Return the losses of each level set; ``.total("grouping_loss")`` is their mean.

        Parameters
        ----------
        rule : ScoringRule
            The scoring rule with which the rows were summed.

        Returns
        -------
        LevelSetLosses
            The losses of each level set.

        Examples
        --------
        >>> from epiloss.scoring import Brier
        >>> g = np.random.default_rng(0)
        >>> region, stats = g.integers(2, size=4_000), RegionStats.empty()
        >>> y = (g.random(4_000) < np.where(region == 0, 0.2, 0.8)).astype(float)
        >>> for some in (slice(0, 1_000), slice(1_000, None)):
        ...     rows = dict(labels=y[some], scores=np.full(len(y[some]), 0.5), rule=Brier())
        ...     stats = stats.update(np.zeros(len(y[some]), int), region[some], **rows)
        >>> bool(abs(stats.compute(Brier()).total("grouping_loss") - 0.3**2) < 0.01)
        True
        """
        from epiloss.estimation.losses import level_set_losses  # avoids a circular import

        return level_set_losses(self, rule)

    def without(self, other: RegionStats) -> RegionStats:
        """Return the statistics with some of the rows removed.

        Parameters
        ----------
        other : RegionStats
            The statistics of the rows to remove.

        Returns
        -------
        RegionStats
            The statistics of the remaining rows.
        """
        left = self.merge(replace(other, sums=-other.sums))
        present = left.n > 0
        return replace(
            left,
            level_set=left.level_set[present],
            region=left.region[present],
            sums=left.sums[:, :, present],
        )

    @property
    def n(self) -> Floats:
        """The number of rows in each cell."""
        return self["n"]

    @property
    def n_cells(self) -> int:
        """The number of cells: regions of all level sets with at least one row."""
        return len(self.region)

    def __getitem__(self, field: str) -> Floats:
        """Return the sum of a field in each cell."""
        value: Floats = self._values[FIELDS.index(field)]
        return value

    @cached_property
    def _values(self) -> Floats:
        high, low = self.sums
        value: Floats = high / LIMB + low / (LIMB * LIMB)
        return value

    def mean(self, field: str) -> Floats:
        """Return the weighted mean of a field in each cell.

        Parameters
        ----------
        field : str
            The name of the field.

        Returns
        -------
        array of shape (cells,)
            The sum divided by the weight.
        """
        return self[field] / self["weight"]

    @cached_property
    def effective_n(self) -> Floats:
        """Kish's effective number of rows in each cell."""
        weight, squares = self["weight"], self["weight_sq"]
        # Sums of smaller squares are not accurate; equal weights have the smallest sum.
        least = np.where(squares < _LEAST_SQUARE * self.n, weight**2 / self.n, 0.0)
        value: Floats = weight**2 / np.maximum(squares, least)
        return value

    def merge(self, other: RegionStats) -> RegionStats:
        """Return the statistics of both sets of rows together.

        Parameters
        ----------
        other : RegionStats
            Statistics of the same plan.

        Returns
        -------
        RegionStats
            The merged statistics, which do not depend on the order.
        """
        if self.plan != other.plan:
            raise OptionError(
                "statistics must have the same partition, level sets and scoring rule to be merged, got "
                f"plans {self.plan!r} and {other.plan!r}. Count both parts with the same plan."
            )
        return RegionStats(
            np.concatenate([self.level_set, other.level_set]),
            np.concatenate([self.region, other.region]),
            np.concatenate([self.sums, other.sums], axis=2),
            self.plan,
        )._summed()

    def relabel(self, region: Codes) -> RegionStats:
        """Return the statistics with cell ``i`` moved to region ``region[i]`` of its level set.

        Parameters
        ----------
        region : array of int of shape (cells,)
            The new region of each cell.

        Returns
        -------
        RegionStats
            The statistics; cells of the same region are summed.
        """
        if region is self.region:
            return self
        return RegionStats(self.level_set, region, self.sums, self.plan)._summed()

    def by_level_set(self) -> RegionStats:
        """Return the statistics of whole level sets.

        Returns
        -------
        RegionStats
            Statistics with one cell per level set.
        """
        return self._levels

    @cached_property
    def _levels(self) -> RegionStats:
        whole = self.relabel(np.zeros_like(self.region))
        sums = whole.sums.copy()
        sums[:, FIELDS.index("weight_sq")] = sums[:, FIELDS.index("level_weight_sq")]
        return replace(whole, sums=sums, plan=(self.plan[0], ""))

    def _summed(self) -> RegionStats:
        n_regions = int(self.region.max(initial=0)) + 1
        cell, code = np.unique(self.level_set * n_regions + self.region, return_inverse=True)
        order = np.argsort(code, kind="stable")
        first = np.searchsorted(code[order], np.arange(len(cell)))
        sums = np.add.reduceat(self.sums[:, :, order], first, axis=2)
        return RegionStats(cell // n_regions, cell % n_regions, carried(sums), self.plan)


class RegionSums:
    """Sums of rows that arrive in batches, updated in place; cells are added when they are needed."""

    def __init__(self, n_level_sets: int, rule: ScoringRule) -> None:
        self._rule = rule
        self._n_level_sets, self._n_regions = n_level_sets, 1
        self._sums = zero_sums(n_level_sets, rule)
        self._own = list(range(len(ADDED)))

    def add(
        self,
        level_set: Codes,
        region: Codes,
        labels: Floats,
        scores: Floats,
        weights: Floats | None,
        curves: tuple[Floats, Floats] | None,
    ) -> None:
        """Add rows, as :meth:`RegionStats.from_rows` does."""
        n_regions = int(region.max(initial=0)) + 1
        if n_regions > self._n_regions:
            self._widen(1 << n_regions.bit_length())
        code = level_set * self._n_regions + region
        if len(code):
            self._own = add_rows(code, self._sums, self._rule, labels, scores, weights, None, curves)

    def _widen(self, n_regions: int) -> None:
        wider = zero_sums(self._n_level_sets * n_regions, self._rule)
        old, cells = self._n_regions, np.arange(self._sums.shape[2])
        wider[:, :, cells // old * n_regions + cells % old] = self._sums
        self._sums, self._n_regions = wider, n_regions

    def stats(self, plan: tuple[str, str] = ("", "")) -> RegionStats:
        """Return the sums of the cells that have rows."""
        cell = np.flatnonzero(self._sums[0, 0] | self._sums[1, 0])
        sums = carried(with_level_field(self._sums, self._own)[:, :, cell])
        return RegionStats(cell // self._n_regions, cell % self._n_regions, sums, plan)
