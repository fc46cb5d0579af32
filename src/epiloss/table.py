"""Table: named columns of equal length, some of them computed when first used."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import MissingExtraError, printable

_MAX_ROWS, _MAX_CHARACTERS = 20, 60  # of a printed table, and of each cell


@dataclass(frozen=True)
class Later:
    """A column that is computed on first use, for the given rows only."""

    make: Callable[[NDArray[np.int64]], NDArray[Any]]
    rows: NDArray[np.int64]


class Columns(Mapping[str, NDArray[Any]]):
    """Columns by name, some of which are computed on first use.

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
        """Return these columns and one more, without computing any of them."""
        return Columns({**self._columns, name: column})

    def take(self, rows: NDArray[Any]) -> Columns:
        """Return some of the rows; lazy columns will be computed for these rows only."""
        return Columns(
            {
                name: Later(column.make, column.rows[rows])
                if isinstance(column, Later)
                else column[rows]
                for name, column in self._columns.items()
            }
        )


@dataclass(frozen=True, repr=False)
class Table:
    """Named columns of equal length.

    ``table["name"]`` is a column, ``len(table)`` the number of rows, and iterating gives the names.

    Attributes
    ----------
    columns : mapping of str to array of shape (n,)
        The columns; some are computed on first use.

    See Also
    --------
    Audit : its ``level_sets``, ``regions`` and ``histogram`` are tables.

    Examples
    --------
    >>> table = Table({"level_set": np.array([0, 1]), "n": np.array([10, 12])})
    >>> len(table), int(table["n"].sum())
    (2, 22)
    >>> table
    level_set  n
    0          10
    1          12
    >>> table.take(np.array([1])).to_dict(), [int(row["n"]) for row in table.rows()]
    ({'level_set': [1], 'n': [12]}, [10, 12])
    """

    columns: Mapping[str, NDArray[Any]]

    def __repr__(self) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def take(self, rows: NDArray[Any]) -> Table:
        """Return some of the rows, in their order.

        Parameters
        ----------
        rows : array of int
            Row indices.

        Returns
        -------
        Table
            A table with the same columns.
        """
        return Table(Columns(self.columns).take(rows))

    def rows(self, *names: str) -> Iterator[dict[str, Any]]:
        """Yield the rows, each as a mapping of column names to values.

        Parameters
        ----------
        *names : str
            The columns to include; by default all. Other columns are not computed.

        Yields
        ------
        dict
            The values of one row.
        """
        for i in range(len(self)):
            yield {name: self[name][i] for name in names or self}

    def __str__(self) -> str:
        """Return the table as text; long tables are cut in the middle."""
        return "\n".join(aligned(self._cells()))

    def _repr_html_(self) -> str:
        """Return the table as HTML for a notebook."""
        header, *rows = ([html.escape(cell) for cell in row] for row in self._cells())
        head = "".join(f"<th>{cell}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _cells(self) -> list[list[str]]:
        rows = np.arange(len(self))
        cut = len(rows) > _MAX_ROWS
        if cut:
            rows = np.concatenate([rows[: _MAX_ROWS // 2], rows[-_MAX_ROWS // 2 :]])
        shown = self.take(rows)
        columns = [[_shown(value) for value in shown[name].tolist()] for name in shown]
        cells = [list(row) for row in zip(*columns, strict=True)]
        if cut:
            cells.insert(_MAX_ROWS // 2, ["..."] * len(columns))
        return [list(shown), *cells]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists.

        Returns
        -------
        dict
            A list of values for each column.
        """
        return {name: column.tolist() for name, column in self.columns.items()}

    def to_pandas(self) -> Any:
        """Return a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            A data frame with the same columns.

        Examples
        --------
        With pandas::

            result.regions.to_pandas().sort_values("cost")
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtraError(
                "to_pandas needs pandas, which is not installed. Run: pip install pandas"
            ) from None
        return pandas.DataFrame(dict(self.columns))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines of text with aligned columns, without control characters.

    Examples
    --------
    >>> aligned([["model", "score"], ["a", "0.1"]])
    ['model  score', 'a      0.1']
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _shown(value: Any) -> str:
    """Format a cell: floats with four digits, strings on one line and truncated.

    Examples
    --------
    >>> _shown(0.0123456), _shown(3), _shown(None), _shown("a" * 80)[-4:]
    ('0.01235', '3', '', 'aaa…')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
