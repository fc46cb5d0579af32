"""CSV: compressed or not, by comma, semicolon, tab or bar; and in words what is wrong with it."""

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
# what files are by which they begin, where they are no tables that are read, and what to do about it
_OTHERS = {
    b"FEA1": "a Feather file of version 1: write it as Parquet, by pandas.read_feather and to_parquet",
    b"\xfd7zXZ\x00": "an xz archive: expand it by xz -d",
    b"PK": "a ZIP archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"\x93NUMPY": "a single NumPy array: save all columns in one archive by numpy.savez",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file: write it as Parquet",
    b"SQLite format 3": "an SQLite database: save it as a file, and pass sql='SELECT ...'",
    b"ORC": "an ORC file: write it as Parquet",
    b"Obj\x01": "an Avro file: write it as Parquet",
    b"\x80\x02": "a pickle, which can run code when it is read: write a table as Parquet",
    b"\x80\x03": "a pickle, which can run code when it is read: write a table as Parquet",
    b"\x80\x04": "a pickle, which can run code when it is read: write a table as Parquet",
    b"\x80\x05": "a pickle, which can run code when it is read: write a table as Parquet",
    b"\xd0\xcf\x11\xe0": "a spreadsheet: save the sheet as CSV",
    b"crc\x00": "a checksum",
}
_SEPARATORS = (";", "\t", "|")
_HEAD = 2**16  # bytes that are looked at to tell how a text is written
SWELLS = 500  # times: it is read in parts, and never as a whole in memory
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # how UTF-16 begins


@dataclass(frozen=True)
class CsvForm:
    """How a text is written."""

    compression: str | None
    separator: str
    decimal: str
    names: tuple[str, ...]


def open_text(path: str, content: bytes | None, compression: str | None) -> Any:
    """Return the bytes of a text, expanded if it is compressed."""
    pa = arrow()
    stored = pa.input_stream(path, compression=None) if content is None else pa.BufferReader(content)
    if compression is None:
        return stored
    # of Arrow's own: a thread of it that calls Python may do so when Python has ended, and crash
    return pa.CompressedInputStream(stored, compression)


def beginning(path: str, content: bytes | None) -> tuple[str | None, bytes]:
    """Return how a text is compressed, if it is, and how it begins once it is expanded."""
    with open_text(path, content, None) as stored:
        head = stored.read(16)
    found = next((name for mark, name in _COMPRESSED.items() if head.startswith(mark)), None)
    with open_text(path, content, found) as text:
        return found, _beginning(text)


def form_of(path: str, content: bytes | None) -> CsvForm:
    """Tell from its beginning how a text is written, or what it is instead."""
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


def _beginning(text: Any) -> bytes:
    head = b""
    while len(head) < _HEAD:
        more = text.read(_HEAD - len(head))
        if not more:
            break
        head += more
    return head


def _check_kind(path: str, head: bytes) -> None:
    """Refuse what is no text in UTF-8, and say what it is."""
    name = printable(path)
    if not head.strip():
        raise DataError(f"{name} is empty. Write it again, or leave it out.")
    plain = head[:200].replace(b"\0", b"").translate(None, _WIDE[0])
    if (head.startswith(_WIDE) or b"\0" in head[:2]) and plain.isascii():
        raise DataError(
            f"{name} is text in UTF-16 or UTF-32, and UTF-8 is read. Convert it: iconv -f UTF-16 -t "
            "UTF-8 FILE > NEW."
        )
    what = next((what for mark, what in _OTHERS.items() if head.startswith(mark)), None)
    if what is not None:
        raise DataError(
            f"{name} is no table: it is {what}. Parquet, CSV, Arrow files and NPZ archives are read."
        )
    if re.match(rb"\s*(\{|\[\s*[\[{])", head):
        raise DataError(
            f"{name} is no table: it is JSON without names of columns. Write an object for each row, "
            'as {"y": 1, "p": 0.9}, on a line of its own.'
        )
    if b"\0" in head:
        raise DataError(
            f"{name} is no table: it holds bytes that are no text. Parquet, CSV, Arrow files and NPZ "
            "archives are read; check that it is whole and of one of these kinds."
        )
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4 or len(head) < _HEAD:  # else the beginning ends within a sign
            raise _not_utf8(path, head.count(b"\n", 0, error.start) + 1) from None


def _not_utf8(path: str, line: int | None) -> DataError:
    where = "" if line is None else f" (line {line:,})"
    return DataError(
        f"{printable(path)} must be text in UTF-8, and is not{where}. Convert it: iconv -f LATIN1 "
        "-t UTF-8 FILE > NEW."
    )


def csv_schema(path: str, content: bytes | None) -> Any:
    """Return the schema of a CSV file's beginning; whole numbers may have fractions further on."""
    pa = arrow()
    with told(path, content) as form, _reader(path, content, form) as batches:
        schema = batches.schema
    if any(pa.types.is_binary(field.type) for field in schema):
        raise _not_utf8(path, None)
    wider = {field.name: pa.float64() for field in schema if pa.types.is_integer(field.type)}
    return pa.schema([field.with_type(wider.get(field.name, field.type)) for field in schema])


def csv_batches(path: str, content: bytes | None, schema: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Read some columns, in batches, as the types of a schema."""
    types = {name: schema.field(name).type for name in columns}
    with told(path, content, types) as form, _reader(path, content, form, types) as batches:
        stored, expanded = stored_size(path, content), 0
        for batch in batches:
            _check_quotes(batch, form, path)
            expanded += batch.nbytes
            if form.compression is not None:
                check_claim(path, expanded, stored, "Expand it yourself if you trust it.", SWELLS)
            yield batch


def stored_size(path: str, content: bytes | None) -> int:
    """Return how many bytes a file has as it is stored."""
    return os.stat(path).st_size if content is None else len(content)


def _check_quotes(batch: Any, form: CsvForm, path: str) -> None:
    """Refuse texts that hold whole lines of the file: a quote before them was left open."""
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
                        f"column {name!r} of {path} holds {len(cells):,} lines of it in one text, from "
                        f"{text[:20]!r} on. Close the quotes that are open before it."
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
    """Give the batches of a text: of all columns, or of those of which the types are given."""
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
def told(path: str, content: bytes | None, types: Mapping[str, Any] | None = None) -> Iterator[CsvForm]:
    """Give how a text is written, and tell in words what turns out to be wrong with it."""
    form = form_of(path, content)
    try:
        yield form
    except arrow().ArrowInvalid as error:
        found = _in_words(path, form, str(error))
        if found is None:
            raise
        try:  # only who reads in order knows the line
            with _reader(path, content, form, types, in_order=True) as batches:
                for _ in batches:
                    pass
        except arrow().ArrowInvalid as again:
            found = _in_words(path, form, str(again)) or found
        raise found from error


def _in_words(path: str, form: CsvForm, said: str) -> DataError | None:
    """Return what to say of a text of which pyarrow says something; None where that is to be said."""
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
            f"column {column} of {name} must hold {kind}, as its beginning does, got "
            f"{printable(repr(value[4][:60]))}{line}. Mend that value or leave it empty; or write the "
            "column as text from the first row on."
        )
    if "invalid UTF8" in said:
        return _not_utf8(path, None if row is None else int(row[1]))
    ragged = re.search(r"Expected (\d+) columns, got (\d+)", said)
    if ragged is not None:
        return DataError(
            f"all lines of {name} must have as many cells as its header ({ragged[1]}), got "
            f"{ragged[2]}{line}. Put texts that hold the separator in quotes, or mend the line."
        )
    if "straddling" in said:
        return DataError(
            f"{name} has a line of over a million bytes. Close the quotes that are open in it."
        )
    if "Empty CSV" in said:
        return DataError(f"{name} has no rows. Write it again, or leave it out.")
    return None
