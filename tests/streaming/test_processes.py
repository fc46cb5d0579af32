"""Several processes give the bits of one, also when one of them dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epiloss.sources.base import Source
from epiloss.sources.tables import open_source
from epiloss.streaming import run
from streaming_rows import BY_SUBGROUP, DeadlyPart, audited, table, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(table(), tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    return audited(folder)


@pytest.fixture(scope="module")
def expected_by_subgroup(folder: Path) -> dict[str, Any]:
    return audited(folder, **BY_SUBGROUP)


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
    folder: Path, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process kills itself when it first reads the scores of a file; the file is done again."""
    mark = tmp_path / "died"

    def deadly(source: Any) -> Source:
        found = open_source(source)
        parts = [
            DeadlyPart(**vars(part), mark=str(mark)) if part.name.endswith("part2.parquet") else part
            for part in found.parts
        ]
        return Source(found.schema, parts, found.widths)

    monkeypatch.setattr(run, "open_source", deadly)
    assert audited(folder, n_jobs=2) == expected
    assert mark.exists()
