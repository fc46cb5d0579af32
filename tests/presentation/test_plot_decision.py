"""The decision curve draws net benefits, which are their definition, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

import epiloss
from epiloss import Audit, OptionError, audit
from epiloss.metrics.decision_curve import decision_curve
from epiloss.metrics.rows import ScoredRows
from epiloss.presentation.plot import DecisionCurveDisplay
from epiloss.simulate import MultiClass, Sigmoid
from figure_texts import STYLES, overlapping

matplotlib.use("Agg")

SAMPLE = Sigmoid(perturbation="step").sample(1_500, random_state=2)
THRESHOLDS = (0.1, 0.25, 0.5, 0.8)


@pytest.fixture(autouse=True)
def pictures_are_closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def result() -> Audit:
    return audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, method="partition", confidence_level=0.9)


@pytest.mark.parametrize("weighted", [False, True])
def test_net_benefit_is_its_definition(weighted: bool) -> None:
    scores, labels = SAMPLE.scores, SAMPLE.y.astype(float)
    weights = np.random.default_rng(0).exponential(size=len(labels)) if weighted else None
    curve = decision_curve(ScoredRows(scores, labels, weights), thresholds=THRESHOLDS)
    share = np.ones(len(labels)) if weights is None else weights
    share = share / share.sum()
    for place, t in enumerate(THRESHOLDS):
        true, false = (share[(scores >= t) & (labels == one)].sum() for one in (1, 0))
        assert curve["score"][place] == pytest.approx(true - false * t / (1 - t), abs=1e-12)
        everybody = share[labels == 1].sum() - share[labels == 0].sum() * t / (1 - t)
        assert curve["treat_all"][place] == pytest.approx(everybody, abs=1e-12)
        assert curve["score_low"][place] < curve["score"][place] < curve["score_high"][place]


def test_costs_per_row_are_what_the_net_benefit_lacks() -> None:
    """With costs that sum to 1, a decision's cost is (1 - t) (rate - net benefit)."""
    result = audit(SAMPLE.y, SAMPLE.scores)
    curve = DecisionCurveDisplay.from_audit(result, thresholds=THRESHOLDS).curve
    for t, benefit in zip(THRESHOLDS, curve["score"], strict=True):
        costs = epiloss.regret(result, cost_fp=t, cost_fn=1 - t, thresholds=[0.5])
        assert costs.cost.value == pytest.approx((1 - t) * (SAMPLE.y.mean() - benefit), abs=1e-9)


def test_the_interval_is_that_of_a_mean() -> None:
    curve = decision_curve(
        ScoredRows(SAMPLE.scores, SAMPLE.y.astype(float)), thresholds=[0.3], level=0.95
    )
    worth = np.where(SAMPLE.y == 1, 1.0, -0.3 / 0.7) * (SAMPLE.scores >= 0.3)
    stderr = worth.std(ddof=1) / np.sqrt(len(worth))
    assert curve["score_high"][0] == pytest.approx(worth.mean() + 1.959964 * stderr, rel=1e-6)


def test_what_was_learned_is_worth_more_and_is_drawn_beside_all_and_none(result: Audit) -> None:
    display = DecisionCurveDisplay.from_audit(result, name="mine").plot()
    curve = display.curve
    middle = np.flatnonzero(np.isclose(curve["threshold"], 0.5))[0]
    # the step is worth most there: by ten points of the probability at least
    assert curve["learned"][middle] > curve["score_high"][middle]
    assert list(display.lines_) == ["none", "treat_all", "score", "learned"]
    for name in ("treat_all", "score", "learned"):
        np.testing.assert_array_equal(display.lines_[name].get_ydata(), curve[name])
    assert not display.lines_["none"].get_ydata().any()
    assert display.ax_.get_title() == "mine\ndecision curve"
    told = [text.get_text() for text in display.legend_.get_texts()]
    assert "90% band" in told
    assert "treat all" in told


def test_without_features_there_is_nothing_to_learn_from(result: Audit) -> None:
    for display in (
        DecisionCurveDisplay.from_predictions(SAMPLE.y, SAMPLE.scores),
        DecisionCurveDisplay.from_audit(result, learned=False),
    ):
        assert list(display.curve) == ["threshold", "treat_all", "score", "score_low", "score_high"]
    np.testing.assert_array_equal(display.plot().lines_["score"].get_ydata(), display.curve["score"])


def test_wrong_thresholds_and_several_scores_are_refused(result: Audit) -> None:
    with pytest.raises(OptionError, match=r"thresholds must lie strictly between 0 and 1, got 1.0"):
        DecisionCurveDisplay.from_audit(result, thresholds=[0.5, 1.0], learned=False)
    several = MultiClass().sample(300)
    with pytest.raises(OptionError, match="decision curve needs an audit of a single score"):
        DecisionCurveDisplay.from_predictions(several.y, several.scores, task="classwise")


def test_keywords_reach_the_artists(result: Audit) -> None:
    display = DecisionCurveDisplay.from_audit(result, learned=False)
    display.plot(curve_kw={"lw": 3}, band_kw={"alpha": 0.5}, legend=False)
    assert display.lines_["score"].get_linewidth() == 3
    assert display.band_.get_alpha() == 0.5
    assert display.legend_ is None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [(3.3, 3.6), (5.4, 4.6)])
def test_the_decision_curve_fits_any_style(result: Audit, style: str, size: Any) -> None:
    with pyplot.style.context(style):
        figure, ax = pyplot.subplots(figsize=size, layout="constrained")
        DecisionCurveDisplay.from_audit(result, learned=False).plot(ax, name="a model of $ incomes")
        assert not overlapping(figure)
