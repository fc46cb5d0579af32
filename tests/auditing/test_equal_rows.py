"""Rows with equal features measure their grouping loss from both sides, without a learner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import epiloss
from epiloss.auditing.ledger import ledger


def drawn(n: int, seed: int, *, off: float) -> tuple[Any, Any, Any]:
    """Draw rows of 120 kinds; the parity of two columns, which learners hardly find, moves the label."""
    generator = np.random.default_rng(seed)
    a, b, c = (generator.integers(0, k, n) for k in (6, 5, 4))
    scores = np.round(expit(0.5 * (a - 2.5)), 3)
    q = scores + off * np.where((b + c) % 2 == 0, 1, -1)
    return (generator.random(n) < q).astype(int), scores, {"a": a, "b": b, "c": c.astype(str)}


@pytest.mark.slow
@pytest.mark.parametrize(("off", "truth"), [(0.12, 0.0144), (0.0, 0.0)])
def test_the_loss_is_measured_from_both_sides(off: float, truth: float) -> None:
    """25 samples: the mean within 3 standard errors of the truth, and 4 or fewer intervals miss it."""
    found = [epiloss.audit(*drawn(1_500, seed, off=off)).equal_rows for seed in range(25)]
    values = np.array([one.grouping_loss.value for one in found if one is not None])
    assert len(values) == 25
    assert abs(values.mean() - truth) < 3 * values.std(ddof=1) / 5
    missed = [one for one in found if one and not _holds(one.grouping_loss, truth)]
    assert len(missed) <= 4


def _holds(estimate: epiloss.Estimate, truth: float) -> bool:
    return (
        estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high
    )


def test_it_shows_what_learners_miss(tmp_path: Path) -> None:
    result = epiloss.audit(*drawn(3_000, 3, off=0.18))
    found = result.equal_rows
    assert found is not None
    assert found.share == 1.0
    assert found.learned == pytest.approx(result.grouping_loss.value)
    assert (found.grouping_loss.low or 0.0) > 0.02
    assert f"note: {found}" in ledger(result)
    result.to_json(tmp_path / "audit.json")
    saved = json.loads((tmp_path / "audit.json").read_text())
    assert saved["equal_rows"]["n_kinds"] == 120
    assert saved["equal_rows"]["agrees"] is found.agrees


def test_only_a_share_of_the_rows_may_have_equals() -> None:
    y, scores, X = drawn(3_000, 0, off=0.12)
    alone = np.arange(3_000) < 1_500
    X = {**X, "alone": np.where(alone, np.arange(3_000.0), -1.0)}
    found = epiloss.audit(y, scores, X).equal_rows
    assert found is not None
    assert found.share == pytest.approx(0.5, abs=0.001)
    assert found.n_rows <= 1_500


def test_copies_clusters_and_rows_that_are_alone_are_no_repeated_labels() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(800, 3))
    scores = expit(X[:, 0])
    y = (generator.random(800) < scores).astype(int)
    assert epiloss.audit(y, scores, X).equal_rows is None
    twice = np.repeat(np.arange(800), 2)
    assert epiloss.audit(y[twice], scores[twice], X[twice]).equal_rows is None
    y, scores, X = drawn(1_500, 0, off=0.12)
    assert epiloss.audit(y, scores, X, clusters=np.arange(1_500) // 3).equal_rows is None
    assert epiloss.audit(y, scores, X, rule="log").equal_rows is None
