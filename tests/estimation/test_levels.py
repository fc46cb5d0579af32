"""Effects of the levels of categories: shrunk like random effects, and none if there is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss.estimation.learning.levels import fit_levels, levels_of, numbers_of_levels
from epiloss.input.features import Features

N_LEVELS = 200


def drawn(n: int, seed: int, spread: float) -> tuple[Any, Any, Any]:
    """Return levels, residuals with the variance ``w`` and effects of this spread, and weights ``w``."""
    g = np.random.default_rng(seed)
    level = g.integers(N_LEVELS, size=n).astype(np.int32)
    weight = g.uniform(0.1, 0.25, n)
    effects = spread * g.normal(size=N_LEVELS)
    residual = weight * effects[level] + np.sqrt(weight) * g.normal(size=n)
    return level, residual, weight


def test_the_penalty_is_the_inverse_variance_of_the_effects() -> None:
    """One sample with 500 rows a level: the penalty is known to about a tenth."""
    level, residual, weight = drawn(100_000, 0, 0.5)
    effects = fit_levels({0: level}, {0: N_LEVELS}, residual, weight).model.effects[0]
    sums, mass = np.bincount(level, residual), np.bincount(level, weight)
    penalty = np.median(sums / effects[:-1] - mass)
    assert penalty == pytest.approx(1 / 0.5**2 / 16, rel=0.3)
    assert effects[-1] == 0


def test_without_effects_there_are_none_or_small_ones() -> None:
    sizes = []
    for seed in range(20):
        level, residual, weight = drawn(4_000, seed, 0.0)
        found = fit_levels({0: level}, {0: N_LEVELS}, residual, weight)
        sizes.append(np.abs(weight * found.out_of_fold).mean() / np.sqrt(weight).mean())
    assert np.median(sizes) < 0.02


def test_predictions_out_of_fold_do_not_depend_on_a_row_s_own_residual() -> None:
    level, residual, weight = drawn(1_000, 1, 1.0)
    changed = residual.copy()
    changed[::2] += 1.0
    before = fit_levels({0: level}, {0: N_LEVELS}, residual, weight).out_of_fold
    after = fit_levels({0: level}, {0: N_LEVELS}, changed, weight).out_of_fold
    assert np.array_equal(before[::2], after[::2])
    assert not np.array_equal(before[1::2], after[1::2])


def test_missing_and_unknown_levels_come_last() -> None:
    names = tuple(map(str, range(12)))
    features = Features(np.array([[3.0], [np.nan], [40.0]]), ("site",), {0: names})
    assert numbers_of_levels({0: np.zeros(13, np.uint8), 1: np.zeros(3, np.uint8)}) == {0: 12}
    assert levels_of(features, {0: 12})[0].tolist() == [3, 12, 12]


def sites(seed: int, off: float, n: int = 5_000) -> tuple[Any, Any, Any]:
    """Return rows of 250 sites, half of which have rates above the score and half below."""
    g = np.random.default_rng(seed)
    site, scores = g.integers(250, size=n), g.uniform(0.2, 0.8, n)
    q = scores + off * np.where(site % 2, 1, -1)
    return (g.random(n) < q).astype(int), scores, {"site": np.char.add("s", site.astype(str))}


def test_a_loss_between_many_sites_is_found() -> None:
    """Ten samples with 20 rows a site and a loss of 0.01: at least 60% are found, never above it."""
    found = [epiloss.audit(*sites(seed, 0.1)).grouping_loss for seed in range(10)]
    values = np.array([one.value for one in found])
    assert 0.006 < values.mean() < 0.01 + 2 * values.std() / np.sqrt(10)
    assert max(one.pvalue or 0.0 for one in found) < 0.01


def test_no_loss_between_many_sites_is_found_where_there_is_none() -> None:
    """Ten samples: the mean is within 3 standard errors of 0, and one p-value at most is small."""
    found = [epiloss.audit(*sites(seed, 0.0)).grouping_loss for seed in range(10)]
    values = np.array([one.value for one in found])
    assert abs(values.mean()) < 3 * values.std() / np.sqrt(10) + 1e-4
    assert sum((one.pvalue or 0.0) < 0.05 for one in found) <= 1


def test_neither_the_order_of_levels_and_rows_nor_files_change_a_bit(tmp_path: Path) -> None:
    y, scores, X = sites(0, 0.1, 2_000)
    site = X["site"]
    expected = epiloss.audit(y, scores, {"site": site}).grouping_loss
    order = np.random.default_rng(1).permutation(len(y))
    renamed = pd.Categorical(site, categories=np.unique(site)[::-1])[order]
    assert (
        epiloss.audit(y[order], scores[order], pd.DataFrame({"site": renamed})).grouping_loss == expected
    )
    frame = pd.DataFrame({"site": site, "score": scores, "label": y})
    frame.iloc[order].to_parquet(tmp_path / "rows.parquet", index=False)
    found = epiloss.audit_table(tmp_path / "rows.parquet", label="label", score="score")
    assert found.grouping_loss == expected
