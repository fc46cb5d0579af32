"""RegionStats: the mergeable sums per (level set, region) that are all the estimators need.

Sums are kept in fixed point (steps of 2**-40, two int64 limbs a sum), so that merging is exactly
associative and commutative: any split of the rows, in any order, gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import blocks
from epiloss._kernels.reference import LIMB
from epiloss._typing import Codes, Floats
from epiloss.calibration.clusters import ClusterParts
from epiloss.errors import DataError, OptionError
from epiloss.scoring import Brier, ScoringRule

if TYPE_CHECKING:
    from epiloss.estimation.losses import LevelSetLosses

FIELDS = (
    "n",  # rows
    "weight",
    "weight_sq",
    "label",
    "score",
    "score_sq",
    "score_label",
    "loss",  # of the rows whose loss is finite
    "n_infinite",  # rows whose loss is not
    "expected",  # score under the calibration curve: s(S, C)
    "curve_a",
    "curve_b",
    "curve_entropy",  # of the pair of curves, free of their noise
    "level_weight_sq",  # squared weights as they are where a level set is one region
)
_ADDED = FIELDS[:-1]  # row by row; the last differs from ``weight_sq`` in clusters alone
INSIDE = 1e-6  # fitted probabilities are kept so far from 0 and 1 where the score is not bounded


@dataclass(frozen=True)
class RegionStats:
    """Sums over the rows of each region of each level set; they merge exactly, in any order.

    ``stats["label"]`` is one sum of every cell, a region of a level set with at least one row.

    Attributes
    ----------
    level_set, region : array of int
        What each cell belongs to.
    sums : array of int of shape (2, fields, cells)
        The sums in fixed point.
    plan : tuple of str
        What the cells are made by: level sets and rule, then the partition. Statistics of different
        plans do not merge.

    See Also
    --------
    RegionPlan : learns regions, and counts rows in them.

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
        """Add up rows.

        Parameters
        ----------
        level_set, region : array of int
            Of each row.
        **rows
            As in :meth:`with_cells`.

        Returns
        -------
        RegionStats
            The sums of these rows.
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
        """Add up rows, and return the cell of each.

        Parameters
        ----------
        level_set, region : array of int
            Of each row.
        labels, scores : array
            Outcomes in {0, 1}, and scores.
        rule : ScoringRule
            The scoring rule.
        weights : array, optional
            In [0, 1]: scale them first.
        clusters : array of int, optional
            Rows of one cell and one cluster count as far as their labels do not depend on each other.
        curves : pair of arrays, optional
            Two independent estimates of each row's calibrated score.
        plan : tuple of str
            What the cells are made by.

        Returns
        -------
        RegionStats
            The sums.
        array of int
            Each row's place among the cells.
        """
        n_regions = int(region.max(initial=0)) + 1
        cell = level_set * n_regions
        cell += region
        cell, code = _compress(cell)
        weight_sq = level_weight_sq = None
        if clusters is not None:
            levels = ClusterParts.of(level_set, clusters, weights)
            correlation = levels.correlation(_residuals(labels, curves, level_set, weights))
            level_weight_sq = levels.squares(correlation)
            weight_sq = ClusterParts.of(code, clusters, weights).squares(correlation)
        sums = _zeros(len(cell), rule)
        own = _add_rows(code, sums, rule, labels, scores, weights, weight_sq, curves)
        sums = _with_levels(sums, own)
        if level_weight_sq is not None:
            sums[:, -1] = 0
            _add_up(code, level_weight_sq, sums[:, -1])
        return cls(cell // n_regions, cell % n_regions, carried(sums), plan), code

    @classmethod
    def empty(cls, plan: tuple[str, str] = ("", "")) -> RegionStats:
        """Return the statistics of no rows, to which others are merged.

        Parameters
        ----------
        plan : tuple of str
            What the cells are made by.

        Returns
        -------
        RegionStats
            Without cells.
        """
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, np.zeros((2, len(FIELDS), 0), np.int64), plan)

    def update(self, level_set: Codes, region: Codes, **rows: Any) -> RegionStats:
        """Return the statistics with more rows.

        Parameters
        ----------
        level_set, region : array of int
            Of each row.
        **rows
            As in :meth:`with_cells`.

        Returns
        -------
        RegionStats
            Of the old rows and these.
        """
        return self.merge(RegionStats.from_rows(level_set, region, plan=self.plan, **rows))

    def compute(self, rule: ScoringRule) -> LevelSetLosses:
        """Return the losses of each level set; ``.total("grouping_loss")`` is their mean.

        Parameters
        ----------
        rule : ScoringRule
            The rule that the rows were added up by.

        Returns
        -------
        LevelSetLosses
            A value for each level set.

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
        from epiloss.estimation.losses import level_set_losses  # which is made of these

        return level_set_losses(self, rule)

    def without(self, other: RegionStats) -> RegionStats:
        """Return the statistics without those of some of their rows.

        Parameters
        ----------
        other : RegionStats
            Statistics of some of the rows.

        Returns
        -------
        RegionStats
            Of the other rows.
        """
        left = self.merge(replace(other, sums=-other.sums))
        some = left.n > 0
        return replace(
            left, level_set=left.level_set[some], region=left.region[some], sums=left.sums[:, :, some]
        )

    @property
    def n(self) -> Floats:
        """The number of rows in each cell."""
        return self["n"]

    @property
    def n_cells(self) -> int:
        """The number of regions with at least one row, over all level sets."""
        return len(self.region)

    def __getitem__(self, field: str) -> Floats:
        """Return one sum for every cell."""
        value: Floats = self._values[FIELDS.index(field)]
        return value

    @cached_property
    def _values(self) -> Floats:
        high, low = self.sums
        value: Floats = high / LIMB + low / (LIMB * LIMB)
        return value

    def mean(self, field: str) -> Floats:
        """Return a weighted mean for every cell.

        Parameters
        ----------
        field : str
            The name of a sum.

        Returns
        -------
        array of shape (cells,)
            The sum over the weight.
        """
        return self[field] / self["weight"]

    @cached_property
    def effective_n(self) -> Floats:
        """The number of equally weighted rows that would be as informative (Kish)."""
        weight = self["weight"]
        least = weight**2 / self.n  # at equal weights; the sum of squares may be too small to hold
        value: Floats = weight**2 / np.maximum(self["weight_sq"], least)
        return value

    def merge(self, other: RegionStats) -> RegionStats:
        """Return the statistics of both sets of rows together.

        Parameters
        ----------
        other : RegionStats
            Of the same plan.

        Returns
        -------
        RegionStats
            The same bits for any order.
        """
        if self.plan != other.plan:
            raise OptionError(
                "statistics must have the same partition, level sets and rule to be merged, got plans "
                f"{self.plan!r} and {other.plan!r}. Count both parts with one plan."
            )
        return RegionStats(
            np.concatenate([self.level_set, other.level_set]),
            np.concatenate([self.region, other.region]),
            np.concatenate([self.sums, other.sums], axis=2),
            self.plan,
        )._gathered()

    def relabel(self, region: Codes) -> RegionStats:
        """Return the statistics with cell ``i`` now in region ``region[i]`` of its level set.

        Parameters
        ----------
        region : array of int of shape (cells,)
            The new regions.

        Returns
        -------
        RegionStats
            Cells of one region are added up.
        """
        if region is self.region:
            return self
        return RegionStats(self.level_set, region, self.sums, self.plan)._gathered()

    def by_level_set(self) -> RegionStats:
        """Return the statistics of the level sets, each a single region.

        Returns
        -------
        RegionStats
            With one cell for each level set.
        """
        return self._levels

    @cached_property
    def _levels(self) -> RegionStats:
        whole = self.relabel(np.zeros_like(self.region))
        sums = whole.sums.copy()
        sums[:, FIELDS.index("weight_sq")] = sums[:, FIELDS.index("level_weight_sq")]
        return replace(whole, sums=sums, plan=(self.plan[0], ""))

    def _gathered(self) -> RegionStats:
        n_regions = int(self.region.max(initial=0)) + 1
        cell, code = np.unique(self.level_set * n_regions + self.region, return_inverse=True)
        order = np.argsort(code, kind="stable")
        first = np.searchsorted(code[order], np.arange(len(cell)))
        sums = np.add.reduceat(self.sums[:, :, order], first, axis=2)
        return RegionStats(cell // n_regions, cell % n_regions, carried(sums), self.plan)


class RegionSums:
    """Sums of rows that come in batch by batch, in place; cells appear as they are needed."""

    def __init__(self, n_level_sets: int, rule: ScoringRule) -> None:
        self._rule = rule
        self._n_level_sets, self._n_regions = n_level_sets, 1
        self._sums = _zeros(n_level_sets, rule)
        self._own = list(range(len(_ADDED)))

    def add(
        self,
        level_set: Codes,
        region: Codes,
        labels: Floats,
        scores: Floats,
        weights: Floats | None,
        curves: tuple[Floats, Floats] | None,
    ) -> None:
        """Add rows as :meth:`RegionStats.from_rows` does."""
        more = int(region.max(initial=0)) + 1
        if more > self._n_regions:
            self._widen(1 << more.bit_length())
        code = level_set * self._n_regions + region
        if len(code):
            self._own = _add_rows(code, self._sums, self._rule, labels, scores, weights, None, curves)

    def _widen(self, n_regions: int) -> None:
        wider = _zeros(self._n_level_sets * n_regions, self._rule)
        old, cells = self._n_regions, np.arange(self._sums.shape[2])
        wider[:, :, cells // old * n_regions + cells % old] = self._sums
        self._sums, self._n_regions = wider, n_regions

    def stats(self, plan: tuple[str, str] = ("", "")) -> RegionStats:
        """Return the sums of the cells that have rows."""
        cell = np.flatnonzero(self._sums[0, 0] | self._sums[1, 0])
        sums = carried(_with_levels(self._sums, self._own)[:, :, cell])
        return RegionStats(cell // self._n_regions, cell % self._n_regions, sums, plan)


def _add_rows(
    code: Codes,
    sums: NDArray[np.int64],
    rule: ScoringRule,
    labels: Floats,
    scores: Floats,
    weights: Floats | None,
    weight_sq: Floats | None,
    curves: tuple[Floats, Floats] | None,
) -> list[int]:
    """Add rows to the sums of their cells; return for each field the one that holds its sum."""
    a, b = (scores, scores) if curves is None else curves
    own = {name: name for name in _ADDED}
    if type(rule) is Brier:
        both = _weights_and_squares(len(code), weights, weight_sq)
        if kernel().add_brier(code, labels, scores, (a, b), *both, sums):
            return [0, 0, 0, *range(3, len(_ADDED))] if both[0] is None else list(range(len(_ADDED)))
    for some in blocks(len(code), least=kernel().ROWS_PER_CELL * sums.shape[2]):
        w, squares = (None if one is None else one[some] for one in (weights, weight_sq))
        values = _row_values(rule, labels[some], scores[some], w, squares, a[some], b[some])
        own = _own_fields(values)
        for name in sorted(set(own.values()) & set(values)):
            _add_up(code[some], values[name], sums[:, FIELDS.index(name)])
    return [FIELDS.index(own[name]) for name in _ADDED]


def _with_levels(sums: NDArray[np.int64], own: list[int]) -> NDArray[np.int64]:
    """Return all fields: those that were added, each from its own sum, and the one for level sets."""
    return sums[:, [*own, own[FIELDS.index("weight_sq")]]]


def _residuals(
    labels: Floats, curves: tuple[Floats, Floats] | None, level_set: Codes, weights: Floats | None
) -> Floats:
    """Return labels less the curve, or less the mean of their level set where there is none."""
    if curves is not None:
        return labels - (curves[0] + curves[1]) / 2
    total = np.bincount(level_set, weights)
    ones = np.bincount(level_set, labels if weights is None else weights * labels)
    return labels - (ones / np.where(total > 0, total, 1.0))[level_set]


def _weights_and_squares(
    n: int, weights: Floats | None, weight_sq: Floats | None
) -> tuple[Floats | None, Floats | None]:
    """Return both, or neither where all rows count as one."""
    if weights is None:
        return (None if weight_sq is None else np.ones(n)), weight_sq
    return weights, weights * weights if weight_sq is None else weight_sq


def _row_values(
    rule: ScoringRule,
    labels: Floats,
    scores: Floats,
    weights: Floats | None,
    weight_sq: Floats | None,
    a: Floats,
    b: Floats,
) -> dict[str, Floats]:
    """Return what rows add to each field, if anything; fields of equal values are one array."""
    one = np.ones(len(scores))
    loss = rule.loss(scores, labels)
    finite = np.isfinite(loss)
    infinite = {}
    if not finite.all():
        loss, infinite = np.where(finite, loss, 0.0), {"n_infinite": 1.0 - finite}
    values = {
        "label": labels,
        "score": scores,
        "score_sq": scores * scores,
        "score_label": scores * labels,
        "loss": loss,
        "expected": _expected(rule, scores, labels, loss, (a + b) / 2),
        "curve_a": a,
        "curve_b": b,
        "curve_entropy": rule.pair_entropy(a, b),
    }
    w = one if weights is None else weights
    if weights is not None:
        weighted = {"score_sq": w * scores * scores, "score_label": w * scores * labels}
        values = {name: w * value for name, value in values.items()} | weighted
    square = weight_sq if weight_sq is not None else one if weights is None else w * w
    return {"n": one, "weight": w, "weight_sq": square} | infinite | values


def _expected(rule: ScoringRule, scores: Floats, labels: Floats, loss: Floats, curve: Floats) -> Floats:
    """Return the score that rows are expected to have under the calibration curve.

    Where it is not bounded, errors of the curve would weigh too much: it is what rows have, less what
    they have by chance as the curve tells it.
    """
    if rule.bounded:
        return rule.expected(scores, curve)
    curve = np.clip(curve, INSIDE, 1 - INSIDE)
    return loss - (rule.loss(curve, labels) - rule.entropy(curve))


def _own_fields(values: dict[str, Floats]) -> dict[str, str]:
    """Return for each field the one that is added up in its place: equal values are one array."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(values.get(name, name)), name) for name in _ADDED}


def cluster_weight(code: Codes, clusters: Codes, weight: Floats) -> Floats:
    """Return for each row the weight of its cluster in its cell."""
    return ClusterParts.of(code, clusters, weight).total


def _compress(codes: Codes) -> tuple[Codes, Codes]:
    """Return the codes that occur, in order, and each row's position among them."""
    if codes.max(initial=0) > 8 * len(codes) + 1000:
        present, position = np.unique(codes, return_inverse=True)
        return present, position
    occurs = np.bincount(codes) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def _add_up(code: Codes, values: Floats, sums: NDArray[np.int64]) -> None:
    """Add the values of rows, rounded to 2**-40, to the sums of their cells, in two limbs."""
    if not kernel().add_fixed_point(code, values, *sums):
        raise DataError(
            f"values to sum must be finite, got {values[~np.isfinite(values)][0]}. Check that the "
            "rule's entropy is finite on [0, 1] and that curves stay in it."
        )


def _zeros(n_cells: int, rule: ScoringRule) -> NDArray[np.int64]:
    """Return sums (2 limbs, fields, cells) of nothing.

    In memory those of a cell lie side by side if all are added at once, else those of a field.
    """
    if type(rule) is Brier:
        return np.zeros((n_cells, 2, len(_ADDED)), np.int64).transpose(1, 2, 0)
    return np.zeros((2, len(_ADDED), n_cells), np.int64)


def carried(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the one form of the sums in which the low limb lies in [0, 2**20)."""
    whole = np.empty(sums.shape, np.int64)
    np.right_shift(sums[1], 20, out=whole[0])
    np.bitwise_and(sums[1], 2**20 - 1, out=whole[1])
    whole[0] += sums[0]
    return whole
