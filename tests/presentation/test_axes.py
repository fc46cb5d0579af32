"""Diagrams of rare outcomes: the axes end where the points do."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import epiloss
from epiloss.auditing.result import Audit
from epiloss.presentation.axes import histogram_within, reach_of, reach_to
from epiloss.presentation.plot import CurveDisplay, GroupingDisplay
from epiloss.presentation.report import diagram
from epiloss.presentation.report.pages import audit_card, audit_page


@given(st.floats(1e-12, 1.0))
def test_the_largest_is_inside_and_not_in_a_corner(largest: float) -> None:
    reach = reach_to(largest)
    assert largest <= reach <= 1
    assert largest > 0.2 or reach <= 3 * largest + 1e-300
    assert float(f"{reach:.1g}") == reach


@pytest.fixture(scope="module")
def rare() -> Audit:
    g = np.random.default_rng(0)
    X = g.normal(size=(20_000, 3))
    s = 1 / (1 + np.exp(6 - X[:, 0]))
    q = s * np.where(X[:, 1] > 0, 1.8, 0.2)
    return epiloss.audit((g.random(len(s)) < q).astype(int), s, X, strategy="quantile", rule="log")


def test_of_common_outcomes_all_scores_are_shown() -> None:
    sample = epiloss.simulate.Sigmoid().sample(2_000)
    audit = epiloss.audit(sample.y, sample.scores, sample.X, method="partition")
    assert reach_of(audit) == 1
    assert histogram_within(audit, 1.0) is audit.histogram
    assert diagram.panel(audit, "all", None, 100).frame == diagram.FRAME


def test_axes_end_near_the_level_sets(rare: Audit) -> None:
    reach = reach_of(rare)
    assert reach < 0.1
    ax = GroupingDisplay.from_audit(rare).plot().ax_
    assert ax.get_xlim()[1] == pytest.approx(1.02 * reach)
    assert max(ax.get_yticks()) == pytest.approx(reach)
    display = CurveDisplay.from_audit(rare).plot()
    assert display.ax_.get_xlim()[1] < 0.3
    assert display.histogram["high"][-1] == pytest.approx(max(display.ax_.get_xticks()))


def test_the_histogram_counts_the_rows_inside(rare: Audit) -> None:
    reach = reach_of(rare)
    assert rare.details is not None
    scores = rare.details.problem.scores
    assert histogram_within(rare, reach)["n"].sum() == (scores <= reach).sum()


def test_everything_is_drawn_inside_the_frame(rare: Audit) -> None:
    panel = diagram.panel(rare, "all", None, 2_000)
    frame = panel.frame
    assert frame.reach == reach_of(rare)
    assert frame.left <= panel.x.min()
    assert panel.x.max() <= frame.right
    assert frame.top <= panel.y.min()
    assert panel.y.max() <= frame.bottom
    ends = [float(end) for layer in panel.layers() for end in re.findall(r"V([\d.]+)", layer.path)]
    assert min(ends) >= frame.top
    assert [label for _, _, label, _ in panel.ticks()][-1] == f"{frame.reach:g}"


def test_pages_tell_the_script_how_far_the_axes_reach(rare: Audit) -> None:
    page = audit_page(rare)
    data = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert data is not None
    panels = json.loads(data[1])["panels"]
    assert all(panel["reach"] < 0.1 for panel in panels)
    assert f">{reach_of(rare):g}</text>" in audit_card(rare)
