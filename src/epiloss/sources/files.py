"""Files: Parquet, CSV, JSON lines and Arrow, one or many, also in partitioned folders."""

from __future__ import annotations

import io
import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.addresses import is_remote
from epiloss.sources.arrow import arrow, is_text, with_notes
from epiloss.sources.base import Part, Source, batch_rows, completed, list_widths
from epiloss.sources.csv import csv_batches, csv_schema
from epiloss.sources.databases import HEAD, database_kind, needs_query
from epiloss.sources.discovery import find_files
from epiloss.sources.ipc import ipc_batches, ipc_schema
from epiloss.sources.json_lines import is_json, json_batches, json_schema
from epiloss.sources.parquet import needed_bytes, parquet_batches, parquet_layout
from epiloss.sources.remote import SMALL, RemoteFile, find_remote
from epiloss.sources.schemas import check_names, common_schema, folder_value, without_nulls
from epiloss.sources.size_limits import check_claim

PART_ROWS = 2**18  # minimum number of rows of a part of a Parquet file
_BITS_OF_OTHERS = 64  # assumed size of a string
_MAGIC = {"parquet": b"PAR1", "file": b"ARROW1", "stream": b"\xff\xff\xff\xff"}


@dataclass(frozen=True)
class FilePart(Part):
    """A file, or some row groups of a Parquet file.

    ``constants`` are the columns given by the names of folders (``country=fr/``).
    """

    path: str
    kind: str
    schema: Any
    constants: Mapping[str, Any]
    groups: tuple[int, int] | None = None
    first_row: int = 0
    n_rows: int | None = None
    state: str = ""
    content: bytes | None = None  # the bytes, if they do not come from a file, as for standard input
    folder: str = ""  # the folder that a relative path refers to
    n_bytes: int = 0  # stored size
    remote: RemoteFile | None = None  # the remote file, of which ``path`` is the address
    fetched: str = ""  # a local copy of the needed bytes of a remote file

    @property
    def place(self) -> str:
        """The path from the working directory, which may be another one in a worker process."""
        if self.fetched:
            return self.fetched
        here = self.content is not None or os.getcwd() == self.folder
        return self.path if here else os.path.join(self.folder, self.path)

    @property
    def name(self) -> str:
        """The file."""
        return self.path

    @property
    def identity(self) -> str:
        """The file, its size and modification time, and the row groups."""
        return f"{self.path}|{self.state}|{self.groups}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read the part; errors name the file."""
        stored = [name for name in columns if name not in self.constants]
        is_coded = arrow().types.is_dictionary
        with file_errors(self.path), self._local(stored) as part:
            for batch in _READERS[self.kind](part, stored):
                if batch.num_rows:
                    if any(is_text(kind) or is_coded(kind) for kind in batch.schema.types):
                        batch.validate(full=True)  # strings are UTF-8, and codes are in the dictionary
                    yield completed(batch, self.schema, columns, self.constants)

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the approximate number of bytes read; for Parquet, only those of the columns."""
        if self.kind != "parquet":
            return self.n_bytes
        bits = {one.name: _bits(one.type) for one in self.schema if one.name not in self.constants}
        read = sum(bits[name] for name in set(columns) & set(bits))
        return self.n_bytes * read // max(sum(bits.values()), 1)

    @contextmanager
    def _local(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the part with a local copy of the bytes of a remote file that the columns need."""
        if self.remote is None or self.content is not None:
            yield self
            return
        groups = self.groups or (0, 0)
        needed = (
            partial(needed_bytes, groups=groups, columns=columns) if self.kind == "parquet" else None
        )
        with self.remote.fetched(needed) as local:
            yield replace(self, fetched=local)


@contextmanager
def file_errors(path: str, more: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Convert the errors of readers, and ``more`` errors, into a DataError that names the file."""
    broken = (arrow().ArrowException, OSError, EOFError, ValueError, LookupError, struct.error)
    try:
        yield
    except DataError:
        raise
    except (*broken, *more) as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: BaseException) -> DataError:
    """Return the error for a file that cannot be read."""
    if isinstance(error, MemoryError):
        return DataError(
            f"not enough memory to read {printable(path)}. Use fewer columns or jobs, or write the file "
            "with smaller row groups."
        )
    reason = printable(" ".join(str(error).split()))[:200].rstrip(".")
    return DataError(
        f"{printable(path)} cannot be read: {reason}. Check that the file is complete; with a "
        "checkpoint, the results of other files are kept."
    )


def _bits(kind: Any) -> int:
    """Return the number of bits of a value; strings are assumed to be as long as numbers."""
    types = arrow().types
    if types.is_fixed_size_list(kind):
        return int(kind.list_size) * _bits(kind.value_type)
    return int(kind.bit_width) if types.is_primitive(kind) else _BITS_OF_OTHERS


def _parquet_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    size = batch_rows(part.schema, columns)
    with _mapped(part.place, part.content) as mapped:
        yield from parquet_batches(mapped, part.path, part.state, part.groups or (0, 0), columns, size)


def _ipc_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    size = batch_rows(part.schema, columns)
    with _mapped(part.place, part.content) as mapped:
        yield from ipc_batches(mapped, part.kind, columns, size)


def _csv_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    return csv_batches(part.place, part.content, part.schema, columns)


def _json_batches(part: FilePart, columns: Sequence[str]) -> Iterator[Any]:
    size = batch_rows(part.schema, columns)
    return json_batches(part.place, part.content, part.state, part.schema, columns, size)


_READERS = {
    "parquet": _parquet_batches,
    "file": _ipc_batches,
    "stream": _ipc_batches,
    "csv": _csv_batches,
    "json": _json_batches,
}


def _mapped(path: str, content: bytes | None) -> Any:
    """Return the bytes of a file with random access."""
    pa = arrow()
    return pa.memory_map(path) if content is None else pa.BufferReader(content)


def read_table(path: str, content: bytes | None = None) -> Any:
    """Return a file as one table; if its ``content`` is given, ``path`` is only its name in errors."""
    pa = arrow()
    opened = _opened(path, {}, content)
    check_names(path, opened.schema)
    schema = without_nulls(with_notes(opened.schema))
    batches, n_bytes = [], 0
    for part in opened.parts(schema):
        for batch in part.batches(schema.names):
            n_bytes += batch.nbytes
            check_claim(path, n_bytes, opened.n_bytes, "Split the file.")
            batches.append(batch)
    if not batches:
        return schema.empty_table()
    table = pa.Table.from_batches(batches).cast(schema)
    return _with_integers(table) if opened.kind in ("csv", "json") else table


def _with_integers(table: Any) -> Any:
    """Convert columns of numbers without fractions to integers."""
    pa = arrow()
    for place, field in enumerate(table.schema):
        if field.type == pa.float64():
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, field.name, table.column(place).cast(pa.int64()))
    return table


def open_files(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Source:
    """Find files by name, folder or pattern, and read their schemas."""
    names = [given] if isinstance(given, str | os.PathLike) else list(given)
    addresses = [os.fspath(name) for name in names if is_remote(name)]
    local = [name for name in names if os.fspath(name) not in addresses]
    paths, others = find_files(local) if local else ([], [])
    opened = [_opened(path, folders) for path, folders in paths]
    opened += _opened_remote(addresses)
    schema = common_schema({one.path: one.schema for one in opened}, [one.folders for one in opened])
    parts = [part for one in opened for part in one.parts(schema)]
    return Source(schema, parts, list_widths(schema, parts), _ignored_files(others))


def _ignored_files(others: Sequence[str]) -> tuple[str, ...]:
    """Return the remark on files in the folders that are not read."""
    if not others:
        return ()
    some = ", ".join(Path(one).name for one in others[:3]) + (", ..." if len(others) > 3 else "")
    n = f"{len(others)} other files" if len(others) > 1 else "one other file"
    return (printable(f"{n} in the folder left out: {some}."),)


@dataclass(frozen=True)
class _Opened:
    """A file with its schema; ``folders`` are the values in the names of its folders."""

    path: str
    kind: str
    schema: Any
    folders: Mapping[str, str]
    sizes: tuple[int, ...] | None  # number of rows of each row group
    state: str
    n_bytes: int
    content: bytes | None
    remote: RemoteFile | None = None

    def parts(self, schema: Any) -> Iterator[FilePart]:
        """Yield the parts of the file; for Parquet, each has some row groups."""
        given = [name for name in self.folders if name in schema.names and name not in self.schema.names]
        constants = {name: folder_value(self.folders[name], schema.field(name).type) for name in given}
        whole = FilePart(self.path, self.kind, schema, constants, state=self.state, n_bytes=self.n_bytes)
        whole = replace(whole, content=self.content, folder=os.getcwd(), remote=self.remote)
        if self.sizes is None:
            yield whole
            return
        first, rows, before, total = 0, 0, 0, sum(self.sizes)
        for group, size in enumerate(self.sizes):
            rows += size
            if rows >= PART_ROWS or group + 1 == len(self.sizes):
                n_bytes = self.n_bytes * rows // total if total else self.n_bytes
                groups = (first, group + 1)
                yield replace(whole, groups=groups, first_row=before, n_rows=rows, n_bytes=n_bytes)
                first, before, rows = group + 1, before + rows, 0


def _opened(path: str, folders: Mapping[str, str], content: bytes | None = None) -> _Opened:
    with file_errors(path):
        state, n_bytes = "", len(content or b"")
        if content is None:
            status = os.stat(path)
            state, n_bytes = f"{status.st_size}|{status.st_mtime_ns}", status.st_size
            if not stat.S_ISREG(status.st_mode):
                raise DataError(
                    f"{printable(path)} is not a regular file, which is needed to read it several "
                    "times. Write the data to a file, or pass - and pipe them to standard input."
                )
        if n_bytes == 0:
            raise DataError(f"{printable(path)} is empty. Write it again, or leave it out.")
        kind, schema, sizes = _format_and_schema(path, content)
    return _Opened(path, kind, schema, folders, sizes, state, n_bytes, content)


def _opened_remote(addresses: Sequence[str]) -> list[_Opened]:
    """Open remote files; if they are small together, they are fetched once and kept in memory."""
    found = {one.address: (one, values) for name in addresses for one, values in find_remote(name)}
    sizes = [one.size for one, _ in found.values()]
    small = None not in sizes and sum(size or 0 for size in sizes) <= SMALL
    opened = []
    for one, folders in found.values():
        if small:
            read = _opened(one.name, folders, one.content())
        else:
            with file_errors(one.name), _local_header(one) as local:
                read = replace(_opened(local, folders), path=one.name, n_bytes=one.size or 0)
        opened.append(replace(read, remote=one, state=one.state))
    return opened


@contextmanager
def _local_header(remote: RemoteFile) -> Iterator[str]:
    """Yield a local file with the bytes of a remote file that its schema is read from."""
    head = remote.head(HEAD)
    kind = next((kind for kind, magic in _MAGIC.items() if head.startswith(magic)), "csv")
    if kind == "csv" and remote.size is not None:
        with remote.beginning() as local:
            yield local
        return
    with remote.fetched(needed_bytes if kind == "parquet" else None) as local:
        yield local


def _format_and_schema(path: str, content: bytes | None) -> tuple[str, Any, tuple[int, ...] | None]:
    """Return the format of a file, its schema, and for Parquet the numbers of rows of row groups.

    The format is inferred from the content: Parquet and Arrow files begin with a magic number, JSON
    with a bracket, and everything else is CSV.
    """
    with open(path, "rb") if content is None else io.BytesIO(content) as file:
        head = file.read(HEAD)
    database = database_kind(head)
    if database is not None:
        raise needs_query(path, database, is_file=content is None)
    kind = next((kind for kind, magic in _MAGIC.items() if head.startswith(magic)), "csv")
    if kind == "csv":
        if is_json(path, content):
            return "json", json_schema(path, content), None
        return kind, csv_schema(path, content), None
    with _mapped(path, content) as mapped:
        if kind == "parquet":
            return kind, *parquet_layout(mapped)
        return kind, ipc_schema(mapped, kind, path), None
