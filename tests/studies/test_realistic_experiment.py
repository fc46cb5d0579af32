"""The experiment on realistic scores: what it calls true is true, and its table tells what fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import realistic
from epiloss.estimate import Estimate
from realistic_page import BEGIN, END, in_words, with_results
from realistic_settings import SETTINGS


@pytest.mark.parametrize("name", SETTINGS)
def test_labels_have_the_rates_that_are_told(name: str) -> None:
    """Of 60,000 rows, in ten parts by score: within 5 standard errors, by rows and by clusters."""
    rows = SETTINGS[name].draw(60_000, np.random.default_rng(1))
    weight = np.ones(len(rows.y)) if rows.weights is None else rows.weights
    unit = np.arange(len(rows.y)) if rows.clusters is None else rows.clusters
    for part in np.array_split(np.argsort(rows.scores, kind="stable"), 10):
        error = np.bincount(unit[part], (weight * (rows.y - rows.c))[part])
        variance = (weight**2 * rows.c * (1 - rows.c))[part].sum()
        assert abs(error.sum()) <= 5 * np.sqrt((error**2).sum() + variance)


def test_weights_have_the_coefficient_of_variation_of_their_name() -> None:
    weights = SETTINGS["survey weights, CV 2"].draw(400_000, np.random.default_rng(0)).weights
    assert weights is not None
    assert weights.std() / weights.mean() == pytest.approx(2.0, rel=0.1)


def test_labels_of_a_cluster_depend_on_each_other_as_told() -> None:
    rows = SETTINGS["clusters, score, ICC 0.3"].draw(100_000, np.random.default_rng(0))
    residual = (rows.y - rows.c).reshape(-1, 10)
    products = (residual.sum(axis=1) ** 2 - (residual**2).sum(axis=1)).sum() / 90
    assert products / (residual**2).mean() / len(residual) == pytest.approx(0.3, abs=0.02)


def line(**columns: float) -> realistic.Line:
    """Return a line that meets all targets but for the given columns."""
    shares = dict.fromkeys(("coverage", "score_coverage", "headline_coverage", "limit"), 0.95)
    losses = dict.fromkeys(
        ("truth", "bias", "bias_stderr", "sd", "grouping_truth", "grouping_mean"), 0.0
    )
    wrong = dict.fromkeys(("above", "rejected", "repair", "fine"), 0.02)
    return realistic.Line("a", 500, 100, **{**losses, **shares, **wrong, "stderr_ratio": 1.0, **columns})


def test_what_is_not_met_is_named() -> None:
    good, bad = line(), line(coverage=0.8, rejected=0.3, repair=0.2)
    assert not good.misses
    assert bad.misses == "coverage, level, repair"
    assert line(headline_coverage=0.8, limit=0.8, fine=0.2).misses == "headline, limit, fine"
    assert "1 of 2 cells miss" in realistic.as_table([good, bad])


def test_finding_a_loss_that_is_there_is_no_error() -> None:
    assert not line(rejected=1.0, grouping_truth=0.01).misses
    assert line(headline_coverage=0.8, grouping_truth=0.01).misses == "headline"


def test_verdicts_are_wrong_if_they_contradict_the_truth() -> None:
    """A loss matters from 0.002 on, and asks for an action from half of that on."""
    loss, task = Estimate(0.0), realistic.Task("smooth", 500, 0, 0, "twin")

    def found(grouping: float, verdict: str) -> realistic.Found:
        truth = realistic.Truth(0.0005, 0.2, grouping, 0.002)
        return realistic.Found(task, truth, loss, loss, loss, None, verdict)

    assert found(0.0, "repair").false_repair
    assert found(0.0, "recalibrate-and-repair").false_repair
    assert not found(0.0, "recalibrate").false_repair
    assert not found(0.0015, "repair").false_repair
    assert found(0.0016, "small").wrong_fine
    assert not found(0.0014, "fine").wrong_fine


def test_groups_have_the_grouping_loss_that_is_told() -> None:
    """Half of min(c, 1 - c), up or down: for uniform c, a grouping loss of 1/4 E[min(c, 1 - c)^2]."""
    rows = SETTINGS["clusters, features, groups"].draw(400_000, np.random.default_rng(1))
    expected = np.mean(np.minimum(rows.c, 1 - rows.c) ** 2) / 4
    truth = realistic.truth_of("clusters, features, groups").grouping_loss
    assert truth == pytest.approx(expected, rel=0.02)
    assert realistic.truth_of("smooth").grouping_loss == 0


def test_the_page_tells_which_cells_miss() -> None:
    good, bad = line(), line(coverage=0.8, rejected=0.3)
    page = with_results(f"before {BEGIN} old {END} after", [good, bad])
    assert page.startswith(f"before {BEGIN}")
    assert page.endswith(f"{END} after")
    assert "old" not in page
    assert "**1 of 2 cells meet all targets**" in page
    assert "| a | 500 | coverage, level | 0.800 |" in page
    assert "covered too rarely in 1 cells" in page
    assert "The others" not in in_words([good])
    with pytest.raises(ValueError, match="must have"):
        with_results("no markers", [good])


def test_a_run_is_resumed_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "realistic.csv"
    options = ["--repetitions", "2", "--sizes", "500", "--output", str(output), "--settings", "smooth"]
    realistic.main(options)
    first = capsys.readouterr().out
    output.write_text(output.read_text().replace("smooth,500,2,", "smooth,500,7,"))
    realistic.main([*options, "2 leaves", "--resume"])
    second = capsys.readouterr().out
    assert next(row for row in second.splitlines() if row.startswith("smooth")).split()[1:3] == [
        "500",
        "7",
    ]
    assert "2 leaves" in second
    assert "2 leaves" not in first


def test_the_script_prints_its_table_and_saves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "made" / "realistic.csv"
    names = ["smooth", "after isotonic"]
    options = ["--repetitions", "2", "--sizes", "500", "--output", str(output), "--settings", *names]
    realistic.main(options)
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)
    assert len(output.read_text().splitlines()) == 3
