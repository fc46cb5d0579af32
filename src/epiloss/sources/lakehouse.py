"""Delta, Iceberg and Hudi tables: only their logs tell which files of their folders count."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from epiloss.errors import DataError, MissingExtraError, printable

DELTA, ICEBERG, HUDI = "Delta", "Iceberg", "Hudi"
METADATA = re.compile(r"v?(\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?$")


def kind_of(folder: str | Path) -> str | None:
    """Return what kind of table keeps its files in a folder; None where it is a plain one."""
    folder = Path(folder)
    if (folder / "_delta_log").is_dir():
        return DELTA
    if (folder / ".hoodie").is_dir():
        return HUDI
    return ICEBERG if _metadata_files(folder) else None


def lone_table(names: Sequence[str | os.PathLike[str]]) -> str | None:
    """Return the folder where just one is given and it is that of a table with a log."""
    first = os.fspath(names[0])
    return first if len(names) == 1 and os.path.isdir(first) and kind_of(first) is not None else None


def check_plain(paths: Iterable[str]) -> None:
    """Refuse files in the folder of a table with a log: they may not count any more."""
    beside = {Path(path).absolute().parent for path in paths}
    for folder in sorted({above for inner in beside for above in (inner, *inner.parents)}):
        kind = kind_of(folder)
        if kind == HUDI:
            raise _is_hudi(str(folder))
        if kind is not None:
            raise DataError(
                printable(
                    f"files of the {kind} table {str(folder)!r} are given by themselves, and some of "
                    "them may be deleted. Name the folder of the table, alone."
                )
            )


def _is_hudi(folder: str) -> DataError:
    return DataError(
        printable(
            f"{folder!r} is a Hudi table, of which some files may be deleted. Write its rows to Parquet "
            "first, by Spark or hudi-rs."
        )
    )


def open_table(folder: str) -> Any:
    """Return a Delta table as an Arrow data set, or an Iceberg table; others are refused."""
    kind = kind_of(folder)
    if kind == HUDI:
        raise _is_hudi(folder)
    return _delta(folder) if kind == DELTA else _iceberg(folder)


def _delta(folder: str) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise _missing(folder, DELTA, "deltalake") from None
    table = DeltaTable(folder)
    _check_local(folder, DELTA, table.file_uris())
    return table.to_pyarrow_dataset()


def _iceberg(folder: str) -> Any:
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise _missing(folder, ICEBERG, "iceberg") from None
    table = StaticTable.from_metadata(str(_newest(Path(folder))))
    snapshot = table.current_snapshot()
    if snapshot is None:
        return table
    _check_local(folder, ICEBERG, [snapshot.manifest_list])
    manifests = [one.manifest_path for one in snapshot.manifests(table.io)]
    _check_local(folder, ICEBERG, manifests)
    tasks = list(table.scan().plan_files())
    _check_local(folder, ICEBERG, [one.file.file_path for one in tasks])
    _check_local(folder, ICEBERG, [one.file_path for task in tasks for one in task.delete_files])
    return table


def _missing(folder: str, kind: str, extra: str) -> MissingExtraError:
    return MissingExtraError(
        printable(f"{folder!r} is {'an' if kind == ICEBERG else 'a'} {kind} table, ")
        + f"which is read by a package that is not installed. Run: pip install 'epiloss[{extra}]'"
    )


def _check_local(folder: str, kind: str, addresses: Sequence[str]) -> None:
    """Refuse a table whose log leads to other machines, which are never called unasked."""
    for address in addresses:
        parts = urlsplit(address)
        if len(parts.scheme) > 1 and (parts.scheme != "file" or parts.netloc not in ("", "localhost")):
            raise DataError(
                printable(
                    f"all files of the {kind} table {folder!r} must be on this machine, got "
                    f"{address!r}. Open the table in Python, and pass it to epiloss.audit_table."
                )
            )
        path = unquote(parts.path) if parts.scheme == "file" else address
        if not os.path.exists(path):
            raise DataError(
                printable(
                    f"the {kind} table {folder!r} lacks {path!r}, which its log names. If the folder "
                    "was moved, move it back, or write its rows to Parquet."
                )
            )


def _metadata_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the metadata files of an Iceberg table, by their numbers."""
    found = ((METADATA.match(path.name), path) for path in (folder / "metadata").glob("*.json*"))
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def _newest(folder: Path) -> Path:
    """Return the metadata file that counts: the one that is hinted at, else that of the last number."""
    files = _metadata_files(folder)
    hint = folder / "metadata" / "version-hint.text"
    if hint.is_file():
        said = hint.read_text("utf-8", errors="replace").strip()
        files = [one for one in files if str(one[0]) == said or one[1].name == said] or files
    last = [path for number, path in files if number == files[-1][0]]
    if len(last) > 1:
        raise DataError(
            printable(
                f"the Iceberg table {str(folder)!r} has {len(last)} metadata files of the last number, "
                f"{last[0].name} and {last[1].name}. Open it by its catalog in Python, and pass it to "
                "epiloss.audit_table."
            )
        )
    return last[0]
