"""Beside other packages: their own checks pass, and their numbers are ours."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks

from epiloss import (
    DataError,
    OptionError,
    RegionRecalibratedClassifier,
    RegionRecalibrator,
    audit,
    audit_table,
    compare,
    loss_scorer,
)

_generator = np.random.default_rng(0)
N = 600
X = _generator.normal(size=(N, 2))
S = _generator.random(N)
Y = (_generator.random(N) < np.clip(S + 0.25 * np.sign(X[:, 0]), 0, 1)).astype(int)
FRAME = pd.DataFrame(X, columns=["age", "dose"]).assign(city=_generator.choice(["Oslo", "Rom"], N))
SEX, OLD = _generator.choice(["F", "M"], N), X[:, 1] > 0


# scikit-learn: what is an estimator


@estimator_checks.parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn is
    [
        RegionRecalibratedClassifier(
            LogisticRegression(), recalibrator=RegionRecalibrator("regions", repeats=1), cv=2
        )
    ]
)
def test_a_repaired_classifier_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_get_params_invariance",
        "check_set_params",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
    ],
)
def test_a_repair_keeps_its_options_as_scikit_learn_does(check: str) -> None:
    # its fit takes scores too, so that checks which fit do not apply
    getattr(estimator_checks, check)("RegionRecalibrator", RegionRecalibrator())


# scikit-learn: scorers


def test_a_scorer_gives_the_losses_of_an_audit_below_zero() -> None:
    model = LogisticRegression().fit(X[:300], Y[:300])
    held_out, labels = X[300:], Y[300:]
    scores = model.predict_proba(held_out)
    expected = audit(labels, scores, held_out, n_bins=5)
    found = loss_scorer(n_bins=5)(model, held_out, labels)
    assert found == {
        "neg_score": -expected.score.value,
        "neg_calibration_loss": -expected.calibration_loss.value,
        "neg_grouping_loss": -expected.grouping_loss.value,
    }
    assert -found["neg_score"] == pytest.approx(brier_score_loss(labels, scores[:, 1]), abs=1e-9)


def test_scorers_of_frames_and_pipelines_cross_validate_in_processes() -> None:
    columns = make_column_transformer(
        (OneHotEncoder(), ["city"]), (StandardScaler(), ["age", "dose"]), verbose_feature_names_out=False
    )
    model = make_pipeline(columns, LogisticRegression())
    labels = np.where(Y == 1, "sick", "healthy")
    scoring = {name: loss_scorer(name, n_bins=4) for name in ("neg_score", "neg_grouping_loss")}
    found = cross_validate(model, FRAME, labels, scoring=scoring, cv=3, n_jobs=2, error_score="raise")
    together = cross_validate(model, FRAME, labels, scoring=loss_scorer(n_bins=4), cv=3)
    for name in scoring:
        assert found[f"test_{name}"].shape == (3,)
        np.testing.assert_array_equal(found[f"test_{name}"], together[f"test_{name}"])


def test_a_search_chooses_the_model_with_the_least_loss() -> None:
    # one that gives everyone the same probability sees nothing of what differs between them
    pipeline = Pipeline([("model", DummyClassifier())])
    grid = {"model": [DummyClassifier(), LogisticRegression()]}
    search = GridSearchCV(pipeline, grid, scoring=loss_scorer("neg_grouping_loss"), cv=2).fit(X, Y)
    assert isinstance(search.best_params_["model"], LogisticRegression)
    several = GridSearchCV(pipeline, grid, scoring=loss_scorer(), refit="neg_score", cv=2).fit(X, Y)
    assert isinstance(several.best_params_["model"], LogisticRegression)


def test_a_scorer_is_pickled_and_cloned() -> None:
    scorer = loss_scorer("neg_grouping_loss", n_bins=4)
    model = LogisticRegression().fit(X, Y)
    search = clone(GridSearchCV(LogisticRegression(), {}, scoring=scorer))
    for copy in (pickle.loads(pickle.dumps(scorer)), search.scoring):
        assert repr(copy) == "loss_scorer('neg_grouping_loss', n_bins=4)"
        assert copy(model, X, Y) == scorer(model, X, Y)


def test_a_scorer_takes_weights() -> None:
    model = LogisticRegression().fit(X, Y)
    weights = np.where(Y == 1, 3.0, 1.0)
    found = loss_scorer("neg_score")(model, X, Y, sample_weight=weights)
    assert found == -audit(Y, model.predict_proba(X), X, sample_weight=weights).score.value


@pytest.mark.parametrize("losses", ["neg_brier", ["neg_score", "auc"], []])
def test_a_loss_that_is_none_is_refused(losses: Any) -> None:
    with pytest.raises(OptionError, match="losses must be among"):
        loss_scorer(losses)


def test_a_scorer_needs_probabilities() -> None:
    with pytest.raises(OptionError, match=r"predict_proba.*LinearSVC"):
        loss_scorer()(LinearSVC().fit(X, Y), X, Y)


# fairlearn


def test_rates_of_groups_are_those_of_fairlearn() -> None:
    metrics = pytest.importorskip("fairlearn.metrics", reason="rates are compared with fairlearn's")
    sensitive = pd.DataFrame({"sex": SEX, "old": OLD})
    frame = metrics.MetricFrame(
        metrics={"rate": lambda y, _: np.mean(y), "n": metrics.count},
        y_true=Y,
        y_pred=(S > 0.5).astype(int),
        sensitive_features=sensitive,
    )
    regions = audit(Y, S, subgroups=sensitive, n_bins=1).regions
    ours = dict(
        zip(regions["subgroup"], zip(regions["label_mean"], regions["n"], strict=True), strict=True)
    )
    assert len(ours) == 4
    for (sex, old), row in frame.by_group.iterrows():
        rate, n = ours[f"sex={sex}, old={old}"]
        assert (rate, n) == (pytest.approx(row["rate"], abs=1e-9), row["n"])


def test_subgroups_are_read_from_any_column() -> None:
    expected = audit(Y, S, subgroups=SEX).to_json()
    for given in (SEX, list(SEX), pd.Series(SEX), pl.Series(SEX)):
        assert audit(Y, S, subgroups=given).to_json() == expected
    two = compare(Y, {"one": S, "other": S**2}, subgroups=SEX)
    assert two.audits["one"].to_json() == expected


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_combinations_of_several_columns_are_regions_and_each_column_has_an_audit(made: Any) -> None:
    """As fairlearn takes several sensitive features; without X their combinations are the regions."""
    combined = np.array([f"sex={one}, old={other}" for one, other in zip(SEX, OLD, strict=True)])
    found = audit(Y, S, subgroups=made({"sex": SEX, "old": OLD}))
    expected = audit(Y, S, subgroups=combined)
    one, other = (replace(result, subgroups={}).to_dict() for result in (found, expected))
    assert list(one.pop("subgroup_gaps")) == ["sex", "old"]
    assert len(other.pop("subgroup_gaps")) == 1
    assert one == other
    assert list(found.subgroups) == ["sex", "old"]
    for name, column in (("sex", SEX), ("old", OLD)):
        (alone,) = audit(Y, S, subgroups=column).subgroups.values()
        assert found.subgroups[name].to_json() == alone.to_json()


def test_subgroups_without_columns_or_of_several_lengths_are_refused() -> None:
    with pytest.raises(DataError, match="at least one column"):
        audit(Y, S, subgroups={})
    with pytest.raises(DataError, match="columns of subgroups must have equal lengths"):
        audit(Y, S, subgroups={"sex": SEX, "old": OLD[:5]})
    with pytest.raises(DataError, match="at least one column"):
        audit(Y, S, subgroups=pd.DataFrame(index=range(N)))


# mlflow


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of a tracking store in an empty folder."""
    mlflow = pytest.importorskip("mlflow", reason="audits are logged to MLflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "runs").as_uri()
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(before)


def test_an_audit_is_logged_with_its_numbers_options_and_pages(client: Any, tmp_path: Path) -> None:
    result = audit(Y, S, X, recalibrate="isotonic", n_bins=5)
    run = client.create_run(client.create_experiment("audits"))
    assert result.log_to_mlflow(run_id=run.info.run_id, client=client) == run.info.run_id
    data = client.get_run(run.info.run_id).data
    for name in ("score", "calibration_loss", "grouping_loss", "remainder", "twin_estimate"):
        for part, value in getattr(result, name).to_dict().items():
            key = f"epiloss/{name}" if part == "value" else f"epiloss/{name}_{part}"
            assert data.metrics.get(key) == value
    assert result.recalibrated is not None
    again = data.metrics["epiloss/recalibrated/calibration_loss"]
    assert again == result.recalibrated.calibration_loss.value
    ece = result.metrics["ece_equal_mass"]
    assert data.metrics["epiloss/metrics/ece_equal_mass"] == ece.value
    assert ece.floor is not None
    assert data.metrics["epiloss/metrics/ece_equal_mass_floor"] == ece.floor.value
    assert data.metrics["epiloss/metrics/auc_low"] == result.metrics["auc"].estimate.low
    assert data.params["epiloss/n_bins"] == "5"
    assert data.tags["epiloss/verdict"] == str(result.verdict)[:500]
    folder = Path(client.download_artifacts(run.info.run_id, "epiloss", str(tmp_path)))
    assert (folder / "report.html").read_text(encoding="utf-8") == result.to_html()
    assert json.loads((folder / "audit.json").read_text()) == result.to_dict()


def test_an_audit_is_logged_into_the_active_run_by_steps(client: Any) -> None:
    import mlflow

    with mlflow.start_run() as run:
        for step in range(2):
            audit(Y, S, n_bins=3 + step).log_to_mlflow(f"bins{step}", step=step)
            audit(Y, S**2).log_to_mlflow("model", step=step)
    history = client.get_metric_history(run.info.run_id, "model/score")
    assert [one.step for one in history] == [0, 1]
    assert client.get_run(run.info.run_id).data.params["bins1/n_bins"] == "4"


def test_without_a_run_it_is_said_how_to_have_one(client: Any) -> None:
    with pytest.raises(OptionError, match="start_run"):
        audit(Y, S).log_to_mlflow()


# Hugging Face datasets


def test_a_data_set_with_embeddings_and_named_classes_is_audited() -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face data sets")
    names = ["healthy", "sick"]
    features = datasets.Features(
        {
            "label": datasets.ClassLabel(names=names),
            "score": datasets.Value("float64"),
            "embedding": datasets.Sequence(datasets.Value("float32"), length=2),
            "patch": datasets.Array2D((2, 2), "float32"),
        }
    )
    patch = _generator.normal(size=(N, 2, 2)).astype(np.float32)
    embedding = X.astype(np.float32)
    rows = {"label": Y, "score": S, "embedding": embedding, "patch": patch}
    data = datasets.Dataset.from_dict(rows, features=features)
    table = pa.table(
        {
            "label": Y,
            "score": S,
            "embedding": pa.FixedSizeListArray.from_arrays(embedding.ravel(), 2),
            "patch": pa.FixedSizeListArray.from_arrays(patch.ravel(), 4),
        }
    )
    expected = audit_table(table, label="label", score="score").to_json()
    for given in (data, data.to_iterable_dataset()):
        assert audit_table(given, label="label", score="score").to_json() == expected


def test_a_data_set_without_types_and_missing_patches_are_told() -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face data sets")
    untyped = datasets.IterableDataset.from_generator(lambda: iter([{"label": 1, "score": 0.5}]))
    with pytest.raises(DataError, match="must have column types"):
        audit_table(untyped, label="label", score="score")
    types = {"label": datasets.Value("int64"), "score": datasets.Value("float64")}
    features = datasets.Features({**types, "patch": datasets.Array2D((1, 2), "float32")})
    patch = [None, *([[[0.0, 1.0]]] * (N - 1))]
    data = datasets.Dataset.from_dict({"label": Y, "score": S, "patch": patch}, features=features)
    with pytest.raises(DataError, match="'patch' must have no missing rows, got 1"):
        audit_table(data, label="label", score="score")
