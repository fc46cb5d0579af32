"""Under gcc's sanitizers the compiled loops do nothing wrong, and wrong ones are found out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "epiloss" / "_kernels"


def fuzzed(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "fuzz_kernel.py"), *options]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode == 2 and "PATH" not in environment:
        pytest.skip(done.stderr.strip())
    return done


@pytest.mark.parametrize("seconds", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_random_problems_neither_leave_memory_nor_differ_from_numpy(seconds: int) -> None:
    done = fuzzed("--seconds", str(seconds))
    assert done.returncode == 0, done.stderr
    told = re.fullmatch(r"([\d,]+) problems with ([\d,]+) splits, nothing found\n", done.stdout)
    assert told is not None
    n_problems, n_splits = (int(one.replace(",", "")) for one in told.groups())
    assert n_splits > n_problems  # they are not trivial


@pytest.mark.parametrize(
    ("name", "right", "wrong", "report"),
    [
        ("_kernel.c", "e < EDGES; e += 4", "e <= EDGES; e += 4", "AddressSanitizer"),  # reads too far
        ("_trees.c", "(left.count < least", "(left.count <= least", "disagree"),  # another result
        pytest.param(  # a row is lost
            "_trees.c", "rows[left] = rows[i]", "rows[left + 1] = rows[i]", "", marks=pytest.mark.slow
        ),
        pytest.param(  # rows are counted twice
            "_trees.c", "others[code] -= own", "others[code] += own", "", marks=pytest.mark.slow
        ),
    ],
    ids=["reads too far", "another result", "a row is lost", "rows count twice"],
)
def test_what_is_wrong_is_found_out(
    name: str, right: str, wrong: str, report: str, tmp_path: Path
) -> None:
    for file in (*SOURCES.glob("*.c"), *SOURCES.glob("*.h")):
        shutil.copy(file, tmp_path)
    text = (tmp_path / name).read_text()
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))
    done = fuzzed("--seconds", "30", "--sources", str(tmp_path))  # it stops at what it finds
    assert done.returncode == 1
    assert report in done.stderr
    # a finding, and not a script that failed for another reason
    assert re.search("AddressSanitizer|runtime error|disagree on problem", done.stderr), done.stderr


def test_without_gcc_a_sentence_says_so() -> None:
    done = fuzzed(PATH="")
    assert done.returncode == 2
    assert "needs gcc" in done.stderr
