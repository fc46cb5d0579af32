"""Columns of lists: each is as many columns of numbers as its lists are long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss import DataError
from epiloss.input.features import Features
from epiloss.sources.arrow import FeatureColumns

pl = pytest.importorskip("polars", reason="polars is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
G = np.random.default_rng(0)
N = 300
E = G.normal(size=(N, 3)).astype(np.float32)
AGE = G.normal(size=N)
P = G.random(N)
Y = (G.random(N) < P).astype(int)

LISTS: dict[str, Any] = {
    "pandas arrays": pd.Series(list(E)),
    "pandas lists": pd.Series(E.tolist()),
    "pandas tuples": pd.Series([tuple(row) for row in E.tolist()]),
    "pandas arrow": pd.Series(E.tolist(), dtype=pd.ArrowDtype(pa.list_(pa.float32()))),
    "polars list": pl.Series(E.tolist(), dtype=pl.List(pl.Float32)),
    "polars array": pl.Series(E.tolist(), dtype=pl.Array(pl.Float32, 3)),
    "pyarrow list": pa.array(E.tolist(), pa.list_(pa.float32())),
    "pyarrow large list": pa.array(E.tolist(), pa.large_list(pa.float64())),
    "pyarrow fixed list": pa.array(E.tolist(), pa.list_(pa.float32(), 3)),
    "pyarrow chunks": pa.chunked_array([E[:100].tolist(), E[100:].tolist()]),
    "matrix": E,
}


def tables(column: Any) -> list[Any]:
    """Return tables that have a column among others."""
    if isinstance(column, pd.Series):
        return [pd.DataFrame({"text": column, "age": AGE})]
    if isinstance(column, pl.Series):
        return [pl.DataFrame({"text": column, "age": AGE})]
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return [pa.table({"text": column, "age": AGE})]
    return [{"text": column, "age": AGE}]


@pytest.mark.parametrize("column", LISTS.values(), ids=LISTS.keys())
def test_lists_among_other_columns_are_columns_with_their_name(column: Any) -> None:
    for table in [*tables(column), {"text": column, "age": AGE}]:
        features = Features.read(table)
        assert features.names == ("text[0]", "text[1]", "text[2]", "age")
        np.testing.assert_array_equal(features.matrix[:, :3], E)
        np.testing.assert_array_equal(features.matrix[:, 3], AGE)


@pytest.mark.parametrize("column", LISTS.values(), ids=LISTS.keys())
def test_lists_alone_are_a_matrix_as_they_are_in_files(column: Any) -> None:
    for X in (column, {"text": column}):
        features = Features.read(X)
        assert features.names == ("x0", "x1", "x2")
        np.testing.assert_array_equal(features.matrix, E)


@pytest.mark.parametrize("names", [["text"], ["text", "age"]], ids=["alone", "among others"])
def test_columns_are_called_as_those_of_files(names: list[str]) -> None:
    lists = pa.array(E.tolist(), pa.list_(pa.float32(), 3))
    table = pa.table({"text": lists, "age": AGE}).select(names)
    in_files = FeatureColumns.of(table.schema, names, {}).read(table)
    features = Features.read(table)
    assert features.names == in_files.names
    np.testing.assert_array_equal(features.matrix, in_files.matrix)


def test_rows_without_a_list_are_missing() -> None:
    lists = [*E.tolist()]
    lists[4] = None
    for column in (pd.Series(lists), pl.Series(lists), pa.array(lists)):
        matrix = Features.read({"text": column, "age": AGE}).matrix
        assert np.isnan(matrix[4, :3]).all()
        assert np.isfinite(np.delete(matrix, 4, axis=0)).all()


def test_lists_of_different_lengths_are_an_error_that_names_the_row() -> None:
    lists = E.tolist()
    lists[7] = lists[7][:2]
    for column in (pd.Series(lists), pl.Series(lists), pa.array(lists)):
        for X in ({"text": column, "age": AGE}, {"text": column}):
            with pytest.raises(DataError) as caught:
                Features.read(X)
            assert str(caught.value) == (
                "lists in column 'text' of X must have equal lengths, got 2 numbers at row 7 and 3 "
                "numbers at row 0. Pad or truncate them."
            )


def test_lists_of_texts_are_categories() -> None:
    tags = pd.Series([["a", "b"], ["a", "c"]] * (N // 2))
    features = Features.read({"tags": tags, "age": AGE})
    assert features.names == ("tags", "age")
    assert len(features.categories[0]) == 2


def test_parts_of_lists_must_have_names_of_their_own() -> None:
    with pytest.raises(DataError, match=r"distinct names, got 'text\[1\]' twice"):
        Features.read({"text": E, "text[1]": AGE})


def test_lists_are_known_again_among_other_columns() -> None:
    learned = {"text": list(E), "age": AGE}
    later = pd.DataFrame({"age": AGE, "note": [{"a": 1}] * N, "text": list(E)})
    repair = epiloss.RegionRecalibrator().fit(Y, P, learned)
    np.testing.assert_array_equal(repair.predict(P, later), repair.predict(P, learned))
    alone = epiloss.RegionRecalibrator().fit(Y, P, E)
    np.testing.assert_array_equal(alone.predict(P, later), alone.predict(P, E))
