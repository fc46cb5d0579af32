"""Files at the door: Parquet, CSV, Arrow and NPZ, read as named columns and never unpickled."""

from __future__ import annotations

import difflib
import io
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epiloss.errors import DataError, MissingExtraError

MOST_NPZ_BYTES = 16 * 2**30  # an archive that claims to hold more is refused before it is read


def read_file(path: str) -> Mapping[str, Any]:
    """Return the columns of a table or the arrays of an NPZ archive; ``-`` is the standard input.

    The format is told from the content: Parquet, Arrow and NPZ files carry a mark, all else is CSV.
    """
    source = io.BytesIO(sys.stdin.buffer.read()) if path == "-" else _opened(path)
    with source:
        head = source.read(8)
        source.seek(0)
        try:
            if head.startswith(b"PK"):
                return _read_npz(source)
            return _read_table(source, head)
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            if isinstance(error, DataError):
                raise
            reason = " ".join(str(error).split())[:200]
            raise DataError(
                f"{path} cannot be read as Parquet, Arrow, NPZ or CSV: {reason}. "
                "Check that the file is whole."
            ) from error


def column(columns: Mapping[str, Any], name: str, option: str) -> Any:
    """Return one column, or say which there are."""
    if name in columns:
        return columns[name]
    close = difflib.get_close_matches(name, list(columns), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(list(columns)[:12])}."
    raise DataError(f"{option} must name a column of the file, got {name!r}; {hint}")


def _opened(path: str) -> io.BufferedReader:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise DataError(f"no file {path!r}. Check the path; use - for the standard input.") from None
    except IsADirectoryError:
        raise DataError(f"{path!r} is a folder. Name one file in it.") from None
    except PermissionError:
        raise DataError(f"{path!r} may not be read. Check its permissions.") from None


def _read_npz(source: Any) -> Mapping[str, Any]:
    with zipfile.ZipFile(source) as archive:
        claimed = sum(member.file_size for member in archive.infolist())
    if claimed > MOST_NPZ_BYTES:
        raise DataError(
            f"the archive claims {claimed:,} bytes, more than the limit of {MOST_NPZ_BYTES:,}. "
            "Convert it to Parquet."
        )
    source.seek(0)
    with np.load(source, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _read_table(source: Any, head: bytes) -> Mapping[str, Any]:
    try:
        import pyarrow as pa
        from pyarrow import csv, feather, parquet
    except ImportError:
        raise MissingExtraError(
            "files need pyarrow, which is not installed. Run: pip install 'epiloss[files]'"
        ) from None
    if head.startswith(b"PAR1"):
        table = parquet.read_table(source)
    elif head.startswith(b"ARROW1"):
        table = feather.read_table(source)
    elif head.startswith(b"\x1f\x8b"):
        table = csv.read_csv(pa.CompressedInputStream(source, "gzip"))
    else:
        table = csv.read_csv(source)
    repeated = {name for name in table.column_names if table.column_names.count(name) > 1}
    if repeated:
        raise DataError(
            f"columns must have distinct names, got {min(repeated)!r} twice. Rename one of them."
        )
    return {name: _values(table.column(name)) for name in table.column_names}


def _values(values: Any) -> Any:
    """Return a column as NumPy; lists of equal length become rows of a matrix."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(values.type):
        width = values.type.list_size
        return np.asarray(values.combine_chunks().flatten()).reshape(-1, width)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        rows = values.to_pylist()
        if len({len(row) if row is not None else -1 for row in rows}) > 1:
            raise DataError("a column of lists must have lists of one length, got several.")
        return np.array(rows)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return np.asarray(values)
