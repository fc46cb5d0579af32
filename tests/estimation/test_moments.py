"""Twin learners beyond memory: sums over all rows give the same estimate as the rows, in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.learners import resolve_learner
from epiloss.estimation.influence import Influence
from epiloss.estimation.twins.centring import ScoreScale, without_rounding
from epiloss.estimation.twins.design import content_keys, parts_of_keys
from epiloss.estimation.twins.estimate import TwinMeans, estimate_of_means
from epiloss.estimation.twins.evaluate import TwinRows
from epiloss.estimation.twins.moments import TwinSums
from epiloss.estimation.twins.sample_models import TwinModels
from epiloss.input.features import Features
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule

N, SAMPLED = 12_000, 3_000
GAP = 0.15


def problem(
    n: int = N, seed: int = 0, *, gap: float = GAP, rule: ScoringRule | None = None, kind: str = ""
) -> BinaryProblem:
    """Return rows with a ``gap`` by the sign of the first column; the second has missing categories."""
    g = np.random.default_rng(seed)
    X, scores = g.normal(size=(n, 3)), g.uniform(0.2, 0.8, n)
    X[:, 1] = np.where(g.random(n) < 0.1, np.nan, g.integers(0, 5, n))
    if "few" in kind:
        scores = np.round(scores, 1)
    if "tied" in kind:
        scores = np.where(g.random(n) < 0.4, 0.5, scores)
    labels = (g.random(n) < scores + gap * np.sign(X[:, 0])).astype(float)
    categories = {1: ("p", "q", "r", "s")}  # the fifth category is unknown
    features = Features(X, ("a", "city", "c"), categories)
    weights = g.integers(1, 9, n) / 8 if "weights" in kind else None
    claimed = g.integers(0, 3, n) if "claimed" in kind else None
    rows = (None, scores, labels, rule or Brier(), None, features, None, weights, None, claimed)
    return BinaryProblem(*rows)


def trained(rows: BinaryProblem, **options: Any) -> TwinModels:
    generator = np.random.default_rng(1)
    models = TwinModels.train(rows.take(np.arange(SAMPLED)), generator, len(rows.labels), **options)
    assert models is not None
    return models


def summed(models: TwinModels, rows: BinaryProblem, *parts: Codes) -> TwinSums:
    total = TwinSums.empty(models)
    for part in parts or (np.arange(len(rows.labels)),):
        sums = TwinSums.empty(models)
        sums.add(models, rows.take(part))
        total = total.merge(sums)
    return total


def directly(models: TwinModels, rows: BinaryProblem) -> Floats:
    """Return sums (parts, stages, 2) from the rows, centred by least squares on all splines."""
    weight = np.ones(len(rows.labels)) if rows.weights is None else rows.weights
    found = np.zeros((3, models.n_stages, 2))
    for evaluated in models.evaluate(rows):
        w, n = weight[evaluated.rows], len(evaluated.rows)
        whole = np.zeros((n, models.scale.n_splines))
        for i, values in enumerate(evaluated.basis.values):
            whole[np.arange(n), evaluated.basis.first + i] = values
        whole = whole[:, (whole != 0).any(axis=0)]
        root = np.sqrt(w)[:, None]
        fitted = np.linalg.lstsq(root * whole, root * evaluated.columns.T, rcond=1e-5)[0]
        *a, r = evaluated.columns - (whole @ fitted).T
        times = w * evaluated.kappa * n / (n - whole.shape[1])
        for stage in range(models.n_stages):
            a1, a2 = a[2 * stage : 2 * stage + 2]
            cross, product = float(times @ ((a1 + a2) / 2 * r)), float(times @ (a1 * a2))
            if evaluated.costs is not None:
                cross, product = cross / 2, float(w @ evaluated.costs[stage])
            found[evaluated.part, stage] = cross, product
    return found


def sums_of(sums: TwinSums) -> Floats:
    return np.stack([part.sums for part in sums.parts])


def estimated(models: TwinModels, sums: TwinSums, sample: BinaryProblem) -> float:
    weight = np.ones(len(sample.labels)) if sample.weights is None else sample.weights
    return sums.combine_stages(sums.terms(models, sample), weight).means.value


SPHERICAL = ScoringRule.from_entropy(lambda p: 1 - np.hypot(p, 1 - p))
RULES = {"brier": Brier(), "log": LogLoss(), "class": ClassLogLoss(), "other": SPHERICAL}
KINDS = ["", "few", "tied", "weights", "few weights", "claimed"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_equal_those_computed_from_rows(kind: str, rule: str) -> None:
    rows = problem(rule=RULES[rule], kind=kind)
    models = trained(rows)
    sums = summed(models, rows)
    assert sums_of(sums) == pytest.approx(directly(models, rows), rel=1e-7)
    assert estimated(models, sums, rows.take(np.arange(SAMPLED))) > 0.5 * GAP**2


def test_sums_do_not_depend_on_the_order_of_rows_or_on_batches() -> None:
    rows = problem(rule=LogLoss(), kind="weights")
    models = trained(rows)
    whole = summed(models, rows)
    shuffled = np.random.default_rng(3).permutation(N)
    cut = summed(models, rows, *np.split(shuffled, [1, 700, 700, 8_000]))
    assert np.array_equal(whole.sums, cut.sums)
    assert np.array_equal(sums_of(whole), sums_of(cut))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["", "few", "weights"])
def test_the_mean_of_the_terms_of_rows_is_the_estimate(kind: str, rule: str) -> None:
    rows = problem(rule=RULES[rule], kind=kind)
    models = trained(rows)
    sums = summed(models, rows)
    weight = np.ones(N) if rows.weights is None else rows.weights
    found = sums.combine_stages(sums.terms(models, rows), weight)
    added = found.rows
    mean = [np.average(one, weights=weight) for one in (added.cross, added.product, added.value)]
    assert tuple(found.means) == pytest.approx(mean, rel=1e-7)
    assert found.early_cross == pytest.approx(
        np.average(found.rows.early_cross, weights=weight), rel=1e-7
    )


def test_the_estimate_for_the_log_loss_is_close_to_the_true_loss() -> None:
    """The estimate lies between 0.75 and 1.02 times the true grouping loss."""
    rows = problem(30_000, rule=LogLoss())
    assert rows.features is not None
    models = trained(rows)
    q = rows.scores + GAP * np.sign(rows.features.column(0))
    truth = float(LogLoss().divergence(rows.scores, q).mean())
    found = estimated(models, summed(models, rows), rows.take(np.arange(SAMPLED)))
    assert 0.75 * truth < found < 1.02 * truth


def test_the_part_of_a_row_depends_on_score_and_features_and_parts_have_equal_size() -> None:
    """60,000 rows and the tenth with the smallest keys: shares are within 4 standard errors of 1/3."""
    rows = problem(60_000)
    keys = content_keys(rows)
    part = parts_of_keys(keys, 12_345, 3)
    again = replace(rows, labels=1 - rows.labels).take(np.arange(60_000)[::-1])
    assert np.array_equal(parts_of_keys(content_keys(again), 12_345, 3), part[::-1])
    for some in (part, part[keys < np.quantile(keys, 0.1)], part[keys % np.uint64(2) == 0]):
        share = np.bincount(some, minlength=3) / len(some)
        assert np.abs(share - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(some))


def test_sampled_rows_are_evaluated_by_models_that_were_not_trained_on_them() -> None:
    """10 draws of 1,000 rows repeated three times, without a loss: divided copies would give 0.02."""
    found = []
    for seed in range(10):
        rows = problem(1_000, seed, gap=0.0).take(np.tile(np.arange(1_000), 3))
        models = TwinModels.train(rows, np.random.default_rng(seed), 3_000)
        assert models is not None
        found.append(estimated(models, summed(models, rows), rows))
    assert abs(np.mean(found)) < 3.5 * np.std(found, ddof=1) / np.sqrt(10)
    assert abs(np.mean(found)) < 0.01


def test_row_numbers_split_equal_rows_that_are_not_copies() -> None:
    """Copies agree in their labels and stay together; rows with few distinct values are divided."""
    copies = problem(1_000, gap=0.0).take(np.tile(np.arange(1_000), 3))
    places = np.random.default_rng(2).integers(2**64, size=3_000, dtype=np.uint64)
    models = TwinModels.train(copies, np.random.default_rng(0), 3_000, places=places)
    assert models is not None
    assert not models.by_place
    few = problem(3_000, kind="few")
    city = Features(np.nan_to_num(few.features.matrix[:, 1:2]), ("city",)) if few.features else None
    equal = replace(few, features=city)
    models = TwinModels.train(equal, np.random.default_rng(0), 3_000, places=places)
    assert models is not None
    assert models.by_place
    parts = {one.part: set(places[one.rows].tolist()) for one in models.evaluate(equal, places)}
    backwards = models.evaluate(equal.take(np.arange(3_000)[::-1]), places[::-1])
    assert parts == {one.part: set(places[::-1][one.rows].tolist()) for one in backwards}
    assert min(map(len, parts.values())) > 900


def test_rows_that_are_nearly_all_equal_cannot_be_split() -> None:
    g = np.random.default_rng(0)
    X = g.integers(0, 2, (500, 1)).astype(float)
    labels = (g.random(500) < 0.5).astype(float)
    rows = (None, np.full(500, 0.5), labels, Brier(), None, Features(X, ("a",)), None, None)
    assert TwinModels.train(BinaryProblem(*rows), g, 10_000) is None


def test_few_distinct_rows_are_split_evenly() -> None:
    """Twelve distinct rows, 20 seeds: every part has at least a seventh of the rows."""
    for seed in range(20):
        g = np.random.default_rng(seed)
        X = g.integers(0, 4, (900, 1)).astype(float)
        scores = g.choice([0.3, 0.5, 0.7], 900)
        labels = (g.random(900) < scores).astype(float)
        rows = BinaryProblem(None, scores, labels, Brier(), None, Features(X, ("a",)), None, None)
        models = TwinModels.train(rows, g, 10_000)
        assert models is not None
        part = parts_of_keys(content_keys(rows), models.salt, 3)
        assert np.bincount(part).min() > 900 / 7


def test_the_estimate_is_zero_if_features_say_no_more_than_the_score() -> None:
    rows = problem(kind="few")
    blank = replace(rows, features=Features(np.zeros((N, 1)), ("a",)))
    models = trained(blank)
    sums = summed(models, blank)
    found = sums.combine_stages(sums.terms(models, blank), np.ones(N))
    assert found.means == (0.0, 0.0, 0.0)
    assert not found.rows.cross.any()

    def influence(values: Any) -> Influence:
        return Influence(values / N)

    estimate = estimate_of_means(found.means, found.rows, influence, influence, 0.95).estimate
    assert (estimate.value, estimate.pvalue) == (0.0, 1.0)


def test_scores_that_the_sample_lacks_have_cells_of_their_own() -> None:
    scale = ScoreScale.of(np.array([0.2, 0.2, 0.5, 0.5]), None, 5)
    basis = scale.basis(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9]))
    assert basis.first.tolist() == [0, 1, 2, 2, 3, 4]
    assert scale.n_cells == scale.n_splines == 5


def test_a_scale_recovers_the_ranks_of_its_own_rows() -> None:
    """Ranks stored at every hundredth of an interval are accurate to about that."""
    g = np.random.default_rng(0)
    scores = np.sort(np.where(g.random(50_000) < 0.3, 0.4, g.beta(2, 5, 50_000)))
    scale = ScoreScale.of(scores, None, 40)
    assert len(scale.scores) < 8_100
    ranks = (np.searchsorted(scores, scores) + np.searchsorted(scores, scores, "right")) / 2 / 50_000
    basis = scale.basis(scores)
    place = basis.first + np.sqrt(2 * basis.values[2])
    assert np.abs(place - 40 * ranks).max() < 0.001 + 0.01
    assert basis.values.sum(axis=0) == pytest.approx(1.0)
    outside = scale.basis(np.array([0.0, 1.0]))
    assert outside.first.tolist() == [0, 39]


def test_a_custom_learner_can_evaluate_rows() -> None:
    from sklearn.tree import DecisionTreeRegressor

    rows = problem()
    models = trained(rows, learner=resolve_learner(DecisionTreeRegressor(max_depth=3)))
    sums = summed(models, rows)
    assert sums_of(sums) == pytest.approx(directly(models, rows), rel=1e-7)
    assert estimated(models, sums, rows.take(np.arange(SAMPLED))) > 0.5 * GAP**2


class Scaled:
    """A learner whose predictions are multiplied by a constant."""

    def __init__(self, times: float = 1.0) -> None:
        self.times = times

    def get_params(self, deep: bool = True) -> dict[str, float]:
        return {"times": self.times}

    def set_params(self, **params: float) -> Scaled:
        return self

    def fit(self, X: Any, y: Any) -> Scaled:
        return self

    def predict(self, X: Any) -> Any:
        return self.times * np.sign(np.asarray(X)[:, 0])


def test_the_unit_of_a_custom_learner_does_not_matter() -> None:
    rows = problem()
    found = []
    for times in (0.1, 0.2, 1.0):
        models = trained(rows, learner=resolve_learner(Scaled(times)))
        found.append(estimated(models, summed(models, rows), rows.take(np.arange(SAMPLED))))
    assert found == pytest.approx([found[0]] * 3, rel=1e-6)
    assert found[0] == pytest.approx(GAP**2, rel=0.15)


def test_full_predictions_are_used_only_if_they_find_more() -> None:
    """Without a loss the early predictions are used; for a gap by a product of columns the full ones."""
    g = np.random.default_rng(0)
    rows = problem(gap=0.0)
    assert rows.features is not None
    X = g.normal(size=(N, 3))
    labels = (g.random(N) < rows.scores + 0.19 * np.sign(X[:, 0] * X[:, 1])).astype(float)
    crossed = replace(rows, features=Features(X, ("a", "b", "c")), labels=labels)
    for one, stage in ((rows, 0), (crossed, -1)):
        models = trained(one)
        sums = summed(models, one)
        found = sums.combine_stages(sums.terms(models, one.take(np.arange(SAMPLED))), np.ones(SAMPLED))
        wanted = sums_of(sums)[:, stage].sum(axis=0) / N
        assert found.means[:2] == pytest.approx(wanted.tolist(), rel=1e-9)


def test_variance_between_parts_widens_the_interval_if_nothing_was_learned() -> None:
    """Excess variance between parts is added, unless the models have learned something."""
    g = np.random.default_rng(0)
    noise = g.normal(size=(2, 400))

    def influence(values: Any) -> Influence:
        return Influence((values - values.mean()) / len(values))

    def stderr(shift: float, between_parts: float) -> float:
        cross, product = noise[0] + shift, noise[1] + shift
        terms = TwinRows(cross, product, cross, 2 * cross - product, cross.astype(np.float32))
        means = TwinMeans(*(float(one.mean()) for one in (cross, product, terms.value)))
        found = estimate_of_means(means, terms, influence, influence, 0.95, between_parts=between_parts)
        assert found.estimate.stderr is not None
        return found.estimate.stderr

    assert stderr(0.0, 4.0) == pytest.approx(2.0, rel=0.01)
    assert stderr(0.0, 0.0) == stderr(0.0, 1e-6) < 0.2
    assert stderr(1.0, 4.0) == stderr(1.0, 0.0)


def test_rounding_errors_of_residuals_become_zero() -> None:
    columns = np.array([[1.0, 2.0], [1e-3, 0.0]])
    residual = np.array([[1e-12, 0.5], [1e-12, 1e-14]])
    assert without_rounding(residual, columns).tolist() == [[0.0, 0.5], [1e-12, 0.0]]


def test_noise_is_shrunk_and_a_clear_signal_is_not() -> None:
    """Without a loss, predictions are shrunk; with a gap, they are used in full."""
    for gap in (0.0, GAP):
        rows = problem(gap=gap)
        models = trained(rows)
        sums = summed(models, rows)
        means = sums.combine_stages(
            sums.terms(models, rows.take(np.arange(SAMPLED))), np.ones(SAMPLED)
        ).means
        full = 2 * means.cross - means.product
        if gap:
            assert means.value == pytest.approx(full, rel=1e-9)
        else:
            assert abs(means.value) < 0.9 * abs(full)
