"""Repair by region: it helps where there is grouping loss, does no harm elsewhere, and is saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import epiloss
from epiloss import RegionRecalibratedClassifier, RegionRecalibrator, load_repair
from epiloss.estimation.crossfit.learners import with_score
from epiloss.input.features import Features
from epiloss.repair.regional import fit_regions
from epiloss.repair.trees import TreeSum
from epiloss.simulate import MultiClass, Sample, Sigmoid

METHODS = ["regions", "boosted"]


def table(sample: Sample) -> dict[str, Any]:
    """Return features as a table with a category and missing values."""
    across = sample.X[:, 0] - sample.X[:, 1]
    side = np.where(across > 1, "far", np.where(across < -1, "near", "middle")).astype(object)
    side[::17] = None
    age = sample.X[:, 0].copy()
    age[::11] = np.nan
    return {"age": age, "other": sample.X[:, 1], "side": side}


def brier(scores: Any, y: Any) -> float:
    return float(np.mean((scores - y) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("miscalibration", [1.0, 2.0])
def test_where_there_is_no_grouping_loss_it_does_no_harm(method: str, miscalibration: float) -> None:
    """20 repetitions of 1,500 learning rows: the mean excess over the truth is that of noise at most.

    A calibration curve of about 4 free numbers costs 4 x 0.08 / 1500 = 2e-4; at most 5e-4 is taken.
    """
    problem = Sigmoid(grouping=0.0, miscalibration=miscalibration)
    excess = []
    for seed in range(20):
        sample = problem.sample(1_500, random_state=seed)
        fresh = problem.sample(5_000, random_state=1_000 + seed)
        repair = RegionRecalibrator(method, random_state=seed).fit(sample.X, sample.y, sample.scores)
        excess.append(brier(repair.predict(fresh.X, fresh.scores), fresh.q))
    assert np.mean(excess) < 5e-4


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "problem",
    [Sigmoid(), Sigmoid(perturbation="step"), Sigmoid(miscalibration=2.0), Sigmoid(n_noise=8)],
    ids=["smooth", "step", "overconfident", "noise features"],
)
def test_where_there_is_grouping_loss_it_falls(method: str, problem: Sigmoid) -> None:
    """5 repetitions of 4,000 learning rows: at least a third of the loss against the truth goes."""
    shares = []
    for seed in range(5):
        sample, fresh = (problem.sample(4_000, random_state=seed + k) for k in (0, 1_000))
        repair = RegionRecalibrator(method, random_state=seed).fit(sample.X, sample.y, sample.scores)
        shares.append(
            brier(repair.predict(fresh.X, fresh.scores), fresh.q) / brier(fresh.scores, fresh.q)
        )
    assert np.mean(shares) < 0.67


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_repair_gives_the_same_bits(method: str, tmp_path: Path) -> None:
    sample, fresh = (Sigmoid(perturbation="step").sample(1_200, random_state=k) for k in (0, 1))
    repair = RegionRecalibrator(method).fit(table(sample), sample.y, sample.scores)
    before = repair.predict(table(fresh), fresh.scores)
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    np.testing.assert_array_equal(again.predict(table(fresh), fresh.scores), before)
    assert again.get_params() == repair.get_params()
    assert json.loads((tmp_path / "repair.json").read_text())["schema"] == 1
    assert brier(before, fresh.y) < brier(fresh.scores, fresh.y)


def test_wide_features_are_saved_by_their_components(tmp_path: Path) -> None:
    sample = Sigmoid(perturbation="step", n_noise=430).sample(600)
    repair = RegionRecalibrator("boosted").fit(sample.X, sample.y, sample.scores)
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    np.testing.assert_array_equal(
        again.predict(sample.X, sample.scores), repair.predict(sample.X, sample.scores)
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits(method: str) -> None:
    sample = Sigmoid(perturbation="step").sample(1_000)
    answers = [
        RegionRecalibrator(method, random_state=5, n_jobs=n_jobs)
        .fit(sample.X, sample.y, sample.scores)
        .predict(sample.X, sample.scores)
        for n_jobs in (None, 2)
    ]
    np.testing.assert_array_equal(answers[0], answers[1])


@pytest.mark.parametrize("method", METHODS)
def test_weights_count_rows(method: str) -> None:
    sample = Sigmoid(perturbation="step").sample(1_500)
    far = sample.X[:, 0] > sample.X[:, 1]
    weight = np.where(far, 1.0, 1e-3)  # the far side alone counts
    repair = RegionRecalibrator(method).fit(sample.X, sample.y, sample.scores, sample_weight=weight)
    better = repair.predict(sample.X, sample.scores)
    assert brier(better[far], sample.q[far]) < brier(sample.scores[far], sample.q[far])


@pytest.mark.parametrize("method", METHODS)
def test_several_classes_sum_to_one(method: str) -> None:
    sample = MultiClass().sample(2_000)
    repair = RegionRecalibrator(method).fit(sample.X, sample.y, sample.scores)
    better = repair.predict(sample.X, sample.scores)
    np.testing.assert_allclose(better.sum(axis=1), 1.0)
    assert brier(better, sample.q) < brier(sample.scores, sample.q)


def test_two_columns_are_repaired_as_one() -> None:
    sample = Sigmoid(perturbation="step").sample(1_000)
    both = np.column_stack([1 - sample.scores, sample.scores])
    repair = RegionRecalibrator().fit(sample.X, sample.y, both)
    one = RegionRecalibrator().fit(sample.X, sample.y, sample.scores)
    better = repair.predict(sample.X, both)
    np.testing.assert_array_equal(better[:, 1], one.predict(sample.X, sample.scores))
    np.testing.assert_allclose(better.sum(axis=1), 1.0)


def test_columns_come_in_any_order_and_new_categories_are_no_error() -> None:
    sample = Sigmoid(perturbation="step").sample(1_500)
    columns = table(sample)
    repair = RegionRecalibrator().fit(columns, sample.y, sample.scores)
    turned = dict(reversed(columns.items()))
    np.testing.assert_array_equal(
        repair.predict(turned, sample.scores), repair.predict(columns, sample.scores)
    )
    new = {**columns, "side": np.array(["elsewhere"] * 1_500, object)}
    assert np.isfinite(repair.predict(new, sample.scores)).all()
    with pytest.raises(epiloss.DataError, match="'age' in one only"):
        repair.predict({"other": sample.X[:, 1], "side": columns["side"]}, sample.scores)


def test_a_learner_of_ones_own_repairs_but_is_not_saved(tmp_path: Path) -> None:
    sample, fresh = (Sigmoid().sample(3_000, random_state=k) for k in (0, 1))
    repair = RegionRecalibrator("boosted", learner=LinearRegression())
    repair.fit(sample.X, sample.y, sample.scores)
    assert brier(repair.predict(fresh.X, fresh.scores), fresh.q) < brier(fresh.scores, fresh.q)
    with pytest.raises(epiloss.OptionError, match="cannot be saved"):
        repair.save(tmp_path / "repair.json")
    assert not list(tmp_path.iterdir())


def test_it_clones_and_stands_behind_a_classifier() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 2))
    y = np.where((X[:, 0] * X[:, 1] > 0) ^ (rng.random(4_000) < 0.1), "yes", "no")
    assert clone(RegionRecalibrator(region_ratio=7)).region_ratio == 7
    model = RegionRecalibratedClassifier(
        LogisticRegression(), recalibrator=RegionRecalibrator("boosted")
    )
    model = clone(model).fit(X[:2_000], y[:2_000])
    plain = LogisticRegression().fit(X[:2_000], y[:2_000])
    is_yes = (y[2_000:] == "yes").astype(float)
    better = model.predict_proba(X[2_000:])[:, 1]
    assert brier(better, is_yes) < 0.6 * brier(plain.predict_proba(X[2_000:])[:, 1], is_yes)
    assert np.mean(model.predict(X[2_000:]) == y[2_000:]) > 0.8
    prefit = RegionRecalibratedClassifier(plain, cv="prefit").fit(X[2_000:], y[2_000:])
    assert prefit.predict_proba(X).shape == (4_000, 2)


def test_the_correction_is_continuous_in_the_score() -> None:
    sample = Sigmoid(perturbation="step").sample(4_000)
    repair = RegionRecalibrator("regions").fit(sample.X, sample.y, sample.scores)
    scores = np.linspace(0.05, 0.95, 2_001)
    better = repair.predict(np.tile([1.0, -1.0], (2_001, 1)), scores)
    assert np.abs(np.diff(better)).max() < 0.02


def test_regions_without_a_difference_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    features = Features.read(rng.normal(size=(2_000, 3)))
    base = np.full(2_000, 0.3)
    labels = (np.arange(2_000) % 10 < 3).astype(float)
    correction = fit_regions(
        features, base, labels, None, region_ratio=30, repeats=2, generator=rng, n_jobs=None
    )
    assert np.abs(correction.offset(features, base)).max() < 0.03


def test_trees_as_arrays_predict_as_the_model_does() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) ** 2 + rng.normal(size=800)
    model = HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=9).fit(X, y)
    features = Features.read(X)
    trees = TreeSum.from_boosting(model)
    np.testing.assert_allclose(trees.predict(features), model.predict(X), rtol=1e-12)
    stages = trees.predict_stages(features, (5, 20))
    weighed = trees.weighed((5, 20), np.array([0.5, 0.25]))
    np.testing.assert_allclose(weighed.predict(features), stages @ [0.5, 0.25], rtol=1e-10, atol=1e-12)
    dropped = trees.weighed((5, 20), np.array([0.5, 0.0]))
    assert len(dropped.roots) == 5
    np.testing.assert_allclose(dropped.predict(features), 0.5 * stages[:, 0], rtol=1e-10, atol=1e-12)
    none = trees.weighed((5, 20), np.zeros(2))
    assert (none.predict(features) == 0).all()


def test_the_loop_shows_before_and_after_on_fresh_rows() -> None:
    sample = Sigmoid(perturbation="step").sample(6_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=5)
    loop = result.repair(RegionRecalibrator("boosted"))
    assert loop.differences["score"].high is not None
    assert loop.differences["score"].high < 0
    assert loop.differences["grouping_loss"].value < -0.01
    assert loop.before.n_samples == loop.after.n_samples == len(loop.rows) == 3_000
    alone = epiloss.audit(sample.y[loop.rows], sample.scores[loop.rows], sample.X[loop.rows], n_bins=5)
    assert loop.before.score == alone.score
    assert loop.before.grouping_loss == alone.grouping_loss
    assert brier(loop.scores, sample.y[loop.rows]) == pytest.approx(loop.after.score.value)
    assert "difference" in str(loop)
    assert json.loads(loop.to_json())["differences"]["score"]["value"] < 0


def test_the_loop_keeps_clusters_together_and_takes_any_task() -> None:
    sample = MultiClass().sample(1_500)
    clusters = np.repeat(np.arange(500), 3)
    result = epiloss.audit(
        sample.y, sample.scores, sample.X, clusters=clusters, n_bins=3, method="partition"
    )
    loop = result.repair()
    assert loop.repair.method == "boosted"  # as on the command line
    assert len(np.unique(clusters[loop.rows])) == 250
    assert loop.scores.shape == (750, 3)


def test_what_cannot_be_repaired_is_told() -> None:
    sample = Sigmoid().sample(300)
    blind = epiloss.audit(sample.y, sample.scores, n_bins=3)
    with pytest.raises(epiloss.OptionError, match="needs its rows and X"):
        blind.repair()
    seen = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=3)
    with pytest.raises(epiloss.OptionError, match="part"):
        seen.repair(part=1.0)
    with pytest.raises(epiloss.OptionError, match="method must be"):
        RegionRecalibrator("magic").fit(sample.X, sample.y, sample.scores)
    with pytest.raises(epiloss.OptionError, match="learner is for"):
        RegionRecalibrator("regions", learner=LinearRegression()).fit(sample.X, sample.y, sample.scores)
    with pytest.raises(epiloss.OptionError, match="learned nothing yet"):
        RegionRecalibrator().predict(sample.X, sample.scores)
    with pytest.raises(epiloss.OptionError, match="rounds must be at least 1"):
        RegionRecalibrator(rounds=0).fit(sample.X, sample.y, sample.scores)
    fitted = RegionRecalibrator().fit(sample.X, sample.y, sample.scores)
    with pytest.raises(epiloss.DataError, match="one row each"):
        fitted.predict(sample.X[:5], sample.scores)


def damaged(plain: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    """Return a copy with one entry replaced."""
    copy: Any = json.loads(json.dumps(plain))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    sample = Sigmoid(perturbation="step").sample(1_000)
    found = {}
    for method in METHODS:
        path = tmp_path_factory.mktemp("saved") / "repair.json"
        RegionRecalibrator(method).fit(sample.X, sample.y, sample.scores).save(path)
        found[method] = json.loads(path.read_text())
    return found


FIRST = ("repairs", 0, "corrections", 0)


@pytest.mark.parametrize(
    ("method", "path", "value"),
    [
        ("regions", ("format",), "pickle"),
        ("regions", ("schema",), 99),
        ("regions", ("repairs",), []),
        ("regions", ("repairs", 0, "curve"), [[0.1], [2.0]]),
        ("regions", ("repairs", 0, "curve"), [[0.5, 0.1], [0.2, 0.3]]),
        ("regions", (*FIRST, "kind"), "code"),
        ("regions", (*FIRST, "centres"), [0.5, 0.5]),
        ("regions", (*FIRST, "trees", 0, "nodes", "left", 0), 0),
        ("regions", (*FIRST, "trees", 0, "nodes", "right", 0), 10**9),
        ("regions", (*FIRST, "trees", 0, "nodes", "feature", 0), 77),
        ("regions", (*FIRST, "trees", 0, "offsets"), [0.0]),
        ("regions", (*FIRST, "trees", 0, "nodes"), {}),
        ("boosted", (*FIRST, "parts", 0, "roots", 0), -4),
        ("boosted", (*FIRST, "parts", 0, "values"), ["a"]),
        ("boosted", (*FIRST, "parts", 0, "nodes", "feature", 0), 3),
        ("boosted", (*FIRST, "parts", 0, "scale"), []),
        ("boosted", (*FIRST, "narrow"), [[0.0], [[1.0]]]),
        ("boosted", ("positive",), 7),
    ],
)
def test_a_damaged_file_is_told_in_one_sentence(
    saved: dict[str, dict[str, Any]], method: str, path: tuple[Any, ...], value: Any, tmp_path: Path
) -> None:
    file = tmp_path / "repair.json"
    file.write_text(json.dumps(damaged(saved[method], *path, value=value)))
    with pytest.raises(epiloss.DataError) as told:
        load_repair(file)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format": NaN}', "\x80", '{"a":' * 5_000])
def test_what_is_no_json_is_told(text: str, tmp_path: Path) -> None:
    file = tmp_path / "repair.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(epiloss.DataError):
        load_repair(file)


def test_the_score_is_a_column_of_what_boosting_sees() -> None:
    features = Features.read(np.zeros((2, 3)))
    assert with_score(features, np.array([0.5, 0.9])).shape == (2, 4)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_saved_repair_of_several_classes_predicts_the_same(n_classes: int, tmp_path: Path) -> None:
    g = np.random.default_rng(3)
    X, scores = g.normal(size=(600, 2)), g.dirichlet(np.full(n_classes, 2.0), 600)
    repair = RegionRecalibrator().fit(X, g.integers(n_classes, size=600), scores)
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    np.testing.assert_array_equal(again.predict(X, scores), repair.predict(X, scores))


def test_a_repair_that_changes_the_top_class_is_measured_on_what_was_claimed() -> None:
    g = np.random.default_rng(5)
    X = g.normal(size=(4_000, 2))
    truth = np.exp(1.5 * X @ np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]))
    truth /= truth.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) < g.random((4_000, 1))).sum(axis=1)
    scores = g.dirichlet([3.0, 3.0, 3.0], 4_000)  # which know nothing of the truth
    loop = epiloss.audit(y, scores, X, method="partition").repair()
    assert (loop.scores.argmax(axis=1) != scores[loop.rows].argmax(axis=1)).mean() > 0.3
    top = scores[loop.rows].argmax(axis=1)
    claimed = np.take_along_axis(loop.scores, top[:, None], axis=1)[:, 0]
    expected = np.mean((claimed - (y[loop.rows] == top)) ** 2)
    assert loop.after.score.value == pytest.approx(expected)
    assert loop.differences["score"].value < -0.02
