"""Arrow files and streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from epiloss.sources.arrow import arrow
from epiloss.sources.size_limits import check_messages


def ipc_schema(mapped: Any, kind: str, path: str) -> Any:
    """Return the schema of an Arrow file or stream, after checking its claimed sizes."""
    schema = _reader(mapped, kind).schema
    _ = schema.names  # raises an error here if the names are not UTF-8
    check_messages(arrow(), mapped, kind, path)
    return schema


def ipc_batches(mapped: Any, kind: str, columns: Sequence[str], size: int) -> Iterator[Any]:
    """Read some columns, in batches of at most ``size`` rows."""
    names = _reader(mapped, kind).schema.names
    reader = _reader(mapped, kind, sorted(names.index(name) for name in columns))
    in_file = kind == "file"
    for batch in map(reader.get_batch, range(reader.num_record_batches)) if in_file else reader:
        batch.validate(full=True)
        yield from (batch.slice(start, size) for start in range(0, batch.num_rows, size))


def _reader(mapped: Any, kind: str, fields: list[int] | None = None) -> Any:
    """Return a reader of an Arrow file or stream, for all or some of its columns."""
    pa = arrow()
    mapped.seek(0)
    opened = pa.ipc.open_file if kind == "file" else pa.ipc.open_stream
    return opened(mapped, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))
