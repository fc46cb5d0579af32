"""What is written: into devices and pipes, through links, never two results into one file."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import select
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import csv

import epiloss
from epiloss._saving import write_text
from epiloss.cli.main import cli, main
from epiloss.errors import DataError

N = 300
_g = np.random.default_rng(0)
P, X, Z = _g.random((3, N))
COLUMNS = {"y": (_g.random(N) < P).astype(int), "p": P, "x": X, "z": Z}
AUDIT = ("audit", "data.csv", "--label", "y", "--score", "p", "--method", "partition")
LONG = "n" * 300


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(pa.table(COLUMNS), "data.csv")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["epiloss", *arguments])
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), capsys.readouterr().err
        return 0, capsys.readouterr().err

    return run


def read_in_background(path: str) -> tuple[threading.Thread, list[bytes]]:
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(Path(path).read_bytes()))
    thread.start()
    return thread, read


OUTPUTS = {
    "--output": b"{",
    "--report": b"<!DOCTYPE html>",
    "--repair": b"PAR1",
    "--save-repair": b"{",
}


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("option", OUTPUTS)
def test_a_pipe_is_written_to_and_stays_a_pipe(option: str, force: bool, run: Any) -> None:
    name = "pipe.parquet" if option == "--repair" else "pipe"
    os.mkfifo(name)
    reader, read = read_in_background(name)
    code, said = run(*AUDIT, "--repair-method", "regions", option, name, *["--force"][: int(force)])
    assert (code, said) == (0, "")
    reader.join(10)
    assert read[0].startswith(OUTPUTS[option])
    assert stat.S_ISFIFO(os.stat(name).st_mode)
    assert sorted(os.listdir()) == ["data.csv", name]


def test_a_pipe_whose_reader_goes_away_is_told(run: Any) -> None:
    os.mkfifo("pipe")
    end = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)  # less than a report

    def go_away() -> None:
        select.select([end], [], [], 60)  # until something was written
        os.close(end)

    reader = threading.Thread(target=go_away)
    reader.start()
    code, said = run(*AUDIT, "--report", "pipe", "--force")
    reader.join(10)
    assert code == 4
    assert "cannot write 'pipe': the process that reads it has exited." in said


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed_and_stays_a_link(there: bool, run: Any) -> None:
    os.mkdir("kept")
    if there:
        Path("kept/out.json").write_text("old")
    Path("link").symlink_to("kept/out.json")
    if there:
        assert run(*AUDIT, "--output", "link")[0] == 2
        assert Path("kept/out.json").read_text() == "old"
    assert run(*AUDIT, "--output", "link", "--force")[0] == 0
    assert Path("link").is_symlink()
    assert json.loads(Path("kept/out.json").read_text())["schema"] == 2
    assert os.listdir("kept") == ["out.json"]


def test_text_goes_through_a_link_and_where_it_leads_it_is_whole_or_as_before() -> None:
    Path("victim").write_text("old")
    Path("link").symlink_to("victim")
    with pytest.raises(UnicodeEncodeError):
        write_text("link", "half \ud800")
    assert Path("victim").read_text() == "old"
    write_text("link", "new")
    assert Path("victim").read_text() == "new"
    assert Path("link").is_symlink()


def test_a_device_that_is_full_is_told(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.mkfifo("device")  # whose writer fails as that of a full device does
    reader, _ = read_in_background("device")
    monkeypatch.setattr(shutil, "copyfileobj", full)
    code, said = run(*AUDIT, "--report", "device", "--force")
    reader.join(10)
    assert code == 4
    assert said == "epiloss: cannot write 'device': No space left on device.\n"
    assert stat.S_ISFIFO(os.stat("device").st_mode)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("--output", "--report"),
        ("--report", "--save-repair"),
        ("--output", "--save-repair"),
        ("--repair", "--report"),
    ],
)
@pytest.mark.parametrize("also", ["out.csv", "./out.csv", "link", "hard"])
def test_two_results_are_not_written_to_one_file(first: str, second: str, also: str, run: Any) -> None:
    Path("link").symlink_to("out.csv")
    if also == "hard":
        Path("out.csv").write_text("")
        os.link("out.csv", "hard")
    code, said = run(*AUDIT, first, "out.csv", second, also, "--force")
    assert code == 2
    assert "must differ" in said
    assert first in said
    assert second in said
    assert not os.path.exists("out.csv") or Path("out.csv").read_text() == ""


def test_a_result_is_not_written_over_what_the_standard_output_goes_to() -> None:
    command = [sys.executable, "-m", "epiloss", *AUDIT, "--output", "out.txt", "--force"]
    with open("out.txt", "w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "is already standard output" in done.stderr


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.mark.parametrize(
    "option",
    ["--label=y", "--seed=1", "--rule=log", "--n-bins=4", "--output=o", "--report=r", "--weight=x"],
)
def test_an_option_that_takes_one_value_is_given_once(option: str) -> None:
    done = invoke(*AUDIT, option, option)
    assert done.exit_code == 2
    name = option.split("=")[0]
    times = 3 if name in AUDIT else 2
    assert f"{name} takes one value, got {times}. Give it once." in done.stderr


def test_options_that_may_be_repeated_are_all_used() -> None:
    done = invoke(*AUDIT, "--exclude", "x", "--exclude", "z", "--json", "--json")
    table = {name: COLUMNS[name] for name in ("y", "p")}
    expected = epiloss.audit_table(table, label="y", score="p", method="partition")
    assert json.loads(done.stdout) == expected.to_dict()


@pytest.mark.parametrize("option", OUTPUTS)
def test_a_name_that_is_too_long_is_told_before_the_work(option: str, run: Any) -> None:
    code, said = run("audit", "nowhere.csv", *AUDIT[2:], option, LONG + ".csv")
    assert code == 4
    assert said.endswith("File name too long.\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", LONG, *AUDIT[2:]),
        ("audit", "data.csv", LONG, *AUDIT[2:]),
        ("apply", LONG, "data.csv", "--score", "p", "--output", "o.csv"),
    ],
    ids=["audit", "audit of two", "apply"],
)
def test_a_name_of_an_input_that_is_too_long_is_told(arguments: tuple[str, ...], run: Any) -> None:
    code, said = run(*arguments)
    assert code == 4
    assert said.startswith("epiloss: ")
    assert said.count("\n") == 1


def test_the_longest_name_that_a_file_may_have_is_written(run: Any) -> None:
    name = "é" * 125 + ".json"
    assert run(*AUDIT, "--output", name) == (0, "")
    assert json.loads(Path(name).read_text())["schema"] == 2


def test_a_standard_input_that_is_closed_is_told() -> None:
    command = f"{sys.executable} -m epiloss audit - --label y --score p <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr == ("epiloss: standard input is closed. Pipe a table into it, or pass a file.\n")


@pytest.mark.parametrize("unbuffered", ["1", ""])
def test_a_standard_output_that_takes_no_more_is_told(unbuffered: str) -> None:
    with open("out.txt", "w") as out:
        done = subprocess.run(
            [sys.executable, "-m", "epiloss", *AUDIT],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        )
    assert done.returncode == 4
    assert done.stderr == "epiloss: cannot write to standard output: File too large.\n"


ARCHIVES = {
    "sheet.xlsx": ("xl/workbook.xml", "it is a spreadsheet. Save the sheet as CSV"),
    "sheet.ods": ("content.xml", "it is a spreadsheet. Save the sheet as CSV"),
    "rows.zip": ("rows.csv", "it is a ZIP archive without arrays. Unpack it"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_spreadsheet_is_refused_with_a_remedy(name: str, run: Any) -> None:
    member, words = ARCHIVES[name]
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(member, "<workbook/>")
    code, said = run("audit", name, *AUDIT[2:])
    assert code == 4
    assert words in said
    assert run("audit", name, "data.csv", *AUDIT[2:])[0] == 4
    with pytest.raises(DataError, match="is not a table"):
        epiloss.audit_table(name, label="y", score="p")
