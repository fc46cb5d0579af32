"""The door takes every honest form of labels, scores and weights, and refuses the rest in a line."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from epiloss import DataError, OptionError
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem, Reading

N = 24
Y = np.arange(N) % 2
S = (np.arange(N) * 7 % N + 0.5) / N
P3 = np.random.default_rng(0).dirichlet(np.ones(3), N)
Y3 = np.arange(N) % 3


def read(y_true: Any = Y, y_prob: Any = S, X: Any = None, **options: Any) -> Problem:
    """Read a problem; what says how to read it stands beside the columns of its rows."""
    how = {one.name: options.pop(one.name) for one in fields(Reading) if one.name in options}
    return read_problem(y_true, y_prob, X, Reading(**how), **options)


def refusal(*data: Any, **options: Any) -> str:
    """Return the sentence with which the data are refused."""
    with pytest.raises(DataError) as caught:
        read(*data, **options)
    return str(caught.value)


def with_value(values: NDArray[Any], row: int, value: Any) -> NDArray[Any]:
    changed = values.astype(object if value is None else float)
    changed[row] = value
    return changed


# what is accepted


@pytest.mark.parametrize(
    "labels",
    [
        Y.astype(bool),
        2 * Y - 1,
        Y + 1,
        Y.astype(float),
        Y.astype(object),
        np.where(Y == 1, "yes", "no"),
        np.where(Y == 1, "yes", "no").astype(object),
        np.where(Y == 1, b"yes", b"no"),
        np.array(["2020-01-01", "2021-01-01"], "M8[D]")[Y],
        Y[:, None],
        Y.tolist(),
        pd.Series(Y, index=np.arange(N)[::-1]),
        pd.Series(Y).astype("Int64"),
        pd.Series(np.where(Y == 1, "yes", "no")).astype("category"),
        pl.Series(np.where(Y == 1, "yes", "no").tolist()),
        pl.Series(np.where(Y == 1, "yes", "no").tolist()).cast(pl.Categorical),
        pa.array(Y.astype(bool)),
        pa.chunked_array([Y[:5], Y[5:]]),
        pa.array(np.where(Y == 1, "yes", "no")).dictionary_encode(),
    ],
    ids=lambda labels: f"{type(labels).__module__.split('.')[0]}-{getattr(labels, 'dtype', '')!s:.12}",
)
def test_any_two_values_are_labels_and_the_last_in_order_is_positive(labels: Any) -> None:
    texts = isinstance(np.asarray(labels).tolist()[0], str)
    np.testing.assert_array_equal(read(labels, pos_label="yes" if texts else None).labels, Y)


def test_pos_label_chooses_the_positive_class() -> None:
    labels = np.where(Y == 1, "yes", "no")
    problem = read(labels, pos_label="no")
    assert problem.classes[problem.positive] == "no"
    np.testing.assert_array_equal(problem.labels == problem.positive, Y == 0)


def test_one_score_column_with_texts_as_labels_needs_the_positive_class() -> None:
    labels = np.where(Y == 1, "yes", "no")
    with pytest.raises(OptionError, match=r"'no', 'yes'.* Pass pos_label=, the label whose probability"):
        read(labels)
    assert read(labels, pos_label="yes").remarks == read(Y).remarks
    assert read(labels, classes=["yes", "no"]).classes == ("yes", "no")


def test_the_order_of_text_classes_is_told_unless_it_was_given() -> None:
    labels = np.array(["a", "b", "c"])[Y3]
    told = "the score columns are taken to be 'a', 'b', 'c', in this order; pass classes= to change."
    assert told in read(labels, P3).remarks
    assert told not in read(labels, P3, classes=["a", "b", "c"]).remarks


def test_a_positive_class_has_no_part_in_other_tasks() -> None:
    assert "pos_label is ignored for task 'top-label'." in read(Y3, P3, pos_label=1).remarks
    assert not any("no part" in one for one in read(Y, task="top-label", pos_label=1).remarks)


def test_rows_without_score_or_label_are_left_out_on_request_and_counted() -> None:
    labels, scores = with_value(Y, 5, NAN), with_value(S, 7, NAN)
    X = np.arange(2.0 * N).reshape(N, 2)
    keep = np.delete(np.arange(N), [5, 7])
    options: dict[str, Any] = {"subgroups": Y, "sample_weight": S, "clusters": np.arange(N)}
    problem = read(labels, scores, X, drop_missing=True, **options)
    expected = read(Y[keep], S[keep], X[keep], **{name: part[keep] for name, part in options.items()})
    assert problem.remarks[0] == "2 of 24 rows have no score or no label and were left out."
    assert problem.remarks[1:] == expected.remarks
    np.testing.assert_array_equal(problem.rows, keep)
    assert problem.clusters is not None
    assert len(np.unique(problem.clusters)) == len(keep)
    for name in ("labels", "scores", "weights"):
        np.testing.assert_array_equal(getattr(problem, name), getattr(expected, name))
    assert problem.features is not None
    np.testing.assert_array_equal(problem.features.matrix, X[keep])


def test_an_error_after_rows_were_left_out_names_the_row_as_it_was_given() -> None:
    scores = with_value(with_value(S, 3, NAN), 9, 1.5)
    with pytest.raises(DataError, match=r"got 1\.5 at row 9 \(1 row in all\)"):
        read(Y, scores, drop_missing=True)


def test_nothing_is_left_to_audit_where_all_scores_are_missing() -> None:
    for logits in (False, True):
        with pytest.raises(DataError, match="at least one row with a score and a label"):
            read(Y, np.full(N, NAN), drop_missing=True, logits=logits)


def test_logits_become_probabilities_on_request() -> None:
    np.testing.assert_allclose(read(Y, np.log(S / (1 - S)), logits=True).scores, S, rtol=1e-12)
    np.testing.assert_allclose(read(Y3, np.log(P3) + 3, logits=True).scores, P3, rtol=1e-12)


def test_constant_scores_are_one_level_set_and_remarked_on() -> None:
    said = read(Y, np.full(N, 0.3)).remarks
    assert any("all scores are 0.3: there is only one level set" in one for one in said)
    assert not any("all scores" in one for one in read().remarks)


def test_weights_that_leave_few_rows_are_remarked_on() -> None:
    weights = np.where(np.arange(N) == 3, 1e6, 1.0)
    said = [one for one in read(sample_weight=weights).remarks if "uneven" in one]
    assert said == [
        "the weights are very uneven: 24 rows have an effective sample size of 1, so standard errors "
        "rest on few rows."
    ]
    assert not any("uneven" in one for one in read(sample_weight=1 + S).remarks)


def test_rows_of_no_weight_and_of_next_to_none_are_told_apart() -> None:
    weights = np.ones(N)
    weights[:2], weights[2:5] = 0, 1e-20
    said = read(sample_weight=weights).remarks
    assert "rows left out because their weight is 0: 2." in said
    assert "rows left out because their weight is negligible: 3." in said


def test_rows_without_a_cluster_are_refused() -> None:
    clusters = np.arange(N).astype(object)
    clusters[4] = clusters[9] = None
    with pytest.raises(DataError, match=r"clusters must not be missing.* row 4 \(2 rows in all\)"):
        read(clusters=clusters)


def test_pandas_objects_in_another_order_are_remarked_on() -> None:
    index = np.arange(N)[::-1] + 100
    scores, labels = pd.Series(S, index), pd.Series(Y, index)
    frame = pd.DataFrame({"a": S}, index)
    assert not any("index" in one for one in read(labels, scores, frame).remarks)
    assert not any("index" in one for one in read(labels.to_numpy(), scores, frame).remarks)
    said = [one for one in read(labels, scores, frame.sort_index()).remarks if "index" in one]
    assert len(said) == 1
    assert said[0].startswith("X has the index of y_prob in another order")


def test_logits_that_look_like_probabilities_are_remarked_on() -> None:
    told = "all logits lie in [0, 1]: are they probabilities already?"
    assert told in read(Y, S, logits=True).remarks
    assert told not in read(Y, 6 * S - 3, logits=True).remarks


# copies


def copies(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Return n rows, of which no two are alike."""
    g = np.random.default_rng(seed)
    scores, X = g.random(n), g.random((n, 3))
    return (g.random(n) < scores).astype(int), scores, X


@pytest.mark.parametrize("n", [200, 30_000])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_share_of_copied_rows_is_told(n: int, share: float) -> None:
    y, scores, X = copies(round(n * (1 - share)), 0)
    rows = np.concatenate([np.arange(len(y)), np.arange(n - len(y))])
    said = [one for one in read(y[rows], scores[rows], X[rows]).remarks if "duplicates" in one]
    assert not any("duplicates" in one for one in read(y, scores, X).remarks)
    if n * share < 50:  # too few to tell from chance
        assert said == []
        return
    told = float(said[0].split("%")[0].removeprefix("about ")) / 100
    assert told == pytest.approx(share, abs=0.02)


def test_rows_that_are_alike_by_chance_are_no_copies() -> None:
    g = np.random.default_rng(0)
    X = g.integers(0, 3, (5_000, 3)).astype(float)
    scores = (1 + X.sum(axis=1)) / 8
    y = (g.random(5_000) < scores).astype(int)
    assert not any("duplicates" in one for one in read(y, scores, X).remarks)
    twice = np.tile(np.arange(5_000), 2)
    # of rows that are alike anyway, copies are not told: their labels differ as chance has it
    assert not any("duplicates" in one for one in read(y[twice], scores[twice], X[twice]).remarks)


def test_copies_in_clusters_are_accounted_for() -> None:
    y, scores, X = copies(500, 0)
    rows = np.tile(np.arange(500), 2)
    problem = read(y[rows], scores[rows], X[rows], clusters=rows)
    assert not any("duplicates" in one for one in problem.remarks)


def test_the_task_is_chosen_by_the_columns_and_told() -> None:
    two = np.column_stack([1 - S, S])
    for scores, labels, task in [(S, Y, "binary"), (two, Y, "binary"), (P3, Y3, "top-label")]:
        problem = read(labels, scores)
        assert problem.task == task
        assert any(repr(task) in remark for remark in problem.remarks)
        assert not any("chosen" in remark for remark in read(labels, scores, task=task).remarks)


def test_two_columns_that_sum_to_one_are_the_binary_scores_of_the_second() -> None:
    np.testing.assert_array_equal(read(Y, np.column_stack([1 - S, S])).scores, S)
    np.testing.assert_array_equal(read(Y, S[:, None]).scores, S)


@pytest.mark.parametrize("classes", [["no", "yes"], ["yes", "no"]])
@pytest.mark.parametrize("pos_label", [None, "no", "yes"])
def test_the_binary_scores_are_those_of_the_positive_class_in_any_order_of_columns(
    classes: list[str], pos_label: str | None
) -> None:
    labels = np.where(Y == 1, "yes", "no")
    columns = {"yes": S, "no": 1 - S}
    scores = np.column_stack([columns[name] for name in classes])
    problem = read(labels, scores, classes=classes, pos_label=pos_label)
    positive = problem.classes[problem.positive]
    assert positive == (pos_label or "yes")
    np.testing.assert_array_equal(problem.labels == problem.positive, labels == positive)
    np.testing.assert_array_equal(problem.scores, columns[positive])


@pytest.mark.parametrize("pos_label", ["no", "yes"])
def test_one_column_with_named_classes_still_heeds_pos_label(pos_label: str) -> None:
    labels = np.where(Y == 1, "yes", "no")
    problem = read(labels, S, classes=["no", "yes"], pos_label=pos_label)
    np.testing.assert_array_equal(problem.labels == problem.positive, labels == pos_label)


@pytest.mark.parametrize("task", ["top-label", "classwise", "joint"])
def test_pos_label_never_parts_classes_from_their_columns(task: str) -> None:
    labels = np.where(Y == 1, "yes", "no")
    problem = read(labels, np.column_stack([1 - S, S]), task=task, pos_label="no")
    place = list(problem.classes).index("yes")
    np.testing.assert_array_equal(problem.scores[:, place], S)
    np.testing.assert_array_equal(problem.labels == place, labels == "yes")


def test_classes_give_the_order_of_the_columns() -> None:
    names = np.array(["b", "c", "a"])
    problem = read(names[Y3], P3, classes=["b", "c", "a"])
    np.testing.assert_array_equal(problem.labels, Y3)
    np.testing.assert_array_equal(read(names[Y3], P3).labels, np.array([1, 2, 0])[Y3])


def test_a_class_that_never_occurs_keeps_its_column() -> None:
    assert read(np.where(Y3 == 2, 0, Y3), P3).classes == (0, 1, 2)
    assert read(np.array(["a", "b"])[Y], P3, classes=["a", "b", "c"]).classes == ("a", "b", "c")


@pytest.mark.parametrize("dtype", [int, float, bool, object, np.int8])
def test_one_hot_rows_are_labels(dtype: Any) -> None:
    np.testing.assert_array_equal(read(np.eye(3)[Y3].astype(dtype), P3).labels, Y3)
    np.testing.assert_array_equal(
        read(pd.DataFrame(np.eye(3, dtype=int)[Y3]), pd.DataFrame(P3)).labels, Y3
    )


def test_one_hot_rows_name_their_classes_by_classes() -> None:
    problem = read(np.eye(3)[Y3], P3, classes=["a", "b", "c"])
    assert problem.classes == ("a", "b", "c")
    np.testing.assert_array_equal(problem.labels, Y3)


def test_scores_outside_by_rounding_are_clipped_and_told() -> None:
    problem = read(Y, with_value(with_value(S, 3, 1 + 1e-9), 4, -1e-9))
    assert problem.scores.min() == 0
    assert problem.scores.max() == 1
    assert any(remark.startswith("2 scores") for remark in problem.remarks)


def test_rows_of_weight_zero_are_left_out_and_told() -> None:
    problem = read(sample_weight=np.arange(N), subgroups=Y, X=np.ones((N, 1)))
    assert len(problem.scores) == len(problem.labels) == N - 1
    assert problem.weights is not None
    assert problem.features is not None
    (groups,) = problem.subgroups.values()
    assert len(problem.weights) == problem.features.n_rows == len(groups.codes) == N - 1
    assert any("weight is 0" in remark for remark in problem.remarks)
    alone = read(sample_weight=np.arange(N), subgroups=Y).groups  # the regions, where there is no X
    assert alone is not None
    np.testing.assert_array_equal(alone.codes, groups.codes)


@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-300, 3.0])
def test_the_scale_of_the_weights_does_not_matter(scale: float) -> None:
    weights = (1 + np.arange(N) % 5) * scale
    found = read(sample_weight=weights).weights
    assert found is not None
    assert 0.5 <= found.max() <= 1
    np.testing.assert_allclose(found / found.max(), weights / weights.max(), rtol=1e-15)


MANY_COLUMNS = {"sex": np.where(Y == 1, "F", "M"), "ward": Y3}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (MANY_COLUMNS, ("sex", "ward")),
        (pd.DataFrame(MANY_COLUMNS), ("sex", "ward")),
        (pl.DataFrame(MANY_COLUMNS), ("sex", "ward")),
        (pa.table(MANY_COLUMNS), ("sex", "ward")),
        (np.column_stack([Y, Y3]), ("subgroup_0", "subgroup_1")),
    ],
    ids=["mapping", "pandas", "polars", "pyarrow", "matrix"],
)
def test_each_column_of_subgroups_is_read_and_their_combinations_are_regions(
    given: Any, names: tuple[str, ...]
) -> None:
    problem = read(subgroups=given)
    assert tuple(problem.subgroups) == names
    for found, column in zip(problem.subgroups.values(), MANY_COLUMNS.values(), strict=True):
        assert len(found.names) == len(np.unique(column))
        assert len(set(zip(found.codes.tolist(), column.tolist(), strict=True))) == len(found.names)
    assert problem.groups is not None
    assert len(problem.groups.names) == 6
    if names[0] == "sex":
        row = problem.groups.codes[5]
        assert problem.groups.names[row] == "sex=F, ward=2"
    beside = read(X=np.ones((N, 1)), subgroups=given)  # regions are learned from X instead
    assert beside.groups is None
    assert tuple(beside.subgroups) == names


def test_missing_groups_are_a_group_of_their_own() -> None:
    for missing in (None, np.nan, pd.NA, pd.NaT):
        found = read(subgroups=np.array(["a", missing] * (N // 2), object)).groups
        assert found is not None
        assert sorted(found.names) == ["(missing)", "a"]
        np.testing.assert_array_equal(found.codes[::2] == found.codes[1::2], False)


def test_nothing_given_is_written_to() -> None:
    given = [Y.copy(), S.copy(), np.ones((N, 2)), np.arange(N) % 3, np.arange(N) * 1.0]
    for array in given:
        array.flags.writeable = False
    read(given[0], given[1], given[2], subgroups=given[3], sample_weight=given[4])


# what is not

NAN, INF = float("nan"), float("inf")
REFUSED = {
    "nan score": ((Y, with_value(S, 5, NAN)), ("missing", "at row 5", "1 row in all", "drop_missing")),
    "none score": ((Y, with_value(S, 5, None)), ("missing", "row 5", "drop_missing")),
    "infinite score": ((Y, with_value(S, 5, INF)), ("finite", "inf at row 5", "between 0 and 1")),
    "logits": ((Y, 6 * S - 3), ("[0, 1]", "row 0", "20 rows in all", "logits=True")),
    "just outside": ((Y, with_value(S, 5, 1.0001)), ("[0, 1]", "1.0001 at row 5")),
    "class logits": ((Y3, np.log(P3)), ("column 0", "look like logits", "logits=True")),
    "text score": ((Y, np.where(S > 0.5, "high", "0.1")), ("numbers", "'high'", "robabilities")),
    "row sums": ((Y3, P3 * 0.9), ("sum to 1", "0.9 at row 0", "Normalise")),
    "three dimensions": ((Y, S[:, None, None]), ("(n, K)", "(24, 1, 1)")),
    "lengths": ((Y[:-1], S), ("y_prob", "y_true", "24 and 23", "same rows")),
    "lengths of X": ((Y, S, np.ones((N + 1, 2))), ("y_prob", "X", "24 and 25")),
    "one class": (
        (np.ones(N, int), S),
        ("two classes", "1 in all 24 rows", "add rows of another class"),
    ),
    "one text class": ((["a"] * N, S), ("two classes", "'a'")),
    "empty": (([], []), ("at least one row", "got none")),
    "empty table": (([], np.empty((0, 3))), ("at least one row", "got none")),
    "three labels": ((Y3, S), ("at most 2", "got 3", "[0, 1, 2]", "one score column per class")),
    "four labels of three": ((np.arange(N) % 4, P3), ("at most 3", "got 4", "[0, 1, 2, 3]")),
    "missing label": ((with_value(Y, 5, NAN), S), ("missing", "row 5", "drop_missing")),
    "none label": ((with_value(Y, 5, None), S), ("missing", "row 5", "drop_missing")),
    "mixed labels": ((np.array(["a", 1], object)[Y], S), ("one type", "'a'", "Convert")),
    "wide labels": ((np.eye(3)[Y3], S), ("one label per row", "(24, 3)")),
    "two ones": ((np.ones((N, 3)), P3), ("single 1", "row 0")),
    "soft labels": ((P3, P3), ("single 1", "row 0", "class labels")),
    "unknown order": ((np.array(["a", "b"])[Y], P3), ("classes=",)),
    "masked score": ((Y, np.ma.masked_greater(S, 0.9)), ("row",)),
    "masked label": ((np.ma.masked_equal(Y, 1), S), ("missing",)),
    "complex score": ((Y, S + 0j), ("numbers",)),
    "ragged score": ((Y, [[0.1, 0.2], [0.3]] * (N // 2)), ("y_prob",)),
    "no scores": ((Y, None), ("None",)),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_data_are_refused_in_a_line_with_rule_value_and_remedy(
    data: tuple[Any, ...], words: tuple[str, ...]
) -> None:
    said = refusal(*data)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    for word in words:
        assert word in said


REFUSED_OPTIONS = {
    "short subgroups": ({"subgroups": Y[:-1]}, ("subgroups", "24 and 23")),
    "deep subgroups": ({"subgroups": P3[:, :, None]}, ("subgroups", "(24, 3, 1)")),
    "uneven subgroups": ({"subgroups": {"a": Y, "b": Y[:-1]}}, ("subgroups", "[23, 24]")),
    "no subgroups": ({"subgroups": {}}, ("subgroups", "at least one column", "got none")),
    "short weights": ({"sample_weight": S[:-1]}, ("sample_weight", "24 and 23")),
    "negative weight": ({"sample_weight": with_value(S, 5, -1)}, ("negative", "-1.0 at row 5")),
    "nan weight": ({"sample_weight": with_value(S, 5, NAN)}, ("finite", "nan at row 5")),
    "text weight": ({"sample_weight": ["a"] * N}, ("weight", "'a'")),
    "no weight": ({"sample_weight": np.zeros(N)}, ("not all be 0",)),
    "weights of one class": ({"sample_weight": Y}, ("two classes",)),
    "class not named": ({"classes": ["a", "b"]}, ("['a', 'b']", "got 0", "classes=")),
}


@pytest.mark.parametrize(("options", "words"), REFUSED_OPTIONS.values(), ids=REFUSED_OPTIONS.keys())
def test_bad_companions_of_the_rows_are_refused_likewise(
    options: dict[str, Any], words: tuple[str, ...]
) -> None:
    said = refusal(**options)
    assert "\n" not in said
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "multiclass"}, ("task", "'multiclass'", "'top-label'")),
        ({"pos_label": 7}, ("pos_label", "[0, 1]", "7")),
        ({"classes": [0, 1, 2]}, ("classes", "2", "got 3")),
        ({"classes": [1, 1]}, ("classes", "[1, 1]")),
    ],
)
def test_a_wrong_option_is_told_with_its_value(options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as caught:
        read(**options)
    for word in words:
        assert word in str(caught.value)


def test_the_binary_task_refuses_three_columns() -> None:
    with pytest.raises(OptionError, match="got 3"):
        read(Y3, P3, task="binary")


def test_columns_without_any_value_are_named() -> None:
    X = np.column_stack([np.arange(N), np.full(N, NAN), np.where(np.arange(N) == N - 1, 1.0, NAN)])
    said = [one for one in read(Y, S, X).remarks if "has no values" in one]
    assert said == ["column 'x1' has no values and is not used."]
    assert not any("has no values" in one for one in read(Y, S, X[:, :1]).remarks)
