"""Boosted trees: the compiled loops and their NumPy reference are the same bits, and trees learn."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from scipy.special import expit

from epiloss._kernels import reference
from epiloss._kernels.boosting import Growth, plain_expit

GROWTH = Growth(n_trees=20, n_leaves=8, deepest=6, rate=0.3, ridge=1.0, least=2.0)


def columns_of(
    codes: np.ndarray[tuple[int, int], np.dtype[np.uint8]],
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.arange(len(codes), dtype=np.int32)


@pytest.fixture(params=["compiled", "reference"])
def loops(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "reference":
        return reference
    module: ModuleType = pytest.importorskip("epiloss._kernels.compiled")
    return module


@pytest.mark.parametrize("seed", range(12))
def test_both_versions_have_the_same_bits(seed: int) -> None:
    compiled = pytest.importorskip("epiloss._kernels.compiled")
    g = np.random.default_rng(seed)
    n, d = int(g.integers(1, 400)), int(g.integers(1, 9))
    codes = g.integers(0, int(g.choice([2, 40, 64])), (d, n)).astype(np.uint8)
    weight = g.random(n) * g.choice([1e-6, 0.25])
    label, offset = (g.random(n) < 0.4).astype(float), g.normal(size=n)
    for target, start in ((label - 0.4, None), (label, offset)):
        found = []
        for loops in (compiled, reference):
            total, again = np.zeros(n), np.zeros(n)
            nodes = loops.boost(codes, columns_of(codes), target, weight, start, total, GROWTH)
            loops.boosted(codes, np.arange(n, dtype=np.int32), nodes, again)
            found.append((nodes.tobytes(), total.tobytes(), again.tobytes()))
        assert found[0] == found[1]


def test_the_logistic_function_by_basic_operations_is_exact_to_rounding() -> None:
    x = np.linspace(-40, 40, 4_001)
    np.testing.assert_allclose(plain_expit(x), expit(np.clip(x, -36, 36)), rtol=1e-14)


def test_the_sum_of_the_trees_is_what_they_were_left_with(loops: ModuleType) -> None:
    g = np.random.default_rng(0)
    codes = g.integers(0, 64, (3, 200)).astype(np.uint8)
    total, again = np.zeros(200), np.zeros(200)
    target, weight = g.normal(size=200), np.ones(200)
    nodes = loops.boost(codes, columns_of(codes), target, weight, None, total, GROWTH)
    loops.boosted(codes, np.arange(200, dtype=np.int32), nodes, again)
    np.testing.assert_allclose(total, again, rtol=1e-12)


def test_a_step_is_learned_and_missing_values_go_where_they_belong(loops: ModuleType) -> None:
    codes = np.tile(np.arange(64, dtype=np.uint8), 20)[None]
    truth = np.where((codes[0] < 32) | (codes[0] == 63), -1.0, 1.0)  # 63 stands for missing values
    total = np.zeros(len(truth))
    loops.boost(codes, columns_of(codes), truth, np.ones(len(truth)), None, total, GROWTH)
    np.testing.assert_allclose(total, truth, atol=0.02)


def test_labels_beyond_an_offset_are_learned_on_the_scale_of_log_odds(loops: ModuleType) -> None:
    """One draw of 20,000 labels: log-odds of -1 and 1 are met within 0.15, four standard errors."""
    g = np.random.default_rng(1)
    codes = g.integers(0, 2, (1, 20_000)).astype(np.uint8)
    offset = np.full(20_000, 0.7)
    label = (g.random(20_000) < expit(offset + np.where(codes[0] == 0, -1.0, 1.0))).astype(float)
    total = np.zeros(20_000)
    growth = Growth(n_trees=60, n_leaves=4, deepest=2, rate=0.3, ridge=1.0, least=2.0)
    loops.boost(codes, columns_of(codes), label, np.ones(20_000), offset, total, growth)
    for code, expected in ((0, -1.0), (1, 1.0)):
        assert abs(total[codes[0] == code][0] - expected) < 0.15
