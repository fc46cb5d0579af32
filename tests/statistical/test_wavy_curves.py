"""Calibration curves with many waves or a bump: their calibration loss, and no grouping loss."""

from __future__ import annotations

import numpy as np
import pytest

import epiloss
from epiloss._typing import Floats


def wave(scores: Floats) -> Floats:
    return scores + 0.4 * scores * (1 - scores) * np.sin(20 * np.pi * scores)


def bump(scores: Floats) -> Floats:
    return np.minimum(scores + 0.3 * np.exp(-(((scores - 0.5) / 0.02) ** 2)), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("curve", [wave, bump])
def test_a_curve_that_is_not_smooth_is_no_grouping_loss(curve: object) -> None:
    """60 samples of 10,000 rows: at most 9 tests at 5% reject, and the mean is below 0.00012.

    With as many intervals between knots as the cube root of the rows, it is 0.00052 and 0.00018.
    """
    assert callable(curve)
    found = []
    for seed in range(60):
        g = np.random.default_rng(seed)
        scores = g.random(10_000)
        y = (g.random(10_000) < curve(scores)).astype(int)
        X = np.column_stack([g.normal(size=(10_000, 5)), (scores - 0.5) ** 2, np.round(scores, 2)])
        found.append(epiloss.audit(y, scores, X).grouping_loss)
    assert sum((one.pvalue or 0.0) < 0.05 for one in found) <= 9
    assert np.mean([one.value for one in found]) < 0.00012


@pytest.mark.parametrize(("n_waves", "n"), [(10, 2_000), (20, 10_000)])
def test_the_calibration_loss_of_many_waves_is_not_smoothed_away(n_waves: int, n: int) -> None:
    """The mean error of 40 samples is below 0.004, and the intervals cover the truth in 34 or more.

    With curves that are each as good as possible by itself, it is -0.013 and -0.010.
    """
    middle = (np.arange(100_000) + 0.5) / 100_000
    truth = float(np.mean((middle - waves(middle, n_waves)) ** 2))
    found = []
    for seed in range(40):
        g = np.random.default_rng([seed, n_waves])
        scores = g.random(n)
        y = (g.random(n) < waves(scores, n_waves)).astype(int)
        found.append(epiloss.audit(y, scores).calibration_loss)
    assert abs(np.mean([one.value for one in found]) - truth) < 0.004
    assert sum(one.low is not None and one.low <= truth <= (one.high or 0) for one in found) >= 34


def waves(scores: Floats, n_waves: int) -> Floats:
    return 0.5 + 0.3 * np.sin(2 * np.pi * n_waves * scores)
