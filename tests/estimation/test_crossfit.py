"""The bound without bins: where it stands, what it needs, and what copies and weights do to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import logit
from sklearn.tree import DecisionTreeRegressor

import epiloss
from epiloss._random import stream
from epiloss.estimation.crossfit.bound import Directions, cross_fitted_directions, crossfit_bound
from epiloss.estimation.crossfit.learners import Blend
from epiloss.estimation.crossfit.tilts import tilts_of
from epiloss.input.features import Features
from epiloss.scoring import Brier, LogLoss, ScoringRule
from epiloss.simulate import Sigmoid


class Oracle:
    """A learner that knows the truth: it returns the one feature it is given."""

    sharing = 1.0

    def prepare(self, features: Features, seed: int) -> Features:
        return features

    def fit(self, *_: object) -> Oracle:
        return self

    def predict(self, features: Features, scores: object) -> np.ndarray:
        return np.asarray(features.matrix[:, 0], float)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "best"),
    [(Brier(), lambda c, q: q - c), (LogLoss(), lambda c, q: logit(q) - logit(c))],
    ids=["brier", "log"],
)
def test_with_the_true_direction_the_bound_is_the_grouping_loss(
    rule: ScoringRule, best: Callable[..., np.ndarray]
) -> None:
    """60 repetitions of 2,000 rows: within 3 standard errors and, of the log-loss, 3% of the truth."""
    problem = Sigmoid(perturbation="step")
    values, truths = [], []
    for seed in range(60):
        sample = problem.sample(2_000, random_state=seed)
        c, q = np.clip([sample.c, sample.q], 1e-9, 1 - 1e-9)
        directions = cross_fitted_directions(
            Features.read(best(c, q)),
            sample.scores,
            sample.y.astype(float),
            rule=rule,
            learner=Oracle(),
            generator=np.random.default_rng(seed),
        )
        values.append(crossfit_bound(directions, 0.95).estimate.value)
        truths.append(rule.divergence(c, q).mean())
    truth = problem.truth().grouping_loss if isinstance(rule, Brier) else np.mean(truths)
    slack = 0.0 if isinstance(rule, Brier) else 0.03 * truth
    assert abs(np.mean(values) - truth) < 3 * np.std(values) / np.sqrt(60) + slack


def test_a_useless_direction_bounds_nothing() -> None:
    sample = Sigmoid(perturbation="step").sample(3_000)
    directions = cross_fitted_directions(
        Features.read(np.zeros(3_000)),
        sample.scores,
        sample.y.astype(float),
        rule=epiloss.Brier(),
        learner=Oracle(),
        generator=np.random.default_rng(0),
    )
    estimate = crossfit_bound(directions, 0.95).estimate
    assert (estimate.value, estimate.pvalue) == (0.0, 1.0)


def test_copies_told_to_be_copies_do_not_inflate_the_bound() -> None:
    sample = Sigmoid().sample(800)
    again = np.repeat(np.arange(800), 3)
    rows = (sample.y[again], sample.scores[again], sample.X[again])
    plain = epiloss.audit(sample.y, sample.scores, sample.X, method="crossfit", n_bins=5)
    blind = epiloss.audit(*rows, method="crossfit", n_bins=5)
    told = epiloss.audit(*rows, method="crossfit", n_bins=5, clusters=again)
    stderr = plain.grouping_loss.stderr
    assert stderr is not None
    assert abs(told.grouping_loss.value - plain.grouping_loss.value) < 3 * stderr
    assert blind.grouping_loss.value > told.grouping_loss.value + 3 * stderr


@pytest.mark.parametrize("n", [2, 5, 99])
def test_few_rows_are_left_to_the_regions(n: int) -> None:
    sample = Sigmoid().sample(200)
    rows = np.concatenate(
        [np.flatnonzero(sample.y == 0)[: n // 2], np.flatnonzero(sample.y == 1)[: n - n // 2]]
    )
    data = (sample.y[rows], sample.scores[rows], sample.X[rows])
    result = epiloss.audit(*data, method="crossfit", n_bins=1)
    assert result.crossfit_bound is None
    assert result.method == "partition"
    assert result.grouping_loss == result.partition_bound
    assert "estimates without bins need at least 100 rows" in result.recommendation


def test_equal_weights_change_nothing_that_matters() -> None:
    sample = Sigmoid(perturbation="step").sample(2_000)
    data = (sample.y, sample.scores, sample.X)
    plain = epiloss.audit(*data, method="crossfit", n_bins=5)
    weighted = epiloss.audit(*data, method="crossfit", n_bins=5, sample_weight=np.full(2_000, 7.0))
    assert plain.grouping_loss.stderr is not None
    gap = weighted.grouping_loss.value - plain.grouping_loss.value
    assert abs(gap) < 0.2 * plain.grouping_loss.stderr  # bins of weighted quantiles differ a little


def test_wide_features_are_narrowed_without_the_labels() -> None:
    sample = Sigmoid(perturbation="step").sample(1_500)
    generator = np.random.default_rng(0)
    mixed = np.hstack([sample.X, 0.1 * generator.normal(size=(1_500, 3))]) @ generator.normal(
        size=(5, 600)
    )
    result = epiloss.audit(
        sample.y, sample.scores, mixed, method="crossfit", n_bins=1, partition="stump"
    )
    assert result.grouping_loss.low is not None
    assert 0 < result.grouping_loss.low < 0.0338


def test_streams_of_one_seed_differ_and_repeat() -> None:
    names = ("splits", "curves", "trees", "crossfit", "drawn labels", "ratings")
    first = [stream(3, name).random() for name in names]
    assert len(set(first)) == len(names)
    assert first == [stream(3, name).random() for name in names]


def test_the_blend_is_a_learner_of_its_own() -> None:
    sample = Sigmoid(perturbation="step").sample(4_000)
    features, target = Features.read(sample.X), sample.y - sample.c
    guess = Blend().fit(features, sample.scores, target, None, 0).predict(features, sample.scores)
    assert np.corrcoef(guess, sample.q - sample.c)[0, 1] > 0.8


def test_the_value_lies_in_its_interval_also_where_folds_disagree() -> None:
    fold = np.repeat([0, 1], 50)
    residual = np.where(fold == 0, 1.0, -1.0) + 0.1 * np.random.default_rng(0).normal(size=100)
    one = np.ones(100)
    found = crossfit_bound(
        Directions(tilts_of(Brier()), one, residual, one, one / 2, fold, one, one), 0.95
    ).estimate
    assert found.value == pytest.approx(1.0, abs=0.1)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("n_rare", [0, 2])
def test_a_class_that_hardly_occurs_is_no_error_by_the_log_loss(n_rare: int) -> None:
    g = np.random.default_rng(0)
    X = g.normal(size=(2_000, 2))
    scores = np.array([0.6, 0.3, 0.1]) * np.exp(0.3 * X[:, :1] * np.arange(3))
    scores /= scores.sum(axis=1, keepdims=True)
    y = g.integers(2, size=2_000)
    y[:n_rare] = 2
    result = epiloss.audit(y, scores, X, task="classwise", rule="log", classes=[0, 1, 2])
    assert np.isfinite(result.grouping_loss.value)


def test_an_interval_has_room_on_both_sides_of_its_value() -> None:
    g = np.random.default_rng(0)
    X = g.normal(size=(3_000, 3))
    y = (g.random(3_000) < 1 / (1 + np.exp(4 - X[:, 0]))).astype(int)
    found = epiloss.audit(y, np.where(X[:, 0] > 0, 0.03, 0.004), X, rule="log").grouping_loss
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high - 1e-4


# repeats


def headline(repeats: int, seed: int) -> float:
    """Return the headline of one sample, whose rows are divided into folds by the seed."""
    sample = Sigmoid(perturbation="step").sample(300)
    result = epiloss.audit(
        sample.y,
        sample.scores,
        sample.X,
        method="crossfit",
        n_bins=1,
        learner=DecisionTreeRegressor(max_depth=3, random_state=0),
        repeats=repeats,
        random_state=seed,
    )
    assert result.crossfit_bound == result.grouping_loss
    return result.grouping_loss.value


@pytest.mark.slow
def test_repeats_average_the_headline_over_divisions_into_folds() -> None:
    """30 seeds of one sample: four repeats have half the spread of one, and at most 0.7 is taken.

    Without averaging a ratio that small has a chance of 0.03. The means of both lie within three
    standard errors of each other.
    """
    once, often = (np.array([headline(repeats, seed) for seed in range(30)]) for repeats in (1, 4))
    assert (once != often).all()
    assert often.std() < 0.7 * once.std()
    assert abs(once.mean() - often.mean()) < 3 * np.hypot(once.std(), often.std()) / np.sqrt(30)


def test_repeats_change_the_headline_of_the_learner_built_in_and_keep_its_interval_around_it() -> None:
    sample = Sigmoid(perturbation="step").sample(300)
    data = (sample.y, sample.scores, sample.X)
    once, thrice = (
        epiloss.audit(*data, method="crossfit", n_bins=1, repeats=repeats) for repeats in (1, 3)
    )
    assert once.grouping_loss.value != thrice.grouping_loss.value
    found = thrice.grouping_loss
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    parts = thrice.calibration_loss.value + found.value + thrice.remainder.value
    assert thrice.score.value == pytest.approx(parts, abs=1e-12)
