"""The scikit-learn face: a display audits predictions or a classifier, and draws the audit."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from epiloss import Audit, GroupingDisplay, OptionError, audit
from epiloss.estimation.options import DEFAULTS

matplotlib.use("Agg")

_generator = np.random.default_rng(0)
N = 500
X = _generator.normal(size=(N, 2))
S = _generator.random(N)
Y = (_generator.random(N) < np.clip(S + 0.2 * np.sign(X[:, 0]), 0, 1)).astype(int)
NAMED = np.where(Y == 1, "sick", "healthy")


@pytest.fixture(autouse=True)
def pictures_are_closed() -> Iterator[None]:
    yield
    pyplot.close("all")


# options


def test_what_is_learned_with_is_not_changed() -> None:
    """Estimators that are given as options are cloned, and stay unfitted."""
    partition, learner = DecisionTreeClassifier(max_depth=2), LinearRegression()
    result = audit(Y, S, X, partition=partition, learner=learner, n_bins=[0, 0.5, 1])
    assert len(result.level_sets) == 2
    assert result.method == "twin"
    assert not hasattr(partition, "tree_")
    assert not hasattr(learner, "coef_")


def test_options_of_a_display_are_those_of_an_audit_and_wrong_ones_are_told() -> None:
    options = {
        name: parameter.default
        for name, parameter in inspect.signature(audit).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for name in ("subgroups", "sample_weight", "clusters", "display"):
        del options[name]  # of the rows
    assert dict(DEFAULTS) == options
    with pytest.raises(OptionError, match="n_bins must be an integer"):
        GroupingDisplay.from_predictions(Y, S, X, n_bins=0)
    with pytest.raises(TypeError, match="bins"):
        GroupingDisplay.from_predictions(Y, S, X, bins=4)


# the display


@pytest.fixture(scope="module")
def result() -> Audit:
    return audit(Y, S, X, n_bins=4, partition="stump", method="partition")


def drawn(display: GroupingDisplay) -> dict[str, Any]:
    """Return the points of every labelled artist."""
    found = {line.get_label(): line.get_xydata() for line in display.ax_.lines}
    return found | {dots.get_label(): np.asarray(dots.get_offsets()) for dots in display.ax_.collections}


def dots(display: GroupingDisplay) -> tuple[Any, Any]:
    """Return place and size of each region's dot."""
    return np.asarray(display.points_.get_offsets()).tolist(), display.points_.get_sizes().tolist()


def points(table: Any) -> Any:
    return np.column_stack([table["score_mean"], table["label_mean"]])


def test_a_display_draws_the_level_sets_the_regions_and_the_diagonal(result: Audit) -> None:
    display = GroupingDisplay.from_audit(result).plot()
    artists = drawn(display)
    np.testing.assert_array_equal(artists["level sets"], points(result.level_sets))
    np.testing.assert_array_equal(
        np.sort(artists["regions"][:, 1]), np.sort(result.regions["label_mean"])
    )
    np.testing.assert_array_equal(artists["perfectly calibrated"], [[0, 0], [1, 1]])


def test_larger_regions_have_larger_dots(result: Audit) -> None:
    display = GroupingDisplay.from_audit(result).plot()
    n = dict(zip(display.x.tolist(), display.n.tolist(), strict=True))
    sizes = {n[x]: size for (x, _), size in zip(*dots(display), strict=True)}
    assert [sizes[count] for count in sorted(sizes)] == sorted(sizes.values())
    assert min(sizes.values()) > 0


def test_the_picture_tells_name_and_losses_and_labels_its_axes(result: Audit) -> None:
    display = GroupingDisplay.from_audit(result, name="my model").plot()
    title = display.ax_.get_title()
    assert "my model" in title
    assert f"{result.grouping_loss.value:z.4f}" in title
    assert display.ax_.get_xlabel()
    assert display.ax_.get_ylabel()
    assert display.ax_.get_legend() is not None


def test_a_display_draws_into_the_axes_it_is_given(result: Audit) -> None:
    figure, axes = pyplot.subplots(1, 2)
    display = GroupingDisplay.from_audit(result).plot(ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].lines
    assert pyplot.get_fignums() == [figure.number]


def test_predictions_are_audited_with_the_given_options_and_drawn() -> None:
    options: dict[str, Any] = {"n_bins": 4, "rule": "log"}
    display = GroupingDisplay.from_predictions(Y, S, X, **options)
    expected = audit(Y, S, X, **options)
    assert display.audit.grouping_loss == expected.grouping_loss
    halves = GroupingDisplay.from_audit(expected, partition="halves")
    np.testing.assert_array_equal(np.sort(drawn(display)["regions"][:, 1]), np.sort(halves.rate))
    assert len(halves.rate) == 8


def test_a_stump_is_drawn_as_learned_on_one_half_of_the_rows() -> None:
    display = GroupingDisplay.from_predictions(Y, S, X, n_bins=4, partition="stump")
    expected = audit(Y, S, X, n_bins=4, partition="stump", method="paper")
    np.testing.assert_array_equal(
        np.sort(drawn(display)["regions"][:, 1]), np.sort(expected.regions["label_mean"])
    )


@pytest.mark.parametrize("data", [{}, {"subgroups": X[:, 0] > 0}], ids=["blind", "subgroups"])
def test_predictions_without_features_are_drawn(data: dict[str, Any]) -> None:
    display = GroupingDisplay.from_predictions(Y, S, n_bins=4, **data)
    assert len(drawn(display)["level sets"]) == 4


@pytest.mark.parametrize("scores", [np.full(N, 0.3), np.round(S), np.zeros(N)])
def test_scores_of_one_or_two_values_are_drawn(scores: Any) -> None:
    display = GroupingDisplay.from_predictions(Y, scores, X, method="partition")
    display.figure_.canvas.draw()
    assert len(drawn(display)["level sets"]) == len(np.unique(scores))


@pytest.mark.parametrize(
    "labels", [Y, NAMED, Y == 1, 2 * Y - 1], ids=["numbers", "text", "bools", "signs"]
)
@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
def test_a_fitted_classifier_is_audited_whatever_its_labels(labels: Any, frame: bool) -> None:
    features = pd.DataFrame(X, columns=["age", "bmi"]) if frame else X
    model = LogisticRegression().fit(features, labels)
    display = GroupingDisplay.from_estimator(model, features, labels, n_bins=4, method="partition")
    scores = LogisticRegression().fit(X, Y).predict_proba(X)[:, 1]
    expected = audit(Y, scores, X, partition="stump", n_bins=4, method="paper")
    assert display.audit.score.value == pytest.approx(np.mean((scores - Y) ** 2), abs=1e-9)
    np.testing.assert_allclose(points(display.audit.regions), points(expected.regions), atol=1e-9)
    assert display.name == "LogisticRegression"
    assert "LogisticRegression" in display.ax_.get_title()


def test_pos_label_turns_the_picture_of_a_classifier_round() -> None:
    model = LogisticRegression().fit(X, NAMED)
    display = GroupingDisplay.from_estimator(
        model, X, NAMED, n_bins=4, subgroups=X[:, 0] > 0, pos_label="healthy"
    )
    straight = GroupingDisplay.from_estimator(model, X, NAMED, n_bins=4, subgroups=X[:, 0] > 0)
    np.testing.assert_allclose(
        drawn(display)["level sets"][::-1], 1 - drawn(straight)["level sets"], atol=1e-9
    )


def test_a_classifier_of_three_classes_is_drawn_by_its_top_label() -> None:
    labels = np.array(["a", "b", "c"])[_generator.integers(3, size=N)]
    model = LogisticRegression().fit(X, labels)
    display = GroupingDisplay.from_estimator(model, X, labels, method="partition")
    assert display.audit.task == "top-label"
    top = model.predict_proba(X).max(axis=1)
    hit = model.predict(X) == labels
    assert display.audit.score.value == pytest.approx(np.mean((top - hit) ** 2), abs=1e-9)


def test_rows_that_lack_a_class_of_the_classifier_are_audited() -> None:
    labels = np.array(["a", "b", "c"])[np.arange(N) % 3]
    model = LogisticRegression().fit(X, labels)
    some = labels != "c"
    display = GroupingDisplay.from_estimator(model, X[some], labels[some], method="partition")
    assert display.audit.n_samples == some.sum()


def test_an_estimator_without_probabilities_is_refused() -> None:
    with pytest.raises(OptionError, match=r"predict_proba.*LinearSVC"):
        GroupingDisplay.from_estimator(LinearSVC().fit(X, Y), X, Y)


def test_an_audit_of_several_scores_is_refused() -> None:
    several = audit(Y, S, X, task="classwise", n_bins=4, method="partition")
    with pytest.raises(OptionError, match="classwise"):
        GroupingDisplay.from_audit(several)
