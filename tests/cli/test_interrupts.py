"""Ctrl-C, whenever it is pressed: exit code 130 and one line, never a traceback, and never lost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from epiloss.cli.interrupts import interruptible
from interrupts import heard_ctrl_c, restore_ctrl_c

# presses Ctrl-C when a module is looked for, whoever does so
AT_IMPORT = """
import os, runpy, signal, sys
class Press:
    pressed = False
    def find_spec(self, name, *_):
        if name == {module!r} and not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
sys.argv = ["epiloss", "demo", "--repeats", "1000"]
runpy.run_module("epiloss", run_name="__main__", alter_sys=True)
"""
MODULES = [  # all of which the demonstration loads
    "epiloss.cli",
    "click",
    "epiloss.cli.options",
    "numpy",
    "numpy.random",
    "scipy.special",
    "epiloss.auditing.run",
    "sklearn.utils",
    "scipy.stats",
]


@pytest.fixture
def foreground() -> Iterator[None]:
    """Run a test with the SIGINT handler of a program in the foreground."""
    with heard_ctrl_c():
        yield


def check_stopped(code: int, out: str, said: str) -> None:
    assert code == 130, said
    assert out == ""
    assert "Traceback" not in said
    assert said.strip().splitlines()[-1] == "stopped."
    assert "KeyboardInterrupt" not in said


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_while_a_module_is_loaded_stops(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT.format(module=module)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=restore_ctrl_c,
    )
    check_stopped(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.2, 1.5, 2, 3])
def test_ctrl_c_after_any_time_stops(seconds: float, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "epiloss", "demo", "--repeats", "1000"]
    with subprocess.Popen(
        [*command, "--report", str(tmp_path / "out.html")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=restore_ctrl_c,
    ) as process:
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)  # a terminal tells the whole group
        out, said = process.communicate(timeout=120)
    check_stopped(process.returncode, out, said)
    assert list(tmp_path.iterdir()) == []


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def wait() -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.usefixtures("foreground")
def test_what_c_code_drops_comes_again() -> None:
    call = ctypes.CFUNCTYPE(None)(press)

    def dropped() -> None:
        call()  # whose errors ctypes drops
        wait()

    with pytest.raises(KeyboardInterrupt), interruptible(__file__):
        dropped()


@pytest.mark.usefixtures("foreground")
def test_what_makes_classes_is_not_interrupted_but_what_comes_after() -> None:
    done: list[str] = []

    def inner() -> None:
        exec("press()\ndone.append('all')", {"press": press, "done": done})
        wait()

    home = sys._getframe(1).f_code.co_filename  # which calls this test, so that this file is below it
    with pytest.raises(KeyboardInterrupt), interruptible(home):
        inner()
    assert done == ["all"]


@pytest.mark.usefixtures("foreground")
def test_afterwards_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    with interruptible(__file__):
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible(__file__):
            press()
    finally:
        signal.signal(signal.SIGINT, before)


# presses Ctrl-C for all processes at a moment of the start of workers
AT_START = """
import os, signal, sys, time
from joblib import Parallel
from epiloss.__main__ import main
from epiloss.streaming.engines import local
local.LEAST_BYTES = 0
start = Parallel.__call__
def press(self, tasks):
    if {moment!r} == "before":
        os.killpg(0, signal.SIGINT)
    found = start(self, tasks)
    time.sleep({seconds})
    if {moment!r} == "after":
        os.killpg(0, signal.SIGINT)
    return found
Parallel.__call__ = press
sys.argv = ["epiloss", "audit", {path!r}, "--label", "y", "--score", "p", "--jobs", "2"]
main()
"""


@pytest.mark.parametrize(
    ("moment", "seconds"), [("before", 0), ("after", 0), ("after", 0.3), ("after", 1)]
)
def test_ctrl_c_while_workers_start_stops_them_all(moment: str, seconds: float, tmp_path: Path) -> None:
    for place in range(40):
        rows = "".join(f"{i % 2},{(i * 7 + place) % 1000 / 1000},{i % 13}\n" for i in range(4_000))
        (tmp_path / f"{place}.csv").write_text(f"y,p,x\n{rows}")
    script = AT_START.format(moment=moment, seconds=seconds, path=str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=restore_ctrl_c,
    )
    try:
        out, said = process.communicate(timeout=90)  # which waits for workers too: they hold the pipes
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    check_stopped(process.returncode, out, said)
    assert said.count("stopped.") == 1


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file that two processes share, of which no part is done at once."""
    g, path = np.random.default_rng(0), tmp_path_factory.mktemp("large") / "rows.parquet"
    X = g.normal(size=(1_200_000, 8))
    p = 1 / (1 + np.exp(-X[:, 0]))
    columns = {"y": (g.random(len(p)) < p).astype(int), "p": p}
    table = pa.table(columns | {f"x{j}": X[:, j] for j in range(8)})
    parquet.write_table(table, path, row_group_size=100_000)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 4.0, 6.0])
def test_ctrl_c_after_any_time_of_an_audit_by_two_processes_stops(seconds: float, large: Path) -> None:
    command = [sys.executable, "-m", "epiloss", "audit", str(large), "--label", "y", "--score", "p"]
    process = subprocess.Popen(
        [*command, "--jobs", "2", "--repeats", "50"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=restore_ctrl_c,
    )
    try:
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=90)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    check_stopped(process.returncode, out, said)
