"""The content of a language-model log: a table, the columns of labels and scores, and remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from epiloss.sources.arrow import arrow

_MAX_FIELDS = 500  # the fields with values in most rows are kept
_MAX_DEPTH = 8  # of nested fields that become columns of their own


@dataclass(frozen=True)
class Log:
    """The rows of one or several logs, and how to audit them.

    Returned by :func:`epiloss.read_log` and accepted by :func:`epiloss.audit_table`.

    Attributes
    ----------
    table : pyarrow.Table
        One row for each question; ``table.to_pandas()`` returns a data frame.
    label : str
        The column of labels; if ``repeated``, it holds lists of labels.
    score : tuple of str
        The score columns: one for each choice, or only the confidence.
    task : {"binary", "top-label"}
        The task of the audit.
    classes : tuple of int, optional
        The choice of each score column.
    clusters : str, optional
        The column of clusters, if rows depend on each other.
    display : tuple of str
        Columns that identify rows in reports and are not features.
    repeated : bool
        Whether each question has several labels; the grouping loss is then measured, not bounded.
    remarks : tuple of str
        How the log was read.

    See Also
    --------
    epiloss.read_log : reads logs.
    """

    table: Any
    label: str
    score: tuple[str, ...]
    task: str = "binary"
    classes: tuple[int, ...] | None = None
    clusters: str | None = None
    display: tuple[str, ...] = ()
    repeated: bool = False
    remarks: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        """Return a summary: the shape, and the columns of labels and scores."""
        shape = f"{self.table.num_rows:,} rows, {self.table.num_columns} columns"
        score = ", ".join(self.score[:3]) + (", ..." if len(self.score) > 3 else "")
        return f"<Log: {shape}; label: {self.label}; score: {score}>"


class Fields:
    r"""The fields of nested records, collected as columns with dotted names.

    Examples
    --------
    >>> fields = Fields()
    >>> fields.add(0, "doc", {"question": "Why?", "choices": ["a", "b"], "meta": {"year": 1999}})
    >>> fields.columns(1)[0]
    {'doc.question': ['Why?'], 'doc.choices': ['a\nb'], 'doc.meta.year': [1999.0]}
    """

    def __init__(self) -> None:
        self._values: dict[str, dict[int, Any]] = {}

    def add(self, row: int, name: str, value: Any) -> None:
        """Add a value, or all fields of a record, to a row."""
        for place, one in _leaves(name, value, _MAX_DEPTH):
            self._values.setdefault(place, {})[row] = one

    def __getitem__(self, name: str) -> Mapping[int, Any]:
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self._values)

    def columns(self, n_rows: int) -> tuple[dict[str, list[Any]], list[str]]:
        """Return the columns, with None for missing values, and the names of fields left out."""
        kept = sorted(self._values, key=lambda name: -len(self._values[name]))[:_MAX_FIELDS]
        found, left_out = {}, [name for name in self._values if name not in set(kept)]
        for name in self._values:
            if name not in kept:
                continue
            values = _of_one_type(self._values[name])
            if values is None or (len(values) < n_rows and _holds_lists(values)):
                left_out.append(name)
            else:
                found[name] = [values.get(row) for row in range(n_rows)]
        return found, left_out


def _leaves(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and depth:
        for key, inner in value.items():
            yield from _leaves(f"{name}.{plain_text(key)}", inner, depth - 1)
    elif value is not None and value != []:
        yield plain_text(name), value


def _holds_lists(values: Mapping[int, Any]) -> bool:
    return any(isinstance(one, list) for one in values.values())


def _of_one_type(values: Mapping[int, Any]) -> Mapping[int, Any] | None:
    """Return booleans, numbers, lists of numbers or strings; None for anything else."""
    given = values.values()
    if all(isinstance(one, bool) for one in given):
        return values
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in given):
        return {row: as_number(one) for row, one in values.items()}
    if all(isinstance(one, list) for one in given):
        return _lists(values)
    if any(isinstance(one, list | Mapping) for one in given):
        return None
    return {row: plain_text(one) for row, one in values.items()}


def _lists(values: Mapping[int, Sequence[Any]]) -> Mapping[int, Any] | None:
    """Return lists of numbers if they have equal lengths, and join lists of strings; else None."""
    parts = [one for row in values.values() for one in row]
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in parts):
        lengths = {len(one) for one in values.values()}
        if len(lengths) > 1:
            return None
        return {row: [as_number(one) for one in numbers] for row, numbers in values.items()}
    if any(isinstance(one, list | Mapping) for one in parts):
        return None
    return {row: plain_text("\n".join(map(str, texts))) for row, texts in values.items()}


def as_number(value: float) -> float:
    """Return a number as a float; infinite if it is too large for a double."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def plain_text(value: Any) -> str:
    """Return a value as a string that can be encoded in UTF-8."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def as_table(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return columns as an Arrow table, leaving out those without values."""
    pa = arrow()
    arrays = {name: pa.array(values) for name, values in columns.items()}
    return pa.table({name: one for name, one in arrays.items() if not pa.types.is_null(one.type)})


def shown_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, quoted and joined."""
    first = ", ".join(repr(name) for name in islice(names, most))
    return first + (", ..." if len(names) > most else "")
