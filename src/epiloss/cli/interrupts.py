"""Ctrl-C: it stops a command whenever it is pressed, and is never lost."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SECONDS = 0.02  # after which what could not be interrupted is tried again
# where modules are loaded, and where texts are run that make classes
_LOADING = ("<frozen importlib._bootstrap>", "<string>")


@contextmanager
def interruptible(home: str) -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C below ``home``, a file or folder, as soon as it cannot get lost.

    A module that is being loaded may print it or make another error of it, so it waits until that is
    done; while ``home`` itself loads modules, what was set before decides. Where C code calls Python
    and drops it, it comes again.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # no thread but the main one may set it; and jobs in the background ignore it
        return
    hook = sys.unraisablehook

    def stop(number: int, frame: FrameType | None) -> None:
        below = _files_below(home, frame)
        if below and below[-1] in _LOADING:
            before(number, frame)  # the command loads what it needs: nothing has begun
        elif not set(below).isdisjoint(_LOADING):
            _try_again()
        else:
            raise KeyboardInterrupt

    def unraisable(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            _try_again()
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
    """Return the files of what runs, the innermost first, up to what ``home`` called."""
    files = []
    while frame is not None and not frame.f_code.co_filename.startswith(home):
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    return files


def _try_again() -> None:
    timer = threading.Timer(_SECONDS, _thread.interrupt_main)
    timer.daemon = True
    timer.start()
