"""Reading files into memory, for commands that need all rows at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, printable

# options that name columns, as choose_roles calls them
_COLUMN_OPTIONS = (
    "label",
    "features",
    "exclude",
    "subgroups",
    "sample_weight",
    "clusters",
    "display",
    "row_id",
)


@dataclass(frozen=True)
class Rows:
    """A table in memory and the roles of its columns."""

    name: str
    table: Any
    roles: Any

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    @property
    def labels(self) -> Any:
        """The labels."""
        return as_integers(self.table.column(self.roles.label))

    def scores(self, names: Sequence[str]) -> Any:
        """Return one score column as an array, or several as a table."""
        return self.table.column(names[0]) if len(names) == 1 else self.table.select(list(names))

    def column(self, name: str) -> Any:
        """Return a column as a NumPy array."""
        return as_integers(self.table.column(name)).to_numpy()

    def data(self, *names: str) -> dict[str, Any]:
        """Return the arguments of the Python call that are in ``names``: X, subgroups and so on."""
        roles = self.roles
        features = self.table.select(list(roles.features)) if roles.features else None
        known = {
            "X": features,
            "subgroups": self.table.select(list(roles.subgroups)) if roles.subgroups else None,
            "sample_weight": None if roles.weight is None else self.table.column(roles.weight),
            "clusters": None if roles.clusters is None else self.table.column(roles.clusters),
            "display": self.table.select(list(roles.display)) if roles.display else None,
        }
        return {name: known[name] for name in names}


def as_integers(column: Any) -> Any:
    """Return a column of integral floats, which is how CSV files are read, as integers."""
    from epiloss.sources.arrow import arrow

    types = arrow().types
    is_number = types.is_floating(column.type) or types.is_integer(column.type)
    if not is_number or column.null_count:
        return column
    try:
        return column.cast("int64")
    except arrow().ArrowInvalid:  # a fraction, NaN or too large
        return column


def comparable(column: Any) -> Any:
    """Return a column in one type for equal values, whatever the type in the file."""
    from epiloss.sources.arrow import arrow

    types = arrow().types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type) or types.is_string_view(column.type):
        column = column.cast("large_string")
    return as_integers(column).combine_chunks()


def take_columns(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options that name columns from ``options`` and return them."""
    named = {name: options.pop(name) for name in _COLUMN_OPTIONS if name in options}
    several = ("exclude", "subgroups", "display")
    return {
        **dict.fromkeys(("sample_weight", "clusters", "row_id")),
        **dict.fromkeys(several, ()),
        **named,
        "features": tuple(named.get("features") or ()) or None,
    }


def read_rows(
    files: Sequence[str],
    scores: Sequence[str],
    columns: dict[str, Any],
    memory: str,
    others: Sequence[str] = (),
) -> Rows:
    """Read files; ``others`` are columns that the command needs but that are not features."""
    from epiloss._progress import stage
    from epiloss.cli.output import opened
    from epiloss.sources.tables import open_source
    from epiloss.sources.whole_files import column
    from epiloss.streaming.reader import Layout
    from epiloss.streaming.roles import choose_roles
    from epiloss.streaming.sampling import read_memory

    limit, name = read_memory(memory), ", ".join(map(os.path.basename, files))
    stage(f"reading {name}")
    source = open_source(opened(files, ())[0])
    for one in others:
        column(dict.fromkeys(source.schema.names), one, "date")
    exclude = (*columns["exclude"], *others)
    roles = choose_roles(source.schema, scores=scores, **{**columns, "exclude": exclude})
    Layout.of(source, roles)  # raises an error for columns of an unsupported type
    used = list(dict.fromkeys([*roles.survey, *others]))
    return Rows(name, _read(source, used, limit, name), roles)


def _read(source: Any, columns: list[str], limit: int, name: str) -> Any:
    from epiloss.sources.arrow import arrow

    batches, size = [], 0
    for part in source.parts:
        for batch in part.batches(columns):
            size += batch.nbytes
            if size > limit:
                raise DataError(
                    printable(f"{name} must fit into memory, but takes more than {limit:,} bytes. ")
                    + "Raise --memory, or leave out columns with --exclude."
                )
            batches.append(batch)
    if not sum(one.num_rows for one in batches):
        raise DataError(f"{printable(name)} must have at least one row, got none.")
    return arrow().Table.from_batches(batches)


def score_columns(files: Sequence[str], scores: Sequence[str]) -> list[str]:
    """Return the names of the score columns, with patterns resolved."""
    from epiloss.cli.output import opened

    return opened(files, scores)[1]
