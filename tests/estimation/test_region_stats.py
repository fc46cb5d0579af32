from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiloss._typing import Codes, Floats
from epiloss.errors import OptionError
from epiloss.estimation.region_rows import FIELDS
from epiloss.estimation.region_stats import RegionStats
from epiloss.scoring import Brier, LogLoss, ScoringRule

LAW = settings(deadline=None, derandomize=True, max_examples=40)
PLAN = ("15 uniform level sets, brier", "tree 7")


@dataclass(frozen=True)
class Rows:
    level_set: Codes
    region: Codes
    labels: Floats
    scores: Floats
    weights: Floats | None
    curves: tuple[Floats, Floats] | None
    rule: ScoringRule

    def stats(self, rows: Codes | None = None, plan: tuple[str, str] = PLAN) -> RegionStats:
        """Add up some of the rows, in the order given."""
        take = np.arange(len(self.labels)) if rows is None else rows
        return RegionStats.from_rows(
            self.level_set[take],
            self.region[take],
            labels=self.labels[take],
            scores=self.scores[take],
            rule=self.rule,
            weights=None if self.weights is None else self.weights[take],
            curves=None if self.curves is None else (self.curves[0][take], self.curves[1][take]),
            plan=plan,
        )


def random_rows(seed: int, n: int, *, weighted: bool = True, curved: bool = True) -> Rows:
    generator = np.random.default_rng(seed)
    scores = generator.random(n) ** 2
    scores[generator.random(n) < 0.2] = 0.0  # with the log-loss some of these are infinitely wrong
    codes = np.array([0, 1, 2, 7, 10**6])  # leaves of a tree leave gaps, hashes leave huge ones
    return Rows(
        level_set=generator.integers(0, 4, n),
        region=codes[generator.integers(0, len(codes), n)],
        labels=(generator.random(n) < 0.4).astype(float),
        scores=scores,
        weights=generator.random(n) if weighted else None,
        curves=(generator.random(n), generator.random(n)) if curved else None,
        rule=Brier() if seed % 2 else LogLoss(),
    )


ROWS = st.builds(
    random_rows,
    st.integers(0, 10**6),
    st.integers(0, 80),
    weighted=st.booleans(),
    curved=st.booleans(),
)


def assert_same_bits(one: RegionStats, other: RegionStats) -> None:
    np.testing.assert_array_equal(one.level_set, other.level_set)
    np.testing.assert_array_equal(one.region, other.region)
    np.testing.assert_array_equal(one.sums, other.sums)
    assert one.sums.dtype == other.sums.dtype == np.int64
    assert one.plan == other.plan


def assert_same_totals(one: RegionStats, other: RegionStats) -> None:
    """Compare the sums over all cells, as whole numbers of fixed-point steps."""
    for a, b in zip(one.sums.sum(axis=2).T, other.sums.sum(axis=2).T, strict=True):
        assert int(a[0]) * 2**20 + int(a[1]) == int(b[0]) * 2**20 + int(b[1])


@given(rows=ROWS, n_parts=st.integers(1, 6), seed=st.integers(0, 10**6))
@LAW
def test_merged_parts_equal_one_pass_bit_for_bit(rows: Rows, n_parts: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    part = generator.integers(0, n_parts, len(rows.labels))
    parts = [rows.stats(generator.permutation(np.flatnonzero(part == k))) for k in range(n_parts)]
    generator.shuffle(parts)
    assert_same_bits(reduce(RegionStats.merge, parts), rows.stats())


@given(rows=ROWS, seed=st.integers(0, 10**6))
@LAW
def test_merging_is_commutative_bit_for_bit(rows: Rows, seed: int) -> None:
    first = np.random.default_rng(seed).random(len(rows.labels)) < 0.5
    a, b = rows.stats(np.flatnonzero(first)), rows.stats(np.flatnonzero(~first))
    assert_same_bits(a.merge(b), b.merge(a))


@given(rows=ROWS, seed=st.integers(0, 10**6))
@LAW
def test_merging_is_associative_bit_for_bit(rows: Rows, seed: int) -> None:
    part = np.random.default_rng(seed).integers(0, 3, len(rows.labels))
    a, b, c = (rows.stats(np.flatnonzero(part == k)) for k in range(3))
    assert_same_bits(a.merge(b).merge(c), a.merge(b.merge(c)))


@given(rows=ROWS, seed=st.integers(0, 10**6))
@LAW
def test_the_order_of_the_rows_does_not_change_a_bit(rows: Rows, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(rows.labels))
    assert_same_bits(rows.stats(order), rows.stats())


@given(rows=ROWS)
@LAW
def test_the_statistics_of_no_rows_change_nothing(rows: Rows) -> None:
    nothing = rows.stats(np.arange(0))
    assert nothing.n_cells == 0
    assert_same_bits(nothing.merge(rows.stats()), rows.stats())
    assert_same_bits(rows.stats().merge(nothing), rows.stats())
    assert_same_bits(nothing.merge(nothing), nothing)


def test_many_large_parts_merge_to_the_bits_of_one_pass() -> None:
    rows = random_rows(11, 200_000)
    parts = np.array_split(np.random.default_rng(0).permutation(200_000), 37)
    assert_same_bits(reduce(RegionStats.merge, [rows.stats(part) for part in parts]), rows.stats())


def expected_values(rows: Rows) -> dict[str, Floats]:
    """Write out what each field adds up, for each row."""
    s, y = rows.scores, rows.labels
    w = np.ones(len(y)) if rows.weights is None else rows.weights
    a, b = (s, s) if rows.curves is None else rows.curves
    loss = rows.rule.loss(s, y)
    finite = np.isfinite(loss)
    shown = np.where(finite, loss, 0.0)
    curve = np.clip((a + b) / 2, 1e-6, 1 - 1e-6)
    by_chance = rows.rule.loss(curve, y) - rows.rule.entropy(curve)
    return {
        "n": np.ones(len(y)),
        "weight": w,
        "weight_sq": w**2,
        "level_weight_sq": w**2,
        "label": w * y,
        "score": w * s,
        "score_sq": w * s**2,
        "score_label": w * s * y,
        "loss": w * shown,
        "n_infinite": (~finite).astype(float),
        "expected": w * (rows.rule.expected(s, (a + b) / 2) if rows.rule.bounded else shown - by_chance),
        "curve_a": w * a,
        "curve_b": w * b,
        "curve_entropy": w * rows.rule.pair_entropy(a, b),
    }


@given(rows=ROWS)
@LAW
def test_every_field_is_the_sum_of_its_rows(rows: Rows) -> None:
    stats, values = rows.stats(), expected_values(rows)
    assert set(values) == set(FIELDS)
    cells = list(zip(stats.level_set.tolist(), stats.region.tolist(), strict=True))
    assert cells == sorted(set(zip(rows.level_set.tolist(), rows.region.tolist(), strict=True)))
    for i, (level, region) in enumerate(cells):
        inside = (rows.level_set == level) & (rows.region == region)
        for name in FIELDS:
            assert stats[name][i] == pytest.approx(math.fsum(values[name][inside]), abs=1e-9)
        assert stats.n[i] == inside.sum()


@given(rows=ROWS, seed=st.integers(0, 10**6))
@LAW
def test_relabelling_conserves_every_sum(rows: Rows, seed: int) -> None:
    stats = rows.stats()
    region = np.random.default_rng(seed).integers(0, 3, stats.n_cells)
    relabelled = stats.relabel(region)
    assert_same_totals(relabelled, stats)
    assert_same_totals(relabelled.by_level_set(), stats)
    assert relabelled.plan == stats.plan
    new = set(zip(stats.level_set.tolist(), region.tolist(), strict=True))
    assert new == set(zip(relabelled.level_set.tolist(), relabelled.region.tolist(), strict=True))


@given(rows=ROWS)
@LAW
def test_relabelling_with_the_same_regions_changes_nothing(rows: Rows) -> None:
    stats = rows.stats()
    assert_same_bits(stats.relabel(stats.region), stats)


@given(rows=ROWS, seed=st.integers(0, 10**6))
@LAW
def test_relabelling_cells_is_relabelling_rows(rows: Rows, seed: int) -> None:
    new = np.resize(np.random.default_rng(seed).integers(0, 3, 11), 10**6 + 1)
    moved = Rows(
        rows.level_set,
        new[rows.region],
        rows.labels,
        rows.scores,
        rows.weights,
        rows.curves,
        rows.rule,
    )
    assert_same_bits(rows.stats().relabel(new[rows.stats().region]), moved.stats())


@given(rows=ROWS)
@LAW
def test_the_level_sets_are_one_region_each_and_conserve_every_sum(rows: Rows) -> None:
    stats = rows.stats()
    levels = stats.by_level_set()
    np.testing.assert_array_equal(levels.level_set, np.unique(rows.level_set))
    np.testing.assert_array_equal(levels.region, 0)
    assert_same_totals(levels, stats)
    for i, level in enumerate(levels.level_set):
        assert_same_totals(
            RegionStats(levels.level_set[i : i + 1], levels.region[:1], levels.sums[:, :, i : i + 1]),
            RegionStats(
                stats.level_set[stats.level_set == level],
                stats.region[stats.level_set == level],
                stats.sums[:, :, stats.level_set == level],
            ),
        )


@given(rows=ROWS, seed=st.integers(0, 10**6))
@LAW
def test_level_sets_of_merged_parts_are_merged_level_sets(rows: Rows, seed: int) -> None:
    first = np.random.default_rng(seed).random(len(rows.labels)) < 0.5
    a, b = rows.stats(np.flatnonzero(first)), rows.stats(np.flatnonzero(~first))
    assert_same_bits(a.by_level_set().merge(b.by_level_set()), a.merge(b).by_level_set())


@pytest.mark.parametrize(
    "other", [("10 uniform level sets, brier", "tree 7"), (PLAN[0], "tree 8"), ("", "")]
)
def test_statistics_of_another_plan_are_refused(other: tuple[str, str]) -> None:
    rows = random_rows(1, 20)
    with pytest.raises(OptionError, match=r"level sets and scoring rule to be merged.*tree 7"):
        rows.stats().merge(rows.stats(plan=other))


def test_level_sets_of_different_partitions_merge() -> None:
    # the plan of the level sets forgets the partition, so that swapped halves add up
    rows = random_rows(3, 50)
    first, second = np.arange(25), np.arange(25, 50)
    a = rows.stats(first, plan=(PLAN[0], "tree 1")).by_level_set()
    b = rows.stats(second, plan=(PLAN[0], "tree 2")).by_level_set()
    assert_same_bits(a.merge(b), rows.stats().by_level_set())


def test_level_sets_of_different_bins_do_not_merge() -> None:
    rows = random_rows(3, 50)
    with pytest.raises(OptionError, match="same partition, level sets and scoring rule"):
        rows.stats(plan=("5 bins", "")).by_level_set().merge(rows.stats(plan=("6 bins", "")))


def test_means_and_effective_sizes_are_derived_from_the_sums() -> None:
    labels, weights = np.array([1.0, 0.0, 1.0]), np.array([0.5, 0.25, 1.0])
    stats = RegionStats.from_rows(
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
        labels=labels,
        scores=np.full(3, 0.5),
        rule=Brier(),
        weights=weights,
    )
    assert stats.mean("label").tolist() == [1.5 / 1.75]
    assert stats.effective_n.tolist() == [1.75**2 / 1.3125]
    assert stats.n.tolist() == [3]


@given(rows=ROWS)
@LAW
def test_equal_weights_leave_the_effective_size_the_number_of_rows(rows: Rows) -> None:
    equal = Rows(
        rows.level_set,
        rows.region,
        rows.labels,
        rows.scores,
        np.full(len(rows.labels), 0.25),
        None,
        rows.rule,
    )
    np.testing.assert_array_equal(equal.stats().effective_n, equal.stats().n)


def test_infinite_losses_are_counted_apart() -> None:
    stats = RegionStats.from_rows(
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
        labels=np.array([1.0, 0.0, 1.0]),
        scores=np.array([0.0, 0.0, 0.5]),
        rule=LogLoss(),
    )
    assert stats["n_infinite"].tolist() == [1]
    assert stats["loss"][0] == pytest.approx(np.log(2), abs=1e-12)
