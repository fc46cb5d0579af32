"""The experiment on deferral: what is paid is counted right, and its tables tell what was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deferral


def test_decisions_cost_what_they_cost() -> None:
    y, scores = np.array([0, 1, 0, 1]), np.array([0.1, 0.1, 0.9, 0.9])
    assert deferral.paid(scores, y, 1.0).tolist() == [0, 1, 1, 0]
    assert deferral.paid(scores, y, 5.0).tolist() == [0, 5, 1, 0]
    assert deferral.paid(np.full(4, 1 / 6), y, 5.0).tolist() == [1, 0, 1, 0]  # just enough to act


@pytest.mark.parametrize("problem", deferral.PROBLEMS)
def test_labels_have_the_probability_that_is_called_the_truth(problem: str) -> None:
    """20,000 rows: rates within 0.02, where the truth is above and where it is below the scores."""
    _, y, scores, truth = deferral.PROBLEMS[problem](20_000, np.random.default_rng(0))
    for side in (truth > scores + 0.01, truth < scores - 0.01):
        assert side.sum() > 1_000
        assert y[side].mean() == pytest.approx(truth[side].mean(), abs=0.02)


def test_the_script_prints_both_tables_and_saves_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "deferral.csv"
    deferral.main(["--quick", "--repetitions", "1", "--output", str(path)])
    printed = capsys.readouterr().out
    assert "| one segment is wrong | 2,000 |" in printed
    assert printed.count("| Census-Income | 10,000 |") == 4
    assert len(path.read_text(encoding="utf-8").splitlines()) == 5
