"""Metrics as a result: computed when asked for, printed, saved, and left out with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import epiloss
import epiloss.metrics.measure as measuring
from epiloss.cli import cli
from epiloss.errors import OptionError
from epiloss.metrics.result import Metrics
from epiloss.simulate import MultiClass, Sigmoid


def audited(n: int = 1_000, **options: Any) -> epiloss.Audit:
    sample = Sigmoid(perturbation="step").sample(n)
    return epiloss.audit(sample.y, sample.scores, **options)


def test_nothing_is_measured_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    measure = measuring.measure

    def counted(*given: Any, **options: Any) -> Metrics:
        calls.append(given)
        return measure(*given, **options)

    monkeypatch.setattr(measuring, "measure", counted)
    result = audited()
    str(result)
    assert not calls
    assert result.metrics is result.metrics
    result.to_dict()
    assert len(calls) == 1


def test_what_is_printed_is_what_is_saved() -> None:
    metrics = audited(confidence_level=0.9, n_bins=10).metrics
    saved = json.loads(metrics.to_json())
    assert saved["confidence_level"] == 0.9
    assert saved["left_out"] == {}
    text, page = str(metrics), metrics._repr_html_()
    for one in saved["metrics"].values():
        assert one["title"] in text
        assert f"{one['value']:z.4f}" in text
        assert f"{one['value']:z.4f}" in page
        assert one["interval"], "every interval says how it was made"
        assert one["low"] <= one["high"]
    assert "10 bins of equal width" in text
    assert str(metrics["smooth_ece"]).startswith("Smooth ECE, of the probability of 1: ")
    assert "[90% interval]" in text
    assert len(metrics.table) == len(metrics) == 16


def test_the_json_of_an_audit_has_its_metrics_with_floors_and_reasons() -> None:
    sample = Sigmoid(perturbation="step").sample(800)
    sex = np.where(sample.X[:, 0] > 0, "F", "M")
    result = epiloss.audit(sample.y, sample.scores, sample.X, subgroups={"sex": sex}, n_bins=10)
    saved = json.loads(result.to_json())
    assert saved["metrics"] == result.metrics.to_dict()
    ece = saved["metrics"]["metrics"]["ece_equal_width"]
    assert ece["title"] == "ECE, 10 bins of equal width"
    assert ece["subject"] == "probability of 1"
    assert 0 < ece["floor"] < ece["floor_high"]
    assert "metrics" not in saved["subgroups"]["sex"]  # which has the same rows

    several = MultiClass().sample(400)
    options: dict[str, Any] = {"task": "classwise", "method": "partition"}
    left_out = epiloss.audit(several.y, several.scores, **options).to_dict()["metrics"]["left_out"]
    assert "task='top-label'" in left_out["ici"]


def test_the_command_line_prints_metrics_when_asked(tmp_path: Path) -> None:
    sample = MultiClass().sample(400)
    path = tmp_path / "rows.csv"
    table = np.column_stack([sample.y, sample.scores])
    names = [f"p{k}" for k in range(sample.scores.shape[1])]
    np.savetxt(path, table, delimiter=",", header=",".join(["y", *names]), comments="")
    command = ["audit", str(path), "--label", "y", "--score", "p*", "--method", "partition"]
    command += ["--task", "classwise"]
    plain = CliRunner().invoke(cli, command).stdout
    told = CliRunner().invoke(cli, [*command, "--metrics"]).stdout
    assert "ECE" not in plain
    assert told.startswith(plain.strip())
    assert "ECE, 15 bins of equal width, mean over classes" in told
    assert "use --task 'top-label'" in told  # why some are left out
    as_json = json.loads(CliRunner().invoke(cli, [*command, "--json"]).stdout)
    assert as_json["metrics"]["metrics"]["auc"]["title"] == "AUC, mean over classes"


def test_every_calibration_error_has_a_noise_floor() -> None:
    metrics = audited().metrics
    floored = {name for name, one in metrics.items() if one.floor is not None}
    assert floored == {
        "ece_equal_width", "ece_equal_mass", "ece_debiased", "maximum_calibration_error",
        "smooth_ece", "ici", "e50", "e90",
    }  # fmt: skip
    for name in floored:
        floor = metrics[name].floor
        assert floor is not None
        assert 0 < floor.value < floor.high


@pytest.mark.parametrize("task", ["top-label", "classwise", "joint"])
def test_metrics_of_classes_say_what_was_left_out(task: str) -> None:
    sample = MultiClass().sample(800)
    metrics = epiloss.audit(sample.y, sample.scores, task=task, method="partition").metrics
    if task == "top-label":
        assert not metrics.left_out
        assert "confidence in the top label" in str(metrics)
        return
    reason = metrics.to_dict()["left_out"]["calibration_slope"]
    assert "task='top-label'" in reason
    assert reason in str(metrics)
    with pytest.raises(OptionError, match="left out"):
        metrics.value("calibration_slope")


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown metric 'gini'.*auc"):
        audited().metrics.value("gini")


def test_scores_that_separate_the_outcomes_have_no_slope() -> None:
    y = np.repeat([0, 1], 50)
    metrics = epiloss.audit(y, np.where(y == 1, 0.9, 0.1)).metrics
    assert metrics["auc"].value == 1.0
    assert metrics["auc"].estimate.low is None
    assert "separate" in metrics.left_out["calibration_slope"]
    assert metrics["accuracy"].estimate.low == pytest.approx(0.963, abs=1e-3)


def test_too_few_positive_labels_for_a_curve_are_the_reason() -> None:
    scores = np.random.default_rng(0).beta(1, 20, 300)
    y = np.zeros(300)
    y[np.argsort(scores)[[150, 290]]] = 1
    metrics = epiloss.audit(y, scores).metrics
    assert "calibration_slope" in metrics  # so that scores do not separate the outcomes
    assert "one outcome is too rare" in metrics.left_out["ici"]


def test_scores_that_are_all_the_same_have_no_slope() -> None:
    y = np.arange(100) % 2
    metrics = epiloss.audit(y, np.full(100, 0.5)).metrics
    assert metrics.left_out["calibration_slope"] == "all scores are the same"
    assert metrics["auc"].value == 0.5
    assert metrics["ece_equal_mass"].value == 0.0


def test_an_infinite_log_loss_is_told_without_an_interval() -> None:
    y = np.arange(100) % 2
    metrics = epiloss.audit(y, np.where(y == 1, 0.0, 0.5)).metrics
    assert metrics["log_loss"].value == float("inf")
    saved = metrics.to_dict()
    assert saved["metrics"]["log_loss"]["value"] is None
    assert saved["notes"] == ["The log-loss is infinite: 50 rows have outcomes of probability 0."]
    classes = np.tile([0.0, 0.5, 0.5], (90, 1))
    found = epiloss.audit(np.arange(90) % 3, classes, method="partition").metrics
    assert found.notes == ("The log-loss is infinite: 30 rows have outcomes of probability 0.",)


def test_recalibrated_scores_are_not_those_that_were_given() -> None:
    result = audited(recalibrate="isotonic")
    assert len(result.metrics)
    assert result.recalibrated is not None
    again: Metrics = result.recalibrated.metrics
    assert not len(again)
    assert "fold" in str(again)


def test_a_class_is_named_by_its_label() -> None:
    sample = Sigmoid().sample(500)
    labels = np.where(sample.y == 1, "sick", "well")
    metrics = epiloss.audit(labels, sample.scores, pos_label="sick").metrics
    assert metrics.subject == "probability of sick"
    plain = epiloss.audit(sample.y, sample.scores).metrics
    assert metrics["auc"].value == plain["auc"].value
