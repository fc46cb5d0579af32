"""Passes over the data: pure functions of a part, whose results merge in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

from epiloss.errors import RowsError
from epiloss.input.features import Place
from epiloss.sources.base import Part
from epiloss.sources.bundles import Bundle

Result = TypeVar("Result", bound="PassResult")


class PassResult(ABC):
    """The result of a pass over some rows; ``merge`` is associative and commutative."""

    n_rows: int

    @abstractmethod
    def merge(self, other: Any) -> Any:
        """Return the result for both sets of rows."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the result as bytes, which are the same on every machine."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> PassResult:
        """Return the result that ``to_bytes`` wrote."""


class Pass(ABC, Generic[Result]):
    """A pass over the data: a function of one part, independent of the other parts."""

    name: ClassVar[str]
    title: ClassVar[str]  # for the progress bar
    result: ClassVar[type[PassResult]]

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The columns that are read."""

    @abstractmethod
    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Result:
        """Return the result for the rows of ``part_name`` that start at ``first_row``.

        ``offset`` is the number of the first row in the whole data.
        """

    def __call__(self, part: Part, offset: int = 0) -> Result:
        """Return the result for a part; errors in a bundle are reported by file."""
        try:
            return self.over(part.batches(self.columns), part.name, part.first_row, offset)
        except RowsError:
            if isinstance(part, Bundle):
                errors = RowErrors()
                for one in part.files:
                    with errors.collected():
                        self(one)
                errors.raise_merged()
            raise


def numbered_batches(
    batches: Iterable[Any], part_name: str, first_row: int
) -> Iterator[tuple[Any, int, Place]]:
    """Yield the batches, each with the number of rows before it and its place for error messages."""
    before = 0
    for batch in batches:
        yield batch, before, Place(part_name, first_row + before)
        before += batch.num_rows


class RowErrors:
    """Collects the errors of a part's rows, so that one error can report all of them."""

    def __init__(self) -> None:
        self._found: list[RowsError] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect an error of the rows of a batch instead of raising it."""
        try:
            yield
        except RowsError as error:
            self._found.append(error)

    def raise_merged(self) -> None:
        """Raise one error for all rows, if any were collected."""
        if self._found:
            raise RowsError.merged(self._found)
