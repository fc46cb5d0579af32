"""What the studies say that they show is counted, and rightly."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest

import study_claims
from epiloss import Estimate
from protocol import Line
from study_claims import Kept
from study_verdicts import HOLDS, IN_PART, NOT


def between(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low=low, high=high)


def line(name: str, gl: Estimate, after: Estimate, twin: Estimate | None = None) -> Line:
    loss = between(0.0, 0.2)
    return Line(name, 100, 0.5, loss, loss, gl, after, twin, twin, 1.0)


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(study_claims).failed == 0


@pytest.mark.parametrize(
    ("before", "after", "within", "overlapping"),
    [
        (between(0, 2), between(1.2, 1.8), 1, 1),
        (between(1.2, 1.8), between(0, 2), 0, 1),  # of GL', not of GL, it is the interval that is wide
        (between(0.8, 1.2), between(1.1, 1.7), 0, 1),
        (between(0.8, 1.2), between(1.3, 2.7), 0, 0),
        (Estimate(1), Estimate(1), 0, 0),
    ],
)
def test_what_is_kept_lies_in_the_interval_before(
    before: Estimate, after: Estimate, within: int, overlapping: int
) -> None:
    assert study_claims.counted([(before, after)]) == Kept(1, within, overlapping)


def test_reasons_are_given_only_where_something_moved() -> None:
    same, moved = between(0, 2), between(3, 4)
    still = study_claims.kept_by_recalibration([line("a", same, same, same)])
    assert "in 1 of 1 rows by trees and in 1 of 1 by twins" in still
    assert "largest change by trees is +0.0000 (a). The estimates by twins" in still
    assert "other bins" not in still
    text = study_claims.kept_by_recalibration([line("a", same, moved), line("b", same, same)])
    assert "in 1 of 2 rows by trees (their intervals overlap in 1)" in text
    assert text.endswith("The largest change by trees is +2.5000 (a)")  # no induced loss was given
    assert "wins" not in text


def test_a_change_is_split_into_what_is_explained_and_what_is_induced() -> None:
    # the bound is explained - induced: 0.3 = 0.5 - 0.2 before, 0.8 = 0.9 - 0.1 after
    moved = replace(line("a", between(0.2, 0.4), between(0.7, 0.9)), induced=0.2, induced_after=0.1)
    text = study_claims.kept_by_recalibration([moved])
    assert "+0.5000 (a), because recalibrated scores fall into other bins" in text
    assert "the explained loss changes by +0.4000" in text
    assert text.endswith("which is subtracted, by -0.1000")


def test_a_rise_is_told_step_by_step() -> None:
    one, two, three = between(0, 0.2), between(0.1, 0.3), between(0.4, 0.6)
    lines = [line("a", one, one), line("b", two, two), line("c", three, three)]
    told = study_claims.over_shifts(lines)
    assert told == (
        "GL rises at each step: 0.1000 (a), 0.2000 (b), 0.5000 (c); at 1 of 2 the intervals do not "
        "overlap"
    )
    back = study_claims.over_shifts(lines[::-1])
    assert back.startswith("GL rises at 0 of 2 steps: 0.5000 (c)")
    two_lines = study_claims.over_shifts([lines[2], lines[0]])
    assert two_lines == "GL falls from 0.5000 [0.4000, 0.6000] (c) to 0.1000 [0.0000, 0.2000] (a)"


def test_recalibration_that_moves_the_loss_is_counted() -> None:
    same, moved = between(1, 2), between(3, 4)
    kept = study_claims.left_claim([(same, same)] * 9 + [(same, moved)], "data")
    assert kept.verdict == HOLDS
    assert "in 9 of 10 rows (intervals overlap in 9); the mean goes from 1.5000 to 1.7000" in kept.count
    assert study_claims.left_claim([(same, moved)] * 2, "data").verdict == NOT


def test_a_calibration_loss_that_stays_is_counted() -> None:
    gone, there = between(-0.001, 0.003), between(0.002, 0.01)
    one = line("a", gone, gone)
    lines = [replace(one, cl_after=gone), replace(one, cl_after=there)]
    assert study_claims.removed_claim(lines[:1], "data").verdict == HOLDS
    found = study_claims.removed_claim(lines, "data")
    assert "in 1 of 2 rows" in found.count
    assert found.verdict == IN_PART


@pytest.mark.parametrize(
    ("second", "verdict"),
    [(between(3, 4), HOLDS), (between(1.5, 2.5), NOT), (between(0, 1), NOT)],
)
def test_a_shift_must_raise_the_loss_beyond_its_interval(second: Estimate, verdict: str) -> None:
    first = between(1, 2)
    lines = [line("a", first, first, first), line("b", first, first, second)]
    assert study_claims.shift_claim(lines, "more", "data").verdict == verdict


@pytest.mark.parametrize(
    ("last", "verdict"), [(between(6, 7), HOLDS), (between(3.5, 4.5), IN_PART), (between(2, 3), NOT)]
)
def test_a_rise_at_every_step_holds_in_part_if_one_is_beyond_the_intervals(
    last: Estimate, verdict: str
) -> None:
    each = [between(1, 2), between(3, 4), last]
    lines = [line(str(k), one, one, one) for k, one in enumerate(each)]
    assert study_claims.shift_claim(lines, "more", "data").verdict == verdict
