"""Several processes give the bits of one, also when one of them dies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, parquet

from epiloss.sources.files import open_files
from epiloss.streaming.engines import local
from streaming_rows import BY_SUBGROUP, audited


@pytest.mark.parametrize("options", [{}, BY_SUBGROUP, {"method": "crossfit"}], ids=str)
def test_the_number_of_processes_does_not_matter(
    options: dict[str, Any],
    folder: Path,
    expected: dict[str, Any],
    expected_by_subgroup: dict[str, Any],
) -> None:
    if options == {"method": "crossfit"}:
        one = audited(folder, engine="memory", **options)
        assert one["method"] == "crossfit"
    else:
        one = expected_by_subgroup if options else expected
    assert audited(folder, n_jobs=2, **options) == one


@pytest.mark.filterwarnings("ignore:A worker stopped")
def test_a_worker_that_dies_does_not_end_the_run(
    folder: Path, died: Path, expected: dict[str, Any]
) -> None:
    """A process kills itself when it first reads the scores of a file; the file is done again."""
    assert audited(folder, n_jobs=2) == expected
    assert died.exists()


def no_processes(*_: Any) -> Any:
    raise AssertionError("processes were started")


def test_little_data_and_a_single_part_are_read_in_this_process(
    whole: Any, folder: Path, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_parallel", no_processes)
    parquet.write_table(whole, tmp_path / "all.parquet")
    assert audited(tmp_path, n_jobs=2) == expected
    with pytest.raises(AssertionError, match="processes were started"):
        audited(folder, n_jobs=2)
    most = max(bytes_read(folder, columns) for columns in columns_of_passes(folder, monkeypatch))
    monkeypatch.setattr(local, "LEAST_BYTES", most)
    with pytest.raises(AssertionError, match="processes were started"):
        audited(folder, n_jobs=2)
    monkeypatch.setattr(local, "LEAST_BYTES", most + 1)
    assert audited(folder, n_jobs=2) == expected


def bytes_read(folder: Path, columns: Sequence[str]) -> int:
    return sum(part.bytes_of(columns) or 0 for part in open_files(folder).parts)


def columns_of_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    found = []

    def noted(_: Any, columns: Sequence[str]) -> bool:
        found.append(columns)
        return True

    with monkeypatch.context() as patch:
        patch.setattr(local, "_needs_one_process", noted)
        audited(folder, n_jobs=2)
    return found


def test_a_pass_that_reads_few_columns_of_parquet_files_starts_no_processes(
    folder: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The census reads labels alone: processes start with the first pass that has much to read."""
    started = []
    parallel = local._parallel

    def noted(n_jobs: int, work: Any, tasks: Any) -> Any:
        started.append(work.name)
        return parallel(n_jobs, work, tasks)

    monkeypatch.setattr(local, "_parallel", noted)
    labels = min(bytes_read(folder, columns) for columns in columns_of_passes(folder, monkeypatch))
    monkeypatch.setattr(local, "LEAST_BYTES", labels + 1)
    assert audited(folder, n_jobs=2) == expected
    assert started == ["survey", "tally"]


def test_of_a_text_all_bytes_are_read_whatever_the_columns(whole: Any, tmp_path: Path) -> None:
    csv.write_csv(whole.select(["label", "score"]), tmp_path / "a.csv")
    (part,) = open_files(tmp_path / "a.csv").parts
    assert part.bytes_of(["label"]) == part.n_bytes == (tmp_path / "a.csv").stat().st_size
