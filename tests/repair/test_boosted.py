"""The boosted repair on codes: ridges by difference, stages of trees, tables that add up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
from epiloss import RegionRecalibrator, load_repair
from epiloss._kernels.boosting import Growth
from epiloss._kernels.dispatch import kernel
from epiloss.estimation.learning.encoding import learn_encoding
from epiloss.estimation.learning.levels import LevelEffects
from epiloss.input.features import Features
from epiloss.repair import additive
from epiloss.repair.additive import Basis, Products, fit_ridges
from epiloss.repair.boosted import BoostedCorrection, fit_boosted
from epiloss.repair.saved import _is_tree
from epiloss.repair.trees import predict_stages, weighted_trees
from epiloss.simulate import Sigmoid


def mixed(n: int, seed: int = 0) -> dict[str, Any]:
    """Return numbers with gaps, a heavy tail, categories with gaps, and columns that tell nothing."""
    g = np.random.default_rng(seed)
    x = g.normal(size=n)
    gaps = np.where(g.random(n) < 0.1, np.nan, x)
    side = np.array(["a", "b", "c", None], object)[g.integers(4, size=n)]
    tail = np.exp(3 * g.normal(size=n))
    return {
        "gaps": gaps,
        "side": side,
        "tail": tail,
        "constant": np.ones(n),
        "empty": np.full(n, np.nan),
    }


def outcomes(columns: dict[str, Any], seed: int = 0) -> tuple[Any, Any]:
    """Return labels that depend on the columns, and scores that do not tell how."""
    g = np.random.default_rng(seed + 100)
    n = len(columns["gaps"])
    scores = g.uniform(0.1, 0.9, n)
    shift = np.nan_to_num(columns["gaps"]) + 2.0 * (columns["side"] == "a") - 0.5
    p = 1 / (1 + np.exp(-np.log(scores / (1 - scores)) - shift))
    return (g.random(n) < p).astype(int), scores


@pytest.fixture(scope="module")
def fitted() -> tuple[RegionRecalibrator, dict[str, Any], Any]:
    columns = mixed(1_500)
    y, scores = outcomes(columns)
    return RegionRecalibrator().fit(y, scores, columns), columns, scores


@pytest.fixture
def numpy_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EPILOSS_KERNEL", "numpy")
    kernel.cache_clear()
    yield
    kernel.cache_clear()


def test_it_repairs_by_columns_of_every_kind(
    fitted: tuple[RegionRecalibrator, dict[str, Any], Any],
) -> None:
    """5,000 fresh rows: the log-loss falls by 0.1 or more, over 10 standard errors."""
    repair, _, _ = fitted
    columns = mixed(5_000, seed=1)
    y, scores = outcomes(columns, seed=1)
    better = repair.predict(scores, columns)
    gain = np.log(np.where(y == 1, better, 1 - better)) - np.log(np.where(y == 1, scores, 1 - scores))
    assert gain.mean() > 0.1
    assert gain.mean() > 10 * gain.std() / np.sqrt(5_000)


def test_one_row_at_a_time_has_the_bits_of_all_rows(
    fitted: tuple[RegionRecalibrator, dict[str, Any], Any],
) -> None:
    repair, columns, scores = fitted
    together = repair.predict(scores, columns)
    for i in range(40):
        row = {name: column[i : i + 1] for name, column in columns.items()}
        assert repair.predict(scores[i : i + 1], row)[0] == together[i]


def test_a_category_that_nobody_has_seen_is_a_missing_value(
    fitted: tuple[RegionRecalibrator, dict[str, Any], Any],
) -> None:
    repair, columns, scores = fitted
    n = len(scores)
    unseen, missing = (
        repair.predict(scores, {**columns, "side": np.array([one] * n, object)}) for one in ("z", None)
    )
    np.testing.assert_array_equal(unseen, missing)
    assert not np.array_equal(missing, repair.predict(scores, columns))


def test_numpy_loops_learn_and_predict_the_same_bits(
    fitted: tuple[RegionRecalibrator, dict[str, Any], Any], numpy_loops: None
) -> None:
    repair, columns, scores = fitted
    y, _ = outcomes(columns)
    slow = RegionRecalibrator().fit(y, scores, columns)
    np.testing.assert_array_equal(slow.predict(scores, columns), repair.predict(scores, columns))


def test_a_saved_repair_with_columns_of_every_kind_gives_the_same_bits(
    fitted: tuple[RegionRecalibrator, dict[str, Any], Any], tmp_path: Path
) -> None:
    repair, _, _ = fitted
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    fresh = mixed(3_000, seed=2)
    scores = np.random.default_rng(0).random(3_000)
    np.testing.assert_array_equal(again.predict(scores, fresh), repair.predict(scores, fresh))


def test_a_file_of_an_older_version_is_told_what_to_do(
    fitted: tuple[RegionRecalibrator, dict[str, Any], Any], tmp_path: Path
) -> None:
    file = tmp_path / "repair.json"
    fitted[0].save(file)
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 1}))
    with pytest.raises(
        epiloss.DataError, match=r"has schema 1, but this version reads schema 4\. Fit it again"
    ):
        load_repair(file)


def test_only_the_ratios_of_weights_count() -> None:
    """Equal to the precision of single floats, which the tables have."""
    sample = Sigmoid(perturbation="step").sample(1_200)
    weights = np.random.default_rng(0).uniform(0.5, 1.0, 1_200)
    features, fold = Features.read(sample.X), np.arange(1_200) % 5
    found = []
    for scale in (1.0, 2.0**-10):
        rows = (features, sample.scores, sample.y.astype(float), weights * scale, fold)
        correction, honest = fit_boosted(*rows, None, np.random.default_rng(0))
        found.append(np.append(honest, correction.corrected(features, sample.scores)))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert np.abs(found[0][:1_200] - sample.scores).max() > 0.05


def test_a_ridge_of_all_folds_but_one_is_that_of_their_rows() -> None:
    columns = mixed(900)
    y, scores = outcomes(columns)
    features = Features.read(columns)
    encoding, coded = learn_encoding(features, scores)
    codes = coded.codes[:-1]
    basis = Basis.of(encoding, codes, features)
    fold, weights = np.arange(900) % 3, np.linspace(0.5, 1.5, 900)
    folds = [np.flatnonzero(fold == k) for k in range(3)]
    rows = (codes, scores, y.astype(float), weights)
    for left_out, found in zip(range(3), fit_ridges(basis, *rows, folds), strict=True):
        direct = Products.of(basis, *rows, np.flatnonzero(fold != left_out)).solutions()
        np.testing.assert_allclose(found, direct, rtol=1e-3, atol=1e-5)
        assert np.abs(direct).max() > 0.1


@pytest.mark.parametrize("widest", [1_500, 3])
def test_tables_predict_what_the_regression_does(widest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide features, here more than 3 columns, come by their normal scores alone."""
    monkeypatch.setattr(additive, "_WIDEST", widest)
    features = Features.read(mixed(500))
    base = np.random.default_rng(1).random(500)
    encoding, coded = learn_encoding(features, base)
    codes = coded.codes[:-1]
    basis = Basis.of(encoding, codes, features)
    assert basis.width == (features.n_columns if widest == 3 else 4 * 5 + 2 * 3)
    coefficients = np.random.default_rng(2).normal(size=basis.width)
    expected = basis.design(codes, base) @ coefficients
    np.testing.assert_allclose(
        basis.additive(coefficients).predict(codes, base), expected, rtol=1e-4, atol=1e-4
    )


def test_rates_of_a_subgroup_that_cross_the_scores_are_repaired() -> None:
    """4 draws of 2,000 rows, 10 columns: at least 0.45 of the error is removed (0.13 without slopes)."""
    removed = []
    for seed in range(4):
        g = np.random.default_rng(seed)
        X, scores = g.normal(size=(12_000, 10)), g.uniform(0.05, 0.95, 12_000)
        X[:, 0] = np.sign(X[:, 0])
        truth = scores + 0.2 * X[:, 0] * (2 * scores - 1)
        labels = (g.random(12_000) < truth).astype(int)
        repair = RegionRecalibrator().fit(labels[:2_000], scores[:2_000], X[:2_000])
        after = ((repair.predict(scores[2_000:], X[2_000:]) - truth[2_000:]) ** 2).mean()
        removed.append(1 - after / ((scores - truth)[2_000:] ** 2).mean())
    assert np.mean(removed) >= 0.45, removed


def test_a_weighted_sum_of_stages_is_one_list_of_trees() -> None:
    g = np.random.default_rng(0)
    codes = g.integers(0, 64, (3, 600), dtype=np.uint8)
    target = (codes[0] > 30) + g.normal(size=600)
    every = np.arange(3, dtype=np.int32)
    growth = Growth(n_trees=20, n_leaves=6, deepest=4, rate=0.2, ridge=1.0, least=10.0)
    trees = kernel().boost(codes, every, target, np.ones(600), None, np.zeros(600), growth)

    def total(some: Any) -> Any:
        return predict_stages(some, codes, (len(some),))[:, 0]

    stages = predict_stages(trees, codes, (5, 20))
    np.testing.assert_array_equal(stages[:, 1], total(trees))
    np.testing.assert_array_equal(stages[:, 0], total(trees[:5]))
    both = weighted_trees(trees, (5, 20), np.array([0.5, 0.25]))
    np.testing.assert_allclose(total(both), stages @ [0.5, 0.25], rtol=1e-10, atol=1e-12)
    dropped = weighted_trees(trees, (5, 20), np.array([0.5, 0.0]))
    assert len(dropped) == 5
    np.testing.assert_allclose(total(dropped), 0.5 * stages[:, 0], rtol=1e-10, atol=1e-12)
    assert len(weighted_trees(trees, (5, 20), np.zeros(2))) == 0
    assert (total(weighted_trees(trees, (5, 20), np.zeros(2))) == 0).all()


def test_a_repair_without_trees_is_saved(tmp_path: Path) -> None:
    """A correction that is linear in the log-odds: stages of boosting may all have weight 0."""
    sample = Sigmoid().sample(2_000)
    repair = RegionRecalibrator().fit(sample.y, sample.scores, sample.X)
    (correction,) = repair.repairs_[0].corrections
    assert isinstance(correction, BoostedCorrection)
    none = LevelEffects({})
    bare = BoostedCorrection(None, correction.encoding, correction.additive, none, correction.trees[:0])
    repair.repairs_[0] = type(repair.repairs_[0])(repair.repairs_[0].curve, [bare])
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    better = repair.predict(sample.scores, sample.X)
    np.testing.assert_array_equal(again.predict(sample.scores, sample.X), better)
    assert np.abs(better - sample.scores).max() > 0.05


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ([-1], True),
        ([1, -1, -1], True),
        ([1, 3, 5, -1, -1, -1, -1], True),
        ([1, 5, 3, -1, -1, -1, -1], True),
        ([1, -1, -1, -1, -1], True),
        ([1, 3, 3, -1, -1], False),  # two parents
        ([0, -1, -1], False),  # a way without end
        ([1, 1, -1], False),
        ([3, -1, -1, -1, -1], False),  # a gap
        ([1, -1], False),  # a child that there is not
        ([-1, -1, -1, 1, -1], False),  # children before their parent
        ([-7, -1, -1], False),
    ],
)
def test_only_trees_as_they_grow_are_read(left: list[int], expected: bool) -> None:
    """The loops trust a tree, so that a file with another form must be told, not run."""
    assert _is_tree(np.array(left)) is expected


def test_a_tree_with_more_leaves_than_the_loops_hold_is_told(
    fitted: tuple[RegionRecalibrator, dict[str, Any], Any], tmp_path: Path
) -> None:
    file = tmp_path / "repair.json"
    fitted[0].save(file)
    plain = json.loads(file.read_text())
    splits = [2 * k + 1 for k in range(64)]
    large = {"left": [[*splits, *[-1] * 65]], "value": [[0.0] * 129]}
    large |= {name: [[0] * 129] for name in ("feature", "code", "missing_left")}
    plain["repairs"][0]["corrections"][0]["trees"] = large
    file.write_text(json.dumps(plain))
    with pytest.raises(epiloss.DataError, match="its trees are too large"):
        load_repair(file)
