"""The gate fails a pipeline only where a loss is above its limit beyond doubt."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pyarrow import parquet, table

import epiloss
from epiloss.analysis.gate import Check, checks, read_limits
from epiloss.cli.main import cli
from epiloss.errors import OptionError
from epiloss.estimate import Estimate
from epiloss.simulate import Sigmoid


@pytest.fixture(scope="module")
def predictions(tmp_path_factory: pytest.TempPathFactory) -> str:
    sample = Sigmoid(perturbation="step").sample(4_000, random_state=1)
    path = tmp_path_factory.mktemp("gate") / "predictions.parquet"
    X = np.asarray(sample.X)
    parquet.write_table(table({"a": X[:, 0], "b": X[:, 1], "p": sample.scores, "y": sample.y}), path)
    return str(path)


def run(predictions: str, *options: str) -> Any:
    command = ["audit", predictions, "--label", "y", "--score", "p", "--method", "partition"]
    return CliRunner().invoke(cli, [*command, *options])


def test_a_check_fails_where_the_low_end_is_above_the_limit_and_only_there() -> None:
    estimate = Estimate(0.03, low=0.02, high=0.04)
    assert [Check("grouping", limit, estimate).failed for limit in (0.0199, 0.02, 0.03)] == [1, 0, 0]
    assert Check("score", 0.029, Estimate(0.03)).failed


def test_a_failed_gate_exits_with_3_and_still_prints_the_ledger(predictions: str) -> None:
    done = run(predictions, "--fail-above", "0.005")
    assert done.exit_code == 3
    assert "grouping loss, at least" in done.stdout
    assert "Gate failed: the grouping loss is significantly above 0.005: 0." in done.stderr


def test_a_passed_gate_exits_with_0(predictions: str) -> None:
    done = run(predictions, "--fail-above", "0.2", "--fail-above", "calibration=0.1")
    assert done.exit_code == 0
    assert done.stderr.count("Gate passed") == 2


def test_one_of_several_limits_is_enough_to_fail(predictions: str) -> None:
    done = run(predictions, "--fail-above", "grouping=0.2", "--fail-above", "score=0.01", "--json")
    assert done.exit_code == 3
    gate = json.loads(done.stdout)["gate"]
    assert [(one["loss"], one["failed"]) for one in gate] == [("grouping", False), ("score", True)]


@pytest.mark.parametrize("limit", ["a", "-1", "nan", "inf", "brier=0.1", "grouping=", ""])
def test_a_limit_that_means_nothing_is_refused_before_any_work(limit: str, predictions: str) -> None:
    with pytest.raises(OptionError, match="a limit must be a number of at least 0"):
        read_limits([limit])


def test_a_loss_has_one_limit() -> None:
    with pytest.raises(OptionError, match="one limit"):
        read_limits(["0.1", "grouping=0.2"])


def test_the_gate_holds_in_python_too(predictions: str) -> None:
    result = epiloss.audit_table(predictions, label="y", score="p", method="partition")
    assert [one.failed for one in checks(result, {"grouping": 0.005, "calibration": 0.1})] == [1, 0]
    with pytest.raises(OptionError, match="limits must be for grouping, calibration, score"):
        checks(result, {"brier": 0.1})
