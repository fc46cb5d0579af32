"""Parquet files: read by row group, after checking their claimed sizes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.arrow import arrow
from epiloss.sources.size_limits import Chunk, Pages, check_pages, chunks_of

_WHOLE = 2**28  # row groups of at most this many bytes are read at once
_MAGIC_BYTES = 4  # length of the magic number at the beginning of a file
_FOOTER = 2**16  # bytes at the end of a file that are fetched first, enough for most footers
_MAX_STRING = 2**16  # bytes of a dictionary-encoded string
_SMALL_FOOTER, _MAX_FOOTERS = 32, 2**11  # chunks of a small footer, and number of cached small footers


def parquet_layout(mapped: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the schema of a file, and the number of rows of each row group."""
    from pyarrow import parquet

    with parquet.ParquetFile(mapped) as file:
        meta = file.metadata
        sizes = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
        return file.schema_arrow, sizes


def needed_bytes(
    path: str, groups: tuple[int, int] = (0, 0), columns: Sequence[str] = ()
) -> Iterator[list[tuple[int, int]]]:
    """Yield the byte ranges needed for the footer, then those for some columns of some row groups.

    A range is the first byte and the one after the last. The caller fills in each list of ranges
    before it asks for the next one.
    """
    size = os.path.getsize(path)
    first = max(size - _FOOTER, 0)
    yield [(0, min(_MAGIC_BYTES, size)), (first, size)]
    with open(path, "rb") as file:
        file.seek(max(size - 8, 0))
        length = int.from_bytes(file.read(4), "little")
    if not 0 < length <= size - 12:
        raise ValueError("the footer has no size")
    if size - 8 - length < first:
        yield [(size - 8 - length, size)]
    if range(*groups):
        with arrow().memory_map(path) as mapped:
            chunks = chunks_of(memoryview(mapped.read_buffer(size)).cast("B"))
        used = [one for group in range(*groups) for one in chunks[group] if _is_of(one.name, columns)]
        yield [(one.first, one.first + one.stored) for one in used]


def parquet_batches(
    mapped: Any, path: str, state: str, groups: tuple[int, int], columns: Sequence[str], size: int
) -> Iterator[Any]:
    """Read some columns of some row groups, in batches of ``size`` rows.

    ``state`` changes with the file, so that its footer is read again.
    """
    from pyarrow import parquet

    names = list(columns)
    with parquet.ParquetFile(mapped) as file:
        mapped.seek(0)
        data = memoryview(mapped.read_buffer(mapped.size())).cast("B")
        chunks = _chunks(path, state, data)
        for group in range(*groups):
            used = [one for one in chunks[group] if _is_of(one.name, columns)]
            pages = sum((check_pages(data, one, path) for one in used), Pages())
            least = _rows_of_texts(mapped, group, used, path, size) if pages.dictionary else size
            n_rows = file.metadata.row_group(group).num_rows
            if max(pages.n_bytes, 8 * pages.n_values, 8 * n_rows) > _WHOLE or least < size:
                yield from file.iter_batches(least, row_groups=[group], columns=names, use_threads=False)
                continue
            table = file.read_row_group(group, columns=names, use_threads=False)
            yield from table.to_batches(size)  # faster than iter_batches


_known_chunks: dict[str, tuple[str, list[list[Chunk]]]] = {}  # of one large file, or of many small ones


def _chunks(path: str, state: str, data: memoryview) -> list[list[Chunk]]:
    """Return the column chunks of a file; the footer is cached until the file changes."""
    known = _known_chunks.get(path)
    if known is None or known[0] != state or not state:
        chunks = chunks_of(data)
        if sum(map(len, chunks)) > _SMALL_FOOTER or len(_known_chunks) >= _MAX_FOOTERS:
            _known_chunks.clear()
        known = _known_chunks[path] = state, chunks
    return known[1]


def _is_of(path: str, columns: Sequence[str]) -> bool:
    """Return whether a Parquet column, which may be nested, belongs to one of some columns."""
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _rows_of_texts(mapped: Any, group: int, chunks: Sequence[Chunk], path: str, most: int) -> int:
    """Return how many rows fit in memory if each has the longest string of the dictionary."""
    from pyarrow import compute, parquet

    rows = most
    for one in chunks:
        # most dictionaries are so small that none of their strings can be long
        if not one.is_text or one.n_values * one.n_bytes <= _WHOLE:
            continue
        name = one.name
        with parquet.ParquetFile(mapped, read_dictionary=[name]) as file:
            first = next(file.iter_batches(1, row_groups=[group], columns=[name]), None)
        if first is None or not arrow().types.is_dictionary(first.column(0).type):
            continue
        longest = compute.max(compute.binary_length(first.column(0).dictionary)).as_py() or 1
        if longest > _MAX_STRING:
            raise DataError(
                printable(
                    f"strings in column {name!r} of {path} must have at most {_MAX_STRING:,} bytes, got "
                    f"{longest:,}. Drop the column from the file, or shorten its strings."
                )
            )
        rows = min(rows, _WHOLE // longest)
    return rows
