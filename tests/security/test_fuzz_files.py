"""Damaged files end in a result or in one sentence, and a door that does otherwise is found out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"


def fuzzed(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "fuzz_files.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_damaged_files_end_in_a_result_or_in_one_sentence(tmp_path: Path) -> None:
    done = fuzzed("--seconds", "25", "--keep", str(tmp_path / "found"))
    assert done.returncode == 0, done.stderr
    assert " 0 findings" in done.stdout
    assert not (tmp_path / "found").exists()


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
    """Doors that do wrong, one after the other, in the place of the real ones."""
    doors = "\n".join(f"def door{place}(path):\n    {body}" for place, body in enumerate(WRONG))
    script = f"""
import sys
import epiloss, fuzz_files
fuzz_files.SECONDS = 3.0
{doors}
ways = (fuzz_files.damage.flipped,)
fuzz_files.DOORS = tuple(
    fuzz_files.Door(f"door {{k}}", fuzz_files.archives, ways, globals()[f"door{{k}}"])
    for k in range({len(WRONG)})
)
sys.exit(fuzz_files.fuzz(60, 0, fuzz_files.Path({str(tmp_path / "found")!r}), most={len(WRONG)}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    Path("/tmp/epiloss-fuzz-elsewhere").unlink(missing_ok=True)
    assert done.returncode == 1
    assert f" {len(WRONG)} findings" in done.stdout, done.stdout + done.stderr
    for place, words in enumerate(WRONG.values()):
        assert words in (tmp_path / "found" / str(place) / "finding.txt").read_text()
