"""What is told is true: planted segments, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

import segments as study


@pytest.mark.slow
def test_a_planted_segment_is_told_first_with_its_gap() -> None:
    """100 draws of 12% of 6,000 rows, 10 points: found first in 90, covered in 90, right to 1 point."""
    found = [study.outcome(study.SETTINGS[0], seed) for seed in range(1_000, 1_100)]
    told = [one for one in found if one.n_reported]
    assert np.mean([one.found for one in found]) >= 0.9
    assert np.mean([one.covered for one in told]) >= 0.9
    assert abs(np.mean([one.error for one in told])) <= 0.01
    assert np.mean([one.naive for one in told]) > 0.005  # so that the adjustment does something


@pytest.mark.slow
@pytest.mark.parametrize("setting", study.SEVERAL, ids=lambda one: one.name)
def test_later_segments_are_told_with_their_gaps(setting: study.Several) -> None:
    """60 draws: a mean error below 0.6 points over all places, and below 1.7 at each."""
    places = study.several_errors(setting, range(1_000, 1_060))
    for place in places:
        told, truth, covered = (np.array(part) for part in zip(*place, strict=True))
        assert len(told) >= 25
        assert abs(np.mean(told - truth)) <= 0.017
        assert np.mean(covered) >= 0.85
    assert abs(np.mean([told - truth for place in places for told, truth, _ in place])) <= 0.006


@pytest.mark.slow
@pytest.mark.parametrize("setting", study.NOTHING[:4], ids=lambda one: one.name)
def test_nothing_is_told_where_there_is_nothing(setting: study.Setting) -> None:
    """100 draws: by chance 5 tell something, and 10 or fewer do so in 99 of 100 runs."""
    assert sum(study.outcome(setting, seed).n_reported > 0 for seed in range(1_000, 1_100)) <= 10


@pytest.mark.slow
def test_what_is_told_of_few_rows_is_not_far_too_large() -> None:
    """150 draws of 12% of 2,000 rows, 10 points: a mean error below 3 points, unadjusted above 5."""
    found = [study.outcome(study.SETTINGS[6], seed) for seed in range(1_000, 1_150)]
    told = [one for one in found if one.n_reported]
    assert len(told) >= 50
    assert abs(np.mean([one.error for one in told])) < 0.03
    assert np.mean([one.naive for one in told]) > 0.05


def test_a_strong_planted_segment_is_told_in_every_draw() -> None:
    """Five draws of 25 points."""
    strong = study.Setting("strong", gap=0.25)
    assert all(study.outcome(strong, seed).found for seed in range(5))


def test_the_interval_of_a_segment_does_not_contain_0() -> None:
    """60 draws in which the planted segment is barely detectable."""
    segments = [study.segments_of(study.drawn(study.SETTINGS[6], seed)) for seed in range(60)]
    ends = [one.low * one.high for found in segments for one in found]
    assert len(ends) >= 20
    assert min(ends) > 0
