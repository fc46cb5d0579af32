"""The index of a pandas data frame is no feature, in memory, in a file or in an Arrow table."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import epiloss
from epiloss.auditing.result import Audit
from epiloss.input.features import Features
from epiloss.input.pandas_metadata import index_columns

N = 600
REMARK = "is the index of a pandas data frame and is not used as a feature."


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    g = np.random.default_rng(0)
    p = g.uniform(0.1, 0.9, N)
    y = (g.random(N) < p).astype(int)
    table = pd.DataFrame({"x": g.random(N), "y": y, "p": p})
    return table.sample(frac=1, random_state=1)


def audited(source: Any, **columns: Any) -> Audit:
    return epiloss.audit_table(source, label="y", score="p", method="partition", **columns)


def features_of(result: Audit) -> tuple[str, ...]:
    assert result.details is not None
    assert result.details.problem.features is not None
    return result.details.problem.features.names


def parquet_file(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "a.parquet")
    return str(folder / "a.parquet")


def arrow_file(table: pa.Table, folder: Path) -> Any:
    feather.write_feather(table, str(folder / "a.arrow"))
    return str(folder / "a.arrow")


def several(table: pa.Table, folder: Path) -> Any:
    for number in (0, 1):
        pq.write_table(table.slice(number * N // 2, N // 2), folder / f"{number}.parquet")
    return str(folder)


def data_set(table: pa.Table, folder: Path) -> Any:
    return ds.dataset(parquet_file(table, folder))


DOORS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "parquet": parquet_file,
    "arrow": arrow_file,
    "several": several,
    "data set": data_set,
    "table": lambda table, _: table,
    "batch": lambda table, _: table.to_batches()[0],
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
@pytest.mark.parametrize("name", [None, "patient"])
def test_an_index_is_no_feature_unless_it_is_asked_for(
    door: Callable[[pa.Table, Path], Any], name: str | None, frame: pd.DataFrame, tmp_path: Path
) -> None:
    table = pa.Table.from_pandas(frame.rename_axis(name))
    column = name or "__index_level_0__"
    X = door(table, tmp_path)
    result = audited(X)
    assert features_of(result) == ("x",)
    assert f"{column!r} {REMARK}" in result.remarks
    asked = audited(X, features=["x", column])
    assert features_of(asked) == ("x", column)
    assert not any(REMARK in one for one in asked.remarks)
    told_apart = audited(X, row_id=column)
    assert features_of(told_apart) == ("x",)
    assert not any(REMARK in one for one in told_apart.remarks)


def test_a_label_or_score_in_the_index_is_found(frame: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(frame.set_index(["y", "p"]))
    result = audited(table)
    assert features_of(result) == ("x",)
    assert not any(REMARK in one for one in result.remarks)


def test_the_standard_input_is_read_as_a_file(
    frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame), content)
    content.seek(0)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))
    result = audited("-")
    assert features_of(result) == ("x",)
    assert f"'__index_level_0__' {REMARK}" in result.remarks


def test_reports_show_a_nameless_index_as_such(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "data.parquet")
    report = tmp_path / "report.html"
    audited(tmp_path / "data.parquet").to_html(report)
    page = report.read_text(encoding="utf-8")
    assert '"index"' in page
    assert "__index_level_0__" not in page


def test_tables_in_memory_are_without_their_index_as_pandas_frames_are(frame: pd.DataFrame) -> None:
    X = frame[["x"]].rename_axis("patient")
    table = pa.Table.from_pandas(X)
    assert table.column_names == ["x", "patient"]
    assert Features.read(table).names == Features.read(X).names == ("x",)
    result = epiloss.audit(frame.y, frame.p, table, method="partition")
    assert features_of(result) == ("x",)
    assert f"'patient' {REMARK}" in result.remarks
    repair = epiloss.RegionRecalibrator().fit(frame.y, frame.p, X)
    better = repair.predict(frame.p, table)
    np.testing.assert_array_equal(better, repair.predict(frame.p, X))


def test_an_index_without_a_name_is_known_by_the_one_that_pandas_gave_it(frame: pd.DataFrame) -> None:
    stored: Any = pl.from_arrow(pa.Table.from_pandas(frame))
    assert "__index_level_0__" in stored.columns
    assert features_of(audited(stored)) == ("x",)
    assert Features.read(stored.select("x", "__index_level_0__")).names == ("x",)


def test_an_index_that_only_counts_and_plain_columns_are_as_they_were(frame: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(frame.reset_index(drop=True).assign(index=frame.x.to_numpy() ** 2))
    result = audited(table)
    assert features_of(result) == ("x", "index")
    assert not any(REMARK in one for one in result.remarks)


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"3",
        b'{"index_columns": 3}',
        b'{"index_columns": [[1]]}',
        b"[" * 10**5,
    ],
    ids=["empty", "cut", "bytes", "list", "number", "no list", "no names", "deep"],
)
def test_a_note_that_is_not_pandas_own_names_no_index(note: bytes) -> None:
    assert index_columns(["x", "y"], {b"pandas": note}) == []
