"""Progress of long calls: shown on a terminal and in a notebook, not in a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

Advance = Callable[[int], None]  # takes the number of rows just processed
_DELAY = 2.0  # seconds before the status of a call is shown


def is_shown(verbose: bool | None) -> bool:
    """Return whether to show progress; by default only on a terminal or in a notebook."""
    return (sys.stderr.isatty() or in_notebook()) if verbose is None else verbose


def in_notebook() -> bool:
    """Return whether the code runs in a Jupyter kernel."""
    shell: Any = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


@contextmanager
def working(what: str, verbose: bool | None = None) -> Iterator[None]:
    """Show what a call is doing, after a few seconds or, with ``verbose``, from the start.

    Inside another call that shows its progress, it is shown as a stage of that call.
    """
    outer = _STATUS.get()
    if outer is not None:
        with outer.inside(what):
            yield
        return
    if not is_shown(verbose):
        yield
        return
    status = _Status(what, 0.0 if verbose else _DELAY)
    token = _STATUS.set(status)
    try:
        yield
    finally:
        _STATUS.reset(token)
        status.stop()


def stage(text: str) -> None:
    """Show the current stage, if progress is shown."""
    status = _STATUS.get()
    if status is not None:
        status.update(text)


@contextmanager
def paused() -> Iterator[None]:
    """Hide the status line while something else is printed."""
    status = _STATUS.get()
    with nullcontext() if status is None else status.hidden():
        yield


class _Status:
    """A spinner on a terminal or in a notebook; plain lines elsewhere."""

    def __init__(self, what: str, delay: float) -> None:
        self._what, self._text = what, what
        self._lock, self._over = threading.Lock(), False
        self._shown: Any = None
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._timer.start()

    def update(self, text: str) -> None:
        self._say_now(f"{self._what}: {text}")

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        """Show the progress of a nested call and its stages."""
        outer, before, self._what = self._what, self._text, what
        self._say_now(what)
        try:
            yield
        finally:
            self._what = outer
            self._say_now(before)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the spinner while a progress bar is shown."""
        shown = self._shown if hasattr(self._shown, "stop") else None
        if shown is not None:
            shown.stop()
        try:
            yield
        finally:
            if shown is not None:
                shown.start()

    def _say_now(self, text: str) -> None:
        with self._lock:
            self._text = text
            if self._shown is not None:
                self._say()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._shown is not None and hasattr(self._shown, "stop"):
                self._shown.stop()

    def _show(self) -> None:
        with self._lock:
            if self._over:
                return
            if sys.stderr.isatty() or in_notebook():
                self._shown = _console().status(f"{self._text} ...")
                self._shown.start()
            else:
                self._shown = sys.stderr
                self._say()

    def _say(self) -> None:
        if self._shown is sys.stderr:
            print(f"epiloss: {self._text} ...", file=sys.stderr)
        else:
            self._shown.update(f"{self._text} ...")


_STATUS: ContextVar[_Status | None] = ContextVar("epiloss_status", default=None)


@contextmanager
def counted(what: str, n_rows: int | None, verbose: bool | None = None) -> Iterator[Advance]:
    """Show a progress bar with the number of rows, rows per second and the remaining time."""
    if not is_shown(verbose):
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Rows(ProgressColumn):
        """Number of processed rows, and rows per second."""

        def render(self, task: Task) -> Text:
            rate = f", {task.speed:,.0f}/s" if task.speed else ""
            of = f" of {int(task.total):,}" if task.total else ""
            return Text(f"{int(task.completed):,}{of} rows{rate}")

    rows = Rows(table_column=Column(no_wrap=True))
    columns = (TextColumn("{task.description}"), BarColumn(16), rows, TimeRemainingColumn())
    with (
        paused(),
        Progress(*columns, console=_console(), transient=True) as bar,
    ):
        task = bar.add_task(what, total=n_rows)
        yield lambda rows: bar.advance(task, rows)


def _console() -> Any:
    from rich.console import Console

    return Console() if in_notebook() else Console(stderr=True)
