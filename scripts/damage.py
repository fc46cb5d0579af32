"""Ways to damage a file: at random by bytes, or specific to its format.

Every way is a function ``(generator, content) -> content``; equal generators do equal damage.
"""

from __future__ import annotations

import ast
import bz2
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa

Damage = Callable[[np.random.Generator, bytes], bytes]

EXTREME = (0, 1, -1, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)
TOKENS = (
    *("", " ", "nan", "inf", "-inf", "1e400", "-1", "2", "1e-320", "0x10", "1,5", "True", "NULL"),
    *("é", "\0", "\x1b[31m", "\u202e", "=1+1", "a\nb", '"', '""', "'", "\ufeff", "9" * 400),
    *("2020-01-01", "12:00", "{", "[1, 2]", "label", "score", "x" * 70_000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 10**6, 10**30, -(2**63), 0.5, 1e308, -1e308, 5e-324),
    *("", "x", "nan", "\x1b[2J", "<script>", [], [0], [[]], {}, {"a": 1}, [1, "a"], [[1, 2], [3]]),
)


def flipped(g: np.random.Generator, content: bytes) -> bytes:
    """Flip one bit or several."""
    data = bytearray(content)
    for place in g.integers(len(data), size=int(g.choice([1, 1, 2, 8]))) if data else ():
        data[place] ^= 1 << int(g.integers(8))
    return bytes(data)


def cut(g: np.random.Generator, content: bytes) -> bytes:
    """Keep only the beginning, or remove a piece from the middle."""
    start, end = _ends(g, content)
    return content[:start] if g.random() < 0.5 else content[:start] + content[end:]


def doubled(g: np.random.Generator, content: bytes) -> bytes:
    """Copy a piece of the file to another place, with or without overwriting."""
    start, end = _ends(g, content)
    place = int(g.integers(len(content) + 1))
    rest = place if g.random() < 0.5 else place + end - start
    return content[:place] + content[start:end] + content[rest:]


def inserted(g: np.random.Generator, content: bytes) -> bytes:
    """Insert bytes of any value."""
    place = int(g.integers(len(content) + 1))
    return content[:place] + g.bytes(int(g.choice([1, 4, 50, 1000]))) + content[place:]


def enlarged(g: np.random.Generator, content: bytes) -> bytes:
    """Overwrite some bytes with an extreme integer, such as a size in a header."""
    width = int(g.choice([1, 2, 4, 8]))
    place = int(g.integers(max(len(content) - width, 1)))
    number = int(g.choice(np.array(EXTREME, object))) % 256**width
    written: bytes = number.to_bytes(width, "little")
    return content[:place] + written + content[place + width :]


BLIND: tuple[Damage, ...] = (flipped, cut, doubled, inserted, enlarged)


def blindly(g: np.random.Generator, content: bytes) -> bytes:
    """Damage any part of the file in one of these ways."""
    return _one(g, BLIND)(g, content)


def near_the_end(g: np.random.Generator, content: bytes) -> bytes:
    """Damage the end of the file, where Parquet, Arrow and ZIP files keep their metadata."""
    place = max(len(content) - int(g.choice([16, 300, 2000])), 0)
    return content[:place] + blindly(g, content[place:])


def near_the_start(g: np.random.Generator, content: bytes) -> bytes:
    """Damage the beginning of the file, where streams keep their metadata."""
    place = int(g.choice([16, 300, 2000]))
    return blindly(g, content[:place]) + content[place:]


def cells(g: np.random.Generator, content: bytes) -> bytes:
    """Change cells, rows, names or separators of a CSV text."""
    rows = [line.split(b",") for line in content.split(b"\n")]
    row = int(g.choice([0, 1, int(g.integers(len(rows)))])) % len(rows)
    column = int(g.integers(len(rows[row])))
    change = int(g.integers(8))
    if change <= 2:
        rows[row][column] = _token(g)
    elif change == 3:
        del rows[row][column]
    elif change == 4:
        rows[row].insert(column, _token(g))
    elif change == 5:
        rows[0][column % len(rows[0])] = rows[0][0]
    elif change == 6:
        return content.replace(b",", bytes(g.choice([b";", b"\t", b"|", b" ", b"\0"])))
    else:
        for one in rows[1:]:
            if len(one) > column:
                one[column] = _token(g) if change == 7 and g.random() < 0.9 else one[column]
    return b"\n".join(b",".join(one) for one in rows)


def encoded(g: np.random.Generator, content: bytes) -> bytes:
    """Change the encoding, the line endings or the format of a text."""
    text = content.decode("utf-8", "replace")
    if g.random() < 0.3:
        return content.replace(b"\n", bytes(g.choice([b"\r\n", b"\r", b"\n\n", b"\0\n"])))
    if g.random() < 0.3:
        return bytes(g.choice([b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"FEA1"])) + content
    return text.replace("a", "é").encode(str(g.choice(["utf-16", "utf-32", "latin-1", "utf-7"])))


def recompressed(pack: str, inner: Damage) -> Damage:
    """Damage the content of a compressed file."""

    def damage(g: np.random.Generator, content: bytes) -> bytes:
        whole = pa.input_stream(io.BytesIO(content), compression=pack).read()
        return compress(pack, inner(g, whole))

    return damage


def compress(pack: str, content: bytes) -> bytes:
    """Compress reproducibly: equal content gives equal bytes."""
    if pack == "gzip":
        return gzip.compress(content, mtime=0)
    if pack == "bz2":
        return bz2.compress(content)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, pack) as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def tree(g: np.random.Generator, content: bytes) -> bytes:
    """Change, remove, repeat or nest a value anywhere in a JSON text."""
    plain = json.loads(content)
    for _ in range(int(g.choice([1, 1, 2, 4]))):
        _change(g, plain)
    text = json.dumps(plain)
    if g.random() < 0.05:
        deep = int(g.choice([50, 2_000, 200_000]))
        text = text.replace("null", "[" * deep + "]" * deep, 1)
    if g.random() < 0.05:
        text = text.replace("0", str(g.choice(["NaN", "Infinity", "1e999", "-0", "9" * 5_000])), 1)
    return text.encode()


def lines(g: np.random.Generator, content: bytes) -> bytes:
    """Change some lines of JSON: a value, a token, or the surrounding text."""
    found = content.rstrip(b"\n").split(b"\n")
    for _ in range(int(g.choice([1, 1, 3]))):
        place = int(g.choice([0, 1, int(g.integers(len(found)))])) % len(found)
        change = int(g.integers(10))
        if change <= 5 and found[place].startswith(b"{"):  # not damaged before
            with suppress(ValueError, RecursionError):
                found[place] = tree(g, found[place])
        elif change == 6:
            found[place] = _token(g)
        elif change == 7:
            found[place] = b" ".join([found[place], found[place - 1]])
        elif change == 8:
            found[place] = found[place].replace(b'"', bytes(g.choice([b"'", b'\\"', b""])), 4)
        else:
            return b"[" + b",".join(found) + b"]"
    return b"\n".join(found) + b"\n"


def trees_in_archive(g: np.random.Generator, content: bytes) -> bytes:
    """Change a JSON member of an archive, its name, or its compression."""
    with zipfile.ZipFile(io.BytesIO(content)) as given:
        members = {one.filename: given.read(one) for one in given.infolist()}
    name = list(members)[int(g.integers(len(members)))]
    change = int(g.integers(6))
    if change <= 3:
        members[name] = tree(g, members[name])
    elif change == 4:
        members[name] = blindly(g, members[name])
    else:
        members[f"samples/../{_token(g).decode()[:100]}.json"] = members.pop(name)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", int(g.choice([0, 8, 12, 14]))) as out:
        for one, data in members.items():
            out.writestr(zipfile.ZipInfo(one), data)
    return near_the_end(g, packed.getvalue()) if g.random() < 0.3 else packed.getvalue()


def _change(g: np.random.Generator, plain: Any) -> None:
    node = plain
    while True:  # descend at random
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = keys[int(g.integers(len(keys)))]
        if isinstance(node[key], dict | list) and node[key] and g.random() < 0.85:
            node = node[key]
            continue
        break
    change = int(g.integers(6))
    if change <= 2:
        node[key] = deepcopy(VALUES[int(g.integers(len(VALUES)))])
    elif change == 3:
        del node[key]
    elif change == 4 and isinstance(node[key], int | float):
        node[key] = node[key] * float(g.choice([-1, 1e6, 1e300, 1e-300])) + float(g.integers(-2, 3))
    elif isinstance(node, list):
        node.insert(int(g.integers(len(node) + 1)), deepcopy(node[key]))
    else:
        node[key] = [node[key]]


def archive(g: np.random.Generator, content: bytes) -> bytes:
    """Change the array headers of an NPZ archive, or its compression."""
    with zipfile.ZipFile(io.BytesIO(content)) as given:
        members = {one.filename: given.read(one) for one in given.infolist()}
    name = list(members)[int(g.integers(len(members)))]
    array = members[name]
    length = int.from_bytes(array[8:10], "little")
    header = ast.literal_eval(array[10 : 10 + length].decode())
    change = int(g.integers(5))
    if change == 0:
        shapes = ((), (0,), (-1,), (10**13,), (2**31, 2**31), (2**62, 4), (300, 0), (1,) * 40, (299,))
        header["shape"] = shapes[int(g.integers(len(shapes)))]
    elif change == 1:
        kinds = ("<f8", ">f8", "|O", "<c16", "|S5", "<U3", "<M8[ns]", "|V8", "<f2", "|b1", "<i1", "f16")
        header["descr"] = kinds[int(g.integers(len(kinds)))]
    elif change == 2:
        header = VALUES[int(g.integers(len(VALUES)))]
    elif change == 3:
        members[f"../{name}"] = members[name]
    text = repr(header).encode().ljust(length - 1) + b"\n"
    body = blindly(g, array[10 + length :]) if change == 4 else array[10 + length :]
    members[name] = array[:8] + len(text).to_bytes(2, "little") + text + body
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", int(g.choice([0, 8, 12, 14]))) as out:
        for one, data in members.items():
            out.writestr(zipfile.ZipInfo(one), data)
    return near_the_end(g, packed.getvalue()) if g.random() < 0.2 else packed.getvalue()


def _one(g: np.random.Generator, ways: tuple[Damage, ...]) -> Damage:
    return ways[int(g.integers(len(ways)))]


def _token(g: np.random.Generator) -> bytes:
    return TOKENS[int(g.integers(len(TOKENS)))].encode()


def _ends(g: np.random.Generator, content: bytes) -> tuple[int, int]:
    start = int(g.integers(len(content) + 1))
    return start, min(start + int(g.choice([1, 8, 100, 5000])), len(content))
