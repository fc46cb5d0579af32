"""Each metric equals that of an independent implementation, or its definition by hand, to 1e-9."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import expit, logit
from sklearn import metrics as sklearn_metrics
from sklearn.linear_model import LogisticRegression

from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import quantile_level_sets, uniform_level_sets
from epiloss.input.checks import read_problem
from epiloss.input.problem import Reading
from epiloss.integrations.extraction.frameworks import import_torchvision
from epiloss.metrics.binned import Bins, debiased_ece, ece
from epiloss.metrics.measure import measure
from epiloss.metrics.regression import LogisticFit, spline_terms
from epiloss.metrics.result import Metrics
from epiloss.metrics.rows import ScoredRows
from epiloss.metrics.smooth import smooth_ece_and_width

CLOSE = 1e-9
N = 600


def drawn(seed: int = 0, n: int = N, digits: int | None = None) -> tuple[Floats, Floats, Floats]:
    """Return scores, labels and weights; with few ``digits`` there are ties."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(1.5, 2.5, n)
    if digits is not None:
        scores = scores.round(digits)
    labels = (generator.random(n) < scores**1.3).astype(float)
    return scores, labels, generator.exponential(size=n) + 0.1


def measured(
    scores: Floats, labels: Floats, weights: Floats | None = None, task: str | None = None
) -> Metrics:
    return measure(read_problem(labels, scores, None, Reading(task), sample_weight=weights))


def classes_drawn(k: int = 4, n: int = N) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(1)
    scores = generator.dirichlet(np.ones(k), n)
    labels = (generator.random((n, 1)) > scores.cumsum(axis=1)).sum(axis=1)
    return scores, np.minimum(labels, k - 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [None, 1])
def test_binary_numbers_are_those_of_scikit_learn(weighted: bool, digits: int | None) -> None:
    scores, labels, weights = drawn(digits=digits)
    inside = np.clip(scores, 0.001, 0.999)  # scikit-learn clips where the log-loss is infinite
    given = weights if weighted else None
    found = measured(inside, labels, given)
    brier = sklearn_metrics.brier_score_loss(labels, inside, sample_weight=given)
    rate = np.average(labels, weights=given)
    expected = {
        "accuracy": sklearn_metrics.accuracy_score(labels, inside > 0.5, sample_weight=given),
        "auc": sklearn_metrics.roc_auc_score(labels, inside, sample_weight=given),
        "average_precision": sklearn_metrics.average_precision_score(
            labels, inside, sample_weight=given
        ),
        "log_loss": sklearn_metrics.log_loss(labels, inside, sample_weight=given),
        "brier_skill_score": 1 - brier / (rate * (1 - rate)),
        "observed_expected": rate / np.average(inside, weights=given),
    }
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=CLOSE), name


@pytest.mark.parametrize("task", ["classwise", "joint"])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_of_classes_are_those_of_scikit_learn(task: str, weighted: bool) -> None:
    scores, labels = classes_drawn()
    given = drawn()[2] if weighted else None
    found = measured(scores, labels, given, task=task)
    hit = labels[:, None] == np.arange(4)
    rates = np.average(hit, axis=0, weights=given)
    brier = np.average(((scores - hit) ** 2).sum(axis=1), weights=given)
    options = {"sample_weight": given}
    columns = [(scores[:, k], hit[:, k] * 1.0) for k in range(4)]
    squares = [mean_square_by_hand(*column, given) for column in columns]
    expected = {
        "accuracy": sklearn_metrics.accuracy_score(labels, scores.argmax(axis=1), **options),
        "auc": sklearn_metrics.roc_auc_score(labels, scores, multi_class="ovr", **options),
        "average_precision": sklearn_metrics.average_precision_score(hit, scores, **options),
        "log_loss": sklearn_metrics.log_loss(labels, scores, **options),
        "brier_skill_score": 1 - brier / (rates * (1 - rates)).sum(),
        "ece_equal_width": np.mean([by_hand(*column, weights=given) for column in columns]),
        "ece_equal_mass": np.mean([mass_by_hand(*column, given) for column in columns]),
        "ece_debiased": np.sqrt(max(float(np.mean(squares)), 0.0)),
    }
    assert set(expected) == set(found), "all that there are"
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=CLOSE), name


def test_the_top_label_is_measured_by_its_confidence() -> None:
    scores, labels = classes_drawn()
    found = measured(scores, labels, task="top-label")
    confidence, right = scores.max(axis=1), (scores.argmax(axis=1) == labels) * 1.0
    binary = measured(confidence, right)
    same = [name for name in binary if name not in ("accuracy", "log_loss", "brier_skill_score")]
    for name in same:
        assert found[name].value == pytest.approx(binary[name].value, abs=CLOSE), name
    assert found["accuracy"].value == pytest.approx(right.mean(), abs=CLOSE)
    whole = sklearn_metrics.log_loss(labels, scores)
    assert found["log_loss"].value == pytest.approx(whole, abs=CLOSE)
    hit = labels[:, None] == np.arange(4)
    brier, rates = ((scores - hit) ** 2).sum(axis=1).mean(), hit.mean(axis=0)
    skill = 1 - brier / (rates * (1 - rates)).sum()
    assert found["brier_skill_score"].value == pytest.approx(skill, abs=CLOSE)


def by_hand(scores: Floats, labels: Floats, n_bins: int = 15, *, weights: Floats | None = None) -> float:
    """Return the ECE of equal width, bin by bin."""
    share = np.ones(len(scores)) if weights is None else weights
    total = 0.0
    for place in range(n_bins):
        low, high = place / n_bins, (place + 1) / n_bins
        inside = (scores >= low) & ((scores < high) | (place == n_bins - 1))
        total += abs((share * (labels - scores))[inside].sum())
    return total / float(share.sum())


def parts_of_equal_mass(scores: Floats, weights: Floats | None) -> list[Codes]:
    """Return the rows of 15 bins, whose edges are quantiles of the scores, none of which are equal."""
    order = np.argsort(scores)
    share = np.ones(len(scores)) if weights is None else weights
    edges = quantile_level_sets(scores, 15, weights).edges
    above = np.cumsum(share[order])
    sizes = np.diff(np.searchsorted(scores[order], edges), prepend=0)
    for place, edge in zip(np.cumsum(sizes)[1:-1], range(1, 15), strict=True):
        # the edge lies within a row of where the mass is that many fifteenths
        assert above[place - 1] <= share.sum() * edge / 15 + share.max()
        assert above[place] >= share.sum() * edge / 15 - share.max()
    return np.split(order, np.searchsorted(scores[order], edges[1:-1]))


def mass_by_hand(scores: Floats, labels: Floats, weights: Floats | None) -> float:
    share = np.ones(len(scores)) if weights is None else weights
    parts = parts_of_equal_mass(scores, weights)
    return float(sum(abs((share * (labels - scores))[part].sum()) for part in parts) / share.sum())


def mean_square_by_hand(scores: Floats, labels: Floats, weights: Floats | None) -> float:
    """Return the mean squared gap, pair by pair of different rows, each with the product of weights."""
    share = np.ones(len(scores)) if weights is None else weights
    total = 0.0
    for part in parts_of_equal_mass(scores, weights):
        pairs = np.outer(share[part], share[part]) * (1 - np.eye(len(part)))
        residual = (labels - scores)[part]
        total += share[part].sum() / share.sum() * float(residual @ pairs @ residual / pairs.sum())
    return total


def test_weighted_binned_errors_are_their_definitions() -> None:
    scores, labels, weights = drawn()
    found = measured(scores, labels, weights)
    expected = {
        "ece_equal_width": by_hand(scores, labels, weights=weights),
        "ece_equal_mass": mass_by_hand(scores, labels, weights),
        "ece_debiased": np.sqrt(max(mean_square_by_hand(scores, labels, weights), 0.0)),
    }
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=CLOSE), name


def test_binned_errors_are_their_definitions() -> None:
    scores, labels, _ = drawn()
    found = measured(scores, labels)
    assert found["ece_equal_width"].value == pytest.approx(by_hand(scores, labels), abs=CLOSE)
    order = np.argsort(scores)
    parts = np.array_split(order, 15)  # 600 rows: 40 in each
    gaps = np.array([(labels[part] - scores[part]).mean() for part in parts])
    assert found["ece_equal_mass"].value == pytest.approx(np.abs(gaps).mean(), abs=CLOSE)
    squares = []
    for part in parts:
        residual = labels[part] - scores[part]
        pairs = np.outer(residual, residual)[~np.eye(len(part), dtype=bool)]
        squares.append(pairs.mean())
    debiased = np.sqrt(max(np.mean(squares), 0.0))
    assert found["ece_debiased"].value == pytest.approx(debiased, abs=CLOSE)


def test_the_debiased_error_of_one_score_a_bin_is_that_of_kumar_and_others() -> None:
    generator = np.random.default_rng(3)
    scores = generator.choice(np.arange(1, 30, 2) / 30, 900)  # the middle of each of 15 bins
    labels = (generator.random(900) < scores * 0.8).astype(float)
    total = 0.0
    for score in np.unique(scores):
        inside = labels[scores == score]
        rate, n = inside.mean(), len(inside)
        total += n / 900 * ((rate - score) ** 2 - rate * (1 - rate) / (n - 1))
    bins = Bins.of(ScoredRows(scores, labels), uniform_level_sets(15))
    found = debiased_ece(bins, 0.95, np.random.default_rng(0))[0].value
    assert found == pytest.approx(np.sqrt(total), abs=CLOSE)


def test_weights_count_as_copies_of_rows_in_calibration_errors() -> None:
    scores, labels, _ = drawn(n=200)
    times = np.random.default_rng(0).integers(1, 4, 200)
    weighted = measured(scores, labels, times.astype(float))
    copied = measured(np.repeat(scores, times), np.repeat(labels, times))
    names = set(weighted) - {"ece_debiased", "ici", "e50", "e90"}  # pairs of rows; knots by rows
    for name in names:
        # relplot adds the same to the density for any number of rows
        close = 1e-6 if name == "smooth_ece" else CLOSE
        assert weighted[name].value == pytest.approx(copied[name].value, abs=close), name


@pytest.mark.parametrize("n_bins", [10, 15])
def test_errors_are_those_of_netcal(n_bins: int) -> None:
    netcal = pytest.importorskip("netcal.metrics", reason="netcal is not installed")
    scores, labels, _ = drawn()
    rows, generator = ScoredRows(scores, labels), np.random.default_rng(0)
    width = Bins.of(rows, uniform_level_sets(n_bins))
    found = ece(width, 0.95, generator)[0].value
    assert found == pytest.approx(netcal.ECE(n_bins).measure(scores, labels), abs=CLOSE)
    largest = float(np.abs(width.gap).max())
    assert largest == pytest.approx(netcal.MCE(n_bins).measure(scores, labels), abs=CLOSE)
    mass = Bins.of(rows, quantile_level_sets(scores, n_bins))
    equal = netcal.ECE(n_bins, equal_intervals=False).measure(scores, labels)
    assert ece(mass, 0.95, generator)[0].value == pytest.approx(equal, abs=CLOSE)


def test_errors_are_those_of_torchmetrics() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if find_spec("torchvision") is not None:
        import_torchvision()  # which torchmetrics loads where it is there
    functional = pytest.importorskip(
        "torchmetrics.functional.classification", reason="torchmetrics is not installed"
    )
    scores, labels, _ = drawn()
    found = measured(scores, labels)
    given = torch.tensor(scores, dtype=torch.float64), torch.tensor(labels.astype(int))
    for name, norm in (("ece_equal_width", "l1"), ("maximum_calibration_error", "max")):
        theirs = functional.binary_calibration_error(*given, n_bins=15, norm=norm)
        assert found[name].value == pytest.approx(float(theirs), abs=CLOSE), name


def test_the_smooth_error_is_that_of_relplot() -> None:
    relplot = pytest.importorskip("relplot", reason="relplot is not installed")
    for seed, n in ((0, 300), (1, 5_000)):
        scores, labels, _ = drawn(seed, n)
        theirs, width = relplot.smECE(scores, labels, return_width=True)
        ours = smooth_ece_and_width(ScoredRows(scores, labels))
        assert ours == pytest.approx((theirs, width), abs=CLOSE)


def test_the_smooth_error_is_its_definition() -> None:
    scores, labels, _ = drawn()
    error, width = smooth_ece_and_width(ScoredRows(scores, labels))
    assert error <= width < error + 2 * 2.0**-10  # ten halvings
    at = np.linspace(0, 1, 4001)[:, None]
    kernel = sum(
        np.exp(-((at - sign * scores - shift) ** 2) / (2 * width**2))
        for sign in (1, -1)
        for shift in (-2, 0, 2)
    ) / (np.sqrt(2 * np.pi) * width)
    exact = trapezoid(np.abs(kernel @ (labels - scores)) / N, at[:, 0])
    assert error == pytest.approx(exact, rel=2e-3)  # relplot's grid, which is coarser


@pytest.mark.parametrize("weighted", [False, True])
def test_slope_and_intercept_solve_their_equations(weighted: bool) -> None:
    scores, labels, weights = drawn()
    share = weights if weighted else np.ones(N)
    found = measured(scores, labels, weights if weighted else None)
    odds = logit(scores)
    model = LogisticRegression(C=np.inf, tol=1e-14, max_iter=1000, solver="newton-cholesky")
    model.fit(odds[:, None], labels, share)
    assert found["calibration_slope"].value == pytest.approx(model.coef_[0, 0], abs=CLOSE)
    shifted = expit(found["calibration_intercept"].value + odds)
    assert np.average(labels - shifted, weights=share) == pytest.approx(0.0, abs=CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
def test_distances_are_those_from_a_restricted_cubic_spline(weighted: bool) -> None:
    scores, labels, weights = drawn()
    given = weights if weighted else None
    found = measured(scores, labels, given)
    odds = logit(scores)
    knots = np.quantile(odds, [0.05, 0.275, 0.5, 0.725, 0.95])
    a, b, c, d, e = knots
    terms = [odds]
    for knot in (a, b, c):
        left = np.maximum(odds - knot, 0) ** 3
        middle = np.maximum(odds - d, 0) ** 3 * (e - knot) / (e - d)
        right = np.maximum(odds - e, 0) ** 3 * (d - knot) / (e - d)
        terms.append((left - middle + right) / (e - a) ** 2)
    model = LogisticRegression(C=np.inf, tol=1e-14, max_iter=1000, solver="newton-cholesky")
    model.fit(np.column_stack(terms), labels, given)
    distance = np.abs(model.predict_proba(np.column_stack(terms))[:, 1] - scores)
    assert found["ici"].value == pytest.approx(np.average(distance, weights=given), abs=CLOSE)
    for name, share in (("e50", 0.5), ("e90", 0.9)):
        quantile = np.quantile(distance, share, method="inverted_cdf", weights=given)
        assert found[name].value == pytest.approx(quantile, abs=CLOSE)


def test_a_spline_is_linear_beyond_its_last_knots() -> None:
    knots = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    for far in (np.linspace(2, 9, 8), np.linspace(-9, -1, 8)):
        bend = np.diff(spline_terms(far, knots), 2, axis=0)
        np.testing.assert_allclose(bend, 0.0, atol=1e-9)


def test_a_fit_has_no_gradient_left() -> None:
    scores, labels, weights = drawn()
    design = np.column_stack([np.ones(N), logit(scores)])
    rows = ScoredRows(scores, labels, weights)
    fit = LogisticFit.of(rows, design, np.array([0.0, 1.0]))
    left = design.T @ (rows.share * (labels - expit(design @ fit.coefficients)))
    np.testing.assert_allclose(left, 0.0, atol=1e-14)
