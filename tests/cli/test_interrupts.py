"""Ctrl-C, whenever it is pressed: exit code 130 and one line, never a traceback, and never lost."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epiloss.cli.interrupts import interruptible

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


def hears_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored by jobs in the background


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
        preexec_fn=hears_ctrl_c,
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
        preexec_fn=hears_ctrl_c,
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


def test_what_c_code_drops_comes_again() -> None:
    call = ctypes.CFUNCTYPE(None)(press)

    def dropped() -> None:
        call()  # whose errors ctypes drops
        wait()

    with pytest.raises(KeyboardInterrupt), interruptible(__file__):
        dropped()


def test_what_makes_classes_is_not_interrupted_but_what_comes_after() -> None:
    done: list[str] = []

    def inner() -> None:
        exec("press()\ndone.append('all')", {"press": press, "done": done})
        wait()

    home = sys._getframe(1).f_code.co_filename  # which calls this test, so that this file is below it
    with pytest.raises(KeyboardInterrupt), interruptible(home):
        inner()
    assert done == ["all"]


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
