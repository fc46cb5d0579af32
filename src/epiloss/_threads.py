"""Threads: limits for BLAS and OpenMP, and a pool of worker threads.

BLAS splits long sums among its threads, so the last bits of a sum would depend on their number. OpenMP
threads busy-wait for each other: on a machine with other work, two took ten times as long as one. The
trees of this package use threads of their own, which only add up integers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from epiloss._typing import Floats


@contextmanager
def limited_threads(*, openmp: bool = False) -> Iterator[None]:
    """Limit BLAS and, with ``openmp``, also OpenMP to one thread; usable as a decorator.

    Libraries loaded inside the block are not limited; code that loads them sets its own limit.

    Examples
    --------
    >>> import threadpoolctl
    >>> with limited_threads():
    ...     {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"}
    {1}
    """
    if openmp:
        import sklearn.utils  # noqa: F401  # loads the libraries that are limited here
    libraries = _libraries(len(sys.modules))
    _BLAS.hold(libraries.select(user_api="blas").lib_controllers)
    limit = libraries.select(user_api="openmp").limit(limits=1) if openmp else nullcontext()
    try:
        with limit:  # applies to this thread only
            yield
    finally:
        _BLAS.release()


class _OneThread:
    """Keeps BLAS libraries at one thread while held; the setting applies to the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._before: dict[str, tuple[Any, int]] = {}

    def hold(self, libraries: list[Any]) -> None:
        with self._lock:
            self._holders += 1
            for one in libraries:
                self._before.setdefault(one.filepath, (one, one.get_num_threads()))
                _set_threads(one, 1)

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            for one, n in self._before.values():
                _set_threads(one, n)
            self._before.clear()


def _set_threads(library: Any, n: int) -> None:
    # Recent versions of threadpoolctl allow only the thread that set a limit to change it. Here the
    # thread that releases last restores the limit, whichever thread set it.
    free = getattr(library, "clear_controlling_thread", lambda force: None)
    free(force=True)
    library.set_num_threads(n)
    free(force=True)


_BLAS = _OneThread()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """Return the loaded libraries, searching again if other modules were imported since."""
    return _find_libraries(sum(not name.startswith("epiloss") for name in list(sys.modules)))


@lru_cache(maxsize=1)
def _find_libraries(n_modules: int) -> Any:
    """Search for libraries; cached by the number of modules because it takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def dot(a: Floats, b: Floats) -> float:
    """Return the dot product, computed without BLAS, whose threads add up in varying order."""
    return float(np.einsum("i,i->", a, b))


Fitted = TypeVar("Fitted")
Item = TypeVar("Item")


class Workers:
    """A pool of threads; with one, the work is done in the calling thread.

    Examples
    --------
    >>> with Workers(2) as workers:
    ...     workers.run(abs, [-1, 2])
    [1, 2]
    """

    def __init__(self, n_jobs: int | None) -> None:
        self.n = (os.cpu_count() or 1) if n_jobs == -1 else (n_jobs or 1)
        self._pool = ThreadPoolExecutor(self.n) if self.n > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, work: Callable[[Item], Fitted], items: Iterable[Item]) -> list[Fitted]:
        """Return ``[work(item) for item in items]``."""
        return list(map(work, items) if self._pool is None else self._pool.map(work, items))


ALONE = Workers(1)
