from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.scoring import ScoringRule, resolve_rule
from epiloss.simulate import Link, MultiClass, Problem, Sample, Sigmoid, Truth, problems

SPHERICAL = ScoringRule.from_entropy(
    lambda p: 1 - np.sqrt(p**2 + (1 - p) ** 2),
    slope=lambda p: (1 - 2 * p) / np.sqrt(p**2 + (1 - p) ** 2),
    name="spherical",
)
RULES: dict[str, ScoringRule] = {
    "brier": resolve_rule("brier"),
    "log": resolve_rule("log"),
    "spherical": SPHERICAL,
}
PROBLEMS = problems()
BINARY = [name for name, problem in PROBLEMS.items() if not isinstance(problem, MultiClass)]
MULTI = [name for name, problem in PROBLEMS.items() if isinstance(problem, MultiClass)]


@cache
def large_sample(name: str) -> Sample:
    return PROBLEMS[name].sample(400_000, random_state=20)


def multi_class(name: str) -> MultiClass:
    problem = PROBLEMS[name]
    assert isinstance(problem, MultiClass)
    return problem


def top_label(sample: Sample) -> Sample:
    top = sample.scores.argmax(axis=1)
    rows = np.arange(len(top))
    y = (sample.y == top).astype(np.int64)
    return Sample(sample.X, y, *(p[rows, top] for p in (sample.scores, sample.q, sample.c)))


def assert_mean(values: Floats, expected: float) -> None:
    """Allow four standard errors of the mean, which chance exceeds once in 16,000 times."""
    per_row = values if values.ndim == 1 else values.sum(axis=1)
    error = per_row.std() / np.sqrt(len(per_row))
    assert abs(per_row.mean() - expected) <= 4 * error + 1e-12


def assert_truth_is_the_mean(truth: Truth, sample: Sample, rule: ScoringRule) -> None:
    y = sample.y if sample.scores.ndim == 1 else np.eye(sample.scores.shape[1])[sample.y]
    assert_mean(rule.divergence(sample.scores, sample.c), truth.calibration_loss)
    assert_mean(rule.divergence(sample.c, sample.q), truth.grouping_loss)
    assert_mean(rule.entropy(sample.q), truth.irreducible_loss)
    assert_mean(rule.loss(sample.scores, y), truth.score)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", BINARY)
def test_the_truth_is_what_a_large_sample_averages_to(name: str, rule: str) -> None:
    truth = PROBLEMS[name].truth(RULES[rule])
    assert_truth_is_the_mean(truth, large_sample(name), RULES[rule])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", MULTI)
def test_the_top_label_truth_is_what_a_large_sample_averages_to(name: str, rule: str) -> None:
    truth = multi_class(name).truth(RULES[rule], task="top-label")
    assert_truth_is_the_mean(truth, top_label(large_sample(name)), RULES[rule])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", MULTI)
def test_the_classwise_truth_sums_the_means_of_the_classes(name: str, rule: str) -> None:
    truth = multi_class(name).truth(RULES[rule], task="classwise")
    assert_truth_is_the_mean(truth, large_sample(name), RULES[rule].per_class())


@pytest.mark.parametrize(
    ("problem", "grouping_loss"),
    [
        (Link("square"), 1 / 30),
        (Link("double"), 1 / 12),
        (Link("plateau"), 1 / 48),
        (Link("half-step"), 1 / 24),
    ],
)
def test_links_recover_their_closed_form(problem: Problem, grouping_loss: float) -> None:
    truth = problem.truth()
    assert truth.grouping_loss == pytest.approx(grouping_loss, abs=1e-12)
    assert truth.calibration_loss == 0
    assert truth.score == pytest.approx(1 / 6, abs=1e-12)


def test_the_double_link_shares_its_log_loss_equally() -> None:
    # the binary entropy integrates to 1/2 over (0, 1), and to half of it on each side
    truth = Link("double").truth("log")
    assert truth.grouping_loss == pytest.approx(1 / 4, abs=1e-11)
    assert truth.irreducible_loss == pytest.approx(1 / 4, abs=1e-11)


@pytest.mark.parametrize(
    ("problem", "grouping_loss"),
    [
        (Sigmoid(), 58.6239e-4),
        (Sigmoid(perturbation="step"), 337.8586e-4),
        (Sigmoid(dimension=10, n_noise=3), 58.6239e-4),
    ],
)
def test_sigmoids_recover_their_known_grouping_loss(problem: Problem, grouping_loss: float) -> None:
    assert problem.truth().grouping_loss == pytest.approx(grouping_loss, abs=1e-8)


def test_a_narrow_smooth_perturbation_tends_to_the_step() -> None:
    step = Sigmoid(perturbation="step").truth("log").grouping_loss
    gaps = [step - Sigmoid(width=w).truth("log").grouping_loss for w in (0.1, 0.01, 0.001)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 3e-4


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_calibrated_score_is_the_mean_truth_of_a_score_bin(name: str) -> None:
    sample = large_sample(name)
    columns = (sample.scores, sample.c, sample.q)
    views = [columns] if sample.q.ndim == 1 else list(zip(*(a.T for a in columns), strict=True))
    if sample.q.ndim == 2:
        top = top_label(sample)
        views.append((top.scores, top.c, top.q))
    for scores, c, q in views:
        level_set = np.minimum((scores * 100).astype(int), 99)
        n = np.bincount(level_set, minlength=100)
        gap = np.bincount(level_set, q - c, minlength=100)
        spread = np.sqrt(np.bincount(level_set, (q - c) ** 2, minlength=100))
        assert np.all(np.abs(gap) <= 4.5 * spread + 1e-9 * n)


@pytest.mark.parametrize("name", [n for n in PROBLEMS if "confident" not in n])
def test_problems_are_calibrated_unless_their_name_says_otherwise(name: str) -> None:
    sample = PROBLEMS[name].sample(1000)
    np.testing.assert_array_equal(sample.scores, sample.c)
    assert PROBLEMS[name].truth("log").calibration_loss == 0


@pytest.mark.parametrize("name", PROBLEMS)
def test_probabilities_are_probabilities_and_labels_are_classes(name: str) -> None:
    sample = large_sample(name)
    for p in (sample.scores, sample.c, sample.q):
        assert p.min() >= 0
        assert p.max() <= 1
        if p.ndim == 2:
            np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    n_classes = 2 if sample.q.ndim == 1 else sample.q.shape[1]
    np.testing.assert_array_equal(np.unique(sample.y), np.arange(n_classes))
    assert sample.X.dtype == np.float64
    assert sample.X.ndim == 2


@pytest.mark.parametrize("name", MULTI)
def test_labels_follow_the_truth_in_every_class(name: str) -> None:
    sample = large_sample(name)
    for k, q in enumerate(sample.q.T):
        assert_mean((sample.y == k) - q, 0.0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(name: str) -> None:
    problem = PROBLEMS[name]
    first, again = problem.sample(100, random_state=3), problem.sample(100, random_state=3)
    for field in ("X", "y", "scores", "q", "c"):
        np.testing.assert_array_equal(getattr(first, field), getattr(again, field))
    generator = problem.sample(100, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(first.y, generator.y)
    assert not np.array_equal(first.X, problem.sample(100, random_state=4).X)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("miscalibration", [0.5, 2.0])
def test_miscalibration_adds_calibration_loss_and_leaves_the_rest(
    rule: str, miscalibration: float
) -> None:
    calibrated = Sigmoid().truth(RULES[rule])
    reported = Sigmoid(miscalibration=miscalibration).truth(RULES[rule])
    assert reported.calibration_loss > 1e-3
    assert reported.grouping_loss == pytest.approx(calibrated.grouping_loss, abs=1e-11)
    assert reported.irreducible_loss == pytest.approx(calibrated.irreducible_loss, abs=1e-11)


@pytest.mark.parametrize("rule", RULES)
def test_no_grouping_means_no_grouping_loss(rule: str) -> None:
    for problem in (Sigmoid(grouping=0.0), MultiClass(grouping=0.0)):
        assert problem.truth(RULES[rule]).grouping_loss == 0
    joint = MultiClass(grouping=0.0).truth(RULES[rule], task="joint")
    assert joint.grouping_loss == pytest.approx(0, abs=1e-15)


def test_brier_grouping_loss_grows_with_the_square_of_grouping() -> None:
    for whole, half in (
        (Sigmoid().truth(), Sigmoid(grouping=0.5).truth()),
        (MultiClass(grouping=1.0).truth(), MultiClass(grouping=0.5).truth()),
    ):
        assert whole.grouping_loss == pytest.approx(4 * half.grouping_loss, rel=1e-12)
        assert whole.score == pytest.approx(half.score, rel=1e-12)


@pytest.mark.parametrize(
    "name",
    ["link-plateau", "sigmoid-smooth-optimal-accuracy", "sigmoid-step-optimal-accuracy"],
)
def test_optimal_accuracy_keeps_truth_and_score_on_one_side_of_one_half(name: str) -> None:
    sample = large_sample(name)
    assert np.all((sample.q - 0.5) * (sample.scores - 0.5) >= 0)


def test_an_opposite_intercept_mirrors_the_problem() -> None:
    for rule in RULES.values():
        low, high = (Sigmoid(intercept=b, miscalibration=1.5).truth(rule) for b in (-4.0, 4.0))
        assert low.calibration_loss == pytest.approx(high.calibration_loss, abs=1e-9)
        assert low.grouping_loss == pytest.approx(high.grouping_loss, abs=1e-9)
        assert low.score == pytest.approx(high.score, abs=1e-9)


def test_features_have_the_stated_variance_and_give_the_stated_score() -> None:
    sample = Sigmoid(dimension=5, n_noise=2, variance=10.0).sample(200_000)
    u = np.append(np.ones(5), [0, 0]) / np.sqrt(5)
    expected = np.eye(7) + 9 * np.outer(u, u)
    np.testing.assert_allclose(np.cov(sample.X.T), expected, atol=0.1)
    np.testing.assert_allclose(sample.scores, expit(np.sqrt(2) * sample.X @ u), atol=1e-12)


def test_in_two_dimensions_the_logit_is_the_sum_of_the_features() -> None:
    sample = Sigmoid().sample(1000)
    np.testing.assert_allclose(sample.scores, expit(sample.X.sum(axis=1)), atol=1e-12)


def test_a_link_scores_the_absolute_value_of_its_feature() -> None:
    sample = Link("half-step").sample(1000)
    np.testing.assert_array_equal(sample.scores, np.abs(sample.X[:, 0]))
    assert set(np.unique(sample.q)) <= {0.0, 0.5, 1.0}


@pytest.mark.parametrize("rule", RULES)
def test_with_two_classes_each_class_has_the_losses_of_the_top_label(rule: str) -> None:
    problem = MultiClass(n_classes=2, grouping=1.0)
    top, joint = (problem.truth(RULES[rule], task=task) for task in ("top-label", "joint"))
    share = 1 if rule == "log" else 2  # the one-class log-losses add up to the binary one
    assert joint.grouping_loss == pytest.approx(share * top.grouping_loss, abs=1e-11)
    assert joint.score == pytest.approx(share * top.score, abs=1e-11)


@pytest.mark.parametrize("rule", RULES)
def test_classwise_and_joint_losses_agree_where_every_class_is_calibrated(rule: str) -> None:
    problem = MultiClass(n_classes=4)
    assert problem.truth(RULES[rule], task="joint") == problem.truth(RULES[rule], task="classwise")


BAD_OPTIONS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (Link, {"link": "cube"}, "link must be one of 'square', .*, got 'cube'"),
    (Sigmoid, {"perturbation": "jump"}, "perturbation must be one of 'smooth', 'step', got 'jump'"),
    (Sigmoid, {"dimension": 1}, "dimension must be at least 2, got 1"),
    (Sigmoid, {"width": 0.0}, "width must be between 0.001 and 1000, got 0.0"),
    (Sigmoid, {"variance": np.nan}, "variance must be between 0.001 and 1000, got nan"),
    (Sigmoid, {"miscalibration": -1.0}, "miscalibration must be between 0.001 and 1000, got -1.0"),
    (Sigmoid, {"intercept": np.inf}, "intercept must be between -30 and 30, got inf"),
    (Sigmoid, {"grouping": 1.5}, "grouping must be between 0 and 1, got 1.5"),
    (MultiClass, {"n_classes": 1}, "n_classes must be at least 2, got 1"),
    (MultiClass, {"n_noise": -1}, "n_noise must be at least 0, got -1"),
    (
        MultiClass().truth,
        {"task": "binary"},
        "task must be one of 'top-label', 'classwise', 'joint', got 'binary'",
    ),
    (Sigmoid().truth, {"rule": "hinge"}, "rule must be"),
    (Sigmoid().sample, {"n": 0}, "n must be at least 1, got 0"),
]


@pytest.mark.parametrize(("make", "options", "message"), BAD_OPTIONS)
def test_a_bad_option_is_named_with_its_value(
    make: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        make(**options)
