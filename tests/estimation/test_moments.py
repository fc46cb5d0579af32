"""Twin learners beyond memory: sums over all rows say what the rows say, however they come."""

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
from epiloss.estimation.twins.estimate import TwinMeans, TwinRows, estimate_of_means
from epiloss.estimation.twins.jury import Jury
from epiloss.estimation.twins.moments import TwinSums
from epiloss.input.features import Features
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule

N, SAMPLED = 12_000, 3_000
GAP = 0.15


def problem(
    n: int = N, seed: int = 0, *, gap: float = GAP, rule: ScoringRule | None = None, kind: str = ""
) -> BinaryProblem:
    """Return rows with a ``gap`` by the sign of the first column; the second is a category with gaps."""
    g = np.random.default_rng(seed)
    X, scores = g.normal(size=(n, 3)), g.uniform(0.2, 0.8, n)
    X[:, 1] = np.where(g.random(n) < 0.1, np.nan, g.integers(0, 5, n))
    if "few" in kind:
        scores = np.round(scores, 1)
    if "tied" in kind:
        scores = np.where(g.random(n) < 0.4, 0.5, scores)
    labels = (g.random(n) < scores + gap * np.sign(X[:, 0])).astype(float)
    features = Features(X, ("a", "city", "c"), {1: ("p", "q", "r", "s")})  # a fifth one is not known
    weights = g.integers(1, 9, n) / 8 if "weights" in kind else None
    claimed = g.integers(0, 3, n) if "claimed" in kind else None
    rows = (None, scores, labels, rule or Brier(), None, features, None, weights, None, claimed)
    return BinaryProblem(*rows)


def learned(rows: BinaryProblem, **options: Any) -> Jury:
    generator = np.random.default_rng(1)
    jury = Jury.learn(rows.take(np.arange(SAMPLED)), generator, len(rows.labels), **options)
    assert jury is not None
    return jury


def summed(jury: Jury, rows: BinaryProblem, *parts: Codes) -> TwinSums:
    total = TwinSums.empty(jury)
    for part in parts or (np.arange(len(rows.labels)),):
        sums = TwinSums.empty(jury)
        sums.add(jury, rows.take(part))
        total = total.merge(sums)
    return total


def directly(jury: Jury, rows: BinaryProblem) -> Floats:
    """Return sums (parts, stages, 2) from the rows, centred by least squares on all splines."""
    weight = np.ones(len(rows.labels)) if rows.weights is None else rows.weights
    found = np.zeros((3, jury.n_stages, 2))
    for judged in jury.judged(rows):
        w, n = weight[judged.rows], len(judged.rows)
        whole = np.zeros((n, jury.scale.n_splines))
        for i, values in enumerate(judged.basis.values):
            whole[np.arange(n), judged.basis.first + i] = values
        whole = whole[:, (whole != 0).any(axis=0)]
        root = np.sqrt(w)[:, None]
        fitted = np.linalg.lstsq(root * whole, root * judged.columns.T, rcond=1e-5)[0]
        *a, r = judged.columns - (whole @ fitted).T
        times = w * judged.kappa * n / (n - whole.shape[1])
        for stage in range(jury.n_stages):
            a1, a2 = a[2 * stage : 2 * stage + 2]
            cross, product = float(times @ ((a1 + a2) / 2 * r)), float(times @ (a1 * a2))
            if judged.costs is not None:
                cross, product = cross / 2, float(w @ judged.costs[stage])
            found[judged.part, stage] = cross, product
    return found


def sums_of(sums: TwinSums) -> Floats:
    return np.stack([part.sums for part in sums.parts])


def estimated(jury: Jury, sums: TwinSums, sample: BinaryProblem) -> float:
    weight = np.ones(len(sample.labels)) if sample.weights is None else sample.weights
    return sums.chosen(sums.terms(jury, sample), weight).means.value


SPHERICAL = ScoringRule.from_entropy(lambda p: 1 - np.hypot(p, 1 - p))
RULES = {"brier": Brier(), "log": LogLoss(), "class": ClassLogLoss(), "other": SPHERICAL}
KINDS = ["", "few", "tied", "weights", "few weights", "claimed"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_means_of_sums_are_those_of_rows(kind: str, rule: str) -> None:
    rows = problem(rule=RULES[rule], kind=kind)
    jury = learned(rows)
    sums = summed(jury, rows)
    assert sums_of(sums) == pytest.approx(directly(jury, rows), rel=1e-7)
    assert estimated(jury, sums, rows.take(np.arange(SAMPLED))) > 0.5 * GAP**2


def test_sums_are_the_same_numbers_in_any_order_and_however_they_are_cut() -> None:
    rows = problem(rule=LogLoss(), kind="weights")
    jury = learned(rows)
    whole = summed(jury, rows)
    shuffled = np.random.default_rng(3).permutation(N)
    cut = summed(jury, rows, *np.split(shuffled, [1, 700, 700, 8_000]))
    assert np.array_equal(whole.sums, cut.sums)
    assert np.array_equal(sums_of(whole), sums_of(cut))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["", "few", "weights"])
def test_what_rows_add_is_on_average_the_estimate(kind: str, rule: str) -> None:
    rows = problem(rule=RULES[rule], kind=kind)
    jury = learned(rows)
    sums = summed(jury, rows)
    weight = np.ones(N) if rows.weights is None else rows.weights
    found = sums.chosen(sums.terms(jury, rows), weight)
    added = found.rows
    mean = [np.average(one, weights=weight) for one in (added.cross, added.product, added.value)]
    assert tuple(found.means) == pytest.approx(mean, rel=1e-7)
    assert found.cautious == pytest.approx(np.average(found.rows.cautious, weights=weight), rel=1e-7)


def test_by_the_log_loss_more_is_found_than_squares_tell() -> None:
    """The loss by the log-loss is near that of the probabilities themselves, from 0.75 of it on."""
    rows = problem(30_000, rule=LogLoss())
    assert rows.features is not None
    jury = learned(rows)
    q = rows.scores + GAP * np.sign(rows.features.column(0))
    truth = float(LogLoss().divergence(rows.scores, q).mean())
    found = estimated(jury, summed(jury, rows), rows.take(np.arange(SAMPLED)))
    assert 0.75 * truth < found < 1.02 * truth


def test_a_part_is_made_of_score_and_features_alone_and_all_are_of_one_size() -> None:
    """Of 60,000 rows, and of the tenth with the smallest keys, shares are within 4 errors of a third."""
    rows = problem(60_000)
    keys = content_keys(rows)
    part = parts_of_keys(keys, 12_345, 3)
    again = replace(rows, labels=1 - rows.labels).take(np.arange(60_000)[::-1])
    assert np.array_equal(parts_of_keys(content_keys(again), 12_345, 3), part[::-1])
    for some in (part, part[keys < np.quantile(keys, 0.1)], part[keys % np.uint64(2) == 0]):
        share = np.bincount(some, minlength=3) / len(some)
        assert np.abs(share - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(some))


def test_rows_of_the_sample_are_judged_by_models_that_have_not_seen_them() -> None:
    """1,000 rows three times with their labels, nothing to find, 10 draws: copies would find 0.02."""
    found = []
    for seed in range(10):
        rows = problem(1_000, seed, gap=0.0).take(np.tile(np.arange(1_000), 3))
        jury = Jury.learn(rows, np.random.default_rng(seed), 3_000)
        assert jury is not None
        found.append(estimated(jury, summed(jury, rows), rows))
    assert abs(np.mean(found)) < 3.5 * np.std(found, ddof=1) / np.sqrt(10)
    assert abs(np.mean(found)) < 0.01


def test_places_part_rows_that_are_alike_but_no_copies() -> None:
    """Copies agree in their labels, and are parted by what they hold; rows of few values by place."""
    copies = problem(1_000, gap=0.0).take(np.tile(np.arange(1_000), 3))
    places = np.random.default_rng(2).integers(2**64, size=3_000, dtype=np.uint64)
    jury = Jury.learn(copies, np.random.default_rng(0), 3_000, places=places)
    assert jury is not None
    assert not jury.by_place
    few = problem(3_000, kind="few")
    city = Features(np.nan_to_num(few.features.matrix[:, 1:2]), ("city",)) if few.features else None
    alike = replace(few, features=city)
    jury = Jury.learn(alike, np.random.default_rng(0), 3_000, places=places)
    assert jury is not None
    assert jury.by_place
    parts = {one.part: set(places[one.rows].tolist()) for one in jury.judged(alike, places)}
    backwards = jury.judged(alike.take(np.arange(3_000)[::-1]), places[::-1])
    assert parts == {one.part: set(places[::-1][one.rows].tolist()) for one in backwards}
    assert min(map(len, parts.values())) > 900


def test_where_rows_do_not_differ_there_are_no_parts() -> None:
    g = np.random.default_rng(0)
    X = g.integers(0, 2, (500, 1)).astype(float)
    labels = (g.random(500) < 0.5).astype(float)
    rows = (None, np.full(500, 0.5), labels, Brier(), None, Features(X, ("a",)), None, None)
    assert Jury.learn(BinaryProblem(*rows), g, 10_000) is None


def test_few_rows_that_differ_are_parted_evenly() -> None:
    """Each of 20 seeds finds parts of at least a seventh of the rows, of which twelve differ."""
    for seed in range(20):
        g = np.random.default_rng(seed)
        X = g.integers(0, 4, (900, 1)).astype(float)
        scores = g.choice([0.3, 0.5, 0.7], 900)
        labels = (g.random(900) < scores).astype(float)
        rows = BinaryProblem(None, scores, labels, Brier(), None, Features(X, ("a",)), None, None)
        jury = Jury.learn(rows, g, 10_000)
        assert jury is not None
        part = parts_of_keys(content_keys(rows), jury.salt, 3)
        assert np.bincount(part).min() > 900 / 7


def test_predictions_that_tell_no_more_than_the_score_find_nothing() -> None:
    rows = problem(kind="few")
    blank = replace(rows, features=Features(np.zeros((N, 1)), ("a",)))
    jury = learned(blank)
    sums = summed(jury, blank)
    found = sums.chosen(sums.terms(jury, blank), np.ones(N))
    assert found.means == (0.0, 0.0, 0.0)
    assert not found.rows.cross.any()

    def influence(values: Any) -> Influence:
        return Influence(values / N)

    estimate = estimate_of_means(found.means, found.rows, influence, influence, 0.95).estimate
    assert (estimate.value, estimate.pvalue) == (0.0, 1.0)


def test_values_that_the_sample_does_not_have_are_apart_from_those_it_has() -> None:
    scale = ScoreScale.of(np.array([0.2, 0.2, 0.5, 0.5]), None, 5)
    basis = scale.basis(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9]))
    assert basis.first.tolist() == [0, 1, 2, 2, 3, 4]
    assert scale.reach == scale.n_splines == 5


def test_splines_of_a_scale_are_those_of_its_own_rows() -> None:
    """Ranks that are kept at every hundredth of an interval are right to a thousandth of one."""
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


def test_a_learner_of_the_users_own_judges_too() -> None:
    from sklearn.tree import DecisionTreeRegressor

    rows = problem()
    jury = learned(rows, learner=resolve_learner(DecisionTreeRegressor(max_depth=3)))
    sums = summed(jury, rows)
    assert sums_of(sums) == pytest.approx(directly(jury, rows), rel=1e-7)
    assert estimated(jury, sums, rows.take(np.arange(SAMPLED))) > 0.5 * GAP**2


class Longer:
    """A learner whose predictions are in a unit of their own."""

    def __init__(self, times: float = 1.0) -> None:
        self.times = times

    def get_params(self, deep: bool = True) -> dict[str, float]:
        return {"times": self.times}

    def set_params(self, **params: float) -> Longer:
        return self

    def fit(self, X: Any, y: Any) -> Longer:
        return self

    def predict(self, X: Any) -> Any:
        return self.times * np.sign(np.asarray(X)[:, 0])


def test_the_unit_of_a_learner_does_not_matter() -> None:
    rows = problem()
    found = []
    for times in (0.1, 0.2, 1.0):
        jury = learned(rows, learner=resolve_learner(Longer(times)))
        found.append(estimated(jury, summed(jury, rows), rows.take(np.arange(SAMPLED))))
    assert found == pytest.approx([found[0]] * 3, rel=1e-6)
    assert found[0] == pytest.approx(GAP**2, rel=0.15)


def test_the_last_stage_counts_only_where_it_finds_more() -> None:
    """Nothing to find: the first stage judges all parts; a gap between products: the last one does."""
    g = np.random.default_rng(0)
    rows = problem(gap=0.0)
    assert rows.features is not None
    X = g.normal(size=(N, 3))
    labels = (g.random(N) < rows.scores + 0.19 * np.sign(X[:, 0] * X[:, 1])).astype(float)
    crossed = replace(rows, features=Features(X, ("a", "b", "c")), labels=labels)
    for one, stage in ((rows, 0), (crossed, -1)):
        jury = learned(one)
        sums = summed(jury, one)
        found = sums.chosen(sums.terms(jury, one.take(np.arange(SAMPLED))), np.ones(SAMPLED))
        wanted = sums_of(sums)[:, stage].sum(axis=0) / N
        assert found.means[:2] == pytest.approx(wanted.tolist(), rel=1e-9)


def test_what_more_rows_do_not_reduce_counts_where_nothing_was_learned() -> None:
    """Parts that differ by more than rows explain widen the interval, unless models have learned."""
    g = np.random.default_rng(0)
    noise = g.normal(size=(2, 400))

    def influence(values: Any) -> Influence:
        return Influence((values - values.mean()) / len(values))

    def stderr(shift: float, spread: float) -> float:
        cross, product = noise[0] + shift, noise[1] + shift
        terms = TwinRows(cross, product, cross, 2 * cross - product, cross.astype(np.float32))
        means = TwinMeans(*(float(one.mean()) for one in (cross, product, terms.value)))
        found = estimate_of_means(means, terms, influence, influence, 0.95, spread=spread)
        assert found.estimate.stderr is not None
        return found.estimate.stderr

    assert stderr(0.0, 4.0) == pytest.approx(2.0, rel=0.01)
    assert stderr(0.0, 0.0) == stderr(0.0, 1e-6) < 0.2
    assert stderr(1.0, 4.0) == stderr(1.0, 0.0)


def test_rounding_is_nothing() -> None:
    columns = np.array([[1.0, 2.0], [1e-3, 0.0]])
    residual = np.array([[1e-12, 0.5], [1e-12, 1e-14]])
    assert without_rounding(residual, columns).tolist() == [[0.0, 0.5], [1e-12, 0.0]]


def test_predictions_count_as_far_as_they_are_trusted() -> None:
    """Nothing to find: the noise of predictions is shortened; a gap: they count in full."""
    for gap in (0.0, GAP):
        rows = problem(gap=gap)
        jury = learned(rows)
        sums = summed(jury, rows)
        means = sums.chosen(sums.terms(jury, rows.take(np.arange(SAMPLED))), np.ones(SAMPLED)).means
        full = 2 * means.cross - means.product
        if gap:
            assert means.value == pytest.approx(full, rel=1e-9)
        else:
            assert abs(means.value) < 0.9 * abs(full)
