"""Finding files by name, folder or pattern, with the values in the names of their folders."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from epiloss.errors import DataError, printable
from epiloss.sources.lakehouse import check_plain

# endings of files that hold tables
_TABLE = re.compile(
    r"\.(parquet|pq|csv|tsv|arrow|feather|ipc|jsonl|ndjson)(\.(gz|bz2|zst|zstd|lz4|xz))?$"
)
_HIDDEN = ("_", ".")  # prefixes of files that tools write next to the data


def find_files(
    given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> tuple[list[tuple[str, dict[str, str]]], list[str]]:
    """Return the files, sorted, each with the values in its folder names (``country=fr/``).

    The second list holds the ignored files: if a folder has files with the ending of a table, only
    those are read.
    """
    names = [given] if isinstance(given, str | os.PathLike) else list(given)
    found: dict[str, dict[str, str]] = {}
    others: list[str] = []
    for one in names:
        name = os.fspath(one)
        for root in _matching(name):
            if os.path.isdir(root):
                inside = [path for path in Path(root).rglob("*") if _is_data(path, Path(root))]
                tables = [path for path in inside if is_table_name(path.name)]
                if tables:
                    others += sorted(str(path) for path in set(inside) - set(tables))
                inside = tables or inside
                found |= {str(path): folder_values(str(path.relative_to(root))) for path in inside}
            else:
                found[root] = folder_values(root)
    if not found:
        raise DataError(
            printable(f"no file {', '.join(map(str, names))!r}. Check the path or the pattern.")
        )
    check_plain(found)
    return sorted(found.items()), others


def _matching(name: str) -> list[str]:
    if os.path.exists(name):
        return [name]
    found = glob.glob(name, recursive=True) if glob.has_magic(name) else []
    if not found:
        raise DataError(printable(f"no file {name!r}. Check the path or the pattern."))
    return found


def _is_data(path: Path, root: Path) -> bool:
    return path.is_file() and not is_hidden(path.relative_to(root).parts)


def is_table_name(name: str) -> bool:
    """Return whether a file name has the ending of a table."""
    return _TABLE.search(name.lower()) is not None


def is_hidden(parts: Sequence[str]) -> bool:
    """Return whether a path, given as its parts, is hidden or was written by a tool (``_SUCCESS``)."""
    return any(part.startswith(_HIDDEN) and "=" not in part for part in parts)


def folder_values(path: str) -> dict[str, str]:
    """Return the values in the names of folders: ``country=fr/`` gives ``{"country": "fr"}``."""
    folders = Path(path).parts[:-1]
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return {name: unquote(value) for name, value in pairs if name.isidentifier()}
