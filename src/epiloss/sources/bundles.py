"""Bundles of small files: they are read together, because each part has an overhead."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epiloss.sources.arrow import arrow
from epiloss.sources.base import Part, Source, batch_rows, count_rows
from epiloss.sources.files import FilePart

_MIN_BUNDLES = 64  # so that workers share them evenly
_MAX_BYTES = 2**22  # stored size of a bundle


@dataclass(frozen=True)
class Bundle(Part):
    """Small files that are read as one part, with batches of the usual size."""

    files: tuple[FilePart, ...]
    n_rows: int | None
    n_bytes: int = 0
    first_row: int = 0

    @classmethod
    def of(cls, files: Sequence[FilePart]) -> Bundle:
        """Bundle files into one part."""
        return cls(tuple(files), count_rows(files), sum(one.n_bytes for one in files))

    @property
    def name(self) -> str:
        """The first file and the last."""
        return f"{self.files[0].name} to {self.files[-1].name}"

    @property
    def identity(self) -> str:
        """A digest of the files' identities."""
        text = "\n".join(one.identity for one in self.files)
        return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the approximate number of bytes read from the files."""
        return sum(one.bytes_of(columns) for one in self.files)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read the files and join their batches."""
        size = batch_rows(self.files[0].schema, columns)
        return _joined((batch for one in self.files for batch in one.batches(columns)), size)


def _joined(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Join batches of one schema, in order, into batches of at most ``size`` rows."""
    waiting: list[Any] = []
    n_rows = 0
    for batch in batches:
        if waiting and n_rows + batch.num_rows > size:
            yield from _as_one(waiting)
            waiting, n_rows = [], 0
        waiting.append(batch)
        n_rows += batch.num_rows
    if waiting:
        yield from _as_one(waiting)


def _as_one(batches: Sequence[Any]) -> list[Any]:
    table = arrow().Table.from_batches(batches).combine_chunks()
    joined: list[Any] = table.to_batches()
    return joined


def bundled(source: Source) -> Source:
    """Return the same data with small files bundled, if there are many."""
    files = [part for part in source.parts if isinstance(part, FilePart)]
    most = len(files) // _MIN_BUNDLES
    if most < 2 or len(files) < len(source.parts):
        return source
    bundles = [Bundle.of(some) if len(some) > 1 else some[0] for some in _grouped(files, most)]
    return replace(source, parts=bundles)


def _grouped(files: Sequence[FilePart], most: int) -> Iterator[list[FilePart]]:
    """Split files, in order, into groups of at most ``most`` files with a limited size."""
    group: list[FilePart] = []
    for one in files:
        if group and (len(group) == most or sum(f.n_bytes for f in group) + one.n_bytes > _MAX_BYTES):
            yield group
            group = []
        group.append(one)
    yield group


def single_parts(source: Source) -> list[Part]:
    """Return the parts of a source, with bundles replaced by their files."""
    return [one for part in source.parts for one in (part.files if isinstance(part, Bundle) else [part])]
