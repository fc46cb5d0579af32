from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiloss._typing import Codes, Floats
from epiloss.estimation.losses import (
    LevelSetLosses,
    conservative_explained_loss,
    level_set_losses,
    region_losses,
)
from epiloss.estimation.region_stats import RegionStats
from epiloss.partition import pool_small_regions
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule

LAW = settings(deadline=None, derandomize=True, max_examples=25)
SPHERICAL = ScoringRule.from_entropy(lambda p: 1 - np.sqrt(p**2 + (1 - p) ** 2), name="spherical")
POWER = ScoringRule.from_entropy(lambda p: 1 - p**4 - (1 - p) ** 4, name="power")
RULES: dict[str, ScoringRule] = {
    "brier": Brier(),
    "log": LogLoss(),
    "class-log": ClassLogLoss(),
    "spherical": SPHERICAL,
    "power": POWER,
}
SEEDS = st.integers(0, 10**6)

each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def added_up(
    labels: Floats,
    region: Codes,
    level_set: Codes | None = None,
    *,
    rule: ScoringRule,
    scores: Floats | None = None,
    weights: Floats | None = None,
    curves: tuple[Floats, Floats] | None = None,
) -> RegionStats:
    return RegionStats.from_rows(
        np.zeros(len(labels), np.int64) if level_set is None else level_set,
        region,
        labels=np.asarray(labels, float),
        scores=np.full(len(labels), 0.5) if scores is None else scores,
        rule=rule,
        weights=weights,
        curves=curves,
    )


def random_stats(seed: int, rule: ScoringRule, *, weighted: bool = False) -> RegionStats:
    """Return cells of at least two rows, with regions of different rates."""
    generator = np.random.default_rng(seed)
    n_cells = int(generator.integers(1, 12))
    cell = np.repeat(np.arange(n_cells), generator.integers(2, 9, n_cells))
    rate = generator.choice([0.0, 0.1, 0.5, 0.8, 1.0], n_cells)
    return added_up(
        (generator.random(len(cell)) < rate[cell]).astype(float),
        cell % 4,
        cell // 4,
        rule=rule,
        scores=generator.uniform(0.01, 0.99, len(cell)),
        weights=generator.uniform(0.1, 1, len(cell)) if weighted else None,
    )


def label_vectors(q: Floats) -> Iterator[tuple[Floats, float]]:
    """Yield all label vectors with their chance, each row's label drawn with its own rate."""
    for vector in product([0.0, 1.0], repeat=len(q)):
        labels = np.array(vector)
        yield labels, float(np.prod(np.where(labels == 1, q, 1 - q)))


def sample_variance(q: Floats, level_set: Codes) -> float:
    """Return the unbiased variance of the rows' rates inside level sets, averaged over rows."""
    return sum(
        float(np.sum(level_set == level) * q[level_set == level].var(ddof=1))
        for level in np.unique(level_set)
        if np.sum(level_set == level) > 1
    ) / len(q)


DESIGNS = {
    "two regions of two": ([0, 0, 1, 1], [0, 0, 0, 0], [0.2, 0.9]),
    "unequal regions": ([0, 0, 0, 0, 1, 1, 2, 2], [0] * 8, [0.1, 0.5, 0.95]),
    "two level sets": ([0, 0, 1, 1, 1, 2, 2, 3, 3], [0] * 5 + [1] * 4, [0.3, 0.7, 0.05, 0.4]),
    "a lone row": ([0, 0, 1, 1, 2], [0, 0, 0, 0, 1], [0.3, 0.6, 0.5]),
    "certain regions": ([0, 0, 1, 1, 1], [0] * 5, [0.0, 1.0]),
    "no difference": ([0, 0, 0, 1, 1, 1], [0] * 6, [0.35, 0.35]),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_the_explained_brier_loss_is_exactly_unbiased_given_the_partition(name: str) -> None:
    # rows drawn afresh make the sample variance of their rates unbiased for the variance of rates
    region, level_set, rates = (np.array(part) for part in DESIGNS[name])
    q = rates[region]
    mean = sum(
        chance
        * level_set_losses(added_up(y, region, level_set, rule=Brier()), Brier()).total("explained")
        for y, chance in label_vectors(q)
    )
    assert mean == pytest.approx(sample_variance(q, level_set), abs=1e-12)


@pytest.mark.parametrize("name", ["unequal regions", "no difference"])
def test_the_plugin_is_biased_upwards_where_regions_are_uncertain(name: str) -> None:
    region, level_set, rates = (np.array(part) for part in DESIGNS[name])
    q = rates[region]
    mean = sum(
        chance * level_set_losses(added_up(y, region, level_set, rule=Brier()), Brier()).total("plugin")
        for y, chance in label_vectors(q)
    )
    assert mean > sample_variance(q, level_set) + 0.01


def drawn_counts(n: int, chances: Floats) -> Iterator[tuple[list[int], float]]:
    """Yield how often each of four kinds of rows occurs among ``n``, with the exact chance."""
    for a, b, c in product(range(n + 1), repeat=3):
        counts = [a, b, c, n - a - b - c]
        if counts[3] >= 0:
            ways = factorial(n) / prod(map(factorial, counts))
            yield counts, ways * float(np.prod(chances ** np.array(counts)))


# two regions of one level set: the chance of the first, and the rate of each
POPULATIONS = [(0.5, 0.2, 0.8), (0.3, 0.5, 0.5), (0.25, 0.05, 0.4), (0.6, 0.0, 1.0)]


@pytest.mark.parametrize(("first", "p", "q"), POPULATIONS)
@pytest.mark.parametrize("n", [4, 9])
def test_pooling_keeps_the_explained_brier_loss_a_lower_bound(
    n: int, first: float, p: float, q: float
) -> None:
    mean, unbiased = 0.0, 0.0
    chances = np.array([first * (1 - p), first * p, (1 - first) * (1 - q), (1 - first) * q])
    for counts, chance in drawn_counts(n, chances):
        kind = np.repeat(np.arange(4), counts)
        stats = added_up((kind % 2).astype(float), kind // 2, rule=Brier())
        stats = stats.relabel(pool_small_regions(stats.level_set, stats.region, stats.n))
        explained = level_set_losses(stats, Brier()).total("explained")
        mean += chance * explained
        if min(counts[0] + counts[1], counts[2] + counts[3]) != 1:
            unbiased += chance * sample_variance(np.array([p, q])[kind // 2], np.zeros_like(kind))
    truth = first * (1 - first) * (p - q) ** 2
    assert mean == pytest.approx(unbiased, abs=1e-12)
    assert mean <= truth + 1e-12


@pytest.mark.parametrize(("first", "p", "q"), POPULATIONS)
@pytest.mark.parametrize("n", [2, 5, 9])
def test_the_conservative_log_loss_is_a_lower_bound_in_expectation(
    n: int, first: float, p: float, q: float
) -> None:
    rule, centre = LogLoss(), first * p + (1 - first) * q
    truth = rule.entropy(centre) - first * rule.entropy(p) - (1 - first) * rule.entropy(q)
    chances = np.array([first * (1 - p), first * p, (1 - first) * (1 - q), (1 - first) * q])
    mean = 0.0
    for counts, chance in drawn_counts(n, chances):
        kind = np.repeat(np.arange(4), counts)
        stats = added_up((kind % 2).astype(float), kind // 2, rule=rule)
        mean += chance * conservative_explained_loss(stats)
    assert mean <= float(truth) + 1e-12


@given(seed=SEEDS)
@LAW
def test_the_bias_of_the_brier_plugin_is_the_closed_form(seed: int) -> None:
    stats = random_stats(seed, Brier())
    levels = stats.by_level_set()
    m, c = stats.mean("label"), levels.mean("label")
    regions = np.bincount(
        np.searchsorted(levels.level_set, stats.level_set), stats.n * m * (1 - m) / (stats.n - 1)
    )
    expected = regions / levels.n - c * (1 - c) / (levels.n - 1)
    np.testing.assert_allclose(level_set_losses(stats, Brier()).bias, expected, atol=1e-12)


@given(seed=SEEDS)
@LAW
def test_the_explained_brier_loss_exceeds_the_plugin_by_at_most_one_over_n(seed: int) -> None:
    # plugin n/(n-1) less a term that is zero only for pure regions, or for a single one
    losses = level_set_losses(random_stats(seed, Brier()), Brier())
    assert np.all(losses.explained <= losses.plugin * losses.n / (losses.n - 1) + 1e-12)


@given(seed=SEEDS)
@LAW
def test_the_plugin_exceeds_the_explained_brier_loss_where_regions_hold_both_outcomes(seed: int) -> None:
    generator = np.random.default_rng(seed)
    region = np.repeat(np.arange(4), generator.integers(2, 8, 4))
    half = np.arange(len(region)) % 2  # alternating labels: every region has both outcomes
    losses = level_set_losses(added_up(half.astype(float), region, rule=Brier()), Brier())
    assert np.all(losses.plugin >= losses.explained)


def test_pure_regions_are_debiased_upwards() -> None:
    labels, region = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1])
    losses = level_set_losses(added_up(labels, region, rule=Brier()), Brier())
    assert losses.plugin.tolist() == [0.25]
    assert losses.explained[0] == pytest.approx(1 / 3, abs=1e-15)


@each_rule
@given(seed=SEEDS)
@LAW
def test_a_level_set_with_one_region_explains_nothing(rule: ScoringRule, seed: int) -> None:
    losses = level_set_losses(random_stats(seed, rule).by_level_set(), rule)
    np.testing.assert_allclose(losses.plugin, 0, atol=1e-12)
    np.testing.assert_allclose(losses.explained, 0, atol=1e-12)
    np.testing.assert_array_equal(losses.n_regions, 1)


@each_rule
@given(seed=SEEDS, weighted=st.booleans())
@LAW
def test_the_plugin_is_never_negative(rule: ScoringRule, seed: int, weighted: bool) -> None:
    stats = random_stats(seed, rule, weighted=weighted)
    assert np.all(level_set_losses(stats, rule).plugin >= -1e-12)
    assert np.all(region_losses(stats, rule).plugin >= 0)


@each_rule
@given(seed=SEEDS, weighted=st.booleans())
@LAW
def test_the_variance_of_a_fine_partition_is_between_plus_within_coarse_regions(
    rule: ScoringRule, seed: int, weighted: bool
) -> None:
    fine = random_stats(seed, rule, weighted=weighted)
    half = fine.region // 2
    coarse = fine.relabel(half)
    within = replace(fine, level_set=fine.level_set * 2 + half, region=fine.region)
    for name in ("plugin", "explained"):
        total = level_set_losses(fine, rule).total(name)
        between = level_set_losses(coarse, rule).total(name)
        inside = level_set_losses(within, rule).total(name)
        assert total == pytest.approx(between + inside, abs=1e-11)


@each_rule
@given(seed=SEEDS, weighted=st.booleans())
@LAW
def test_each_storey_is_the_weighted_sum_of_the_one_below(
    rule: ScoringRule, seed: int, weighted: bool
) -> None:
    stats = random_stats(seed, rule, weighted=weighted)
    levels, regions = level_set_losses(stats, rule), region_losses(stats, rule)
    position = np.searchsorted(levels.level_set, regions.level_set)
    inside = np.bincount(position, regions.weight * regions.plugin) / levels.weight
    # a numerical slope is off by its step squared
    np.testing.assert_allclose(inside, levels.plugin, atol=1e-9)
    for name in ("plugin", "bias", "explained", "induced", "grouping_loss", "calibration_loss"):
        values = getattr(levels, name)
        assert levels.total(name) == pytest.approx(float(np.average(values, weights=levels.weight)))
    np.testing.assert_allclose(levels.explained, levels.plugin - levels.bias)
    np.testing.assert_allclose(levels.grouping_loss, levels.explained - levels.induced)
    assert levels.share.sum() == pytest.approx(1)


@each_rule
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_level_set_with_one_row_contributes_nothing(rule: ScoringRule, label: float) -> None:
    labels = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    region, scores = np.array([0, 0, 0, 1, 1, 1]), np.linspace(0.1, 0.9, 6)
    few = level_set_losses(added_up(labels, region, rule=rule, scores=scores), rule)
    more = level_set_losses(
        added_up(
            np.append(labels, label),
            np.append(region, 0),
            np.append(np.zeros(6, np.int64), 3),
            rule=rule,
            scores=np.append(scores, 0.7),
        ),
        rule,
    )
    for name in ("plugin", "bias", "explained", "induced", "grouping_loss", "calibration_loss"):
        values = getattr(more, name)
        assert values[1] == pytest.approx(0, abs=1e-12)
        assert values[0] == pytest.approx(getattr(few, name)[0], abs=1e-12)
        assert more.total(name) == pytest.approx(few.total(name) * 6 / 7, abs=1e-12)


def test_the_conservative_loss_of_a_single_row_is_nothing() -> None:
    assert conservative_explained_loss(added_up(np.array([1.0]), np.array([0]), rule=LogLoss())) == 0


@each_rule
@given(seed=SEEDS)
@LAW
def test_the_scale_of_the_weights_does_not_matter(rule: ScoringRule, seed: int) -> None:
    labels, region, weights = weighted_rows(seed)
    whole, half = (
        level_set_losses(added_up(labels, region, rule=rule, weights=weights * scale), rule)
        for scale in (1.0, 0.125)
    )
    for name in LevelSetLosses.AVERAGED:
        np.testing.assert_allclose(getattr(half, name), getattr(whole, name), atol=1e-9)


@given(seed=SEEDS)
@LAW
def test_equal_weights_do_not_change_the_conservative_loss(seed: int) -> None:
    labels, region, _ = weighted_rows(seed)
    plain = conservative_explained_loss(added_up(labels, region, rule=LogLoss()))
    halves = np.full(len(labels), 0.5)
    halved = conservative_explained_loss(added_up(labels, region, rule=LogLoss(), weights=halves))
    assert halved == pytest.approx(plain, abs=1e-9)


def weighted_rows(seed: int) -> tuple[Floats, Codes, Floats]:
    generator = np.random.default_rng(seed)
    region = np.repeat(np.arange(3), generator.integers(2, 8, 3))
    labels = (generator.random(len(region)) < 0.5).astype(float)
    return labels, region, generator.choice([0.25, 0.5, 1.0], len(region))


@each_rule
@given(seed=SEEDS)
@LAW
def test_equal_weights_are_no_weights(rule: ScoringRule, seed: int) -> None:
    labels, region, _ = weighted_rows(seed)
    plain = level_set_losses(added_up(labels, region, rule=rule), rule)
    equal = level_set_losses(
        added_up(labels, region, rule=rule, weights=np.full(len(labels), 0.5)), rule
    )
    for name in LevelSetLosses.AVERAGED:
        np.testing.assert_allclose(getattr(equal, name), getattr(plain, name), atol=1e-9)


@given(seed=SEEDS)
@LAW
def test_the_binned_calibration_loss_is_read_off_the_residuals(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 30))
    scores = generator.random(n)
    labels = (generator.random(n) < 0.4).astype(float)
    stats = added_up(labels, np.zeros(n, np.int64), rule=Brier(), scores=scores)
    residual = labels - scores
    expected = (residual.sum() ** 2 - (residual**2).sum()) / (n * (n - 1))
    losses = level_set_losses(stats, Brier())
    assert losses.calibration_loss_binned[0] == pytest.approx(expected, abs=1e-11)
    assert losses.calibration_loss_plugin[0] == pytest.approx(residual.mean() ** 2, abs=1e-11)


def test_the_binned_calibration_loss_is_exactly_unbiased() -> None:
    # two independent rows' residuals multiply to the product of their means
    scores = np.array([0.1, 0.15, 0.3, 0.22, 0.05])
    q = np.array([0.4, 0.1, 0.35, 0.6, 0.2])
    mean = sum(
        chance
        * level_set_losses(
            added_up(y, np.zeros(5, np.int64), rule=Brier(), scores=scores), Brier()
        ).total("calibration_loss_binned")
        for y, chance in label_vectors(q)
    )
    gap = q - scores
    assert mean == pytest.approx((gap.sum() ** 2 - (gap**2).sum()) / 20, abs=1e-12)


@each_rule
@given(seed=SEEDS)
@LAW
def test_the_induced_loss_is_the_variance_of_the_curve_inside_bins(rule: ScoringRule, seed: int) -> None:
    generator = np.random.default_rng(seed)
    curve = generator.random(20)
    labels, region = (generator.random(20) < curve).astype(float), generator.integers(0, 2, 20)
    losses = level_set_losses(added_up(labels, region, rule=rule, curves=(curve, curve)), rule)
    expected = rule.entropy(curve.mean()) - rule.entropy(curve).mean()
    assert losses.induced[0] == pytest.approx(float(expected), abs=1e-11)
    assert losses.induced[0] >= -1e-12


@given(seed=SEEDS)
@LAW
def test_two_curves_induce_their_covariance_under_the_brier_score(seed: int) -> None:
    generator = np.random.default_rng(seed)
    a, b = generator.random((2, 20))
    labels, region = (generator.random(20) < a).astype(float), np.zeros(20, np.int64)
    losses = level_set_losses(added_up(labels, region, rule=Brier(), curves=(a, b)), Brier())
    assert losses.induced[0] == pytest.approx((a * b).mean() - a.mean() * b.mean(), abs=1e-11)


@given(seed=SEEDS)
@LAW
def test_a_curve_equal_to_the_score_leaves_no_calibration_loss_inside_bins(seed: int) -> None:
    stats = random_stats(seed, Brier())
    losses = level_set_losses(stats, Brier())
    np.testing.assert_allclose(losses.calibration_loss, losses.calibration_loss_binned, atol=1e-11)


def test_an_infinite_score_stays_in_its_level_set_and_spares_the_grouping_loss() -> None:
    labels = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
    scores = np.array([0.0, 0.1, 0.1, 0.1, 0.6, 0.6, 0.6, 0.6])
    region, level_set = np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.repeat([0, 1], 4)
    losses = level_set_losses(
        added_up(labels, region, level_set, rule=LogLoss(), scores=scores), LogLoss()
    )
    assert losses.score[0] == losses.calibration_loss[0] == np.inf
    assert np.isfinite([losses.score[1], losses.calibration_loss[1]]).all()
    assert losses.total("score") == np.inf
    assert np.isfinite(losses.explained).all()


@each_rule
def test_regions_report_their_rates_beside_their_level_set(rule: ScoringRule) -> None:
    labels = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    region, level_set = np.array([5, 5, 2, 2, 0, 0]), np.array([0, 0, 0, 0, 1, 1])
    regions = region_losses(added_up(labels, region, level_set, rule=rule), rule)
    assert regions.region.tolist() == [2, 5, 0]
    assert regions.label_mean.tolist() == [1.0, 0.5, 0.0]
    assert regions.level_label_mean.tolist() == [0.75, 0.75, 0.0]
    assert regions.n.tolist() == [2, 2, 2]
    np.testing.assert_allclose(regions.plugin[2], 0)
