"""The rows, files and results that tests of passes share, and processes for however little data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epiloss.sources.base import Source
from epiloss.sources.tables import open_source
from epiloss.streaming import run
from epiloss.streaming.engines import local
from streaming_rows import BY_SUBGROUP, DeadlyPart, audited, table, write_folder


@pytest.fixture(scope="session")
def whole() -> Any:
    return table()


@pytest.fixture(scope="session")
def folder(whole: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(whole, tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="session")
def expected(folder: Path) -> dict[str, Any]:
    return audited(folder)


@pytest.fixture(scope="session")
def expected_by_subgroup(folder: Path) -> dict[str, Any]:
    return audited(folder, **BY_SUBGROUP)


@pytest.fixture(autouse=True)
def _processes_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several jobs be several processes, which so few rows would not be worth."""
    monkeypatch.setattr(local, "LEAST_BYTES", 0)


@pytest.fixture
def died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the process that first reads the scores of a file kill itself; return a file that tells so."""
    mark = tmp_path / "died"

    def deadly(source: Any) -> Source:
        found = open_source(source)
        parts = [
            DeadlyPart(**vars(part), mark=str(mark)) if part.name.endswith("part2.parquet") else part
            for part in found.parts
        ]
        return Source(found.schema, parts, found.widths)

    monkeypatch.setattr(run, "open_source", deadly)
    return mark
