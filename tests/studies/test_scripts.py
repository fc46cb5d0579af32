"""Experiments and benchmarks are scripts: each explains itself, started from anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / name for name in ("experiments", "benchmarks", "scripts")]
MODULES = [path for folder in FOLDERS for path in sorted(folder.glob("*.py"))]
SCRIPTS = [
    path
    for path in MODULES
    if re.search(r"__main__.*main\(", path.read_text(), re.DOTALL)
    and re.search(r"ArgumentParser\(|parse_args\(", path.read_text())
]


def started(script: Path, folder: Path) -> str:
    """Run a script with --help in an empty folder, without the tests' path; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    return done.stdout


def test_none_changes_where_modules_are_looked_for() -> None:
    assert len(MODULES) > 30
    assert [path.name for path in MODULES if re.search(r"sys\.path", path.read_text())] == []


def test_one_script_explains_itself(tmp_path: Path) -> None:
    assert "usage: examples.py" in started(ROOT / "experiments" / "examples.py", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_explains_itself(script: Path, tmp_path: Path) -> None:
    assert len(SCRIPTS) > 15
    assert f"usage: {script.name}" in started(script, tmp_path)
