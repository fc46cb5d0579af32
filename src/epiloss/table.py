"""Table: named columns of equal length, some of them computed when first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import MissingExtraError

if TYPE_CHECKING:
    pass
if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Later:
    """A column that is worked out when it is first asked for, and only for some of the rows."""

    make: Callable[[NDArray[np.int64]], NDArray[Any]]
    rows: NDArray[np.int64]


class Columns(Mapping[str, NDArray[Any]]):
    """Columns by name, some of them worked out later.

    Examples
    --------
    >>> squares = Later(lambda rows: rows**2, np.arange(5))
    >>> columns = Columns({"n": np.arange(5), "square": squares}).take(np.array([3, 1]))
    >>> columns["square"].tolist(), list(columns)
    ([9, 1], ['n', 'square'])
    """

    def __init__(self, columns: Mapping[str, NDArray[Any] | Later]) -> None:
        known = columns._columns if isinstance(columns, Columns) else columns
        self._columns: dict[str, NDArray[Any] | Later] = dict(known)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        if isinstance(column, Later):
            column = self._columns[name] = column.make(column.rows)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def also(self, name: str, column: NDArray[Any] | Later) -> Columns:
        """Return these columns and one more; none is worked out for that."""
        return Columns({**self._columns, name: column})

    def take(self, rows: NDArray[Any]) -> Columns:
        """Return some of the rows; what is worked out later is so for these alone."""
        return Columns(
            {
                name: Later(column.make, column.rows[rows])
                if isinstance(column, Later)
                else column[rows]
                for name, column in self._columns.items()
            }
        )


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Examples
    --------
    >>> table = Table({"level_set": np.array([0, 1]), "n": np.array([10, 12])})
    >>> len(table), int(table["n"].sum())
    (2, 22)
    """

    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def take(self, rows: NDArray[Any]) -> Table:
        """Return some of the rows, in their order."""
        return Table(Columns(self.columns).take(rows))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        return {name: column.tolist() for name, column in self.columns.items()}

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError(
                "to_pandas needs pandas, which is not installed. Run: pip install pandas"
            ) from None
        return pandas.DataFrame(dict(self.columns))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell.

    Examples
    --------
    >>> aligned([["model", "score"], ["a", "0.1"]])
    ['model  score', 'a      0.1']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
