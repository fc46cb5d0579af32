"""Files at the door: Parquet, CSV, Arrow and NPZ, read as named columns and never unpickled."""

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

MOST_NPZ_BYTES = 16 * 2**30  # an array that claims to hold more is refused before it is read

# what archives hold that are spreadsheets: of Excel (also binary), of OpenDocument, of Numbers
_SHEETS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml", "Index/Document.iwa")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# what zipfile and NumPy raise where an archive or the header of an array is broken
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, RuntimeError, SyntaxError, tokenize.TokenError)


class FileColumns(dict[str, Any]):
    """Columns by name, and how the file marks them."""

    def __init__(
        self, columns: Mapping[str, Any], marks: Mapping[str, Mapping[bytes, bytes] | None] | None = None
    ) -> None:
        super().__init__(columns)
        self.marks = dict(marks or {})

    @property
    def identifiers(self) -> frozenset[str]:
        """The columns that tell rows apart, and are no features."""
        marks = {name: mark or {} for name, mark in self.marks.items()}
        return frozenset(name for name, mark in marks.items() if mark.get(b"epiloss") == IDENTIFIER)


def read_file(path: str) -> FileColumns:
    """Return the columns of a table or the arrays of an NPZ archive; ``-`` is the standard input.

    The format is told from the content: Parquet, Arrow and NPZ files carry a mark, all else is CSV.
    """
    content = _standard_input() if path == "-" else None
    name = "the standard input" if path == "-" else path
    if path != "-":
        _check_path(path)
    if _is_archive(path, content):
        with file_errors(name, _BROKEN_ARCHIVE), _seekable(path, content) as source:
            return _read_npz(source, name)
    return _columns(read_table(name, content))


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise DataError("the standard input is closed. Pipe a table into it, or name a file.")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise DataError(f"the standard input cannot be read: {error.strerror}. Name a file.") from error


def read_whole(path: str) -> Any:
    """Return the table of the standard input (``-``) or an NPZ archive; None for all other files.

    Such data cannot be read in parts.
    """
    if path != "-" and not _is_archive(path, None):
        return None
    columns = read_file(path)
    pa = arrow()
    with file_errors(path):
        arrays = {name: _arrow_array(pa, values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name}: {len(array)}" for name, array in arrays.items())
        raise DataError(printable(f"the arrays of {path} must have equal lengths, got {sizes}."))
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
    table = arrow().table(dict(columns))
    with writing_table(path, table.schema) as write:
        write(table)


@contextmanager
def writing_table(path: str | Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Give what writes tables of a schema one after the other into a file, wholly or not at all."""
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
        raise OptionError(f"a table is written as {', '.join(writers)}, got {str(path)!r}.")
    plain = partial(_harmless, pa) if ending == ".csv" else _as_it_is
    with (
        writing(path) as temporary,
        writers[ending](str(temporary), plain(schema.empty_table()).schema) as writer,
    ):
        yield lambda table: writer.write_table(plain(table))


def _as_it_is(table: Any) -> Any:
    return table


def _harmless(pa: Any, table: Any) -> Any:
    """Return a table of which no text is a formula to a spreadsheet: such ones get a quote in front."""

    def plain(text: str | None) -> str | None:
        return f"'{text}" if text is not None and text.startswith(_FORMULA) else text

    for place, field in enumerate(table.schema):
        values = table.column(place)
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            values = pa.array(map(plain, values.to_pylist()), pa.string())
        table = table.set_column(place, str(plain(field.name)), values)
    return table


def column(columns: Mapping[str, Any], name: str, option: str) -> Any:
    """Return one column, or say which there are."""
    if name in columns:
        return columns[name]
    raise NoColumnError(
        option, f"must name a column of the file, got {name!r}; {no_column(name, columns)}"
    )


def _seekable(path: str, content: bytes | None) -> BinaryIO:
    return open(path, "rb") if content is None else io.BytesIO(content)


def _check_path(path: str) -> None:
    if not os.path.exists(path):  # False, and no error, also for names that are too long
        raise DataError(printable(f"no file {path!r}. Check the path; use - for the standard input."))
    if os.path.isdir(path):
        raise DataError(printable(f"{path!r} is a folder. Name one file in it."))


def _read_npz(source: Any, name: str) -> FileColumns:
    arrays = {}
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        _check_arrays([one.filename for one in members], name)
        source.seek(0, io.SEEK_END)
        if sum(one.compress_size for one in members) > source.tell():
            raise ValueError("its arrays claim to be longer than the archive")
        for member in members:
            arrays[member.filename.removesuffix(".npy")] = _read_array(archive, member)
    # a lone value has no rows
    return FileColumns({name: array for name, array in arrays.items() if array.ndim > 0})


def _check_arrays(members: Sequence[str], name: str) -> None:
    """Refuse archives of other things than arrays, such as spreadsheets."""
    if any(member.endswith(".npy") for member in members):
        return
    if any(member in _SHEETS for member in members):
        what = (
            "a spreadsheet. Save the sheet as CSV, or convert it by pandas.read_excel and "
            "DataFrame.to_parquet"
        )
    else:
        what = "a ZIP archive without arrays. Unpack it, and name the files in it"
    raise DataError(f"{printable(name)} is no table: it is {what}.")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Return an array; one that claims more than it can hold is refused before memory is taken."""
    name = printable(repr(member.filename))
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"array {name} is compressed in a way that NumPy does not write. Save it by numpy.savez."
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
        raise DataError(f"array {name} holds Python objects, which are not read. Save numbers or text.")
    if dtype.kind not in "biufSUM":
        raise DataError(
            f"array {name} must hold numbers, truth values, texts or moments, got {dtype}. Convert it."
        )
    claimed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed > min(MOST_NPZ_BYTES, member.file_size):
        raise DataError(
            f"array {name} claims {claimed:,} bytes, which the archive does not hold (the limit is "
            f"{MOST_NPZ_BYTES:,}). Convert it to Parquet."
        )
    check_claim(f"array {name}", claimed, member.compress_size, "Convert it to Parquet.")
    with archive.open(member) as stream, np.errstate(all="ignore"):  # numbers of more than 64 bits
        array = np.lib.format.read_array(stream, allow_pickle=False)
        native = dtype.newbyteorder("=") if dtype.kind != "f" or dtype.itemsize <= 8 else np.float64
        return array.astype(native, copy=False)


def _columns(table: Any) -> FileColumns:
    columns = {name: _values(name, table.column(name)) for name in table.column_names}
    return FileColumns(columns, {field.name: field.metadata for field in table.schema})


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
