"""The grouping diagram draws exactly what its audit holds, and nothing lies on anything else."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import colors, pyplot

from epiloss import Audit, GroupingDisplay, MissingExtraError, OptionError, audit
from epiloss.partition import Tree
from epiloss.presentation.plot.region_places import distances, fanned, widths
from epiloss.presentation.plot.style import side_colours
from epiloss.simulate import MultiClass, Sigmoid
from epiloss.table import Table
from figure_texts import STYLES, overlapping

matplotlib.use("Agg")

SAMPLE = Sigmoid(perturbation="step").sample(4_000, random_state=1)


@pytest.fixture(autouse=True)
def pictures_are_closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def pairs() -> Audit:
    return audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, partition="stump", method="paper")


@pytest.fixture(scope="module")
def tree() -> Audit:
    return audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, partition=Tree(5), method="partition")


def in_table_order(display: GroupingDisplay) -> Any:
    """Return where the regions of the table are among what was drawn."""
    drawn = np.asarray(display.points_.get_offsets())[:, 0]
    return [int(np.flatnonzero(drawn == x)[0]) for x in display.x]


# what is drawn


def test_the_curve_goes_through_the_level_sets(pairs: Audit) -> None:
    display = GroupingDisplay.from_audit(pairs).plot()
    levels = pairs.level_sets
    expected = np.column_stack([levels["score_mean"], levels["label_mean"]])
    np.testing.assert_array_equal(display.curve_.get_xydata(), expected)


def test_level_sets_of_a_few_rows_are_points_beside_the_curve(pairs: Audit) -> None:
    n = np.where(np.arange(len(pairs.level_sets)) == 3, 9, 500)
    few = replace(pairs, level_sets=Table({**pairs.level_sets.columns, "n": n}))
    display = GroupingDisplay.from_audit(few).plot()
    levels = np.column_stack([pairs.level_sets["score_mean"], pairs.level_sets["label_mean"]])
    np.testing.assert_array_equal(display.curve_.get_xydata(), levels[n > 9])
    (apart,) = [line for line in display.ax_.lines if len(line.get_xydata()) == 1]
    np.testing.assert_array_equal(apart.get_xydata(), levels[n == 9])


@pytest.mark.parametrize("which", ["pairs", "tree"])
def test_points_are_the_rates_of_the_regions(which: str, request: Any) -> None:
    result = request.getfixturevalue(which)
    display = GroupingDisplay.from_audit(result).plot()
    drawn = np.asarray(display.points_.get_offsets())[in_table_order(display)]
    np.testing.assert_array_equal(drawn[:, 1], result.regions["label_mean"])
    np.testing.assert_array_equal(drawn[:, 0], display.x)
    np.testing.assert_array_equal(display.rate, result.regions["label_mean"])
    np.testing.assert_array_equal(display.n, result.regions["n"])


def test_bars_end_where_the_exact_intervals_end(tree: Audit) -> None:
    display = GroupingDisplay.from_audit(tree).plot()
    ends = np.array(display.bars_.get_segments())[in_table_order(display)]
    np.testing.assert_array_equal(ends[:, 0, 1], tree.regions["low"])
    np.testing.assert_array_equal(ends[:, 1, 1], tree.regions["high"])
    np.testing.assert_array_equal(ends[:, :, 0], np.column_stack([display.x, display.x]))


def test_colours_tell_on_which_side_regions_are_and_grey_what_may_be_noise(tree: Audit) -> None:
    display = GroupingDisplay.from_audit(tree).plot()
    display.figure_.canvas.draw()
    regions = tree.regions
    noise, higher = regions["pvalue_adjusted"] > 0.05, regions["deviation"] > 0
    assert 0 < noise.sum() < len(noise)
    np.testing.assert_array_equal(display.side, np.where(noise, 0, np.where(higher, 1, -1)))
    under, over = side_colours(display.ax_)
    for artist in (display.points_.get_facecolor(), display.bars_.get_color()):
        rgb = np.asarray(artist)[in_table_order(display)][:, :3]
        np.testing.assert_array_equal(np.ptp(rgb, axis=1) < 1e-9, noise)
        for side, colour in ((1, under), (-1, over)):
            assert (np.abs(rgb[display.side == side] - colors.to_rgb(colour)) < 1e-9).all()


def test_larger_regions_have_larger_points(pairs: Audit) -> None:
    display = GroupingDisplay.from_audit(pairs).plot()
    area = np.asarray(display.points_.get_sizes())[in_table_order(display)]
    assert (np.diff(area[np.argsort(display.n)]) >= 0).all()


def test_the_strip_on_top_is_the_histogram_of_the_scores(pairs: Audit) -> None:
    display = GroupingDisplay.from_audit(pairs).plot()
    strip, table = display.histogram_ax_, pairs.histogram
    np.testing.assert_array_equal([bar.get_height() for bar in strip.patches], table["n"])
    np.testing.assert_allclose([bar.get_x() for bar in strip.patches], table["low"])
    assert strip.get_xlim() == display.ax_.get_xlim()
    display.figure_.canvas.draw()
    assert strip.get_window_extent().y0 >= display.ax_.get_window_extent().y1


def test_title_tells_both_losses_with_their_intervals(pairs: Audit) -> None:
    title = GroupingDisplay.from_audit(pairs).plot(name="over 50k $").ax_.get_title()
    assert f"{pairs.calibration_loss:z.4f}" in title
    assert f"{pairs.grouping_loss:z.4f}" in title
    assert title.startswith(r"over 50k \$")


# the fan


@pytest.mark.parametrize("which", ["pairs", "tree"])
def test_regions_stand_side_by_side_inside_their_level_set_in_order_of_their_rates(
    which: str, request: Any
) -> None:
    result = request.getfixturevalue(which)
    display = GroupingDisplay.from_audit(result)
    assert len(np.unique(display.x)) == len(display.x)
    levels, regions = result.level_sets, result.regions
    for place, level_set in enumerate(levels["level_set"]):
        inside = regions["level_set"] == level_set
        x, rate = display.x[inside], display.rate[inside]
        assert (x > levels["low"][place]).all()
        assert (x < levels["high"][place]).all()
        assert (np.diff(rate[np.argsort(x)]) >= 0).all()
        np.testing.assert_allclose(np.diff(np.sort(x), n=2), 0, atol=1e-9)


@pytest.mark.parametrize(("n_regions", "part"), [(1, 0.0), (2, 0.3), (30, 0.8)])
def test_many_regions_fill_most_of_the_width_and_two_stand_close(n_regions: int, part: float) -> None:
    levels = Table(
        {
            "level_set": np.array([3]),
            "low": np.array([0.2]),
            "high": np.array([0.4]),
            "score_mean": np.array([0.31]),
        }
    )
    regions = Table(
        {
            "level_set": np.full(n_regions, 3),
            "label_mean": np.linspace(0, 1, n_regions),
            "n": np.arange(n_regions),
        }
    )
    x = fanned(levels, regions)
    assert np.ptp(x) == pytest.approx(part * 0.2)
    middle = 0.3 if n_regions == 30 else 0.31
    assert (x.min() + x.max()) / 2 == pytest.approx(middle)


def test_level_sets_without_edges_reach_half_way_to_their_neighbours() -> None:
    low, high = widths(Table({"score_mean": np.array([0.5, 0.1, 0.2])}))
    np.testing.assert_allclose(low, [0.35, 0.05, 0.15])
    np.testing.assert_allclose(high, [0.65, 0.15, 0.35])
    low, high = widths(Table({"score_mean": np.array([0.98])}))
    assert low[0] == pytest.approx(0.93)
    assert high[0] == 1


def test_bars_are_thinner_than_the_room_between_them(tree: Audit) -> None:
    display = GroupingDisplay.from_audit(tree).plot()
    display.figure_.canvas.draw()
    points = display.ax_.get_window_extent().width / display.figure_.dpi * 72 / 1.04
    thick = np.asarray(display.bars_.get_linewidth())[in_table_order(display)]
    room = distances(display.x, tree.regions["level_set"]) * points
    assert (thick[room > 1] < room[room > 1]).all()
    assert thick.min() > 0.2


def test_words_are_those_of_the_task() -> None:
    sample = MultiClass().sample(1_500, random_state=1)
    display = GroupingDisplay.from_predictions(sample.y, sample.scores, sample.X, method="partition")
    assert display.ax_.get_ylabel() == "rate of correct predictions"
    assert display.ax_.get_xlabel() == "score of the predicted class"


# where, and how


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_axes_are_respected_and_neighbours_left_alone(pairs: Audit, layout: str | None) -> None:
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 5), layout=layout)
    display = GroupingDisplay.from_audit(pairs)
    assert display.plot(axes[0]) is display
    assert display.ax_ is axes[0]
    assert display.figure_ is figure
    assert not axes[1].has_data()
    figure.canvas.draw()
    assert not display.histogram_ax_.get_window_extent().overlaps(axes[1].get_window_extent())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [(3, 3), (5.6, 5.4)])
def test_no_text_lies_on_another_in_any_style(tree: Audit, style: str, size: Any) -> None:
    with pyplot.style.context(style):
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
        display = GroupingDisplay.from_audit(tree, name="a model").plot(ax)
        assert overlapping(display.figure_) == []


@pytest.mark.parametrize("style", STYLES)
def test_everything_stands_out_from_the_ground(tree: Audit, style: str) -> None:
    with pyplot.style.context(style):
        display = GroupingDisplay.from_audit(tree).plot()
        display.figure_.canvas.draw()
        ground = np.array(colors.to_rgb(display.ax_.get_facecolor()))
        drawn = [
            *display.points_.get_facecolor(),
            colors.to_rgba(display.curve_.get_color()),
            colors.to_rgba(display.diagonal_.get_color()),
        ]
        assert min(np.abs(np.array(one)[:3] - ground).max() for one in drawn) > 0.15


def test_keywords_reach_their_artists(pairs: Audit) -> None:
    display = GroupingDisplay.from_audit(pairs).plot(
        curve_kw={"lw": 4, "color": "red"},
        region_kw={"marker": "s", "alpha": 0.5},
        bar_kw={"lw": 7},
        histogram_kw={"color": "green"},
        diagonal_kw={"ls": "--"},
    )
    assert display.curve_.get_linewidth() == 4
    assert display.curve_.get_color() == "red"
    assert display.points_.get_alpha() == 0.5
    assert display.bars_.get_linewidth()[0] == 7
    assert display.histogram_ax_.patches[0].get_facecolor() == colors.to_rgba("green")
    assert display.diagonal_.get_linestyle() == "--"


def test_all_regions_can_have_one_colour(pairs: Audit) -> None:
    display = GroupingDisplay.from_audit(pairs).plot(
        region_kw={"color": "purple"}, bar_kw={"color": "k"}
    )
    display.figure_.canvas.draw()
    np.testing.assert_array_equal(display.points_.get_facecolor(), [colors.to_rgba("purple")])
    np.testing.assert_array_equal(np.asarray(display.bars_.get_color())[:, :3], [[0, 0, 0]])


def test_layers_can_be_left_out(pairs: Audit) -> None:
    display = GroupingDisplay.from_audit(pairs).plot(histogram=False, legend=False)
    assert display.histogram_ax_ is None
    assert display.ax_.get_legend() is None
    assert display.figure_.axes == [display.ax_]


def test_a_result_draws_itself_with_two_regions_or_its_own(tree: Audit) -> None:
    assert len(tree.plot(histogram=False).x) <= 2 * len(tree.level_sets)
    assert len(tree.plot(partition=None).x) == len(tree.regions)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_any_bins_are_drawn(strategy: str) -> None:
    options: dict[str, Any] = {"strategy": strategy, "n_bins": 7, "method": "partition"}
    display = GroupingDisplay.from_predictions(SAMPLE.y, SAMPLE.scores, SAMPLE.X, **options)
    assert display.audit.details is not None
    assert not display.audit.details.options.swap  # one half of the rows chooses, the other is shown
    assert display.audit.options["method"] == "partition"
    display.figure_.canvas.draw()
    assert np.isfinite(display.x).all()


def test_several_classes_are_refused_in_words() -> None:
    several = audit(SAMPLE.y, SAMPLE.scores, task="classwise", n_bins=4, method="partition")
    with pytest.raises(OptionError, match="grouping diagram needs one score per row"):
        GroupingDisplay.from_audit(several)


def test_without_matplotlib_the_extra_is_named(pairs: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"epiloss\[plot\]"):
        GroupingDisplay.from_audit(pairs).plot()
