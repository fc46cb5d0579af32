"""Ctrl-C in tests: child processes that hear it, even if the test run itself ignores it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def restore_ctrl_c() -> None:
    """Set SIGINT to its default, as ``preexec_fn`` of a child process.

    A shell starts background jobs with SIGINT ignored, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def heard_ctrl_c() -> Iterator[None]:
    """Handle SIGINT in this process as a program in the foreground does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
