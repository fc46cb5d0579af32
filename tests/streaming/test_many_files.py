"""Audits of many small files: the bits of one file, and errors that name the file and its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import epiloss
from epiloss.sources.bundles import Bundle
from epiloss.streaming.engines import local
from epiloss.streaming.engines.base import run_task
from streaming_rows import N, audited

PER_FILE = 200


@pytest.fixture(scope="module")
def many(whole: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of 150 Parquet files."""
    path = tmp_path_factory.mktemp("many")
    for start in range(0, N, PER_FILE):
        parquet.write_table(whole.slice(start, PER_FILE), path / f"{start:06}.parquet")
    return path


def test_many_small_files_give_the_bits_of_few_in_fewer_tasks(
    many: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, Any]] = []

    def noted(work: Any, part: Any, offset: int) -> Any:
        seen.append((work.name, part))
        return run_task(work, part, offset)

    monkeypatch.setattr(local, "run_task", noted)
    assert audited(many) == expected
    for name in ("census", "survey", "tally"):
        parts = [part for one, part in seen if one == name]
        assert len(parts) == N // PER_FILE // 2
        assert all(isinstance(part, Bundle) and len(part.files) == 2 for part in parts)


def test_processes_read_bundles_too(many: Path, expected: dict[str, Any]) -> None:
    assert audited(many, n_jobs=2) == expected


def test_small_texts_give_the_same_bits(whole: Any, tmp_path: Path, expected: dict[str, Any]) -> None:
    # a text has as many digits as a number's own precision needs
    rows = whole.set_column(1, "b", whole["b"].cast(pa.float64()))
    for start in range(0, N, PER_FILE):
        csv.write_csv(rows.slice(start, PER_FILE), tmp_path / f"{start:06}.csv")
    assert audited(tmp_path) == expected


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_wrong_rows_of_bundled_files_are_named_and_counted(
    n_jobs: int, many: Path, whole: Any, tmp_path: Path
) -> None:
    for path in many.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for start, rows in ((1_200, (17, 30)), (1_400, (3,)), (20_000, (5,))):
        part = whole.slice(start, PER_FILE)
        scores = part["score"].to_numpy().copy()
        scores[list(rows)] = 3.5
        place = part.column_names.index("score")
        wrong = part.set_column(place, "score", pa.array(scores))
        parquet.write_table(wrong, tmp_path / f"{start:06}.parquet")
    with pytest.raises(epiloss.DataError) as caught:
        audited(tmp_path, n_jobs=n_jobs)
    assert "scores must lie in [0, 1]" in str(caught.value)
    assert "got 3.5 in column 'score'" in str(caught.value)
    assert f"at row 17 of {tmp_path / '001200.parquet'} (4 rows in all)" in str(caught.value)


def test_a_broken_file_of_a_bundle_is_named(many: Path, tmp_path: Path) -> None:
    for path in many.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "004000.parquet"
    broken = bytearray(path.read_bytes())  # the end, which is read first, stays
    broken[100 : len(broken) // 2] = bytes(len(broken) // 2 - 100)
    path.write_bytes(broken)
    with pytest.raises(epiloss.DataError, match=r"004000\.parquet cannot be read"):
        audited(tmp_path)
