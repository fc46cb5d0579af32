"""The experiments on drift, detectable losses and other claims: their truths, and what they print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import detectable
import drift
import known_truth
from drift_settings import SHIFTS


@pytest.mark.parametrize("name", SHIFTS)
def test_labels_have_the_rates_of_their_rule(name: str) -> None:
    """Of 20,000 rows: the mean residual within 5 standard errors, in both data sets."""
    shift = SHIFTS[name]
    pairs = zip(
        shift.draw((20_000, 20_000), np.random.default_rng(0)), (shift.before, shift.after), strict=True
    )
    for (y, scores, X), (_, rule) in pairs:
        q = rule.q(scores, X)
        assert abs((y - q).mean()) <= 5 * np.sqrt((q * (1 - q)).mean() / len(q))


def test_a_shift_of_the_scores_alone_leaves_their_grouping_loss() -> None:
    scores, X = SHIFTS["scores much up"].after[0].draw(50_000, np.random.default_rng(0))
    q = SHIFTS["scores much up"].after[1].q(scores, X)
    assert np.mean((q - scores) ** 2) == pytest.approx(0.0225, rel=0.01)


def test_drift_prints_a_line_for_each_shift_and_names_what_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--repetitions", "1", "--rows", "300", "--output", str(tmp_path / "drift.csv")]
    drift.main([*arguments, "--shifts", "nothing", "scores much up"])
    printed = capsys.readouterr().out
    assert "scores much up" in printed
    assert len((tmp_path / "drift.csv").read_text().splitlines()) == 3
    line = drift.Line("scores up", 300, 100, 1.0, 0.3, *[0.05] * 6)
    assert line.misses == "losses"
    assert replace(line, losses=0.05).misses == ""
    assert replace(line, shift="nothing", losses=0.05).misses == "population"


def test_the_planted_loss_is_the_one_that_is_called_detectable() -> None:
    setting = detectable.SETTINGS["one of 5 columns, 1,000 rows"]
    X, c, _ = setting.draw(np.random.default_rng(0))
    q = detectable._with_loss(c, setting.effect(X, c), 0.004, "brier", None)
    assert np.mean((q - c) ** 2) == pytest.approx(0.004, rel=1e-3)


def test_detectable_losses_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--repetitions", "1", "--output", str(tmp_path / "detectable.csv")]
    detectable.main([*arguments, "--settings", "one of 5 columns, 1,000 rows"])
    assert "one of 5 columns" in capsys.readouterr().out
    assert detectable.Line("x", 100, 0.01, 0.5).misses == "power"
    assert detectable.Line("x", 100, 0.01, 0.8).misses == ""


@pytest.mark.parametrize(
    "study",
    [
        "3 classes, top-label, brier, loss",
        "category of 1,000 levels, nothing",
        "compare equal models, partition",
        "regret of calibrated scores",
        "repair, categories not seen",
    ],
)
def test_known_truths_are_printed(
    study: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "known.csv"
    known_truth.main(["--repetitions", "1", "--output", str(output), "--studies", study])
    assert study in capsys.readouterr().out
    assert len(output.read_text().splitlines()) == 2
