"""The gap of a group: its rate less that of rows with equal scores."""

from __future__ import annotations

import numpy as np
import pytest

from epiloss._typing import Codes, Floats
from epiloss.input.problem import Groups
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import Brier
from epiloss.segments.gaps import CentredRows
from epiloss.segments.subgroups import subgroup_gaps


def problem_of(
    scores: Floats, labels: Floats, weights: Floats | None = None, clusters: Codes | None = None
) -> BinaryProblem:
    return BinaryProblem(None, scores, labels, Brier(), None, None, None, weights, clusters)


def rows_of_two_scores(n: int = 4_000) -> tuple[Floats, Floats, Floats]:
    """Return scores of two values, labels and a group that is frequent at one of them."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.choice([0.2, 0.6], n))
    group = (rng.random(n) < np.where(scores == 0.2, 0.1, 0.5)).astype(float)
    labels = (rng.random(n) < scores + 0.1 * group).astype(float)
    return scores, labels, group


def test_the_gap_compares_with_the_rates_at_the_same_scores() -> None:
    scores, labels, group = rows_of_two_scores()
    inside = group > 0
    expected = sum(
        (inside & (scores == s)).sum() * labels[scores == s].mean() for s in (0.2, 0.6)
    ) / float(inside.sum())
    gap = CentredRows.of(problem_of(scores, labels), np.arange(len(labels))).gap(inside)
    n = len(labels)
    assert gap.value == pytest.approx((labels[inside].mean() - expected) * n / (n - 2))
    assert gap.n == inside.sum()
    assert gap.share == pytest.approx(inside.mean())
    assert gap.rate == pytest.approx(labels[inside].mean())
    assert gap.expected == pytest.approx(gap.rate - gap.value)


def test_gaps_weighted_by_the_rows_of_groups_add_up_to_nothing() -> None:
    scores, labels, group = rows_of_two_scores()
    table = subgroup_gaps(problem_of(scores, labels), Groups(group.astype(np.int64), ("out", "in")))
    assert table["share"] @ table["gap"] == pytest.approx(0.0, abs=1e-12)
    assert (table["low"] < table["gap"]).all()
    assert (table["gap"] < table["high"]).all()
    assert (table["pvalue_adjusted"] >= table["pvalue"]).all()


def test_a_row_of_weight_two_counts_as_two_rows() -> None:
    scores, labels, group = rows_of_two_scores(600)
    twice = np.arange(600) % 3 == 0
    rows = np.repeat(np.arange(600), 1 + twice)
    weighted = CentredRows.of(problem_of(scores, labels, 1.0 + twice), np.arange(600))
    repeated = CentredRows.of(problem_of(scores[rows], labels[rows]), np.arange(len(rows)))
    one, other = weighted.gap(group > 0), repeated.gap(group[rows] > 0)
    factor = weighted.basis.inflation**2 / repeated.basis.inflation**2  # of what the curve uses up
    assert one.value == pytest.approx(other.value * factor)
    assert one.rate == pytest.approx(other.rate)


def test_copies_in_one_cluster_do_not_make_a_gap_surer() -> None:
    scores, labels, group = rows_of_two_scores(1_000)
    rows = np.repeat(np.arange(1_000), 4)
    once = CentredRows.of(problem_of(scores, labels), np.arange(1_000)).gap(group > 0)
    problem = problem_of(scores[rows], labels[rows], clusters=rows)
    copied = CentredRows.of(problem, np.arange(len(rows))).gap(group[rows] > 0)
    assert copied.stderr == pytest.approx(once.stderr, rel=0.01)


def test_a_group_that_the_score_tells_exactly_has_no_gap() -> None:
    scores, labels, _ = rows_of_two_scores()
    gap = CentredRows.of(problem_of(scores, labels), np.arange(len(labels))).gap(scores == 0.2)
    assert gap.value == pytest.approx(0.0, abs=1e-12)


def test_a_group_without_rows_has_no_gap() -> None:
    scores, labels, group = rows_of_two_scores(200)
    table = subgroup_gaps(problem_of(scores, labels), Groups(group.astype(np.int64), ("a", "b", "none")))
    assert table["n"][2] == 0
    assert table["pvalue"][2] == 1.0


@pytest.mark.slow
def test_the_standard_error_is_the_spread_over_draws() -> None:
    """300 draws of 1,500 rows, half of the group's membership told by the score; within 10%."""
    values, errors = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        scores = np.sort(rng.random(1_500))
        inside = rng.random(1_500) < 0.1 + 0.5 * scores
        labels = (rng.random(1_500) < scores).astype(float)
        gap = CentredRows.of(problem_of(scores, labels), np.arange(1_500)).gap(inside)
        values.append(gap.value)
        errors.append(gap.stderr)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.1)
    assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(300)


def test_a_few_rows_without_an_outcome_are_no_surprise() -> None:
    """40 rows at a rate of 3%: three of ten such groups have no outcome, and none is a finding."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.uniform(0.01, 0.05, 4_000))
    labels = (rng.random(4_000) < scores).astype(float)
    inside = np.zeros(4_000, bool)
    inside[rng.permutation(np.flatnonzero(labels == 0))[:40]] = True
    gap = CentredRows.of(problem_of(scores, labels), np.arange(4_000)).gap(inside)
    assert gap.rate == 0
    expected = gap.expected
    assert gap.stderr == pytest.approx(np.sqrt(expected * (1 - expected) / 40), rel=0.1)
    assert abs(gap.z) < 1.96


@pytest.mark.slow
def test_small_groups_of_rare_outcomes_are_rarely_called_different() -> None:
    """400 draws of a group of 40 of 4,000 rows with a rate of 4%: at most 7% beyond 1.96."""
    beyond = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        scores = np.sort(rng.uniform(0.01, 0.07, 4_000))
        labels = (rng.random(4_000) < scores).astype(float)
        inside = np.zeros(4_000, bool)
        inside[rng.permutation(4_000)[:40]] = True
        gap = CentredRows.of(problem_of(scores, labels), np.arange(4_000)).gap(inside)
        beyond.append(abs(gap.z) > 1.96)
    assert np.mean(beyond) <= 0.07
