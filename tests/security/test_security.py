"""Data are data: nothing in them runs, steers a terminal, leaves the folder or calls anyone."""

from __future__ import annotations

import ast
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import epiloss
from epiloss.sources.whole_files import read_file, write_table
from forked_scripts import ForkedScripts

SOURCES = Path(__file__).parents[2] / "src" / "epiloss"
ESCAPES = "\x1b[31m\x1b]0;title\x07\u202e\u2066\x9b2J\r[red]bold[/red]"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`&"
N = 1_000


def calls(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    found = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
    return [(ast.unparse(one.func), one) for one in found]


def modules(tree: ast.AST) -> set[str]:
    """Return the packages that a module imports, at the top or inside of functions."""
    names = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            names |= {alias.name for alias in one.names}
        elif isinstance(one, ast.ImportFrom):
            names.add(one.module or "")
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: path.name)
def test_nothing_is_unpickled_evaluated_or_run_in_a_shell(path: Path) -> None:
    tree = ast.parse(path.read_text())
    unsafe = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "subprocess", "yaml", "requests"}
    assert not modules(tree) & (unsafe | {"urllib3", "http", "socket", "ftplib"})
    for name, call in calls(tree):
        last = name.rpartition(".")[2]
        assert name not in ("eval", "exec", "compile", "__import__"), call.lineno
        assert last not in ("system", "popen", "read_pickle", "to_pickle", "loads_pickle"), call.lineno
        assert not name.startswith(("joblib.load", "joblib.dump", "torch.load", "np.load")), call.lineno
        if last == "read_array":
            assert "allow_pickle=False" in ast.unparse(call)


def hostile_rows(text: str) -> dict[str, np.ndarray]:
    g = np.random.default_rng(0)
    score, kind = g.random(N), g.integers(2, size=N)
    label = g.random(N) < np.clip(score + np.where(kind == 1, 0.4, -0.4), 0, 1)
    return {
        f"y{text}": np.where(label, f"yes{text}", f"a no{text}"),
        f"p{text}": score,
        f"kind{text}": np.where(kind == 1, f"one{text}", f"two{text}"),
        f"group{text}": np.where(kind == 1, f"A{text}", f"B{text}"),
    }


@pytest.mark.parametrize("options", [(), ("--subgroups", f"group{ESCAPES}"), ("--score", "nothing")])
def test_no_text_of_the_data_steers_a_terminal(
    options: tuple[str, ...], tmp_path: Path, forked: ForkedScripts
) -> None:
    """In results on the standard output and in messages on the standard error, with any exit code."""
    path = tmp_path / f"data{ESCAPES.replace('/', '')}.parquet"
    parquet.write_table(pa.table(hostile_rows(ESCAPES)), path)
    command = ["audit", path, "--method", "partition"]
    command += ["--label", f"y{ESCAPES}", "--score", f"p{ESCAPES}", "--pos-label", f"yes{ESCAPES}"]
    done = forked.command(*command, *options)
    assert done.returncode == (4 if "nothing" in options else 0), done.stderr
    for said in (done.stdout, done.stderr):
        signs = {sign for line in said.split("\n") for sign in line if not sign.isprintable()}
        assert signs == set()
    assert "[red]" in done.stdout + done.stderr  # shown as it is, and not as colour


@pytest.mark.parametrize("damage", [b"", b"y,p\n1,\x1b[2Jx\n0,0.5\n", b"\x1b[2J,\x1b\n1,2,3\n"])
def test_no_message_on_a_damaged_file_steers_a_terminal(
    damage: bytes, tmp_path: Path, forked: ForkedScripts
) -> None:
    path = tmp_path / f"data{ESCAPES.replace('/', '')}.csv"
    path.write_bytes(damage)
    done = forked.command("audit", path, "--label", "y", "--score", "p")
    assert done.returncode == 4
    assert done.stderr.endswith("\n")
    assert done.stderr[:-1].isprintable()


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.images = 0, 0
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.images += tag == "img"
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.parametrize("grouped", [False, True])
def test_no_text_of_the_data_is_markup_in_a_report(grouped: bool, tmp_path: Path) -> None:
    """Names, categories, labels, groups, shown values, file names; test_report_browser has a browser."""
    rows = hostile_rows(MARKUP)
    path = tmp_path / "data<img src=x onerror=alert(1)>.parquet"
    parquet.write_table(pa.table(rows), path)
    label, score, kind, group = rows
    result = epiloss.audit_table(
        path,
        label=label,
        score=score,
        method="partition",
        display=[kind],
        subgroups=[group] if grouped else [],
        pos_label=f"yes{MARKUP}",
    )
    page = Elements()
    page.feed(result.to_html())
    assert (page.scripts, page.images, page.handlers) == (2, 0, [])


def test_no_cell_that_is_written_is_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    texts = ["=1+1", "+1", "-1", "@x", "\tx", "plain", None]
    write_table(path, {"=name": texts, "n": np.arange(-3, 4)})
    read = csv.read_csv(path)
    assert read.column_names == ["'=name", "n"]
    assert read.column(0).to_pylist() == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "plain", ""]
    assert read.column(1).to_pylist() == [-3, -2, -1, 0, 1, 2, 3]  # numbers stay numbers
    write_table(tmp_path / "out.parquet", {"=name": texts})
    assert list(read_file(str(tmp_path / "out.parquet"))) == ["=name"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table(hostile_rows("")), path)
    return path


def test_a_checkpoint_folder_of_links_leads_nowhere_else(data: Path, tmp_path: Path) -> None:
    kept, victim = tmp_path / "kept", tmp_path / "victim"
    kept.mkdir()
    victim.write_text("untouched")
    (kept / "survey.checkpoint").symlink_to(victim)
    (kept / "tally.checkpoint").symlink_to(tmp_path / "new")
    with pytest.raises(epiloss.DataError, match="cannot be read"):
        epiloss.audit_table(
            data, label="y", score="p", method="partition", checkpoint=kept, pos_label="yes"
        )
    (kept / "survey.checkpoint").unlink()
    (kept / "survey.checkpoint").symlink_to(tmp_path / "nowhere")
    epiloss.audit_table(data, label="y", score="p", method="partition", checkpoint=kept, pos_label="yes")
    assert victim.read_text() == "untouched"
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "nowhere").exists()
    assert not (kept / "survey.checkpoint").is_symlink()


def test_an_output_that_is_a_link_is_followed_as_by_every_other_program(
    data: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "report.html").symlink_to(tmp_path / "kept" / "report.html")
    result = epiloss.audit_table(data, label="y", score="p", method="partition", pos_label="yes")
    result.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").is_symlink()
    assert (tmp_path / "kept" / "report.html").read_text().startswith("<!")


OFFLINE = """
import socket, sys
def refuse(self, address, *_):
    raise AssertionError(f"a call to {address}")
for name in ("connect", "connect_ex", "sendto", "bind"):
    old = getattr(socket.socket, name)
    def guarded(self, *given, _old=old):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            refuse(self, given)
        return _old(self, *given)
    setattr(socket.socket, name, guarded)
def no_names(*given, **_):
    refuse(None, given)
socket.getaddrinfo = socket.gethostbyname = no_names
import epiloss
from epiloss.cli.main import main
result = epiloss.audit_table(sys.argv[1], label="y", score="p", n_jobs=2, pos_label="yes")
result.to_html(sys.argv[2])
result.repair(epiloss.RegionRecalibrator("regions"))
sys.argv = ["epiloss", "demo", "--method", "partition"]
main()
"""


def test_nothing_calls_the_network(data: Path, tmp_path: Path) -> None:
    """With internet sockets that raise: an audit of a file, a report, a repair, the demonstration."""
    command = [sys.executable, "-c", OFFLINE, str(data), str(tmp_path / "report.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "grouping loss" in done.stdout
