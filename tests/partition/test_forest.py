"""The histogram trees: their two kernels agree, their splits are the best, and X is left where it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from importlib.util import find_spec
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import epiloss
from epiloss._kernels import reference, threads
from epiloss._kernels.dispatch import kernel
from epiloss._threads import Workers
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features
from epiloss.partition import forest
from epiloss.partition.base import LearningRows
from epiloss.partition.forest import Forest, grow
from epiloss.partition.quantized import quantile_edges
from epiloss.scoring import Brier, LogLoss, ScoringRule
from fuzz_kernel import grown, random_problem, same_bits

pytestmark = pytest.mark.filterwarnings("ignore:epiloss was installed without:RuntimeWarning")
RULES = pytest.mark.parametrize("rule", [Brier(), LogLoss()], ids=["squared", "entropy"])


def rows_of(
    X: Any, labels: NDArray[Any], *, weights: Floats | None = None, rule: ScoringRule | None = None
) -> LearningRows:
    """Return learning rows of one level set."""
    level_set = np.zeros(len(labels), np.int64)
    return LearningRows(Features.read(X), labels.astype(float), level_set, 1, weights, rule or Brier())


def leaves_of(rows: LearningRows, least: int = 1, features: Features | None = None) -> Codes:
    """Return the leaves of the learning rows, or of other rows in the first level set."""
    with Workers(None) as workers:
        forest = grow(rows, least, workers)
        if features is None:
            return forest.apply(rows.features, rows.level_set, workers)
        return forest.apply(features, np.zeros(features.n_rows, np.int64), workers)


def same_regions(one: Codes, other: Codes) -> bool:
    """Tell whether two labellings divide the rows alike, whatever the labels are."""
    pairs = len(np.unique(np.stack([one, other]), axis=1).T)
    return pairs == len(np.unique(one)) == len(np.unique(other))


def few_valued(seed: int, n: int = 200) -> tuple[np.random.Generator, Floats, NDArray[Any]]:
    """Return three columns of few values, and labels that depend on two of them."""
    g = np.random.default_rng(seed)
    X = g.integers(0, 20, (n, 3)).astype(float)
    return g, X, g.random(n) < 0.2 + 0.6 * ((X[:, 0] > 9) ^ (X[:, 1] > 4))


# the two kernels


def test_compiled_and_numpy_kernels_grow_the_same_forest_bit_for_bit() -> None:
    try:
        from epiloss._kernels import compiled
    except ImportError:
        pytest.skip("epiloss was installed without its compiled part")
    n_splits = 0
    for seed in range(300):
        rows, least = random_problem(seed)
        expected = grown(rows, least, reference)
        n_splits += int((expected[0].nodes["left"] >= 0).sum())
        for n_jobs in (1, (2, 3, -1)[seed % 3]):
            assert same_bits(expected, grown(rows, least, compiled, n_jobs)), (seed, n_jobs)
    assert n_splits > 3_000  # the problems are not trivial


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_and_numpy_kernels_find_the_same_edges_bit_for_bit(dtype: type) -> None:
    try:
        from epiloss._kernels import compiled
    except ImportError:
        pytest.skip("epiloss was installed without its compiled part")
    for seed in range(200):
        g = np.random.default_rng(seed)
        X = np.round(g.standard_normal((300, 4)), int(g.choice([0, 1, 9])))
        X = (X * g.choice([1e-40, 1, 1e37])).astype(dtype)
        X[g.random(X.shape) < g.choice([0, 0.3, 1])] = np.nan
        block = (X, np.asfortranarray(X), X[::-1, ::2])[seed % 3]
        samples = [g.permutation(300)[: int(size)] for size in g.integers(2, 200, 3)]
        values = reference.gather(block, samples)
        assert values.tobytes() == compiled.gather(block, samples).tobytes(), seed
        values.sort(axis=-1)
        edges = reference.edges_among(values)
        assert edges.tobytes() == compiled.edges_among(values).tobytes(), seed


def test_any_number_of_threads_grows_the_same_forest() -> None:
    for seed in range(30):
        rows, least = random_problem(seed)
        one = grown(rows, least, reference, 1)
        assert same_bits(one, grown(rows, least, reference, (2, 3, -1)[seed % 3])), seed


@pytest.mark.parametrize("name", ["compiled", "reference"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_threads_share_a_level_set_that_has_nearly_all_rows(name: str, is_weighted: bool) -> None:
    loops = pytest.importorskip(f"epiloss._kernels.{name}")
    g = np.random.default_rng(0)
    n = 40_000
    X = {"a": g.standard_normal(n), "b": g.standard_normal(n), "c": g.choice(list("uvwxyz"), n)}
    X["a"][g.random(n) < 0.1] = np.nan
    labels = g.random(n) < 0.3 + 0.3 * (X["b"] > 0.7) + 0.2 * (X["c"] == "w") * (X["a"] > 0)
    level_set = (g.random(n) < 0.9).astype(np.int64)
    weights = g.random(n) if is_weighted else None
    rows = LearningRows(Features.read(X), labels.astype(float), level_set, 2, weights, Brier())
    forests = []
    for n_jobs in (1, 2, 4):
        with mock.patch.object(forest, "kernel", return_value=loops), Workers(n_jobs) as workers:
            with mock.patch.object(threads, "_best_stump", wraps=threads._best_stump) as split:
                forests.append((grow(rows, 30, workers), level_set))
            assert (split.call_count > 0) == (n_jobs > 1)
    assert same_bits(forests[0], forests[1])
    assert same_bits(forests[0], forests[2])


# the shape of trees


def test_a_tree_has_one_leaf_or_leaves_of_the_least_rows_counted_from_zero() -> None:
    for seed in range(100):
        rows, least = random_problem(seed)
        forest, leaf = grown(rows, least, kernel())
        np.testing.assert_array_equal(forest.leaf_rank >= 0, forest.nodes["left"] < 0)
        for level_set in range(rows.n_level_sets):
            ranks = forest.leaf_rank[(forest.tree == level_set) & (forest.leaf_rank >= 0)]
            np.testing.assert_array_equal(np.sort(ranks), np.arange(len(ranks)))
            count = np.bincount(leaf[rows.level_set == level_set], minlength=len(ranks))
            assert len(count) == len(ranks)  # every row has one of its tree's leaves
            assert len(count) == 1 or count.min() >= least


# the best splits


def loss(labels: Floats, weights: Floats, rule: ScoringRule) -> float:
    """Return what is left unexplained in a node: the squared error, or the entropy."""
    total, ones = weights.sum(), (weights * labels).sum()
    if isinstance(rule, Brier):
        return float(ones - ones**2 / total)
    parts = np.array([ones, total - ones])
    parts = parts[parts > 0]
    return float(-(parts * np.log(parts / total)).sum())


def best_decrease(rows: LearningRows, weights: Floats, least: int) -> float:
    """Try every column, every cut and both sides for what is missing."""
    best = -np.inf
    for j in range(rows.features.n_columns):
        x = rows.features.column(j)
        for cut in np.unique(x[~np.isnan(x)]):
            for left in ((x <= cut), (x <= cut) | np.isnan(x)):
                if min(left.sum(), (~left).sum()) >= least:
                    sides = [loss(rows.labels[side], weights[side], rows.rule) for side in (left, ~left)]
                    best = max(best, loss(rows.labels, weights, rows.rule) - sum(sides))
    return best


@RULES
@pytest.mark.parametrize("weighted", [False, True])
def test_the_root_is_the_split_that_brute_force_finds(rule: ScoringRule, weighted: bool) -> None:
    # whole weights lose 2^-25 of the largest: a decrease is met up to 1e-5, without weights to 1e-9
    n_split = 0
    for seed in range(100):
        g = np.random.default_rng(seed)
        X = np.round(2 * g.standard_normal((30, 3)))
        X[g.random((30, 3)) < g.choice([0, 0.2])] = np.nan
        weights = g.exponential(size=30) if weighted else np.ones(30)
        rows = rows_of(X, g.random(30) < 0.4, weights=weights if weighted else None, rule=rule)
        least = int(g.integers(1, 8))
        forest, _ = grown(rows, least, kernel())
        root = forest.nodes[0]
        if root["left"] < 0:
            assert best_decrease(rows, weights, least) == -np.inf
            continue
        x = X[:, root["feature"]]
        left = np.where(np.isnan(x), root["missing_left"] > 0, x <= root["threshold"])
        sides = [loss(rows.labels[side], weights[side], rule) for side in (left, ~left)]
        decrease = loss(rows.labels, weights, rule) - sum(sides)
        best = best_decrease(rows, weights, least)
        assert decrease == pytest.approx(best, abs=1e-5 if weighted else 1e-9), seed
        n_split += 1
    assert n_split > 90


@RULES
def test_with_few_values_the_tree_explains_what_that_of_scikit_learn_does(rule: ScoringRule) -> None:
    # random weights, so that no two splits are equally good; the means of the regions differ by rounding
    # only. (Regions may be more in scikit-learn's, which takes rounding for impurity.)
    for seed in range(30):
        g, X, labels = few_valued(seed, 300)
        weights = g.uniform(0.5, 1.5, 300)
        if isinstance(rule, Brier):
            regressor = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
            expected = regressor.fit(X, labels.astype(float), sample_weight=weights).predict(X)
        else:
            model = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=5, random_state=0)
            expected = model.fit(X, labels, sample_weight=weights).predict_proba(X)[:, 1]
        leaf = leaves_of(rows_of(X, labels, weights=weights, rule=rule), 5)
        mean = (np.bincount(leaf, weights * labels) / np.bincount(leaf, weights))[leaf]
        assert len(np.unique(leaf)) > 5
        np.testing.assert_allclose(mean, expected, atol=1e-12)


# missing values and categories


@pytest.mark.parametrize("like", ["low", "high", "neither"])
def test_missing_values_go_to_the_side_they_resemble(like: str) -> None:
    x = np.tile([*range(10), np.nan, np.nan], 20)
    missing = np.isnan(x)
    labels = missing if like == "neither" else (x < 5 if like == "low" else x >= 5) | missing
    found = leaves_of(rows_of(x, labels))
    assert same_regions(found, labels.astype(np.int64))


@pytest.mark.parametrize(("cut", "with_value"), [(3, 9.0), (7, 0.0)])
def test_missing_values_go_to_the_larger_child_where_none_were_seen(cut: int, with_value: float) -> None:
    x = np.tile(np.arange(10.0), 20)
    new = Features.read([np.nan, with_value, 9 - with_value])
    found = leaves_of(rows_of(x, x < cut), features=new)
    assert found[0] == found[1] != found[2]


def test_a_category_is_split_off_by_its_name_and_unseen_ones_go_with_the_others() -> None:
    town = np.array(["Bonn", "Oslo", "Paris", "Rome"] * 50)
    features = Features.read({"town": town})
    seen = np.flatnonzero(town != "Rome")
    oslo = (town == "Oslo").astype(float)
    rows = LearningRows(features.take(seen), oslo[seen], np.zeros(len(seen), np.int64), 1, None, Brier())
    assert same_regions(leaves_of(rows, features=features), oslo.astype(np.int64))
    forest, _ = grown(rows, 1, kernel())
    assert features.categories[0][int(forest.nodes["threshold"][0])] == "Oslo"


def test_a_missing_category_is_one_of_its_own() -> None:
    town = np.array(["Bonn", None, "Paris", "Rome"] * 50, object)
    labels = np.array([one is None for one in town])
    assert same_regions(leaves_of(rows_of({"town": town}, labels)), labels.astype(np.int64))


def test_only_the_62_most_frequent_categories_are_split_off() -> None:
    g = np.random.default_rng(1)
    level = np.repeat(np.arange(200), np.where(np.arange(200) < 62, 9, 3))
    names = np.array([f"{one:03}" for one in level])
    forest, leaf = grown(rows_of({"town": names}, g.random(len(level)) < 0.5), 1, kernel())
    thresholds = forest.nodes["threshold"][forest.nodes["left"] >= 0]
    assert 10 < len(thresholds) <= 62
    assert thresholds.max() < 62
    assert len(np.unique(leaf[level >= 62])) == 1


# invariances, and memory


@RULES
def test_rescaling_a_feature_in_its_order_changes_no_region(rule: ScoringRule) -> None:
    for seed in range(30):
        g = np.random.default_rng(seed)
        x, other = g.standard_normal((2, 500)).round(int(g.choice([1, 3])))
        assert len(np.unique(np.exp(x))) == len(np.unique(x))  # the order is kept exactly
        labels = g.random(500) < np.where(np.abs(x) < 1, 0.2, 0.7)
        as_it_is = leaves_of(rows_of(np.stack([x, other], 1), labels, rule=rule), 5)
        rescaled = leaves_of(rows_of(np.stack([np.exp(x), other], 1), labels, rule=rule), 5)
        np.testing.assert_array_equal(as_it_is, rescaled)


def test_whole_weights_are_repeated_rows() -> None:
    for seed in range(30):
        g, X, labels = few_valued(seed, 100)
        weights = g.integers(1, 5, 100)
        weights[0] = 4  # the largest, of which the others are exact parts
        weighted = leaves_of(rows_of(X, labels, weights=weights.astype(float)))
        repeated = leaves_of(rows_of(np.repeat(X, weights, axis=0), np.repeat(labels, weights)))
        np.testing.assert_array_equal(np.repeat(weighted, weights), repeated)


@RULES
def test_equal_weights_are_no_weights(rule: ScoringRule) -> None:
    for seed in range(30):
        _, X, labels = few_valued(seed)
        equal = rows_of(X, labels, weights=np.full(len(X), 3.7), rule=rule)
        assert same_bits(grown(equal, 5, kernel()), grown(rows_of(X, labels, rule=rule), 5, kernel()))


def test_an_audit_does_not_copy_the_features() -> None:
    g = np.random.default_rng(1)
    X, scores = g.standard_normal((20_000, 200), np.float32), g.random(20_000)
    y = g.random(20_000) < scores
    source = Features.read(X).take(np.arange(0, 20_000, 2)).source
    assert isinstance(source, np.ndarray)
    assert np.shares_memory(source, X)
    epiloss.audit(y[:500], scores[:500], X[:500], method="partition")  # imports are not counted
    tracemalloc.start()
    try:
        epiloss.audit(y, scores, X, method="partition")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * X.nbytes  # one byte a learning value, and a few numbers a row


# edges, and leaves that are joined


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_lie_between_values_in_the_precision_of_the_column(dtype: type) -> None:
    for seed in range(200):
        g = np.random.default_rng(seed)
        scale = g.choice([1e-40, 1e-3, 1, 1e37])
        x = (scale * g.standard_normal(int(g.integers(0, 400)))).astype(dtype)
        if g.random() < 0.5:
            x = g.choice([-3e38, 0, 1, 3e38, np.nan, *x[:80]], len(x)).astype(dtype)
        edges = quantile_edges(x[None])[0]
        finite = edges[np.isfinite(edges)]
        assert edges.shape == (63,)
        assert len(finite) <= 62
        assert (np.diff(edges[: len(finite) + 1]) >= 0).all()  # in order, infinities last
        np.testing.assert_array_equal(finite.astype(dtype), finite)
        values = np.unique(x[~np.isnan(x)])
        if len(values) <= 63:
            assert len(finite) == max(len(values) - 1, 0)
            assert ((values[:-1] <= finite) & (finite < values[1:])).all()
        else:
            assert len(finite) == 62
            assert values[0] <= finite[0]
            assert finite[-1] <= values[-1]


def test_edges_of_constants_of_nothing_and_of_missing_values_are_none() -> None:
    for column in ([], [2.0], [2.0, 2.0], [np.nan, np.nan], [np.nan, 7.0, 7.0]):
        assert np.isinf(quantile_edges(np.array([column]))).all()


def test_edges_between_neighbouring_and_between_extreme_numbers_tell_them_apart() -> None:
    for dtype in (np.float32, np.float64):
        low: NDArray[Any] = np.array([0, 1, 1 + np.finfo(dtype).eps, 2.9e38, -3e38], dtype)
        high: NDArray[Any] = np.array([*np.nextafter(low[:3], dtype(2)), 3e38, 3e38], dtype)
        edge = quantile_edges(np.stack([high, low], axis=1))[:, 0]
        assert ((low <= edge) & (edge < high)).all()


def joined(forest: Forest, node: int, count: dict[int, int]) -> tuple[dict[int, int], int, int]:
    """Return where each leaf below a node goes, their rows, and the leaf towards the more rows."""
    if forest.nodes["left"][node] < 0:
        n = count.get(node, 0)
        return ({node: node} if n else {}), n, node
    sides = [joined(forest, int(forest.nodes[side][node]), count) for side in ("left", "right")]
    n_left, n_right = sides[0][1], sides[1][1]
    into = {**sides[0][0], **sides[1][0]}
    for (here, n, _), (_, n_other, other) in (sides, sides[::-1]):
        if n == 1 and n_other:
            (one,) = here
            into[one] = min(one, other) if n_other == 1 else into[other]
    return into, n_left + n_right, sides[0][2] if n_left >= n_right else sides[1][2]


def test_small_leaves_join_as_if_their_splits_were_deleted_one_by_one() -> None:
    n_joined = 0
    for seed in range(150):
        g = np.random.default_rng(seed)
        forest, _ = grown(random_problem(seed)[0], int(g.integers(1, 5)), kernel())
        leaves = np.flatnonzero(forest.leaf_rank >= 0)
        leaves = g.permutation(leaves[g.random(len(leaves)) < g.random()])  # some have no rows
        n = g.choice([1, 1, 1, 2, 5], len(leaves))
        tree, rank = forest.tree[leaves], forest.leaf_rank[leaves]
        found = forest.without_small_leaves(tree, rank, n)
        count = dict(zip(leaves.tolist(), n.tolist(), strict=True))
        into = {one: to for r in np.unique(tree) for one, to in joined(forest, r, count)[0].items()}
        expected = np.array([into[one] for one in leaves.tolist()], np.int64)
        np.testing.assert_array_equal(found, forest.leaf_rank[expected])
        for root in np.unique(tree):
            total = np.bincount(found[tree == root], n[tree == root])
            assert total[total > 0].min() >= min(2, total.sum())
            assert set(found[tree == root]) <= set(rank[tree == root])
        n_joined += int((found != rank).sum())
    assert n_joined > 500


# the fallback

AUDITS = """
import json, sys, warnings
import numpy as np, epiloss
from epiloss._kernels.dispatch import kernel
g = np.random.default_rng(1)
X, p = g.standard_normal((2_000, 3)), g.random(2_000)
y = g.random(2_000) < np.clip(p + 0.2 * np.sign(X[:, 0]), 0, 1)
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    first, second = (epiloss.audit(y, p, X, n_jobs=n, method="partition").to_dict() for n in (1, 2))
assert first == second
kinds = [type(one.message).__name__ for one in given]
print(json.dumps([kernel().__name__.rpartition(".")[2], kinds, first], default=str))
"""


def run(program: str, asked_for: str = "") -> list[Any]:
    """Return the kernel, the warnings and the result of two audits in a process of their own."""
    command, environment = [sys.executable, "-c", program], {**os.environ, "EPILOSS_KERNEL": asked_for}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    report: list[Any] = json.loads(done.stdout)
    return report


def test_without_its_compiled_part_an_audit_warns_once_and_every_kernel_gives_the_same() -> None:
    lost = "import sys; sys.modules['epiloss._kernels._kernel'] = None\n"
    name, warned, result = run(lost + AUDITS)
    assert (name, warned) == ("reference", ["RuntimeWarning"])
    assert run(AUDITS, "numpy") == ["reference", [], result]
    if find_spec("epiloss._kernels._kernel") is not None:
        assert run(AUDITS) == ["compiled", [], result]
