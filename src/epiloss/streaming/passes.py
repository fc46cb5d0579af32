"""The passes over the data: pure functions of a part, whose results merge in any order."""

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
    """What a pass knows of some rows; ``merge`` is associative and commutative."""

    n_rows: int

    @abstractmethod
    def merge(self, other: Any) -> Any:
        """Return what is known of both sets of rows."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return everything as bytes, the same on every machine."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> PassResult:
        """Return what ``to_bytes`` was made of."""


class Pass(ABC, Generic[Result]):
    """A pass over the data: a function of a part, that needs nothing of the other parts."""

    name: ClassVar[str]
    result: ClassVar[type[PassResult]]

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The columns that are read."""

    @abstractmethod
    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Result:
        """Return the result for rows, those of ``part_name`` from ``first_row`` on.

        ``offset`` is the number of the first row in the whole data.
        """

    def __call__(self, part: Part, offset: int = 0) -> Result:
        """Return the result for a part; of a bundle, what is wrong is told file by file."""
        try:
            return self.over(part.batches(self.columns), part.name, part.first_row, offset)
        except RowsError:
            if isinstance(part, Bundle):
                faults = Faults()
                for one in part.files:
                    with faults.noted():
                        self(one)
                faults.tell()
            raise


def placed(batches: Iterable[Any], part_name: str, first_row: int) -> Iterator[tuple[Any, int, Place]]:
    """Return the batches, the rows before each, and how its rows are named."""
    before = 0
    for batch in batches:
        yield batch, before, Place(part_name, first_row + before)
        before += batch.num_rows


class Faults:
    """What is wrong with rows of a part: it is told once all of them are read, and counted."""

    def __init__(self) -> None:
        self._found: list[RowsError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is wrong with the rows of a batch, and go on."""
        try:
            yield
        except RowsError as error:
            self._found.append(error)

    def tell(self) -> None:
        """Raise the error for all rows, if there is one."""
        if self._found:
            raise RowsError.merged(self._found)
