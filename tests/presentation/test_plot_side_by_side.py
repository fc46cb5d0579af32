"""Three pictures side by side, as ``plt.subplots(1, 3)`` makes the axes: every text can be read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

import epiloss
from epiloss.errors import OptionError
from epiloss.presentation.plot import (
    ComparisonDisplay,
    CurveDisplay,
    GapsDisplay,
    GroupingDisplay,
    HeterogeneityDisplay,
    LedgerDisplay,
)
from epiloss.simulate import Sigmoid
from figure_texts import overlapping

SAMPLE = Sigmoid(perturbation="step").sample(3_000)
SIDE = np.where(SAMPLE.X[:, 0] > SAMPLE.X[:, 1], "a long name of a group", "right")


@pytest.fixture(scope="module")
def result() -> epiloss.Audit:
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, subgroups={"side": SIDE})


@pytest.fixture(scope="module")
def grouped() -> epiloss.Audit:
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, subgroups={"side": SIDE})


def displays(result: epiloss.Audit, grouped: epiloss.Audit) -> dict[str, Any]:
    return {
        "grouping": GroupingDisplay.from_audit(result),
        "curve": CurveDisplay.from_audit(result),
        "ledger": LedgerDisplay.from_audit(result),
        "gaps": GapsDisplay.from_audit(result),
        "subgroups": GapsDisplay.from_audit(result, subgroups="side"),
        "groups": HeterogeneityDisplay.from_audit(grouped),
        "comparison": ComparisonDisplay.from_audit(result, names=["logistic"]),
    }


@pytest.mark.parametrize(
    "names",
    [
        ("grouping", "gaps", "groups"),
        ("ledger", "curve", "comparison"),
        ("subgroups", "grouping", "curve"),
    ],
    ids=" ".join,
)
def test_titles_labels_and_legends_are_apart(
    result: epiloss.Audit, grouped: epiloss.Audit, names: tuple[str, ...]
) -> None:
    every = displays(result, grouped)
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4.5))
    for ax, name in zip(axes, names, strict=True):
        every[name].plot(ax)
    assert overlapping(figure) == []
    pyplot.close("all")


def test_a_layout_that_somebody_chose_is_kept(result: epiloss.Audit) -> None:
    figure, ax = pyplot.subplots()
    figure.subplots_adjust(left=0.4)
    GapsDisplay.from_audit(result).plot(ax)
    assert figure.get_layout_engine() is None
    other, ax = pyplot.subplots(layout="tight")
    before = other.get_layout_engine()
    GapsDisplay.from_audit(result).plot(ax)
    assert other.get_layout_engine() is before
    pyplot.close("all")


def test_a_comparison_needs_a_name_for_each_audit(result: epiloss.Audit) -> None:
    assert ComparisonDisplay.from_audit(result).comparison.baseline == "model 1"
    with pytest.raises(OptionError, match="one for each audit, got"):
        ComparisonDisplay.from_audit(result, result, names=["a", "a"])
    with pytest.raises(OptionError, match="0 audits"):
        ComparisonDisplay.from_audit()
