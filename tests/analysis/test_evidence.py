"""Evidence that stays right however often one looks at it, and finds a change soon."""

from __future__ import annotations

import numpy as np
import pytest

from epiloss.analysis.evidence import (
    Sums,
    changes_since,
    evidence_of,
    half_width,
    log_evidence,
    start_weight,
    starts_of,
)


def drawn(
    rates: np.ndarray, rows: int, reference: int, generator: np.random.Generator, n_series: int = 1
) -> Sums:
    """Return hits of batches with these rates, beside a reference with the rate of the first."""
    rate, wide = float(rates[0]), (1, n_series)
    first = generator.binomial(reference, rate, wide)
    hits = generator.binomial(rows, rates[:, None], (len(rates), n_series))
    value = np.concatenate([first, hits]).astype(float)
    weight = np.tile(np.append(reference, np.full(len(rates), rows)).astype(float)[:, None], wide)
    variance = rate * (1 - rate)
    return Sums(weight, value, variance * weight, np.full(n_series, variance))


@pytest.mark.parametrize(("rate", "rows"), [(0.3, 100), (0.02, 50), (0.5, 5)])
def test_without_a_change_the_evidence_seldom_exceeds_its_limit_at_any_time(
    rate: float, rows: int
) -> None:
    """400 series of 200 looks: at most 5% exceed 20, allowing two standard errors (7.2%)."""
    generator = np.random.default_rng(1)
    found = evidence_of(drawn(np.full(200, rate), rows, 5_000, generator, 400))
    assert np.mean(found.log_values.max(axis=0) >= np.log(20)) <= 0.072


def test_looking_every_day_at_a_p_value_would_exceed_it_often() -> None:
    """What the evidence is for: of 200 series, p < 0.05 at some of 200 looks in more than a quarter."""
    generator = np.random.default_rng(2)
    change = changes_since(drawn(np.full(200, 0.3), 100, 5_000, generator, 200), 0)
    found = change.value**2 / change.variance > 1.96**2
    assert np.mean(found.any(axis=0)) > 0.25


def test_a_change_is_found_and_its_beginning_is_near() -> None:
    """From 0.3 to 0.36 at batch 100 of 200: found in all of 50 series, half within 60 batches."""
    generator = np.random.default_rng(3)
    rates = np.repeat([0.3, 0.36], 100)
    found = evidence_of(drawn(rates, 100, 20_000, generator, 50))
    over = found.log_values >= np.log(100)
    assert over.any(axis=0).all()
    assert 0 <= np.median(over.argmax(axis=0) - 100) < 60
    assert abs(np.median(found.start) - 100) < 15


def test_the_interval_is_where_the_evidence_against_a_change_is_at_its_limit() -> None:
    sums = drawn(np.full(50, 0.3), 100, 5_000, np.random.default_rng(4))
    change = changes_since(sums, 0)
    width = half_width(change, np.full(change.value.shape, np.log(40)))
    at_the_end = np.abs(width)
    moved = type(change)(at_the_end, change.variance, change.weight, change.row_variance)
    np.testing.assert_allclose(log_evidence(moved), np.log(40), rtol=1e-9)


def test_intervals_hold_at_all_times_together() -> None:
    """300 series of 100 looks: the true change, none, is outside at any look in at most 7.6%."""
    generator = np.random.default_rng(5)
    change = changes_since(drawn(np.full(100, 0.2), 50, 3_000, generator, 300), 0)
    missed = np.abs(change.value) > half_width(change, np.log(np.array(20.0)))
    assert np.mean(missed.any(axis=0)) <= 0.076


def test_a_cell_without_rows_tells_nothing() -> None:
    none = np.zeros((4, 1))
    empty_reference = Sums(np.array([[0.0], [5], [5], [5]]), none, none + 1, np.array([0.25]))
    empty_batches = Sums(np.array([[5.0], [0], [0], [0]]), none, none + 1, np.array([0.25]))
    for sums in (empty_reference, empty_batches):
        found = evidence_of(sums)
        assert (found.log_values <= 0).all()
        assert (found.log_values > -0.001).all()


def test_the_weights_of_starts_are_a_distribution() -> None:
    weights = np.array([start_weight(k) for k in range(2_000)])
    assert (np.diff(weights) < 0).all()
    assert weights.sum() < 1
    assert starts_of(1) == [0]
    assert np.all(np.diff(starts_of(5_000)) >= 1)
