"""Damaged files end in a result or in one sentence, and a door that does otherwise is found out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
DOORS = 14


def fuzzed(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "fuzz_files.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def endings(said: str) -> Counter[str]:
    """Return how often cases ended in what way, over all doors."""
    return Counter(
        {way: sum(map(int, re.findall(rf"(\d+) {way}", said))) for way in ("result", "refused")}
    )


def check_found_nothing(done: subprocess.CompletedProcess[str], least: int) -> None:
    """Check that many cases ran at every door, with some results: to refuse everything is no answer."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout
    ended = endings(done.stdout)
    assert ended.total() >= least
    assert ended["result"] > 0.05 * ended.total()
    assert ended["refused"] > 0.2 * ended.total()
    assert len(done.stdout.splitlines()) == 1 + DOORS


def test_damaged_files_end_in_a_result_or_in_one_sentence(tmp_path: Path) -> None:
    """Eight cases for each door; all undamaged files are accepted, or the script would not start."""
    cases = 8 * DOORS
    done = fuzzed("--seconds", "100", "--cases", str(cases), "--keep", str(tmp_path / "found"))
    check_found_nothing(done, cases)
    assert not (tmp_path / "found").exists()


@pytest.mark.slow
def test_more_damaged_files_end_in_a_result_or_in_one_sentence(tmp_path: Path) -> None:
    options = ("--seconds", "300", "--cases", "400", "--seed", "1000")
    done = fuzzed(*options, "--keep", str(tmp_path / "found"))
    check_found_nothing(done, 400)
    assert not (tmp_path / "found").exists()


@pytest.mark.slow
def test_a_case_can_be_replayed_alone() -> None:
    first, second = fuzzed("--replay", "3"), fuzzed("--replay", "3")
    assert first.returncode == 0, first.stderr
    assert first.stderr == second.stderr
    assert first.stdout.partition(":")[0] == second.stdout.partition(":")[0]


WRONG = {
    "raise KeyError('x')": "KeyError",
    "import os; os.abort()": "the process died",
    "bytearray(2**31)": "MemoryError",
    "import warnings; warnings.warn('odd')": "a warning: odd",
    "import sys; print('loud', flush=True)": "it printed: loud",
    "open('/tmp/epiloss-fuzz-elsewhere', 'w').close()": "it did:",
    "open(path.parent / 'left', 'w').close()": "it left files",
    "raise epiloss.DataError('two\\nlines')": "not one printable line",
    "import time; time.sleep(60)": "no end after",
}


def test_what_is_wrong_is_found_out(tmp_path: Path) -> None:
    """Doors that do wrong with a damaged file, one after the other, in the place of the real ones."""
    doors = "\n".join(
        f"def door{place}(path):\n    if path.read_bytes() != WHOLE:\n        {body}"
        for place, body in enumerate(WRONG)
    )
    script = f"""
import sys
import epiloss, fuzz_files
fuzz_files.SECONDS = 2.0
WHOLE = b"what is not damaged"
{doors}
ways = (fuzz_files.damage.flipped,)
fuzz_files.READERS = tuple(
    fuzz_files.Reader(f"door {{k}}", lambda: {{"whole": WHOLE}}, ways, globals()[f"door{{k}}"])
    for k in range({len(WRONG)})
)
sys.exit(fuzz_files.fuzz(60, 0, fuzz_files.Path({str(tmp_path / "found")!r}), most={len(WRONG)}))
"""
    done = scripted(script)
    Path("/tmp/epiloss-fuzz-elsewhere").unlink(missing_ok=True)
    assert done.returncode == 1
    assert f" {len(WRONG)} findings" in done.stdout, done.stdout + done.stderr
    for place, words in enumerate(WRONG.values()):
        assert words in (tmp_path / "found" / str(place) / "finding.txt").read_text()


def test_a_door_that_refuses_what_is_whole_is_found_out() -> None:
    done = scripted("""
import sys
import epiloss, fuzz_files, fuzz_readers
def shut(path):
    raise epiloss.DataError("closed")
door = fuzz_files.Reader("shut", fuzz_readers.archives, (fuzz_files.damage.flipped,), shut)
fuzz_files.READERS = (door,)
sys.exit(fuzz_files.fuzz(60, 0, fuzz_files.Path("found"), most=1))
""")
    assert done.returncode == 1
    assert "the undamaged files cannot be made, or are refused" in done.stderr


def scripted(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
    )
