"""Twin learners where one outcome hardly occurs."""

from __future__ import annotations

import numpy as np
import pytest

import epiloss


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("n_positive", [1, 5, 11])
def test_a_handful_of_the_rarer_outcome_is_left_to_the_regions(rule: str, n_positive: int) -> None:
    """One positive of 5,000 made models that tilt by noise alone, and were sure of it."""
    g = np.random.default_rng(0)
    y = np.zeros(5_000, int)
    y[:n_positive] = 1
    result = epiloss.audit(y, 0.001 + 1e-4 * g.random(5_000), g.normal(size=(5_000, 4)), rule=rule)
    assert result.method == "partition"
    assert "12 of the rarer outcome" in result.recommendation


@pytest.mark.parametrize("n_positive", [12, 40])
def test_few_of_the_rarer_outcome_are_no_proof(n_positive: int) -> None:
    """12 draws by the log-loss with nothing to find: at most 3 lower limits above 0."""
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
