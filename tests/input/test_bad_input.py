"""Bad input, cell by cell: each kind of it at each door, from arrays to clusters, is answered alike.

The doors are the Python call with arrays and with a table, the command line, and the engines over two
files. An error names column, count, first row and remedy; what is accepted gives the right numbers.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from pyarrow import parquet

import epiloss
from bad_input_cases import CASES, CITY, FIXED, PLAIN, Case, answer, table_of
from epiloss.cli.main import main

HELPERS = Path(__file__).parents[1]  # where bad_input_cases and spark_start are
LOSSES = ["score", "calibration_loss", "grouping_loss", "remainder"]
DOORS = ["arrays", "table", "cli", "processes", "dask", "spark", "ray"]
PACKAGES = {"dask": "distributed", "spark": "pyspark", "ray": "ray"}


def of_arrays(case: Case, folder: Path) -> dict[str, Any]:
    columns = dict(case.columns)
    y = columns.pop("y")
    scores = [columns.pop(name) for name in case.scores]
    p = scores[0] if len(scores) == 1 else np.column_stack(scores)
    return answer(lambda: epiloss.audit(y, p, columns, **FIXED, **case.options))


def of_table(case: Case, folder: Path) -> dict[str, Any]:
    X = folder if case.text else table_of(case.columns)
    return answer(
        lambda: epiloss.audit_table(X, label="y", score=list(case.scores), **FIXED, **case.options)
    )


def of_cli(case: Case, folder: Path) -> dict[str, Any]:
    options = [f"--{name.replace('_', '-')}" for name, value in case.options.items() if value is True]
    for name, value in case.options.items():
        options += [] if value is True else [f"--{name.replace('_', '-')}", value]
    scores = [word for name in case.scores for word in ("--score", name)]
    command = ["audit", str(folder), "--label", "y", *scores, "--n-bins", "4", "--method", "partition"]
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        patch.object(sys, "argv", ["epiloss", *command, "--json", *options]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    if code == 0:
        found: dict[str, Any] = json.loads(out.getvalue())
        return found
    assert out.getvalue() == ""
    assert err.getvalue().count("\n") == 1
    return {
        "refused": {4: "DataError", 2: "OptionError"}[code],
        "text": err.getvalue().removeprefix("epiloss: ").strip(),
    }


_SCRIPT = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from spark_start import SUBMIT
os.environ |= {{"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": SUBMIT}}
import epiloss
from bad_input_cases import CASES, FIXED, answer

def main():
    for name, case in CASES.items():
        options = {{**FIXED, **case.options, **{engine}}}
        folder = os.path.join({folders!r}, name)
        columns = {{"label": "y", "score": list(case.scores)}}
        found = answer(lambda: epiloss.audit_table(folder, **columns, **options))
        print("cell", json.dumps([name, found]), flush=True)

if __name__ == "__main__":
    {start}
    main()
"""
_STARTS = {
    "processes": ("{'n_jobs': 2}", ""),
    "dask": (
        "{'engine': client}",
        "from distributed import Client; client = Client(n_workers=2, threads_per_worker=1, "
        "dashboard_address=None)",
    ),
    "spark": ("{'engine': 'spark:local[2]'}", ""),
    "ray": (
        "{'engine': 'ray'}",
        "import ray; ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)",
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for each case, with its rows in two files."""
    root = tmp_path_factory.mktemp("cases")
    for name, case in CASES.items():
        (root / name).mkdir()
        if case.text:
            (root / name / "0.csv").write_bytes(case.text)
            continue
        table = table_of(case.columns)
        half = table.num_rows // 2
        for place, part in enumerate((table.slice(0, half), table.slice(half))):
            parquet.write_table(part, root / name / f"{place}.parquet")
    return root


@pytest.fixture(scope="module")
def answers(folders: Path) -> Callable[[str, str], dict[str, Any]]:
    """Return what a door answers to a case; an engine is started once, for all cases."""
    known: dict[str, dict[str, Any]] = {}

    def find(door: str, name: str) -> dict[str, Any]:
        if door not in _STARTS:
            one = {"arrays": of_arrays, "table": of_table, "cli": of_cli}[door]
            return one(CASES[name], folders / name)
        if door not in known:
            engine, start = _STARTS[door]
            places = [str(HELPERS), *filter(None, [os.environ.get("PYTHONPATH")])]
            script = folders / f"over_{door}.py"
            script.write_text(_SCRIPT.format(folders=str(folders), engine=engine, start=start or "pass"))
            done = subprocess.run(
                [sys.executable, str(script)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
                capture_output=True,
                text=True,
                check=False,
            )
            cells = [line for line in done.stdout.splitlines() if line.startswith("cell ")]
            assert len(cells) == len(CASES), done.stderr[-3000:]
            known[door] = dict(json.loads(line.removeprefix("cell ")) for line in cells)
        found: dict[str, Any] = known[door][name]
        return found

    return find


CELLS = [
    (name, door)
    for name, case in CASES.items()
    for door in DOORS
    if door != "arrays" or not case.text  # arrays are no files
]


@pytest.mark.parametrize(("name", "door"), CELLS)
def test_each_kind_of_input_is_answered_alike_at_each_door(
    name: str, door: str, answers: Callable[[str, str], dict[str, Any]]
) -> None:
    if door in PACKAGES and find_spec(PACKAGES[door]) is None:
        pytest.skip(f"{door} is not installed")
    case = CASES[name]
    found = answers(door, name)
    if case.refused:
        assert found.get("refused") == case.refused, found.get("remarks")
        text = found["text"]
        for word in case.says:
            said = word
            if door == "arrays":  # which have no names
                said = "" if word in ("column 'p'", "column 'y'", "'p0', 'p1'") else word
            if door == "cli":
                said = word.replace("drop_missing=True", "--drop-missing")
                said = said.replace("logits=True", "--logits").replace("pos_label=", "--pos-label")
            assert said in text
        return
    assert "refused" not in found, found
    remarks = [one["text"] for one in found["remarks"]]
    for word in case.says:
        assert any(word in remark for remark in remarks)
    if case.like is not None:
        expected = answers("arrays" if door == "arrays" else "table", case.like)
        assert found["n_samples"] == expected["n_samples"]
        losses = ["score"] if case.resplit and door != "arrays" else LOSSES
        for loss in losses:
            value = expected[loss]["value"]
            assert found[loss]["value"] == pytest.approx(value, abs=case.tolerance), loss
    elif not case.says:
        assert [one for one in remarks if "task 'binary' chosen" not in one] == []


@pytest.mark.parametrize("door", [one for one in DOORS if one != "arrays"])
@pytest.mark.parametrize("name", ["plain", "missing features", "texts as features"])
def test_each_door_gives_the_bits_of_the_table(
    name: str, door: str, answers: Callable[[str, str], dict[str, Any]]
) -> None:
    if door in PACKAGES and find_spec(PACKAGES[door]) is None:
        pytest.skip(f"{door} is not installed")
    assert answers(door, name) == answers("table", name)


def test_the_names_of_categories_are_kept_for_rules() -> None:
    table = table_of({**PLAIN, "y": (CITY == "Oslo").astype(int), "city": CITY})
    result = epiloss.audit_table(table, label="y", score="p", **FIXED)
    assert any("Oslo" in str(rule) for rule in result.regions["rule"])
