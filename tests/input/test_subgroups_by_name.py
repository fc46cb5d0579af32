"""Subgroups named as columns of the features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import epiloss
from epiloss.errors import DataError

g = np.random.default_rng(0)
N = 600
SCORES = g.uniform(0.2, 0.8, N)
LABELS = (g.random(N) < SCORES).astype(int)
COLUMNS = {"sex": np.where(g.random(N) < 0.5, "f", "m"), "age": g.integers(20, 80, N).astype(float)}


@pytest.fixture(scope="module")
def by_values() -> epiloss.Audit:
    return epiloss.audit(LABELS, SCORES, COLUMNS, subgroups={"sex": COLUMNS["sex"]})


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame], ids=["dict", "pandas", "polars"])
@pytest.mark.parametrize("names", ["sex", ["sex"], ("sex",)])
def test_a_name_stands_for_the_column_of_the_features(
    make: Any, names: Any, by_values: epiloss.Audit
) -> None:
    by_name = epiloss.audit(LABELS, SCORES, make(COLUMNS), subgroups=names)
    assert by_name.to_dict() == by_values.to_dict()


def test_rows_as_records_have_named_columns_too() -> None:
    records = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    assert list(epiloss.audit(LABELS, SCORES, records, subgroups="sex").subgroups) == ["sex"]


def test_columns_named_by_numbers_are_found_by_their_digits() -> None:
    frame = pd.DataFrame({0: COLUMNS["sex"], 1: COLUMNS["age"]})
    assert list(epiloss.audit(LABELS, SCORES, frame, subgroups="0").subgroups) == ["0"]


def test_several_names_are_audited_one_by_one() -> None:
    frame = pd.DataFrame({**COLUMNS, "old": COLUMNS["age"] > 60})
    assert list(epiloss.audit(LABELS, SCORES, frame, subgroups=["sex", "old"]).subgroups) == [
        "sex",
        "old",
    ]


def test_one_string_per_row_is_a_value_even_if_there_are_columns() -> None:
    result = epiloss.audit(LABELS, SCORES, COLUMNS, subgroups=COLUMNS["sex"].tolist())
    assert list(result.subgroups) == ["subgroup"]


@pytest.mark.parametrize(
    ("X", "names", "message"),
    [
        (COLUMNS, ["Sex"], "got 'Sex'; X: did you mean 'sex'"),
        (COLUMNS, "ward", "got 'ward'; X: it has sex, age"),
        (np.zeros((N, 2)), "sex", "one value per row if X has no named columns, got 'sex'"),
        (None, "sex", "one value per row if X has no named columns, got 'sex'"),
    ],
)
def test_a_name_that_is_no_column_is_refused(X: Any, names: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        epiloss.audit(LABELS, SCORES, X, subgroups=names)
