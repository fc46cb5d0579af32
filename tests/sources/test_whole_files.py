"""Files of every format give the same columns; broken and hostile files give one line."""

from __future__ import annotations

import gzip
import io
import pickle
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from epiloss import DataError
from epiloss.sources import whole_files as files
from epiloss.sources.whole_files import column, read_file

N = 12
Y = np.arange(N) % 2
P = (np.arange(N) + 0.5) / N
TEXT = np.array(["u", "v", "w"] * (N // 3))
TABLE = pa.table({"y": Y, "p": P, "text": TEXT})
FRAME = pl.DataFrame({"y": Y, "p": P, "text": TEXT})


def as_bytes(write: Any, *arguments: Any) -> bytes:
    buffer = io.BytesIO()
    write(*arguments, buffer)
    return buffer.getvalue()


def npz(save: Any = np.savez, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def arrow_file() -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return buffer.getvalue()


CSV = as_bytes(csv.write_csv, TABLE)
FORMATS = {
    "csv": CSV,
    "csv with a mark": b"\xef\xbb\xbf" + CSV,
    "csv from windows": CSV.replace(b"\n", b"\r\n"),
    "csv.gz": gzip.compress(CSV),
    "parquet": as_bytes(parquet.write_table, TABLE),
    "feather": as_bytes(feather.write_feather, TABLE),
    "arrow": arrow_file(),
    "npz": npz(y=Y, p=P, text=TEXT),
    "compressed npz": npz(np.savez_compressed, y=Y, p=P, text=TEXT),
    "polars parquet": as_bytes(FRAME.write_parquet),
    "polars arrow": as_bytes(FRAME.write_ipc),
    "categories": as_bytes(
        parquet.write_table, TABLE.set_column(2, "text", TABLE["text"].dictionary_encode())
    ),
    "polars categories": as_bytes(FRAME.with_columns(pl.col("text").cast(pl.Categorical)).write_ipc),
}


def saved(folder: Path, content: bytes, name: str = "data") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS.keys())
def test_every_format_gives_the_same_columns_whatever_the_file_is_called(
    content: bytes, tmp_path: Path
) -> None:
    columns = read_file(saved(tmp_path, content, "data.bin"))
    assert list(columns) == ["y", "p", "text"]
    np.testing.assert_array_equal(columns["y"], Y)
    np.testing.assert_array_equal(columns["p"], P)
    np.testing.assert_array_equal(np.asarray(columns["text"]).astype(str), TEXT)


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS.keys())
def test_the_standard_input_is_read_like_a_file(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    np.testing.assert_array_equal(read_file("-")["p"], P)


def test_lists_of_one_length_are_a_matrix(tmp_path: Path) -> None:
    matrix = np.arange(2.0 * N).reshape(N, 2)
    lists = {
        "lists": pa.array(matrix.tolist()),
        "large": pa.array(matrix.tolist(), pa.large_list(pa.float64())),
        "fixed": pa.FixedSizeListArray.from_arrays(matrix.ravel(), 2),
    }
    columns = read_file(saved(tmp_path, as_bytes(parquet.write_table, pa.table(lists))))
    for name in lists:
        np.testing.assert_array_equal(columns[name], matrix)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float64()), pa.list_(pa.float64(), 2)], ids=["list", "fixed"]
)
def test_a_missing_list_is_refused_and_never_moves_the_rows_below_it(kind: Any, tmp_path: Path) -> None:
    table = pa.table({"e": pa.array([[1.0, 2.0], None, [3.0, 4.0]], kind)})
    with pytest.raises(DataError, match="'e' must hold lists of one length without missing rows"):
        read_file(saved(tmp_path, as_bytes(parquet.write_table, table)))


def test_missing_values_stay_missing(tmp_path: Path) -> None:
    table = pa.table({"a": [1, None, 3], "b": ["u", None, "v"]})
    columns = read_file(saved(tmp_path, as_bytes(parquet.write_table, table)))
    np.testing.assert_array_equal(np.asarray(columns["a"], float), [1, np.nan, 3])
    assert columns["b"][1] is None


def liar() -> bytes:
    """Return a small archive whose array claims eighty terabytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("y.npy", header.getvalue() + bytes(80))
    return buffer.getvalue()


BROKEN = {
    "empty": b"",
    "half a parquet": FORMATS["parquet"][:200],
    "half an arrow": FORMATS["arrow"][:200],
    "half a gzip": FORMATS["csv.gz"][:40],
    "half an npz": FORMATS["npz"][:200],
    "the mark of a zip": b"PK",
    "ragged": b"y,p\n0,0.1\n1,0.2,3\n",
    "repeated names": b"y,p,p\n0,0.1,1\n1,0.2,2\n",
    "latin-1 names": "y,p,é\n0,0.1,1\n".encode("latin-1"),
    "latin-1 values": "y,p,who\n0,0.1,Zoé\n1,0.2,Noë\n".encode("latin-1"),
    "utf-16": CSV.decode().encode("utf-16"),
    "binary": bytes(range(256)) * 4 + b"\x1b[31m,\n,,\n",
    "objects": npz(y=np.array([1, "a"], object)),
    "a liar": liar(),
    "corrupt npz": FORMATS["compressed npz"][:60] + b"\xff" * 40 + FORMATS["compressed npz"][100:],
    "lists of many lengths": as_bytes(parquet.write_table, pa.table({"e": [[1.0], [1.0, 2.0]]})),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_refused_in_one_printable_line(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_file(saved(tmp_path, content))
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 500 + len(str(tmp_path))


@pytest.mark.parametrize("name", ["nowhere.csv", "."])
def test_a_path_without_a_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file|folder"):
        read_file(str(tmp_path / name))


class Trap:
    """An object whose unpickling leaves a trace."""

    sprung = False

    def __reduce__(self) -> Any:
        return setattr, (Trap, "sprung", True)


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    trap = np.empty(1, object)
    trap[0] = Trap()
    for content in (npz(y=trap), pickle.dumps(Trap())):
        with pytest.raises(DataError):
            read_file(saved(tmp_path, content))
    assert not Trap.sprung


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_NPZ_BYTES", 1000)
    with pytest.raises(DataError, match="1,000"):
        read_file(saved(tmp_path, npz(np.savez_compressed, y=np.zeros(10_000))))


def test_an_unknown_column_is_told_with_the_nearest_or_all() -> None:
    columns = {"label": Y, "score": P}
    assert column(columns, "score", "--score") is P
    with pytest.raises(DataError, match=r"--score .* 'scor'.* 'score'\?"):
        column(columns, "scor", "--score")
    with pytest.raises(DataError, match="label, score"):
        column(columns, "zzz", "--score")


def test_names_of_columns_reach_the_terminal_without_control_characters() -> None:
    with pytest.raises(DataError) as caught:
        column({"\x1b[31mred": Y}, "zzz", "--score")
    assert str(caught.value).isprintable()
