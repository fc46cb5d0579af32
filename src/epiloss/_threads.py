"""Threads of other libraries: one for sums of floats, which several would add up in another order.

BLAS shares out long sums among its threads, so that the last bits would depend on their number; and
OpenMP's threads wait for each other, busily: beside other work two were measured to take ten times as
long as one. Trees of this package have threads of their own, which add up whole numbers.
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
    """Keep BLAS to one thread and, where models are fitted, OpenMP too; also a decorator.

    Libraries that are loaded inside are limited by those who load them, in a limit of their own.

    Examples
    --------
    >>> import threadpoolctl
    >>> with limited_threads():
    ...     {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"}
    {1}
    """
    if openmp:
        import sklearn.utils  # noqa: F401  # which loads the libraries that are limited here
    libraries = _libraries(len(sys.modules))
    _BLAS.hold(libraries.select(user_api="blas").lib_controllers)
    limit = libraries.select(user_api="openmp").limit(limits=1) if openmp else nullcontext()
    try:
        with limit:  # of this thread alone
            yield
    finally:
        _BLAS.release()


class _OneThread:
    """BLAS libraries with one thread while anyone holds them: their number is the whole process's."""

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
    # recent versions of threadpoolctl let only the thread that came first set a number, until it is
    # done; here whoever comes last sets it back
    free = getattr(library, "clear_controlling_thread", lambda force: None)
    free(force=True)
    library.set_num_threads(n)
    free(force=True)


_BLAS = _OneThread()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """Find the loaded libraries, anew where modules of others were loaded since."""
    return _libraries_beside(sum(not name.startswith("epiloss") for name in list(sys.modules)))


@lru_cache(maxsize=1)
def _libraries_beside(n_modules: int) -> Any:
    """Look for libraries, which takes milliseconds, beside so many modules."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def dot(a: Floats, b: Floats) -> float:
    """Return the sum of products, by one thread: BLAS takes several, and adds up in other orders."""
    return float(np.einsum("i,i->", a, b))


Fitted = TypeVar("Fitted")
Item = TypeVar("Item")


class Workers:
    """Threads that stay for a while; with one, the work is done in place.

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
