"""The interface of engines, which run a pass over parts of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from epiloss.errors import RowsError
from epiloss.sources.base import Part
from epiloss.streaming.passes import Pass, PassResult

Task = tuple[Part, int]  # a part, and the number of its first row in the whole data
# the identities of parts, with their merged result or the error of their rows
Done = tuple[Sequence[str], PassResult | RowsError]
LEAST_TRIES = 3  # attempts for a part whose worker dies


class Engine(ABC):
    """Runs a pass over parts in any order; a part may be run again if a worker dies."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop what was started for the passes; most engines start nothing."""
        return

    @abstractmethod
    def run(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        """Yield the results of parts as they finish."""


def run_task(work: Pass[Any], part: Part, offset: int) -> Done:
    """Run a pass over one part; errors of rows are returned, to be merged with those of other parts."""
    try:
        return [part.identity], work(part, offset)
    except RowsError as error:
        return [part.identity], error
