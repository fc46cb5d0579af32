"""One machine: one process, or several, of which any may die."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.base import Part
from epiloss.sources.tables import ObjectPart
from epiloss.streaming.engines.base import LEAST_TRIES, Done, Engine, Task, finished
from epiloss.streaming.passes import Pass

LEAST_BYTES = 2**24  # of files; fewer are read by the time that processes have started


class LocalEngine(Engine):
    """Runs parts in ``n_jobs`` processes; what a process did not finish when it died is done again."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = (os.cpu_count() or 1) if n_jobs == -1 else (n_jobs or 1)

    def run(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        """Run in this process where others have nothing to share, or would start for too little."""
        if self.n_jobs == 1 or _belongs_here([part for part, _ in tasks]):
            yield from (finished(work, part, offset) for part, offset in tasks)
        else:
            yield from self._in_processes(work, tasks)

    def _in_processes(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        left = {part.identity: (part, offset) for part, offset in tasks}
        tries = 0
        while left:
            # once processes have died again and again, one part at a time tells which it is
            alone = tries >= LEAST_TRIES
            some = dict(list(left.items())[:1]) if alone else left
            done = 0
            try:
                for identities, result in _parallel(self.n_jobs, work, list(some.values())):
                    for identity in identities:
                        del left[identity]
                    done += 1
                    yield identities, result
            except _dead() as error:
                tries = 0 if done else tries + 1
                if tries > 2 * LEAST_TRIES:
                    name = printable(next(iter(some.values()))[0].name)
                    raise DataError(
                        f"a process died {tries} times while it read {name}. It may need more memory "
                        "than there is: use fewer jobs, or smaller row groups."
                    ) from error


def _belongs_here(parts: Sequence[Part]) -> bool:
    """Tell whether parts are one, are little, or are objects that only this process has."""
    if len(parts) == 1 or any(isinstance(part, ObjectPart) for part in parts):
        return True
    sizes = [part.n_bytes for part in parts]
    return None not in sizes and sum(n for n in sizes if n is not None) < LEAST_BYTES


def _parallel(n_jobs: int, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
    from joblib import Parallel, delayed

    run = Parallel(n_jobs, return_as="generator_unordered", max_nbytes=None, batch_size=1)
    with _deaf_to_interrupts():
        results = run(delayed(finished)(work, part, offset) for part, offset in tasks)
    yield from results


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes be started that do not hear Ctrl-C: this one does, and it ends them.

    They take over that it is ignored; a handler, or a mask, they would not.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # where no thread but the main one may say so
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _dead() -> tuple[type[Exception], ...]:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    return BrokenProcessPool, TerminatedWorkerError
