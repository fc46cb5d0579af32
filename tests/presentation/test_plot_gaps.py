"""Bars of gaps: what is drawn is what the audit tells."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import colors, pyplot

import epiloss
from epiloss.errors import OptionError
from epiloss.presentation.plot import GapsDisplay
from epiloss.presentation.plot.style import side_colours
from epiloss.simulate import Sigmoid

SAMPLE = Sigmoid(perturbation="step").sample(4_000)
NOISE = np.random.default_rng(0).integers(0, 3, 4_000).astype(str)
SIDE = np.where(SAMPLE.X[:, 0] > SAMPLE.X[:, 1], "left", "right")


@pytest.fixture(scope="module")
def result() -> epiloss.Audit:
    groups = {"side": SIDE, "noise": NOISE}
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, subgroups=groups)


def test_segments_are_drawn_as_they_are_told(result: epiloss.Audit) -> None:
    display = GapsDisplay.from_audit(result).plot()
    assert display.names == [one.description for one in result.segments]
    assert len(display.names) > 0
    drawn = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(drawn, [100 * one.gap for one in result.segments])
    ends = np.array(display.whiskers_.get_segments())[:, :, 0]
    np.testing.assert_allclose(ends, [[100 * one.low, 100 * one.high] for one in result.segments])
    pyplot.close("all")


def test_colours_tell_the_side_and_grey_what_may_be_noise(result: epiloss.Audit) -> None:
    display = GapsDisplay.from_audit(result, subgroups="side").plot()
    assert sorted(display.side) == [-1, 1]
    under, over = side_colours(display.ax_)
    for bar, side in zip(display.bars_, display.side, strict=True):
        assert bar.get_facecolor() == colors.to_rgba(under if side > 0 else over)
    noise = GapsDisplay.from_audit(result, subgroups="noise").plot()
    assert not noise.side.any()
    assert all(np.ptp(bar.get_facecolor()[:3]) < 1e-9 for bar in noise.bars_)
    meanings = [[text.get_text() for text in one.legend_.get_texts()] for one in (display, noise)]
    assert meanings == [["under-predicted", "over-predicted"], ["within noise"]]
    pyplot.close("all")


def test_an_unknown_column_is_refused_with_those_that_are_known(result: epiloss.Audit) -> None:
    with pytest.raises(OptionError, match=r"got 'sides'\. Choose from 'side', 'noise'"):
        GapsDisplay.from_audit(result, subgroups="sides")


def test_no_segments_are_said_to_be_none() -> None:
    sample = Sigmoid(grouping=0.0).sample(1_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X)
    display = GapsDisplay.from_audit(result).plot()
    assert len(result.segments) == len(display.names) == 0
    assert [text.get_text() for text in display.ax_.texts] == ["no gap found"]
    pyplot.close("all")
