from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import epiloss
from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import uniform_level_sets
from epiloss.estimation.losses import LevelSetLosses, conservative_explained_loss, level_set_losses
from epiloss.estimation.region_stats import RegionStats
from epiloss.partition import pool_small_regions
from epiloss.scoring import resolve_rule

GOLDEN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden" / "partition.json").read_text()
)
EXACT = 1e-12
DESIGNS = ["g1", "g2", "g4"]

each_design = pytest.mark.parametrize("name", DESIGNS)


class Design(NamedTuple):
    y: Codes
    scores: Floats
    region: Codes
    bins: int


@cache
def design(name: str) -> Design:
    """Draw the rows by the recipe written in the golden file."""
    if name == "g1":
        i = np.arange(240)
        bins, region = i % 4, (i // 4) % 3
        y = (7 * i + i // 5) % 11 < 2 + 2 * bins + 2 * region
        return Design(y.astype(np.int64), (bins + 0.5) / 4, region, 4)
    if name == "g2":
        rng = np.random.default_rng(0)
        S, region = rng.random(1000), rng.integers(0, 4, 1000)
        q = np.clip(S + 0.2 * (region - 1.5) / 1.5 * 2 * np.minimum(S, 1 - S), 0, 1)
        return Design((rng.random(1000) < q).astype(np.int64), S, region, 15)
    rng = np.random.default_rng(2)
    S, region = rng.random(120), rng.integers(0, 20, 120)
    return Design((rng.random(120) < S).astype(np.int64), S, region, 5)


def cells(name: str, rule: str) -> RegionStats:
    """Return the statistics of a design before small regions are pooled."""
    y, scores, region, bins = design(name)
    level_set = uniform_level_sets(bins).assign(scores)
    return RegionStats.from_rows(
        level_set, region, labels=y.astype(float), scores=scores, rule=resolve_rule(rule)
    )


@cache
def pooled(name: str, rule: str) -> RegionStats:
    stats = cells(name, rule)
    return stats.relabel(pool_small_regions(stats.level_set, stats.region, stats.n))


def losses(name: str, rule: str) -> LevelSetLosses:
    return level_set_losses(pooled(name, rule), resolve_rule(rule))


@cache
def audited(name: str, rule: str) -> epiloss.Audit:
    y, scores, region, bins = design(name)
    return epiloss.audit(
        y, scores, subgroups=region, n_bins=bins, rule=rule, curve=lambda s: s, method="partition"
    )


def exact_explained(stats: RegionStats) -> Fraction:
    """Work the debiased explained loss out from the counts alone, in whole numbers."""

    def unbiased(one: RegionStats) -> Fraction:
        counts = zip(one["label"].astype(int).tolist(), one.n.astype(int).tolist(), strict=True)
        return sum((Fraction(t * (t - 1), n - 1) for t, n in counts if n > 1), Fraction(0))

    n_rows = int(stats.n.sum())
    return (unbiased(stats) - unbiased(stats.by_level_set())) / n_rows


@each_design
def test_the_recipe_gives_the_golden_rows(name: str) -> None:
    y, scores, _, _ = design(name)
    expected = GOLDEN[name]
    assert len(y) == expected["n"]
    assert y.sum() == expected["sum_y"]
    if "sum_S" in expected:
        assert scores.sum() == pytest.approx(expected["sum_S"], abs=1e-10)


@each_design
@pytest.mark.parametrize("rule", ["brier", "log"])
def test_the_statistics_keep_the_golden_sums(name: str, rule: str) -> None:
    stats, expected = pooled(name, rule), GOLDEN[name]
    assert stats.n.sum() == expected["n"]
    assert stats["label"].sum() == expected["sum_y"]
    if "sum_S" in expected:
        assert stats["score"].sum() == pytest.approx(expected["sum_S"], abs=1e-10)


def regions_after_pooling(name: str) -> int:
    """Count the regions that the pooling rule leaves, row by row and without RegionStats."""
    _, scores, region, bins = design(name)
    rows = Counter(zip((scores * bins).astype(int).tolist(), region.tolist(), strict=True))
    singles = Counter(level for (level, _), n in rows.items() if n == 1)
    n_large = sum(n > 1 for n in rows.values())
    return n_large + sum(n > 1 for n in singles.values())  # a pool of one row joins another region


@each_design
def test_the_golden_number_of_regions_is_found_and_pooled(name: str) -> None:
    # the golden n_regions counts the regions with rows before pooling, its losses are after it
    before, expected = cells(name, "brier"), GOLDEN[name]
    assert before.n_cells == expected["n_regions"]
    assert (before.n == 1).sum() == expected["n_singletons_before_pooling"]
    after = pooled(name, "brier")
    assert after.n_cells == losses(name, "brier").n_regions.sum() == regions_after_pooling(name)
    assert (after.n >= 2).all()


@each_design
def test_the_brier_losses_are_the_golden_ones(name: str) -> None:
    levels, expected = losses(name, "brier"), GOLDEN[name]
    assert levels.total("plugin") == pytest.approx(expected["plugin"], abs=EXACT)
    assert levels.total("bias") == pytest.approx(expected["bias"], abs=EXACT)
    assert levels.total("explained") == pytest.approx(expected["debiased"], abs=EXACT)


@each_design
def test_the_explained_brier_loss_is_the_golden_fraction(name: str) -> None:
    fraction = exact_explained(pooled(name, "brier"))
    assert fraction == Fraction(GOLDEN[name]["exact_debiased_fraction"])
    assert losses(name, "brier").total("explained") == pytest.approx(float(fraction), abs=EXACT)


@each_design
def test_the_log_losses_are_the_golden_ones(name: str) -> None:
    levels, expected = losses(name, "log"), GOLDEN[name]
    assert levels.total("plugin") == pytest.approx(expected["log_plugin"], abs=EXACT)
    assert levels.total("explained") == pytest.approx(expected["log_jackknife"], abs=EXACT)
    bias = expected["log_plugin"] - expected["log_jackknife"]
    assert levels.total("bias") == pytest.approx(bias, abs=EXACT)


@each_design
@pytest.mark.parametrize("rule", ["brier", "log"])
def test_the_conservative_log_loss_is_the_golden_one(name: str, rule: str) -> None:
    # it is read off the counts, so the rule that the statistics were made with does not matter
    bound = conservative_explained_loss(pooled(name, rule))
    assert bound == pytest.approx(GOLDEN[name]["log_safe_lower_bound"], abs=EXACT)


@pytest.mark.parametrize("name", ["g2", "g4"])
def test_the_binned_calibration_losses_are_the_golden_ones(name: str) -> None:
    levels, expected = losses(name, "brier"), GOLDEN[name]
    debiased = levels.total("calibration_loss_binned")
    plugin = levels.total("calibration_loss_plugin")
    assert debiased == pytest.approx(expected["calibration_loss_binned_debiased"], abs=EXACT)
    assert plugin == pytest.approx(expected["calibration_loss_binned_plugin"], abs=EXACT)


@pytest.mark.parametrize("rule", ["brier", "log"])
def test_the_induced_loss_is_the_golden_one(rule: str) -> None:
    # without curves the score stands for its own calibrated score, as the recipe says
    induced = losses("g2", rule).total("induced")
    assert induced == pytest.approx(GOLDEN["g2"][f"induced_{rule}"], abs=EXACT)


def test_the_lower_bound_is_the_golden_one() -> None:
    bound = losses("g2", "brier").total("grouping_loss")
    assert bound == pytest.approx(GOLDEN["g2"]["lower_bound_brier"], abs=EXACT)


@each_design
def test_the_audit_gives_the_golden_brier_losses(name: str) -> None:
    result, expected = audited(name, "brier"), GOLDEN[name]
    assert result.n_samples == result.n_evaluated == expected["n"]
    assert result.plugin == pytest.approx(expected["plugin"], abs=EXACT)
    assert result.bias == pytest.approx(expected["bias"], abs=EXACT)
    assert result.explained == pytest.approx(expected["debiased"], abs=EXACT)
    assert result.explained == pytest.approx(
        float(Fraction(expected["exact_debiased_fraction"])), abs=EXACT
    )


@each_design
def test_the_audit_gives_the_golden_log_losses(name: str) -> None:
    result, expected = audited(name, "log"), GOLDEN[name]
    assert result.plugin == pytest.approx(expected["log_plugin"], abs=EXACT)
    assert result.explained == pytest.approx(expected["log_jackknife"], abs=EXACT)
    assert result.bias == pytest.approx(expected["log_plugin"] - expected["log_jackknife"], abs=EXACT)


def test_the_audit_gives_the_golden_induced_losses_and_lower_bound() -> None:
    expected = GOLDEN["g2"]
    brier, log = audited("g2", "brier"), audited("g2", "log")
    assert brier.induced == pytest.approx(expected["induced_brier"], abs=EXACT)
    assert log.induced == pytest.approx(expected["induced_log"], abs=EXACT)
    assert brier.grouping_loss.value == pytest.approx(expected["lower_bound_brier"], abs=EXACT)
    log_bound = expected["log_jackknife"] - expected["induced_log"]
    assert log.grouping_loss.value == pytest.approx(log_bound, abs=EXACT)


@each_design
@pytest.mark.parametrize("rule", ["brier", "log"])
def test_the_audit_reports_the_regions_after_pooling(name: str, rule: str) -> None:
    result = audited(name, rule)
    assert len(result.regions) == regions_after_pooling(name)
    assert result.level_sets["n_regions"].sum() == regions_after_pooling(name)
    assert result.regions["n"].sum() == GOLDEN[name]["n"]


def test_scores_equal_inside_each_level_set_induce_no_grouping_loss() -> None:
    for rule in ("brier", "log"):
        result = audited("g1", rule)
        assert result.induced == pytest.approx(0, abs=EXACT)
        assert result.grouping_loss.value == pytest.approx(result.explained, abs=EXACT)


@each_design
@pytest.mark.parametrize("rule", ["brier", "log"])
def test_the_ledger_of_the_audit_adds_up(name: str, rule: str) -> None:
    result = audited(name, rule)
    parts = (result.calibration_loss, result.grouping_loss, result.remainder)
    assert sum(part.value for part in parts) == pytest.approx(result.score.value, abs=EXACT)
    assert result.explained == pytest.approx(result.plugin - result.bias, abs=EXACT)
