from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiloss._typing import Codes, Floats
from epiloss.calibration.halves import even_halves
from epiloss.estimation.splits import Fold, stratified_fold

LAW = settings(deadline=None, derandomize=True, max_examples=60)
LEVEL_SETS = st.lists(st.integers(0, 6), min_size=1, max_size=80).map(np.array)
FRACTIONS = st.floats(0.05, 0.95)


def drawn(level_set: Codes, fraction: float, seed: int) -> Fold:
    return stratified_fold(level_set, fraction, np.random.default_rng(seed))


@given(level_set=LEVEL_SETS, fraction=FRACTIONS, seed=st.integers(0, 1000))
@LAW
def test_every_row_either_learns_or_evaluates(level_set: Codes, fraction: float, seed: int) -> None:
    fold = drawn(level_set, fraction, seed)
    together = np.concatenate([fold.learn, fold.evaluate])
    np.testing.assert_array_equal(np.sort(together), np.arange(len(level_set)))


@given(level_set=LEVEL_SETS, fraction=FRACTIONS, seed=st.integers(0, 1000))
@LAW
def test_each_level_set_gives_its_fraction_to_within_one_row(
    level_set: Codes, fraction: float, seed: int
) -> None:
    size = np.bincount(level_set)
    learns = np.bincount(level_set[drawn(level_set, fraction, seed).learn], minlength=len(size))
    assert np.all(np.abs(learns - fraction * size) < 1 + 1e-9)


@given(level_set=LEVEL_SETS, seed=st.integers(0, 1000))
@LAW
def test_level_sets_of_even_size_are_halved_exactly(level_set: Codes, seed: int) -> None:
    doubled = np.concatenate([level_set, level_set])
    fold = drawn(doubled, 0.5, seed)
    np.testing.assert_array_equal(np.bincount(doubled[fold.learn]), np.bincount(doubled[fold.evaluate]))


@given(level_set=LEVEL_SETS, fraction=FRACTIONS, seed=st.integers(0, 1000))
@LAW
def test_the_same_seed_draws_the_same_fold(level_set: Codes, fraction: float, seed: int) -> None:
    first, again = drawn(level_set, fraction, seed), drawn(level_set, fraction, seed)
    np.testing.assert_array_equal(first.learn, again.learn)
    np.testing.assert_array_equal(first.evaluate, again.evaluate)


def test_another_seed_draws_another_fold() -> None:
    level_set = np.zeros(100, np.int64)
    assert not np.array_equal(drawn(level_set, 0.5, 0).learn, drawn(level_set, 0.5, 1).learn)


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.6])
def test_what_is_left_over_is_rounded_at_random_in_proportion(fraction: float) -> None:
    # level sets of one row each: a row learns with probability ``fraction``
    level_set = np.arange(4000)
    n_learn = len(drawn(level_set, fraction, 3).learn)
    error = np.sqrt(4000 * fraction * (1 - fraction))
    assert abs(n_learn - 4000 * fraction) < 4 * error


def test_an_odd_level_set_is_rounded_both_ways() -> None:
    level_set = np.zeros(5, np.int64)
    assert {len(drawn(level_set, 0.5, seed).learn) for seed in range(20)} == {2, 3}


def test_every_row_of_a_level_set_is_as_likely_to_learn() -> None:
    level_set = np.repeat([0, 1], [3, 5])
    generator = np.random.default_rng(9)
    learns = np.zeros(8)
    for _ in range(4000):
        learns[stratified_fold(level_set, 0.4, generator).learn] += 1
    assert np.all(np.abs(learns / 4000 - 0.4) < 4.5 * np.sqrt(0.24 / 4000))


def test_a_swapped_fold_exchanges_the_roles() -> None:
    fold = drawn(np.repeat([0, 2], 10), 0.3, 0)
    swapped = fold.swapped()
    np.testing.assert_array_equal(swapped.learn, fold.evaluate)
    np.testing.assert_array_equal(swapped.evaluate, fold.learn)


def test_rows_keep_their_order_inside_each_part() -> None:
    fold = drawn(np.random.default_rng(0).integers(5, size=200), 0.5, 0)
    assert np.all(np.diff(fold.learn) > 0)
    assert np.all(np.diff(fold.evaluate) > 0)


# even halves


Rows = tuple[Floats, Floats, Floats | None]


def some_rows(seed: int, n: int, weighted: bool = True) -> Rows:
    """Draw rows with ties; all sums of them are exact, so that their order cannot show."""
    generator = np.random.default_rng(seed)
    weights = generator.integers(1, 5, n) / 4 if weighted else None
    return generator.integers(0, 16, n) / 16, generator.integers(0, 2, n).astype(float), weights


def halves(rows: Rows, clusters: Codes | None = None, seed: int = 0) -> tuple[Codes, Codes]:
    return even_halves(*rows, clusters, np.random.default_rng(seed))


def contents(rows: Rows, half: Codes) -> list[tuple[float, ...]]:
    return sorted(zip(*(column[half].tolist() for column in rows if column is not None), strict=True))


ROWS = st.tuples(st.integers(0, 1000), st.integers(1, 60), st.booleans())


@given(drawn=ROWS, n_clusters=st.integers(0, 12), seed=st.integers(0, 1000))
@LAW
def test_halves_are_disjoint_in_order_and_together_all_rows(
    drawn: tuple[int, int, bool], n_clusters: int, seed: int
) -> None:
    n = drawn[1]
    clusters = np.random.default_rng(seed).integers(0, n_clusters, n) if n_clusters else None
    first, second = halves(some_rows(*drawn), clusters, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(n))
    assert np.all(np.diff(first) > 0)
    assert np.all(np.diff(second) > 0)


@given(drawn=ROWS, seed=st.integers(0, 1000))
@LAW
def test_halves_of_rows_differ_by_at_most_one_below_any_score(
    drawn: tuple[int, int, bool], seed: int
) -> None:
    rows = some_rows(*drawn)
    first, second = halves(rows, seed=seed)
    for score in np.unique(rows[0]):
        below = [np.sum(rows[0][half] <= score) for half in (first, second)]
        assert abs(int(below[0]) - int(below[1])) <= 1


@given(drawn=ROWS, n_clusters=st.integers(2, 12), spread=st.sampled_from([1, 7, 1000]))
@LAW
def test_no_cluster_is_in_both_halves_and_their_numbers_differ_by_at_most_one(
    drawn: tuple[int, int, bool], n_clusters: int, spread: int
) -> None:
    # a spread above one leaves codes out: rows of weight 0 take their clusters with them
    clusters = 3 + spread * np.random.default_rng(drawn[0]).integers(0, n_clusters, drawn[1])
    if len(np.unique(clusters)) < 2:
        return
    first, second = (set(clusters[half]) for half in halves(some_rows(*drawn), clusters))
    assert not first & second
    assert abs(len(first) - len(second)) <= 1
    assert first
    assert second


@given(drawn=ROWS, n_clusters=st.integers(2, 12), spread=st.sampled_from([1, 7, 1000]))
@LAW
def test_the_numbering_of_clusters_matters_only_by_its_order(
    drawn: tuple[int, int, bool], n_clusters: int, spread: int
) -> None:
    rows, clusters = some_rows(*drawn), np.random.default_rng(1).integers(0, n_clusters, drawn[1])
    dense, sparse = halves(rows, clusters), halves(rows, 5 + spread * clusters)
    for half, again in zip(dense, sparse, strict=True):
        np.testing.assert_array_equal(half, again)


@given(drawn=ROWS, n_clusters=st.integers(0, 12), seed=st.integers(0, 1000))
@LAW
def test_halves_depend_on_what_rows_hold_and_not_on_their_order(
    drawn: tuple[int, int, bool], n_clusters: int, seed: int
) -> None:
    n, generator = drawn[1], np.random.default_rng(seed)
    rows = scores, labels, weights = some_rows(*drawn)
    clusters = generator.integers(0, n_clusters, n) if n_clusters else None
    order = generator.permutation(n)
    shuffled = (scores[order], labels[order], None if weights is None else weights[order])
    straight = halves(rows, clusters)
    again = halves(shuffled, None if clusters is None else clusters[order])
    for half, half_again in zip(straight, again, strict=True):
        assert contents(rows, half) == contents(shuffled, half_again)


def test_a_single_cluster_is_halved_by_rows() -> None:
    rows = some_rows(3, 41)
    for code in (0, 8):
        alone = halves(rows, np.full(41, code))
        for half, again in zip(alone, halves(rows), strict=True):
            np.testing.assert_array_equal(half, again)
        assert sorted(len(half) for half in alone) == [20, 21]


def test_clusters_of_one_row_each_are_halved_as_rows_are() -> None:
    rows = some_rows(4, 40)
    for half, again in zip(halves(rows, np.arange(40)), halves(rows), strict=True):
        np.testing.assert_array_equal(half, again)


def test_every_row_is_as_likely_in_either_half() -> None:
    # 4,000 repetitions, 4.5 standard errors
    rows, generator, second = some_rows(5, 9), np.random.default_rng(6), np.zeros(9)
    for _ in range(4_000):
        second[even_halves(*rows, None, generator)[1]] += 1
    assert np.all(np.abs(second / 4_000 - 0.5) < 4.5 * np.sqrt(0.25 / 4_000))
