"""Finished batches on disk, from which an interrupted extraction resumes, and the final file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epiloss._saving import replacing, write_text
from epiloss.errors import DataError, OptionError
from epiloss.sources.arrow import arrow

KEY = b"epiloss"  # key of the metadata in the schema of a file
ENDINGS = (".parquet", ".arrow")
ROWS = 256  # smallest number of rows of a part, because batches may be small
_GROUP = 4096  # rows of a row group, which does not depend on the parts
_MEANING = {
    "model": "the model or its weights",
    "layer": "the layer",
    "scores": "how scores are made",
    "format": "the version of epiloss",
}


def checked_ending(path: str | Path) -> Path:
    """Check the suffix and the folder of the file to write."""
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise OptionError(
            f"an extraction must be written to a file ending in {' or '.join(ENDINGS)}, got "
            f"{str(path)!r}. Rename it."
        )
    if not target.parent.is_dir():
        raise OptionError(f"the folder {str(target.parent)!r} does not exist. Create it first.")
    return target


def about(path: Path) -> Mapping[str, Any] | None:
    """Return the metadata of a finished extraction; None if the file is something else."""
    pa = arrow()
    from pyarrow import ipc, parquet

    try:
        if path.suffix.lower() == ".parquet":
            schema = parquet.read_schema(path)
        else:
            with pa.OSFile(str(path)) as source:
                schema = ipc.open_file(source).schema
    except (pa.ArrowInvalid, OSError):
        return None
    metadata = (schema.metadata or {}).get(KEY)
    return None if metadata is None else dict(json.loads(metadata))


@dataclass
class Parts:
    """The folder of an unfinished extraction: ``manifest.json`` and parts of whole batches.

    ``digests`` identifies each finished batch, in order; ``n_rows`` is their number of rows.
    """

    folder: Path
    identity: Mapping[str, Any]
    digests: list[str] = field(default_factory=list)
    n_rows: int = 0
    n_parts: int = 0
    n_found: int = 0  # batches that were finished by an earlier run

    @classmethod
    def open(cls, target: Path, identity: Mapping[str, Any], *, resume: bool) -> Parts:
        """Open the existing folder of a target, or a new one."""
        if not resume:
            remove_parts(target)
        folder = parts_folder(target)
        parts = cls(folder, dict(identity))
        paths = parts.paths()
        if paths:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            check_identity(manifest, identity, folder)
        for path in paths:
            with _opened(path) as reader:
                metadata = json.loads(reader.schema.metadata[KEY])
            parts.digests += metadata["digests"]
            parts.n_rows += metadata["rows"]
            parts.n_parts += 1
        parts.n_found = len(parts.digests)
        return parts

    def paths(self) -> list[Path]:
        """Return the parts in order."""
        return sorted(self.folder.glob("part-*.arrow"))

    def check(self, number: int, digest: str) -> None:
        """Raise an error if a batch differs from the one extracted by an earlier run."""
        if self.digests[number] != digest:
            raise DataError(
                f"batch {number} of the loader differs from the one extracted by the earlier run. The "
                "loader shuffles, augments, or has other data. Use shuffle=False and fixed transforms, "
                "or start again with resume=False."
            )

    def write(self, table: Any, digests: Sequence[str]) -> None:
        """Write some batches as a part, completely or not at all."""
        from pyarrow import ipc

        if not self.n_parts:  # the folder is created only when there is something to write
            self.folder.mkdir(exist_ok=True)
            write_text(self.folder / "manifest.json", json.dumps(self.identity))
        metadata = json.dumps({"digests": list(digests), "rows": table.num_rows}).encode()
        table = table.replace_schema_metadata({KEY: metadata})
        place = self.folder / f"part-{self.n_parts:08d}.arrow"
        with replacing(place) as temporary, ipc.new_file(str(temporary), table.schema) as writer:
            writer.write_table(table)
        self.n_parts += 1
        self.digests += digests
        self.n_rows += table.num_rows

    def join(self, target: Path) -> None:
        """Write all parts to one file, and remove them."""
        from pyarrow import ipc, parquet

        with _opened(self.paths()[0]) as reader:
            schema = reader.schema
        metadata = {**self.identity, "rows": self.n_rows, "batches": len(self.digests)}
        metadata["first"] = self.digests[0]
        schema = schema.with_metadata({KEY: json.dumps(metadata).encode()})
        with replacing(target) as temporary:
            if target.suffix.lower() == ".parquet":
                plain = [name for name in schema.names if name in ("id", "y")]
                with parquet.ParquetWriter(
                    str(temporary), schema, compression="zstd", use_dictionary=plain
                ) as writer:
                    for group in self._groups(schema):
                        writer.write_table(group, row_group_size=_GROUP)
            else:
                with ipc.new_file(str(temporary), schema) as writer:
                    for group in self._groups(schema):
                        writer.write_table(group)
        shutil.rmtree(self.folder)

    def _groups(self, schema: Any) -> Iterator[Any]:
        """Yield tables of equal size, so that the file does not depend on interruptions."""
        pa = arrow()
        waiting: list[Any] = []
        n = 0
        for path in self.paths():
            with _opened(path) as reader:
                waiting.append(reader.read_all().replace_schema_metadata(schema.metadata))
            n += waiting[-1].num_rows
            while n >= _GROUP:
                whole = pa.concat_tables(waiting).combine_chunks()
                yield whole.slice(0, _GROUP)
                waiting, n = [whole.slice(_GROUP)], n - _GROUP
        if n:
            yield pa.concat_tables(waiting).combine_chunks()


def parts_folder(target: Path) -> Path:
    """Return the folder with the parts of a file."""
    return target.with_name(target.name + ".parts")


def remove_parts(target: Path) -> None:
    """Remove the folder with the parts of a file, if it exists."""
    if parts_folder(target).exists():
        shutil.rmtree(parts_folder(target))


def check_identity(there: Mapping[str, Any], wanted: Mapping[str, Any], place: Path) -> None:
    """Raise an error if the extraction was started with another model or other options."""
    other = [name for name in wanted if there.get(name) != wanted[name]]
    if other:
        what = " and ".join(_MEANING.get(name, name) for name in other)
        raise DataError(
            f"{str(place)!r} belongs to another extraction: {what} changed. Choose another path, or "
            "start again with resume=False."
        )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pa = arrow()
    from pyarrow import ipc

    try:
        with pa.OSFile(str(path)) as source, ipc.open_file(source) as reader:
            yield reader
    except pa.ArrowInvalid as error:
        raise DataError(f"{str(path)!r} is damaged: {error}. Start again with resume=False.") from error
