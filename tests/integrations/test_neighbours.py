"""Inside other packages: an evaluator that MLflow runs, and a check that skore runs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.svm import LinearSVC

import epiloss
from epiloss.errors import OptionError

# of MLflow's own code with a newer pandas
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

_generator = np.random.default_rng(0)
N = 1_200
FRAME = pd.DataFrame(_generator.normal(size=(N, 3)), columns=["age", "dose", "rest"])
# what a linear model cannot see: the sign of a product
_ODDS = FRAME["age"] + 3.0 * np.sign(FRAME["age"] * FRAME["dose"])
Y = (_generator.random(N) < 1 / (1 + np.exp(-_ODDS))).astype(int).to_numpy()
EASY = (_generator.random(N) < 1 / (1 + np.exp(-FRAME["age"]))).astype(int).to_numpy()
TRAIN, TEST = slice(0, 400), slice(400, N)


# MLflow


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return MLflow with a store in an empty folder, which knows the evaluator."""
    module = pytest.importorskip("mlflow", reason="classifiers are evaluated by MLflow")
    registry = pytest.importorskip(
        "mlflow.models.evaluation.evaluator_registry", reason="MLflow without evaluators"
    )
    from epiloss.integrations.mlflow_evaluator import EpilossEvaluator

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = module.get_tracking_uri()
    module.set_tracking_uri((tmp_path / "runs").as_uri())
    registry._model_evaluation_registry.register("epiloss", EpilossEvaluator)
    yield module
    module.set_tracking_uri(before)


def evaluated(mlflow: Any, **options: Any) -> tuple[Any, Any]:
    with mlflow.start_run() as run:
        found = mlflow.models.evaluate(
            targets="y", model_type="classifier", evaluators="epiloss", **options
        )
    return found, mlflow.MlflowClient().get_run(run.info.run_id).data


def test_the_package_tells_mlflow_of_its_evaluator() -> None:
    named = {one.name: one.value for one in entry_points(group="mlflow.model_evaluator")}
    if "epiloss" not in named:
        pytest.skip("the package was installed before it had an evaluator")
    assert named["epiloss"] == "epiloss.integrations.mlflow_evaluator:EpilossEvaluator"


def test_mlflow_evaluates_a_column_of_probabilities(mlflow: Any) -> None:
    model = LogisticRegression().fit(FRAME[TRAIN], Y[TRAIN])
    held_out = FRAME[TEST]
    scores = model.predict_proba(held_out)[:, 1]
    data = held_out.assign(y=Y[TEST], p=scores)
    config = {"n_bins": 8, "prefix": "held_out"}
    found, logged = evaluated(mlflow, data=data, predictions="p", evaluator_config=config)
    expected = epiloss.audit(Y[TEST], scores, held_out, n_bins=8)
    assert found.metrics["held_out/grouping_loss"] == expected.grouping_loss.value
    assert logged.metrics["held_out/grouping_loss"] == expected.grouping_loss.value
    assert logged.metrics["held_out/metrics/auc"] == expected.metrics["auc"].value
    assert logged.params["held_out/n_bins"] == "8"
    assert logged.tags["held_out/verdict"] == str(expected.verdict)[:500]


def test_mlflow_evaluates_a_logged_model_by_its_probabilities(mlflow: Any) -> None:
    pytest.importorskip("mlflow.sklearn", reason="MLflow without scikit-learn")
    model = LogisticRegression().fit(FRAME[TRAIN], Y[TRAIN])
    with mlflow.start_run():
        uri = mlflow.sklearn.log_model(model, name="model", serialization_format="pickle").model_uri
    held_out = FRAME[TEST]
    found, _ = evaluated(mlflow, model=uri, data=held_out.assign(y=Y[TEST]))
    expected = epiloss.audit(Y[TEST], model.predict_proba(held_out), held_out, classes=[0, 1])
    assert found.metrics["epiloss/grouping_loss"] == expected.grouping_loss.value


def test_mlflow_evaluates_a_function_that_returns_probabilities(mlflow: Any) -> None:
    model = LogisticRegression().fit(FRAME[TRAIN], Y[TRAIN])
    data = FRAME[TEST].assign(y=Y[TEST])
    found, _ = evaluated(mlflow, model=lambda X: model.predict_proba(X)[:, 1], data=data)
    assert found.metrics["epiloss/n_samples"] == N - 400


def test_only_classifiers_with_labels_are_evaluated(mlflow: Any) -> None:
    from epiloss.integrations.mlflow_evaluator import EpilossEvaluator

    assert EpilossEvaluator.can_evaluate(model_type="classifier")
    assert not EpilossEvaluator.can_evaluate(model_type="regressor")

    class Unlabelled:
        features_data, labels_data = FRAME, None

    with pytest.raises(OptionError, match="needs labels"):
        EpilossEvaluator().evaluate(model_type="classifier", dataset=Unlabelled(), run_id="1")


# skore


@pytest.fixture
def skore() -> Any:
    return pytest.importorskip("skore", reason="reports of skore are checked")


def report_of(skore: Any, model: Any, y: Any) -> Any:
    parts = {"X_train": FRAME[TRAIN], "y_train": y[TRAIN], "X_test": FRAME[TEST], "y_test": y[TEST]}
    return skore.EstimatorReport(model, **parts)


def section(report: Any, code: str = "EPI001") -> str:
    """Return where skore puts the check: an issue, passed, or not applicable."""
    from epiloss.integrations.skore import ProbabilityCheck

    report.checks.add([ProbabilityCheck(random_state=1)])
    found = report.checks.summarize(ignore=[f"SKD{k:03}" for k in range(1, 30)])
    frame = found.frame("all")
    return str(frame.loc[frame["code"] == code].to_dict("records"))


def test_skore_reports_probabilities_that_are_off_at_equal_scores(skore: Any) -> None:
    model = LogisticRegression()
    told = section(report_of(skore, model, Y))
    fitted = model.fit(FRAME[TRAIN], Y[TRAIN])
    result = epiloss.audit(Y[TEST], fitted.predict_proba(FRAME[TEST]), FRAME[TEST], random_state=1)
    assert result.verdict.kind in ("repair", "recalibrate-and-repair")
    assert str(result.verdict)[:80] in told
    assert "issue" in told


def test_skore_passes_a_model_that_is_right(skore: Any) -> None:
    told = section(report_of(skore, LogisticRegression(), EASY))
    assert "passed" in told


def test_skore_audits_a_cross_validation_by_rows_left_out(skore: Any) -> None:
    report = skore.CrossValidationReport(LogisticRegression(), X=FRAME, y=Y, splitter=3)
    assert "issue" in section(report)


def test_skore_is_told_where_the_check_does_not_apply(skore: Any) -> None:
    regression = report_of(skore, LinearRegression(), _ODDS.to_numpy())
    assert "not_applicable" in section(regression)
    no_probabilities = section(report_of(skore, LinearSVC(), Y))
    assert "predict_proba" in no_probabilities
    splitter = ShuffleSplit(2, random_state=0)
    report = skore.CrossValidationReport(LogisticRegression(), X=FRAME, y=Y, splitter=splitter)
    assert "each row exactly once" in section(report)
