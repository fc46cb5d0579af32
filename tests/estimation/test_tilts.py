"""What tilts cost: never less than the conjugate of the divergence, and no more where they are best."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

import epiloss
from epiloss.estimation.crossfit.bound import (
    BestLength,
    Directions,
    cross_fitted_directions,
    crossfit_bound,
)
from epiloss.estimation.crossfit.learners import Blend
from epiloss.estimation.crossfit.tilts import tilts_of
from epiloss.input.features import Features
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule

SPHERICAL = ScoringRule.from_entropy(lambda p: 1 - np.sqrt(p**2 + (1 - p) ** 2))
RULES = (Brier(), LogLoss(), ClassLogLoss(), SPHERICAL)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_no_tilt_bounds_more_than_the_divergence(rule: ScoringRule) -> None:
    """20,000 random curves and tilts against 201 truths each."""
    g = np.random.default_rng(0)
    c, t, q = g.uniform(0.001, 0.999, 20_000), g.normal(0, 1.5, 20_000), np.linspace(0, 1, 201)
    cost = tilts_of(rule).cost(c, t)[0]
    gained = t[:, None] * (q - c[:, None]) - cost[:, None]
    assert (gained <= rule.divergence(c[:, None], q) * (1 + 2e-3) + 1e-9).all()


@pytest.mark.parametrize(
    ("rule", "best"),
    [
        (Brier(), lambda c, q: 2 * (q - c)),
        (LogLoss(), lambda c, q: logit(q) - logit(c)),
        (ClassLogLoss(), lambda c, q: np.log(q / c)),
    ],
    ids=["brier", "log", "class-log"],
)
def test_the_best_tilt_bounds_all_of_the_divergence(rule: ScoringRule, best: object) -> None:
    g = np.random.default_rng(0)
    c, q = g.uniform(0.001, 0.999, (2, 1_000))
    t = best(c, q)  # type: ignore[operator]
    gained = t * (q - c) - tilts_of(rule).cost(c, t)[0]
    np.testing.assert_allclose(gained, rule.divergence(c, q), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_slopes_and_curvatures_are_those_of_the_cost(rule: ScoringRule) -> None:
    tilts, step = tilts_of(rule), 1e-4
    c, t = np.meshgrid(np.linspace(0.01, 0.99, 9), np.linspace(-2, 2, 9))
    below, _, _ = tilts.cost(c, t - step)
    here, slope, curvature = tilts.cost(c, t)
    above, _, _ = tilts.cost(c, t + step)
    np.testing.assert_allclose((above - below) / (2 * step), slope, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose((above + below - 2 * here) / step**2, curvature, rtol=1e-3, atol=1e-6)


def rare(n: int, seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, scores, features and truth: of about 1.1%, times ``1 + ratio`` or ``1 - ratio``."""
    g = np.random.default_rng(seed)
    X = g.normal(size=(n, 3))
    s = 1 / (1 + np.exp(5 - X[:, 0]))
    q = s * np.where(X[:, 1] > 0, 1 + ratio, 1 - ratio)
    return (g.random(n) < q).astype(int), s, X, q


def test_much_of_a_rare_outcomes_grouping_loss_is_found() -> None:
    """One sample; a bound by squares finds 3% of it, as the log-loss is steepest near 0."""
    y, s, X, q = rare(30_000, 0, 0.8)
    bound = epiloss.audit(y, s, X, rule="log", method="crossfit").crossfit_bound
    assert bound is not None
    assert bound.low is not None
    truth = LogLoss().divergence(s, q).mean()
    assert 0.4 * truth < bound.value
    assert bound.low < truth


@pytest.mark.slow
def test_nothing_is_found_where_a_rare_outcome_has_no_grouping_loss() -> None:
    """100 repetitions of 3,000 rows, Log: at most 11 p-values below 5%, 3 standard errors more."""
    below = 0
    for seed in range(100):
        y, s, X, _ = rare(3_000, seed, 0.0)
        directions = cross_fitted_directions(
            Features.read(X),
            s,
            y.astype(float),
            rule=LogLoss(),
            learner=Blend(),
            generator=np.random.default_rng(seed),
        )
        below += (crossfit_bound(directions, 0.95, sharing=1.25).estimate.pvalue or 0.0) < 0.05
    assert below <= 11


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_no_other_length_of_a_tilt_bounds_more(rule: ScoringRule) -> None:
    """50 random sets of 200 rows, steep ones too, against 41 other lengths."""
    g = np.random.default_rng(0)
    for _ in range(50):
        a, r, c = (
            g.normal(size=200) * g.choice([0.1, 1, 5]),
            g.normal(size=200),
            g.uniform(0.01, 0.99, 200),
        )
        one = np.ones(200)
        rows = Directions(tilts_of(rule), a, r, a, c, np.zeros(200, int), one, one)
        best = BestLength.of(rows)
        assert best is not None
        for length in best.length + np.linspace(-2, 2, 41):
            bound = length * (a * r).mean() - rows.cost(length)[0].mean()
            assert bound <= best.bound + 1e-9


def test_rows_that_are_no_numbers_end_in_no_bound() -> None:
    one, nothing = np.ones(10), np.full(10, np.nan)
    rows = Directions(tilts_of(LogLoss()), nothing, one, nothing, one / 2, np.zeros(10, int), one, one)
    assert BestLength.of(rows) is None
    rows = Directions(tilts_of(LogLoss()), one, nothing, one, one / 2, np.zeros(10, int), one, one)
    best = BestLength.of(rows)
    assert best is not None
    assert best.length == 0
