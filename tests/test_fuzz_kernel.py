"""Under gcc's sanitizers the compiled loops do nothing wrong, and wrong ones are found out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "epiloss" / "partition" / "_kernel.c"


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
    ("right", "wrong", "report"),
    [
        ("e < EDGES", "e <= EDGES", "AddressSanitizer"),  # reads behind the edges
        ("rows[left] = rows[i]", "rows[left + 1] = rows[i]", ""),  # a row is lost
        ("(left.count < least", "(left.count <= least", "disagree"),  # only the result is wrong
    ],
)
def test_one_too_many_is_found_out(right: str, wrong: str, report: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert text.count(right) == 1
    broken = tmp_path / "broken.c"
    broken.write_text(text.replace(right, wrong))
    done = fuzzed("--seconds", "5", "--source", str(broken))
    assert done.returncode == 1
    assert report in done.stderr


def test_without_gcc_a_sentence_says_so() -> None:
    done = fuzzed(PATH="")
    assert done.returncode == 2
    assert "needs gcc" in done.stderr
