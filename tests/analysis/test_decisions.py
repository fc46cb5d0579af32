"""The table of decisions on an audit's page: its costs are those of regret, and few costs are shown."""

from __future__ import annotations

import numpy as np
import pytest

import epiloss
from epiloss.analysis import decisions
from epiloss.analysis.decisions import USUAL_COSTS, CostsOfDecisions, usual_decisions
from epiloss.errors import OptionError
from epiloss.simulate import Sigmoid

SAMPLE = Sigmoid(perturbation="step").sample(3_000)


@pytest.fixture(scope="module")
def audit() -> epiloss.Audit:
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X)


def table_of(audit: epiloss.Audit, *costs: tuple[float, float]) -> CostsOfDecisions:
    found = usual_decisions(audit, costs or None)
    assert found is not None
    return found


def test_costs_are_those_of_regret_for_a_thousand_rows(audit: epiloss.Audit) -> None:
    pairs = [(1.0, 1.0), (1.0, 4.0), (200.0, 50.0)]
    for row, (cost_fp, cost_fn) in zip(table_of(audit, *pairs).table.rows(), pairs, strict=True):
        same = epiloss.regret(audit, cost_fp=cost_fp, cost_fn=cost_fn, thresholds=[0.5])
        assert row["threshold"] == same.threshold
        assert row["cost"] == pytest.approx(1_000 * same.cost.value)
        assert row["repaired"] == pytest.approx(1_000 * same.remaining.value)
        saved = same.calibration.value + same.grouping.value
        assert row["saving"] == pytest.approx(1_000 * saved)
        assert row["saving_low"] < row["saving"] < row["saving_high"]


def test_a_saving_is_surer_than_the_costs_that_it_is_the_difference_of(audit: epiloss.Audit) -> None:
    (row,) = table_of(audit, (1, 1)).table.rows()
    reach = [row[f"{name}_high"] - row[f"{name}_low"] for name in ("cost", "saving")]
    assert reach[1] < reach[0]
    assert row["saving_low"] > 0  # a step of the truth is seen by the features


def test_usual_costs_leave_something_to_decide(audit: epiloss.Audit) -> None:
    table = table_of(audit).table
    assert 2 <= len(table) <= 4
    for row in table.rows():
        assert (row["cost_fp"], row["cost_fn"]) in USUAL_COSTS
        assert 0.02 <= row["share"] <= 0.98
    rare = epiloss.audit(SAMPLE.y, np.full(3_000, 0.003) + 1e-4 * SAMPLE.scores, SAMPLE.X)
    assert usual_decisions(rare) is None
    assert len(table_of(rare, (1, 1)).table) == 1  # asked for


def test_of_many_rows_a_sample_is_used(audit: epiloss.Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_MOST_ROWS", 1_000)
    every = epiloss.regret(audit, cost_fp=1, cost_fn=1, thresholds=[0.5])
    found = table_of(audit, (1, 1))
    assert found.n == 1_000
    (row,) = found.table.rows()
    assert row["cost_low"] < 1_000 * every.cost.value < row["cost_high"]


def test_subgroups_repair_too_and_without_either_scores_are_recalibrated() -> None:
    half = np.where(SAMPLE.X[:, 0] > SAMPLE.X[:, 1], "left", "right")
    by_subgroup = table_of(epiloss.audit(SAMPLE.y, SAMPLE.scores, subgroups=half), (1, 1))
    alone = table_of(epiloss.audit(SAMPLE.y, SAMPLE.scores), (1, 1))
    assert not by_subgroup.by_score_alone
    assert by_subgroup.table["saving_low"][0] > 0
    assert alone.by_score_alone
    assert alone.table["saving_high"][0] < by_subgroup.table["saving"][0]


def test_a_single_cluster_cannot_be_cross_fitted() -> None:
    sample, side = Sigmoid().sample(60), np.arange(60) % 2
    alone = epiloss.audit(sample.y, sample.scores, subgroups=side, clusters=np.zeros(60))
    assert usual_decisions(alone) is None
    assert 'id="cost"' not in alone.to_html()
    with pytest.raises(OptionError, match="at least 5 clusters, got 1"):
        epiloss.regret(alone)


def test_several_scores_in_a_row_decide_nothing(audit: epiloss.Audit) -> None:
    from dataclasses import replace

    scores = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    several = epiloss.audit(scores.argmax(axis=1), scores, task="classwise")
    assert usual_decisions(several) is None
    assert usual_decisions(replace(audit, details=None)) is None


@pytest.mark.parametrize("wrong", [5, (1,), (1, 0), ("a", "b"), (1, np.inf)])
def test_costs_that_are_no_pair_of_positive_numbers_are_refused(
    audit: epiloss.Audit, wrong: object
) -> None:
    with pytest.raises(OptionError, match=r"cost"):
        audit.to_html(costs=[wrong])
