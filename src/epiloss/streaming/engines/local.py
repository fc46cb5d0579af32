"""Engine for this machine: one process, or several that may die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.base import Part
from epiloss.sources.tables import ObjectPart
from epiloss.streaming.engines.base import LEAST_TRIES, Done, Engine, Task, run_task
from epiloss.streaming.passes import Pass

LEAST_BYTES = 2**26  # reading fewer bytes takes less time than starting processes


class LocalEngine(Engine):
    """Runs parts in ``n_jobs`` processes; the unfinished parts of a process that died are repeated."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = (os.cpu_count() or 1) if n_jobs == -1 else (n_jobs or 1)

    def run(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        """Run in this process if several processes would not help, else in several."""
        if self.n_jobs == 1 or _needs_one_process([part for part, _ in tasks], work.columns):
            yield from (run_task(work, part, offset) for part, offset in tasks)
        else:
            yield from self._in_processes(work, tasks)

    def _in_processes(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        left = {part.identity: (part, offset) for part, offset in tasks}
        tries = 0
        while left:
            # after repeated failures, running one part at a time shows which part is to blame
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
                        f"a process died {tries} times while reading {name}. It may need more memory: "
                        "use fewer jobs, or smaller row groups."
                    ) from error


def _needs_one_process(parts: Sequence[Part], columns: Sequence[str]) -> bool:
    """Return whether there is one part, few bytes, or an object that exists only in this process."""
    if len(parts) == 1 or any(isinstance(part, ObjectPart) for part in parts):
        return True
    sizes = [part.bytes_of(columns) for part in parts]
    return None not in sizes and sum(n for n in sizes if n is not None) < LEAST_BYTES


def _parallel(n_jobs: int, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
    from joblib import Parallel, delayed

    run = Parallel(n_jobs, return_as="generator_unordered", max_nbytes=None, batch_size=1)
    results: Any = None
    variables = dict(os.environ)
    try:
        with _ctrl_c_blocked():
            results = run(delayed(_run)(variables, work, part, offset) for part, offset in tasks)
    except KeyboardInterrupt as stopped:
        if results is not None:
            results.throw(stopped)  # joblib then ends the processes
        raise
    yield from results


def _run(variables: Mapping[str, str], work: Pass[Any], part: Part, offset: int) -> Done:
    """Run a task in a process that may have started before some variables, such as keys, were set."""
    os.environ.update(variables)
    return run_task(work, part, offset)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Block Ctrl-C while processes start, so that they inherit the block and only this one handles it.

    If it is pressed meanwhile, it is delivered once the processes have started.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as tracker_of_loky

    for tracker in (resource_tracker, tracker_of_loky):
        tracker.ensure_running()  # starting it later would unblock Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _dead() -> tuple[type[Exception], ...]:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    return BrokenProcessPool, TerminatedWorkerError
