"""Engine for dask: an existing cluster, given by address or client, or a local one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epiloss.errors import DataError, MissingExtraError, OptionError, printable
from epiloss.sources.base import Part
from epiloss.sources.tables import DaskPart
from epiloss.streaming.engines.base import LEAST_TRIES, Done, Engine, Task, run_task
from epiloss.streaming.passes import Pass

# dask makes workers return memory to the system immediately, which doubles NumPy's run time
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**30}


class DaskEngine(Engine):
    """Runs parts on the workers of a cluster; dask repeats the tasks of a worker that died."""

    def __init__(self, cluster: Any = None, n_jobs: int | None = None) -> None:
        try:
            import distributed
        except ImportError:
            raise MissingExtraError(
                "engine 'dask' needs dask, which is not installed. Run: pip install 'epiloss[dask]'"
            ) from None
        self._distributed = distributed
        self._cluster = cluster
        self._n_workers = (os.cpu_count() or 1) if n_jobs in (None, -1) else n_jobs

    def __enter__(self) -> DaskEngine:
        """Connect to the cluster, or start a local one that ends with the engine."""
        made = self._distributed
        if isinstance(self._cluster, made.Client):
            self._client, self._started = self._cluster, []
        elif self._cluster is not None:
            try:
                self._client = made.Client(self._cluster)
            except OSError as error:
                raise OptionError(
                    f"no dask scheduler answers at {self._cluster}. Start one, or use engine='dask' for "
                    "a local cluster."
                ) from error
            self._started = [self._client]
        else:
            import dask

            name = "distributed.nanny.pre-spawn-environ"
            with dask.config.set({name: {**dask.config.get(name), **_MALLOC}}):
                cluster = made.LocalCluster(
                    n_workers=self._n_workers, threads_per_worker=1, dashboard_address=None
                )
            self._client = made.Client(cluster)
            self._started = [self._client, cluster]
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._started:
            one.close()

    def run(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        """Send the work once, and the parts as tasks."""
        # submitted as a task, because scattered data are lost if their worker dies
        sent = self._client.submit(_given, work, pure=False)
        futures = [self._submitted(sent, part, offset) for part, offset in tasks]
        try:
            for future in self._distributed.as_completed(futures):
                yield future.result()
                future.release()
        except self._distributed.KilledWorker as error:
            raise DataError(
                f"workers died repeatedly on one part: {printable(str(error))[:150]}. They may need "
                "more memory: use fewer threads per worker, or smaller row groups."
            ) from error

    def _submitted(self, sent: Any, part: Part, offset: int) -> Any:
        if isinstance(part, DaskPart):
            frame = self._client.compute(part.delayed)
            known = replace(part, delayed=_Computed(part.identity))
            return self._client.submit(_run_partition, sent, known, offset, frame, pure=False)
        return self._client.submit(run_task, sent, part, offset, pure=False, retries=LEAST_TRIES)


@dataclass(frozen=True)
class _Computed:
    """Stands in for a delayed partition that dask computes separately."""

    key: str
    frame: Any = None

    def compute(self) -> Any:
        """Return the partition."""
        return self.frame


def _given(work: Pass[Any]) -> Pass[Any]:
    return work


def _run_partition(work: Pass[Any], part: DaskPart, offset: int, frame: Any) -> Done:
    """Run a pass over a partition that dask has computed."""
    return run_task(work, replace(part, delayed=_Computed(part.identity, frame)), offset)
