"""The verdict: each branch of its table, with intervals that straddle what matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import epiloss
from epiloss.auditing.judgement import BORDERLINE, BOTH, FINE, RECALIBRATE, REPAIR, SMALL, UNCLEAR
from epiloss.auditing.result import Audit
from epiloss.auditing.verdict import _with_gap as with_gap
from epiloss.auditing.verdict import verdict
from epiloss.estimate import Estimate
from epiloss.input.problem import RegionSource
from epiloss.partition import Tree
from epiloss.simulate import Sigmoid

ACTED_ON = (RECALIBRATE, REPAIR, BOTH)


@pytest.fixture(scope="module")
def base() -> Audit:
    sample = Sigmoid(perturbation="step").sample(4_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X, method="partition", n_bins=5)
    # 0.0025 matters, standard errors are those of the estimates, and they do not grow with the loss
    return replace(result, uninformed=0.25, influence={}, n_samples=400_000)


def loss(value: float, stderr: float) -> Estimate:
    pvalue = 0.001 if value > 1.645 * stderr else 0.4
    return Estimate(value, stderr, value - 2 * stderr, value + 2 * stderr, pvalue)


def judged(base: Audit, grouping: Estimate, calibration: Estimate) -> Audit:
    return replace(base, grouping_loss=grouping, calibration_loss=replace(calibration, pvalue=None))


LARGE, NONE, A_LITTLE = loss(0.01, 0.001), loss(0.0, 0.0005), loss(0.001, 0.0002)
HALF, UNSURE, AROUND = loss(0.0018, 0.0002), loss(0.003, 0.002), loss(0.0024, 0.0004)


@pytest.mark.parametrize(
    ("grouping", "calibration", "kind"),
    [
        (LARGE, NONE, REPAIR),
        (LARGE, LARGE, BOTH),
        (LARGE, A_LITTLE, REPAIR),
        (LARGE, UNSURE, REPAIR),
        (NONE, LARGE, RECALIBRATE),
        (UNSURE, LARGE, RECALIBRATE),
        (A_LITTLE, LARGE, RECALIBRATE),
        (HALF, HALF, BOTH),  # neither matters, but their sum does
        (LARGE, HALF, REPAIR),  # without the larger, the other does not matter
        (HALF, LARGE, RECALIBRATE),
        (HALF, NONE, BORDERLINE),
        (NONE, NONE, FINE),
        (A_LITTLE, NONE, SMALL),
        (NONE, A_LITTLE, SMALL),
        (A_LITTLE, A_LITTLE, SMALL),
        (AROUND, NONE, BORDERLINE),
        (NONE, AROUND, BORDERLINE),
        (UNSURE, NONE, UNCLEAR),
        (NONE, UNSURE, UNCLEAR),
    ],
)
def test_every_branch(base: Audit, grouping: Estimate, calibration: Estimate, kind: str) -> None:
    result = verdict(judged(base, grouping, calibration))
    assert result.kind == kind
    assert result.matters == pytest.approx(0.0025)
    assert str(result).endswith(".")
    assert (result.rows is not None) == (kind == UNCLEAR)


def test_a_little_more_of_a_loss_never_makes_the_verdict_milder(base: Audit) -> None:
    """As the sum grows, at an equal error, verdicts go from fine to action and never back."""
    order = [FINE, SMALL, UNCLEAR, BORDERLINE, *ACTED_ON]
    for stderr in (0.0001, 0.0004, 0.001):
        kinds = [
            verdict(judged(base, loss(value, stderr), loss(value / 3, stderr))).kind
            for value in np.linspace(0, 0.01, 60)
        ]
        assert kinds[-1] in ACTED_ON
        places = [min(order.index(kind), 4) for kind in kinds]
        assert places == sorted(places)


def test_the_sentence_tells_the_size_its_interval_and_what_would_matter(base: Audit) -> None:
    repair = str(verdict(judged(base, LARGE, NONE)))
    assert "vary by at least 10.0 points (root mean square; 95% interval 8.9 to 11.0)" in repair
    for kind in (A_LITTLE, AROUND, NONE, UNSURE):
        assert "errors above 5.0 points matter" in str(verdict(judged(base, kind, NONE)))


def test_a_grouping_loss_that_is_left_after_recalibration_is_told(base: Audit) -> None:
    told = str(judged(base, HALF, LARGE).verdict)
    assert "Among rows with equal scores, probabilities are off by at least 4.2 points" in told
    assert "More rows" not in told
    assert "errors above 5.0 points matter" in told


def test_the_larger_part_comes_first(base: Audit) -> None:
    enough = loss(0.003, 0.0002)
    assert str(verdict(judged(base, LARGE, enough))).startswith("Repair and recalibrate: at equal")
    assert str(verdict(judged(base, enough, LARGE))).startswith("Recalibrate and repair: scores")


def test_the_first_segment_is_named() -> None:
    sample = Sigmoid(perturbation="step").sample(6_000)
    X = {"age": sample.X[:, 0], "income": sample.X[:, 1]}
    result = epiloss.audit(sample.y, sample.scores, X)
    assert result.verdict.kind == REPAIR
    assert f"Costliest segment: {result.segments[0].description} (" in result.verdict.sentence


def test_a_bound_that_lies_below_zero_tells_nothing(base: Audit) -> None:
    vacuous = verdict(judged(base, loss(-0.01, 0.001), NONE))
    assert vacuous.kind == UNCLEAR
    assert "cannot be estimated this way" in str(vacuous)
    assert "method='twin'" in str(vacuous)
    measured = replace(judged(base, loss(-0.01, 0.001), NONE), twin_estimate=loss(-0.01, 0.001))
    assert verdict(measured).kind == FINE


def test_too_little_data_says_how_many_rows_would_tell(base: Audit) -> None:
    few = replace(judged(base, loss(0.0, 0.005), NONE), n_samples=1_000)
    rows = verdict(few).rows
    assert rows is not None
    # 1.645 errors of 0.005 must become 0.0025: 10.8 times the rows, and a fifth more
    assert 12_500 < rows <= 14_000
    assert f"{rows:,}" in str(verdict(few))


def test_so_many_rows_do_tell() -> None:
    sample = Sigmoid(perturbation="step", grouping=0.4).sample(200, random_state=3)
    few = epiloss.audit(sample.y, sample.scores, sample.X).verdict
    assert few.kind == UNCLEAR
    assert few.rows is not None
    more = Sigmoid(perturbation="step", grouping=0.4).sample(min(few.rows, 20_000), random_state=4)
    assert epiloss.audit(more.y, more.scores, more.X).verdict.kind in (REPAIR, BORDERLINE)


def test_a_calibrated_score_without_groups_is_fine() -> None:
    sample = Sigmoid(grouping=0.0).sample(20_000)
    assert epiloss.audit(sample.y, sample.scores, sample.X).verdict.kind == FINE


def test_an_overconfident_score_without_groups_is_to_be_recalibrated() -> None:
    sample = Sigmoid(grouping=0.0, miscalibration=2.0).sample(20_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X).verdict
    assert result.kind == RECALIBRATE
    assert "scores differ from observed rates by 7." in result.sentence


def test_a_loss_without_an_interval_is_judged_by_its_value(base: Audit) -> None:
    infinite = replace(base, calibration_loss=Estimate(float("inf")), grouping_loss=NONE)
    assert verdict(infinite).kind == RECALIBRATE
    found = verdict(replace(infinite, grouping_loss=LARGE))
    assert found.kind == BOTH
    assert found.sentence.startswith("Recalibrate and repair: the score is infinite")


def test_names_from_the_data_cannot_steer_the_terminal() -> None:
    sample = Sigmoid(perturbation="step").sample(3_000)
    names = {"\x1b[31mage\n": sample.X[:, 0], "b": sample.X[:, 1]}
    result = epiloss.audit(sample.y, sample.scores, names, method="partition", n_bins=5)
    text = str(result)
    assert "age" in text
    assert "\x1b" not in text


def test_the_rows_that_are_asked_for_come_to_an_end() -> None:
    sample = epiloss.simulate.MultiClass(n_classes=3).sample(20_000)
    n, told = 3_000, None
    for _ in range(3):
        told = epiloss.audit(
            sample.y[:n], sample.scores[:n], sample.X[:n], task="classwise", rule="log"
        ).verdict
        n = min(told.rows or n, 20_000)
    assert told is not None
    assert told.kind in ACTED_ON


def test_subgroups_are_not_called_features(base: Audit) -> None:
    given = replace(base, region_source=RegionSource.SUBGROUPS)
    for calibration in (NONE, LARGE):
        result = judged(given, NONE, calibration)
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
    assert "rows would settle it" not in str(epiloss.audit(sample.y, sample.scores, sample.X).verdict)


def test_few_rows_are_not_called_fine_where_regions_are_to_be_learned() -> None:
    """A loss that matters, 0.0025 beside a score of 0.083, is learned from 3,300 rows."""
    sample = Sigmoid(grouping=0.0).sample(3_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X)
    assert (result.grouping_loss.high or 1) < result.verdict.matters
    assert result.verdict.kind == UNCLEAR
    assert "About 4,100 rows would settle it" in str(result.verdict)
    groups = np.where(sample.X[:, 0] > sample.X[:, 1], "a", "b")
    assert epiloss.audit(sample.y, sample.scores, subgroups=groups, n_bins=5).verdict.kind == FINE


def test_an_infinite_score_asks_for_no_number_of_rows(base: Audit) -> None:
    infinite = replace(base, score=Estimate(float("inf")), grouping_loss=NONE, calibration_loss=NONE)
    assert verdict(infinite).rows is None


def test_by_the_log_loss_regions_of_a_rare_outcome_do_not_decide() -> None:
    """One sample without grouping loss, of which small regions explain a loss that is not there."""
    g = np.random.default_rng(0)
    X = g.normal(size=(30_000, 4))
    s = 1 / (1 + np.exp(5 - X[:, 0]))
    y = (g.random(len(s)) < s).astype(int)
    result = epiloss.audit(y, s, X, rule="log", strategy="quantile")
    assert result.partition_bound.value > result.verdict.matters / 10
    assert result.verdict.kind not in (REPAIR, BOTH)
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
        assert result.verdict.kind not in (REPAIR, BOTH)
        assert any("Merge subgroups" in one for one in result.remarks)


def test_an_infinite_score_is_told_in_words() -> None:
    y, scores = np.tile([0, 1], 500), np.tile([0.3, 0.7, 0.0, 0.0], 250)
    result = epiloss.audit(y, scores, rule="log")
    assert "Recalibrate: the score is infinite" in str(result.verdict)
    assert "inf of" not in str(result)


def test_a_loss_between_subgroups_counts_though_the_features_do_not_show_it() -> None:
    sample = Sigmoid(perturbation="step").sample(4_000)
    side = np.where(sample.X[:, 0] > sample.X[:, 1], "left", "right")
    noise = np.random.default_rng(0).normal(size=4_000)
    result = epiloss.audit(sample.y, sample.scores, noise, subgroups={"side": side})
    assert (result.grouping_loss.pvalue or 0) > 0.05
    assert result.verdict.kind == REPAIR
    assert "Clearest gap: side = " in str(result.verdict)


def test_a_subgroup_that_costs_more_than_every_segment_is_named() -> None:
    sample = Sigmoid(perturbation="step").sample(4_000)
    X = {"a": sample.X[:, 0], "b": sample.X[:, 1]}
    wrong = np.where(sample.q > sample.c + 0.1, "yes", "no")
    found = epiloss.audit(sample.y, sample.scores, X, subgroups={"wrong": wrong})
    gaps, first = found.subgroup_gaps["wrong"], found.segments[0]
    costs = gaps["n"] * gaps["gap"] ** 2
    assert costs.max() > first.n * first.gap**2
    assert f"Clearest gap: wrong = {gaps['subgroup'][np.argmax(costs)]} (" in str(found.verdict)


def test_by_the_log_loss_sizes_are_shares_of_it(base: Audit) -> None:
    by_log = replace(base, rule="log", twin_estimate=LARGE)
    for grouping, calibration, told in (
        (LARGE, NONE, "equal scores cost 0.0100 of the log-loss (95% interval 0.0080 to 0.0120)"),
        (NONE, LARGE, "scores that differ from observed rates cost 0.0100"),
        (NONE, NONE, "errors cost at most 0.0012 of the log-loss"),
        (UNSURE, NONE, "errors may cost up to"),
    ):
        assert told in str(verdict(judged(by_log, grouping, calibration)))


def test_it_is_said_which_loss_is_there(base: Audit) -> None:
    assert "there is a grouping loss (p = 0.001)" in str(verdict(judged(base, AROUND, NONE)))
    assert "there is a calibration loss" in str(verdict(judged(base, NONE, AROUND)))


def test_gaps_that_cancel_do_not_contradict_the_loss_between_subgroups() -> None:
    """Of scores below 0.5 one group has too many outcomes, above 0.5 too few: its gap is about 0."""
    rng = np.random.default_rng(0)
    scores, group = rng.choice([0.3, 0.7], 4_000), rng.choice(["a", "b"], 4_000)
    shift = np.where(group == "a", 0.12, -0.12) * np.where(scores < 0.5, 1, -1)
    y = (rng.random(4_000) < scores + shift).astype(int)
    result = epiloss.audit(y, scores, rng.normal(size=(4_000, 2)), subgroups={"side": group})
    assert (result.subgroup_gaps["side"]["pvalue_adjusted"] > 0.05).all()
    assert (result.subgroups["side"].grouping_loss.pvalue or 0) < 0.001
    cancel = "differences at low and at high scores can cancel in it"
    assert cancel in str(result)
    clear = epiloss.audit(
        (rng.random(4_000) < scores + np.abs(shift) * np.sign(shift * (0.5 - scores))).astype(int),
        scores,
        rng.normal(size=(4_000, 2)),
        subgroups={"side": group},
    )
    assert (clear.subgroup_gaps["side"]["pvalue_adjusted"] < 0.05).all()
    assert cancel not in str(clear)


def test_gaps_of_rare_outcomes_have_enough_digits() -> None:
    row = {"name": "a", "n": 9_000, "gap": 0.00035, "low": 0.0002, "high": 0.0005}
    assert "under-predicted by 0.035 points, 95% interval 0.020 to 0.050" in with_gap(row, 0.95)
