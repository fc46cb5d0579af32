"""Intervals: standard errors are those of closed forms, and weights and clusters are respected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binomtest

from epiloss._typing import Floats
from epiloss.calibration.level_sets import uniform_level_sets
from epiloss.metrics import ranking
from epiloss.metrics.binned import Bins, debiased_ece, ece, largest_gap
from epiloss.metrics.measure import measure
from epiloss.metrics.noise import inverted_interval
from epiloss.metrics.ranking import ValueAndInfluence, auc, average_precision, brier_skill
from epiloss.metrics.regression import (
    calibration_intercept,
    calibration_slope,
    observed_expected,
)
from epiloss.metrics.rows import ScoredRows, wilson
from metrics import Task, problems_of, truth_of

N = 300


def rows(seed: int = 0, *, weighted: bool = False) -> ScoredRows:
    generator = np.random.default_rng(seed)
    scores = generator.beta(2, 3, N).round(2)  # with ties
    labels = (generator.random(N) < scores).astype(float)
    return ScoredRows(scores, labels, generator.exponential(size=N) + 0.1 if weighted else None)


def skill(one: ScoredRows) -> ValueAndInfluence:
    return brier_skill(one, (one.scores - one.labels) ** 2, one.labels[:, None])


def test_intervals_of_gaps_end_at_one() -> None:
    """Two of three rows of the highest bin are wrong, and noise would allow a gap of 1.1."""
    scores = np.array([0.01] * 3 + [0.99] * 3)
    bins = Bins.of(ScoredRows(scores, np.array([0.0, 0, 0, 0, 0, 1])), uniform_level_sets(2))
    for error in (ece, largest_gap):
        found = error(bins, 0.95, np.random.default_rng(0))[0]
        assert found.high is not None
        assert found.value < found.high <= 1


@pytest.mark.parametrize("metric", [auc, average_precision, skill])
def test_influence_values_are_derivatives_by_the_weights(
    metric: Callable[[ScoredRows], ValueAndInfluence],
) -> None:
    one = rows(weighted=True)
    assert one.weights is not None
    influence = metric(one)[1]
    assert influence.sum() == pytest.approx(0.0, abs=2e-3 / N if metric is auc else 1e-12)
    for row in range(0, N, 37):
        step = np.zeros(N)
        step[row] = 1e-6 * one.weights[row]
        ahead, behind = (metric(replace(one, weights=one.weights + s)) for s in (step, -step))
        slope = (ahead[0] - behind[0]) / 2e-6
        unbiased = 1.0
        if metric is auc:  # whose variances are made unbiased in both classes
            n = (one.labels == one.labels[row]).sum()
            unbiased = np.sqrt(n / (n - 1) * (N - 1) / N)
        assert influence[row] == pytest.approx(unbiased * slope, abs=1e-8)


def test_the_standard_error_of_the_auc_is_that_of_delong() -> None:
    one = rows()
    value, influence = auc(one)
    positive, negative = one.scores[one.labels == 1], one.scores[one.labels == 0]
    above = np.sign(positive[:, None] - negative) / 2 + 0.5
    assert value == pytest.approx(above.mean(), abs=1e-12)
    variance = above.mean(axis=1).var(ddof=1) / len(positive)
    variance += above.mean(axis=0).var(ddof=1) / len(negative)
    assert one.stderr(influence) == pytest.approx(np.sqrt(variance), abs=1e-12)


@pytest.mark.parametrize(("ones", "n"), [(0, 20), (7, 20), (150, 160), (20, 20)])
def test_wilson_is_that_of_scipy(ones: int, n: int) -> None:
    theirs = binomtest(ones, n).proportion_ci(0.95, method="wilson")
    assert wilson(ones / n, n, 0.95) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_an_accuracy_of_one_is_one_for_any_weights(seed: int) -> None:
    right = np.ones(30)
    weights = np.random.default_rng(seed).exponential(size=30) ** 4
    found = ranking.accuracy(ScoredRows(right, right, weights), right, 0.95)
    assert (found.value, found.stderr, found.high) == (1.0, 0.0, 1.0)
    n = weights.sum() ** 2 / (weights**2).sum()
    assert found.low == pytest.approx(n / (n + 1.959964**2), rel=1e-6)


def copied(one: ScoredRows, times: int, *, clustered: bool) -> ScoredRows:
    clusters = np.repeat(np.arange(N), times) if clustered else None
    return ScoredRows(np.repeat(one.scores, times), np.repeat(one.labels, times), None, clusters)


def standard_errors(one: ScoredRows) -> Floats:
    right = ((one.scores > 0.5) == one.labels).astype(float)
    found = [one.stderr(metric(one)[1]) for metric in (average_precision, skill)]
    for estimate in (
        ranking.accuracy(one, right, 0.95),
        observed_expected(one, 0.95),
        calibration_slope(one, 0.95),
    ):
        assert estimate.stderr is not None
        found.append(estimate.stderr)
    return np.array(found)


def test_copies_of_rows_in_one_cluster_tell_no_more_than_the_row() -> None:
    one = rows()
    alone = standard_errors(one)
    clustered = standard_errors(copied(one, 4, clustered=True))
    np.testing.assert_allclose(clustered, alone, rtol=1e-9)
    independent = standard_errors(copied(one, 4, clustered=False))
    np.testing.assert_allclose(independent, alone / 2, rtol=0.01)


def test_copies_in_one_cluster_leave_the_debiased_error_as_it_was() -> None:
    one, bins = rows(), uniform_level_sets(10)
    found = [
        debiased_ece(Bins.of(some, bins), 0.95, np.random.default_rng(0))[0]
        for some in (one, copied(one, 4, clustered=True), copied(one, 4, clustered=False))
    ]
    assert found[1].value == pytest.approx(found[0].value, abs=1e-12)
    assert found[2].value > found[0].value + 0.01  # copies taken for rows look miscalibrated


def test_the_scale_of_weights_does_not_matter() -> None:
    one = rows(weighted=True)
    assert one.weights is not None
    np.testing.assert_allclose(
        standard_errors(replace(one, weights=7 * one.weights)), standard_errors(one), rtol=1e-12
    )


def test_far_from_nothing_the_inverted_interval_is_the_normal_one() -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal((20_000, 5))
    gaps, share = np.array([0.3, -0.2, 0.25, 0.4, -0.3]), np.full(5, 0.2)
    ends = inverted_interval(lambda draws: np.abs(draws) @ share, gaps, noise, 0.95)
    assert ends is not None
    stderr, value = 0.01 / np.sqrt(5), 0.29
    assert ends == pytest.approx((value - 1.96 * stderr, value + 1.96 * stderr), abs=2e-4)


def test_gaps_as_small_as_noise_leave_nothing_possible() -> None:
    generator = np.random.default_rng(0)
    noise = 0.01 * generator.standard_normal((5_000, 15))
    ends = inverted_interval(
        lambda draws: np.abs(draws).mean(axis=1), 0.01 * generator.standard_normal(15), noise, 0.95
    )
    assert ends is not None
    assert ends[0] == 0.0
    assert 0 < ends[1] < 0.02


@pytest.mark.slow
def test_intervals_hold_the_truth() -> None:
    """200 samples of 1,000 rows; at 95% fewer than 0.90 have a chance below 1e-3 for each metric."""
    names = ("accuracy", "auc", "average_precision", "log_loss", "ece_equal_width", "calibration_slope")
    setting = "overconfident"
    tasks = [Task(setting, 1_000, repetition, 1) for repetition in range(200)]
    found = [measure(problems_of(task)[0], seed=task.repetition) for task in tasks]
    truth = truth_of(setting)
    for name in names:
        estimates = [one[name].estimate for one in found]
        inside = [(one.low or 0.0) <= truth[name] <= (one.high or 0.0) for one in estimates]
        assert np.mean(inside) >= 0.90, name


def test_log_odds_of_half_are_zero() -> None:
    """A model that says 1/2 everywhere has the intercept of the base rate."""
    labels = np.array([1.0] * 30 + [0.0] * 70)
    found = calibration_intercept(ScoredRows(np.full(100, 0.5), labels), 0.95)
    assert found.value == pytest.approx(logit(0.3), abs=1e-12)
    assert found.stderr == pytest.approx(np.sqrt(1 / (99 * 0.3 * 0.7)), rel=1e-9)
