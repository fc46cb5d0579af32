"""Twin learners with a rare outcome."""

from __future__ import annotations

import numpy as np
import pytest

import epiloss
from epiloss.simulate import Sigmoid


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("n_positive", [1, 5, 11])
def test_regions_are_used_if_the_rarer_outcome_has_fewer_than_twelve_rows(
    rule: str, n_positive: int
) -> None:
    """With one positive row among 5,000, twin models would find a significant loss in noise."""
    g = np.random.default_rng(0)
    y = np.zeros(5_000, int)
    y[:n_positive] = 1
    result = epiloss.audit(y, 0.001 + 1e-4 * g.random(5_000), g.normal(size=(5_000, 4)), rule=rule)
    assert result.method == "partition"
    assert "12 rows with the rarer outcome" in result.recommendation


@pytest.mark.parametrize("n_positive", [12, 40])
def test_few_rows_with_the_rarer_outcome_do_not_suggest_a_loss(n_positive: int) -> None:
    """12 draws without a loss, for the log-loss: at most 3 lower limits are above 0."""
    above = 0
    for seed in range(12):
        g = np.random.default_rng(seed)
        y = np.zeros(4_000, int)
        y[:n_positive] = 1
        result = epiloss.audit(
            y, np.full(4_000, n_positive / 4_000), g.normal(size=(4_000, 3)), rule="log"
        )
        assert result.method == "twin"
        assert result.at_least is not None
        above += result.at_least > 0
    assert above <= 3


@pytest.mark.slow
def test_the_interval_covers_the_mean_of_the_estimate_with_few_positive_labels() -> None:
    """150 draws of 1,000 rows, 7% positive: at least 87% of the intervals contain the mean over draws.

    ``value +- 1.96 stderr`` contained it in 81 to 85%: a sample with too low an estimate also has too
    small a standard error.
    """
    rare = Sigmoid(intercept=-7.0)
    found = []
    for seed in range(150):
        sample = rare.sample(1_000, random_state=seed)
        found.append(epiloss.audit(sample.y, sample.scores, sample.X).grouping_loss)
    mean = np.mean([one.value for one in found])
    covered = np.mean(
        [one.low <= mean <= one.high for one in found if one.low is not None and one.high is not None]
    )
    assert covered >= 0.87
