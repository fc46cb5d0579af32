"""Parquet files: read in row groups, once the sizes that they claim are checked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.arrow import arrow
from epiloss.sources.size_limits import Chunk, Pages, check_pages, chunks_of

_WHOLE = 2**28  # bytes of a row group that is read at once
_MARK = 4  # bytes at the beginning of every file
_FOOTER = 2**16  # bytes at the end of a file that are fetched first: most footers are shorter
_LONGEST = 2**16  # bytes of a text that is repeated by its number in a dictionary
_SMALL_FOOTER, _MOST_FOOTERS = 32, 2**11  # chunks of a footer, and how many such ones are remembered


def parquet_layout(mapped: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the schema of a file, and how many rows each row group has."""
    from pyarrow import parquet

    with parquet.ParquetFile(mapped) as file:
        meta = file.metadata
        sizes = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
        return file.schema_arrow, sizes


def needed_bytes(
    path: str, groups: tuple[int, int] = (0, 0), columns: Sequence[str] = ()
) -> Iterator[list[tuple[int, int]]]:
    """Yield which bytes a file must have for its footer, and then for some columns of some row groups.

    Each is a first byte, and the one behind the last; those that were yielded are there at the next.
    """
    size = os.path.getsize(path)
    first = max(size - _FOOTER, 0)
    yield [(0, min(_MARK, size)), (first, size)]
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

    ``state`` tells whether the file has changed since its footer was read last.
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
            yield from table.to_batches(size)  # cheaper than to read in batches


_known_chunks: dict[str, tuple[str, list[list[Chunk]]]] = {}  # of a large file, or of many small ones


def _chunks(path: str, state: str, data: memoryview) -> list[list[Chunk]]:
    """Return what the footer of a file tells; it is read once, while the file stays as it is."""
    known = _known_chunks.get(path)
    if known is None or known[0] != state or not state:
        chunks = chunks_of(data)
        if sum(map(len, chunks)) > _SMALL_FOOTER or len(_known_chunks) >= _MOST_FOOTERS:
            _known_chunks.clear()
        known = _known_chunks[path] = state, chunks
    return known[1]


def _is_of(path: str, columns: Sequence[str]) -> bool:
    """Tell whether a column of a Parquet file, which may be nested, belongs to one of some columns."""
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _rows_of_texts(mapped: Any, group: int, chunks: Sequence[Chunk], path: str, most: int) -> int:
    """Return how many rows fit into memory if each has the longest text of its column's dictionary."""
    from pyarrow import compute, parquet

    rows = most
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
