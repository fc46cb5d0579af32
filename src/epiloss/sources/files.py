"""Files: Parquet, CSV and Arrow, one or many, in folders whose names may tell columns."""

from __future__ import annotations

import io
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.arrow import OF_DAYS, arrow, is_of_days, is_text, with_notes
from epiloss.sources.base import Part, Source, batch_rows, completed, list_widths, plain_schema
from epiloss.sources.csv import csv_batches, csv_schema
from epiloss.sources.discovery import find_files
from epiloss.sources.size_limits import Chunk, Pages, check_claim, check_messages, check_pages, chunks_of

PART_ROWS = 2**20  # of a Parquet file that are read as one part
_WHOLE = 2**28  # bytes of a row group that is read at once
_LONGEST = 2**16  # bytes of a text that is repeated by its number in a dictionary
_MARKS = {"parquet": b"PAR1", "file": b"ARROW1", "stream": b"\xff\xff\xff\xff"}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the name of a folder for rows without one


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
    content: bytes | None = None  # of what is no file, as the standard input
    folder: str = ""  # from which the path was given

    @property
    def place(self) -> str:
        """The path as it is found from here: workers may have been started in another folder."""
        here = self.content is not None or os.getcwd() == self.folder
        return self.path if here else os.path.join(self.folder, self.path)

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
        stored = [name for name in columns if name not in self.constants]
        is_coded = arrow().types.is_dictionary
        with in_words(self.path):
            for batch in _READERS[self.kind](self, stored):
                if batch.num_rows:
                    if any(is_text(kind) or is_coded(kind) for kind in batch.schema.types):
                        batch.validate(full=True)  # that texts are UTF-8, and codes in the dictionary
                    yield completed(batch, self.schema, columns, self.constants)


@contextmanager
def in_words(path: str, more: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Say of a file that it cannot be read, where these or ``more`` errors tell so."""
    broken = (arrow().ArrowException, OSError, EOFError, ValueError, LookupError, struct.error)
    try:
        yield
    except DataError:
        raise
    except (*broken, *more) as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: BaseException) -> DataError:
    """Return what to say of a file that cannot be read."""
    if isinstance(error, MemoryError):
        return DataError(
            f"there is not enough memory to read {printable(path)}. Use fewer columns or jobs, or write "
            "it in smaller row groups."
        )
    reason = printable(" ".join(str(error).split()))[:200].rstrip(".")
    return DataError(
        f"{printable(path)} cannot be read: {reason}. Check that the file is whole; what was counted of "
        "other files is kept where there is a checkpoint."
    )


def _mapped(path: str, content: bytes | None) -> Any:
    """Return the bytes of a file, to read from any place."""
    pa = arrow()
    return pa.memory_map(path) if content is None else pa.BufferReader(content)


def _parquet_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    from pyarrow import parquet

    size = batch_rows(part.schema, columns)
    with _mapped(part.place, part.content) as mapped, parquet.ParquetFile(mapped) as file:
        mapped.seek(0)
        data = memoryview(mapped.read_buffer(mapped.size())).cast("B")
        chunks = _chunks(part.path, part.state, data)
        for group in range(*(part.groups or (0, 0))):
            meta = file.metadata.row_group(group)
            used = [one for one in chunks[group] if _is_of(one.name, columns)]
            pages = sum((check_pages(data, one, part.path) for one in used), Pages())
            least = (
                min(size, _rows_of_texts(mapped, group, used, part.path)) if pages.dictionary else size
            )
            if max(pages.n_bytes, 8 * pages.n_values, 8 * meta.num_rows) > _WHOLE or least < size:
                names = list(columns)
                yield from file.iter_batches(least, row_groups=[group], columns=names, use_threads=False)
                continue
            table = file.read_row_group(group, columns=list(columns), use_threads=False)
            yield from table.to_batches(size)  # cheaper than to read in batches


_known_chunks: dict[str, tuple[str, list[list[Chunk]]]] = {}  # of the last file


def _chunks(path: str, state: str, data: memoryview) -> list[list[Chunk]]:
    """Return what the footer of a file tells; of a file that is read in many parts, it is read once."""
    if _known_chunks.get(path, ("", []))[0] != state or not state:
        _known_chunks.clear()
        _known_chunks[path] = state, chunks_of(data)
    return _known_chunks[path][1]


def _is_of(path: str, columns: Sequence[str]) -> bool:
    """Tell whether a column of a Parquet file, which may be nested, belongs to one of some columns."""
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _rows_of_texts(mapped: Any, group: int, chunks: Sequence[Chunk], path: str) -> int:
    """Return how many rows fit into memory if each has the longest text of its column's dictionary."""
    from pyarrow import compute, parquet

    rows = PART_ROWS
    for one in chunks:
        # of most dictionaries the size alone tells that no text in it is long
        if not one.is_text or one.n_values * one.n_bytes <= _WHOLE:
            continue
        name = one.name
        with parquet.ParquetFile(mapped, read_dictionary=[name]) as file:
            first = next(file.iter_batches(1, row_groups=[group], columns=[name]), None)
        if first is None or not arrow().types.is_dictionary(first.column(0).type):
            continue
        longest = compute.max(compute.binary_length(first.column(0).dictionary)).as_py() or 1
        if longest > _LONGEST:
            raise DataError(
                printable(
                    f"column {name!r} of {path} repeats a text of {longest:,} bytes, and the most are "
                    f"{_LONGEST:,}. Leave the column out of the file, or shorten its texts."
                )
            )
        rows = min(rows, _WHOLE // longest)
    return rows


def _ipc_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    size = batch_rows(part.schema, columns)
    with _mapped(part.place, part.content) as mapped:
        names = _ipc_reader(mapped, part.kind).schema.names
        reader = _ipc_reader(mapped, part.kind, sorted(names.index(name) for name in columns))
        in_file = part.kind == "file"
        for batch in map(reader.get_batch, range(reader.num_record_batches)) if in_file else reader:
            batch.validate(full=True)
            yield from (batch.slice(start, size) for start in range(0, batch.num_rows, size))


def _ipc_reader(mapped: Any, kind: str, fields: list[int] | None = None) -> Any:
    """Return the reader of an Arrow file or stream, of some of its columns if they are given."""
    pa = arrow()
    mapped.seek(0)
    opened = pa.ipc.open_file if kind == "file" else pa.ipc.open_stream
    return opened(mapped, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))


def _csv_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    return csv_batches(part.place, part.content, part.schema, columns)


_READERS = {
    "parquet": _parquet_batches,
    "file": _ipc_batches,
    "stream": _ipc_batches,
    "csv": _csv_batches,
}


def read_table(path: str, content: bytes | None = None) -> Any:
    """Return a file as one table; with its bytes given, ``path`` is only what it is called."""
    pa = arrow()
    opened = _opened(path, {}, content)
    _check_names(opened)
    schema = _without_nulls(with_notes(opened.schema))
    batches, n_bytes = [], 0
    for part in opened.parts(schema):
        for batch in part.batches(schema.names):
            n_bytes += batch.nbytes
            check_claim(path, n_bytes, opened.n_bytes, "Split the file, or use it in parts.")
            batches.append(batch)
    if not batches:
        return schema.empty_table()
    table = pa.Table.from_batches(batches).cast(schema)
    return _whole_numbers(table) if opened.kind == "csv" else table


def _whole_numbers(table: Any) -> Any:
    """Return a table where numbers of which none has a fraction are whole numbers."""
    pa = arrow()
    for place, field in enumerate(table.schema):
        if field.type == pa.float64():
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, field.name, table.column(place).cast(pa.int64()))
    return table


def open_files(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Source:
    """Find files by name, folder or pattern, and read what they say of themselves."""
    paths, others = find_files(given)
    opened = [_opened(path, constants) for path, constants in paths]
    schema = _common_schema(opened)
    parts = [part for one in opened for part in one.parts(schema)]
    return Source(schema, parts, list_widths(schema, parts), _left_out(others))


def _left_out(others: Sequence[str]) -> tuple[str, ...]:
    """Say which files of folders are not read."""
    if not others:
        return ()
    some = ", ".join(Path(one).name for one in others[:3]) + (", ..." if len(others) > 3 else "")
    n = f"{len(others)} files" if len(others) > 1 else "one file"
    return (printable(f"{n} beside the data, left out: {some}."),)


@dataclass(frozen=True)
class _Opened:
    """A file, of which the schema is known."""

    path: str
    kind: str
    schema: Any
    constants: dict[str, str]
    sizes: tuple[int, ...] | None  # of the row groups
    state: str
    n_bytes: int
    content: bytes | None

    def parts(self, schema: Any) -> Iterator[FilePart]:
        given = [name for name in self.constants if name in schema.names]
        constants = {
            name: self._constant(name, schema) for name in given if name not in self.schema.names
        }
        if self.sizes is None:
            facts = (None, 0, None, self.state, self.content, os.getcwd())
            yield FilePart(self.path, self.kind, schema, constants, *facts)
            return
        first, rows, before = 0, 0, 0
        for group, size in enumerate(self.sizes):
            rows += size
            if rows >= PART_ROWS or group + 1 == len(self.sizes):
                groups = (first, group + 1)
                row_groups = (groups, before, rows, self.state, self.content, os.getcwd())
                yield FilePart(self.path, self.kind, schema, constants, *row_groups)
                first, before, rows = group + 1, before + rows, 0

    def _constant(self, name: str, schema: Any) -> Any:
        value = self.constants[name]
        if value == _NO_VALUE:
            return None
        return int(value) if arrow().types.is_integer(schema.field(name).type) else value


def _opened(path: str, constants: dict[str, str], content: bytes | None = None) -> _Opened:
    with in_words(path):
        state, n_bytes = "", len(content or b"")
        if content is None:
            status = os.stat(path)
            state, n_bytes = f"{status.st_size}|{status.st_mtime_ns}", status.st_size
            if not stat.S_ISREG(status.st_mode):
                raise DataError(
                    f"{printable(path)} is no file that can be read several times. Write it to one, or "
                    "give it by the standard input: -."
                )
        if n_bytes == 0:
            raise DataError(f"{printable(path)} is empty. Write it again, or leave it out.")
        kind, schema, sizes = _looked_at(path, content)
    return _Opened(path, kind, schema, constants, sizes, state, n_bytes, content)


def _looked_at(path: str, content: bytes | None) -> tuple[str, Any, tuple[int, ...] | None]:
    """Return the kind of a file, its schema, and the sizes of its row groups if it has any.

    The kind is told from the content: Parquet and Arrow files carry a mark, all else is CSV.
    """
    with open(path, "rb") if content is None else io.BytesIO(content) as file:
        head = file.read(8)
    kind = next((kind for kind, mark in _MARKS.items() if head.startswith(mark)), "csv")
    if kind == "csv":
        return kind, csv_schema(path, content), None
    with _mapped(path, content) as mapped:
        if kind == "parquet":
            from pyarrow import parquet

            with parquet.ParquetFile(mapped) as opened:
                meta = opened.metadata
                sizes = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
                return kind, opened.schema_arrow, sizes
        schema = _ipc_reader(mapped, kind).schema
        _ = schema.names  # which fails here if they are not UTF-8
        check_messages(arrow(), mapped, kind, path)
        return kind, schema, None


def _check_names(opened: _Opened) -> None:
    names = opened.schema.names
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(
            printable(
                f"columns must have distinct names, got {repeated!r} twice in {opened.path}. "
                "Rename one of them."
            )
        )


def _without_nulls(schema: Any) -> Any:
    """Return a schema where a column without values is one of numbers, and any value may be missing."""
    pa = arrow()
    fields = [one.with_type(pa.float64()) if pa.types.is_null(one.type) else one for one in schema]
    return pa.schema([one.with_nullable(True) for one in fields])


def _common_schema(opened: Sequence[_Opened]) -> Any:
    """Return the columns that all files have, and those of their folders' names."""
    pa = arrow()
    first = opened[0]
    _check_names(first)
    fields = {field.name: field for field in plain_schema(first.schema)}
    for other in opened[1:]:
        _check_names(other)
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
        others = {field.name: field for field in plain_schema(other.schema)}
        for name, first_field in fields.items():
            kind = _common_type(first_field.type, others[name].type)
            if kind is None:
                raise DataError(
                    printable(
                        f"column {name!r} must be of one type, got {first_field.type} in {first.path} "
                        f"and {other.schema.field(name).type} in {other.path}. Convert it."
                    )
                )
            if is_of_days(first_field) and not is_of_days(others[name]):
                kept = {key: one for key, one in first_field.metadata.items() if key not in OF_DAYS}
                first_field = first_field.with_metadata(kept)
            fields[name] = first_field.with_type(kind)
    keys = {name: [one.constants.get(name) for one in opened] for name in first.constants}
    for name, values in keys.items():
        if name in fields or None in values:
            continue
        known = [value for value in values if value is not None and value != _NO_VALUE]
        whole = all(re.fullmatch(r"-?[0-9]{1,18}", value) for value in known)
        fields[name] = pa.field(name, pa.int64() if whole else pa.string())
    return _without_nulls(pa.schema(list(fields.values())))


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
