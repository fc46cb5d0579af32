"""What a file claims to hold is checked before any memory is taken for it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, printable

FREE = 2**28  # bytes that anything may claim
TIMES = 200  # more bytes than so many for each byte of the file are not believed
_I32, _I64, _U16, _U32 = (struct.Struct(kind) for kind in ("<i", "<q", "<H", "<I"))


def check_claim(what: str, claimed: int, held: int, remedy: str, times: int = TIMES) -> None:
    """Refuse what claims to be very large and is stored in very little."""
    if claimed > FREE and claimed > times * held:
        raise DataError(
            printable(
                f"{what} claims {claimed:,} bytes from {held:,} in the file, which is not believed "
                f"(over {FREE:,} it must be at most {times:,} times as many). {remedy}"
            )
        )


def check_messages(pa: Any, mapped: Any, kind: str, path: str) -> None:
    """Check what the compressed buffers of an Arrow file or stream expand to."""
    for message in _file_messages(pa, mapped) if kind == "file" else _stream_messages(pa, mapped):
        if message.type in ("record batch", "dictionary") and message.body is not None:
            claimed = sum(_expanded_sizes(_bytes(message.metadata), _bytes(message.body)))
            check_claim(
                f"a batch of {path}",
                claimed,
                len(message.body),
                "Write it in smaller batches, or uncompressed.",
            )


def _bytes(buffer: Any) -> memoryview:
    return memoryview(buffer).cast("B")  # pyarrow gives signed ones


def _stream_messages(pa: Any, mapped: Any) -> Iterator[Any]:
    mapped.seek(0)
    reader = pa.ipc.MessageReader.open_stream(mapped)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _file_messages(pa: Any, mapped: Any) -> Iterator[Any]:
    """Return the messages that a file's footer lists (Apache Arrow, format/File.fbs)."""
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
    """Return how many bytes each compressed buffer of a batch claims to become.

    The metadata is a flatbuffer: a Message, whose header is a RecordBatch or a DictionaryBatch that
    holds one (Apache Arrow, format/Message.fbs). A compressed buffer begins with its size, -1 for none.
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
    """Return where a field of a flatbuffer's table is; None where it has the default value."""
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
    """What the pages of some column chunks of a Parquet file say of themselves, added up."""

    n_bytes: int = 0  # once they are expanded
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
    """What the footer of a Parquet file says of a column of a row group."""

    name: str
    is_text: bool
    n_values: int
    n_bytes: int
    stored: int
    first: int


def chunks_of(data: Any) -> list[list[Chunk]]:
    """Return the columns of each row group, from a Parquet file's bytes.

    pyarrow ends the process where it is asked for some columns that are damaged. The footer is a
    FileMetaData of parquet.thrift: 4 are row groups, whose 1 are columns, whose 3 tells of their pages.
    """
    size = _I32.unpack_from(data, len(data) - 8)[0]
    if not 0 < size <= len(data) - 12:
        raise ValueError("the footer has no size")
    footer = _thrift(data[len(data) - 8 - size : len(data) - 8], 0)[0]
    try:
        return [[_chunk(column[3]) for column in group[1]] for group in footer[4]]
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the footer lacks what it must tell") from None


def _chunk(facts: Any) -> Chunk:
    places = [place for place in (facts.get(11), facts[9]) if place]
    name = b".".join(facts[3]).decode()
    n_values, n_bytes, stored = (_number(facts, field) for field in (5, 6, 7))
    return Chunk(name, facts[1] == 6, n_values, n_bytes, stored, min(places, default=0))


def check_pages(data: Any, chunk: Chunk, path: str) -> Pages:
    """Check what the pages of a Parquet column chunk expand to, of a file's bytes ``data``.

    Each page has a header in Thrift's compact protocol (Apache Parquet, parquet.thrift): 2 is its size
    once it is expanded, 3 as it is stored, 5, 7 and 8 what a page of data, a dictionary or a new page of
    data holds, of which 1 is the number of values.
    """
    place, n_bytes, n_values, dictionary = chunk.first, 0, 0, 0
    if place <= 0:
        raise ValueError("a column has no pages")
    end = place + chunk.stored
    while place < min(end, len(data)):
        header, place = _thrift(data, place)
        size, stored = _number(header, 2), _number(header, 3)
        what, remedy = f"a page of {path}", "Write it again with smaller pages."
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
    """Return the numbers and structures of a structure in Thrift's compact protocol, and its end."""
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
    if kind in (1, 2):  # truth values, which are their kinds
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
    raise ValueError("a header holds what is in none")  # as sets and maps


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
    if number < 128:  # as nearly all
        return number, place + 1
    number = 0
    for shift in range(0, 64, 7):
        number |= (data[place] & 127) << shift
        place += 1
        if data[place - 1] < 128:
            return number, place
    raise ValueError("a header has a number that does not end")


def _whole(data: Any, place: int) -> tuple[int, int]:
    number, place = _varint(data, place)
    return (number >> 1) ^ -(number & 1), place
