"""What an engine is: it runs a pass over parts, and gives the results as they come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from epiloss.errors import RowsError
from epiloss.sources.base import Part
from epiloss.streaming.passes import Pass, PassResult

Task = tuple[Part, int]  # a part, and the number of its first row in the whole data
# the identities of parts, and their merged result, or what is wrong with their rows
Done = tuple[Sequence[str], PassResult | RowsError]
LEAST_TRIES = 3  # of a part whose worker dies


class Engine(ABC):
    """Runs a pass over parts, in any order, each as often as it takes."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what was started for the passes: of most engines, nothing."""
        return

    @abstractmethod
    def run(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        """Return the results of parts, as they are finished."""


def finished(work: Pass[Any], part: Part, offset: int) -> Done:
    """Do one task; rows that break a rule are told of once those of all parts are known."""
    try:
        return [part.identity], work(part, offset)
    except RowsError as error:
        return [part.identity], error
