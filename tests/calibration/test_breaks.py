"""Scores with a rate of their own, and jumps of the calibration curve."""

from __future__ import annotations

import numpy as np
import pytest

from epiloss._typing import Floats
from epiloss.calibration.curves import LocalLinear, fit_curve_pair
from epiloss.calibration.smoothers import DistinctScores
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import Brier
from epiloss.streaming.score_cells import ScoreCells

Rows = tuple[Floats, Floats]


def drawn(scores: Floats, rates: Floats, seed: int = 0) -> Rows:
    chance = np.random.default_rng([seed, 1]).random(len(scores))  # not the numbers of the scores
    return scores, (chance < rates).astype(float)


def leaves(n: int, n_values: int, off: float, seed: int = 0) -> Rows:
    generator = np.random.default_rng(seed)
    value = np.linspace(0.1, 0.9, n_values)
    rate = np.clip(value + off * generator.standard_normal(n_values), 0, 1)
    leaf = generator.integers(n_values, size=n)
    return drawn(value[leaf], rate[leaf], seed)


def own_rates(rows: Rows) -> int:
    """Return at how many scores the curve is the mean of their labels."""
    gathered = DistinctScores.gather(*rows, None)
    fitted = LocalLinear().fit(*rows)(gathered.scores)
    return int((np.abs(fitted - gathered.label_mean) < 1e-9).sum())


def test_scores_of_fifty_labels_have_their_own_rate() -> None:
    assert own_rates(leaves(4_000, 20, 0.0)) == 20


def test_fewer_labels_have_their_own_rate_only_where_rates_are_rough() -> None:
    """Twenty samples of 3,000 rows, 20 at each of 150 scores; chance finds one in six rough."""
    rough = [own_rates(leaves(3_000, 150, 0.15, seed)) for seed in range(20)]
    smooth = [own_rates(leaves(3_000, 150, 0.0, seed)) for seed in range(20)]
    assert np.mean(np.array(rough) > 140) == 1
    assert np.mean(np.array(smooth) > 140) <= 0.4


def test_copies_of_rows_are_no_rates() -> None:
    generator = np.random.default_rng(3)
    once = generator.random(500)
    scores, labels = drawn(once, once)
    assert own_rates((np.repeat(scores, 3), np.repeat(labels, 3))) < 250  # of 500


def test_beside_a_score_of_its_own_rate_the_curve_is_as_it_was() -> None:
    generator = np.random.default_rng(4)
    scores = np.where(generator.random(9_000) < 0.2, 0.3, generator.random(9_000))
    rows = drawn(scores, np.where(scores == 0.3, 0.9, scores), 4)
    curve = LocalLinear().fit(*rows)
    at, beside = curve(np.array([0.3])), curve(np.array([0.298, 0.302]))
    assert at[0] == rows[1][scores == 0.3].mean()
    np.testing.assert_allclose(beside, 0.3, atol=0.05)


@pytest.mark.parametrize("place", [0.2, 0.5, 0.83])
def test_a_jump_is_found_where_it_is(place: float) -> None:
    """One sample of 10,000 rows, a jump of 0.25: seen from 0.01 on either side, within 0.12."""
    scores = np.random.default_rng(5).random(10_000)
    truth = 0.2 + 0.4 * scores + 0.25 * (scores > place)
    curve = LocalLinear().fit(*drawn(scores, truth, 5))
    sides = np.array([place - 0.01, place + 0.01])
    np.testing.assert_allclose(np.diff(curve(sides)), 0.25, atol=0.12)


def test_smooth_curves_have_no_jumps() -> None:
    """Forty samples of 4,000 rows; of these at most six, by a step of a tenth between neighbours."""
    grid, steps = np.linspace(0.02, 0.98, 2_000), []
    for seed in range(40):
        scores = np.random.default_rng(seed).random(4_000)
        curve = LocalLinear().fit(*drawn(scores, scores**2, seed))
        steps.append(np.abs(np.diff(curve(grid))).max())
    assert np.sum(np.array(steps) > 0.1) <= 6


def test_errors_of_a_pair_are_independent_at_each_score() -> None:
    """Of 100 labels at each of 300 scores: the product of errors is 0 within 4 standard errors."""
    value = np.repeat(np.linspace(0.1, 0.9, 300), 100)
    rows = drawn(value, value, 6)
    a, b = fit_curve_pair(LocalLinear(), *rows, None, np.random.default_rng(0))
    points = np.unique(value)
    product = (a(points) - points) * (b(points) - points)
    assert abs(product.mean()) <= 4 * product.std() / np.sqrt(len(points))
    assert np.mean((a(points) - points) ** 2) > 0.5 * np.mean(points * (1 - points)) / 50


def test_cells_of_scores_have_the_curve_of_the_scores() -> None:
    """Twenty leaves and continuous scores between them; counted in cells, the same rates at leaves."""
    scores, labels = leaves(20_000, 20, 0.1)
    between = np.random.default_rng(7).random(20_000)
    some = np.random.default_rng(8).random(20_000) < 0.3
    scores = np.where(some, between, scores)
    labels = np.where(some, drawn(between, between, 9)[1], labels)
    cells = ScoreCells.empty(1)
    problem = BinaryProblem(None, scores, labels, Brier(), None, None, None, None)
    cells.add(problem, np.arange(20_000) % 2)
    a, b = cells.curves(LocalLinear(), 20_000)
    whole = LocalLinear().fit(scores, labels)
    points = np.linspace(0.1, 0.9, 20)
    np.testing.assert_allclose((a(points) + b(points)) / 2, whole(points), atol=0.005)
