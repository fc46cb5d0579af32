"""The experiment on realistic scores: what it calls true is true, and its table tells what fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import realistic
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


def test_what_is_not_met_is_named() -> None:
    good = realistic.Line("a", 500, 100, 0.1, 0.0, 0.0, 0.1, 1.0, 0.95, 0.0, 0.05, 0.0, 0.95)
    assert not good.misses
    bad = replace(good, coverage=0.8, level=0.3, repair=0.2)
    assert bad.misses == "coverage, level, repair"
    assert "1 of 2 cells miss" in realistic.as_table([good, bad])


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
