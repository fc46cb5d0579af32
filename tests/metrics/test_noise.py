"""Noise floors are what metrics are where labels are drawn from the scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import quantile_level_sets, uniform_level_sets
from epiloss.input.checks import read_problem
from epiloss.input.problem import Reading
from epiloss.metrics.binned import Bins
from epiloss.metrics.measure import measure
from epiloss.metrics.noise import chance_gaps
from epiloss.metrics.refits import Cells
from epiloss.metrics.regression import LogisticFit, spline_terms
from epiloss.metrics.result import LeftOutError, Metrics
from epiloss.metrics.rows import ScoredRows

FLOORED = (
    "ece_equal_width", "ece_equal_mass", "maximum_calibration_error", "smooth_ece", "ici", "e50", "e90",
)  # fmt: skip


def measured(scores: Floats, labels: Floats, weights: Floats | None) -> Metrics:
    return measure(read_problem(labels, scores, None, Reading(), sample_weight=weights))


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(2.0, 3.0), (1.0, 20.0)])
def test_floors_are_what_calibrated_labels_have(shape: tuple[float, float], weighted: bool) -> None:
    """60 draws of labels: the mean within 4 of its standard errors and 10%, the top 5% roughly."""
    generator = np.random.default_rng(5)
    scores = generator.beta(*shape, 1_500)
    weights = generator.exponential(size=1_500) + 0.1 if weighted else None
    draws = [
        measured(scores, (generator.random(1_500) < scores).astype(float), weights) for _ in range(60)
    ]
    for name in FLOORED:
        check_floor(name, draws)


def check_floor(name: str, draws: list[Metrics]) -> None:
    values = np.array([one.value(name) for one in draws])
    floor = draws[0][name].floor
    assert floor is not None
    slack = 4 * values.std(ddof=1) / np.sqrt(len(draws)) + 0.1 * values.mean()
    assert abs(floor.value - values.mean()) < slack, name
    # bins of a single row take few values, so that many are equal to the quantile
    assert (values > 1.01 * floor.high).mean() <= 0.2, name


def test_curves_of_few_positive_labels_are_fitted_wherever_they_have_a_solution() -> None:
    """Leaving out steep curves would make the noise too small."""
    generator = np.random.default_rng(5)
    scores = generator.beta(1, 20, 500)  # about 24 positive labels
    odds = logit(scores)
    terms = spline_terms(odds, np.quantile(odds, [0.05, 0.275, 0.5, 0.725, 0.95]))
    basis, change = np.linalg.qr(terms)
    design, identity = np.sqrt(500) * basis, change[:, 1] / np.sqrt(500)
    labels = (generator.random((60, 500)) < scores).astype(float)
    one_row_each = Cells(np.full(500, 1 / 500), design, np.ones(500))
    coefficients, converged = one_row_each._fits(labels, identity)
    compared = 0
    for drawn, found, has_converged in zip(labels, coefficients, converged, strict=True):
        try:
            fit = LogisticFit.of(ScoredRows(scores, drawn), design, identity)
        except LeftOutError:
            continue
        curve = design @ fit.coefficients
        if np.abs(curve).max() > 1_000:  # scores almost separate the labels
            continue
        assert has_converged
        np.testing.assert_allclose(expit(design @ found), expit(curve), atol=1e-6)
        compared += 1
    assert compared > 45


@pytest.mark.parametrize("shape", [(2.0, 3.0), (1.0, 20.0)])
def test_gaps_by_chance_are_those_of_rows_drawn_one_by_one(shape: tuple[float, float]) -> None:
    """2,000 draws of rows against 500 of bins: means within 5%, quantiles within 10%."""
    generator = np.random.default_rng(9)
    scores = generator.beta(*shape, 1_500)
    bins = Bins.of(ScoredRows(scores, scores), uniform_level_sets(15))
    bin_of = np.unique(uniform_level_sets(15).assign(scores), return_inverse=True)[1]
    by_rows = np.empty(2_000)
    for draw in range(2_000):
        residual = (generator.random(1_500) < scores) - scores
        by_rows[draw] = np.abs(np.bincount(bin_of, residual)).sum() / 1_500
    chance = bins.mean_norm(chance_gaps(bins.score, bins.size, bins.by_chance, generator))
    assert chance.mean() == pytest.approx(by_rows.mean(), rel=0.05)
    assert np.quantile(chance, 0.95) == pytest.approx(np.quantile(by_rows, 0.95), rel=0.1)


def test_the_debiased_error_is_small_where_nothing_is_wrong() -> None:
    """60 draws: squares have a mean of 0 within 4 standard errors, unlike those of the usual ECE."""
    generator = np.random.default_rng(6)
    scores = generator.beta(2, 3, 1_000)
    level_sets = quantile_level_sets(scores, 15)
    unbiased, usual = [], []
    for _ in range(60):
        labels = (generator.random(1_000) < scores).astype(float)
        bins = Bins.of(ScoredRows(scores, labels), level_sets)
        unbiased.append(bins.share @ bins.squared)
        usual.append(bins.share @ bins.gap**2)
    assert abs(np.mean(unbiased)) < 4 * np.std(unbiased, ddof=1) / np.sqrt(60)
    assert np.mean(usual) > 8 * np.std(usual, ddof=1) / np.sqrt(60)


def test_clusters_raise_the_floor() -> None:
    """Rows that are copies of each other count once, with or without weights."""
    generator = np.random.default_rng(7)
    scores = generator.beta(2, 3, 400)
    labels = (generator.random(400) < scores).astype(float)

    def floor(times: int, clusters: Codes | None) -> float:
        problem = read_problem(
            np.repeat(labels, times), np.repeat(scores, times), None, Reading(), clusters=clusters
        )
        found = measure(problem)["ece_equal_width"].floor
        assert found is not None
        return found.value

    alone, copies = floor(1, None), floor(4, np.repeat(np.arange(400), 4))
    assert copies == pytest.approx(alone, rel=0.1)
    assert floor(4, None) == pytest.approx(alone / 2, rel=0.1)


def test_the_seed_alone_decides_what_is_drawn() -> None:
    generator = np.random.default_rng(8)
    scores = generator.beta(2, 3, 500)
    problem = read_problem((generator.random(500) < scores).astype(float), scores, None, Reading())
    assert measure(problem).to_dict() == measure(problem).to_dict()
    assert measure(problem, seed=1)["ece_equal_width"] != measure(problem)["ece_equal_width"]
