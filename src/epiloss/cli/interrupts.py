"""Ctrl-C stops a command at any time and is never lost."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_RETRY_SECONDS = 0.02  # wait before interrupting again
# code that runs while modules are imported and while dataclasses and the like are generated
_IMPORTING = ("<frozen importlib._bootstrap>", "<string>")


@contextmanager
def interruptible(home: str) -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C in code called from ``home``, a file or folder.

    A module that is being imported may swallow the interrupt or turn it into another error, so it is
    delayed until the import is done. While ``home`` itself imports modules, the previous handler
    decides. If C code calls Python and drops the interrupt, it is raised again.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # only the main thread may set a handler, and background jobs ignore Ctrl-C
        return
    hook = sys.unraisablehook

    def stop(number: int, frame: FrameType | None) -> None:
        below = _files_below(home, frame)
        if below and below[-1] in _IMPORTING:
            before(number, frame)  # the command is still importing modules and has not started to work
        elif not set(below).isdisjoint(_IMPORTING):
            _retry()
        else:
            raise KeyboardInterrupt

    def unraisable(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            _retry()
        else:
            hook(dropped)

    signal.signal(signal.SIGINT, stop)
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, before)


def _files_below(home: str, frame: FrameType | None) -> list[str]:
    """Return the files of the frames that ``home`` called, the innermost first."""
    files = []
    while frame is not None and not frame.f_code.co_filename.startswith(home):
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    return files


def _retry() -> None:
    timer = threading.Timer(_RETRY_SECONDS, _thread.interrupt_main)
    timer.daemon = True
    timer.start()
