"""The passes over rows: compiled and NumPy ones agree, and each does what it says."""

from __future__ import annotations

import numpy as np
import pytest

from epiloss._kernels import reference
from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import Grid
from epiloss._typing import Floats
from epiloss.calibration.halves import random_pairs, sorted_rows
from epiloss.calibration.level_sets import LevelSets, quantile_level_sets, uniform_level_sets
from fuzz_kernel import passed


def test_compiled_and_numpy_passes_give_the_same_bits() -> None:
    try:
        from epiloss._kernels import compiled
    except ImportError:
        pytest.skip("the compiled part is not installed")
    for seed in range(300):
        assert passed(seed, reference) == passed(seed, compiled), seed


def test_fixed_point_sums_hold_what_64_bits_of_steps_cannot() -> None:
    values = np.array([2.0**30 + 2.0**-20, -1.25])
    high, low = np.zeros(1, np.int64), np.zeros(1, np.int64)
    kernel().add_fixed_point(np.zeros(2, np.int64), values, high, low)
    assert high[0] * 2.0**-20 + low[0] * 2.0**-40 == values.sum()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_and_nothing_is_added(wrong: float) -> None:
    high, low = np.zeros(1, np.int64), np.zeros(1, np.int64)
    assert not kernel().add_fixed_point(np.zeros(2, np.int64), np.array([1.0, wrong]), high, low)
    assert high[0] == low[0] == 0


def test_interpolation_is_exact_at_the_knots_and_flat_outside() -> None:
    g = np.random.default_rng(0)
    knots, values = np.sort(g.random(700)), g.random(700)
    curve = kernel().interpolate
    np.testing.assert_array_equal(curve(knots, values, knots)[:-1], values[:-1])
    np.testing.assert_array_equal(
        curve(knots, values, np.array([-1.0, 0.0, 1.0, 7.0])), values[[0, 0, -1, -1]]
    )
    x = g.random(10_000)
    np.testing.assert_allclose(curve(knots, values, x), np.interp(x, knots, values), atol=1e-12)


def edges_of_all_kinds(scores: Floats) -> list[LevelSets]:
    return [
        uniform_level_sets(15),
        uniform_level_sets(1),
        quantile_level_sets(scores, 40),
        LevelSets(np.array([-3.0, -1.0, 0.5, 0.5 + 1e-15, 2.0, 9.0])),
        LevelSets(np.concatenate([[0.0], np.unique(scores)[1:3000], [1.0]])),
    ]


@pytest.mark.parametrize("decimals", [1, 3, 17])
def test_many_scores_get_the_level_sets_that_bisection_gives(decimals: int) -> None:
    scores = np.round(np.random.default_rng(1).random(30_000), decimals)
    for level_sets in edges_of_all_kinds(scores):
        expected = np.searchsorted(level_sets.edges[1:-1], scores, side="right")
        np.testing.assert_array_equal(level_sets.assign(scores), expected)
        shifted = scores * 3 - 1  # outside [0, 1], where there is no grid
        expected = np.searchsorted(level_sets.edges[1:-1], shifted, side="right")
        np.testing.assert_array_equal(level_sets.assign(shifted), expected)


def test_a_grid_counts_the_knots_before_each_cell() -> None:
    knots = np.array([-0.5, 0.0, 0.31, 0.31, 0.99, 1.0, 4.0])
    grid = Grid.of(knots, 1000)
    for cell in range(grid.n_cells + 1):
        below = np.clip(knots, 0, 1) * grid.n_cells < cell
        assert grid.first[cell] == below.sum()
    assert grid.first[-1] == len(knots)


def test_sorted_rows_are_those_of_a_sort_by_score_then_label() -> None:
    g = np.random.default_rng(2)
    for scores in (g.random(500), np.round(g.random(500), 1), g.choice([-0.0, 0.0, 5e-324, 1.0], 500)):
        labels = (g.random(500) < 0.4).astype(float)
        order = np.lexsort([labels, scores])
        ordered, sorted_labels = sorted_rows(scores, labels)
        np.testing.assert_array_equal(ordered, scores[order])
        np.testing.assert_array_equal(sorted_labels, labels[order])


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_each_two_neighbours_are_in_different_halves(n: int) -> None:
    first, second = random_pairs(n, np.random.default_rng(3))
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(n))
    assert len(set((first // 2).tolist())) == len(first)
    assert len(set((second // 2).tolist())) == len(second)


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "f2"])
def test_the_extremes_of_values_are_found_however_they_lie(dtype: str) -> None:
    values = np.array([0.5, -3.0, np.nan, 2.0] * 20, dtype)
    askew = np.frombuffer(b"-" + values.tobytes(), np.uint8)[1:].view(dtype)
    for given in (values, askew, values[::2]):
        assert kernel().extremes(given) == reference.extremes(given)
    assert kernel().extremes(askew) == (3.0, True)
    assert kernel().extremes(askew[:2]) == (3.0, False)
