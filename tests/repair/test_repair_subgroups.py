"""A repair sees the subgroups of an audit, though they are not among the features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss.simulate import Sigmoid

N = 6_000
KINDS = {
    "text": np.array(["a", "b", "c"], object),
    "numbers": np.array([1, 2, 5]),
    "fractions": np.array([0.5, 1.5, 10.0]),
    "truth": np.array([True, False, False]),
    "missing text": np.array(["a", None, "c"], object),
    "missing numbers": np.array([1.0, np.nan, 5.0]),
}


def drawn(values: Any) -> tuple[pd.DataFrame, Any, Any]:
    """Return features with a column of groups, scores and labels: groups differ by 15 points."""
    generator = np.random.default_rng(0)
    group = generator.integers(0, 3, N)
    scores = generator.uniform(0.3, 0.7, N)
    q = scores + np.array([0.15, -0.15, -0.15])[group]
    frame = pd.DataFrame({"noise": generator.random(N), "group": values[group]})
    return frame, scores, (generator.random(N) < q).astype(int)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repair_corrects_subgroups_that_are_no_features(kind: str, tmp_path: Path) -> None:
    frame, scores, y = drawn(KINDS[kind])
    result = epiloss.audit(y, scores, frame[["noise"]], subgroups=frame[["group"]])
    repaired = result.repair()
    assert repaired.differences["score"].value < -0.01
    assert repaired.after.subgroups["group"].grouping_loss.value < 0.003
    repaired.repair.save(tmp_path / "repair.json")
    loaded = epiloss.load_repair(tmp_path / "repair.json")
    rows = repaired.rows
    again = loaded.predict(scores[rows], frame.iloc[rows])
    np.testing.assert_array_equal(again, repaired.scores)


def test_features_without_names_are_repaired_without_subgroups() -> None:
    sample = Sigmoid(perturbation="step").sample(2_000)
    side = np.where(sample.X[:, 0] > 0, "left", "right")
    repaired = epiloss.audit(sample.y, sample.scores, sample.X, subgroups={"side": side}).repair()
    assert len(repaired.repair.predict(sample.scores, sample.X)) == 2_000


@pytest.mark.parametrize("named", [True, False])
def test_subgroups_alone_are_repaired(named: bool, tmp_path: Path) -> None:
    sample = Sigmoid(perturbation="step").sample(3_000)
    side = np.where(sample.X[:, 0] > sample.X[:, 1], "left", "right")
    subgroups = {"side": side} if named else side
    repaired = epiloss.audit(sample.y, sample.scores, subgroups=subgroups).repair()
    change = repaired.differences["grouping_loss"]
    assert change.high is not None
    assert change.high < -0.01
    assert repaired.after.grouping_loss.value < 0.003
    repaired.repair.save(tmp_path / "repair.json")
    again = epiloss.load_repair(tmp_path / "repair.json")
    fresh = {"side" if named else "subgroup": side[repaired.rows]}
    np.testing.assert_allclose(again.predict(sample.scores[repaired.rows], fresh), repaired.scores)


def test_subgroups_of_single_rows_are_not_repaired() -> None:
    sample = Sigmoid().sample(400)
    with pytest.raises(epiloss.OptionError, match="subgroups of a few rows each"):
        epiloss.audit(sample.y, sample.scores, subgroups=np.arange(400) // 2).repair()
