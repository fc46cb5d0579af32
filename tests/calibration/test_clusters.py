"""How much labels of one cluster depend on each other."""

from __future__ import annotations

import numpy as np
import pytest

from epiloss.calibration.clusters import ClusterParts, design_effect


def clustered(icc: float, n: int = 2_000, size: int = 5) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    cluster = np.repeat(np.arange(n), size)
    scores = generator.uniform(0.1, 0.9, n)[cluster]
    common = generator.random(n * size) < np.sqrt(icc)
    chance = np.where(common, generator.random(n)[cluster], generator.random(n * size))
    return scores, (chance < scores).astype(float), cluster


@pytest.mark.parametrize("icc", [0.0, 0.3, 1.0])
def test_the_design_effect_is_that_of_the_correlation(icc: float) -> None:
    """One sample of 2,000 clusters of five that share a score: within a tenth."""
    scores, labels, cluster = clustered(icc)
    assert design_effect(scores, labels, None, cluster) == pytest.approx(1 + 4 * icc, rel=0.1)


def test_whole_weights_have_the_design_effect_of_copies() -> None:
    scores, labels, _ = clustered(0.0, 300, 1)
    times = np.resize([1, 4, 2], 300)
    again = np.repeat(np.arange(300), times)
    copies = design_effect(scores[again], labels[again], None, again)
    assert copies == pytest.approx((times**2).sum() / times.sum(), rel=1e-9)
    assert design_effect(scores, labels, times.astype(float), np.arange(300)) == pytest.approx(1.0)


def test_of_single_rows_nothing_depends_on_anything() -> None:
    parts = ClusterParts.of(np.zeros(5, int), np.arange(5), None)
    assert parts.squares(parts.correlation(np.ones(5))).tolist() == [1.0] * 5


def test_rows_of_other_cells_do_not_count() -> None:
    parts = ClusterParts.of(np.array([0, 0, 1]), np.array([7, 7, 7]), np.array([1.0, 0.5, 0.25]))
    assert parts.squares(1.0).tolist() == [1.5, 0.75, 0.0625]
    assert parts.squares(0.0).tolist() == [1.0, 0.25, 0.0625]
