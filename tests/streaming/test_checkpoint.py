"""Runs that stop or are killed go on where they were, and end with the same bits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import epiloss
from epiloss.cli.main import cli
from epiloss.streaming.engines import local
from epiloss.streaming.engines.base import run_task
from streaming_rows import BY_SUBGROUP, audited, stopped_by


class _StopError(Exception):
    pass


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of passes to which each part that is read from now on is added."""
    names: list[str] = []

    def noted(work: Any, part: Any, offset: int) -> Any:
        names.append(work.name)
        return run_task(work, part, offset)

    monkeypatch.setattr(local, "run_task", noted)
    return names


@pytest.mark.parametrize("by_subgroup", [False, True])
def test_a_run_that_stopped_goes_on_and_ends_with_the_same_bits(
    by_subgroup: bool,
    folder: Path,
    tmp_path: Path,
    expected: dict[str, Any],
    expected_by_subgroup: dict[str, Any],
    counted: list[str],
) -> None:
    given = BY_SUBGROUP if by_subgroup else {}
    with stopped_by(_StopError):
        audited(folder, checkpoint=tmp_path, **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "census.checkpoint",
        "survey.checkpoint",
        "tally.checkpoint",
    ]
    assert counted == []
    again = audited(folder, checkpoint=tmp_path, **given)
    assert again == (expected_by_subgroup if by_subgroup else expected)
    assert counted == ["tally", "tally"]


def test_a_checkpoint_of_other_options_is_refused_and_one_that_is_broken_named(
    folder: Path, tmp_path: Path
) -> None:
    audited(folder, checkpoint=tmp_path)
    for other in ({"n_bins": 10}, {"tolerance": 0.02}, {"subgroups": "city"}):
        with pytest.raises(epiloss.OptionError, match="belongs to a run with other options"):
            audited(folder, checkpoint=tmp_path, **other)
    path = tmp_path / "survey.checkpoint"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(epiloss.DataError, match=r"survey\.checkpoint.* cannot be read"):
        audited(folder, checkpoint=tmp_path)


KILLED = """
import os, signal, sys
from epiloss.cli.main import main
from epiloss.streaming import checkpoint
from epiloss.streaming.engines import base, local
checkpoint._PAUSE = 0  # so that it is written after each part, however short
seen = []
def deadly(work, part, offset):
    seen.append(work.name)
    if seen.count("survey") == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return base.run_task(work, part, offset)
local.run_task = deadly
main()
"""


def test_a_killed_command_goes_on_where_it_stopped(
    folder: Path, tmp_path: Path, expected_by_subgroup: dict[str, Any], counted: list[str]
) -> None:
    """The process is killed in the middle of its second pass, and started again."""
    command = [
        "audit", str(folder), "--label", "label", "--score", "score", "--exclude", "weight",
        "--feature", "a", "--feature", "b", "--subgroups", "city", "--subgroups", "count",
        "--method", "partition", "--memory", str(BY_SUBGROUP["memory"]),
        "--checkpoint", str(tmp_path), "--json",
    ]  # fmt: skip
    first = subprocess.run([sys.executable, "-c", KILLED, *command], capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["census.checkpoint", "survey.checkpoint"]
    second = CliRunner().invoke(cli, command)
    assert second.exit_code == 0, second.output
    assert json.loads(second.stdout) == json.loads(json.dumps(expected_by_subgroup))
    assert counted == ["survey", "survey", *["tally"] * 4]
