"""The comparison with peers: the page's tables are what the script writes, and its readings can fail."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "peers.py"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which the script would set for good
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return importlib.import_module("peers")


def tables(text: str) -> dict[str, list[list[str]]]:
    """Return the cells of each table, under its title."""
    parts = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    return {
        part.splitlines()[0]: [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in part.splitlines()
            if line.startswith("|") and not line.startswith("|---")
        ]
        for part in parts
    }


def check_shape(found: dict[str, list[list[str]]], peers: Any) -> None:
    for rows in found.values():
        assert rows[0] == ["tool", "", *peers.PROBLEMS, "CPU"]
        assert all(len(row) == len(rows[0]) for row in rows)
    shares = [float(cell) for row in found["Is anything wrong?"][1:] for cell in row[2:5]]
    assert all(0 <= share <= 1 for share in shares)


def test_the_page_has_every_job_and_names_every_peer(peers: Any) -> None:
    text = (ROOT / "docs" / "peers_table.md").read_text(encoding="utf-8")
    found = tables(text)
    check_shape(found, peers)
    shown = {(title, row[0], row[1]) for title, rows in found.items() for row in rows}
    for job in peers.jobs():
        assert (peers.QUANTITIES[job.quantity].title, job.tool, job.what) in shown
    assert [name for name in peers.NEEDS if f"{name} " not in text] == []
    assert "nan" not in text


def test_the_nearest_is_the_one_with_the_least_error_also_if_it_is_a_peer(peers: Any) -> None:
    ours, theirs = (
        peers.Job("grouping loss", tool, "", None, lambda *_: 0.0) for tool in ("epiloss", "other")
    )
    for values, name in (((0.9, 0.5), "epiloss"), ((0.5, 0.9), "other")):
        measured = [
            peers.Measured(
                {one: [value] for one in peers.PROBLEMS}, {one: [1.0] for one in peers.PROBLEMS}
            )
            for value in values
        ]
        for one in measured:
            one.cpu.append(1.0)
        last = [line for line in peers.table("grouping loss", [ours, theirs], measured) if line][-1]
        assert f"subgroups differ: {name}, off by 1000.0" in last


def test_a_peer_that_is_missing_is_named_with_what_it_lacks(
    peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.NEEDS, "glest", ("json", "no_such_package"))
    assert peers.missing("glest") == "no_such_package"
    assert peers.missing(None) is None


@pytest.mark.slow
def test_what_is_installed_is_measured_and_the_rest_left_out_with_its_reason(
    peers: Any, tmp_path: Path
) -> None:
    page = tmp_path / "table.md"
    command = [sys.executable, str(SCRIPT), "--quick", "--markdown", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    found = tables(text)
    check_shape(found, peers)
    assert found["Grouping loss"][2][0] == "epiloss"
    for name in peers.NEEDS:
        lacking = peers.missing(name)
        assert lacking is None or f"Left out: {name}, because {lacking} is not installed." in text
        assert lacking is None or f"{name} is left out: {lacking} is not installed" in done.stderr
