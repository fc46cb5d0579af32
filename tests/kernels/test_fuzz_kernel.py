"""Under gcc's sanitizers the compiled loops do nothing wrong, and wrong ones are found out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "epiloss" / "partition"


def fuzzed(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "fuzz_kernel.py"), *options]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode == 2 and "PATH" not in environment:
        pytest.skip(done.stderr.strip())
    return done


def test_random_problems_neither_leave_memory_nor_differ_from_numpy() -> None:
    done = fuzzed("--seconds", "5")
    assert done.returncode == 0, done.stderr
    assert "nothing found" in done.stdout


@pytest.mark.parametrize(
    ("name", "right", "wrong", "report"),
    [
        ("_kernel.c", "e < EDGES; e += 4", "e <= EDGES; e += 4", "AddressSanitizer"),  # reads too far
        ("_trees.c", "rows[left] = rows[i]", "rows[left + 1] = rows[i]", ""),  # a row is lost
        ("_trees.c", "others[code] -= own", "others[code] += own", ""),  # rows are counted twice
        ("_trees.c", "(left.count < least", "(left.count <= least", "disagree"),  # another result
    ],
)
def test_what_is_wrong_is_found_out(
    name: str, right: str, wrong: str, report: str, tmp_path: Path
) -> None:
    for file in (*SOURCES.glob("*.c"), *SOURCES.glob("*.h")):
        shutil.copy(file, tmp_path)
    text = (tmp_path / name).read_text()
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))
    done = fuzzed("--seconds", "5", "--sources", str(tmp_path))
    assert done.returncode == 1
    assert report in done.stderr


def test_without_gcc_a_sentence_says_so() -> None:
    done = fuzzed(PATH="")
    assert done.returncode == 2
    assert "needs gcc" in done.stderr
