"""An audit finishes in the memory that benchmarks/memory.py states, as a multiple of its input."""

from __future__ import annotations

from pathlib import Path

import pytest

import memory


def assert_it_fits(place: int, path: Path) -> None:
    """Check that a quick job finishes in the memory that is stated, and not in a tenth of it."""
    job = memory.QUICK[place]
    assert job.target is not None
    assert memory.finishes("quick", place, job.target, path), job
    assert not memory.finishes("quick", place, job.target / 10, path), job


def test_an_audit_of_arrays_finishes_in_the_stated_memory_and_not_in_a_tenth_of_it(
    tmp_path: Path,
) -> None:
    assert memory.QUICK[0].who == memory.PARTITION
    assert_it_fits(0, tmp_path / "none")


@pytest.mark.slow
def test_an_audit_of_a_file_finishes_in_the_stated_memory_and_not_in_a_tenth_of_it(
    tmp_path: Path,
) -> None:
    assert memory.QUICK[1].who == memory.FILE
    memory.write_rows(memory.QUICK[1], tmp_path / "rows.parquet")
    assert_it_fits(1, tmp_path / "rows.parquet")
