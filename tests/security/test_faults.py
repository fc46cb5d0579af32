"""Whatever goes wrong while it works: no file is half-written, the old one stays, one sentence tells."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from forked_scripts import ForkedScripts
from interrupts import restore_ctrl_c

SOURCES = Path(__file__).parents[2] / "src" / "epiloss"
N = 2_000
OLD = "what was there before\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    g = np.random.default_rng(0)
    score, x = g.random(N), g.standard_normal((2, N))
    label = g.random(N) < np.clip(score + 0.2 * np.sign(x[0]), 0, 1)
    path = tmp_path_factory.mktemp("data") / "data.parquet"
    parquet.write_table(pa.table({"y": label, "p": score, "a": x[0], "b": x[1]}), path)
    return path


def arguments(data: Path, *options: str | Path) -> list[str]:
    fast = ("--method", "partition")
    return ["audit", str(data), "--label", "y", "--score", "p", *fast, *map(str, options)]


def command(data: Path, *options: str | Path) -> list[str]:
    """Return the command for tests of how a whole process starts, ends and is interrupted."""
    return [sys.executable, "-m", "epiloss", *arguments(data, *options)]


WRITERS = {
    "json": ("--output", "out.json"),
    "report": ("--report", "out.html"),
    "repaired csv": ("--repair-method", "regions", "--repair", "out.csv"),
    "repaired parquet": ("--repair-method", "regions", "--repair", "out.parquet"),
    "repaired arrow": ("--repair-method", "regions", "--repair", "out.arrow"),
    "repair": ("--repair-method", "regions", "--save-repair", "out.json"),
}


def with_target(folder: Path, writer: str) -> tuple[tuple[str, ...], Path]:
    """Return the options of a writer, and the file that it writes, which is there already."""
    *options, name = WRITERS[writer]
    target = folder / name
    target.write_text(OLD)
    return (*options, str(target), "--force"), target


def is_one_sentence(said: str) -> bool:
    return said.count("\n") == 1 and said.startswith("epiloss: ") and "Traceback" not in said


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Give a folder on a disk of its own, of 32 kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only who may mount a disk can make a small one")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("writer", WRITERS)
def test_on_a_full_disk_the_old_file_stays_and_nothing_else(
    writer: str, data: Path, mounted: Path, forked: ForkedScripts
) -> None:
    options, target = with_target(mounted, writer)
    (mounted / "filler").write_bytes(bytes(28_000))
    done = forked.command(*arguments(data, *options))
    if writer == "repair" and done.returncode == 0:
        pytest.skip("the repair is small enough")
    assert done.returncode == 4
    assert "No space left" in done.stderr
    assert is_one_sentence(done.stderr)
    assert target.read_text() == OLD
    assert sorted(path.name for path in mounted.iterdir()) == sorted(["filler", target.name])


LIMITED = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"


@pytest.mark.parametrize("writer", WRITERS)
def test_where_no_file_may_be_long_the_old_file_stays(
    writer: str, data: Path, tmp_path: Path, forked: ForkedScripts
) -> None:
    options, target = with_target(tmp_path, writer)
    done = forked.command(*arguments(data, *options), before=LIMITED)
    assert done.returncode == 4, done.stderr
    assert "cannot write" in done.stderr
    assert is_one_sentence(done.stderr)
    assert target.read_text() == OLD
    assert list(tmp_path.iterdir()) == [target]


def test_a_checkpoint_that_cannot_be_written_is_told(
    data: Path, mounted: Path, forked: ForkedScripts
) -> None:
    (mounted / "filler").write_bytes(bytes(32_768 - 4_096))
    done = forked.command(*arguments(data, "--checkpoint", mounted))
    assert done.returncode == 4
    assert "cannot write the checkpoint" in done.stderr
    assert is_one_sentence(done.stderr)
    assert all(path.suffix in (".checkpoint", "") for path in mounted.iterdir())


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Give a folder with an old file in it, to which nobody may write: not even root."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    root = os.getuid() == 0
    if root:
        mount = ["mount", "-t", "tmpfs", "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("root may write everywhere, and may not mount a disk here")
    for writer in WRITERS:
        with_target(folder, writer)
    if root:
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    else:
        folder.chmod(0o555)
    yield folder
    if root:
        subprocess.run(["umount", str(folder)], check=True)
    else:
        folder.chmod(0o755)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_that_may_not_be_written_to_is_told(
    writer: str, data: Path, read_only: Path, forked: ForkedScripts
) -> None:
    *options, name = WRITERS[writer]
    done = forked.command(*arguments(data, *options, read_only / name, "--force"))
    assert done.returncode == 4
    assert "cannot write" in done.stderr
    assert is_one_sentence(done.stderr)
    assert (read_only / name).read_text() == OLD


def test_a_checkpoint_in_a_folder_that_may_not_be_written_to_is_told(
    data: Path, read_only: Path, forked: ForkedScripts
) -> None:
    for folder in (read_only, read_only / "new"):
        done = forked.command(*arguments(data, "--checkpoint", folder))
        assert done.returncode in (2, 4)
        assert is_one_sentence(done.stderr)


KILLED = """
import os, signal
from epiloss import _saving
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def half(path):
    os.truncate(path, os.path.getsize(path) // 2)
    die()
if {moment!r} == "before the rename":
    os.replace = die
else:  # half of it is there
    _saving._flush_to_disk = half
"""


@pytest.mark.parametrize(
    ("writer", "moment"),
    [*((one, "in the middle") for one in (*WRITERS, "checkpoint")), ("report", "before the rename")],
)
def test_killed_while_it_writes_it_leaves_the_old_file_and_at_most_a_hidden_one(
    writer: str, moment: str, data: Path, tmp_path: Path, forked: ForkedScripts
) -> None:
    options, target = with_target(tmp_path, "json" if writer == "checkpoint" else writer)
    if writer == "checkpoint":
        options = ("--checkpoint", str(tmp_path / "kept"))
    done = forked.command(*arguments(data, *options), before=KILLED.format(moment=moment))
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == OLD
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    assert all(path == target or path.name.startswith(".") for path in files)
    if writer in ("checkpoint", "report"):
        again = forked.command(*arguments(data, *options))
        assert again.returncode == 0, again.stderr  # what was left over is in nobody's way


def test_a_file_left_over_in_a_folder_of_data_is_not_read(
    data: Path, tmp_path: Path, forked: ForkedScripts
) -> None:
    (tmp_path / "data.parquet").write_bytes(data.read_bytes())
    (tmp_path / ".data.parquet.x1y2").write_bytes(data.read_bytes()[:500])
    done = forked.command(*arguments(tmp_path))
    assert done.returncode == 0, done.stderr


def test_a_reader_that_goes_away_is_no_error_to_speak_of(data: Path) -> None:
    process = subprocess.Popen(command(data), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()  # as head does, but before the first line
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert said == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_an_output_that_is_full_is_told(data: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(data), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert "No space left" in done.stderr
    assert is_one_sentence(done.stderr)


def interrupted(made: list[str], ready: Any, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Start a command, press Ctrl-C when it is ready, and return how it ended."""
    with subprocess.Popen(
        made,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=restore_ctrl_c,
    ) as process:
        end = time.monotonic() + seconds
        while not ready() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGINT)  # a terminal tells the whole group
        out, said = process.communicate(timeout=seconds)
    return subprocess.CompletedProcess(made, process.returncode, out, said)


def check_stopped(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().endswith("stopped.")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_during_passes_stops_at_once_and_keeps_the_checkpoint(
    jobs: str, data: Path, tmp_path: Path
) -> None:
    logs, kept = tmp_path / "logs", tmp_path / "kept"
    logs.mkdir()
    whole = parquet.read_table(data)
    for place in range(1_000):
        parquet.write_table(whole, logs / f"{place}.parquet")
    made = command(logs, "--checkpoint", kept, "--output", tmp_path / "out.json", "--jobs", jobs)
    check_stopped(interrupted(made, (kept / "census.checkpoint").exists))
    assert not (tmp_path / "out.json").exists()
    assert all(path.suffix == ".checkpoint" for path in kept.iterdir())


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_during_an_audit_in_memory_stops(jobs: str, tmp_path: Path) -> None:
    report = tmp_path / "out.html"
    options = ["--repeats", "500", "--report", str(report), "--jobs", jobs]
    start = time.monotonic()
    made = [sys.executable, "-m", "epiloss", "demo", *options]
    check_stopped(interrupted(made, lambda: time.monotonic() > start + 4))
    assert list(tmp_path.iterdir()) == []


def is_writing(call: ast.Call) -> bool:
    """Tell whether a call opens, or is, something that writes to a file by its name."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("write_text", "write_bytes", "savefig", "savez", "savez_compressed", "tofile"):
        return True
    texts = [
        one.value
        for one in [*call.args, *(key.value for key in call.keywords)]
        if isinstance(one, ast.Constant)
    ]
    modes = [text for text in texts if isinstance(text, str) and len(text) <= 3]
    return name == "open" and any(set(mode) & set("wax+") for mode in modes)


def test_every_file_is_written_by_way_of_atomic() -> None:
    """Only what is given out by ``replacing`` is written to: ``temporary``, or a name of it."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text())
        own = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
        imported = {
            alias.name
            for one in ast.walk(tree)
            if isinstance(one, ast.ImportFrom) and one.module == "epiloss._saving"
            for alias in one.names
        }
        for call in (one for one in ast.walk(tree) if isinstance(one, ast.Call)):
            if not is_writing(call) or "temporary" in ast.unparse(call):
                continue
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if name == "write_text" and "write_text" in imported | own:
                continue
            found.append(f"{path.name}:{call.lineno}: {ast.unparse(call)[:80]}")
    assert found == []
