from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import cluster
from sklearn.cluster import AgglomerativeClustering
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import epiloss
from epiloss._typing import Codes, Floats
from epiloss.errors import DataError, OptionError
from epiloss.estimation.region_stats import RegionStats
from epiloss.input.features import Features
from epiloss.partition import (
    Custom,
    KMeans,
    Partition,
    Partitioner,
    Stump,
    Tree,
    pool_small_regions,
    resolve_partition,
)
from epiloss.partition.base import LearningRows
from epiloss.scoring import Brier, LogLoss, ScoringRule

LAW = settings(deadline=None, derandomize=True, max_examples=100)
N_LEVEL_SETS = 3


class Threshold:
    """A partition of the user's own: no parameters, only fit and apply."""

    cut = np.nan

    def fit(self, X: Floats, y: Floats) -> Threshold:
        self.cut = float(np.median(X[:, 0]))
        return self

    def apply(self, X: Floats) -> NDArray[Any]:
        return np.where(X[:, 0] > self.cut, "high", "low")


class Constant:
    def fit(self, X: Floats, y: Floats) -> Constant:
        return self

    def predict(self, X: Floats) -> NDArray[Any]:
        return np.zeros(len(X))


def learning_rows(
    X: Any,
    labels: Floats,
    level_set: Codes | None = None,
    *,
    rule: ScoringRule | None = None,
    weights: Floats | None = None,
) -> LearningRows:
    return LearningRows(
        features=Features.read(X),
        labels=np.asarray(labels, float),
        level_set=np.zeros(len(labels), np.int64) if level_set is None else level_set,
        n_level_sets=1 if level_set is None else N_LEVEL_SETS,
        weights=weights,
        rule=rule or Brier(),
    )


def random_rows(seed: int, n: int, *, rule: ScoringRule | None = None) -> LearningRows:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3))
    labels = generator.random(n) < 1 / (1 + np.exp(-3 * X[:, 0] * X[:, 1]))
    return learning_rows(X, labels.astype(float), generator.integers(0, N_LEVEL_SETS, n), rule=rule)


def fitted(partitioner: Partitioner, rows: LearningRows, n_jobs: int | None = None) -> Partition:
    return partitioner.fit(rows, np.random.default_rng(0), n_jobs)


def assigned(partitioner: Partitioner, rows: LearningRows, n_jobs: int | None = None) -> Codes:
    return fitted(partitioner, rows, n_jobs).assign(rows.features, rows.level_set)


PARTITIONERS: dict[str, Partitioner] = {
    "tree": Tree(12),
    "stump": Stump(),
    "kmeans": KMeans(3),
    "random tree": Custom(DecisionTreeRegressor(splitter="random", max_leaf_nodes=6)),
    "own object": Custom(Threshold()),
}
each_partitioner = pytest.mark.parametrize("partitioner", PARTITIONERS.values(), ids=PARTITIONERS)
each_rule = pytest.mark.parametrize("rule", [Brier(), LogLoss()], ids=["brier", "log"])


@each_partitioner
def test_the_number_of_threads_does_not_change_the_regions(partitioner: Partitioner) -> None:
    rows = random_rows(0, 400)
    alone = assigned(partitioner, rows, None)
    for n_jobs in (1, 2, -1):
        np.testing.assert_array_equal(assigned(partitioner, rows, n_jobs), alone)


@each_partitioner
def test_a_partition_splits_every_level_set_of_enough_rows(partitioner: Partitioner) -> None:
    rows = random_rows(1, 400)
    region = assigned(partitioner, rows)
    assert region.dtype == np.int64
    assert region.min() >= 0
    for level in range(N_LEVEL_SETS):
        assert len(np.unique(region[rows.level_set == level])) >= 2


@each_partitioner
def test_rows_assigned_in_parts_get_the_regions_of_one_pass(partitioner: Partitioner) -> None:
    rows = random_rows(2, 300)
    partition = fitted(partitioner, rows)
    whole = partition.assign(rows.features, rows.level_set)
    order = np.argsort(rows.features.matrix[:, 0])
    for part in np.array_split(order, 10):
        region = partition.assign(rows.features.take(part), rows.level_set[part])
        np.testing.assert_array_equal(region, whole[part])


@each_partitioner
def test_level_sets_without_learning_rows_are_single_regions(partitioner: Partitioner) -> None:
    rows = random_rows(3, 200)
    seen = np.flatnonzero(rows.level_set != 1)
    learning = learning_rows(rows.features.matrix[seen], rows.labels[seen], rows.level_set[seen])
    region = fitted(partitioner, learning).assign(rows.features, rows.level_set)
    assert len(np.unique(region[rows.level_set == 1])) == 1


@each_rule
@pytest.mark.parametrize("region_ratio", [2, 5, 12.5, 30])
def test_a_tree_has_at_most_one_leaf_per_region_ratio_rows(
    rule: ScoringRule, region_ratio: float
) -> None:
    rows = random_rows(4, 500, rule=rule)
    region = assigned(Tree(region_ratio), rows)
    for level in range(N_LEVEL_SETS):
        inside = rows.level_set == level
        most = int(inside.sum() // region_ratio)
        n_regions = len(np.unique(region[inside]))
        assert n_regions <= max(most, 1)
        if n_regions > 1:
            assert np.bincount(region[inside])[np.unique(region[inside])].min() >= region_ratio
        if region_ratio <= 12.5:  # there is room for a split
            assert n_regions > 1


def test_a_level_set_too_small_for_two_leaves_is_not_split() -> None:
    rows = random_rows(5, 60)
    assert np.all(assigned(Tree(40), rows) == 0)


@each_rule
@pytest.mark.parametrize("seed", range(5))
def test_a_stump_makes_two_regions_of_about_equal_learning_size(rule: ScoringRule, seed: int) -> None:
    rows = random_rows(seed, 301, rule=rule)
    region = assigned(Stump(), rows)
    for level in range(N_LEVEL_SETS):
        _, count = np.unique(region[rows.level_set == level], return_counts=True)
        assert len(count) == 2
        assert abs(int(count[0]) - int(count[1])) <= 1


@each_rule
def test_a_stump_splits_on_the_feature_that_tells_the_labels_apart(rule: ScoringRule) -> None:
    generator = np.random.default_rng(6)
    X = generator.normal(size=(200, 4))
    labels = (X[:, 2] > np.median(X[:, 2])).astype(float)
    region = assigned(Stump(), learning_rows(X, labels, rule=rule))
    assert len(set(zip(region.tolist(), labels.tolist(), strict=True))) == 2


def test_k_means_finds_the_clusters_of_each_level_set_without_the_labels() -> None:
    generator = np.random.default_rng(7)
    cluster, level_set = generator.integers(0, 2, 300), generator.integers(0, N_LEVEL_SETS, 300)
    X = generator.normal(size=(300, 2)) + 20 * cluster[:, None] * (1 + level_set[:, None])
    labels = generator.integers(0, 2, 300).astype(float)
    region = assigned(KMeans(), learning_rows(X, labels, level_set))
    other = assigned(KMeans(), learning_rows(X, 1 - labels, level_set))
    np.testing.assert_array_equal(region, other)
    for level in range(N_LEVEL_SETS):
        pairs = zip(region[level_set == level], cluster[level_set == level], strict=True)
        assert len(set(pairs)) == 2


def test_k_means_leaves_a_level_set_of_equal_rows_whole() -> None:
    region = assigned(KMeans(), learning_rows(np.ones((10, 2)), np.arange(10.0) % 2))
    assert np.all(region == 0)


def test_k_means_asks_for_complete_features() -> None:
    X = {"age": [1.0, 2.0, 3.0], "pay": [1.0, np.nan, 2.0]}
    with pytest.raises(DataError, match=r"missing values in column 'pay'.*partition='tree'"):
        fitted(KMeans(), learning_rows(X, np.array([0.0, 1.0, 0.0])))


@each_rule
def test_a_tree_tells_missing_values_apart(rule: ScoringRule) -> None:
    generator = np.random.default_rng(8)
    X = generator.normal(size=(200, 2))
    missing = generator.random(200) < 0.4
    X[missing, 1] = np.nan
    region = assigned(Tree(50), learning_rows(X, missing.astype(float), rule=rule))
    assert len(set(zip(region.tolist(), missing.tolist(), strict=True))) == 2


def test_a_tree_takes_missing_values_where_it_learned_from_none() -> None:
    rows = random_rows(9, 300)
    partition = fitted(Tree(12), rows)
    whole = partition.assign(rows.features, rows.level_set)
    empty = Features.read(np.full((300, 3), np.nan))
    region = partition.assign(empty, rows.level_set)
    for level in range(N_LEVEL_SETS):
        inside = rows.level_set == level
        assert set(region[inside]) <= set(whole[inside])


@each_rule
def test_a_tree_takes_columns_without_any_value(rule: ScoringRule) -> None:
    rows = random_rows(10, 200, rule=rule)
    X = np.column_stack([rows.features.matrix, np.full(200, np.nan)])
    with_empty = learning_rows(X, rows.labels, rows.level_set, rule=rule)
    assert len(np.unique(assigned(Tree(12), with_empty))) > 1


@each_rule
def test_categorical_columns_are_split_by_category(rule: ScoringRule) -> None:
    # "f" lies between the others in any order of the codes, so one threshold cannot single it out
    generator = np.random.default_rng(11)
    town = np.array(["b", "f", "k"])[generator.integers(0, 3, 300)]
    labels = (town == "f").astype(float)
    X = {"noise": generator.normal(size=300), "town": town}
    region = assigned(Tree(60), learning_rows(X, labels, rule=rule))
    assert len(np.unique(region)) == 2
    assert len(set(zip(region.tolist(), labels.tolist(), strict=True))) == 2


def test_a_missing_category_is_a_category() -> None:
    town = np.array(["b", None, "k", None] * 50, object)
    missing = np.array([value is None for value in town])
    region = assigned(Tree(100), learning_rows({"town": town}, missing.astype(float)))
    assert len(set(zip(region.tolist(), missing.tolist(), strict=True))) == 2


def test_a_category_that_was_not_learned_from_has_a_region_too() -> None:
    town = np.array(["b", "f", "k", "z"] * 50)
    labels = (town == "f").astype(float)
    features = Features.read({"town": town})
    seen = np.flatnonzero(town != "z")
    learning = LearningRows(features.take(seen), labels[seen], np.zeros(150, np.int64), 1, None, Brier())
    region = fitted(Tree(75), learning).assign(features, np.zeros(200, np.int64))
    assert set(region[town == "z"]) == set(region[town == "k"])


def test_weights_decide_where_a_tree_splits() -> None:
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25, float)
    labels = np.arange(100) < 50  # rows that follow the first column, then rows that follow the second
    y = np.where(labels, X[:, 0], X[:, 1])
    for heavy, column in ((labels, 0), (~labels, 1)):
        weights = np.where(heavy, 1.0, 0.01)
        region = assigned(Tree(50), learning_rows(X, y, weights=weights))
        assert len(set(zip(region.tolist(), X[:, column].tolist(), strict=True))) == 2


def evaluated(partition: Partition, seed: int, n: int) -> RegionStats:
    """Add up a few fresh rows in a partition learned from others."""
    rows = random_rows(seed + 10_000, n)
    region = partition.assign(rows.features, rows.level_set)
    return RegionStats.from_rows(
        rows.level_set, region, labels=rows.labels, scores=np.full(n, 0.5), rule=Brier()
    )


@each_rule
@pytest.mark.parametrize("region_ratio", [2, 4])
def test_every_region_of_a_tree_has_two_evaluated_rows_after_joining(
    rule: ScoringRule, region_ratio: float
) -> None:
    n_joined = 0
    for seed in range(30):
        partition = fitted(Tree(region_ratio), random_rows(seed, 150, rule=rule))
        for n in (1, 4, 9, 25, 60, 120):
            stats = evaluated(partition, seed, n)
            joined = stats.relabel(partition.join_small(stats.level_set, stats.region, stats.n))
            n_joined += stats.n_cells - joined.n_cells
            levels = stats.by_level_set()
            size = dict(zip(levels.level_set.tolist(), levels.n.tolist(), strict=True))
            for level, count in zip(joined.level_set.tolist(), joined.n.tolist(), strict=True):
                assert count >= min(2, size[level])
            np.testing.assert_array_equal(joined.by_level_set().sums, levels.sums)
    assert n_joined > 500


@pytest.mark.parametrize("seed", range(10))
def test_joining_moves_only_regions_with_fewer_than_two_rows(seed: int) -> None:
    partition = fitted(Tree(2), random_rows(seed, 150))
    stats = evaluated(partition, seed, 60)
    joined = partition.join_small(stats.level_set, stats.region, stats.n)
    large = stats.n >= 2
    np.testing.assert_array_equal(joined[large], stats.region[large])
    assert set(zip(stats.level_set.tolist(), joined.tolist(), strict=True)) <= set(
        zip(stats.level_set.tolist(), stats.region.tolist(), strict=True)
    )


@pytest.mark.parametrize("seed", range(10))
def test_no_region_changes_if_all_have_two_rows(seed: int) -> None:
    partition = fitted(Tree(2), random_rows(seed, 150))
    stats = evaluated(partition, seed, 60)
    joined = partition.join_small(stats.level_set, stats.region, stats.n + 1)
    np.testing.assert_array_equal(joined, stats.region)


@pytest.mark.parametrize("seed", range(10))
def test_joining_depends_on_the_counts_alone(seed: int) -> None:
    rows = random_rows(seed, 150)
    first = evaluated(fitted(Tree(2), rows), seed, 60)
    partition = fitted(Tree(2), rows)
    joined = partition.join_small(first.level_set, first.region, first.n)
    # the same counts as whole numbers, and the cells in another order
    whole = partition.join_small(first.level_set, first.region, first.n.astype(np.int64))
    np.testing.assert_array_equal(whole, joined)
    order = np.random.default_rng(seed).permutation(first.n_cells)
    moved = partition.join_small(first.level_set[order], first.region[order], first.n[order])
    assert _groups(first.level_set, joined) == _groups(first.level_set[order], moved, order)


def _groups(level_set: Codes, region: Codes, place: Codes | None = None) -> set[frozenset[int]]:
    """Return which cells are together, whatever their region is called."""
    place = np.arange(len(region)) if place is None else place
    together: dict[tuple[int, int], set[int]] = {}
    for level, code, cell in zip(level_set.tolist(), region.tolist(), place.tolist(), strict=True):
        together.setdefault((level, code), set()).add(cell)
    return {frozenset(cells) for cells in together.values()}


def pooled_by_hand(cells: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Return the rows of each region after pooling, as the rule is written."""
    after: dict[tuple[int, int], int] = {}
    for level in sorted({level for level, _ in cells}):
        inside = {region: n for (one, region), n in sorted(cells.items()) if one == level}
        large = {region: n for region, n in inside.items() if n >= 2}
        pool = sum(n for n in inside.values() if n < 2)
        if pool >= 2 or (pool and not large):
            large[-1] = pool
        elif pool:
            large[min(large, key=lambda region: (large[region], region))] += pool
        after |= {(level, region): n for region, n in large.items()}
    return after


CELLS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 9)),
    st.sampled_from([1, 1, 1, 2, 3, 5]),
    min_size=1,
    max_size=20,
)


@given(cells=CELLS)
@LAW
def test_small_given_regions_are_pooled_by_the_rule(cells: dict[tuple[int, int], int]) -> None:
    level_set, region = (np.array(codes) for codes in zip(*sorted(cells), strict=True))
    n = np.array([cells[cell] for cell in sorted(cells)])
    joined = pool_small_regions(level_set, region, n)
    found: dict[tuple[int, int], int] = {}
    for level, code, count in zip(level_set.tolist(), joined.tolist(), n.tolist(), strict=True):
        found[level, code] = found.get((level, code), 0) + count
    expected = pooled_by_hand(cells)
    assert sorted((level, count) for (level, _), count in found.items()) == sorted(
        (level, count) for (level, _), count in expected.items()
    )
    kept = {cell: count for cell, count in expected.items() if cell[1] >= 0}
    assert all(found[cell] == count for cell, count in kept.items())


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        ([1, 1, 5, 1], [0, 0, 2, 0]),  # the small ones are pooled
        ([5, 1, 3, 4], [0, 2, 2, 3]),  # a pool of one row joins the smallest other region
        ([5, 1, 3, 3], [0, 2, 2, 3]),  # the first on ties
        ([2, 2, 9, 2], [0, 1, 2, 3]),  # nothing to pool
        ([1, 1, 1, 1], [0, 0, 0, 0]),
    ],
)
def test_pooling_in_one_level_set(n: list[int], expected: list[int]) -> None:
    joined = pool_small_regions(np.zeros(4, np.int64), np.arange(4), np.array(n))
    assert joined.tolist() == expected


def test_pooling_stays_inside_a_level_set() -> None:
    level_set, region, n = (
        np.array([0, 0, 1, 1, 2]),
        np.array([0, 1, 0, 1, 0]),
        np.array([1, 4, 3, 1, 1]),
    )
    assert pool_small_regions(level_set, region, n).tolist() == [1, 1, 0, 0, 0]


def test_regions_of_an_estimator_are_pooled_like_given_ones() -> None:
    partition = fitted(Custom(Threshold()), random_rows(0, 50))
    level_set, region, n = np.zeros(4, np.int64), np.arange(4), np.array([1, 6, 4, 4])
    np.testing.assert_array_equal(
        partition.join_small(level_set, region, n), pool_small_regions(level_set, region, n)
    )


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(max_leaf_nodes=4),
        DecisionTreeRegressor(max_depth=2),
        GaussianNB(),
        cluster.KMeans(3, n_init=1),
        Threshold(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_object_with_fit_and_apply_or_predict_is_a_partition(estimator: Any) -> None:
    partitioner = resolve_partition(estimator)
    assert partitioner.name == type(estimator).__name__
    rows = random_rows(12, 300)
    region = assigned(partitioner, rows)
    np.testing.assert_array_equal(region, assigned(partitioner, rows))
    for level in range(N_LEVEL_SETS):
        assert len(np.unique(region[rows.level_set == level])) >= 2


def test_the_regions_of_an_estimator_are_its_own_in_each_level_set() -> None:
    rows = random_rows(13, 300)
    region = assigned(Custom(DecisionTreeRegressor(max_leaf_nodes=5, random_state=0)), rows)
    for level in range(N_LEVEL_SETS):
        inside = rows.level_set == level
        X, y = rows.features.matrix[inside], rows.labels[inside]
        leaf = DecisionTreeRegressor(max_leaf_nodes=5, random_state=0).fit(X, y).apply(X)
        pairs = set(zip(leaf.tolist(), region[inside].tolist(), strict=True))
        assert len(pairs) == len(set(leaf)) == len(set(region[inside]))


def test_the_given_estimator_is_left_unfitted() -> None:
    tree, own = DecisionTreeClassifier(max_leaf_nodes=4), Threshold()
    for estimator in (tree, own):
        assigned(Custom(estimator), random_rows(14, 100))
    assert not hasattr(tree, "tree_")
    assert np.isnan(own.cut)


@pytest.mark.parametrize("estimator", [Constant(), LinearRegression()], ids=["constant", "numbers"])
def test_predictions_of_any_kind_name_regions(estimator: Any) -> None:
    rows = random_rows(15, 60)
    region = assigned(Custom(estimator), rows)
    for level in range(N_LEVEL_SETS):
        count = len(np.unique(region[rows.level_set == level]))
        assert count == (1 if isinstance(estimator, Constant) else np.sum(rows.level_set == level))


def test_an_estimator_that_needs_two_outcomes_leaves_a_level_set_with_one_whole() -> None:
    rows = random_rows(17, 200)
    labels = np.where(rows.level_set == 1, 0.0, rows.labels)
    learning = learning_rows(rows.features.matrix, labels, rows.level_set)
    region = assigned(Custom(LogisticRegression()), learning)
    assert len(np.unique(region[rows.level_set == 1])) == 1


def test_a_forest_is_refused_because_it_has_a_region_per_tree() -> None:
    forest = Custom(RandomForestClassifier(3, random_state=0))
    with pytest.raises(OptionError, match=r"one region for each of \d+ rows, got an array of shape"):
        assigned(forest, random_rows(16, 60))


class FitOnly:
    def fit(self, X: Floats, y: Floats) -> FitOnly:
        return self


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("forest", id="unknown name"),
        pytest.param("", id="empty name"),
        pytest.param(None, id="none"),
        pytest.param(3, id="number"),
        pytest.param(["tree"], id="list"),
        pytest.param(object(), id="object"),
        pytest.param(FitOnly(), id="only fit"),
        pytest.param(AgglomerativeClustering(), id="no predict"),
        pytest.param(DecisionTreeClassifier, id="class of an estimator"),
        pytest.param(Tree, id="class of a partitioner"),
    ],
)
def test_what_is_no_partition_is_refused(wrong: Any) -> None:
    words = (
        "partition must be 'tree', 'stump', 'kmeans', a partitioner of epiloss.partition .* or an object"
    )
    with pytest.raises(OptionError, match=words):
        resolve_partition(wrong)


@pytest.mark.parametrize("region_ratio", [0, 0.5, -3, np.nan, np.inf, True, "12", None])
def test_a_region_needs_at_least_one_learning_row(region_ratio: Any) -> None:
    with pytest.raises(OptionError, match=r"region_ratio, .* must be at least 1"):
        Tree(region_ratio)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("tree", Tree), ("stump", Stump), ("kmeans", KMeans)],
)
def test_a_short_hand_names_its_partition(name: str, kind: type[Partitioner]) -> None:
    assert isinstance(resolve_partition(name), kind)
    assert resolve_partition(name).name == name


def test_a_tree_has_12_learning_rows_a_region_and_a_partitioner_stands_for_itself() -> None:
    assert resolve_partition("tree") == Tree(12) != Tree(30)
    for own in (Tree(30), KMeans(5)):
        assert resolve_partition(own) is own


def test_a_stump_parts_men_and_women_though_they_are_not_exactly_as_many() -> None:
    g = np.random.default_rng(0)
    sex, scores = (g.random(6_000) < 0.52).astype(float), g.random(6_000)
    rate = np.clip(scores + 0.15 * (2 * sex - 1), 0, 1)
    y = (g.random(6_000) < rate).astype(int)
    X = np.column_stack([g.normal(size=(6_000, 4)), sex])
    result = epiloss.audit(y, scores, X, partition="stump", method="partition", n_bins=5)
    assert all("x4" in rule for rule in result.regions["rule"])
