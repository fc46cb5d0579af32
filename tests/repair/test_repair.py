"""Repair by region: it helps where there is grouping loss, does no harm elsewhere, and is saved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import epiloss
from epiloss import RegionRecalibratedClassifier, RegionRecalibrator, load_repair
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.learners import with_score
from epiloss.input.features import Features
from epiloss.repair import fitting, regional
from epiloss.repair.regional import fit_regions
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
        repair = RegionRecalibrator(method, random_state=seed).fit(sample.y, sample.scores, sample.X)
        excess.append(brier(repair.predict(fresh.scores, fresh.X), fresh.q))
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
        repair = RegionRecalibrator(method, random_state=seed).fit(sample.y, sample.scores, sample.X)
        shares.append(
            brier(repair.predict(fresh.scores, fresh.X), fresh.q) / brier(fresh.scores, fresh.q)
        )
    assert np.mean(shares) < 0.67


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_repair_gives_the_same_bits(method: str, tmp_path: Path) -> None:
    sample, fresh = (Sigmoid(perturbation="step").sample(1_200, random_state=k) for k in (0, 1))
    repair = RegionRecalibrator(method).fit(sample.y, sample.scores, table(sample))
    before = repair.predict(fresh.scores, table(fresh))
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    np.testing.assert_array_equal(again.predict(fresh.scores, table(fresh)), before)
    assert again.get_params() == repair.get_params()
    assert json.loads((tmp_path / "repair.json").read_text())["schema"] == 4
    assert brier(before, fresh.y) < brier(fresh.scores, fresh.y)


def test_wide_features_are_saved_by_their_components(tmp_path: Path) -> None:
    sample = Sigmoid(perturbation="step", n_noise=430).sample(600)
    repair = RegionRecalibrator("boosted").fit(sample.y, sample.scores, sample.X)
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    np.testing.assert_array_equal(
        again.predict(sample.scores, sample.X), repair.predict(sample.scores, sample.X)
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits(method: str) -> None:
    sample = Sigmoid(perturbation="step").sample(1_000)
    answers = [
        RegionRecalibrator(method, random_state=5, n_jobs=n_jobs)
        .fit(sample.y, sample.scores, sample.X)
        .predict(sample.scores, sample.X)
        for n_jobs in (None, 2)
    ]
    np.testing.assert_array_equal(answers[0], answers[1])


@pytest.mark.parametrize("method", METHODS)
def test_weights_count_rows(method: str) -> None:
    sample = Sigmoid(perturbation="step").sample(1_500)
    far = sample.X[:, 0] > sample.X[:, 1]
    weight = np.where(far, 1.0, 1e-3)  # the far side alone counts
    repair = RegionRecalibrator(method).fit(sample.y, sample.scores, sample.X, sample_weight=weight)
    better = repair.predict(sample.scores, sample.X)
    assert brier(better[far], sample.q[far]) < brier(sample.scores[far], sample.q[far])


@pytest.mark.parametrize("method", METHODS)
def test_several_classes_sum_to_one(method: str) -> None:
    """4,000 rows, on which the gain is over 6 standard errors; with 2,000 it may be below one."""
    sample = MultiClass().sample(4_000)
    repair = RegionRecalibrator(method).fit(sample.y, sample.scores, sample.X)
    better = repair.predict(sample.scores, sample.X)
    np.testing.assert_allclose(better.sum(axis=1), 1.0)
    assert brier(better, sample.q) < brier(sample.scores, sample.q)


def test_two_columns_are_repaired_as_one() -> None:
    sample = Sigmoid(perturbation="step").sample(1_000)
    both = np.column_stack([1 - sample.scores, sample.scores])
    repair = RegionRecalibrator().fit(sample.y, both, sample.X)
    one = RegionRecalibrator().fit(sample.y, sample.scores, sample.X)
    better = repair.predict(both, sample.X)
    np.testing.assert_array_equal(better[:, 1], one.predict(sample.scores, sample.X))
    np.testing.assert_allclose(better.sum(axis=1), 1.0)


def test_columns_come_in_any_order_and_new_categories_are_no_error() -> None:
    sample = Sigmoid(perturbation="step").sample(1_500)
    columns = table(sample)
    repair = RegionRecalibrator().fit(sample.y, sample.scores, columns)
    turned = dict(reversed(columns.items()))
    np.testing.assert_array_equal(
        repair.predict(sample.scores, turned), repair.predict(sample.scores, columns)
    )
    new = {**columns, "side": np.array(["elsewhere"] * 1_500, object)}
    assert np.isfinite(repair.predict(sample.scores, new)).all()
    words = "columns that were used for learning, got no column 'age'"
    with pytest.raises(epiloss.DataError, match=words):
        repair.predict(sample.scores, {"other": sample.X[:, 1], "side": columns["side"]})


def test_a_learner_of_ones_own_repairs_but_is_not_saved(tmp_path: Path) -> None:
    sample, fresh = (Sigmoid().sample(3_000, random_state=k) for k in (0, 1))
    repair = RegionRecalibrator("boosted", learner=LinearRegression())
    repair.fit(sample.y, sample.scores, sample.X)
    assert brier(repair.predict(fresh.scores, fresh.X), fresh.q) < brier(fresh.scores, fresh.q)
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
    repair = RegionRecalibrator("regions").fit(sample.y, sample.scores, sample.X)
    scores = np.linspace(0.05, 0.95, 2_001)
    better = repair.predict(scores, np.tile([1.0, -1.0], (2_001, 1)))
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


# the user's own X, and the user's own recalibrator


@pytest.fixture(scope="module")
def named() -> tuple[Sample, dict[str, Any]]:
    """Return rows whose X has an identifier, which an audit leaves out."""
    sample = Sigmoid(perturbation="step").sample(3_000)
    names = np.array([f"patient {i}" for i in range(3_000)], object)
    return sample, {"name": names, "age": sample.X[:, 0], "other": sample.X[:, 1]}


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars"])
def test_a_repair_of_an_audit_takes_the_users_own_table_with_its_identifier(
    kind: str, named: tuple[Sample, dict[str, Any]]
) -> None:
    sample, columns = named
    frames = {"mapping": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame}
    X = frames[kind](columns)
    result = epiloss.audit(sample.y, sample.scores, X, method="partition")
    assert "names-left-out" in [remark.code for remark in result.remarks]
    loop = result.repair(RegionRecalibrator("regions"))
    assert loop.repair.features_in_.names == ("age", "other")
    better = loop.repair.predict(sample.scores, X)
    np.testing.assert_array_equal(better[loop.rows], loop.scores)
    assert np.abs(better - sample.scores).max() > 0.05


def test_the_default_repair_takes_it_too(named: tuple[Sample, dict[str, Any]], tmp_path: Path) -> None:
    sample, X = named
    loop = epiloss.audit(sample.y, sample.scores, X, method="partition").repair()
    better = loop.repair.predict(sample.scores, X)
    np.testing.assert_array_equal(better[loop.rows], loop.scores)
    fresh = Sigmoid(perturbation="step").sample(2_000, random_state=9)
    given = {"age": fresh.X[:, 0], "other": fresh.X[:, 1], "name": np.arange(2_000).astype(str)}
    assert brier(loop.repair.predict(fresh.scores, given), fresh.y) < brier(fresh.scores, fresh.y)
    loop.repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    np.testing.assert_array_equal(again.predict(sample.scores, X), better)


def test_a_gain_that_the_audit_had_missed_is_said_to_be_one(
    named: tuple[Sample, dict[str, Any]],
) -> None:
    sample, X = named
    loop = epiloss.audit(sample.y, sample.scores, X, method="partition").repair()
    fell = Estimate(-0.006, 0.001, -0.008, -0.004, 1e-6)
    for rest, is_missed in ((fell, True), (replace(fell, value=0.006), False), (Estimate(-0.1), False)):
        result = replace(loop, differences={**loop.differences, "remainder": rest})
        assert ("remainder fell" in str(result)) == is_missed
        assert ("remainder fell" in result.missed) == is_missed


@pytest.mark.parametrize("method", METHODS)
def test_further_columns_are_ignored_and_a_missing_one_is_named(method: str) -> None:
    sample = Sigmoid(perturbation="step").sample(800)
    columns = table(sample)
    repair = RegionRecalibrator(method).fit(sample.y, sample.scores, columns)
    better = repair.predict(sample.scores, columns)
    more = {"noise": np.arange(800) % 5, **columns, "name": np.arange(800).astype(str)}
    np.testing.assert_array_equal(repair.predict(sample.scores, more), better)
    for name in columns:
        fewer = {one: values for one, values in more.items() if one != name}
        with pytest.raises(
            epiloss.DataError, match=f"columns that were used for learning, got no column '{name}'"
        ):
            repair.predict(sample.scores, fewer)
    matrix = RegionRecalibrator(method).fit(sample.y, sample.scores, sample.X)
    with pytest.raises(epiloss.DataError, match="the 2 columns that were used for learning, got 3"):
        matrix.predict(sample.scores, np.column_stack([sample.X, sample.X[:, 0]]))


def test_the_loop_leaves_the_users_recalibrator_unfitted_and_takes_it_again() -> None:
    sample = Sigmoid(perturbation="step").sample(1_500)
    result = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=5, method="partition")
    own = RegionRecalibrator("regions", region_ratio=40, repeats=2, random_state=3)
    before = dict(vars(own))
    first, second = result.repair(own), result.repair(own)
    assert vars(own) == before
    assert not hasattr(own, "repairs_")
    with pytest.raises(epiloss.OptionError, match="not fitted yet"):
        own.predict(sample.scores, sample.X)
    assert first.repair is not own
    assert first.repair is not second.repair
    assert first.repair.get_params() == own.get_params()
    np.testing.assert_array_equal(first.scores, second.scores)
    assert first.to_dict() == second.to_dict()
    # one that is fitted already is learned anew, and stays as it is
    own.fit(sample.y[:500], sample.scores[:500], sample.X[:500])
    fitted = own.predict(sample.scores, sample.X)
    np.testing.assert_array_equal(result.repair(own).scores, first.scores)
    np.testing.assert_array_equal(own.predict(sample.scores, sample.X), fitted)


# clusters, missing scores, logits


@pytest.mark.parametrize("method", METHODS)
def test_a_cluster_is_never_divided_between_folds(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither between folds nor, where regions are learned, between these and their rates."""
    sample = Sigmoid(perturbation="step").sample(1_000)
    clusters = np.random.default_rng(1).integers(0, 150, 1_000)
    places: list[Any] = []
    name = f"_{method.replace('regions', 'regional')}"
    inner = getattr(fitting, name)

    def noted(rows: Any, plan: Any, fold: Any, generator: Any) -> Any:
        places.append(fold)
        return inner(rows, plan, fold, generator)

    def halves(n: int, units: Any, repeats: int, generator: Any) -> Any:
        pairs = halved(n, units, repeats, generator)
        for one, other in pairs:
            assert not set(units[one]) & set(units[other])
            assert min(len(one), len(other)) > 0.3 * n
        divided.append(len(pairs))
        return pairs

    divided: list[int] = []
    halved = regional._halves
    monkeypatch.setattr(fitting, name, noted)
    monkeypatch.setattr(regional, "_halves", halves)
    RegionRecalibrator(method).fit(sample.y, sample.scores, sample.X, clusters=clusters)
    (fold,) = places
    assert set(fold) == set(range(5))
    assert all(len(set(fold[clusters == one])) == 1 for one in set(clusters))
    assert bool(divided) == (method == "regions")


@pytest.mark.parametrize("method", METHODS)
def test_copies_that_are_told_to_be_clusters_teach_nothing_that_is_not_there(method: str) -> None:
    """5 repetitions of 300 rows without grouping loss, each ten times over.

    Without clusters the copies of a row tell its label: the repair moves all scores, by 0.2 (root mean
    square) and more. With clusters it leaves most samples alone: the mean is below a tenth of that.
    """
    problem = Sigmoid(grouping=0.0)
    ten = np.repeat(np.arange(300), 10)
    told: list[float] = []
    blind: list[float] = []
    for seed in range(5):
        sample, fresh = problem.sample(300, random_state=seed), problem.sample(1_000, random_state=99)
        rows = (sample.y[ten], sample.scores[ten], sample.X[ten])
        for found, clusters in ((told, ten), (blind, None)):
            repair = RegionRecalibrator(method, random_state=seed).fit(*rows, clusters=clusters)
            found.append(brier(repair.predict(fresh.scores, fresh.X), fresh.q))
    assert np.mean(told) < 0.1 * np.mean(blind)
    assert np.mean(blind) > 0.02


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_clusters", [1, 2, 3])
def test_few_clusters_are_no_error(method: str, n_clusters: int) -> None:
    sample = Sigmoid(perturbation="step").sample(400)
    clusters = np.array(["a", "k", "z"])[np.arange(400) % n_clusters]
    rows = (sample.y, sample.scores, sample.X)
    repair = RegionRecalibrator(method).fit(*rows, clusters=clusters)
    better = repair.predict(sample.scores, sample.X)
    assert ((better >= 0) & (better <= 1)).all()
    if n_clusters == 1:  # nothing is independent of what was learned
        np.testing.assert_array_equal(better, sample.scores)


@pytest.mark.parametrize("method", METHODS)
def test_missing_values_and_logits_give_the_repair_of_complete_probabilities(method: str) -> None:
    sample = Sigmoid(perturbation="step").sample(1_200)
    logits = logit(sample.scores)
    scores = expit(logits)
    clusters, weights = np.arange(1_200) // 2, 1 + np.arange(1_200) % 3
    kept = np.random.default_rng(7).random(1_200) > 0.1
    gaps = np.where(kept, logits, np.nan)
    labels = np.where(np.arange(1_200) % 50 == 7, np.nan, sample.y)
    kept &= np.isfinite(labels)
    assert 100 < (~kept).sum() < 300
    whole = RegionRecalibrator(method).fit(
        sample.y[kept],
        scores[kept],
        sample.X[kept],
        clusters=clusters[kept],
        sample_weight=weights[kept],
    )
    partial = RegionRecalibrator(method).fit(
        labels,
        gaps,
        sample.X,
        clusters=clusters,
        sample_weight=weights,
        drop_missing=True,
        logits=True,
    )
    expected = whole.predict(scores, sample.X)
    np.testing.assert_array_equal(partial.predict(scores, sample.X), expected)
    np.testing.assert_array_equal(partial.predict(logits, sample.X, logits=True), expected)
    assert np.abs(expected - scores).max() > 0.05
    with pytest.raises(epiloss.DataError, match="scores must not be missing"):
        RegionRecalibrator(method).fit(sample.y, gaps, sample.X, logits=True)
    with pytest.raises(epiloss.DataError, match="look like logits"):
        RegionRecalibrator(method).fit(sample.y, logits, sample.X)


def test_what_cannot_be_repaired_is_told() -> None:
    sample = Sigmoid().sample(300)
    blind = epiloss.audit(sample.y, sample.scores, n_bins=3)
    with pytest.raises(epiloss.OptionError, match="needs X or subgroups"):
        blind.repair()
    seen = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=3)
    with pytest.raises(epiloss.OptionError, match="part"):
        seen.repair(part=1.0)
    with pytest.raises(epiloss.OptionError, match="method must be"):
        RegionRecalibrator("magic").fit(sample.y, sample.scores, sample.X)
    with pytest.raises(epiloss.OptionError, match="learner needs"):
        RegionRecalibrator("regions", learner=LinearRegression()).fit(sample.y, sample.scores, sample.X)
    with pytest.raises(epiloss.OptionError, match="not fitted yet"):
        RegionRecalibrator().predict(sample.scores, sample.X)
    with pytest.raises(epiloss.OptionError, match="rounds must be at least 1"):
        RegionRecalibrator(rounds=0).fit(sample.y, sample.scores, sample.X)
    fitted = RegionRecalibrator().fit(sample.y, sample.scores, sample.X)
    with pytest.raises(epiloss.DataError, match="must have equally many rows, got 300 and 5"):
        fitted.predict(sample.scores, sample.X[:5])


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
        RegionRecalibrator(method).fit(sample.y, sample.scores, sample.X).save(path)
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
        ("boosted", (*FIRST, "narrow"), [[0.0], [[1.0]]]),
        ("boosted", (*FIRST, "encoding"), {}),
        ("boosted", (*FIRST, "encoding", "edges"), [[0.0], [0.0]]),
        ("boosted", (*FIRST, "encoding", "edges", 0), [2.0, 1.0]),
        ("boosted", (*FIRST, "encoding", "edges", 0), [0.0] * 64),
        ("boosted", (*FIRST, "encoding", "tables"), {"0": [1]}),
        ("boosted", (*FIRST, "additive"), [[0.0]]),
        ("boosted", (*FIRST, "additive", 0, 0, 0), "a"),
        ("boosted", (*FIRST, "along"), [0.0]),
        ("boosted", (*FIRST, "trees"), {}),
        ("boosted", (*FIRST, "trees", "value"), [[0.0]]),
        ("boosted", (*FIRST, "trees", "value", 0, 0), None),
        ("boosted", (*FIRST, "trees", "left", 0, 0), 0),
        ("boosted", (*FIRST, "trees", "left", 0, 0), 10**6),
        ("boosted", (*FIRST, "trees", "left", 0, 0), 0.5),
        ("boosted", (*FIRST, "trees", "feature", 0, 0), 3),
        ("boosted", (*FIRST, "trees", "feature", 0, 0), -1),
        ("boosted", (*FIRST, "trees", "code", 0, 0), 63),
        ("boosted", (*FIRST, "trees", "missing_left", 0, 0), 2),
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


def test_the_score_is_a_column_of_what_a_learner_of_ones_own_sees() -> None:
    features = Features.read(np.zeros((2, 3)))
    assert with_score(features, np.array([0.5, 0.9])).shape == (2, 4)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_saved_repair_of_several_classes_predicts_the_same(n_classes: int, tmp_path: Path) -> None:
    g = np.random.default_rng(3)
    X, scores = g.normal(size=(600, 2)), g.dirichlet(np.full(n_classes, 2.0), 600)
    repair = RegionRecalibrator().fit(g.integers(n_classes, size=600), scores, X)
    repair.save(tmp_path / "repair.json")
    again = load_repair(tmp_path / "repair.json")
    np.testing.assert_array_equal(again.predict(scores, X), repair.predict(scores, X))


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
