"""Bad input, cell by cell: each kind of it at each door, from arrays to clusters, is answered alike.

The doors are the Python call with arrays and with a table, the command line, and the engines over two
files. An error names column, count, first row and remedy; what is accepted gives the right numbers.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import epiloss
from epiloss.cli.main import main

N = 400
G = np.random.default_rng(0)
A, B = G.normal(size=N), G.normal(size=N)
P = 1 / (1 + np.exp(-A))
Y = (G.random(N) < np.clip(P + 0.2 * np.sign(B), 0, 1)).astype(np.int64)
FIXED: dict[str, Any] = {"n_bins": 4, "method": "partition"}


@dataclass(frozen=True)
class Case:
    """What comes in, and what is to be answered: a refusal, a remark, or nothing but the numbers."""

    columns: Mapping[str, Any]
    says: tuple[str, ...] = ()
    refused: str = ""  # DataError or OptionError
    options: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[str, ...] = ("p",)
    like: str | None = None  # the case whose numbers are the same
    tolerance: float = 1e-12
    text: bytes = b""  # of a CSV file, instead of columns
    resplit: bool = False  # a table's rows are split by what they hold: other scores, other halves


def changed(values: Any, places: dict[int, Any]) -> Any:
    array = np.array(values, float)
    for place, value in places.items():
        array[place] = value
    return array


PLAIN = {"a": A, "b": B, "p": P, "y": Y}
TWO = {"a": A, "b": B, "p0": 1 - P, "p1": P, "y": Y}
KEPT = np.delete(np.arange(N), [150, 350])
WITHOUT = {name: part[KEPT] for name, part in PLAIN.items()}
NONE_LABEL = [None if i in (10, 390) else int(label) for i, label in enumerate(Y)]
LOGITS = {**PLAIN, "p": np.log(P / (1 - P))}
CITY = np.array(["Oslo", "Rom", None], object)[np.arange(N) % 3]

CASES = {
    "plain": Case(PLAIN),
    "two columns": Case(TWO, scores=("p0", "p1"), resplit=True, like="plain"),
    "without two rows": Case(WITHOUT),
    "missing score": Case(
        {**PLAIN, "p": changed(P, {150: np.nan, 350: np.nan})},
        ("scores must not be missing", "column 'p'", "row 150", "2 rows in all", "drop_missing=True"),
        "DataError",
    ),
    "missing label": Case(
        {**PLAIN, "y": NONE_LABEL},
        ("labels must not be missing", "column 'y'", "row 10", "2 rows in all", "drop_missing=True"),
        "DataError",
    ),
    "missing score, dropped": Case(
        {**PLAIN, "p": changed(P, {150: np.nan, 350: np.nan})},
        ("rows without a score or a label, left out: 2 of 400.",),
        options={"drop_missing": True},
        like="without two rows",
    ),
    "outside by rounding": Case(
        {**PLAIN, "p": changed(P, {5: 1 + 5e-7})}, ("1 scores outside [0, 1] by at most 1e-06",)
    ),
    "logits": Case(
        LOGITS,
        ("must lie in [0, 1]", "column 'p'", "row ", "looks like logits", "logits=True"),
        "DataError",
    ),
    "logits, converted": Case(
        LOGITS, options={"logits": True}, resplit=True, like="plain", tolerance=1e-9
    ),
    "rows that do not sum to one": Case(
        {**TWO, "p1": changed(P, {7: P[7] + 0.1, 300: P[300] + 0.1})},
        ("must sum to 1", "'p0', 'p1'", "row 7", "2 rows in all", "Normalise"),
        "DataError",
        scores=("p0", "p1"),
    ),
    "half floats": Case(
        {**PLAIN, "p": P.astype(np.float16)}, resplit=True, like="plain", tolerance=1e-3
    ),
    "single floats": Case(
        {**PLAIN, "p": P.astype(np.float32)}, resplit=True, like="plain", tolerance=1e-6
    ),
    "signs": Case({**PLAIN, "y": 2 * Y - 1}, like="plain"),
    "truth values": Case({**PLAIN, "y": Y == 1}, like="plain"),
    "one-hot": Case({**TWO, "y": np.eye(2)[Y]}, scores=("p0", "p1"), resplit=True, like="plain"),
    "texts without a positive class": Case(
        {**PLAIN, "y": np.array(["no", "yes"])[Y]},
        ("labels that are texts, 'no', 'yes'", "pos_label="),
        "OptionError",
    ),
    "texts with a positive class": Case(
        {**PLAIN, "y": np.array(["no", "yes"])[Y]}, options={"pos_label": "yes"}, like="plain"
    ),
    "one class": Case(
        {**PLAIN, "y": np.ones(N, int)},
        ("at least two classes", "1 in all 400 rows", "The score (brier) of these rows is 0."),
        "DataError",
    ),
    "constant scores": Case({**PLAIN, "p": np.full(N, 0.3)}, ("all scores are 0.3: there is one",)),
    "copied rows": Case(
        {name: np.tile(part, 2) for name, part in PLAIN.items()},
        ("about 50% of the rows are copies of others", "intervals are too narrow"),
    ),
    "missing features": Case({**PLAIN, "a": changed(A, {3: np.nan, 333: np.nan})}),
    "infinite features": Case(
        {**PLAIN, "b": changed(B, {3: np.inf, 333: -np.inf})},
        ("got inf in column 'b'", "row 3", "2 rows in all", "numpy.nan"),
        "DataError",
    ),
    "texts as features": Case({**PLAIN, "city": CITY}),
}
LINES = [f"{a:.4f},{p:.4f},{y}".encode() for a, p, y in zip(A, P, Y, strict=True)]
HEADER = b"a,p,y"


def csv_case(lines: list[bytes], *says: str) -> Case:
    return Case({}, says, "DataError", text=b"\n".join(lines) + b"\n")


LATE = [HEADER, *200 * LINES]  # the beginning of a file tells the types of its columns
CAFE = "caf\xe9,0.5,1".encode("latin-1")
CASES |= {
    "CSV, text in a number column": csv_case(
        [HEADER, *LINES[:9], b"high,0.5,1", *LINES, b"low,0.5,1"],
        "column 'a' must hold numbers",
        "'high' at row 9",
        "2 rows in all",
    ),
    "CSV, text far down in a number column": csv_case(
        [*LATE, b"high,0.5,1", *LINES], "column 'a' of", "must hold numbers", "'high'", "line 80,002"
    ),
    "CSV, Latin-1": csv_case([HEADER, *LINES, CAFE], "UTF-8", "iconv -f LATIN1"),
    "CSV, repeated names": csv_case([b"a,a,y", *LINES], "distinct names", "'a' twice", "Rename"),
    "CSV, ragged": csv_case([HEADER, *LINES[:5], b"0.1,0.2", *LINES], "3", "got 2", "line 7"),
    "CSV, empty": Case({}, ("0.csv is empty",), "DataError", text=b"\n"),
    "CSV, header alone": csv_case([HEADER], "at least one row"),
}
LOSSES = ["score", "calibration_loss", "grouping_loss", "remainder"]
DOORS = ["arrays", "table", "cli", "processes", "dask", "spark", "ray"]
PACKAGES = {"dask": "distributed", "spark": "pyspark", "ray": "ray"}


def table_of(columns: Mapping[str, Any]) -> pa.Table:
    def array(values: Any) -> pa.Array:
        if np.ndim(values) == 2:
            flat = pa.array(np.asarray(values).reshape(-1))
            return pa.FixedSizeListArray.from_arrays(flat, np.shape(values)[1])
        return pa.array(values)

    return pa.table({name: array(values) for name, values in columns.items()})


def answer(run: Callable[[], epiloss.Audit]) -> dict[str, Any]:
    """Return what is answered: the numbers and the remarks, or the error."""
    try:
        result = run()
    except (epiloss.DataError, epiloss.OptionError) as error:
        kind = "DataError" if isinstance(error, epiloss.DataError) else "OptionError"
        return {"refused": kind, "text": str(error)}
    found: dict[str, Any] = json.loads(result.to_json())
    return found


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
    command = ["audit", str(folder), "--label", "y", *scores, "--bins", "4", "--method", "partition"]
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
os.environ["PYSPARK_PYTHON"] = sys.executable
from test_bad_input import CASES, FIXED, answer, epiloss

def main():
    for name, case in CASES.items():
        options = {{**FIXED, **case.options, **{engine}}}
        folder = os.path.join({folders!r}, name)
        found = answer(lambda: epiloss.audit("y", list(case.scores), folder, **options))
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
            here = str(Path(__file__).parent)
            script = folders / f"over_{door}.py"
            script.write_text(
                _SCRIPT.format(here=here, folders=str(folders), engine=engine, start=start or "pass")
            )
            program = [sys.executable, str(script)]
            done = subprocess.run(program, capture_output=True, text=True, check=False)
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
        assert found.get("refused") == case.refused, found.get("warnings")
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
    for word in case.says:
        assert any(word in warning for warning in found["warnings"])
    if case.like is not None:
        expected = answers("arrays" if door == "arrays" else "table", case.like)
        assert found["n_samples"] == expected["n_samples"]
        losses = ["score"] if case.resplit and door != "arrays" else LOSSES
        for loss in losses:
            value = expected[loss]["value"]
            assert found[loss]["value"] == pytest.approx(value, abs=case.tolerance), loss
    elif not case.says:
        assert [one for one in found["warnings"] if "task 'binary' chosen" not in one] == []


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
