from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiloss._typing import Floats
from epiloss.calibration.level_sets import (
    LevelSets,
    VectorLevelSets,
    quantile_level_sets,
    resolve_level_sets,
    simplex_level_sets,
    uniform_level_sets,
)
from epiloss.errors import OptionError

LAW = settings(deadline=None, derandomize=True, max_examples=100)
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=60).map(np.array)
# few distinct values, the ends among them
TIED = st.lists(
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1), min_size=1, max_size=60
).map(np.array)


@given(scores=SCORES, n=st.integers(1, 40))
@LAW
def test_uniform_bins_follow_the_golden_rule(scores: Floats, n: int) -> None:
    edges = np.linspace(0, 1, n + 1)
    on_edges = np.concatenate([scores, edges])
    expected = np.clip(np.digitize(on_edges, edges) - 1, 0, n - 1)
    np.testing.assert_array_equal(uniform_level_sets(n).assign(on_edges), expected)
    assert uniform_level_sets(n).n_level_sets == n


@given(scores=SCORES, n=st.integers(1, 40))
@LAW
def test_every_score_lies_between_the_edges_of_its_level_set(scores: Floats, n: int) -> None:
    bins = uniform_level_sets(n)
    level_set = bins.assign(scores)
    assert np.all(bins.edges[level_set] <= scores)
    inner = level_set < n - 1
    assert np.all(scores[inner] < bins.edges[level_set + 1][inner])
    assert np.all(scores <= bins.edges[level_set + 1])


@given(scores=TIED, n=st.integers(1, 20), weighted=st.booleans())
@LAW
def test_quantile_bins_are_never_empty_nor_duplicated(scores: Floats, n: int, weighted: bool) -> None:
    weights = np.linspace(0.1, 1, len(scores)) if weighted else None
    bins = quantile_level_sets(scores, n, weights)
    assert 1 <= bins.n_level_sets <= n
    assert np.all(np.diff(bins.edges) > 0)
    assert np.bincount(bins.assign(scores), minlength=bins.n_level_sets).min() >= 1


@given(scores=TIED, n=st.integers(1, 20))
@LAW
def test_equal_scores_share_a_level_set_and_level_sets_are_ordered(scores: Floats, n: int) -> None:
    ordered = np.sort(scores)
    level_set = quantile_level_sets(scores, n).assign(ordered)
    assert np.all(np.diff(level_set) >= 0)
    assert np.all(np.diff(level_set)[np.diff(ordered) == 0] == 0)


@given(seed=st.integers(0, 10_000), n_rows=st.integers(20, 500), n=st.integers(1, 10))
@LAW
def test_without_ties_quantile_bins_have_about_equal_mass(seed: int, n_rows: int, n: int) -> None:
    scores = np.random.default_rng(seed).random(n_rows)
    bins = quantile_level_sets(scores, n)
    size = np.bincount(bins.assign(scores))
    assert len(size) == n
    assert np.all(np.abs(size - n_rows / n) <= 1 + 1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 12])
def test_a_number_of_rows_that_divides_evenly_is_divided_evenly(n: int) -> None:
    scores = np.arange(1, 13) / 13
    size = np.bincount(quantile_level_sets(scores, n).assign(scores))
    assert size.tolist() == [12 // n] * n


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_a_score_with_half_of_the_mass_has_a_level_set_to_itself(value: float) -> None:
    others = (np.arange(500) + 0.25) / 500
    scores = np.concatenate([others, np.full(500, value)])
    level_set = quantile_level_sets(scores, 4).assign(scores)
    # a neighbour may fall on the same side of an edge, a quarter of the rows may not
    assert np.sum(level_set[:500] == level_set[-1]) <= 2


@given(seed=st.integers(0, 10_000), n=st.integers(1, 8))
@LAW
def test_weighted_quantile_bins_have_about_equal_weight(seed: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    scores, weights = generator.random(200), generator.random(200)
    bins = quantile_level_sets(scores, n, weights)
    mass = np.bincount(bins.assign(scores), weights)
    assert np.all(np.abs(mass - weights.sum() / n) <= weights.max() + 1e-9)


def test_weights_place_quantile_edges_as_repeated_rows_do() -> None:
    generator = np.random.default_rng(0)
    scores, count = generator.random(50), generator.integers(1, 5, 50)
    weighted = quantile_level_sets(scores, 5, count.astype(float))
    repeated = quantile_level_sets(np.repeat(scores, count), 5)
    np.testing.assert_array_equal(weighted.edges, repeated.edges)


def test_quantile_bins_do_not_depend_on_the_order_of_the_rows() -> None:
    generator = np.random.default_rng(1)
    scores = np.round(generator.random(300), 2)
    edges = quantile_level_sets(scores, 10).edges
    for _ in range(5):
        again = quantile_level_sets(generator.permutation(scores), 10).edges
        np.testing.assert_array_equal(again, edges)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_a_constant_score_has_a_single_level_set(value: float) -> None:
    scores = np.full(20, value)
    bins = quantile_level_sets(scores, 5)
    assert bins.n_level_sets == 1
    np.testing.assert_array_equal(bins.assign(scores), 0)


@pytest.mark.parametrize("edges", [[0, 0.1, 0.5, 1], (0.2, 0.8), np.array([0.0, 0.999, 1.0])])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_given_edges_are_taken_as_they_are(edges: Any, strategy: str) -> None:
    bins = resolve_level_sets(edges, strategy, np.array([0.5]), None)
    np.testing.assert_array_equal(bins.edges, np.asarray(edges, float))


def test_scores_outside_given_edges_belong_to_the_outer_level_sets() -> None:
    bins = LevelSets(np.array([0.2, 0.4, 0.8]))
    assert bins.assign(np.array([0.0, 0.2, 0.4, 0.8, 1.0])).tolist() == [0, 0, 1, 1, 1]


def test_the_short_hands_name_their_level_sets() -> None:
    scores = np.random.default_rng(2).random(100)
    np.testing.assert_array_equal(
        resolve_level_sets(7, "uniform", scores, None).edges, uniform_level_sets(7).edges
    )
    np.testing.assert_array_equal(
        resolve_level_sets(np.int64(7), "quantile", scores, None).edges,  # type: ignore[arg-type]
        quantile_level_sets(scores, 7).edges,
    )


@pytest.mark.parametrize("n_bins", [0, -3, 2.5, True, False, None, "ten", [[0, 1]]])
def test_bins_must_be_a_whole_number_or_edges(n_bins: Any) -> None:
    with pytest.raises(OptionError, match=r"^n_bins must be an integer of at least 1"):
        resolve_level_sets(n_bins, "uniform", np.array([0.5]), None)


@pytest.mark.parametrize("edges", [[0.5], [], [0, 0.5, 0.5, 1], [1, 0], [0, np.nan, 1], [0, np.inf]])
def test_edges_must_increase(edges: list[float]) -> None:
    with pytest.raises(OptionError, match="bin edges must be at least two increasing numbers"):
        resolve_level_sets(edges, "uniform", np.array([0.5]), None)


def test_edges_must_be_numbers() -> None:
    with pytest.raises(OptionError):
        resolve_level_sets(["low", "high"], "uniform", np.array([0.5]), None)  # type: ignore[list-item]


@pytest.mark.parametrize("strategy", ["equal", "", None])
def test_an_unknown_strategy_is_named(strategy: Any) -> None:
    words = f"^strategy must be 'uniform' or 'quantile', got {strategy!r}"
    with pytest.raises(OptionError, match=words):
        resolve_level_sets(10, strategy, np.array([0.5]), None)


def test_few_distinct_score_vectors_are_level_sets_of_their_own() -> None:
    generator = np.random.default_rng(3)
    vectors = generator.dirichlet(np.ones(3), 4)
    code = generator.integers(4, size=60)
    cells = simplex_level_sets(vectors[code], 5, generator, most_distinct=0)
    assert isinstance(cells, VectorLevelSets)
    assert cells.exact
    assert cells.n_level_sets == 4
    level_set = cells.assign(vectors[code])
    assert len(set(zip(code.tolist(), level_set.tolist(), strict=True))) == 4
    np.testing.assert_allclose(cells.centres[level_set], vectors[code], atol=0)


def test_many_score_vectors_are_gathered_in_as_many_cells_as_asked() -> None:
    scores = np.random.default_rng(4).dirichlet(np.ones(3), 400)
    first, again = (simplex_level_sets(scores, 6, np.random.default_rng(7), 10) for _ in range(2))
    assert not first.exact
    assert first.n_level_sets == 6
    np.testing.assert_array_equal(first.centres, again.centres)
    level_set = first.assign(scores)
    assert np.bincount(level_set, minlength=6).min() >= 1
    distance = ((scores[:, None] - first.centres[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(level_set, distance.argmin(axis=1))
