"""Features of any make become one matrix with names, losing and inventing nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from epiloss import DataError
from epiloss.input.features import Features
from epiloss.input.values import is_missing
from epiloss.partition.descriptions import Step, describe

A = np.array([[1.0, -2.5], [0.25, 7.0], [3.0, 0.0]])
NAMES = ["age", "bmi"]
FRAME = pd.DataFrame(A, columns=NAMES)

MAKES: dict[str, Any] = {
    "array": A,
    "list": A.tolist(),
    "float32": A.astype(np.float32),
    "float16": A.astype(np.float16),
    "longdouble": A.astype(np.longdouble),
    "big endian": A.astype(">f8"),
    "big endian float32": A.astype(">f4"),
    "fortran": np.asfortranarray(A),
    "strided": np.repeat(A, 2, axis=1)[:, ::2],
    "object": A.astype(object),
    "mapping": {"age": A[:, 0], "bmi": A[:, 1].tolist()},
    "pandas": FRAME,
    "pandas nullable": FRAME.astype("Float64"),
    "pandas arrow": FRAME.astype("float64[pyarrow]"),
    "polars": pl.DataFrame(A, schema=NAMES),
    "pyarrow": pa.table({"age": A[:, 0], "bmi": A[:, 1]}),
    "pyarrow batch": pa.RecordBatch.from_arrays([pa.array(A[:, 0]), pa.array(A[:, 1])], NAMES),
    "decimals": {"age": [Decimal(str(v)) for v in A[:, 0]], "bmi": [Decimal(str(v)) for v in A[:, 1]]},
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
def test_every_make_of_table_gives_the_same_numbers(make: Any) -> None:
    features = Features.read(make)
    np.testing.assert_array_equal(features.matrix.astype(float), A)
    assert features.matrix.dtype.isnative
    assert not features.categories
    assert features.n_rows == 3


def test_names_are_kept_and_plain_arrays_get_some() -> None:
    for make in (FRAME, pl.DataFrame(A, schema=NAMES), pa.table({"age": A[:, 0], "bmi": A[:, 1]})):
        assert Features.read(make).names == ("age", "bmi")
    assert Features.read(A).names == ("x0", "x1")


def test_float32_embeddings_are_not_copied() -> None:
    embeddings = A.astype(np.float32)
    assert np.shares_memory(Features.read(embeddings).matrix, embeddings)


def test_a_vector_is_one_feature() -> None:
    assert Features.read(A[:, 0]).matrix.shape == (3, 1)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.int64])
def test_integers_and_booleans_are_numbers(dtype: Any) -> None:
    features = Features.read({"a": np.array([0, 1, 1], dtype)})
    np.testing.assert_array_equal(features.matrix[:, 0], [0, 1, 1])
    assert not features.categories


@pytest.mark.parametrize(
    "column",
    [
        ["f", None, "m"],
        np.array(["f", np.nan, "m"], object),
        pd.Series(["f", None, "m"]),
        pd.Series(["f", pd.NA, "m"], dtype="string"),
        pd.Series(["f", None, "m"]).astype("category"),
        pl.Series(["f", None, "m"]),
        pl.Series(["f", None, "m"]).cast(pl.Categorical),
        pa.array(["f", None, "m"]),
        pa.array(["f", None, "m"]).dictionary_encode(),
    ],
    ids=["list", "object", "str", "string", "category", "polars", "polars-cat", "arrow", "arrow-dict"],
)
def test_text_becomes_codes_whose_categories_are_kept(column: Any) -> None:
    features = Features.read({"sex": column})
    np.testing.assert_array_equal(features.matrix[:, 0], [0, np.nan, 1])
    assert features.categories == {0: ("f", "m")}


@pytest.mark.parametrize(
    "column",
    [
        [1, None, 3],
        np.array([1.0, np.nan, 3.0]),
        pd.array([1, None, 3], dtype="Int64"),
        pl.Series([1, None, 3]),
        pa.array([1, None, 3]),
        np.ma.masked_equal(np.array([1.0, 2.0, 3.0]), 2.0),
    ],
    ids=["list", "nan", "pandas", "polars", "arrow", "masked"],
)
def test_missing_numbers_are_nan(column: Any) -> None:
    features = Features.read({"a": column})
    np.testing.assert_array_equal(features.matrix[:, 0], [1, np.nan, 3])
    assert not features.categories


@pytest.mark.parametrize("tz", [None, "UTC", "Asia/Tokyo"])
def test_dates_are_numbers_in_their_order_with_or_without_a_time_zone(tz: str | None) -> None:
    dates = pd.date_range("2020-01-01", periods=4, tz=tz)
    features = Features.read(pd.DataFrame({"day": dates}))
    assert not features.categories
    assert (np.diff(features.matrix[:, 0]) > 0).all()


def test_missing_dates_are_nan() -> None:
    column = Features.read({"day": np.array(["2020-01-01", "NaT"], "M8[D]")}).matrix[:, 0]
    np.testing.assert_array_equal(np.isnan(column), [False, True])


def test_numbers_and_text_in_one_column_are_categories() -> None:
    assert Features.read({"a": np.array([1, "u", 1], object)}).categories == {0: ("1", "u")}


def test_a_table_without_columns_keeps_its_rows() -> None:
    for make in (np.empty((3, 0)), pd.DataFrame(index=range(3))):
        assert Features.read(make).matrix.shape == (3, 0)


def test_features_are_read_from_read_only_arrays() -> None:
    frozen = A.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(Features.read(frozen).take(np.array([2, 0])).matrix, A[[2, 0]])


REFUSED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "infinite": (np.where(A > 5, np.inf, A), ("finite", "inf", "'x1'", "row 1", "numpy.nan")),
    "infinite in a frame": (FRAME.replace(7.0, -np.inf), ("-inf", "'bmi'", "row 1")),
    "sparse and infinite": (
        scipy.sparse.csr_array(np.where(A == 7, np.inf, A)),
        ("finite", "inf", "'x1'", "row 1"),
    ),
    "sparse and complex": (scipy.sparse.csr_array(A + 1j), ("sparse X", "real", "complex128")),
    "three dimensions": (A[:, :, None], ("(3, 2, 1)", "Reshape")),
    "a name": ("file.csv", ("X",)),
    "repeated names": (pd.DataFrame(A, columns=["a", "a"]), ("distinct", "'a'", "Rename")),
    "names equal as text": (pd.DataFrame(A, columns=["1", 1]), ("distinct", "'1'", "Rename")),
    "unequal lengths": ({"a": [1, 2], "b": [1]}, ("equal lengths", "[1, 2]")),
    "a cube as a column": ({"a": A[:, :, None]}, ("'a'", "dimensions", "(3, 2, 1)")),
    "ragged": ([[1, 2], [3]], ("X",)),
    "complex": (A + 1j, ("X", "complex")),
    "complex column": ({"a": A[:, 0] + 1j}, ("'a'", "complex")),
    "lazy": (pl.DataFrame(A).lazy(), ("collect",)),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_features_are_refused_in_a_line_that_names_them(make: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(DataError) as caught:
        Features.read(make)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    for word in words:
        assert word in said


def test_every_sign_of_absence_is_missing_and_nothing_else() -> None:
    absent: list[Any] = [None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT")]
    present: list[Any] = [0, "", "nan", False, np.datetime64("2020"), Decimal(0)]
    assert all(is_missing(value) for value in absent)
    assert not any(is_missing(value) for value in present)


TRUTHS: dict[str, Any] = {
    "objects": np.array([True, None, False], object),
    "numpy objects": np.array([np.True_, np.nan, np.False_], object),
    "list": [True, None, False],
    "pandas": pd.Series([True, None, False], dtype="boolean"),
    "pandas objects": pd.Series([True, None, False], dtype=object),
    "pandas arrow": pd.Series([True, None, False], dtype="bool[pyarrow]"),
    "polars": pl.Series([True, None, False]),
    "arrow": pa.array([True, None, False]),
}


@pytest.mark.parametrize("column", TRUTHS.values(), ids=TRUTHS.keys())
def test_truth_values_some_of_which_are_missing_are_still_such(column: Any) -> None:
    features = Features.read({"has_car": column})
    np.testing.assert_array_equal(features.matrix[:, 0], [1, np.nan, 0])
    assert not features.categories
    steps = [Step(0, False, 0.5, left=True, missing_left=True)]
    assert str(describe(steps, features)) == "has_car is false or missing"


def test_truth_values_among_numbers_are_numbers() -> None:
    features = Features.read({"n": np.array([True, 2, None], object)})
    np.testing.assert_array_equal(features.matrix[:, 0], [1, 2, np.nan])
    assert not features.dtypes
