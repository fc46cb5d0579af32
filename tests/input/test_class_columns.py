"""Scores in a table: their columns' names tell whose they are, or say nothing, or are an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss import DataError, OptionError
from epiloss.input.checks import read_problem
from epiloss.input.class_columns import places_of_classes
from epiloss.input.problem import Reading

pl = pytest.importorskip("polars", reason="polars is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
G = np.random.default_rng(0)
N = 400
P = G.random(N)
Y = (G.random(N) < P).astype(int)
TEXTS = np.where(Y == 1, "yes", "no")
X = G.normal(size=(N, 2))
MAKES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.fixture(params=list(MAKES.values()), ids=list(MAKES))
def table(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    """Return what makes a table of columns."""
    made: Callable[[dict[str, Any]], Any] = request.param
    return made


def scores(y: Any, y_prob: Any, **reading: Any) -> Any:
    return read_problem(y, y_prob, None, Reading(**reading)).scores


def test_columns_named_after_the_classes_may_come_in_any_order(table: Any) -> None:
    for names in (("no", "yes"), ("p_no", "p_yes"), ("P(NO)", "P(YES)"), ("no score", "yes score")):
        both = {names[0]: 1 - P, names[1]: P}
        turned = {names[1]: P, names[0]: 1 - P}
        for columns in (both, turned):
            np.testing.assert_array_equal(scores(TEXTS, table(columns)), P)


def test_the_score_does_not_depend_on_the_order(table: Any) -> None:
    expected = epiloss.audit(TEXTS, np.column_stack([1 - P, P]), X)
    found = epiloss.audit(TEXTS, table({"yes": P, "no": 1 - P}), X)
    assert found.score == expected.score
    assert found.grouping_loss == expected.grouping_loss
    assert not any(remark.code == "class-order-chosen" for remark in found.remarks)


def test_three_classes_are_put_in_order_and_so_are_numbers(table: Any) -> None:
    rows = G.dirichlet(np.ones(3), N)
    labels = np.array(["a", "b", "c"])[G.integers(3, size=N)]
    turned = table({"c": rows[:, 2], "a": rows[:, 0], "b": rows[:, 1]})
    np.testing.assert_array_equal(scores(labels, turned), rows)
    turned = table({"prob_2": rows[:, 2], "prob_0": rows[:, 0], "prob_1": rows[:, 1]})
    np.testing.assert_array_equal(scores(np.arange(N) % 3, turned), rows)


def test_names_tell_of_classes_that_no_row_has(table: Any) -> None:
    rows = G.dirichlet(np.ones(3), N)
    problem = read_problem(
        np.array(["b", "c"])[Y], table({"c": rows[:, 2], "b": rows[:, 1], "a": rows[:, 0]})
    )
    assert problem.classes == ("a", "b", "c")
    np.testing.assert_array_equal(problem.scores, rows)


@pytest.mark.parametrize("labels", [Y, Y == 1, Y.astype(float)], ids=["whole", "truth", "float"])
def test_numbers_as_names_are_matched_with_labels_of_any_type(labels: Any) -> None:
    np.testing.assert_array_equal(scores(labels, pd.DataFrame({1: P, 0: 1 - P})), P)


SILENT: list[Sequence[Any]] = [
    (0, 1),
    (1, 2),
    ("p0", "p1"),
    ("prob_1", "prob_2"),
    ("column_0", "column_1"),
    ("x[0]", "x[1]"),
]


@pytest.mark.parametrize("names", SILENT, ids=str)
def test_names_that_are_places_say_nothing(names: Sequence[Any]) -> None:
    made = pd.DataFrame(dict(zip(names, (1 - P, P), strict=True)))
    np.testing.assert_array_equal(scores(TEXTS, made), P)
    np.testing.assert_array_equal(scores(Y, made), P)


def test_words_say_nothing_of_labels_that_are_numbers() -> None:
    np.testing.assert_array_equal(scores(Y, pd.DataFrame({"neg": 1 - P, "pos": P})), P)


def test_tables_without_names_are_read_as_arrays() -> None:
    made = pd.DataFrame(np.column_stack([1 - P, P]))
    np.testing.assert_array_equal(scores(TEXTS, made), P)
    np.testing.assert_array_equal(scores(Y, pd.DataFrame({"whatever": P})), P)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (TEXTS, ("cat", "dog")),
        (TEXTS, ("yes", "maybe")),
        (TEXTS, ("p1", "p0")),
        (Y, (3, 4)),
        (Y, ("0", "other")),
    ],
    ids=str,
)
def test_names_of_something_else_are_an_error_in_a_line(labels: Any, names: Any, table: Any) -> None:
    made = table({str(names[0]): 1 - P, str(names[1]): P})
    with pytest.raises(DataError) as caught:
        scores(labels, made)
    said = str(caught.value)
    assert "\n" not in said
    assert "must be named after the classes" in said
    assert repr(str(names[0])) in said
    assert said.endswith("Rename them, or pass an array with the columns in the order of the classes.")


def test_classes_that_the_user_names_count_unless_columns_are_named_in_another_order(table: Any) -> None:
    made = table({"dog": P, "cat": 1 - P})
    np.testing.assert_array_equal(scores(TEXTS, made, classes=["yes", "no"]), P)
    with pytest.raises(OptionError, match="classes must be in the order of the columns"):
        scores(TEXTS, table({"yes": P, "no": 1 - P}), classes=["no", "yes"])


def test_one_hot_labels_with_names_are_held_against_those_of_the_scores(table: Any) -> None:
    hot = table({"is_yes": Y, "is_no": 1 - Y})
    found = epiloss.audit(hot, table({"p_no": 1 - P, "p_yes": P}), X)
    expected = epiloss.audit(Y, P, X)
    assert found.score.value == pytest.approx(expected.score.value, abs=1e-12)


def test_models_that_are_compared_may_have_their_columns_in_different_orders(table: Any) -> None:
    models = {"one": table({"yes": P, "no": 1 - P}), "other": table({"no": 1 - P, "yes": P})}
    found = epiloss.compare(TEXTS, models, X)
    assert found.audits["one"].score == found.audits["other"].score


def test_a_repair_takes_columns_in_any_order_and_keeps_it(table: Any) -> None:
    straight, turned = table({"no": 1 - P, "yes": P}), table({"yes": P, "no": 1 - P})
    repairs = [epiloss.RegionRecalibrator().fit(TEXTS, one, X) for one in (straight, turned)]
    expected = repairs[0].predict(np.column_stack([1 - P, P]), X)
    for repair in repairs:
        np.testing.assert_array_equal(repair.predict(straight, X), expected)
        np.testing.assert_array_equal(repair.predict(turned, X), expected[:, ::-1])


def test_drift_takes_columns_in_any_order(table: Any) -> None:
    straight, turned = table({"no": 1 - P, "yes": P}), table({"yes": P, "no": 1 - P})
    reference = (TEXTS, straight, X)
    assert str(epiloss.drift(reference, (TEXTS, turned, X))) == str(epiloss.drift(reference, reference))


def test_a_class_inside_another_is_told_apart() -> None:
    found = places_of_classes(["p_aa", "p_a"], ["a", "aa"])
    assert found is not None
    assert found.tolist() == [1, 0]
