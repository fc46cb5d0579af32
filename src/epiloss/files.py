"""Files at the door: Parquet, CSV, Arrow and NPZ, read as named columns and never unpickled."""

from __future__ import annotations

import difflib
import io
import math
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epiloss.atomic import replacing
from epiloss.errors import DataError, MissingExtraError, NoColumnError, OptionError, printable

MOST_NPZ_BYTES = 16 * 2**30  # an array that claims to hold more is refused before it is read


class FileColumns(dict[str, Any]):
    """Columns by name; ``identifiers`` are those that the file itself marks as no features."""

    identifiers: frozenset[str] = frozenset()


def read_file(path: str) -> FileColumns:
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
        except DataError:
            raise
        except (ValueError, OSError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
            reason = printable(" ".join(str(error).split()))[:200].rstrip(".")
            raise DataError(
                f"{path} cannot be read as Parquet, Arrow file, NPZ or comma-separated UTF-8 text: "
                f"{reason}. Check that the file is whole and of one of these kinds."
            ) from error


def read_whole(path: str) -> Any:
    """Return the table of the standard input (``-``) or an NPZ archive; None for all other files.

    Such data cannot be read in parts.
    """
    if path != "-" and not _is_archive(path):
        return None
    columns = read_file(path)
    pa = _arrow()[0]
    arrays = {name: _arrow_array(pa, values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name}: {len(array)}" for name, array in arrays.items())
        raise DataError(printable(f"the arrays of {path} must have equal lengths, got {sizes}."))
    mark = {"epiloss": "identifier"}
    fields = [
        pa.field(name, array.type, metadata=mark if name in columns.identifiers else None)
        for name, array in arrays.items()
    ]
    return pa.table(list(arrays.values()), schema=pa.schema(fields))


def _is_archive(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"PK"
    except OSError:
        return False  # which is told where it is read


def _arrow_array(pa: Any, values: Any) -> Any:
    """Return an array, or a matrix as lists of equal length, as Arrow."""
    values = np.asarray(values)
    if values.ndim == 1:
        return pa.array(values)
    flat = pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(values.shape[1:])))


def write_table(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write columns as Parquet, CSV or Arrow, as the name's ending says, wholly or not at all."""
    pa, csv, feather, parquet = _arrow()
    writers = {
        ".parquet": parquet.write_table,
        ".csv": csv.write_csv,
        ".arrow": feather.write_feather,
        ".feather": feather.write_feather,
    }
    ending = Path(path).suffix.lower()
    if ending not in writers:
        raise OptionError(f"a table is written as {', '.join(writers)}, got {str(path)!r}.")
    with replacing(path) as temporary:
        writers[ending](pa.table(dict(columns)), str(temporary))


def column(columns: Mapping[str, Any], name: str, option: str) -> Any:
    """Return one column, or say which there are."""
    if name in columns:
        return columns[name]
    close = difflib.get_close_matches(name, list(columns), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(list(columns)[:12])}."
    raise NoColumnError(option, f"must name a column of the file, got {name!r}; {hint}")


def _opened(path: str) -> io.BufferedReader:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise DataError(f"no file {path!r}. Check the path; use - for the standard input.") from None
    except IsADirectoryError:
        raise DataError(f"{path!r} is a folder. Name one file in it.") from None
    except PermissionError:
        raise DataError(f"{path!r} may not be read. Check its permissions.") from None


def _read_npz(source: Any) -> FileColumns:
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            _check_member(archive, member)
    source.seek(0)
    with np.load(source, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    # a lone value has no rows
    return FileColumns({name: array for name, array in arrays.items() if array.ndim > 0})


def _check_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse an array that claims more than it can hold, before any memory is taken for it."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise DataError(
            f"array {member.filename!r} holds Python objects, which are not read. Save numbers or text."
        )
    claimed = math.prod(shape) * dtype.itemsize
    swollen = claimed > 2**26 and claimed > 500 * member.compress_size
    if claimed > MOST_NPZ_BYTES or claimed > member.file_size or swollen:
        raise DataError(
            f"array {member.filename!r} claims {claimed:,} bytes from {member.compress_size:,} in the "
            f"archive, which is not believed (the limit is {MOST_NPZ_BYTES:,}). Convert it to Parquet."
        )


def _arrow() -> tuple[Any, Any, Any, Any]:
    try:
        import pyarrow
        from pyarrow import csv, feather, parquet
    except ImportError:
        raise MissingExtraError(
            "files need pyarrow, which is not installed. Run: pip install 'epiloss[files]'"
        ) from None
    return pyarrow, csv, feather, parquet


def _read_table(source: Any, head: bytes) -> FileColumns:
    pa, csv, feather, parquet = _arrow()
    if head.startswith(b"PAR1"):
        table = parquet.read_table(source)
    elif head.startswith(b"ARROW1"):
        table = feather.read_table(source)
    elif head.startswith(b"\x1f\x8b"):
        table = csv.read_csv(pa.CompressedInputStream(source, "gzip"))
    else:
        table = csv.read_csv(source)
    names = table.column_names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(
            f"columns must have distinct names, got {repeated[0]!r} twice. Rename one of them."
        )
    columns = FileColumns({name: _values(name, table.column(name)) for name in names})
    columns.identifiers = frozenset(
        field.name for field in table.schema if (field.metadata or {}).get(b"epiloss") == b"identifier"
    )
    return columns


def _values(name: str, values: Any) -> Any:
    """Return a column as NumPy; lists of equal length become rows of a matrix."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(
            f"column {name!r} holds bytes that are not UTF-8 text. Save the file in UTF-8, or drop it."
        )
    if pa.types.is_fixed_size_list(kind) and not values.null_count:
        flat = np.asarray(values.combine_chunks().flatten())
        # nothing computes with half floats; as single ones they keep their values
        flat = flat.astype(np.float32) if flat.dtype == np.float16 else flat
        return flat.reshape(-1, kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        rows = values.to_pylist()
        if len({-1 if row is None else len(row) for row in rows}) > 1:
            raise DataError(
                f"column {name!r} must hold lists of one length, none missing. Drop or repair them."
            )
        return np.array(rows)
    if pa.types.is_dictionary(kind):
        return np.array(values.to_pylist(), object)  # not all kinds of dictionary can be cast
    return np.asarray(values)
