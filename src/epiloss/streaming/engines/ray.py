"""Engine for Ray: the connected cluster, one given by address, or a local one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from epiloss.errors import MissingExtraError
from epiloss.streaming.engines.base import LEAST_TRIES, Done, Engine, Task, run_task
from epiloss.streaming.passes import Pass


class RayEngine(Engine):
    """Runs parts as Ray tasks; Ray repeats the tasks of a worker that died."""

    def __init__(self, address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError(
                "engine 'ray' needs ray, which is not installed. Run: pip install 'epiloss[ray]'"
            ) from None
        self._ray, self._address = ray, address

    def __enter__(self) -> RayEngine:
        self._started = not self._ray.is_initialized()
        if self._started:
            self._ray.init(self._address, include_dashboard=False, log_to_driver=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            self._ray.shutdown()

    def run(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        """Send the work once, and the parts as tasks."""
        sent = self._ray.put(work)
        do = self._ray.remote(run_task).options(max_retries=LEAST_TRIES)
        left = [do.remote(sent, part, offset) for part, offset in tasks]
        while left:
            done, left = self._ray.wait(left)
            try:
                yield self._ray.get(done[0])
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error
