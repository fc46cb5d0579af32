"""Compare, drift, track, regret, report: as in Python, with the options and exit codes of audit."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import epiloss
from epiloss.cli.finish import _for_command_line
from epiloss.cli.main import COMMANDS, cli, main

N = 1_200
Run = Callable[..., tuple[int, str, str]]
FAST = ("--method", "partition", "--n-bins", "4")


def columns(seed: int, n: int = N, shift: float = 0.0) -> dict[str, Any]:
    """Return rows of a model p that does not know the ward, and of one that does."""
    g = np.random.default_rng(seed)
    x, ward = g.normal(size=n), g.choice(["A", "B"], n)
    p, better = (1 / (1 + np.exp(-(x + k * (ward == "A")))) for k in (0.0, 1.2))
    y = (g.random(n) < np.clip(better + shift * (ward == "B"), 0, 1)).astype(int)
    return {"id": np.arange(n), "y": y, "p": p, "q": better, "x": x, "ward": ward}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(pa.table(columns(0)), "old.csv")
    csv.write_csv(pa.table(columns(1, shift=0.3)), "new.csv")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["epiloss", *arguments])
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return int(code or 0), said.out, said.err

    return run


AUDIT = ("--label", "y", "--score", "p", "--exclude", "id", "--exclude", "q", *FAST)


# compare


def test_two_columns_are_compared_as_in_python(run: Run) -> None:
    scores = ("--score", "given=p", "--score", "better=q")
    code, out, _ = run("compare", "old.csv", "--label", "y", *scores, "--exclude", "id", *FAST, "--json")
    rows = columns(0)
    X = {name: rows[name] for name in ("x", "ward")}
    models = {"given": rows["p"], "better": rows["q"]}
    expected = epiloss.compare(rows["y"], models, X, method="partition", n_bins=4)
    assert code == 0
    found = json.loads(out)
    assert found["schema"] == 2
    assert found["differences"] == json.loads(expected.to_json())["differences"]


def test_two_files_are_matched_by_the_column_that_identifies_rows(run: Run) -> None:
    rows = pa.table(columns(0))
    order = np.random.default_rng(0).permutation(N)
    other = rows.take(pa.array(order)).select(["id", "y", "q"]).rename_columns(["id", "y", "p"])
    parquet.write_table(other, "better.parquet")
    parquet.write_table(rows.drop_columns(["q"]), "given.parquet")
    command = ("compare", "given.parquet", "better.parquet", "--label", "y", "--score", "p", *FAST)
    code, out, _ = run(*command, "--row-id", "id", "--json")
    assert code == 0
    scores = ("--score", "given=p", "--score", "better=q", "--exclude", "id")
    _, one_file, _ = run("compare", "old.csv", "--label", "y", *scores, *FAST, "--json")
    found, expected = (json.loads(text)["differences"] for text in (out, one_file))
    assert found["difference"] == pytest.approx(expected["difference"], abs=1e-12)
    code, _, said = run(*command, "--exclude", "id")
    assert code == 4
    assert "--row-id" in said
    parquet.write_table(other.slice(0, 10), "few.parquet")
    code, _, said = run("compare", "given.parquet", "few.parquet", *command[3:])
    assert code == 4
    assert "must have 1,200 rows like given.parquet, got 10" in said
    parquet.write_table(pa.concat_tables([other.slice(0, N - 1), other.slice(0, 1)]), "twice.parquet")
    code, _, said = run("compare", "given.parquet", "twice.parquet", *command[3:], "--row-id", "id")
    assert code == 4
    assert "must identify the same rows" in said


def test_a_worse_model_fails_the_gate_only_where_one_is_asked_for(run: Run) -> None:
    models = ("--label", "y", "--score", "p", "--score", "q", "--exclude", "id")
    command = ("compare", "old.csv", *models, *FAST, "--baseline", "q")
    assert run(*command)[0] == 0
    code, out, said = run(*command, "--fail-worse")
    assert code == 3
    assert "Gate failed: the grouping loss of p is significantly larger than that of q" in said
    assert "minus q" in out
    assert run(*command[:-1], "p", "--fail-worse")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "old.csv", "--label", "y", "--score", "p"),
        ("compare", "old.csv", "new.csv", "--label", "y", "--score", "p", "--score", "q"),
        ("compare", "old.csv", "--label", "y", "--score", "a=p", "--score", "a=q"),
        ("compare", "old.csv", "--label", "y", "--score", "p", "--score", "q", "--baseline", "r"),
        ("drift", "old.csv", "--label", "y", "--score", "p"),
        ("track", "old.csv", "--label", "y", "--score", "p", "--date", "id"),
        ("track", "old.csv", "new.csv", "--label", "y", "--score", "p"),
        ("regret", "old.csv", *AUDIT, "--cost-fp", "-1"),
        ("regret", "old.csv", *AUDIT, "--threshold", "2"),
        ("report",),
        ("audit", "old.csv", *AUDIT, "--margin", "0.1"),
        ("audit", "old.csv", *AUDIT, "--cost-fn", "5"),
        ("audit", "old.csv", *AUDIT, "--cost-fn", "-5", "--report", "costs.html"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_wrong_usage_gives_exit_code_2_and_no_output(arguments: tuple[str, ...], run: Run) -> None:
    code, out, said = run(*arguments)
    assert (code, out) == (2, "")
    assert said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "old.csv", "--label", "z", "--score", "p", "--score", "q"),
        ("compare", "old.csv", "--label", "y", "--score", "p", "--score", "zz"),
        ("drift", "old.csv", "none.csv", "--label", "y", "--score", "p"),
        ("track", "old.csv", "new.csv", "--label", "y", "--score", "p", "--date", "when"),
        ("regret", "none.csv", *AUDIT),
        ("report", "none.json"),
        ("report", "old.csv"),
        ("audit", "old.csv", *AUDIT, "--baseline", "none.json"),
        ("drift", "old.csv", "new.csv", "--label", "y", "--score", "p", "--memory", "1KB"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_bad_data_give_exit_code_4_and_one_line(arguments: tuple[str, ...], run: Run) -> None:
    code, out, said = run(*arguments)
    assert (code, out) == (4, "")
    assert said.startswith("epiloss: ")
    assert said.count("\n") == 1


# drift, regret


def test_drift_is_that_of_python_and_can_be_a_gate(run: Run) -> None:
    command = ("drift", "old.csv", "new.csv", *AUDIT)
    code, out, said = run(*command, "--json", "--fail-worse")
    samples = []
    for rows in (columns(0), columns(1, shift=0.3)):
        samples.append((rows["y"], rows["p"], {name: rows[name] for name in ("x", "ward")}))
    expected = json.loads(epiloss.drift(*samples, method="partition", n_bins=4).to_json())
    found = json.loads(out)
    assert code == 3
    assert "significantly larger than in the reference" in said
    assert {one["loss"] for one in found.pop("gate")} == {"score", "calibration_loss", "grouping_loss"}
    assert found == expected
    assert run(*command)[0] == 0


def test_row_numbers_are_named_in_the_same_way_for_different_rows(log: str, run: Run) -> None:
    columns = ("--label", "y", "--score", "p", "--exclude", "q", "--json")
    for command in (
        ("drift", "old.csv", "new.csv", *FAST, *columns),
        ("track", log, "--date", "day", "--until", "2024-02-15", *columns),
    ):
        code, out, _ = run(*command, "--exclude", "id")
        assert code == 0
        assert run(*command, "--row-id", "id")[1] == out


def test_regret_takes_costs_and_a_threshold(run: Run) -> None:
    code, out, _ = run("regret", "old.csv", *AUDIT, "--cost-fn", "4", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["threshold"], found["cost_fn"]) == (0.2, 4)
    code, out, _ = run("regret", "old.csv", *AUDIT, "--threshold", "0.3")
    assert out.startswith("Acting on scores of 0.3 or more")


# track


@pytest.fixture
def log() -> str:
    rows = columns(3, 9_000)
    day = np.repeat(np.arange(90), 100)
    g = np.random.default_rng(4)
    flip = (rows["ward"] == "B") & (day >= 60) & (g.random(9_000) < 0.5)
    rows = {**rows, "y": np.where(flip, 1, rows["y"])}
    dates = np.datetime64("2024-01-01") + day
    parquet.write_table(pa.table({"day": dates.astype("datetime64[D]"), **rows}), "log.parquet")
    return "log.parquet"


TRACK = ("--label", "y", "--score", "p", "--exclude", "id", "--exclude", "q", "--date", "day")


def test_a_change_is_tracked_drawn_reported_and_fails_the_gate(log: str, run: Run) -> None:
    pytest.importorskip("matplotlib")
    outputs = ("--chart", "t.png", "--report", "t.html", "--output", "t.json")
    code, out, said = run("track", log, *TRACK, "--until", "2024-02-15", *outputs, "--fail-worse")
    assert code == 3
    assert "Gate failed: outcomes changed (alarm at 2024-03-" in said
    assert "where ward is B" in out
    assert Path("t.png").read_bytes().startswith(b"\x89PNG")
    page = Path("t.html").read_text()
    assert "epiloss track log.parquet" in re.sub("<[^>]*>", "", page)
    found = json.loads(Path("t.json").read_text())
    assert found["schema"] == 2
    assert len(found["periods"]["n"]) == 90 - 46
    _, weekly, _ = run("track", log, *TRACK, "--until", "2024-02-15", "--by", "week", "--json")
    assert json.loads(weekly)["periods"]["period"][:2] == ["2024-02-16", "2024-02-19"]


def test_the_reference_may_be_a_file_of_its_own_without_dates(log: str, run: Run) -> None:
    whole = parquet.read_table(log)
    parquet.write_table(whole.slice(0, 4_600).drop_columns(["day"]), "reference.parquet")
    parquet.write_table(whole.slice(4_600), "later.parquet")
    code, out, _ = run("track", "reference.parquet", "later.parquet", *TRACK, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["n_reference"], found["n_current"]) == (4_600, 4_400)
    assert "days-independent" in {one["code"] for one in found["remarks"]}


def test_without_a_change_the_gate_of_track_passes(log: str, run: Run) -> None:
    quiet = parquet.read_table(log).slice(0, 5_500)
    parquet.write_table(quiet, "quiet.parquet")
    code, _, said = run("track", "quiet.parquet", *TRACK, "--until", "2024-02-15", "--fail-worse")
    assert code == 0
    assert "Gate passed: no change of the outcomes was found." in said


def test_dates_as_text_are_tracked_like_dates(log: str, run: Run) -> None:
    table = parquet.read_table(log)
    options = ("--until", "2024-02-15", "--by", "week", "--json")
    expected = run("track", log, *TRACK, *options)[1]
    text = pa.compute.strftime(table["day"].cast("timestamp[s]"), format="%Y-%m-%d 10:30")
    parquet.write_table(table.set_column(table.column_names.index("day"), "day", text), "text.parquet")
    assert run("track", "text.parquet", *TRACK, *options)[1] == expected
    text = pa.compute.strftime(table["day"].cast("timestamp[s]"), format="%d/%m/%Y")
    parquet.write_table(table.set_column(table.column_names.index("day"), "day", text), "other.parquet")
    code, _, said = run("track", "other.parquet", *TRACK, "--until", "15/02/2024")
    assert code == 4
    assert said.startswith("epiloss: --date must hold dates such as 2024-06-30")


def test_errors_of_track_name_its_options(log: str, run: Run) -> None:
    code, _, said = run("track", log, *TRACK[:-1], "id", "--until", "4000", "--by", "week")
    assert code == 4
    assert said.startswith("epiloss: --date must hold dates to be grouped by week, got 0. ")
    assert "--by 'value'" in said
    assert "--date must name a column" in run("track", log, *TRACK[:-1], "dya", "--until", "4")[2]


@pytest.mark.parametrize(("until", "code"), [("2023-01-01", 4), ("2030-01-01", 4), ("soon", 2)])
def test_a_date_that_divides_nothing_is_told(until: str, code: int, log: str, run: Run) -> None:
    found, out, said = run("track", log, *TRACK, "--until", until)
    assert (found, out) == (code, "")
    assert "--until" in said
    assert run("track", log, *TRACK, "--until", "2024-02-15", "--chart", "t.txt")[0] == 2


# printed lines


def test_printed_lines_name_switches_instead_of_python() -> None:
    assert _for_command_line("  and 1,006 more: result.segments") == (
        "  and 1,006 more: --json or --report"
    )
    assert _for_command_line("note: pass task= to change.") == "note: pass --task to change."
    assert _for_command_line("result.segments") == "result.segments"


@pytest.mark.parametrize("row_id", [(), ("--row-id", "id")])
@pytest.mark.parametrize("kind", ["small", "category", "text"])
def test_files_of_different_formats_are_compared(kind: str, row_id: tuple[str, ...], run: Run) -> None:
    """CSV files hold numbers as floats and names as text."""
    table = pa.table(columns(0))
    label = pa.compute.if_else(pa.compute.equal(table["y"], 1), "yes", "no")
    other = {
        "small": (table, table["y"].cast("int8")),
        "category": (table.set_column(1, "y", label), label.dictionary_encode()),
        "text": (table.set_column(1, "y", label), label.cast("large_string")),
    }
    plain, labels = other[kind]
    csv.write_csv(plain, "first.csv")
    parquet.write_table(plain.set_column(1, "y", labels), "second.parquet")
    positive = () if kind == "small" else ("--pos-label", "yes")
    given = ("--label", "y", "--score", "p", "--exclude", "q", *FAST, *positive, *row_id)
    code, out, said = run("compare", "first.csv", "second.parquet", *given)
    assert (code, said.count("must")) == (0, 0)
    assert "+0.00000 [" in out


# standard input


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "old.csv", *AUDIT),
        ("compare", "old.csv", "--label", "y", "--score", "p", "--score", "q", *FAST),
        ("drift", "new.csv", "old.csv", *AUDIT),
        ("regret", "old.csv", *AUDIT),
        ("track", "old.csv", *AUDIT[:-4], "--date", "id", "--until", "1000"),
    ],
)
def test_every_command_reads_standard_input(
    command: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(*command, "--json")
    assert expected[0] == 0
    piped = SimpleNamespace(buffer=io.BytesIO(Path("old.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", piped)
    found = run(*("-" if one == "old.csv" else one for one in command), "--json")
    assert found[:2] == expected[:2]


# report, baseline, header


def test_every_command_writes_json_from_which_its_page_is_made_again(run: Run) -> None:
    commands = {
        "audit": ("audit", "old.csv", *AUDIT),
        "compare": ("compare", "old.csv", "--label", "y", "--score", "p", "--score", "q", *FAST),
        "drift": ("drift", "old.csv", "new.csv", *AUDIT),
        "regret": ("regret", "old.csv", *AUDIT),
    }
    for name, command in commands.items():
        head = ("--title", "A <title>", "--model", "m <7>")
        written = ("--output", f"{name}.json", "--report", f"{name}.html")
        assert run(*command, *written, *head)[0] == 0
        page = Path(f"{name}.html").read_text()
        assert "A &lt;title&gt;" in page
        assert "m &lt;7&gt;" in page
        assert "old.csv" in page
        code, out, said = run("report", f"{name}.json", "--report", "again.html", "--force", *head)
        assert (code, out) == (0, "")
        assert "again.html" in said
        assert "A &lt;title&gt;" in Path("again.html").read_text()
        code, out, _ = run("report", f"{name}.json", "--json")
        assert json.loads(out)["schema"] == 2
    assert run("report", "audit.json")[0] == 2  # audit.html exists
    assert run("report", "audit.json", "--force")[0] == 0


def test_the_report_has_the_costs_that_are_given(run: Run) -> None:
    assert run("audit", "old.csv", *AUDIT, "--cost-fn", "5", "--report", "costs.html")[0] == 0
    assert "a false negative costs 5 times as much" in Path("costs.html").read_text()


def test_an_audit_is_held_against_the_last_one(run: Run) -> None:
    assert run("audit", "old.csv", *AUDIT, "--output", "last.json")[0] == 0
    code, _, said = run("audit", "old.csv", *AUDIT, "--baseline", "last.json")
    assert code == 0
    assert said.count("Gate passed") == 3
    code, out, said = run("audit", "new.csv", *AUDIT, "--baseline", "last.json", "--json")
    assert code == 3
    assert "significantly larger than in the baseline" in said
    assert any(one["failed"] for one in json.loads(out)["gate"])
    assert run("audit", "new.csv", *AUDIT, "--baseline", "last.json", "--margin", "0.5")[0] == 0
    other = ("--label", "y", "--score", "p", "--exclude", "id", "--exclude", "q", "--method", "crossfit")
    code, _, said = run("audit", "old.csv", *other, "--baseline", "last.json")
    assert code == 0
    assert "note: the grouping loss is not compared with the baseline, which used method" in said
    assert run("audit", "old.csv", *AUDIT, "--rule", "log", "--baseline", "last.json")[0] == 4


def test_repaired_tables_keep_their_columns(run: Run) -> None:
    made = ("--repair", "some.parquet", "--save-repair", "repair.json")
    assert run("audit", "old.csv", *AUDIT, *made)[0] == 0
    assert run("apply", "repair.json", "old.csv", "--score", "p", "--output", "all.parquet")[0] == 0
    names = ["row", *columns(0), "p_repaired"]
    some, everyone = (parquet.read_table(f"{one}.parquet") for one in ("some", "all"))
    assert some.column_names == everyone.column_names == names
    rows = some["row"].to_numpy()
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(some["id"].to_numpy(), rows)
    for name in ("x", "ward", "y", "p"):
        assert everyone[name].to_pylist() == csv.read_csv("old.csv")[name].to_pylist()
    # repaired once more under the same name, which is there already
    code, _, said = run("apply", "repair.json", "all.parquet", "--score", "p", "--output", "b.csv")
    assert code == 2
    assert "the table must not have a column 'p_repaired'" in said


def test_what_csv_cannot_hold_is_left_out_with_a_note(run: Run) -> None:
    rows = columns(0)
    np.savez("e.npz", y=rows["y"], p=rows["p"], e=np.column_stack([rows["x"], rows["q"]]))
    code, _, said = run("audit", "e.npz", "--label", "y", "--score", "p", *FAST, "--repair", "o.csv")
    assert code == 0
    assert "note: CSV cannot hold lists, so the output lacks 'e'" in said
    assert csv.read_csv("o.csv").column_names == ["row", "y", "p", "p_repaired"]


# help


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: str(one.name))
def test_every_help_has_examples_whose_options_exist(command: Any, run: Run) -> None:
    code, out, _ = run(str(command.name), "--help")
    assert code == 0
    assert "Examples:\n  epiloss" in out
    known = {name for one in command.params for name in one.opts}
    for example in command.examples:
        used = [word for word in example.partition("#")[0].split() if word.startswith("--")]
        assert set(used) <= known, example
        assert f"  {example}\n" in out
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[-1] == "Other options:"
    assert "-h, --help" in out.split("Other options:")[1]


def test_all_analyses_share_the_options_for_output() -> None:
    shared = {"--json", "--report", "--title", "--model", "--force"}
    for command in COMMANDS:
        if command.name != "apply":
            assert shared <= {name for one in command.params for name in one.opts}, command.name
    assert set(cli.commands) >= {"audit", "compare", "drift", "track", "regret", "report", "apply"}


def test_a_checkpoint_whose_name_is_too_long_is_told(run: Run) -> None:
    code, out, said = run("audit", "old.csv", *AUDIT, "--checkpoint", "c" * 300)
    assert (code, out) == (2, "")
    assert said.endswith("File name too long. Pass another folder.\n")
    assert "Errno" not in said
