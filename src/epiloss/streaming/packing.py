"""Packing JSON values, integer arrays and a table into the bytes of one Arrow stream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.sources.arrow import arrow


def packed(facts: Mapping[str, Any], arrays: Sequence[NDArray[Any]], table: Any) -> bytes:
    """Return JSON values, integer arrays and a table as the bytes of one Arrow stream."""
    pa = arrow()
    blobs = [json.dumps({**facts, "shapes": [one.shape for one in arrays]}).encode()]
    blobs += [np.ascontiguousarray(one, np.int64).tobytes() for one in arrays]
    blobs.append(b"" if table is None else _stream(table))
    return _stream(pa.table({"bytes": pa.array(blobs, pa.large_binary())}))


def unpacked(data: bytes) -> tuple[dict[str, Any], list[NDArray[np.int64]], Any]:
    """Return the arguments of ``packed``."""
    pa = arrow()
    outer = pa.ipc.open_stream(data).read_all()
    outer.validate(full=True)
    facts, *blobs, table = outer.column("bytes").to_pylist()
    known = json.loads(facts)
    shapes = known.pop("shapes")
    arrays = [
        np.frombuffer(blob, np.int64).reshape(shape) for blob, shape in zip(blobs, shapes, strict=True)
    ]
    return known, arrays, pa.ipc.open_stream(table).read_all() if table else None


def _stream(table: Any) -> bytes:
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
