"""What decisions cost: the savings are honest, and equal a hand computation where that is possible."""

from __future__ import annotations

import json

import numpy as np
import pytest

import epiloss
from epiloss.simulate import MultiClass, Sigmoid


@pytest.fixture(scope="module")
def result() -> epiloss.Audit:
    sample = Sigmoid(perturbation="step").sample(6_000)
    return epiloss.audit(sample.y, sample.scores, sample.X, method="partition", n_bins=5)


def test_the_cost_is_what_the_decisions_cost(result: epiloss.Audit) -> None:
    sample = Sigmoid(perturbation="step").sample(6_000)
    costs = epiloss.regret(result, cost_fp=2.0, cost_fn=6.0)
    act = sample.scores >= 0.25
    paid = np.where(act, 2.0 * (sample.y == 0), 6.0 * (sample.y == 1))
    assert costs.threshold == 0.25
    assert costs.cost.value == pytest.approx(paid.mean())
    assert costs.cost.stderr == pytest.approx(paid.std() / np.sqrt(6_000), rel=1e-3)


def test_the_parts_add_up(result: epiloss.Audit) -> None:
    costs = epiloss.regret(result, cost_fp=1.0, cost_fn=3.0)
    assert costs.cost.value == pytest.approx(
        costs.calibration.value + costs.grouping.value + costs.remaining.value
    )
    curve = costs.curve
    np.testing.assert_allclose(
        curve["cost"], curve["calibration"] + curve["grouping"] + curve["remaining"], atol=1e-12
    )
    assert (curve["low" if "low" in curve else "cost_low"] <= curve["cost"]).all()


def test_the_page_says_how_many_rows_were_counted(result: epiloss.Audit) -> None:
    costs = epiloss.regret(result)
    assert costs.n_evaluated == 6_000
    assert "6,000" in costs._page()


def test_with_another_threshold_the_costs_keep_their_sum(result: epiloss.Audit) -> None:
    costs = epiloss.regret(result, threshold=0.4, cost_fp=1.0, cost_fn=4.0)
    assert costs.cost_fp == pytest.approx(2.0)
    assert costs.cost_fn == pytest.approx(3.0)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_savings_are_honest(threshold: float) -> None:
    """40 repetitions of 2,000 rows: the mean saving is at most what the truth would save.

    The regret of grouping is ``E|Q - t|`` over rows whose side of ``t`` differs between C and Q; no
    repair saves more, and here at least a third is found. The standard error of the mean is about 3%.
    """
    problem = Sigmoid(perturbation="step")
    truth = problem.sample(200_000, random_state=99)
    differs = (truth.q >= threshold) != (truth.c >= threshold)
    most = float(np.mean(np.abs(truth.q - threshold) * differs))
    grouping, calibration = [], []
    for seed in range(40):
        sample = problem.sample(2_000, random_state=seed)
        one = epiloss.audit(sample.y, sample.scores, sample.X, method="partition", n_bins=5)
        costs = epiloss.regret(one, threshold=threshold, cost_fp=0.5, cost_fn=0.5, thresholds=[0.5])
        grouping.append(costs.grouping.value)
        calibration.append(costs.calibration.value)
    stderr = np.std(grouping) / np.sqrt(40)
    assert most / 3 < np.mean(grouping) < most + 2 * stderr
    assert np.mean(calibration) < 2 * np.std(calibration) / np.sqrt(40)  # the scores are calibrated


def test_a_miscalibrated_score_is_worth_recalibrating() -> None:
    sample = Sigmoid(grouping=0.0, intercept=-1.0).sample(8_000)
    shifted = np.clip(sample.scores + 0.25, 0, 1)
    one = epiloss.audit(sample.y, shifted, sample.X, method="partition", n_bins=5)
    costs = epiloss.regret(one)
    assert costs.calibration.low is not None
    assert costs.calibration.low > 0
    assert costs.grouping.low is not None
    assert costs.grouping.low < 0.002


def test_groups_and_clusters_are_taken(result: epiloss.Audit) -> None:
    sample = Sigmoid(perturbation="step").sample(3_000)
    far = np.where(sample.X[:, 0] > sample.X[:, 1], "far", "near")
    by_group = epiloss.audit(sample.y, sample.scores, subgroups=far, n_bins=5)
    assert epiloss.regret(by_group).grouping.value > 0.02
    blind = epiloss.audit(sample.y, sample.scores, n_bins=5)
    assert epiloss.regret(blind).grouping.value == 0.0
    again = np.repeat(np.arange(1_000), 3)
    rows = (sample.y[again], sample.scores[again], sample.X[again])
    widths = []
    for clusters in (None, again):
        one = epiloss.audit(*rows, clusters=clusters, method="partition", n_bins=5)
        costs = epiloss.regret(one, thresholds=[0.5])
        assert costs.cost.stderr is not None
        widths.append(costs.cost.stderr)
    assert widths[1] == pytest.approx(np.sqrt(3) * widths[0], rel=0.01)


def test_what_means_nothing_is_refused(result: epiloss.Audit) -> None:
    with pytest.raises(epiloss.OptionError, match="cost_fp must be a positive finite number"):
        epiloss.regret(result, cost_fp=0.0)
    with pytest.raises(epiloss.OptionError, match=r"thresholds must lie in \(0, 1\)"):
        epiloss.regret(result, threshold=1.0)
    sample = MultiClass().sample(500)
    several = epiloss.audit(sample.y, sample.scores, sample.X, task="classwise", n_bins=3)
    with pytest.raises(epiloss.OptionError, match="regret needs an audit of a single score"):
        epiloss.regret(several)


def test_it_prints_and_is_saved(result: epiloss.Audit) -> None:
    costs = epiloss.regret(result, thresholds=[0.2, 0.5])
    text = str(costs)
    assert "saved by recalibration" in text
    assert "remaining" in text
    plain = json.loads(costs.to_json())
    assert plain["curve"]["threshold"] == [0.2, 0.5]
