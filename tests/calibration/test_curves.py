from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.neighbors import KNeighborsRegressor

import epiloss
from epiloss._typing import Floats
from epiloss.calibration.curves import (
    CurveFitter,
    GivenCurve,
    InterpolatedCurve,
    Isotonic,
    LocalLinear,
    Lowess,
    Nearest,
    fit_curve_pair,
    fit_vector_curve_pair,
    resolve_curve,
)
from epiloss.calibration.smoothers import DistinctScores
from epiloss.errors import DataError, OptionError
from epiloss.estimation.options import Options

LAW = settings(deadline=None, derandomize=True, max_examples=10)
FITTERS: dict[str, CurveFitter] = {
    "local-linear": LocalLinear(),
    "isotonic": Isotonic(),
    "lowess": Lowess(),
    "nearest": Nearest(),
}
GRID = np.linspace(0, 1, 201)

each_fitter = pytest.mark.parametrize("fitter", FITTERS.values(), ids=FITTERS)


def random_rows(seed: int, n: int, *, digits: int | None = None) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(seed)
    scores = generator.random(n)
    if digits is not None:
        scores = np.round(scores, digits)
    return scores, (generator.random(n) < scores**2).astype(float)


SMOOTH: dict[str, Callable[[Floats], Floats]] = {
    "calibrated": lambda s: s,
    "square": lambda s: s**2,
    "steep": lambda s: 1 / (1 + np.exp(-8 * (s - 0.4))),
    "shallow": lambda s: 0.3 + 0.2 * s,
}


@each_fitter
@pytest.mark.parametrize("truth", SMOOTH.values(), ids=SMOOTH)
def test_a_smooth_curve_is_recovered(fitter: CurveFitter, truth: Callable[[Floats], Floats]) -> None:
    """One sample of 15,000 rows, a root mean squared error below 0.03; that of a flat line is 0.06."""
    generator = np.random.default_rng(0)
    scores = generator.random(15_000)
    labels = (generator.random(15_000) < truth(scores)).astype(float)
    error = fitter.fit(scores, labels)(scores) - truth(scores)
    assert np.sqrt(np.mean(error**2)) < 0.03


@pytest.mark.parametrize("fitter", [LocalLinear(), Lowess(), Nearest()], ids=lambda one: str(one))
def test_smoothers_recover_a_curve_that_falls(fitter: CurveFitter) -> None:
    generator = np.random.default_rng(1)
    scores = generator.random(15_000)
    truth = 0.2 + 0.6 * (scores - 0.5) ** 2 / 0.25
    labels = (generator.random(15_000) < truth).astype(float)
    assert np.sqrt(np.mean((fitter.fit(scores, labels)(scores) - truth) ** 2)) < 0.035


@each_fitter
@given(seed=st.integers(0, 10**6), n=st.integers(1, 80), digits=st.sampled_from([1, 2, None]))
@LAW
def test_the_order_of_the_rows_does_not_change_the_curve(
    fitter: CurveFitter, seed: int, n: int, digits: int | None
) -> None:
    scores, labels = random_rows(seed, n, digits=digits)
    order = np.random.default_rng(seed).permutation(n)
    curve, again = fitter.fit(scores, labels), fitter.fit(scores[order], labels[order])
    np.testing.assert_array_equal(again(GRID), curve(GRID))


@each_fitter
@given(seed=st.integers(0, 10**6), n=st.integers(1, 80))
@LAW
def test_the_order_of_weighted_rows_does_not_change_the_curve(
    fitter: CurveFitter, seed: int, n: int
) -> None:
    scores, labels = random_rows(seed, n, digits=1)
    generator = np.random.default_rng(seed)
    weights = generator.integers(1, 9, n) / 8  # sums of eighths have no rounding
    order = generator.permutation(n)
    curve = fitter.fit(scores, labels, weights)
    again = fitter.fit(scores[order], labels[order], weights[order])
    np.testing.assert_array_equal(again(GRID), curve(GRID))


@each_fitter
@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0]), st.floats(0.01, 1)),
        min_size=1,
        max_size=40,
    ),
    weighted=st.booleans(),
)
@LAW
def test_every_value_of_a_curve_is_a_probability(
    fitter: CurveFitter, rows: list[tuple[float, float, float]], weighted: bool
) -> None:
    scores, labels, weights = (np.array(column) for column in zip(*rows, strict=True))
    curve = fitter.fit(scores, labels, weights if weighted else None)
    values = curve(np.concatenate([GRID, scores]))
    assert np.all((values >= 0) & (values <= 1))


@each_fitter
def test_weighted_curves_stay_probabilities_to_the_last_bit(fitter: CurveFitter) -> None:
    # entropies have no value a rounding beyond 1
    for seed in range(8):
        generator = np.random.default_rng(seed)
        scores, weights = generator.random(60), generator.uniform(0.01, 1, 60)
        labels = (generator.random(60) < 0.8).astype(float)
        values = fitter.fit(scores, labels, weights)(scores)
        assert values.min() >= 0
        assert values.max() <= 1


@pytest.mark.parametrize("curve", FITTERS)
def test_the_induced_log_loss_of_weighted_rows_is_small_and_finite(curve: str) -> None:
    generator = np.random.default_rng(0)
    scores, weights = generator.random(400), generator.uniform(0.01, 1, 400)
    labels = generator.random(400) < np.clip(1.3 * scores, 0, 1)
    result = epiloss.audit(
        labels, scores, subgroups=np.arange(400) % 2, rule="log", curve=curve, sample_weight=weights
    )
    assert abs(result.induced) < 0.1


@each_fitter
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_handful_of_rows_is_enough(fitter: CurveFitter, n: int) -> None:
    for seed in range(6):
        scores, labels = random_rows(seed, n, digits=1 if seed % 2 else None)
        values = fitter.fit(scores, labels)(GRID)
        assert np.all((values >= 0) & (values <= 1))


@each_fitter
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 2, 5, 200])
def test_constant_scores_give_the_mean_label(fitter: CurveFitter, value: float, n: int) -> None:
    labels = (np.arange(n) % 3 == 0).astype(float)
    curve = fitter.fit(np.full(n, value), labels)
    np.testing.assert_allclose(curve(GRID), labels.mean(), atol=1e-12)


@each_fitter
@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("n", [2, 5, 500])
def test_equal_labels_give_a_flat_curve(fitter: CurveFitter, label: float, n: int) -> None:
    scores, _ = random_rows(3, n)
    np.testing.assert_allclose(fitter.fit(scores, np.full(n, label))(GRID), label, atol=1e-12)


# not the local lines: leaving one of five copies out is another thing than leaving out a row of weight 5
@pytest.mark.parametrize(
    "fitter", [Isotonic(), Lowess(), Nearest()], ids=["isotonic", "lowess", "nearest"]
)
@pytest.mark.parametrize("counts", [[1, 3], [1, 5, 3]], ids=["twice", "three times"])
@pytest.mark.parametrize("n", [60, 600])
def test_whole_weights_are_repeated_rows(fitter: CurveFitter, n: int, counts: list[int]) -> None:
    scores, labels = random_rows(4, n)
    times = np.resize(counts, n)
    weighted = fitter.fit(scores, labels, times.astype(float))
    repeated = fitter.fit(np.repeat(scores, times), np.repeat(labels, times))
    np.testing.assert_allclose(weighted(GRID), repeated(GRID), atol=1e-9)


@each_fitter
@pytest.mark.parametrize("n", [60, 600])
def test_the_scale_of_the_weights_does_not_change_the_curve(fitter: CurveFitter, n: int) -> None:
    scores, labels = random_rows(5, n)
    weights = np.resize([1.0, 5.0, 3.0], n)
    curve = fitter.fit(scores, labels, weights)
    for scale in (0.125, 8.0):
        np.testing.assert_array_equal(fitter.fit(scores, labels, weights * scale)(GRID), curve(GRID))


@each_fitter
def test_equal_weights_are_no_weights(fitter: CurveFitter) -> None:
    scores, labels = random_rows(6, 300, digits=2)
    plain, equal = fitter.fit(scores, labels), fitter.fit(scores, labels, np.full(300, 0.5))
    np.testing.assert_array_equal(equal(GRID), plain(GRID))


@each_fitter
def test_a_million_rows_are_fitted(fitter: CurveFitter) -> None:
    generator = np.random.default_rng(7)
    scores = generator.random(1_000_000)
    labels = (generator.random(1_000_000) < scores**2).astype(float)
    curve = fitter.fit(scores, labels)
    assert np.sqrt(np.mean((curve(GRID) - GRID**2) ** 2)) < 0.03


@pytest.mark.parametrize(("n", "k"), [(50, 1), (50, 7), (1000, 100), (5000, None), (19_000, 2000)])
def test_nearest_is_the_k_nearest_neighbour_mean_without_ties(n: int, k: int | None) -> None:
    scores, labels = random_rows(8, n)
    asked = scores[:500]
    model = KNeighborsRegressor(k or min(2000, n // 10)).fit(scores[:, None], labels)
    values = Nearest(k).fit(scores, labels)(asked)
    np.testing.assert_allclose(values, model.predict(asked[:, None]), atol=1e-12)


@pytest.mark.parametrize("extra", [0, 3])
def test_nearest_with_all_rows_as_neighbours_is_the_mean(extra: int) -> None:
    generator = np.random.default_rng(18)
    for n in range(1, 40):
        # scores of any size: the distance to a tiny score is rounded
        scores = np.round(generator.random(n), 2) * generator.choice([1, 1e-4, 1e-9], n)
        labels = (np.arange(n) % 2).astype(float)
        values = Nearest(n + extra).fit(scores, labels)(scores)
        np.testing.assert_allclose(values, labels.mean(), atol=1e-12)


def test_nearest_shares_the_last_place_among_ties() -> None:
    # the two neighbours of 0.5 are equally far: each counts by half
    scores, labels = np.array([0.25, 0.5, 0.75]), np.array([0.0, 1.0, 1.0])
    assert Nearest(2).fit(scores, labels)(np.array([0.5]))[0] == pytest.approx(0.75, abs=1e-12)


def test_isotonic_is_the_isotonic_regression() -> None:
    scores, labels = random_rows(9, 500, digits=2)
    weights = np.random.default_rng(9).uniform(0.1, 1, 500)
    for given_weights in (None, weights):
        model = IsotonicRegression().fit(scores, labels, sample_weight=given_weights)
        values = Isotonic().fit(scores, labels, given_weights)(scores)
        np.testing.assert_allclose(values, model.predict(scores), atol=1e-12)
        assert np.all(np.diff(values[np.argsort(scores)]) >= 0)


def test_local_linear_takes_wide_windows_where_nothing_bends() -> None:
    # the widest window is a recalibration by two parameters, whose error is that of a few numbers
    generator = np.random.default_rng(10)
    scores = generator.random(5000)
    labels = (generator.random(5000) < scores).astype(float)
    error = LocalLinear().fit(scores, labels)(scores) - scores
    assert np.sqrt(np.mean(error**2)) < 0.02


def test_a_pair_is_undersmoothed_for_the_brier_score_only() -> None:
    """The log-loss is not linear in the product of two curves, so that their noise does not cancel."""
    assert Options.read().curve == LocalLinear(undersmooth=True)
    assert Options.read(rule="log").curve == LocalLinear()


def test_a_curve_is_linear_between_its_scores_and_flat_outside() -> None:
    curve = InterpolatedCurve(np.array([0.2, 0.6]), np.array([0.1, 0.5]))
    np.testing.assert_allclose(curve(np.array([0.0, 0.2, 0.4, 0.6, 1.0])), [0.1, 0.1, 0.3, 0.5, 0.5])


@given(seed=st.integers(0, 10**6), n=st.integers(1, 200), most=st.integers(1, 50))
@LAW
def test_blocks_conserve_mass_labels_and_scores(seed: int, n: int, most: int) -> None:
    scores, labels = random_rows(seed, n, digits=2)
    rows = DistinctScores.gather(scores, labels, None)
    blocks = rows.in_blocks(most)
    assert len(blocks.scores) <= max(most, 1)
    assert np.all(np.diff(blocks.scores) > 0)
    assert blocks.weight.sum() == pytest.approx(n)
    assert blocks.weight @ blocks.label_mean == pytest.approx(labels.sum())
    assert blocks.weight @ blocks.scores == pytest.approx(scores.sum())


def test_gathered_rows_are_distinct_scores_with_their_mean_label() -> None:
    rows = DistinctScores.gather(
        np.array([0.5, 0.1, 0.5, 0.5]), np.array([1.0, 0.0, 0.0, 1.0]), np.array([2.0, 1.0, 2.0, 3.0])
    )
    assert rows.scores.tolist() == [0.1, 0.5]
    assert rows.weight.tolist() == [0.5, 3.5]
    np.testing.assert_allclose(rows.label_mean, [0, 5 / 7])
    assert rows.mid_rank.tolist() == [0.25, 2.25]


def test_a_given_curve_is_used_as_it_is() -> None:
    scores, labels = random_rows(11, 50)
    curve = resolve_curve(np.sqrt).fit(scores, labels)
    np.testing.assert_array_equal(curve(GRID), np.sqrt(GRID))


@pytest.mark.parametrize(
    "function",
    [
        lambda s: s + 1,
        lambda s: -s,
        lambda s: s[:3],
        lambda s: 0.5,
        lambda s: np.full(len(s), np.nan),
        lambda s: s[:, None],
    ],
    ids=["above one", "below zero", "another length", "scalar", "nan", "column"],
)
def test_a_given_curve_must_map_scores_to_probabilities(function: Callable[[Floats], Any]) -> None:
    scores, labels = random_rows(12, 50)
    with pytest.raises(DataError, match=r"curve must map n scores to n probabilities in \[0, 1\], got"):
        GivenCurve(function).fit(scores, labels)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (None, LocalLinear),
        ("local-linear", LocalLinear),
        ("isotonic", Isotonic),
        ("lowess", Lowess),
        ("nearest", Nearest),
    ],
)
def test_a_short_hand_names_its_curve(name: str | None, kind: type[CurveFitter]) -> None:
    assert isinstance(resolve_curve(name), kind)


@each_fitter
def test_a_fitter_stands_for_itself(fitter: CurveFitter) -> None:
    assert resolve_curve(fitter) is fitter


@pytest.mark.parametrize("wrong", ["spline", "", 3, ["isotonic"], LocalLinear], ids=repr)
def test_an_unknown_curve_is_named(wrong: Any) -> None:
    with pytest.raises(OptionError, match=r"curve must be 'local-linear', .* got"):
        resolve_curve(wrong)


@each_fitter
def test_the_two_curves_of_a_pair_see_different_rows(fitter: CurveFitter) -> None:
    scores, labels = random_rows(13, 400)
    a, b = fit_curve_pair(fitter, scores, labels, None, np.random.default_rng(0))
    assert not np.array_equal(a(GRID), b(GRID))
    again, _ = fit_curve_pair(fitter, scores, labels, None, np.random.default_rng(0))
    np.testing.assert_array_equal(again(GRID), a(GRID))


def test_the_halves_of_a_pair_are_disjoint_and_cover_all_rows() -> None:
    class Recorder(CurveFitter):
        def __init__(self) -> None:
            self.seen: list[Floats] = []

        def fit_distinct(self, rows: DistinctScores) -> Callable[[Floats], Floats]:
            self.seen.append(rows.scores)
            return lambda s: s

    recorder = Recorder()
    scores, labels = random_rows(14, 101)
    fit_curve_pair(recorder, scores, labels, None, np.random.default_rng(0))
    assert sorted(len(part) for part in recorder.seen) == [50, 51]
    np.testing.assert_array_equal(np.sort(np.concatenate(recorder.seen)), np.sort(scores))


def test_the_curves_of_a_pair_share_no_cluster() -> None:
    scores, labels = random_rows(18, 90)
    clusters = np.arange(90) // 3
    seen: list[set[int]] = []

    class Recorder(CurveFitter):
        def fit_distinct(self, rows: DistinctScores) -> Callable[[Floats], Floats]:
            seen.append({int(clusters[scores == score][0]) for score in rows.scores})
            return lambda s: s

    fit_curve_pair(Recorder(), scores, labels, None, np.random.default_rng(0), clusters)
    assert len(seen) == 2
    assert not seen[0] & seen[1]
    assert len(seen[0] | seen[1]) == 30


def test_the_vector_curves_of_a_pair_share_no_cluster() -> None:
    # copies of a row have one label: in one half only, they move one curve and not the other
    generator = np.random.default_rng(19)
    vectors = np.repeat(generator.dirichlet(np.ones(3), 60), 4, axis=0)
    labels, clusters = (
        np.repeat(generator.integers(0, 2, 60), 4).astype(float),
        np.repeat(np.arange(60), 4),
    )
    flipped = np.where(clusters == 7, 1 - labels, labels)
    pairs = [
        fit_vector_curve_pair(vectors, vectors[:, 0], one, None, np.random.default_rng(0), clusters)
        for one in (labels, flipped)
    ]
    moved = [not np.array_equal(before, after) for before, after in zip(*pairs, strict=True)]
    assert sorted(moved) == [False, True]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_rows_for_two_halves_give_one_curve_twice(n: int) -> None:
    scores, labels = random_rows(15, n)
    a, b = fit_curve_pair(Isotonic(), scores, labels, None, np.random.default_rng(0))
    assert a is b


def test_vector_curves_recover_a_calibrated_score_and_a_tilted_one() -> None:
    generator = np.random.default_rng(16)
    vectors = generator.dirichlet(np.ones(3), 40_000)
    tilted = vectors[:, 0] * vectors[:, 1] ** 0.5
    tilted /= tilted + (1 - vectors[:, 0]) * vectors[:, 2] ** 0.5
    for truth in (vectors[:, 0], tilted):
        labels = (generator.random(40_000) < truth).astype(float)
        a, b = fit_vector_curve_pair(vectors, vectors[:, 0], labels, None, generator)
        for curve in (a, b):
            assert np.sqrt(np.mean((curve - truth) ** 2)) < 0.02
        assert not np.array_equal(a, b)


def test_a_class_that_never_occurs_has_vector_curves_of_zero() -> None:
    generator = np.random.default_rng(17)
    vectors = generator.dirichlet(np.ones(3), 10)
    a, b = fit_vector_curve_pair(vectors, vectors[:, 0], np.zeros(10), None, generator)
    np.testing.assert_allclose([a, b], 0.0)
