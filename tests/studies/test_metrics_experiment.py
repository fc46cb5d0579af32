"""The experiment on metrics: its truth is the truth, and its table tells what was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import metrics


@pytest.mark.parametrize("name", metrics.SETTINGS)
def test_labels_have_the_probability_that_they_are_drawn_from(name: str) -> None:
    """40,000 rows: rates within 0.02 in both halves of the scores, four standard errors of clusters."""
    setting, generator = metrics.SETTINGS[name], np.random.default_rng(0)
    scores = setting.scores(40_000, generator)
    probability = setting.curve(scores)
    labels, clusters = setting.labels(scores, probability, generator)
    assert (clusters is None) != setting.clustered
    for half in np.array_split(np.argsort(scores), 2):
        assert labels[half].mean() == pytest.approx(probability[half].mean(), abs=0.02)


def test_a_calibrated_population_has_no_calibration_error() -> None:
    truth = metrics.truth_of("calibrated")
    for name in ("ece_equal_width", "ece_equal_mass", "ici", "e90"):
        assert truth[name] == pytest.approx(0.0, abs=1e-4)
    assert truth["calibration_slope"] == pytest.approx(1.0, abs=1e-6)


def test_the_script_prints_its_table_and_saves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {name: metrics.SETTINGS[name] for name in ("calibrated", "overconfident, clusters")}
    monkeypatch.setattr(metrics, "SETTINGS", few)
    path = tmp_path / "new" / "metrics.csv"
    metrics.main(["--quick", "--repetitions", "1", "--jobs", "1", "--output", str(path)])
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1 + 2 * 16
    printed = capsys.readouterr()
    assert all(name in printed.out for name in few)
    assert "noise floor" in printed.out
    assert not printed.err  # no progress bar where nobody looks
