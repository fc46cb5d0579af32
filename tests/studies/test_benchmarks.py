"""The benchmarks run, judge their targets and save what they measured; nothing asserts seconds."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_start import SUBMIT
from speed_page import BEGIN, END

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

needs_glest = pytest.mark.skipif(
    importlib.util.find_spec("glest") is None, reason="the peer glest is not installed"
)


def run(script: str, output: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Run a benchmark quickly; return what it printed and what it saved."""
    command = [sys.executable, str(BENCHMARKS / script), "--quick", "--output", str(output), *options]
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": SUBMIT}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    saved: dict[str, Any] = json.loads(output.read_text())
    return done.stdout, saved


def judged(printed: str) -> int:
    """Return the number of verdicts."""
    return sum(line.startswith(("met ", "MISSED ")) for line in printed.splitlines())


@pytest.mark.slow
def test_scale_is_measured_and_killed_workers_change_nothing(tmp_path: Path) -> None:
    printed, saved = run("scale.py", tmp_path / "scale.json")
    assert judged(printed) >= 6
    bits = [line for line in printed.splitlines() if "same bits" in line]
    assert bits
    assert all(line.startswith("met ") for line in bits)
    lost = [name for name, one in saved.items() if one["killed"]]
    assert "two processes, one killed" in lost
    for engine, package in (("dask", "distributed"), ("spark", "pyspark")):
        if importlib.util.find_spec(package) is not None:
            assert f"{engine}, a worker killed" in lost


@pytest.mark.slow
@needs_glest
def test_speed_is_measured_beside_the_peer_and_judged(tmp_path: Path) -> None:
    compiled = importlib.util.find_spec("epiloss._kernels._kernel") is not None
    kernels = ["compiled", "numpy"] if compiled else ["numpy"]
    chosen = "both" if compiled else "numpy"
    readme, page = tmp_path / "README.md", tmp_path / "speed.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    files = ("--markdown", str(page), "--readme", str(readme))
    printed, saved = run("speed.py", tmp_path / "made" / "speed.json", "--kernel", chosen, *files)
    assert judged(printed) == len(saved["verdicts"]) > 0
    assert f"of {len(saved['verdicts'])} targets met" in printed
    for row in saved["rows"]:
        assert list(row["partition"]) == kernels
        costs = [row["glest"], *row["partition"].values(), *([row["default"]] if compiled else [])]
        assert min(cost[clock] for cost in costs for clock in ("cpu", "wall")) > 0
        fitted = compiled and importlib.util.find_spec("lightgbm") is not None
        assert (row["lightgbm"]["cpu"] is not None) == fitted
    assert saved["default_by_numpy"]["10,000 x 20"]["cpu"] > 0
    assert sum(saved["profile"].values()) == pytest.approx(1)
    assert "The default call at 10,000 x 20" in printed
    assert all(one["same"] for one in saved["threads"].values())
    assert page.read_text() == printed.removesuffix("\n")
    assert "old" not in readme.read_text()
    assert "| 10,000 x 20 " in readme.read_text()


@pytest.mark.slow
def test_histogram_trees_are_compared_with_exact_ones_and_judged(tmp_path: Path) -> None:
    printed, saved = run("quality.py", tmp_path / "made" / "quality.json")
    assert judged(printed) == len(saved["settings"]) == 2
    for one in saved["settings"]:
        assert one["ratio"] == pytest.approx(one["histogram"] / one["exact"])
        assert one["stderr"] >= 0
