"""The gate in tests: it fails where a loss is too large beyond noise, and says which."""

from __future__ import annotations

from pathlib import Path

import pytest

import epiloss
from epiloss.errors import DataError, OptionError
from epiloss.simulate import Sigmoid
from epiloss.testing import assert_trustworthy


@pytest.fixture(scope="module")
def audits() -> tuple[epiloss.Audit, epiloss.Audit]:
    """Return the audit of the truth, and that of scores with a grouping loss of about 0.04."""
    sample = Sigmoid(perturbation="step").sample(4_000)
    good, bad = (epiloss.audit(sample.y, p, sample.X) for p in (sample.q, sample.scores))
    return good, bad


def test_good_probabilities_pass_every_gate(audits: tuple[epiloss.Audit, epiloss.Audit]) -> None:
    good, bad = audits
    assert_trustworthy(good)
    assert_trustworthy(good, limits={"grouping": 0.005, "calibration": 0.005, "score": 0.3})
    assert_trustworthy(good, baseline=bad)
    assert_trustworthy(bad, baseline=bad)


def test_bad_ones_fail_with_the_reason_and_the_ledger(
    audits: tuple[epiloss.Audit, epiloss.Audit], tmp_path: Path
) -> None:
    good, bad = audits
    path = tmp_path / "good.json"
    good.to_json(path)
    with pytest.raises(AssertionError, match=r"grouping loss is significantly above 0\.005") as limit:
        assert_trustworthy(bad, limits={"grouping": 0.005})
    with pytest.raises(AssertionError, match="significantly larger than in the baseline"):
        assert_trustworthy(bad, baseline=path)
    with pytest.raises(AssertionError, match="Repair"):
        assert_trustworthy(bad)
    assert str(bad) in str(limit.value)
    assert_trustworthy(bad, baseline=path, margin=0.1)
    assert_trustworthy(bad, limits={"grouping": 0.1})


def test_a_gate_that_means_nothing_is_refused(audits: tuple[epiloss.Audit, epiloss.Audit]) -> None:
    good, _ = audits
    with pytest.raises(OptionError, match="limits must be for grouping, calibration, score"):
        assert_trustworthy(good, limits={"brier": 0.1})
    with pytest.raises(DataError, match="No such file"):
        assert_trustworthy(good, baseline="none.json")
