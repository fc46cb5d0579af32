"""CSV files: compressed or not, separated by comma, semicolon, tab or bar, with readable errors."""

from __future__ import annotations

import csv as plain_csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, printable
from epiloss.sources.arrow import arrow, is_text
from epiloss.sources.size_limits import check_claim

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
# first bytes of files that are not supported, their format, and what to do instead
_OTHERS = {
    b"FEA1": "a Feather file of version 1: convert it with pandas.read_feather and to_parquet",
    b"\xfd7zXZ\x00": "an xz archive: decompress it with xz -d",
    b"PK": "a ZIP archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"\x93NUMPY": "a single NumPy array: save all columns in one archive with numpy.savez",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file: convert it to Parquet",
    b"SQLite format 3": "an SQLite database: save it as a file, and pass sql='SELECT ...'",
    b"ORC": "an ORC file: convert it to Parquet",
    b"Obj\x01": "an Avro file: convert it to Parquet",
    **dict.fromkeys(
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        "a pickle, which can run code when it is loaded: save the table as Parquet",
    ),
    b"\xd0\xcf\x11\xe0": "a spreadsheet: save the sheet as CSV",
    b"crc\x00": "a checksum file",
}
_SEPARATORS = (";", "\t", "|")
_HEAD = 2**16  # bytes from which the dialect is inferred
MAX_RATIO = 500  # of decompressed to compressed bytes; generous, because text is read in blocks
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class CsvForm:
    """The dialect of a CSV file, and its columns."""

    compression: str | None
    separator: str
    decimal: str
    names: tuple[str, ...]


def open_text(path: str, content: bytes | None, compression: str | None) -> Any:
    """Open a text file as a stream of bytes, decompressed."""
    pa = arrow()
    stored = pa.input_stream(path, compression=None) if content is None else pa.BufferReader(content)
    if compression is None:
        return stored
    # Not a Python stream: Arrow's threads would call it and might crash when Python exits.
    return pa.CompressedInputStream(stored, compression)


def beginning(path: str, content: bytes | None) -> tuple[str | None, bytes]:
    """Return the compression of a text file, None for none, and its first bytes, decompressed."""
    with open_text(path, content, None) as stored:
        head = stored.read(16)
    found = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)
    with open_text(path, content, found) as text:
        return found, _read_up_to(text, _HEAD)


def form_of(path: str, content: bytes | None) -> CsvForm:
    """Infer the dialect from the beginning of a file, or raise an error if it is not CSV."""
    found, head = beginning(path, content)
    _check_kind(path, head)
    lines = head.decode("utf-8-sig", "ignore").lstrip("\r\n").splitlines()
    first = lines[0] if lines else ""
    separator = ","
    if "," not in first:
        separator = max(_SEPARATORS, key=first.count)
        separator = separator if separator in first else ","
    decimal = "," if separator != "," and _has_decimal_commas(lines[1:-1], separator) else "."
    names = next(plain_csv.reader([first], delimiter=separator), [])
    return CsvForm(found, separator, decimal, tuple(names))


def _has_decimal_commas(lines: Sequence[str], separator: str) -> bool:
    cells = (cell for line in lines for cell in line.split(separator))
    return any(re.fullmatch(r'"?-?\d+,\d+"?', cell) for cell in cells)


def _read_up_to(stream: Any, n: int) -> bytes:
    """Read ``n`` bytes, or all if there are fewer; a single read may return less."""
    head = b""
    while len(head) < n:
        more = stream.read(n - len(head))
        if not more:
            break
        head += more
    return head


def _check_kind(path: str, head: bytes) -> None:
    """Raise an error that names the format if a file is not UTF-8 text."""
    name = printable(path)
    if not head.strip():
        raise DataError(f"{name} is empty. Write it again, or leave it out.")
    plain = head[:200].replace(b"\0", b"").translate(None, _UTF16_MARKS[0])
    if (head.startswith(_UTF16_MARKS) or b"\0" in head[:2]) and plain.isascii():
        raise DataError(
            f"{name} must be text in UTF-8, got UTF-16 or UTF-32. Convert it: iconv -f UTF-16 -t UTF-8 "
            "FILE > NEW."
        )
    what = next((what for magic, what in _OTHERS.items() if head.startswith(magic)), None)
    if what is not None:
        raise DataError(
            f"{name} is not a table: it is {what}. Supported formats are Parquet, CSV, JSON, Arrow and "
            "NPZ."
        )
    if re.match(rb"\s*(\{|\[\s*[\[{])", head):
        raise DataError(
            f"{name} is not a table: it is JSON without column names. Write one object per row, such as "
            '{"y": 1, "p": 0.9}, each on its own line.'
        )
    if b"\0" in head:
        raise DataError(
            f"{name} is not a table: it is a binary file of unknown format. Check that it is complete; "
            "supported formats are Parquet, CSV, JSON, Arrow and NPZ."
        )
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # an error at the very end of a full head is a character that was cut
        if error.start < len(head) - 4 or len(head) < _HEAD:
            raise _not_utf8(path, head.count(b"\n", 0, error.start) + 1) from None


def _not_utf8(path: str, line: int | None) -> DataError:
    where = "" if line is None else f" (line {line:,})"
    return DataError(
        f"{printable(path)} must be text in UTF-8, got other bytes{where}. Convert it: iconv -f LATIN1 "
        "-t UTF-8 FILE > NEW."
    )


def csv_schema(path: str, content: bytes | None) -> Any:
    """Return the schema, inferred from the beginning; integers become floats, as more may follow."""
    pa = arrow()
    with csv_errors(path, content) as form, _reader(path, content, form) as batches:
        schema = batches.schema
    if any(pa.types.is_binary(field.type) for field in schema):
        raise _not_utf8(path, None)
    wider = {field.name: pa.float64() for field in schema if pa.types.is_integer(field.type)}
    return pa.schema([field.with_type(wider.get(field.name, field.type)) for field in schema])


def csv_batches(path: str, content: bytes | None, schema: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Read some columns in batches, with the types of a schema."""
    types = {name: schema.field(name).type for name in columns}
    with csv_errors(path, content, types) as form, _reader(path, content, form, types) as batches:
        stored, expanded = stored_size(path, content), 0
        for batch in batches:
            _check_quotes(batch, form, path)
            expanded += batch.nbytes
            if form.compression is not None:
                check_claim(path, expanded, stored, "Decompress it if you trust it.", MAX_RATIO)
            yield batch


def stored_size(path: str, content: bytes | None) -> int:
    """Return the stored size of a file in bytes."""
    return os.stat(path).st_size if content is None else len(content)


def _check_quotes(batch: Any, form: CsvForm, path: str) -> None:
    """Raise an error if a cell contains whole lines of the file, because a quote was not closed."""
    from pyarrow import compute

    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if not is_text(values.type):
            continue
        several = values.filter(compute.match_substring(values, "\n"))
        for text in several.to_pylist():
            cells = [line.count(form.separator) + 1 for line in text.split("\n")[1:-1]]
            if cells and len(form.names) > 2 and set(cells) == {len(form.names)}:
                raise DataError(
                    printable(
                        f"column {name!r} of {path} has {len(cells):,} lines of the file in one cell, "
                        f"which begins with {text[:20]!r}. Close the quotation mark before it."
                    )
                )


@contextmanager
def _reader(
    path: str,
    content: bytes | None,
    form: CsvForm,
    types: Mapping[str, Any] | None = None,
    in_order: bool = False,
) -> Iterator[Any]:
    """Yield the batches of a CSV file, with all columns or those whose types are given."""
    from pyarrow import csv

    with (
        open_text(path, content, form.compression) as stream,
        csv.open_csv(
            stream,
            csv.ReadOptions(use_threads=not in_order),
            csv.ParseOptions(delimiter=form.separator),
            csv.ConvertOptions(
                column_types=types, include_columns=types and list(types), decimal_point=form.decimal
            ),
        ) as batches,
    ):
        yield batches


@contextmanager
def csv_errors(
    path: str, content: bytes | None, types: Mapping[str, Any] | None = None
) -> Iterator[CsvForm]:
    """Yield the dialect of a CSV file, and convert the errors of pyarrow into readable ones."""
    form = form_of(path, content)
    try:
        yield form
    except arrow().ArrowInvalid as error:
        found = _readable_error(path, form, str(error))
        if found is None:
            raise
        try:  # read again with one thread: only then do errors have the line number
            with _reader(path, content, form, types, in_order=True) as batches:
                for _ in batches:
                    pass
        except arrow().ArrowInvalid as again:
            found = _readable_error(path, form, str(again)) or found
        raise found from error


def _readable_error(path: str, form: CsvForm, said: str) -> DataError | None:
    """Return a readable error for a message of pyarrow; None if the message is unknown."""
    name = printable(path)
    value = re.search(
        r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): invalid value '(.*)'",
        said,
        re.DOTALL,
    )
    row = re.search(r"Row #(\d+)", said)
    line = "" if row is None else f" in line {int(row[1]):,}"
    if value is not None:
        column = printable(repr(form.names[int(value[1])])) if int(value[1]) < len(form.names) else "?"
        kind = "numbers" if value[3] in ("double", "float", "int64") else f"values of type {value[3]}"
        return DataError(
            f"column {column} of {name} must hold {kind}, as in its first rows, got "
            f"{printable(repr(value[4][:60]))}{line}. Correct that value or leave it empty; if the "
            "column holds text, save the file as Parquet."
        )
    if "invalid UTF8" in said:
        return _not_utf8(path, None if row is None else int(row[1]))
    ragged = re.search(r"Expected (\d+) columns, got (\d+)", said)
    if ragged is not None:
        return DataError(
            f"all lines of {name} must have as many cells as its header ({ragged[1]}), got "
            f"{ragged[2]}{line}. Quote text that contains the separator, or correct the line."
        )
    if "straddling" in said:
        return DataError(
            f"{name} has a line of over a million bytes. Close any open quotation mark in it."
        )
    if "Empty CSV" in said:
        return DataError(f"{name} has no rows. Write it again, or leave it out.")
    return None
