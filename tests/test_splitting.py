from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiloss.levelsets import Codes
from epiloss.splitting import Fold, stratified_fold

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
