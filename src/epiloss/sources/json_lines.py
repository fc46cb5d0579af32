"""JSON: one object per line, or a list of records; read in blocks, with nested fields as ``a.b``."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from epiloss.errors import DataError, printable
from epiloss.sources.arrow import arrow, is_list
from epiloss.sources.csv import MAX_RATIO, beginning, open_text, stored_size
from epiloss.sources.size_limits import check_claim

_BLOCK = 2**22  # bytes read at a time; the schema is inferred from the first block
_MAX_BYTES = 2**27  # of a line or record
_MAX_DEPTH = 64  # of nested brackets, because pyarrow crashes on many thousands
_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*["}]|\[\s*\{)')
_BETWEEN = re.compile(r"[\s,\[\]]*")
_SAID = re.compile(
    r"JSON parse error: (?:Column\(/?(.*?)\) changed from (\w+) to (\w+)|(.*?)\.?) in row (\d+)"
)


def is_json(path: str, content: bytes | None) -> bool:
    """Return whether a file begins like JSON objects."""
    return _JSON.match(beginning(path, content)[1]) is not None


def json_schema(path: str, content: bytes | None) -> Any:
    """Return the schema, inferred from the beginning; integers become floats, as more may follow."""
    pa = arrow()
    return pa.schema(list(_leaves(_nested(path, content))))


def json_batches(
    path: str, content: bytes | None, state: str, schema: Any, columns: Sequence[str], size: int
) -> Iterator[Any]:
    """Read some columns, in batches of at most ``size`` rows.

    ``state`` changes with the file, so that its schema is inferred again.
    """
    nested = _nested(path, content) if content is not None else _known_nested(path, state)
    wanted = _only(nested, set(columns), schema)
    for first, block in _blocks(path, content):
        table = _parsed(block, first, path, wanted)
        flat = flattened(table).select(list(columns))
        yield from flat.combine_chunks().to_batches(size)


def json_objects(path: str, content: bytes | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file, each with its line number."""
    for first, block in _blocks(path, content):
        _check_depth(block, path)
        for place, line in enumerate(block.split(b"\n")):
            if not line.strip():
                continue
            try:
                found = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
            except ValueError as error:  # includes UnicodeDecodeError
                reason = getattr(error, "msg", "") or type(error).__name__
                raise _no_object(path, first + place, reason) from None
            if not isinstance(found, dict):
                raise _no_object(path, first + place, "not an object")
            yield first + place, found


@lru_cache(2**11)
def _known_nested(path: str, state: str) -> Any:
    return _nested(path, None)


def _nested(path: str, content: bytes | None) -> Any:
    """Return the schema of the first block, with nested structures and floats instead of integers."""
    first, block = next(_blocks(path, content))
    return _wider(_parsed(block, first, path, None).schema)


def _wider(fields: Any) -> Any:
    pa = arrow()

    def wider(kind: Any) -> Any:
        if pa.types.is_integer(kind):
            return pa.float64()
        if pa.types.is_struct(kind):
            return pa.struct([one.with_type(wider(one.type)) for one in kind])
        return pa.list_(wider(kind.value_type)) if is_list(kind) else kind

    return pa.schema([one.with_type(wider(one.type)) for one in fields])


def _leaves(fields: Any, before: str = "") -> Iterator[Any]:
    """Yield the fields of nested structures with dotted names."""
    for one in fields:
        name = f"{before}{one.name}"
        if arrow().types.is_struct(one.type):
            yield from _leaves(one.type, f"{name}.")
        else:
            yield one.with_name(name)


def _only(fields: Any, names: set[str], schema: Any, before: str = "") -> Any:
    """Return the fields of some columns; fields without values get their type in ``schema``."""
    pa = arrow()
    kept = []
    for one in fields:
        name, kind = f"{before}{one.name}", one.type
        if pa.types.is_struct(kind):
            inner = _only(kind, names, schema, f"{name}.")
            if len(inner):
                kept.append(one.with_type(pa.struct(list(inner))))
        elif name in names:
            kept.append(one.with_type(schema.field(name).type) if pa.types.is_null(kind) else one)
    return pa.schema(kept)


def flattened(table: Any) -> Any:
    """Return a table with the fields of nested structures as columns with dotted names."""
    types = arrow().types
    while any(types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def _parsed(block: bytes, first: int, path: str, schema: Any) -> Any:
    """Parse some lines into a table; ``first`` is the number of the first line."""
    pa = arrow()
    from pyarrow import json as arrow_json

    _check_depth(block, path)
    unexpected = "infer" if schema is None else "ignore"
    try:
        return arrow_json.read_json(
            pa.BufferReader(block),
            arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid as error:
        raise _readable_error(str(error), block, first, path) from error


def _readable_error(said: str, block: bytes, first: int, path: str) -> DataError:
    """Return a readable error, with the line number, for a message of pyarrow."""
    found = _SAID.search(said)
    if found is None:
        reason = said.removeprefix("JSON parse error: ").rstrip(".")
        return DataError(
            printable(f"{path} cannot be read as JSON: {reason}. Check that it is complete.")
        )
    column, before, after, other, row = found.groups()
    filled = [place for place, line in enumerate(block.split(b"\n")) if line.strip()]
    line = first + filled[min(int(row), len(filled) - 1)]
    if column:
        return DataError(
            printable(
                f"column {column.replace('/', '.')!r} of {path} must hold values of one type, got a "
                f"{after} after a {before} in line {line:,}. Correct that value, or make it null."
            )
        )
    return _no_object(path, line, other or "not an object")


def _no_object(path: str, line: int, reason: str) -> DataError:
    return DataError(
        printable(f"line {line:,} of {path} must be a JSON object: {reason}. Correct the line.")
    )


def _check_depth(block: bytes, path: str) -> None:
    """Raise an error if brackets are nested too deeply for a recursive parser."""
    characters = np.frombuffer(block.replace(rb"\\", b"__").replace(rb"\"", b"__"), np.uint8)
    unquoted = (np.cumsum(characters == ord('"'), dtype=np.int32) & 1) == 0
    opened = ((characters == ord("[")) | (characters == ord("{"))) & unquoted
    closed = ((characters == ord("]")) | (characters == ord("}"))) & unquoted
    depth = np.cumsum(opened.astype(np.int8) - closed.astype(np.int8), dtype=np.int32)
    if depth.max(initial=0) > _MAX_DEPTH:
        raise DataError(
            printable(f"{path} has values nested more than {_MAX_DEPTH} levels deep. Remove them.")
        )


def _blocks(path: str, content: bytes | None) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of complete lines, each with the number of its first line."""
    compression, head = beginning(path, content)
    with open_text(path, content, compression) as stream:
        pieces = _pieces(stream, path, content, compression is not None)
        first = 1
        for block in _lines(pieces, path) if _has_lines(head) else _records(pieces, path):
            yield first, block
            first += block.count(b"\n")


def _has_lines(head: bytes) -> bool:
    """Return whether the first line is a complete object, as in JSON lines."""
    first, end, _ = head.lstrip(b"\xef\xbb\xbf \r\n\t").partition(b"\n")
    try:
        return isinstance(json.loads(first), dict)
    except RecursionError:
        return True  # the check of the depth will raise the error
    except ValueError:
        return not end and first.startswith(b"{")  # the line is longer than the head


def _pieces(stream: Any, path: str, content: bytes | None, compressed: bool) -> Iterator[bytes]:
    """Read a stream in pieces; raise an error if it decompresses to suspiciously many bytes."""
    stored, expanded = stored_size(path, content), 0
    while piece := stream.read(_BLOCK):
        expanded += len(piece)
        if compressed:
            check_claim(path, expanded, stored, "Decompress it if you trust it.", MAX_RATIO)
        yield piece


def _lines(pieces: Iterator[bytes], path: str) -> Iterator[bytes]:
    waiting: list[bytes] = []
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join([*waiting, piece[:cut]])
            waiting = []
        waiting.append(piece[cut:])
        if sum(map(len, waiting)) > _MAX_BYTES:
            raise DataError(
                printable(f"{path} has a line of over {_MAX_BYTES:,} bytes. Remove long values from it.")
            )
    last = b"".join(waiting)
    if last.strip():
        yield last + b"\n"


def _records(pieces: Iterator[bytes], path: str) -> Iterator[bytes]:
    """Convert a list of objects, or objects that span several lines, to one object per line."""
    lines: list[bytes] = []
    size = 0
    for record in _decoded(pieces, path):
        lines.append(json.dumps(record).encode() + b"\n")
        size += len(lines[-1])
        if size > _BLOCK:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _decoded(pieces: Iterator[bytes], path: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that is not one object per line."""
    decoder, text, scan = codecs.getincrementaldecoder("utf-8-sig")(), "", json.JSONDecoder().raw_decode
    number, least = 1, 0
    for piece in _and_end(pieces):
        text += decoder.decode(piece or b"", final=piece is None)
        if len(text) < least and piece is not None:
            continue  # a long record is tried again only once twice as much of it has been read
        place = _after(text, 0)
        while place < len(text):
            try:
                record, end = scan(text, place)
            except RecursionError:
                raise DataError(
                    printable(f"{path} has values nested too deeply. Remove them.")
                ) from None
            except json.JSONDecodeError as error:
                if piece is not None and len(text) - place < _MAX_BYTES:
                    break
                raise DataError(
                    printable(
                        f"record {number:,} of {path} is not valid JSON: {error.msg}. Check that the "
                        "file is complete."
                    )
                ) from None
            if not isinstance(record, dict):
                raise DataError(
                    printable(
                        f"record {number:,} of {path} must be a JSON object, got {record!r:.20}. Write "
                        "one object per row."
                    )
                )
            yield record
            number += 1
            place = _after(text, end)
        text = text[place:]
        least = 2 * len(text)


def _and_end(pieces: Iterator[bytes]) -> Iterator[bytes | None]:
    yield from pieces
    yield None


def _after(text: str, place: int) -> int:
    """Return where the next record begins: after commas, white space and the brackets of the list."""
    found = _BETWEEN.match(text, place)
    return place if found is None else found.end()
