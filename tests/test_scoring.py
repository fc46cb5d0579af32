from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule, resolve_rule

LAW = settings(deadline=None, derandomize=True, max_examples=50)


def binary_entropy(p: Floats) -> Floats:
    safe = np.clip(p, 1e-300, 1)
    rest = np.clip(1 - p, 1e-300, 1)
    return -p * np.log(safe) - (1 - p) * np.log(rest)


SPHERICAL = ScoringRule.from_entropy(lambda p: 1 - np.sqrt(p**2 + (1 - p) ** 2), name="spherical")
BOOSTING = ScoringRule.from_entropy(
    lambda p: np.sqrt(p * (1 - p)),
    slope=lambda p: (1 - 2 * p) / np.sqrt(np.maximum(4 * p * (1 - p), 1e-300)),
    name="boosting",
)
POWER = ScoringRule.from_entropy(lambda p: 1 - p**4 - (1 - p) ** 4, name="power")
RULES: dict[str, ScoringRule] = {
    "brier": Brier(),
    "log": LogLoss(),
    "class-log": ClassLogLoss(),
    "spherical": SPHERICAL,
    "boosting": BOOSTING,
    "power": POWER,
}
INNER = np.linspace(0.01, 0.99, 99)
PROBABILITIES = st.floats(0.001, 0.999)

each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def expectation(values: Floats, n: int, q: float) -> float:
    """Return the exact mean of ``values[t]`` over a binomial ``t`` of ``n`` trials."""
    return float(binom.pmf(np.arange(n + 1), n, q) @ values)


@each_rule
def test_divergence_is_zero_only_at_equality(rule: ScoringRule) -> None:
    p, q = np.meshgrid(INNER, INNER)
    divergence = rule.divergence(p, q)
    same = p == q
    assert np.all(divergence[~same] > 1e-6)
    np.testing.assert_allclose(divergence[same], 0, atol=1e-15)


@each_rule
@given(p=PROBABILITIES, q=PROBABILITIES)
@LAW
def test_the_expected_score_never_beats_the_entropy_of_the_truth(
    rule: ScoringRule, p: float, q: float
) -> None:
    # before the divergence clips it: a numerical slope may be wrong by its own rounding, not more
    assert float(rule.expected(p, q) - rule.entropy(q)) >= -1e-9
    assert float(rule.divergence(p, q)) >= 0


@each_rule
@pytest.mark.parametrize("end", [0.0, 1.0])
def test_the_divergence_of_a_certainty_from_itself_is_zero(rule: ScoringRule, end: float) -> None:
    assert float(rule.divergence(end, end)) == 0


@each_rule
@given(p=PROBABILITIES, q=PROBABILITIES, r=PROBABILITIES, share=st.floats(0, 1))
@LAW
def test_the_expected_score_is_linear_in_the_truth(
    rule: ScoringRule, p: float, q: float, r: float, share: float
) -> None:
    mixed = rule.expected(p, share * q + (1 - share) * r)
    parts = share * rule.expected(p, q) + (1 - share) * rule.expected(p, r)
    assert float(mixed) == pytest.approx(float(parts), abs=1e-12)


@each_rule
@given(p=PROBABILITIES, q=PROBABILITIES)
@LAW
def test_the_expected_score_is_the_mean_loss_over_the_outcomes(
    rule: ScoringRule, p: float, q: float
) -> None:
    mean = q * rule.loss(p, 1) + (1 - q) * rule.loss(p, 0)
    assert float(rule.expected(p, q)) == pytest.approx(float(mean), abs=1e-12)


@each_rule
def test_no_prediction_scores_better_than_the_truth(rule: ScoringRule) -> None:
    p, q = np.meshgrid(INNER, INNER)
    np.testing.assert_array_equal(rule.expected(p, q).argmin(axis=1), np.arange(len(INNER)))


@each_rule
def test_the_expected_score_of_the_truth_is_its_entropy(rule: ScoringRule) -> None:
    p = np.linspace(0, 1, 101)
    np.testing.assert_allclose(rule.expected(p, p), rule.entropy(p), atol=1e-15)


@each_rule
def test_shapes_follow_the_broadcast_of_the_arguments(rule: ScoringRule) -> None:
    p, q = INNER[:, None], INNER[None, :5]
    assert rule.expected(p, q).shape == (99, 5)
    assert rule.divergence(p, q).shape == (99, 5)
    assert rule.expected(0.5, 0.25).shape == ()
    assert rule.pair_entropy(p, q).shape == (99, 5)


@pytest.mark.parametrize(
    ("known", "custom"),
    [
        (Brier(), ScoringRule.from_entropy(lambda p: p * (1 - p))),
        (Brier(), ScoringRule.from_entropy(lambda p: p * (1 - p), slope=lambda p: 1 - 2 * p)),
        (LogLoss(), ScoringRule.from_entropy(binary_entropy)),
        (LogLoss(), ScoringRule.from_entropy(binary_entropy, slope=lambda p: np.log((1 - p) / p))),
    ],
    ids=["brier", "brier with slope", "log", "log with slope"],
)
def test_a_rule_made_from_a_known_entropy_is_the_known_rule(
    known: ScoringRule, custom: ScoringRule
) -> None:
    p, q = np.meshgrid(INNER, INNER)
    np.testing.assert_allclose(custom.entropy(p), known.entropy(p), atol=1e-14)
    np.testing.assert_allclose(custom.expected(p, q), known.expected(p, q), atol=1e-5)
    np.testing.assert_allclose(custom.divergence(p, q), known.divergence(p, q), atol=1e-5)
    T, n = np.arange(21.0), np.full(21, 20.0)
    np.testing.assert_allclose(custom.debiased_entropy(T, n), known.debiased_entropy(T, n), atol=1e-12)


def test_a_given_slope_makes_the_known_rule_to_rounding() -> None:
    p, q = np.meshgrid(INNER, INNER)
    custom = ScoringRule.from_entropy(binary_entropy, slope=lambda p: np.log((1 - p) / p))
    np.testing.assert_allclose(custom.expected(p, q), LogLoss().expected(p, q), atol=1e-13)


@given(n=st.integers(2, 500), part=st.floats(0, 1))
@LAW
def test_the_jackknife_is_the_unbiased_form_for_the_brier_score(n: int, part: float) -> None:
    T = round(part * n)
    jackknife = ScoringRule.debiased_entropy(Brier(), T, n)
    assert float(Brier().debiased_entropy(T, n)) == pytest.approx(float(jackknife), abs=1e-11)
    assert float(Brier().debiased_entropy(T, n)) == pytest.approx(T * (n - T) / (n * (n - 1)), abs=1e-15)


@pytest.mark.parametrize("n", [2, 3, 7, 20])
@pytest.mark.parametrize("q", [0.03, 0.3, 0.5, 0.92])
def test_the_debiased_brier_entropy_is_exactly_unbiased(n: int, q: float) -> None:
    estimates = Brier().debiased_entropy(np.arange(n + 1), n)
    assert expectation(estimates, n, q) == pytest.approx(q * (1 - q), abs=1e-14)


@pytest.mark.parametrize(
    "rule", [LogLoss(), ClassLogLoss(), SPHERICAL, POWER], ids=lambda rule: rule.name
)
@pytest.mark.parametrize("n", [20, 50, 100])
@pytest.mark.parametrize("q", [0.1, 0.3, 0.5, 0.8])
def test_the_jackknife_bias_is_much_smaller_than_the_plugin_bias(
    rule: ScoringRule, n: int, q: float
) -> None:
    T, truth = np.arange(n + 1), float(rule.entropy(q))
    plugin = expectation(rule.entropy(T / n), n, q) - truth
    jackknife = expectation(rule.debiased_entropy(T, n), n, q) - truth
    assert plugin < 0
    assert abs(jackknife) < abs(plugin) / 6


def test_the_jackknife_bias_of_the_log_loss_falls_faster_than_one_over_n() -> None:
    rule, q = LogLoss(), 0.3
    biases = [
        expectation(rule.debiased_entropy(np.arange(n + 1), n), n, q) - float(rule.entropy(q))
        for n in (25, 100, 400)
    ]
    assert abs(biases[1]) < abs(biases[0]) / 12
    assert abs(biases[2]) < abs(biases[1]) / 12


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 30, 100])
@pytest.mark.parametrize("q", [0.001, 0.02, 0.1, 0.3, 0.5, 0.75, 0.99])
def test_the_conservative_entropies_enclose_the_truth_in_expectation(n: int, q: float) -> None:
    T, truth = np.arange(n + 1), float(LogLoss().entropy(q))
    low = expectation(LogLoss().conservative_entropy(T, n, upper=False), n, q)
    high = expectation(LogLoss().conservative_entropy(T, n, upper=True), n, q)
    rounding = 1e-14
    assert low <= truth + rounding
    assert high >= truth - rounding


@pytest.mark.parametrize("n", [30, 100])
def test_the_conservative_entropies_are_close_where_counts_are_not_tiny(n: int) -> None:
    T, truth = np.arange(n + 1), float(LogLoss().entropy(0.4))
    for upper in (False, True):
        mean = expectation(LogLoss().conservative_entropy(T, n, upper=upper), n, 0.4)
        assert mean == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_the_log_loss_is_finite_at_the_ends_wherever_its_limit_is(end: float) -> None:
    rule = LogLoss()
    assert float(rule.entropy(end)) == 0
    assert float(rule.loss(end, end)) == 0
    assert float(rule.loss(end, 1 - end)) == np.inf
    assert float(rule.divergence(end, 0.5)) == np.inf
    assert float(rule.divergence(0.5, end)) == pytest.approx(np.log(2), abs=1e-15)
    assert np.isfinite(rule.debiased_entropy(np.array([0, 2, 2]), np.array([2, 2, 3]))).all()
    assert float(rule.pair_entropy(end, end)) == 0


def test_the_one_class_log_loss_is_finite_at_the_ends_wherever_its_limit_is() -> None:
    rule = ClassLogLoss()
    assert rule.entropy(np.array([0.0, 1.0])).tolist() == [0, 0]
    assert rule.loss(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0])).tolist() == [0, 1, 0]
    assert float(rule.loss(0.0, 1)) == np.inf


def random_simplex(n: int, n_classes: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    generator = np.random.default_rng(5)
    p, q = generator.dirichlet(np.ones(n_classes), size=(2, n))
    return p, q, generator.integers(n_classes, size=n)


def test_one_class_log_losses_add_up_to_the_multi_class_log_loss() -> None:
    p, q, y = random_simplex(200, 5)
    one_hot = np.eye(5)[y]
    rule = LogLoss().per_class()
    np.testing.assert_allclose(
        rule.loss(p, one_hot).sum(axis=1), -np.log(p[np.arange(200), y]), atol=1e-12
    )
    np.testing.assert_allclose(rule.entropy(p).sum(axis=1), -(p * np.log(p)).sum(axis=1), atol=1e-12)
    kullback_leibler = (q * np.log(q / p)).sum(axis=1)
    np.testing.assert_allclose(rule.divergence(p, q).sum(axis=1), kullback_leibler, atol=1e-12)


def test_with_two_classes_the_one_class_log_losses_add_up_to_the_binary_one() -> None:
    p, q = np.meshgrid(INNER, INNER)
    rule = ClassLogLoss()
    np.testing.assert_allclose(
        rule.expected(p, q) + rule.expected(1 - p, 1 - q), LogLoss().expected(p, q), atol=1e-13
    )


@pytest.mark.parametrize("rule", [Brier(), ClassLogLoss(), SPHERICAL], ids=lambda rule: rule.name)
def test_only_the_binary_log_loss_changes_for_one_class_among_several(rule: ScoringRule) -> None:
    assert rule.per_class() is rule
    assert isinstance(LogLoss().per_class(), ClassLogLoss)


@each_rule
def test_the_pair_entropy_of_equal_estimates_is_the_entropy(rule: ScoringRule) -> None:
    p = np.linspace(0, 1, 101)
    np.testing.assert_allclose(rule.pair_entropy(p, p), rule.entropy(p), atol=1e-15)
    np.testing.assert_array_equal(rule.pair_entropy(p, p[::-1]), rule.pair_entropy(p[::-1], p))


@given(a=st.floats(0, 1), b=st.floats(0, 1))
@LAW
def test_the_pair_entropy_of_the_brier_score_has_no_squares(a: float, b: float) -> None:
    assert float(Brier().pair_entropy(a, b)) == pytest.approx((a + b) / 2 - a * b, abs=1e-15)


@pytest.mark.parametrize("rule", [Brier(), LogLoss(), SPHERICAL], ids=lambda rule: rule.name)
def test_the_pair_entropy_is_free_of_independent_noise(rule: ScoringRule) -> None:
    n, q = 60, 0.3
    chance = binom.pmf(np.arange(n + 1), n, q)
    estimate = np.arange(n + 1) / n
    pairs = rule.pair_entropy(estimate[:, None], estimate[None, :])
    truth = float(rule.entropy(q))
    plugin = float(chance @ rule.entropy(estimate)) - truth
    pair = float(chance @ pairs @ chance) - truth
    assert abs(pair) < abs(plugin) / 10


@pytest.mark.parametrize(("name", "rule"), [("brier", Brier), ("log", LogLoss)])
def test_a_short_hand_names_its_rule(name: str, rule: type[ScoringRule]) -> None:
    assert isinstance(resolve_rule(name), rule)
    assert resolve_rule(name).name == name


def test_a_rule_stands_for_itself() -> None:
    assert resolve_rule(SPHERICAL) is SPHERICAL


@pytest.mark.parametrize("wrong", ["hinge", "Brier", "", None, 3, ["brier"], Brier])
def test_an_unknown_rule_is_named_with_the_known_ones(wrong: object) -> None:
    with pytest.raises(OptionError, match=r"rule must be 'brier', 'log' or a ScoringRule, got"):
        resolve_rule(wrong)  # type: ignore[arg-type]


def test_an_unknown_rule_is_repeated_in_the_message() -> None:
    with pytest.raises(OptionError, match=r"got 'hinge'\. Define your own with ScoringRule"):
        resolve_rule("hinge")


def test_a_convex_function_is_refused_as_an_entropy() -> None:
    with pytest.raises(OptionError, match=r"'square' must be concave on .* got one that is convex at 0"):
        ScoringRule.from_entropy(lambda p: p**2, name="square")


def test_a_function_that_bends_upwards_somewhere_is_refused_with_the_place() -> None:
    # concave but for a dent around 0.7
    with pytest.raises(OptionError, match=r"convex at 0\.7"):
        ScoringRule.from_entropy(lambda p: p * (1 - p) - 0.1 * np.exp(-(((p - 0.7) / 0.05) ** 2)))


@pytest.mark.parametrize(
    "wrong",
    [lambda p: np.where(p > 0, p, np.nan), lambda p: np.float64(0.2), lambda p: p[:3]],
    ids=["nan", "scalar", "another length"],
)
def test_an_entropy_must_give_as_many_finite_values(wrong: object) -> None:
    with pytest.raises(OptionError, match="finite values of the same shape"):
        ScoringRule.from_entropy(wrong)  # type: ignore[arg-type]


def test_a_linear_entropy_is_concave_enough() -> None:
    # proper, though not strictly
    assert float(ScoringRule.from_entropy(lambda p: 2 * p).divergence(0.1, 0.9)) == pytest.approx(0)
