"""Checking the sizes that a file claims before memory is allocated for them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, printable

FREE = 2**28  # bytes that are always allowed
TIMES = 200  # largest allowed ratio of claimed to stored bytes
_I32, _I64, _U16, _U32 = (struct.Struct(kind) for kind in ("<i", "<q", "<H", "<I"))


def check_claim(what: str, claimed: int, held: int, remedy: str, times: int = TIMES) -> None:
    """Raise an error if a size is large and implausible for the number of stored bytes."""
    if claimed > FREE and claimed > times * held:
        raise DataError(
            printable(
                f"{what} must not expand to more than {times:,} times its {held:,} stored bytes, got "
                f"{claimed:,} bytes. {remedy}"
            )
        )


def check_messages(pa: Any, mapped: Any, kind: str, path: str) -> None:
    """Check the decompressed sizes of the buffers of an Arrow file or stream."""
    for message in _file_messages(pa, mapped) if kind == "file" else _stream_messages(pa, mapped):
        if message.type in ("record batch", "dictionary") and message.body is not None:
            claimed = sum(_expanded_sizes(_bytes(message.metadata), _bytes(message.body)))
            check_claim(
                f"a batch of {path}",
                claimed,
                len(message.body),
                "Write smaller batches, or without compression.",
            )


def _bytes(buffer: Any) -> memoryview:
    return memoryview(buffer).cast("B")  # pyarrow's buffers have signed bytes


def _stream_messages(pa: Any, mapped: Any) -> Iterator[Any]:
    mapped.seek(0)
    reader = pa.ipc.MessageReader.open_stream(mapped)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _file_messages(pa: Any, mapped: Any) -> Iterator[Any]:
    """Yield the messages that a file's footer lists (Apache Arrow, format/File.fbs)."""
    end = mapped.size() - 10
    mapped.seek(end)
    size = _I32.unpack(mapped.read(4))[0]
    mapped.seek(end - size)
    footer = _bytes(mapped.read_buffer(size))
    root = _U32.unpack_from(footer, 0)[0]
    for field in (2, 3):  # dictionaries and batches
        blocks = _table(footer, root, field)
        for place in range(0 if blocks is None else _U32.unpack_from(footer, blocks)[0]):
            mapped.seek(_I64.unpack_from(footer, (blocks or 0) + 4 + 24 * place)[0])
            yield pa.ipc.read_message(mapped)


def _expanded_sizes(metadata: memoryview, body: memoryview) -> Iterator[int]:
    """Yield the claimed decompressed size of each buffer of a batch.

    The metadata is a flatbuffer: a Message, whose header is a RecordBatch or a DictionaryBatch that
    contains one (Apache Arrow, format/Message.fbs). A compressed buffer begins with its decompressed
    size, or -1 if it is not compressed.
    """
    message = _U32.unpack_from(metadata, 0)[0]
    kind, header = _field(metadata, message, 1), _table(metadata, message, 2)
    if kind is None or header is None:
        return
    batch = _table(metadata, header, 1) if metadata[kind] == 2 else header
    if batch is None or _field(metadata, batch, 3) is None:
        return
    buffers = _table(metadata, batch, 2)
    for place in range(0 if buffers is None else _U32.unpack_from(metadata, buffers)[0]):
        at = (buffers or 0) + 4 + 16 * place
        offset, length = _I64.unpack_from(metadata, at)[0], _I64.unpack_from(metadata, at + 8)[0]
        if length >= 8:
            yield max(_I64.unpack_from(body, offset)[0], 0)


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Return the offset of a field of a flatbuffer table; None if it has the default value."""
    names = table - _I32.unpack_from(data, table)[0]
    slot = 4 + 2 * number
    if slot >= _U16.unpack_from(data, names)[0]:
        return None
    offset = _U16.unpack_from(data, names + slot)[0]
    return table + offset if offset else None


def _table(data: memoryview, table: int, number: int) -> int | None:
    place = _field(data, table, number)
    return None if place is None else place + _U32.unpack_from(data, place)[0]


@dataclass(frozen=True)
class Pages:
    """Total sizes of the pages of some column chunks, according to their headers."""

    n_bytes: int = 0  # decompressed
    n_values: int = 0
    dictionary: int = 0  # bytes of the largest dictionary

    def __add__(self, other: Pages) -> Pages:
        return Pages(
            self.n_bytes + other.n_bytes,
            self.n_values + other.n_values,
            max(self.dictionary, other.dictionary),
        )


@dataclass(frozen=True)
class Chunk:
    """A column chunk of a Parquet row group, according to the footer."""

    name: str
    is_text: bool
    n_values: int
    n_bytes: int
    stored: int
    first: int


def chunks_of(data: Any) -> list[list[Chunk]]:
    """Return the column chunks of each row group, from the bytes of a Parquet file.

    The footer is parsed here because pyarrow crashes on some damaged files. It is a FileMetaData of
    parquet.thrift: field 4 are the row groups, their field 1 the columns, whose field 3 describes the
    pages.
    """
    size = _I32.unpack_from(data, len(data) - 8)[0]
    if not 0 < size <= len(data) - 12:
        raise ValueError("the footer has no size")
    footer = _thrift(data[len(data) - 8 - size : len(data) - 8], 0)[0]
    try:
        return [[_chunk(column[3]) for column in group[1]] for group in footer[4]]
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the footer lacks required fields") from None


def _chunk(facts: Any) -> Chunk:
    places = [place for place in (facts.get(11), facts[9]) if place]
    name = b".".join(facts[3]).decode()
    n_values, n_bytes, stored = (_number(facts, field) for field in (5, 6, 7))
    return Chunk(name, facts[1] == 6, n_values, n_bytes, stored, min(places, default=0))


def check_pages(data: Any, chunk: Chunk, path: str) -> Pages:
    """Check the decompressed sizes of the pages of a Parquet column chunk; ``data`` is the whole file.

    Each page has a header in Thrift's compact protocol (Apache Parquet, parquet.thrift). Field 2 is its
    decompressed size and field 3 its stored size. Fields 5, 7 and 8 describe a data page, a dictionary
    page or a data page of version 2, whose field 1 is the number of values.
    """
    place, n_bytes, n_values, dictionary = chunk.first, 0, 0, 0
    if place <= 0:
        raise ValueError("a column has no pages")
    end = place + chunk.stored
    while place < min(end, len(data)):
        header, place = _thrift(data, place)
        size, stored = _number(header, 2), _number(header, 3)
        what, remedy = f"a page of {path}", "Write the file with smaller pages."
        check_claim(what, size, stored, remedy)
        if 7 in header:
            dictionary = size
            check_claim(what, 16 * _number(header[7], 1), size, remedy)
        else:
            n_values += sum(_number(header[kind], 1) for kind in (5, 8) if kind in header)
        n_bytes += size
        place += stored
    return Pages(n_bytes, n_values, dictionary)


def _number(header: Any, field: int) -> int:
    number = header.get(field) if isinstance(header, dict) else None
    if not isinstance(number, int) or number < 0:
        raise ValueError("a header lacks a size")
    return number


def _thrift(data: Any, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Parse a structure in Thrift's compact protocol; return its fields and the offset of its end."""
    if depth > 12:
        raise ValueError("a header is nested too deeply")
    found: dict[int, Any] = {}
    number = 0
    while True:
        head = data[place]
        place += 1
        if head == 0:
            return found, place
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, place = _whole(data, place)
        found[number], place = _value(data, place, kind, depth)


def _value(data: Any, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # booleans, which have no bytes of their own
        return None, place
    if kind == 3:
        return None, place + 1
    if kind in (4, 5, 6):
        return _whole(data, place)
    if kind == 7:
        return None, place + 8
    if kind == 8:
        length, place = _varint(data, place)
        return bytes(data[place : place + length]), place + length
    if kind == 9:
        return _list(data, place, depth)
    if kind == 12:
        return _thrift(data, place, depth + 1)
    raise ValueError("a header has an unknown field")  # sets and maps do not occur in Parquet


def _list(data: Any, place: int, depth: int) -> tuple[list[Any], int]:
    head = data[place]
    n, place = (head >> 4, place + 1) if head < 240 else _varint(data, place + 1)
    if n > len(data) - place:
        raise ValueError("a list is longer than the file")
    found = []
    for _ in range(n):
        value, place = _value(data, place, head & 15, depth + 1) if head & 15 > 2 else (None, place + 1)
        found.append(value)
    return found, place


def _varint(data: Any, place: int) -> tuple[int, int]:
    number = data[place]
    if number < 128:  # the most frequent case
        return number, place + 1
    number = 0
    for shift in range(0, 64, 7):
        number |= (data[place] & 127) << shift
        place += 1
        if data[place - 1] < 128:
            return number, place
    raise ValueError("a header has a number that is too long")


def _whole(data: Any, place: int) -> tuple[int, int]:
    number, place = _varint(data, place)
    return (number >> 1) ^ -(number & 1), place
