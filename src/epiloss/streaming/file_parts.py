"""Files: Parquet, CSV and Arrow, one or many, in folders whose names may tell columns."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from epiloss.errors import DataError, printable
from epiloss.streaming.arrow import arrow
from epiloss.streaming.sources import Part, Source, batch_rows, completed, list_widths, plain_schema

PART_ROWS = 2**20  # of a Parquet file that are read as one part
_WHOLE = 2**28  # bytes of a row group that is read at once
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the name of a folder for rows without one
_HIDDEN = ("_", ".")  # how names begin of files that tools leave beside the data


@dataclass(frozen=True)
class FilePart(Part):
    """A file, or some row groups of a Parquet file.

    ``constants`` are the columns that the folders' names give (``country=fr/``).
    """

    path: str
    kind: str
    schema: Any
    constants: Mapping[str, Any]
    groups: tuple[int, int] | None = None
    first_row: int = 0
    n_rows: int | None = None
    state: str = ""

    @property
    def name(self) -> str:
        """The file."""
        return self.path

    @property
    def identity(self) -> str:
        """The file, its size and time, and the row groups."""
        return f"{self.path}|{self.state}|{self.groups}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read the part; what is wrong with the file is said with its name."""
        pa = arrow()
        stored = [name for name in columns if name not in self.constants]
        try:
            for batch in _READERS[self.kind](self, stored):
                if batch.num_rows:
                    yield completed(batch, self.schema, columns, self.constants)
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise unreadable(self.path, error) from error


def unreadable(path: str, error: BaseException) -> DataError:
    """Return what to say of a file that cannot be read."""
    reason = printable(" ".join(str(error).split()))[:200].rstrip(".")
    return DataError(
        f"{printable(path)} cannot be read: {reason}. Check that the file is whole; what was counted of "
        "other files is kept where there is a checkpoint."
    )


def _parquet_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    from pyarrow import parquet

    size = batch_rows(part.schema, columns)
    with parquet.ParquetFile(part.path, memory_map=True) as file:
        for group in range(*(part.groups or (0, 0))):
            meta = file.metadata.row_group(group)
            if meta.total_byte_size > _WHOLE:
                yield from file.iter_batches(size, row_groups=[group], columns=list(columns))
                continue
            table = file.read_row_group(group, columns=list(columns), use_threads=False)
            yield from table.to_batches(size)  # cheaper than to read in batches


def _ipc_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    pa = arrow()
    with pa.memory_map(part.path) as mapped:
        if part.kind == "stream":
            batches = iter(pa.ipc.open_stream(mapped))
        else:
            file = pa.ipc.open_file(mapped)
            batches = (file.get_batch(i) for i in range(file.num_record_batches))
        for batch in batches:
            batch.validate(full=True)
            some = batch.select(list(columns))
            size = batch_rows(part.schema, columns)
            yield from (some.slice(start, size) for start in range(0, some.num_rows, size))


def _csv_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    from pyarrow import csv

    types = {name: part.schema.field(name).type for name in columns}
    options = csv.ConvertOptions(column_types=types, include_columns=list(columns))
    with _text(part.path) as stream, csv.open_csv(stream, convert_options=options) as batches:
        yield from batches


_READERS = {
    "parquet": _parquet_batches,
    "file": _ipc_batches,
    "stream": _ipc_batches,
    "csv": _csv_batches,
}


def _text(path: str) -> Any:
    """Return the bytes of a text, expanded if it is compressed."""
    pa = arrow()
    return pa.input_stream(path, compression=_compression(path))


def _compression(path: str) -> str | None:
    with open(path, "rb") as file:
        head = file.read(4)
    return next((name for mark, name in _COMPRESSED.items() if head.startswith(mark)), None)


def open_files(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Source:
    """Find files by name, folder or pattern, and read what they say of themselves."""
    paths = find_files(given)
    opened = [_opened(path, constants) for path, constants in paths]
    schema = _common_schema(opened)
    parts = [part for one in opened for part in one.parts(schema)]
    return Source(schema, parts, list_widths(schema, parts))


def find_files(
    given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> list[tuple[str, dict[str, str]]]:
    """Return the files, in order, each with what its folders' names say (``country=fr/``)."""
    names = [given] if isinstance(given, str | os.PathLike) else list(given)
    found: dict[str, dict[str, str]] = {}
    for one in names:
        name = os.fspath(one)
        for root in _matching(name):
            if os.path.isdir(root):
                inside = [path for path in Path(root).rglob("*") if _is_data(path, Path(root))]
                found |= {str(path): _folder_values(str(path.relative_to(root))) for path in inside}
            else:
                found[root] = _folder_values(root)
    if not found:
        raise DataError(
            printable(f"no file {', '.join(map(str, names))!r}. Check the path or the pattern.")
        )
    return sorted(found.items())


def _matching(name: str) -> list[str]:
    if os.path.exists(name):
        return [name]
    found = glob.glob(name, recursive=True) if glob.has_magic(name) else []
    if not found:
        raise DataError(printable(f"no file {name!r}. Check the path or the pattern."))
    return found


def _is_data(path: Path, root: Path) -> bool:
    hidden = any(part.startswith(_HIDDEN) and "=" not in part for part in path.relative_to(root).parts)
    return path.is_file() and not hidden


def _folder_values(path: str) -> dict[str, str]:
    folders = Path(path).parts[:-1]
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return {name: unquote(value) for name, value in pairs if name.isidentifier()}


@dataclass(frozen=True)
class _Opened:
    """A file, of which the schema is known."""

    path: str
    kind: str
    schema: Any
    constants: dict[str, str]
    sizes: tuple[int, ...] | None  # of the row groups
    state: str

    def parts(self, schema: Any) -> Iterator[FilePart]:
        given = [name for name in self.constants if name in schema.names]
        constants = {
            name: self._constant(name, schema) for name in given if name not in self.schema.names
        }
        if self.sizes is None:
            yield FilePart(self.path, self.kind, schema, constants, state=self.state)
            return
        first, rows, before = 0, 0, 0
        for group, size in enumerate(self.sizes):
            rows += size
            if rows >= PART_ROWS or group + 1 == len(self.sizes):
                groups = (first, group + 1)
                yield FilePart(self.path, self.kind, schema, constants, groups, before, rows, self.state)
                first, before, rows = group + 1, before + rows, 0

    def _constant(self, name: str, schema: Any) -> Any:
        value = self.constants[name]
        if value == _NO_VALUE:
            return None
        return int(value) if arrow().types.is_integer(schema.field(name).type) else value


def _opened(path: str, constants: dict[str, str]) -> _Opened:
    pa = arrow()
    try:
        status = os.stat(path)
        with open(path, "rb") as file:
            head = file.read(8)
        kind, sizes = "csv", None
        if head.startswith(b"PAR1"):
            from pyarrow import parquet

            kind = "parquet"
            with parquet.ParquetFile(path) as opened:
                schema, meta = opened.schema_arrow, opened.metadata
                sizes = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
        elif head.startswith(b"ARROW1"):
            kind, schema = "file", pa.ipc.open_file(pa.memory_map(path)).schema
        elif head.startswith(b"\xff\xff\xff\xff"):
            kind, schema = "stream", pa.ipc.open_stream(pa.memory_map(path)).schema
        else:
            schema = _csv_schema(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, error) from error
    return _Opened(path, kind, schema, constants, sizes, f"{status.st_size}|{status.st_mtime_ns}")


def _csv_schema(path: str) -> Any:
    """Return the schema of a CSV file's beginning; whole numbers may have fractions further on."""
    from pyarrow import csv

    pa = arrow()
    with _text(path) as stream, csv.open_csv(stream) as batches:
        schema = batches.schema
    wider = {field.name: pa.float64() for field in schema if pa.types.is_integer(field.type)}
    return pa.schema([field.with_type(wider.get(field.name, field.type)) for field in schema])


def _common_schema(opened: Sequence[_Opened]) -> Any:
    """Return the columns that all files have, and those of their folders' names."""
    pa = arrow()
    first = opened[0]
    fields = {field.name: field for field in plain_schema(first.schema)}
    if len(fields) < len(first.schema.names):
        repeated = next(name for name in first.schema.names if first.schema.names.count(name) > 1)
        raise DataError(
            printable(
                f"columns must have distinct names, got {repeated!r} twice in {first.path}. "
                "Rename one of them."
            )
        )
    for other in opened[1:]:
        odd = set(fields) ^ set(other.schema.names)
        if odd:
            name = min(odd)
            lacks, has = (other.path, first.path) if name in fields else (first.path, other.path)
            raise DataError(
                printable(
                    f"all files must have the same columns, but {lacks} lacks {name!r}, which {has} "
                    "has. Audit files of one kind together."
                )
            )
        kinds = {field.name: field.type for field in plain_schema(other.schema)}
        for name, first_field in fields.items():
            kind = _common_type(first_field.type, kinds[name])
            if kind is None:
                raise DataError(
                    printable(
                        f"column {name!r} must be of one type, got {first_field.type} in {first.path} "
                        f"and {other.schema.field(name).type} in {other.path}. Convert it."
                    )
                )
            fields[name] = first_field.with_type(kind)
    keys = {name: [one.constants.get(name) for one in opened] for name in first.constants}
    for name, values in keys.items():
        if name in fields or None in values:
            continue
        known = [value for value in values if value is not None and value != _NO_VALUE]
        whole = all(re.fullmatch(r"-?[0-9]{1,18}", value) for value in known)
        fields[name] = pa.field(name, pa.int64() if whole else pa.string())
    # a column without any value is one of numbers that are missing
    return pa.schema(
        [one.with_type(pa.float64()) if pa.types.is_null(one.type) else one for one in fields.values()]
    )


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
