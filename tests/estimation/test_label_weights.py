"""Weights that depend on the label: rates have the noise that the effective number of rows tells."""

from __future__ import annotations

import numpy as np
import pytest

from epiloss._typing import Floats
from epiloss.estimation.label_weights import squares_factor
from epiloss.estimation.region_stats import RegionStats
from epiloss.scoring import Brier

N, REPETITIONS = 300, 400


def rows(generator: np.random.Generator, rate: float, ratio: float) -> tuple[Floats, Floats]:
    """Draw labels and weights; positives weigh ``ratio`` times as much, and ``rate`` is weighted."""
    sampled = rate / (rate + ratio * (1 - rate))
    y = (generator.random(N) < sampled).astype(float)
    weights = np.where(y > 0, ratio, 1.0) * generator.uniform(0.3, 1.0, N)
    return y, weights / max(ratio, 1.0)


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 8.0])
def test_the_effective_number_of_rows_tells_the_noise_of_a_weighted_rate(
    rate: float, ratio: float
) -> None:
    """Of 400 samples: the variance of the rate has a relative error of 7%; within 25%."""
    generator = np.random.default_rng(3)
    curve, one = np.full(N, rate), np.zeros(N, np.int64)
    rates, noise = [], []
    for _ in range(REPETITIONS):
        y, weights = rows(generator, rate, ratio)
        given = {"labels": y, "scores": curve, "weights": weights, "curves": (curve, curve)}
        stats = RegionStats.from_rows(one, one, rule=Brier(), **given).by_level_set()
        rates.append(stats.mean("label")[0])
        noise.append(rate * (1 - rate) / stats.effective_n[0])
    assert np.mean(noise) == pytest.approx(np.var(rates), rel=0.25)


def test_weights_that_depend_on_the_score_alone_keep_their_squares() -> None:
    """The test of dependence rejects in less than 1 of 10,000 samples."""
    generator = np.random.default_rng(0)
    score = generator.random(N)
    found = [
        squares_factor((generator.random(N) < score).astype(float), score**2, score, score)
        for _ in range(200)
    ]
    assert found == [None] * 200


def test_labels_of_one_kind_keep_their_squares() -> None:
    curve, weights = np.full(N, 0.5), np.linspace(0.1, 1, N)
    assert squares_factor(np.ones(N), weights, curve, curve) is None
