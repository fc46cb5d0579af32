"""The common schema of several files, including columns from the names of their folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.arrow import OF_DAYS, arrow, is_of_days
from epiloss.sources.base import plain_schema

_RECENT = 4  # schemas that the next one is compared with
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # folder name for missing values


def check_names(path: str, schema: Any) -> None:
    """Raise an error if a column name occurs twice."""
    names = schema.names
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(
            printable(
                f"columns must have distinct names, got {repeated!r} twice in {path}. "
                "Rename one of them."
            )
        )


def without_nulls(schema: Any) -> Any:
    """Return a schema with nullable columns, in which columns without values have numbers."""
    pa = arrow()
    fields = [one.with_type(pa.float64()) if pa.types.is_null(one.type) else one for one in schema]
    return pa.schema([one.with_nullable(True) for one in fields])


def common_schema(files: Mapping[str, Any], folders: Sequence[Mapping[str, str]]) -> Any:
    """Return the common schema of files, given by path, and of the values in their folder names."""
    (first, schema), *others = files.items()
    check_names(first, schema)
    fields = {field.name: field for field in plain_schema(schema)}
    known = [schema]
    for path, other in others:
        if any(other.equals(one, check_metadata=True) for one in known[-_RECENT:]):
            continue  # most files have equal schemas
        known.append(other)
        check_names(path, other)
        _check_columns(fields, first, other, path)
        also = {field.name: field for field in plain_schema(other)}
        for name, field in fields.items():
            kind = _common_type(field.type, also[name].type)
            if kind is None:
                raise DataError(
                    printable(
                        f"column {name!r} must have one type in all files, got {field.type} in {first} "
                        f"and {other.field(name).type} in {path}. Convert it."
                    )
                )
            if is_of_days(field) and not is_of_days(also[name]):
                kept = {key: one for key, one in field.metadata.items() if key not in OF_DAYS}
                field = field.with_metadata(kept)
            fields[name] = field.with_type(kind)
    named = _folder_columns(folders)
    return without_nulls(
        arrow().schema([*fields.values(), *(one for one in named if one.name not in fields)])
    )


def _check_columns(fields: Mapping[str, Any], first: str, other: Any, path: str) -> None:
    odd = set(fields) ^ set(other.names)
    if odd:
        name = min(odd)
        lacks, has = (path, first) if name in fields else (first, path)
        raise DataError(
            printable(
                f"all files must have the same columns, got {name!r} in {has}, which {lacks} does not "
                "have. Audit only files of the same kind together."
            )
        )


def _folder_columns(folders: Sequence[Mapping[str, str]]) -> list[Any]:
    """Return the columns that the folder names of every file have a value for (``country=fr/``)."""
    pa = arrow()
    found = []
    for name in folders[0]:
        values = [one.get(name) for one in folders]
        if None in values:
            continue
        known = [value for value in values if value is not None and value != _NO_VALUE]
        whole = all(re.fullmatch(r"-?[0-9]{1,18}", value) for value in known)
        found.append(pa.field(name, pa.int64() if whole else pa.string()))
    return found


def folder_value(value: str, kind: Any) -> Any:
    """Convert the value in a folder name to the type of its column; None if it is missing."""
    if value == _NO_VALUE:
        return None
    return int(value) if arrow().types.is_integer(kind) else value


def _common_type(a: Any, b: Any) -> Any:
    """Return a type for the values of both types; None if there is none."""
    types, pa = arrow().types, arrow()
    if a == b:
        return a
    if types.is_null(a) or types.is_null(b):
        return b if types.is_null(a) else a
    plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in (a, b)]
    if all(types.is_string(kind) or types.is_large_string(kind) for kind in plain):
        return pa.large_string()
    if all(types.is_integer(kind) or types.is_floating(kind) for kind in plain):
        whole = all(types.is_integer(kind) for kind in plain)
        return pa.int64() if whole else pa.float64()
    return None
