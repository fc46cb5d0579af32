"""Weighted audits say how many rows they are worth, and what loss they could find."""

from __future__ import annotations

import numpy as np
import pytest

import epiloss
from epiloss.auditing.detectable import effective_rows
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import Brier
from epiloss.simulate import Sigmoid

STEP = Sigmoid(perturbation="step")


def test_the_printed_result_says_that_it_is_weighted() -> None:
    sample = STEP.sample(1_000)
    weights = np.where(np.arange(1_000) % 2, 1.0, 3.0)
    result = epiloss.audit(sample.y, sample.scores, sample.X, sample_weight=weights, n_bins=5)
    assert result.effective_rows == pytest.approx(1_000 * 2.0**2 / 5.0)
    assert "weighted: 800 effective rows" in str(result)
    plain = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=5)
    assert plain.effective_rows is None
    assert "weighted" not in str(plain)


def test_one_row_with_nearly_all_weight_is_no_evidence() -> None:
    """Its standard error was 0, and the verdict sure."""
    sample = STEP.sample(1_000)
    weights = np.ones(1_000)
    weights[7] = 1e6
    result = epiloss.audit(sample.y, sample.scores, sample.X, sample_weight=weights, n_bins=5)
    assert result.verdict.kind == "unclear"
    assert "effective rows" in str(result.verdict)
    assert any(remark.code == "few-effective-rows" for remark in result.remarks)
    assert result.twin_estimate is None


@pytest.mark.parametrize("heavy", [30.0, 60.0])
def test_a_heavy_row_widens_the_interval(heavy: float) -> None:
    sample = STEP.sample(1_000)
    weights = np.ones(1_000)
    weights[7] = heavy
    plain = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=5).grouping_loss
    weighted = epiloss.audit(sample.y, sample.scores, sample.X, sample_weight=weights, n_bins=5)
    assert plain.stderr is not None
    assert weighted.grouping_loss.stderr is not None
    assert weighted.grouping_loss.stderr > 0.9 * plain.stderr


def test_clusters_that_agree_are_worth_fewer_rows() -> None:
    labels = np.repeat(np.array([0.0, 1.0] * 25), 4)
    scores = np.full(200, 0.5)
    rows = BinaryProblem(None, scores, labels, Brier(), None, None, None, None, np.arange(200) // 4)
    assert effective_rows(rows) == pytest.approx(50)


@pytest.mark.slow
def test_a_loss_as_large_as_the_smallest_detectable_is_mostly_found() -> None:
    """40 draws at 80% power: 25 to 38 find it (0.5% of the time it would be fewer, or more)."""
    found = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(600, 4))
        c, chance = 1 / (1 + np.exp(-X[:, 0])), generator.random(600)
        without = epiloss.audit((chance < c).astype(int), c, X, n_bins=5)
        assert without.smallest_detectable is not None
        effect = np.sign(X[:, 1]) * np.minimum(c, 1 - c)
        length = np.sqrt(without.smallest_detectable / np.mean(effect**2))
        y = (chance < c + length * effect).astype(int)
        found += (epiloss.audit(y, c, X, n_bins=5).grouping_loss.pvalue or 0.0) <= 0.05
    assert 25 <= found <= 38


def test_the_smallest_detectable_loss_is_told_and_falls_with_the_rows() -> None:
    one, two = (STEP.sample(n) for n in (1_000, 2_000))
    small = epiloss.audit(one.y, one.scores, one.X, n_bins=5)
    large = epiloss.audit(two.y, two.scores, two.X, n_bins=5)
    assert "smallest detectable, 80% power" in str(small)
    assert small.smallest_detectable is not None
    assert large.smallest_detectable is not None
    assert 0.4 < large.smallest_detectable / small.smallest_detectable < 0.7
    assert small.to_dict()["smallest_detectable"] == small.smallest_detectable
    by_regions = epiloss.audit(one.y, one.scores, one.X, n_bins=5, method="partition")
    assert by_regions.smallest_detectable is None
