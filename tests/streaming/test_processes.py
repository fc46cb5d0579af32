"""Several processes give the bits of one, also when one of them dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

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
    n_bytes = sum(path.stat().st_size for path in folder.iterdir())
    monkeypatch.setattr(local, "LEAST_BYTES", n_bytes)
    with pytest.raises(AssertionError, match="processes were started"):
        audited(folder, n_jobs=2)
    monkeypatch.setattr(local, "LEAST_BYTES", n_bytes + 1)
    assert audited(folder, n_jobs=2) == expected
