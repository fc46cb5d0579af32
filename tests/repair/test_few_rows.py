"""Repairs learned from few rows: they seldom do harm, and say that the rows are few."""

from __future__ import annotations

import numpy as np
import pytest

import epiloss
from epiloss.repair.fitting import simplest_good
from epiloss.simulate import Sigmoid

NULL = Sigmoid(grouping=0.0)


@pytest.mark.parametrize("n", [200, 500])
def test_where_there_is_nothing_to_repair_few_rows_do_no_harm(n: int) -> None:
    """40 draws: more harm than matters (0.0025) in at most 5 (1% of repairs that harm 5% have more)."""
    fresh = NULL.sample(3_000, random_state=10_000)
    harm = []
    for seed in range(40):
        sample = NULL.sample(n, random_state=seed)
        repair = epiloss.RegionRecalibrator().fit(sample.y, sample.scores, sample.X)
        harm.append(np.mean((repair.predict(fresh.scores, fresh.X) - fresh.q) ** 2))
    assert sum(one > 0.0025 for one in harm) <= 5


def test_few_rows_must_be_surer() -> None:
    """The same gain, of 1.3 standard errors: not enough for 400 rows, enough for 4,000."""
    generator = np.random.default_rng(0)
    for n, model in ((400, 0), (4_000, 1)):
        first = np.full(n, 0.25)
        gain = generator.normal(size=n)
        gain = (gain - gain.mean()) / gain.std() + 1.3 / np.sqrt(n)
        assert simplest_good(np.stack([first, first - 0.1 * gain]), None) == model


def test_clusters_are_the_rows_that_count() -> None:
    generator = np.random.default_rng(0)
    clusters = np.arange(4_000) // 20
    gain = generator.normal(size=4_000)
    gain = (gain - gain.mean()) / gain.std() + 1.3 / np.sqrt(4_000)
    losses = np.stack([np.full(4_000, 0.25), 0.25 - 0.1 * gain])
    assert simplest_good(losses, None) == 1
    assert simplest_good(losses, None, clusters) == 0


def test_it_says_that_rows_are_few() -> None:
    sample = NULL.sample(300)
    result = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=5).repair()
    assert "150 rows are too few to find a correction" in str(result)
    assert result.to_dict()["note"] == result.note
    step = Sigmoid(perturbation="step").sample(1_000)
    result = epiloss.audit(step.y, step.scores, step.X, n_bins=5).repair()
    assert "fitted to only 500 rows" in result.note


def test_of_many_rows_it_says_nothing() -> None:
    sample = Sigmoid(perturbation="step").sample(3_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X).repair()
    assert result.note == ""
    assert "note:" not in str(result)
