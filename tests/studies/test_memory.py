"""An audit finishes in the memory that benchmarks/memory.py states, as a multiple of its input."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "memory.py"


@pytest.fixture(scope="module")
def memory() -> ModuleType:
    spec = importlib.util.spec_from_file_location("memory", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["memory"] = module
    spec.loader.exec_module(module)
    return module


def test_an_audit_finishes_in_the_stated_memory_and_not_in_a_tenth_of_it(
    memory: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    for place, job in enumerate(memory.QUICK):
        if job.who == memory.FILE:
            memory.write_rows(job, path)
        assert memory.finishes("quick", place, job.target, path), job
        assert not memory.finishes("quick", place, job.target / 10, path), job
