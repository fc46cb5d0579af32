"""A column that is declared to be categories is one, whatever its values: in memory and in files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import epiloss
from epiloss.input.features import Features
from epiloss.repair.apply_table import repair_table

CODES = [6, None, 10, 6]
DECLARED: dict[str, Any] = {
    "pandas": pd.Series(CODES, dtype="Int64").astype("category"),
    "pandas floats": pd.Series(CODES).astype("category"),
    "pandas texts": pd.Series(["6", None, "10", "6"]).astype("category"),
    "pandas unused": pd.Series(pd.Categorical(CODES, categories=[6, 7, 10])),
    "pandas alone": pd.Categorical(CODES, categories=[10, 7, 6], ordered=True),
    "arrow": pa.array(CODES).dictionary_encode(),
    "arrow chunks": pa.chunked_array([CODES[:2], CODES[2:]]).dictionary_encode(),
    "arrow missing": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array([6, None, 10])),
}


@pytest.mark.parametrize("column", DECLARED.values(), ids=DECLARED.keys())
def test_declared_categories_have_names_and_no_order(column: Any) -> None:
    features = Features.read({"code": column})
    assert features.categories == {0: ("10", "6")}
    np.testing.assert_array_equal(features.matrix[:, 0], [1, np.nan, 0, 1])


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "int64[pyarrow]"])
def test_plain_numbers_stay_numbers(dtype: str) -> None:
    frame = pd.DataFrame({"code": pd.Series([6, 10, 6], dtype=dtype)})
    for table in (frame, pa.Table.from_pandas(frame)):
        assert not Features.read(table).categories


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    g = np.random.default_rng(0)
    n = 2_000
    p, code = g.uniform(0.2, 0.8, n), g.integers(0, 12, n)
    y = (g.random(n) < p + np.where(code == 6, 0.2, -0.05)).astype(int)
    table = pd.DataFrame({"x": g.random(n), "y": y, "p": p, "code": pd.Series(code).astype("category")})
    table.loc[::50, "code"] = None
    return table


def codes_of(result: epiloss.Audit) -> dict[float, str]:
    """Return the name of the code by the number x, which tells rows apart."""
    assert result.details is not None
    features = result.details.problem.features
    assert features is not None
    x, code = (features.column(features.names.index(name)) for name in ("x", "code"))
    names = features.categories[features.names.index("code")]
    return {float(a): "" if np.isnan(b) else names[int(b)] for a, b in sorted(zip(x, code, strict=True))}


@pytest.mark.parametrize("door", ["frame", "table", "parquet", "arrow", "-"])
def test_files_and_tables_agree_with_memory(
    door: str, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.Table.from_pandas(frame)
    pq.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, str(tmp_path / "a.arrow"))
    given = io.TextIOWrapper(io.BytesIO((tmp_path / "a.parquet").read_bytes()))
    monkeypatch.setattr("sys.stdin", given)
    named: Any = {"frame": frame, "table": table, "-": "-"}.get(door, str(tmp_path / f"a.{door}"))
    options: dict[str, Any] = {"method": "partition"}
    streamed = epiloss.audit_table(named, label="y", score="p", **options)
    memory = epiloss.audit(frame.y, frame.p, frame[["x", "code"]], **options)
    assert codes_of(streamed) == codes_of(memory)
    rules = " ".join(streamed.worst_regions(n=100)["rule"])
    assert "code is" in rules
    assert "code <=" not in rules


def test_a_repair_of_codes_applies_at_every_door(frame: pd.DataFrame, tmp_path: Path) -> None:
    X = frame[["x", "code"]]
    repair = epiloss.RegionRecalibrator().fit(frame.y, frame.p, X)
    expected = repair.predict(frame.p, X)
    frame.to_parquet(tmp_path / "a.parquet")
    stored = pq.read_table(tmp_path / "a.parquet")
    assert stored.schema.field("code").type in (pa.int64(), pa.float64())  # what Parquet makes of them
    np.testing.assert_array_equal(repair.predict(frame.p, stored.select(["x", "code"])), expected)
    repair_table(repair, str(tmp_path / "a.parquet"), ["p"], tmp_path / "b.parquet")
    written = pq.read_table(tmp_path / "b.parquet").column("p_repaired").to_numpy()
    np.testing.assert_array_equal(written, expected)


def test_labels_that_are_declared_categories_stay_numbers(frame: pd.DataFrame) -> None:
    plain = epiloss.audit_table(frame, label="y", score="p")
    declared = epiloss.audit_table(frame.astype({"y": "category"}), label="y", score="p")
    assert declared.score == plain.score


def test_tables_in_memory_tell_their_categories(frame: pd.DataFrame) -> None:
    X = frame[["x", "code"]]
    expected, table = Features.read(X), pa.Table.from_pandas(X)
    for make in (table, table.to_batches()[0]):
        features = Features.read(make)
        assert features.categories == expected.categories
        np.testing.assert_array_equal(features.matrix, expected.matrix)


def test_a_note_does_not_make_categories_of_lists() -> None:
    note = '{"columns": [{"field_name": "e", "pandas_type": "categorical"}, 3, {"field_name": []}]}'
    e = pa.array([[1.0, 2.0], [3.0, 4.0]] * 50, pa.list_(pa.float64(), 2))
    table = pa.table({"e": e, "y": [0, 1] * 50, "p": [0.2, 0.7] * 50})
    result = epiloss.audit_table(table.replace_schema_metadata({"pandas": note}), label="y", score="p")
    assert result.details is not None
    assert result.details.problem.features is not None
    assert result.details.problem.features.names == ("x0", "x1")
