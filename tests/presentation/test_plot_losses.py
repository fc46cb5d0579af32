"""Bars of losses are as long as the losses, and their labels never lie on each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import colors, pyplot
from scipy.special import expit, logit

from epiloss import Audit, Comparison, Estimate, audit, compare
from epiloss.presentation.plot.comparison import ComparisonDisplay
from epiloss.presentation.plot.ledger import PARTS, LedgerDisplay
from epiloss.simulate import Sigmoid
from epiloss.table import Table
from figure_texts import STYLES, overlapping

matplotlib.use("Agg")

SAMPLE = Sigmoid(perturbation="step").sample(3_000, random_state=2)
OPTIONS: dict[str, Any] = {"method": "partition", "n_bins": 8, "task": "binary"}


@pytest.fixture(autouse=True)
def pictures_are_closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    sharp = expit(2 * logit(SAMPLE.scores))
    models = {"as it is": SAMPLE.scores, "sharpened, and with a very long name indeed": sharp}
    return compare(SAMPLE.y, models, SAMPLE.X, recalibrate="isotonic", **OPTIONS)


@pytest.fixture(scope="module")
def result() -> Audit:
    return audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, recalibrate="isotonic", **OPTIONS)


@pytest.fixture(scope="module")
def small() -> Audit:
    """Return a score of which calibration and grouping loss are a small part."""
    sample = Sigmoid(intercept=-1.0, grouping=0.6).sample(3_000, random_state=0)
    return audit(sample.y, sample.scores, sample.X, recalibrate="isotonic", **OPTIONS)


def repeated(comparison: Comparison, n: int) -> Comparison:
    rows = np.sort(np.arange(n) % len(comparison.table))
    table = comparison.table.take(rows)
    names = np.array(
        [f"model {i}: {name} and $ and more" for i, name in enumerate(table["name"])], object
    )
    return replace(comparison, table=Table({**table.columns, "name": names}))


# several models


def test_bars_are_as_long_as_the_losses_before_and_after_recalibration(comparison: Comparison) -> None:
    display = ComparisonDisplay(comparison).plot()
    losses = ("calibration_loss", "grouping_loss")
    assert list(display.bars_) == [loss + end for loss in losses for end in ("", "_recalibrated")]
    for column, bars in display.bars_.items():
        np.testing.assert_allclose([bar.get_width() for bar in bars], comparison.table[column])
        middle = [bar.get_y() + bar.get_height() / 2 for bar in bars]
        np.testing.assert_allclose(middle, display.y[column])


def test_whiskers_end_where_the_intervals_end(comparison: Comparison) -> None:
    display = ComparisonDisplay(comparison).plot()
    for column, bars in display.bars_.items():
        loss, _, end = column.partition("_recalibrated")
        suffix = "_recalibrated" if column.endswith("_recalibrated") else end
        segments = np.array(bars.errorbar.lines[2][0].get_segments())
        np.testing.assert_allclose(segments[:, 0, 0], comparison.table[f"{loss}_low{suffix}"])
        np.testing.assert_allclose(segments[:, 1, 0], comparison.table[f"{loss}_high{suffix}"])


def test_the_best_score_is_on_top_and_bars_do_not_touch(comparison: Comparison) -> None:
    display = ComparisonDisplay(comparison).plot()
    bottom, top = display.ax_.get_ylim()
    assert bottom > top
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels[0].startswith(comparison.table["name"][0][:8])
    boxes = sorted((bar.get_y(), bar.get_height()) for bars in display.bars_.values() for bar in bars)
    assert all(y + height < above for (y, height), (above, _) in pairwise(boxes))


def test_recalibrated_bars_are_hatched(comparison: Comparison) -> None:
    bars = ComparisonDisplay(comparison).plot().bars_
    assert bars["grouping_loss"][0].get_hatch() is None
    assert bars["grouping_loss_recalibrated"][0].get_hatch()
    assert (
        "grouping_loss_recalibrated" not in ComparisonDisplay(comparison).plot(recalibrated=False).bars_
    )


def test_models_without_recalibration_have_half_the_bars() -> None:
    plain = compare(SAMPLE.y, {"a": SAMPLE.scores}, SAMPLE.X, **OPTIONS)
    assert list(plain.plot(legend=False).bars_) == ["calibration_loss", "grouping_loss"]


@pytest.mark.parametrize("n", [1, 3, 30])
def test_names_of_many_models_do_not_lie_on_each_other(comparison: Comparison, n: int) -> None:
    display = ComparisonDisplay(repeated(comparison, n)).plot()
    assert overlapping(display.figure_) == []
    assert max(len(label.get_text()) for label in display.ax_.get_yticklabels()) < 60


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [(3, 3), (6.4, 4)])
def test_a_comparison_fits_any_style_and_a_column(comparison: Comparison, style: str, size: Any) -> None:
    with pyplot.style.context(style):
        figure, ax = pyplot.subplots(figsize=size, layout="constrained")
        display = comparison.plot(ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert overlapping(figure) == []


def test_keywords_reach_the_bars_and_whiskers(comparison: Comparison) -> None:
    display = ComparisonDisplay(comparison).plot(bar_kw={"alpha": 0.5}, whisker_kw={"ecolor": "red"})
    assert display.bars_["grouping_loss"][0].get_alpha() == 0.5
    whiskers = display.bars_["grouping_loss"].errorbar.lines[2][0]
    np.testing.assert_array_equal(whiskers.get_color(), [colors.to_rgba("red")])


# the ledger


def test_the_parts_of_the_bar_are_the_parts_of_the_score(result: Audit) -> None:
    display = LedgerDisplay(result).plot()
    assert result.recalibrated is not None
    estimates = [getattr(one, part) for one in (result, result.recalibrated) for part in PARTS]
    np.testing.assert_array_equal(display.table["value"], [one.value for one in estimates])
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, np.maximum(display.table["value"], 0))
    for first in (0, 3):
        lefts = [bar.get_x() for bar in display.bars_[first : first + 3]]
        np.testing.assert_allclose(lefts, np.cumsum([0, *widths[first : first + 2]]), atol=1e-12)


def test_every_part_is_labelled_with_value_and_interval(result: Audit) -> None:
    display = LedgerDisplay(result).plot()
    for label, value, low in zip(
        display.labels_, display.table["value"], display.table["low"], strict=True
    ):
        assert f"{value:z.4f} [{low:z.4f}" in label.get_text()
    assert sum("at least" in label.get_text() for label in display.labels_) == 2


@pytest.mark.parametrize("size", [(3, 3), (6.4, 3)])
@pytest.mark.parametrize("which", ["result", "small"])
def test_whiskers_are_the_intervals_from_the_start_of_their_part(
    which: str, size: Any, request: Any
) -> None:
    _, ax = pyplot.subplots(figsize=size)
    display = LedgerDisplay(request.getfixturevalue(which)).plot(ax)
    assert (len(display.enlarged_axes_) > 0) == (size[0] > 4 and which == "small")
    for row, whisker in enumerate(display.whiskers_):
        is_main = whisker.axes is ax
        left = display.table["left"][row] if is_main else 0
        ends = [left + display.table["low"][row], left + display.table["high"][row]]
        np.testing.assert_allclose(whisker.get_xdata(), ends)


def test_enlarged_bars_are_as_long_as_the_losses(small: Audit) -> None:
    display = LedgerDisplay(small).plot()
    first = display.enlarged_axes_[0]
    expected = [small.calibration_loss.value, small.grouping_loss.value]
    np.testing.assert_allclose([bar.get_width() for bar in first.patches], expected)


def test_a_part_below_zero_has_no_width_and_keeps_its_value(result: Audit) -> None:
    below = replace(
        result, calibration_loss=Estimate(-0.0021, low=-0.003, high=0.001), recalibrated=None
    )
    display = LedgerDisplay(below).plot()
    assert len(display.bars_) == 3
    assert display.bars_[0].get_width() == 0
    assert display.bars_[1].get_x() == 0
    assert "-0.0021" in display.labels_[0].get_text()


def test_parts_without_intervals_have_no_whiskers(result: Audit) -> None:
    bare: dict[str, Any] = {part: Estimate(getattr(result, part).value) for part in PARTS}
    display = LedgerDisplay(replace(result, recalibrated=None, **bare)).plot()
    assert display.whiskers_ == [None, None, None]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [(3, 3), (6.4, 3.2)])
@pytest.mark.parametrize("tiny", [False, True])
def test_labels_of_tiny_parts_do_not_lie_on_each_other(
    result: Audit, style: str, size: Any, tiny: bool
) -> None:
    if tiny:
        none = Estimate(1e-7, low=-1e-6, high=1e-6)
        result = replace(result, calibration_loss=none, grouping_loss=none)
    with pyplot.style.context(style):
        figure, ax = pyplot.subplots(figsize=size, layout="constrained")
        assert LedgerDisplay(result).plot(ax).ax_ is ax
        assert overlapping(figure) == []
