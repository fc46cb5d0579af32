"""The calibration curve and the simulation figure draw the numbers of their tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

from epiloss import Audit, OptionError, audit
from epiloss.presentation.plot.curve import CurveDisplay
from epiloss.presentation.plot.simulation import SimulationDisplay
from epiloss.simulate import MultiClass, Sigmoid
from epiloss.table import Table
from figure_texts import STYLES, overlapping

matplotlib.use("Agg")

SAMPLE = Sigmoid(miscalibration=2.0).sample(2_000, random_state=3)
NAMES = ("plugin", "debiased")


@pytest.fixture(autouse=True)
def pictures_are_closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def result() -> Audit:
    return audit(SAMPLE.y, SAMPLE.scores, method="partition", confidence_level=0.9)


@pytest.fixture(scope="module")
def fitted(result: Audit) -> CurveDisplay:
    return CurveDisplay.from_audit(result)


@pytest.fixture
def display(fitted: CurveDisplay) -> CurveDisplay:
    """Return a display that nobody has drawn yet: the band takes a while."""
    return replace(fitted)


def vertices(band: Any) -> Any:
    return band.get_paths()[0].vertices


def simulated() -> Table:
    ratio = np.array([30.0, 2.0, 5.0] * 2)
    mean = np.array([3.0, 1.0, 2.0, 6.0, 4.0, 5.0])
    return Table(
        {
            "region_ratio": ratio,
            "name": np.repeat(np.array(NAMES, object), 3),
            "mean": mean,
            "low": mean - 1,
            "high": mean + 2,
            "truth": np.full(6, 2.5),
        }
    )


# the curve


def test_line_and_band_are_those_of_the_fitted_curve(result: Audit, display: CurveDisplay) -> None:
    display.plot()
    assert result.details is not None
    curve = result.details.calibration_curve()
    expected = np.column_stack([curve["score"], curve["rate"]])
    np.testing.assert_array_equal(display.line_.get_xydata(), expected)
    drawn = {tuple(point) for point in vertices(display.band_)}
    assert drawn >= set(zip(curve["score"], curve["low"], strict=True))
    assert drawn >= set(zip(curve["score"], curve["high"], strict=True))
    assert display.band_.get_label() == "90% band"


def test_the_title_tells_the_calibration_loss_and_the_name(result: Audit, display: CurveDisplay) -> None:
    title = display.plot(name="mine").ax_.get_title()
    assert title.startswith("mine")
    assert f"{result.calibration_loss:z.4f}" in title


def test_the_curve_has_the_strip_of_scores_and_the_diagonal(
    result: Audit, display: CurveDisplay
) -> None:
    display.plot()
    heights = [bar.get_height() for bar in display.histogram_ax_.patches]
    np.testing.assert_array_equal(heights, result.histogram["n"])
    np.testing.assert_array_equal(display.diagonal_.get_xydata(), [[0, 0], [1, 1]])
    bare = display.plot(histogram=False, legend=False)
    assert bare.histogram_ax_ is None
    assert bare.legend_ is None


def test_keywords_of_the_curve_reach_its_artists(display: CurveDisplay) -> None:
    display.plot(curve_kw={"lw": 5}, band_kw={"alpha": 0.1})
    assert display.line_.get_linewidth() == 5
    assert display.band_.get_alpha() == 0.1


def test_of_several_classes_one_is_named() -> None:
    sample = MultiClass().sample(1_500, random_state=1)
    several = audit(sample.y, sample.scores, task="classwise", method="partition")
    with pytest.raises(OptionError, match="class must be one of"):
        CurveDisplay.from_audit(several)
    display = CurveDisplay.from_audit(several, "1").plot()
    assert "class 1" in display.ax_.get_title()
    levels = several.level_sets
    here = levels["class"] == "1"
    expected = np.sum(levels["calibration_loss"][here] * levels["share"][here])
    assert display.calibration_loss.value == pytest.approx(expected)
    assert display.histogram["n"].sum() == pytest.approx(1_500)


def test_a_result_without_rows_has_no_curve(result: Audit) -> None:
    with pytest.raises(OptionError, match="rows of the audit"):
        CurveDisplay.from_audit(replace(result, details=None))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [(3, 3), (5, 5.4)])
def test_curve_and_simulation_fit_any_style(display: CurveDisplay, style: str, size: Any) -> None:
    with pyplot.style.context(style):
        for one in (replace(display, name="mine"), SimulationDisplay(simulated())):
            figure, ax = pyplot.subplots(figsize=size, layout="constrained")
            assert one.plot(ax).ax_ is ax
            assert overlapping(figure) == []


# the simulation


def test_each_estimate_has_a_line_in_order_of_the_setting_and_a_band() -> None:
    display = SimulationDisplay(simulated()).plot()
    assert list(display.lines_) == list(NAMES)
    np.testing.assert_array_equal(display.lines_["plugin"].get_xydata(), [[2, 1], [5, 2], [30, 3]])
    np.testing.assert_array_equal(display.lines_["debiased"].get_ydata(), [4, 5, 6])
    drawn = {tuple(point) for point in vertices(display.bands_["plugin"])}
    assert drawn >= {(2, 0), (2, 3), (30, 2), (30, 5)}
    np.testing.assert_array_equal(display.truth_.get_xydata(), [[2, 2.5], [5, 2.5], [30, 2.5]])
    assert display.ax_.get_xscale() == "log"


def test_any_setting_and_truth_can_be_named() -> None:
    columns = dict(simulated().columns)
    columns["n"], columns["exact"] = columns.pop("region_ratio") + 40, columns.pop("truth")
    display = SimulationDisplay(Table(columns), x="n", truth="exact").plot(truth_kw={"lw": 3})
    assert display.ax_.get_xlabel() == "n"
    assert display.ax_.get_xscale() == "linear"
    assert display.truth_.get_linewidth() == 3
    with pytest.raises(OptionError, match="'n_bins'"):
        SimulationDisplay(simulated(), x="n_bins")


def test_the_file_of_the_experiment_is_read(tmp_path: Path) -> None:
    path = tmp_path / "simulation.csv"
    names = ("true", "plugin", "explained", "lower_bound")
    header = ["sweep", "value", "swap", *(f"{name}_{part}" for name in names for part in ("mean", "sd"))]
    rows = ["n_bins,5,False,9,0,1,0.1,2,0.2,3,0.3", "n_bins,2,False,9,0,4,0.4,5,0.5,6,0.6"]
    others = ["n_bins,5,True,9,0,7,1,7,1,7,1", "region_ratio,5,False,9,0,7,1,7,1,7,1"]
    path.write_text("\n".join([",".join(header), *rows, *others]))
    display = SimulationDisplay.from_csv(path, sweep="n_bins").plot()
    np.testing.assert_array_equal(display.lines_["debiased"].get_xydata(), [[2, 5], [5, 2]])
    np.testing.assert_allclose(
        np.sort(display.table["high"] - display.table["low"]), np.arange(2, 13, 2) / 10
    )
    assert set(display.table["truth"]) == {9}
    with pytest.raises(OptionError, match="none"):
        SimulationDisplay.from_csv(path, sweep="n")
