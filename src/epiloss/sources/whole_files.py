"""Reading whole files as named columns: Parquet, CSV, JSON, Arrow and NPZ; nothing is unpickled."""

from __future__ import annotations

import io
import math
import os
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from epiloss._saving import writing
from epiloss.errors import DataError, NoColumnError, OptionError, printable
from epiloss.input.tables import no_column
from epiloss.sources.arrow import IDENTIFIER, arrow
from epiloss.sources.files import file_errors, read_table
from epiloss.sources.size_limits import check_claim

MOST_NPZ_BYTES = 16 * 2**30  # limit for the size of an array according to its header

# members of archives that are spreadsheets: Excel, binary Excel, OpenDocument, Numbers
_SHEETS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml", "Index/Document.iwa")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# errors of zipfile and NumPy for a broken archive or array header
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, RuntimeError, SyntaxError, tokenize.TokenError)


class FileColumns(dict[str, Any]):
    """Columns by name, with their metadata in the file."""

    def __init__(
        self, columns: Mapping[str, Any], marks: Mapping[str, Mapping[bytes, bytes] | None] | None = None
    ) -> None:
        super().__init__(columns)
        self.marks = dict(marks or {})

    @property
    def identifiers(self) -> frozenset[str]:
        """The columns marked as identifiers, which are not features."""
        marks = {name: mark or {} for name, mark in self.marks.items()}
        return frozenset(name for name, mark in marks.items() if mark.get(b"epiloss") == IDENTIFIER)


def read_file(path: str) -> FileColumns:
    """Return the columns of a table or the arrays of an NPZ archive; ``-`` reads standard input.

    The format is inferred from the content.
    """
    content = _standard_input() if path == "-" else None
    name = "standard input" if path == "-" else path
    if path != "-":
        _check_path(path)
    if _is_archive(path, content):
        with file_errors(name, _BROKEN_ARCHIVE), _seekable(path, content) as source:
            return _read_npz(source, name)
    return _columns(read_table(name, content))


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise DataError("standard input is closed. Pipe a table into it, or pass a file.")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise DataError(f"standard input cannot be read: {error.strerror}. Pass a file.") from error


def read_whole(path: str) -> Any:
    """Return standard input (``-``) or an NPZ archive as a table; None for other files.

    Only these have to be read as a whole.
    """
    if path != "-" and not _is_archive(path, None):
        return None
    columns = read_file(path)
    pa = arrow()
    with file_errors(path):
        arrays = {name: _arrow_array(pa, values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name}: {len(array)}" for name, array in arrays.items())
        raise DataError(
            printable(f"the arrays of {path} must have equal lengths, got {sizes}. ")
            + "Save only arrays with one row per prediction."
        )
    marks = columns.marks
    fields = [pa.field(name, one.type, metadata=marks.get(name)) for name, one in arrays.items()]
    return pa.table(list(arrays.values()), schema=pa.schema(fields))


def _is_archive(path: str, content: bytes | None) -> bool:
    if content is not None:
        return content.startswith(b"PK")
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"PK"
    except OSError:
        return False  # the error is reported when the file is read


def _arrow_array(pa: Any, values: Any) -> Any:
    """Return an array as an Arrow array; a matrix becomes lists of fixed size."""
    values = np.asarray(values)
    if values.ndim == 1:
        return pa.array(values)
    flat = pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(values.shape[1:])))


def write_table(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write columns atomically as Parquet, CSV or Arrow, according to the ending of the path."""
    table = arrow().table(dict(columns))
    with writing_table(path, table.schema) as write:
        write(table)


@contextmanager
def writing_table(path: str | Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends tables of a schema to a file, which is written atomically."""
    pa = arrow()
    from pyarrow import csv, parquet

    writers = {
        ".parquet": parquet.ParquetWriter,
        ".csv": csv.CSVWriter,
        ".arrow": pa.ipc.new_file,
        ".feather": pa.ipc.new_file,
    }
    ending = Path(path).suffix.lower()
    if ending not in writers:
        raise OptionError(
            f"the file of a table must end with {', '.join(writers)}, got {str(path)!r}. Rename it."
        )
    plain = partial(_without_formulas, pa) if ending == ".csv" else _unchanged
    with (
        writing(path) as temporary,
        writers[ending](str(temporary), plain(schema.empty_table()).schema) as writer,
    ):
        yield lambda table: writer.write_table(plain(table))


def _unchanged(table: Any) -> Any:
    return table


def _without_formulas(pa: Any, table: Any) -> Any:
    """Put a quote before strings that a spreadsheet would run as formulas."""

    def plain(text: str | None) -> str | None:
        return f"'{text}" if text is not None and text.startswith(_FORMULA) else text

    for place, field in enumerate(table.schema):
        values = table.column(place)
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            values = pa.array(map(plain, values.to_pylist()), pa.string())
        table = table.set_column(place, str(plain(field.name)), values)
    return table


def column(columns: Mapping[str, Any], name: str, option: str) -> Any:
    """Return one column, or raise an error that lists the columns."""
    if name in columns:
        return columns[name]
    raise NoColumnError(
        option, f"must name a column of the file, got {name!r}; {no_column(name, columns)}"
    )


def _seekable(path: str, content: bytes | None) -> BinaryIO:
    return open(path, "rb") if content is None else io.BytesIO(content)


def _check_path(path: str) -> None:
    if not os.path.exists(path):  # also False, without an error, for names that are too long
        raise DataError(printable(f"no file {path!r}. Check the path; use - for standard input."))
    if os.path.isdir(path):
        raise DataError(printable(f"{path!r} is a folder. Pass one file in it."))


def _read_npz(source: Any, name: str) -> FileColumns:
    arrays = {}
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        _check_arrays([one.filename for one in members], name)
        source.seek(0, io.SEEK_END)
        if sum(one.compress_size for one in members) > source.tell():
            raise ValueError("its arrays are longer than the archive")
        for member in members:
            arrays[member.filename.removesuffix(".npy")] = _read_array(archive, member)
    # scalars have no rows
    return FileColumns({name: array for name, array in arrays.items() if array.ndim > 0})


def _check_arrays(members: Sequence[str], name: str) -> None:
    """Raise an error for archives without arrays, such as spreadsheets."""
    if any(member.endswith(".npy") for member in members):
        return
    if any(member in _SHEETS for member in members):
        what = (
            "a spreadsheet. Save the sheet as CSV, or convert it with pandas.read_excel and "
            "DataFrame.to_parquet"
        )
    else:
        what = "a ZIP archive without arrays. Unpack it, and pass the files in it"
    raise DataError(f"{printable(name)} is not a table: it is {what}.")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Return an array; its claimed size is checked before memory is allocated."""
    name = printable(repr(member.filename))
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"array {name} has a compression that NumPy does not use. Save it with numpy.savez."
        )
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
            f"array {name} must hold numbers or strings, got Python objects, which are not loaded for "
            "safety. Convert it before saving."
        )
    if dtype.kind not in "biufSUM":
        raise DataError(
            f"array {name} must hold numbers, booleans, strings or datetimes, got {dtype}. Convert it."
        )
    claimed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed > min(MOST_NPZ_BYTES, member.file_size):
        raise DataError(
            f"array {name} claims {claimed:,} bytes, which is more than the archive holds or than the "
            f"limit of {MOST_NPZ_BYTES:,}. Convert it to Parquet."
        )
    check_claim(f"array {name}", claimed, member.compress_size, "Convert it to Parquet.")
    with archive.open(member) as stream, np.errstate(all="ignore"):  # casting long doubles may overflow
        array = np.lib.format.read_array(stream, allow_pickle=False)
        native = dtype.newbyteorder("=") if dtype.kind != "f" or dtype.itemsize <= 8 else np.float64
        return array.astype(native, copy=False)


def _columns(table: Any) -> FileColumns:
    columns = {name: _values(name, table.column(name)) for name in table.column_names}
    return FileColumns(columns, {field.name: field.metadata for field in table.schema})


def _values(name: str, values: Any) -> Any:
    """Return a column as a NumPy array; lists of equal length become the rows of a matrix."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(
            f"column {name!r} must hold text in UTF-8, got other bytes. Save the file in UTF-8, or drop "
            "the column."
        )
    if pa.types.is_fixed_size_list(kind) and not values.null_count:
        flat = np.asarray(values.combine_chunks().flatten())
        # half precision is slow and imprecise to compute with; single precision keeps the values
        flat = flat.astype(np.float32) if flat.dtype == np.float16 else flat
        return flat.reshape(-1, kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        rows = values.to_pylist()
        if len({-1 if row is None else len(row) for row in rows}) > 1:
            raise DataError(
                f"column {name!r} must hold lists of one length without missing rows, got several "
                "lengths or missing lists. Drop or fill such rows."
            )
        return np.array(rows)
    if pa.types.is_dictionary(kind):
        return np.array(values.to_pylist(), object)  # Arrow cannot cast all types of dictionaries
    return np.asarray(values)
