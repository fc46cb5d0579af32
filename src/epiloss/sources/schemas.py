"""The schema of several files: the columns that all have, and those that their folders name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.arrow import OF_DAYS, arrow, is_of_days
from epiloss.sources.base import plain_schema

_FEW = 4  # schemas that another one is held against
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the name of a folder for rows without one


def check_names(path: str, schema: Any) -> None:
    """Refuse names of columns that occur twice."""
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
    """Return a schema where a column without values is one of numbers, and any value may be missing."""
    pa = arrow()
    fields = [one.with_type(pa.float64()) if pa.types.is_null(one.type) else one for one in schema]
    return pa.schema([one.with_nullable(True) for one in fields])


def common_schema(files: Mapping[str, Any], folders: Sequence[Mapping[str, str]]) -> Any:
    """Return the columns of all files, by path; and those of which each file's folders tell a value."""
    (first, schema), *others = files.items()
    check_names(first, schema)
    fields = {field.name: field for field in plain_schema(schema)}
    known = [schema]
    for path, other in others:
        if any(other.equals(one, check_metadata=True) for one in known[-_FEW:]):
            continue  # as most files: nothing is new
        known.append(other)
        check_names(path, other)
        _check_columns(fields, first, other, path)
        also = {field.name: field for field in plain_schema(other)}
        for name, field in fields.items():
            kind = _common_type(field.type, also[name].type)
            if kind is None:
                raise DataError(
                    printable(
                        f"column {name!r} must be of one type, got {field.type} in {first} "
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
                f"all files must have the same columns, but {lacks} lacks {name!r}, which {has} "
                "has. Audit files of one kind together."
            )
        )


def _folder_columns(folders: Sequence[Mapping[str, str]]) -> list[Any]:
    """Return the columns of which the folders of every file tell a value (``country=fr/``)."""
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
    """Return the value that a folder's name tells, as the type of its column; None where it has none."""
    if value == _NO_VALUE:
        return None
    return int(value) if arrow().types.is_integer(kind) else value


def _common_type(a: Any, b: Any) -> Any:
    """Return the type that holds the values of both; None where there is none."""
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
