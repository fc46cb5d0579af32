"""The learner of the bound without bins: any regressor gives a bound, and what cannot be one is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import epiloss
from epiloss import Audit, DataError, Estimate, OptionError
from epiloss._typing import Floats
from epiloss.estimation.crossfit.bound import cross_fitted_directions, crossfit_bound
from epiloss.estimation.crossfit.learners import Blend, Learner, resolve_learner
from epiloss.input.features import Features
from epiloss.simulate import Sample, Sigmoid

N = 1_000
STEP = Sigmoid(perturbation="step")
TRUTH = STEP.truth().grouping_loss
SAMPLE = STEP.sample(N, random_state=4)


def audited(learner: Any = None, X: Any = SAMPLE.X, **options: Any) -> Audit:
    return epiloss.audit(
        SAMPLE.y, SAMPLE.scores, X, n_bins=1, partition="stump", learner=learner, **options
    )


def bounded(sample: Sample, learner: Learner, seed: int) -> Estimate:
    directions = cross_fitted_directions(
        Features.read(sample.X),
        sample.scores,
        sample.y.astype(float),
        rule=epiloss.Brier(),
        learner=learner,
        generator=np.random.default_rng(seed),
    )
    return crossfit_bound(directions, 0.95).estimate


class Side:
    """A learner without parameters that knows which feature matters, and notes what it is given."""

    seen: list[tuple[Floats, Floats, dict[str, Any]]]

    def __init__(self) -> None:
        self.seen = []

    def __deepcopy__(self, memo: Any) -> Side:
        copy = Side()
        copy.seen = self.seen  # all copies write in one book
        return copy

    def fit(self, X: Floats, y: Floats, sample_weight: Floats | None = None) -> None:
        """Write down what was given."""
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.seen.append((X, y, given))

    def predict(self, X: Floats) -> Floats:
        """Return the side of the line that the score does not know of."""
        return np.sign(X[:, 0] - X[:, 1])


class Answering:
    """A learner that answers as it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def fit(self, X: Any, y: Any) -> None:
        """Learn nothing."""

    def predict(self, X: Any) -> Any:
        """Return the answer."""
        return self.answer(X)


class Unweighted(Answering):
    """A learner that knows no weights."""

    def __init__(self) -> None:
        super().__init__(lambda X: X[:, 0] - X[:, 1])


# any regressor


@pytest.mark.parametrize(
    "learner",
    [
        HistGradientBoostingRegressor(max_iter=30),
        DecisionTreeRegressor(max_depth=5),
        KNeighborsRegressor(30),
        Side(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_good_learner_finds_the_loss(learner: Any) -> None:
    bound = audited(learner).grouping_loss
    assert bound.low is not None
    assert bound.pvalue is not None
    assert 0.3 * TRUTH < bound.value < 1.5 * TRUTH
    assert 0 < bound.low < TRUTH
    assert bound.pvalue < 1e-6


@pytest.mark.parametrize("constant", [0.0, 0.3, None])
def test_a_learner_that_says_the_same_of_all_rows_bounds_nothing(constant: float | None) -> None:
    learner = DummyRegressor(strategy="mean" if constant is None else "constant", constant=constant)
    bound = audited(learner).grouping_loss
    assert bound.value == pytest.approx(0, abs=1e-9)
    assert bound.low == pytest.approx(0, abs=1e-9)
    assert bound.pvalue == 1


def test_a_learner_that_sees_only_the_score_bounds_next_to_nothing() -> None:
    bound = audited(LinearRegression(), X=np.ones((N, 1))).grouping_loss
    assert bound.value == pytest.approx(0, abs=0.01 * TRUTH)
    assert bound.low == pytest.approx(0, abs=0.01 * TRUTH)


@pytest.mark.slow
@pytest.mark.parametrize("grouping", [0.0, 1.0])
@pytest.mark.parametrize("learner", [Ridge(), KNeighborsRegressor(1)], ids=["ridge", "nearest row"])
def test_any_learner_gives_a_lower_bound(learner: Any, grouping: float) -> None:
    """60 repetitions of 1,000 rows: the mean at most 3 standard errors above the truth.

    Lower limits exceed it in at most 0.025 of samples, and in 3 standard errors more: 0.085.
    """
    problem = Sigmoid(perturbation="step", grouping=grouping)
    truth, bounds = problem.truth().grouping_loss, []
    for seed in range(60):
        sample = problem.sample(1_000, random_state=seed)
        bounds.append(bounded(sample, resolve_learner(learner), seed))
    values, lows = (np.array([getattr(one, end) for one in bounds]) for end in ("value", "low"))
    assert values.mean() <= truth + 3 * values.std() / np.sqrt(60)
    assert np.mean(lows > truth) <= 0.085


@pytest.mark.parametrize(
    "learner",
    [
        RandomForestRegressor(5),
        DecisionTreeRegressor(max_features=1),
        make_pipeline(StandardScaler(), DecisionTreeRegressor(max_features=1)),
    ],
    ids=["forest", "tree", "pipeline"],
)
def test_the_same_seed_gives_the_same_bits_with_a_learner_that_draws(learner: Any) -> None:
    first, again = (audited(learner, random_state=3).to_json() for _ in range(2))
    assert first == again
    assert audited(learner, random_state=5).to_json() != first


def test_the_users_learner_is_left_as_it_was() -> None:
    learner = DecisionTreeRegressor(max_depth=2)
    audited(learner)
    assert not hasattr(learner, "tree_")
    assert learner.random_state is None


def test_the_learner_sees_the_features_and_the_log_odds_of_the_score() -> None:
    learner = Side()
    audited(learner, method="crossfit")
    assert len(learner.seen) == 5
    for X, y, given in learner.seen:
        assert X.shape == (len(y), 3)
        assert given == {}
    logits = np.concatenate([X[:, 2] for X, _, _ in learner.seen])
    clipped = np.clip(SAMPLE.scores, 1e-6, 1 - 1e-6)
    expected = np.repeat(np.log(clipped / (1 - clipped)), 4)  # each row learns in four of five folds
    np.testing.assert_allclose(np.sort(logits), np.sort(expected), atol=1e-9)


def test_sample_weights_are_passed_on() -> None:
    learner = Side()
    weights = 1.0 + np.arange(N)
    audited(learner, X=np.column_stack([weights, SAMPLE.X]), sample_weight=weights)
    for X, _, given in learner.seen:
        assert set(given) == {"sample_weight"}
        share = given["sample_weight"] / given["sample_weight"].sum()
        np.testing.assert_allclose(share, X[:, 0] / X[:, 0].sum(), rtol=1e-12)


def test_a_learner_that_cannot_weigh_learns_from_rows_alike() -> None:
    # its predictions may be worse for it; the bound that they give weighs the rows all the same
    weighted = audited(Unweighted(), sample_weight=SAMPLE.scores + 1).twin_estimate
    plain = audited(Unweighted()).twin_estimate
    assert weighted is not None
    assert plain is not None
    assert weighted.value != plain.value


def test_the_learner_is_told_in_the_options() -> None:
    assert audited(Ridge(alpha=3.0)).options["learner"] == "Ridge(alpha=3.0)"
    assert audited().options["learner"] is None


def test_recalibrated_scores_are_bounded_by_the_same_learner() -> None:
    learner = Side()
    result = audited(learner, recalibrate="isotonic", method="crossfit")
    assert len(learner.seen) == 15  # five folds of all rows, and of either half
    assert result.recalibrated is not None
    assert result.recalibrated.crossfit_bound is not None


# what is no learner


@pytest.mark.parametrize("row", [0, 1, 20, 25])
def test_a_learner_that_refuses_missing_values_is_named_in_one_line(row: int) -> None:
    # rows 0 and 1 are first met by a fit, rows 20 and 25 by a prediction: they are in the first fold
    X = SAMPLE.X.copy()
    X[row, 1] = np.nan
    with pytest.raises(DataError) as caught:
        audited(LinearRegression(), X)
    said = str(caught.value)
    assert "LinearRegression()" in said
    assert "NaN" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "answer",
    [
        lambda X: X[:3, 0],
        lambda X: X[:, :2],
        lambda X: X[:, :1],
        lambda X: 0.5,
        lambda X: X[:, 0] * np.nan,
        lambda X: np.where(np.arange(len(X)) == 7, np.inf, 0.0),
        lambda X: None,
        lambda X: np.full(len(X), "high"),
    ],
    ids=["too few", "two columns", "a column", "a number", "nan", "infinite", "none", "text"],
)
def test_a_learner_whose_answers_are_no_numbers_is_refused(answer: Any) -> None:
    with pytest.raises(DataError, match="Answering") as caught:
        audited(Answering(answer))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "learner",
    ["boosting", 3, DecisionTreeRegressor, HistGradientBoostingRegressor, StandardScaler(), len],
    ids=["text", "number", "class", "another class", "transformer", "function"],
)
def test_what_is_no_regressor_is_told_before_any_work(learner: Any) -> None:
    with pytest.raises(OptionError, match="learner") as caught:
        epiloss.audit("no labels", None, learner=learner)  # the data would be refused next
    said = str(caught.value)
    assert "fit" in said
    assert "\n" not in said
    with pytest.raises(OptionError, match="learner"):
        epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, method="partition", learner=learner)


# the blend


class Recorded:
    """How many rows the parts of a blend are fitted on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        from epiloss.estimation.crossfit import learners, ridges

        for part in (ridges.Ridges, learners._Boosted):
            monkeypatch.setattr(part, "fit", self._noting(part.fit))

    def _noting(self, fit: Any) -> Any:
        def noted(features: Features, scores: Floats, target: Floats, *rest: Any) -> Any:
            assert features.n_rows == len(scores) == len(target)
            self.rows.append(len(target))
            return fit(features, scores, target, *rest)

        return noted


@pytest.mark.parametrize("weighted", [False, True])
def test_a_blend_learns_from_no_more_rows_than_it_may(
    monkeypatch: pytest.MonkeyPatch, weighted: bool
) -> None:
    # a random part of 6,000 rows: 1,000 to within 5 standard errors, four fifths of which are fitted
    sample, recorded = STEP.sample(6_000), Recorded(monkeypatch)
    weights = 1 + sample.scores if weighted else None
    rows = (Features.read(sample.X), sample.scores, sample.y - sample.c, weights, 0)
    model = Blend(most_rows=1_000).fit(*rows)
    assert len(set(recorded.rows)) == 1
    assert abs(recorded.rows[0] - 800) < 5 * np.sqrt(800 * (1 - 800 / 6_000))
    guess = model.predict(Features.read(sample.X), sample.scores)
    assert np.corrcoef(guess, sample.q - sample.c)[0, 1] > 0.6
    again = Blend(most_rows=1_000).fit(*rows).predict(Features.read(sample.X), sample.scores)
    np.testing.assert_array_equal(again, guess)


def test_a_blend_that_may_learn_from_all_rows_does(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, recorded = STEP.sample(2_000), Recorded(monkeypatch)
    rows = (Features.read(sample.X), sample.scores, sample.y - sample.c, None, 0)
    guesses = [Blend(most_rows=most).fit(*rows).predict(*rows[:2]) for most in (2_000, 5_000, 200_000)]
    assert set(recorded.rows) == {recorded.rows[0]}
    assert abs(recorded.rows[0] - 1_600) < 5 * np.sqrt(2_000 * 0.16)
    for guess in guesses[1:]:
        np.testing.assert_array_equal(guess, guesses[0])


@pytest.mark.slow
def test_a_blend_of_few_rows_still_gives_a_lower_bound() -> None:
    """15 repetitions of 1,500 rows, 500 learned from: mean at most 3 standard errors above the truth.

    At most 2 of 15 lower limits exceed it (more by chance: 0.006), and half of it is found.
    """
    bounds = [
        bounded(STEP.sample(1_500, random_state=seed), Blend(most_rows=500), seed) for seed in range(15)
    ]
    values, lows = (np.array([getattr(one, end) for one in bounds]) for end in ("value", "low"))
    assert values.mean() <= TRUTH + 3 * values.std() / np.sqrt(15)
    assert np.sum(lows > TRUTH) <= 2
    assert values.mean() > 0.5 * TRUTH
