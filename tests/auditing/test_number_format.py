"""Rare outcomes: losses and rates that are small are still seen, wherever they are told."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import epiloss
from epiloss.number_format import digits_of, loss_spec, rate_spec
from epiloss.presentation.report.pages import audit_page, comparison_page


@given(st.floats(1e-9, 10.0))
def test_a_hundredth_of_the_score_has_a_digit_and_no_score_has_fewer_than_five(score: float) -> None:
    spec = loss_spec(score)
    assert digits_of(spec) >= 5
    assert float(format(score / 100, spec)) > 0


@given(st.floats(1e-9, 1.0, exclude_max=True))
def test_a_rate_is_told_from_0_and_1_in_two_digits(rate: float) -> None:
    shown = float(format(rate, rate_spec(rate)))
    near = min(rate, 1 - rate)
    assert abs(shown - rate) <= (max(0.051 * near, 1e-12) if near < 0.01 else 0.0051)
    assert shown > 0 or near < 1e-11


@pytest.mark.parametrize("scores", [(), (0.0,), (float("nan"),), (float("inf"),)])
def test_scores_that_tell_nothing_change_nothing(scores: tuple[float, ...]) -> None:
    assert loss_spec(*scores) == "z.5f"


@pytest.fixture(scope="module")
def rare() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    g = np.random.default_rng(0)
    X = g.normal(size=(20_000, 3))
    s = 1 / (1 + np.exp(6 - X[:, 0]))
    q = s * np.where(X[:, 1] > 0, 1.8, 0.2)
    return (g.random(len(s)) < q).astype(int), s, X


def test_the_ledger_shows_small_scores_in_more_digits(rare: tuple[np.ndarray, ...]) -> None:
    text = str(epiloss.audit(*rare))
    score = re.search(r"^score +(\S+)", text, re.M)
    assert score is not None
    assert len(score[1].partition(".")[2]) == 6
    assert "rule='log'" in text


def test_pages_show_small_losses_and_rates(rare: tuple[np.ndarray, ...]) -> None:
    y, s, X = rare
    audit = epiloss.audit(y, s, X, rule="log")
    page = audit_page(audit)
    assert f"{audit.grouping_loss.value:{loss_spec(audit.score.value)}}" in page
    worst = audit.worst_regions(1)
    told = format(worst["label_mean"][0], rate_spec(worst["label_mean"][0], worst["expected"][0]))
    assert told in page
    assert told != f"{worst['label_mean'][0]:.2f}"
    compared = epiloss.compare(y, {"one": s, "half": s / 2}, X, rule="log", method="partition")
    assert f"{compared.audits['one'].score.value:{loss_spec(0.01)}}" in comparison_page(compared)


@pytest.mark.parametrize(("rate", "which"), [(0.01, "positive"), (0.99, "negative")])
def test_the_brier_score_of_a_rare_outcome_is_remarked_upon(rate: float, which: str) -> None:
    g = np.random.default_rng(1)
    y = (g.random(5_000) < rate).astype(int)
    found = [text for text in epiloss.audit(y, np.full(5_000, rate)).remarks if "rule='log'" in text]
    assert len(found) == 1
    assert which in found[0]
    assert not any("rule='log'" in text for text in epiloss.audit(y, y * 0 + 0.5, rule="log").remarks)
