"""Delta, Iceberg and Hudi tables, whose logs determine which files of a folder are valid."""

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
    """Return the kind of table in a folder; None for a plain folder."""
    folder = Path(folder)
    if (folder / "_delta_log").is_dir():
        return DELTA
    if (folder / ".hoodie").is_dir():
        return HUDI
    return ICEBERG if _metadata_files(folder) else None


def lone_table(names: Sequence[str | os.PathLike[str]]) -> str | None:
    """Return the folder if exactly one is given and it holds a table with a log; else None."""
    first = os.fspath(names[0])
    return first if len(names) == 1 and os.path.isdir(first) and kind_of(first) is not None else None


def check_plain(paths: Iterable[str]) -> None:
    """Raise an error for files in the folder of a table with a log, as they may be outdated."""
    beside = {Path(path).absolute().parent for path in paths}
    for folder in sorted({above for inner in beside for above in (inner, *inner.parents)}):
        kind = kind_of(folder)
        if kind == HUDI:
            raise _is_hudi(str(folder))
        if kind is not None:
            raise DataError(
                printable(
                    f"files of the {kind} table {str(folder)!r} must not be read on their own, because "
                    "some may be deleted in its log. Pass only the folder of the table."
                )
            )


def _is_hudi(folder: str) -> DataError:
    return DataError(
        printable(
            f"{folder!r} is a Hudi table, which is not supported. Write its rows to Parquet first, with "
            "Spark or hudi-rs."
        )
    )


def open_table(folder: str) -> Any:
    """Open a Delta table as an Arrow data set, or an Iceberg table; raise an error for Hudi."""
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
        printable(f"reading the {kind} table {folder!r} needs a package that is not installed. ")
        + f"Run: pip install 'epiloss[{extra}]'"
    )


def _check_local(folder: str, kind: str, addresses: Sequence[str]) -> None:
    """Raise an error if the log refers to other machines, which are never contacted implicitly."""
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
                    f"the {kind} table {folder!r} must have all files in its log, got no {path!r}. If "
                    "the folder was moved, move it back, or write its rows to Parquet."
                )
            )


def _metadata_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the metadata files of an Iceberg table, sorted by version."""
    found = ((METADATA.match(path.name), path) for path in (folder / "metadata").glob("*.json*"))
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def _newest(folder: Path) -> Path:
    """Return the current metadata file: that of the version hint, else the latest version."""
    files = _metadata_files(folder)
    hint = folder / "metadata" / "version-hint.text"
    if hint.is_file():
        said = hint.read_text("utf-8", errors="replace").strip()
        files = [one for one in files if str(one[0]) == said or one[1].name == said] or files
    last = [path for number, path in files if number == files[-1][0]]
    if len(last) > 1:
        raise DataError(
            printable(
                f"the Iceberg table {str(folder)!r} must have one metadata file of the latest version, "
                f"got {len(last)}: {last[0].name}, {last[1].name}. Open it with its catalog in Python, "
                "and pass it to epiloss.audit_table."
            )
        )
    return last[0]
