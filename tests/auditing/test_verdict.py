"""The verdict: each branch of its table, with intervals that straddle what matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import epiloss
from epiloss.auditing.result import Audit
from epiloss.auditing.verdict import FINE, RECALIBRATE, REPAIR, UNCLEAR, _rates, verdict
from epiloss.estimate import Estimate
from epiloss.input.problem import RegionSource
from epiloss.partition import Tree
from epiloss.simulate import Sigmoid


@pytest.fixture(scope="module")
def base() -> Audit:
    sample = Sigmoid(perturbation="step").sample(4_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X, method="partition", n_bins=5)
    return replace(result, uninformed=0.25)  # so that 0.0025 matters


def loss(value: float, stderr: float, *, tested: bool = True) -> Estimate:
    pvalue = (0.001 if value > 1.645 * stderr else 0.4) if tested else None
    return Estimate(value, stderr, value - 2 * stderr, value + 2 * stderr, pvalue)


LARGE, SMALL, THERE_BUT_SMALL = loss(0.01, 0.001), loss(0.0, 0.0005), loss(0.001, 0.0002)
UNSURE, AROUND = loss(0.003, 0.002), loss(0.002, 0.0008)


@pytest.mark.parametrize(
    ("grouping", "calibration", "kind"),
    [
        (LARGE, SMALL, REPAIR),
        (LARGE, LARGE, REPAIR),
        (LARGE, UNSURE, REPAIR),
        (SMALL, LARGE, RECALIBRATE),
        (UNSURE, LARGE, RECALIBRATE),
        (THERE_BUT_SMALL, LARGE, RECALIBRATE),
        (SMALL, SMALL, FINE),
        (THERE_BUT_SMALL, SMALL, FINE),
        (THERE_BUT_SMALL, THERE_BUT_SMALL, FINE),
        (UNSURE, SMALL, UNCLEAR),
        (SMALL, UNSURE, UNCLEAR),
        (AROUND, SMALL, UNCLEAR),
        (SMALL, AROUND, UNCLEAR),
    ],
)
def test_every_branch(base: Audit, grouping: Estimate, calibration: Estimate, kind: str) -> None:
    calibration = replace(calibration, pvalue=None)
    result = verdict(
        replace(base, grouping_loss=grouping, calibration_loss=calibration, partition_bound=grouping)
    )
    assert result.kind == kind
    assert result.matters == pytest.approx(0.0025)
    assert str(result).endswith(".")
    assert (result.rows is not None) == (kind == UNCLEAR or (grouping is UNSURE and kind == RECALIBRATE))


def test_repair_names_the_worst_regions_that_can_be_told_from_noise(base: Audit) -> None:
    sentence = str(base.verdict)
    worst = base.worst_regions(1)
    assert base.verdict.kind == REPAIR
    assert worst["pvalue_adjusted"][0] < 0.05
    assert str(worst["rule"][0]) in sentence


def test_too_little_data_says_how_many_rows_would_tell(base: Audit) -> None:
    unsure = loss(0.0, 0.005)
    few = replace(
        base, n_samples=1_000, grouping_loss=unsure, partition_bound=unsure, calibration_loss=SMALL
    )
    rows = verdict(few).rows
    assert rows is not None
    # four times the standard error asks for sixteen times the rows
    fewer = replace(few, grouping_loss=loss(0.0, 0.00125), partition_bound=SMALL)
    assert verdict(fewer).kind == UNCLEAR or verdict(fewer).rows is None
    assert 10_000 < rows < 40_000
    assert f"{rows:,}" in str(verdict(few))


def test_so_many_rows_do_tell() -> None:
    sample = Sigmoid(perturbation="step").sample(120, random_state=3)
    few = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=3, method="partition").verdict
    assert few.kind in (UNCLEAR, RECALIBRATE)
    assert few.rows is not None
    more = Sigmoid(perturbation="step").sample(min(few.rows, 20_000), random_state=4)
    assert epiloss.audit(more.y, more.scores, more.X, n_bins=5).verdict.kind == REPAIR


def test_a_calibrated_score_without_groups_is_fine() -> None:
    sample = Sigmoid(grouping=0.0).sample(20_000)
    assert epiloss.audit(sample.y, sample.scores, sample.X).verdict.kind == FINE


def test_an_overconfident_score_without_groups_is_to_be_recalibrated() -> None:
    sample = Sigmoid(grouping=0.0, miscalibration=2.0).sample(20_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X).verdict
    assert result.kind == RECALIBRATE
    assert "8 points" in result.sentence


def test_a_loss_without_an_interval_is_judged_by_its_value(base: Audit) -> None:
    infinite = replace(
        base, calibration_loss=Estimate(float("inf")), grouping_loss=SMALL, partition_bound=SMALL
    )
    assert verdict(infinite).kind == RECALIBRATE


def test_names_from_the_data_cannot_steer_the_terminal() -> None:
    sample = Sigmoid(perturbation="step").sample(3_000)
    names = {"\x1b[31mage\n": sample.X[:, 0], "b": sample.X[:, 1]}
    result = epiloss.audit(sample.y, sample.scores, names, method="partition", n_bins=5)
    text = str(result)
    assert "age" in text
    assert "\x1b" not in text


def test_what_either_bound_may_have_missed_is_not_called_fine(base: Audit) -> None:
    small = replace(base, grouping_loss=SMALL, calibration_loss=SMALL)
    assert verdict(replace(small, partition_bound=SMALL)).kind == FINE
    assert verdict(replace(small, partition_bound=UNSURE)).kind == UNCLEAR


@pytest.mark.parametrize("leading", [SMALL, THERE_BUT_SMALL, UNSURE, AROUND])
def test_either_bound_can_find_a_loss_that_matters(base: Audit, leading: Estimate) -> None:
    found = replace(base, grouping_loss=leading, calibration_loss=SMALL, partition_bound=LARGE)
    assert verdict(found).kind == REPAIR
    assert "off by 10 points" in str(verdict(found))  # the root of 0.01, by the bound that decided
    for doubtful in (replace(LARGE, low=0.002), replace(LARGE, pvalue=0.03)):
        assert verdict(replace(found, partition_bound=doubtful)).kind == UNCLEAR


@pytest.mark.parametrize("leading", [SMALL, AROUND])
def test_rows_are_told_from_the_bound_that_is_unclear(base: Audit, leading: Estimate) -> None:
    regions = loss(0.0045, 0.002)  # which needs (2 * 0.002 / (0.0045 - 0.0025))^2 = 4 times the rows
    unclear = replace(
        base, n_samples=20_000, grouping_loss=leading, calibration_loss=SMALL, partition_bound=regions
    )
    assert verdict(unclear).kind == UNCLEAR
    assert 95_000 < (verdict(unclear).rows or 0) < 98_000


def test_an_estimate_below_what_matters_must_come_out_below_it(base: Audit) -> None:
    near = loss(0.002, 0.0004)
    unclear = replace(
        base, n_samples=20_000, grouping_loss=near, calibration_loss=SMALL, partition_bound=near
    )
    rows = verdict(unclear).rows
    assert rows is not None
    assert rows >= 1.2 * 20_000 * (2 * 0.0004 / 0.0005) ** 2


def test_the_rows_that_are_asked_for_come_to_an_end() -> None:
    sample = epiloss.simulate.MultiClass(n_classes=3).sample(20_000)
    n, told = 3_000, None
    for _ in range(3):
        told = epiloss.audit(
            sample.y[:n], sample.scores[:n], sample.X[:n], task="classwise", rule="log"
        ).verdict
        n = min(told.rows or n, 20_000)
    assert told is not None
    assert told.kind == REPAIR


def test_subgroups_are_not_called_features(base: Audit) -> None:
    given = replace(base, region_source=RegionSource.SUBGROUPS)
    small = replace(given, grouping_loss=SMALL, partition_bound=SMALL)
    for calibration in (SMALL, LARGE):
        result = replace(small, calibration_loss=calibration)
        assert "these subgroups" in str(verdict(result))
        assert "features" not in str(verdict(result))


def test_where_no_level_set_is_split_nothing_was_tested() -> None:
    sample = Sigmoid(perturbation="step").sample(3_000)
    result = epiloss.audit(sample.y, sample.scores, subgroups=range(3_000))
    assert result.verdict.kind == UNCLEAR


def test_several_labels_a_row_tell_without_features() -> None:
    sample = Sigmoid().sample(20_000)
    ratings = np.random.default_rng(0).random((20_000, 3)) < sample.scores[:, None]
    assert epiloss.audit(ratings.astype(float), sample.scores).verdict.kind == FINE


def test_no_number_of_rows_is_told_from_very_little() -> None:
    sample = Sigmoid().sample(40)
    assert "rows would tell" not in str(epiloss.audit(sample.y, sample.scores, sample.X).verdict)


def test_few_rows_are_not_called_fine_where_regions_are_to_be_learned() -> None:
    """A loss that matters, 0.0025 beside a score of 0.083, is learned from 3,300 rows."""
    sample = Sigmoid(grouping=0.0).sample(3_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X)
    assert max(result.grouping_loss.high or 1, result.partition_bound.high or 1) < result.verdict.matters
    assert result.verdict.kind == UNCLEAR
    assert "about 4,100 rows would tell" in str(result.verdict)
    groups = np.where(sample.X[:, 0] > sample.X[:, 1], "a", "b")
    assert epiloss.audit(sample.y, sample.scores, subgroups=groups, n_bins=5).verdict.kind == FINE


def test_an_infinite_score_asks_for_no_number_of_rows(base: Audit) -> None:
    infinite = replace(base, score=Estimate(float("inf")), grouping_loss=SMALL, calibration_loss=SMALL)
    assert verdict(infinite).rows is None


def test_a_region_whose_score_is_right_is_told_beside_all_with_such_scores() -> None:
    """Group A is scored right, but once the scores are right on average they are too high for A."""
    g = np.random.default_rng(0)
    group, scores = np.where(g.random(6_000) < 0.4, "A", "B"), g.uniform(0.1, 0.5, 6_000)
    labels = (g.random(6_000) < np.where(group == "A", scores, scores + 0.4)).astype(int)
    result = epiloss.audit(labels, scores, subgroups=group)
    worst = result.worst_regions(1)
    told = f"in truth {worst['label_mean'][0]:.2f}, all with such scores {worst['expected'][0]:.2f})"
    assert told in str(result.verdict)
    page = result.to_html()
    assert "too high" not in page
    assert "Over-predicted: lower rates than other rows with such scores" in page


def test_rates_that_are_alike_are_shown_with_more_digits() -> None:
    assert _rates(0.001, 0.0042, 0.0011) == "scored 0.0010, in truth 0.0042"
    assert _rates(0.3, 0.5, 0.29) == "scored 0.30, in truth 0.50"


def test_by_the_log_loss_regions_of_a_rare_outcome_do_not_decide() -> None:
    """One sample without grouping loss, of which small regions explain a loss that is not there."""
    g = np.random.default_rng(0)
    X = g.normal(size=(30_000, 4))
    s = 1 / (1 + np.exp(5 - X[:, 0]))
    y = (g.random(len(s)) < s).astype(int)
    result = epiloss.audit(y, s, X, rule="log", strategy="quantile")
    assert result.partition_bound.pvalue is not None
    assert result.partition_bound.pvalue < 0.05
    assert result.verdict.kind != "repair"
    told = [text for text in result.remarks if "region_ratio" in text]
    assert len(told) == 1
    ratio = int(told[0].split("region_ratio=")[1].rstrip("."))
    again = epiloss.audit(y, s, X, rule="log", strategy="quantile", partition=Tree(ratio))
    assert again.partition_bound.value < result.partition_bound.value / 2
    assert not any("region_ratio" in text for text in again.remarks)


def test_groups_of_hardly_any_labels_are_not_told_to_need_repair_by_the_log_loss() -> None:
    """10 samples without a grouping loss, of 300 groups that are noise: none asks for a repair."""
    for seed in range(10):
        g = np.random.default_rng(seed)
        scores = 1 / (1 + np.exp(3 - g.normal(size=6_000)))
        y = (g.random(6_000) < scores).astype(int)
        result = epiloss.audit(y, scores, subgroups=g.integers(300, size=6_000), rule="log")
        assert result.verdict.kind != REPAIR
        assert any("join subgroups" in one for one in result.remarks)


def test_an_infinite_score_is_told_in_words() -> None:
    y, scores = np.tile([0, 1], 500), np.tile([0.3, 0.7, 0.0, 0.0], 250)
    result = epiloss.audit(y, scores, rule="log")
    assert "the score is infinite" in str(result.verdict)
    assert "inf of" not in str(result)
