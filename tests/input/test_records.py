"""Rows as records, and scores as lists: the same result as the same numbers in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import epiloss
from epiloss.input.arrays import score_numbers
from epiloss.input.features import Features

N = 400
_g = np.random.default_rng(0)
X = _g.normal(size=(N, 2))
SCORES = _g.dirichlet([1, 1, 1], N)
Y = np.array([_g.choice(3, p=row) for row in SCORES])
RECORDS: list[dict[str, Any]] = [
    {"a": a, "b": b, "sex": "fm"[place % 2]} for place, (a, b) in enumerate(X.tolist())
]


def audit(y: Any, p: Any, x: Any, **options: Any) -> dict[str, Any]:
    return epiloss.audit(y, p, x, method="partition", **options).to_dict()


LISTS = {
    "arrays in pandas": pd.Series(list(SCORES)),
    "lists in pandas": pd.Series(SCORES.tolist()),
    "a frame of one column": pd.DataFrame({"p": list(SCORES)}),
    "polars lists": pl.Series(SCORES.tolist()),
    "polars arrays": pl.Series(SCORES),
    "arrow lists": pa.array(SCORES.tolist()),
    "arrow lists of one length": pa.array(SCORES.tolist(), pa.list_(pa.float64(), 3)),
    "tuples": [tuple(row) for row in SCORES.tolist()],
    "an array of arrays": np.array([*SCORES, None], object)[:-1],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_column_of_lists_holds_the_scores_of_all_classes(name: str) -> None:
    assert audit(Y, LISTS[name], X) == audit(Y, SCORES, X)


def test_lists_of_different_lengths_are_told_with_the_row() -> None:
    scores = pd.Series([*SCORES.tolist()[:-1], [0.5, 0.5]])
    with pytest.raises(
        epiloss.DataError, match=r"must have the 3 scores of the first .* got \[0.5, 0.5\] at row 399"
    ):
        audit(Y, scores, X)


def test_rows_without_a_list_are_missing() -> None:
    scores = pd.Series([None, *SCORES.tolist()[1:]])
    with pytest.raises(epiloss.DataError, match=r"scores must not be missing.*row 0"):
        audit(Y, scores, X)
    kept = audit(Y, scores, X, drop_missing=True)
    assert kept["n_samples"] == N - 1


def test_texts_in_lists_are_told() -> None:
    with pytest.raises(epiloss.DataError, match="scores must be numbers"):
        score_numbers(pd.Series([["a", "b"], ["c", "d"]]))


def test_records_are_columns() -> None:
    columns = {name: [row[name] for row in RECORDS] for name in RECORDS[0]}
    features = Features.read(RECORDS)
    assert features.names == ("a", "b", "sex")
    assert audit(Y, SCORES, RECORDS) == audit(Y, SCORES, columns)


def test_what_a_record_lacks_is_missing() -> None:
    features = Features.read([{"a": 1.0}, {"a": 2.0, "b": 3.0}])
    np.testing.assert_array_equal(features.matrix, [[1, np.nan], [2, 3]])


def test_records_are_a_table_and_their_nested_fields_have_dotted_names() -> None:
    rows = [
        {"y": int(y), "p": p, "doc": {"length": a}}
        for y, p, a in zip(Y, SCORES.tolist(), X[:, 0], strict=True)
    ]
    table = pa.table({"y": Y, "p": SCORES.tolist(), "doc.length": X[:, 0]})
    found, expected = (
        epiloss.audit_table(one, label="y", score="p", method="partition").to_dict()
        for one in (rows, table)
    )
    assert found == expected


class Interchanged:
    """A frame that knows the data frame protocol and nothing else."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __dataframe__(self, *args: Any, **options: Any) -> Any:
        return self.table.__dataframe__(*args, **options)


class Streamed:
    """A frame that gives an Arrow stream and nothing else."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class Broken:
    """A frame that cannot be read."""

    def __dataframe__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("the\nserver has gone")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise RuntimeError("the\nserver has gone")


@pytest.mark.parametrize("make", [Interchanged, Streamed])
def test_whatever_speaks_a_protocol_of_frames_is_a_table(make: Any) -> None:
    table = pa.table({"y": (Y == 0).astype(int), "p": SCORES[:, 0], "x": X[:, 0]})
    found, expected = (
        epiloss.audit_table(one, label="y", score="p", method="partition").to_dict()
        for one in (make(table), table)
    )
    assert found == expected


def test_a_frame_that_cannot_be_read_is_told_in_one_line() -> None:
    with pytest.raises(
        epiloss.DataError, match="cannot be read as a table: the server has gone"
    ) as told:
        epiloss.audit_table(Broken(), label="y", score="p")
    assert "\n" not in str(told.value)
