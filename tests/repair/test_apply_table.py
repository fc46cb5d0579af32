"""Saved repairs and tables: batch by batch, in the order of the rows, with nothing made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import epiloss
from epiloss.repair.apply_table import repair_table
from epiloss.sources import base
from epiloss.sources.whole_files import read_file
from streaming_rows import ENDS, N, table, write_folder


@pytest.fixture(scope="module")
def whole() -> Any:
    return table()


@pytest.fixture(scope="module")
def folder(whole: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(whole, tmp_path_factory.mktemp("logs"))


NAMES = ["a", "b", "city"]


def features(rows: Any) -> dict[str, Any]:
    return {name: rows[name].to_numpy(zero_copy_only=False) for name in NAMES}


@pytest.fixture(scope="module")
def repair(whole: Any) -> epiloss.RegionRecalibrator:
    some = whole.slice(0, 3_000)
    rows = (some["label"].to_numpy(), some["score"].to_numpy(), features(some))
    return epiloss.RegionRecalibrator().fit(*rows)


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_a_repair_is_applied_to_a_folder_batch_by_batch_in_the_order_of_its_rows(
    ending: str,
    repair: epiloss.RegionRecalibrator,
    folder: Path,
    whole: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "_BATCH_ROWS", 1_500)
    output = tmp_path / f"better.{ending}"
    assert repair_table(repair, folder, ["score"], output) == N
    written = read_file(str(output))
    better = repair.predict(whole["score"].to_numpy(), features(whole))
    assert np.abs(better - whole["score"].to_numpy()).max() > 0.1  # the repair does something
    np.testing.assert_allclose(written["score_repaired"], better, rtol=1e-12)
    names = [Path(str(name)).name for name in written["file"]]
    assert names == [f"part{k}.parquet" for k in range(4) for _ in range(ENDS[k], ENDS[k + 1])]
    starts = np.repeat(ENDS[:4], np.diff(ENDS))
    np.testing.assert_array_equal(written["row"], np.arange(N) - starts)


def test_a_repair_leaves_rows_without_a_score_without_one_and_names_a_wrong_one(
    repair: epiloss.RegionRecalibrator, whole: Any, tmp_path: Path
) -> None:
    some = whole.slice(0, 2_000).select([*NAMES, "score", "label"])
    scores = some["score"].to_numpy().copy()

    def write(ending: str) -> Path:
        path = tmp_path / f"better.{ending}"
        repair_table(repair, some.set_column(3, "score", pa.array(scores)), ["score"], path)
        return path

    scores[7] = np.nan
    better = parquet.read_table(write("parquet"))["score_repaired"].to_pylist()
    assert [row for row, one in enumerate(better) if one is None] == [7]
    scores[9] = 73.0
    with pytest.raises(epiloss.DataError, match=r"got 73\.0 in column 'score' at row 9 of the table"):
        write("csv")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_days_are_written_as_days(
    ending: str, repair: epiloss.RegionRecalibrator, whole: Any, tmp_path: Path
) -> None:
    some = whole.slice(0, 300).select([*NAMES, "score", "label"])
    days = np.datetime64("2024-01-01") + np.arange(300)
    csv.write_csv(some.append_column("day", pa.array(days)), tmp_path / "given.csv")
    path = tmp_path / f"better.{ending}"
    repair_table(repair, tmp_path / "given.csv", ["score"], path)
    written = parquet.read_table(path) if ending == "parquet" else csv.read_csv(path)
    assert written.schema.field("day").type == pa.date32()
    assert written["day"].to_pylist() == days.tolist()


def test_rows_of_categories_that_the_repair_has_not_seen_are_repaired_as_in_memory(
    repair: epiloss.RegionRecalibrator, whole: Any, tmp_path: Path
) -> None:
    some = whole.slice(0, 500).select([*NAMES, "score", "label"])
    cities = some["city"].to_pylist()
    cities[:200] = [f"new {row}" for row in range(200)]
    some = some.set_column(some.schema.get_field_index("city"), "city", pa.array(cities))
    path = tmp_path / "better.parquet"
    assert repair_table(repair, some, ["score"], path) == 500
    better = repair.predict(some["score"].to_numpy(), features(some))
    np.testing.assert_allclose(parquet.read_table(path)["score_repaired"], better, rtol=1e-12)


def test_a_table_without_a_column_that_the_repair_learned_from_is_refused(
    repair: epiloss.RegionRecalibrator, whole: Any, tmp_path: Path
) -> None:
    words = "the table has no column 'city', which this repair needs"
    with pytest.raises(epiloss.DataError, match=words):
        repair_table(repair, whole.drop_columns(["city"]), ["score"], tmp_path / "better.csv")
    assert not list(tmp_path.iterdir())
