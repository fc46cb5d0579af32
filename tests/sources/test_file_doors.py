"""What is wrong with a file is said in one sentence, with the column, the line and the remedy."""

from __future__ import annotations

import bz2
import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import epiloss
from epiloss.cli.main import main

N = 400
ROWS = "".join(f"{i % 2},{(i + 0.5) / N},{i % 7},{'ab'[i % 2]}\n" for i in range(N))
HEADER = "y,p,x,text\n"
GOOD = HEADER + ROWS


def audit(path: Path) -> epiloss.Audit:
    return epiloss.audit_table(path, label="y", score="p", method="partition")


def n_rows(result: epiloss.Audit) -> int:
    return int(result.to_dict()["n_samples"])


def late(line: str) -> str:
    """Return rows of which the last one, beyond the first megabyte, is another."""
    return HEADER + ROWS * 200 + line + ROWS


BAD: dict[str, tuple[str | bytes, str]] = {
    "late text": (late("1,oops,3,a\n"), "column 'p' of .* must hold numbers.*got 'oops' in line 80,002"),
    "late text in a feature": (late("1,0.5,many,a\n"), "column 'x' .*got 'many' in line 80,002"),
    "ragged": (HEADER + ROWS + "1,0.5,3\n", "as many cells as its header .4., got 3 in line 402"),
    "ragged further on": (late("1,0.5,3,a,b\n"), "got 5 in line 80,002"),
    "an open quote": (
        late('1,0.5,3,"a\n') + ROWS * 200,
        "lines of the file in one cell.*Close the quotation mark",
    ),
    "latin-1": (
        GOOD.replace("a", "é", 3).encode("latin-1"),
        r"UTF-8, got other bytes .line 2.*iconv -f LATIN1",
    ),
    "latin-1 further on": (late("1,0.5,3,é\n").encode("latin-1"), "UTF-8, got other bytes .line 80,002"),
    "latin-1 names": (GOOD.replace("text", "été").encode("latin-1"), "UTF-8, got other bytes .line 1"),
    "utf-16": (GOOD.encode("utf-16"), "UTF-16.*iconv -f UTF-16"),
    "utf-16 without a mark": (GOOD.encode("utf-16-le"), "UTF-16.*iconv -f UTF-16"),
    "repeated names": (GOOD.replace("text", "x"), "distinct names, got 'x' twice"),
    "empty": ("", "is empty"),
    "blank": ("\n\n", "is empty"),
    "a header alone": (HEADER, "at least one row"),
    "an image": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is an image"),
    "feather of version 1": (b"FEA1\0\0\0\0" + bytes(64), "Feather file of version 1.*Parquet"),
    "a pickle": (b"\x80\x04\x95\x10", "a pickle, which can run code"),
    "an array": (b"\x93NUMPY\x01\0v\0{'descr'", "numpy.savez"),
    "bytes": (bytes(range(256)), "is not a table: it is a binary file"),
    "half a parquet file": (b"PAR1" + bytes(100), "cannot be read"),
    "another column": (GOOD.replace("p,", "prob,", 1), "score must name a column"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    path = tmp_path / "data.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(epiloss.DataError, match=words) as caught:
        audit(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300 + len(str(path))


def command_for(name: str, folder: Path) -> list[str]:
    content, _ = BAD[name]
    path = folder / "data.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return ["audit", str(path), "--label", "y", "--score", "p"]


@pytest.mark.parametrize("name", ["late text", "utf-16", "an image", "empty", "ragged"])
def test_the_command_line_answers_with_exit_code_4_and_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["epiloss", *command_for(name, tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr()
    assert stopped.value.code == 4
    assert said.out == ""
    assert said.err.count("\n") == 1


def test_a_process_of_its_own_answers_with_exit_code_4_and_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "epiloss", *command_for("late text", tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


SAME = {
    "semicolons": GOOD.replace(",", ";"),
    "semicolons and decimal commas": GOOD.replace(",", ";").replace(".", ","),
    "tabs": GOOD.replace(",", "\t"),
    "bars": GOOD.replace(",", "|"),
    "from windows": GOOD.replace("\n", "\r\n"),
    "with a mark": "\ufeff" + GOOD,
    "blank lines": "\n" + GOOD.replace("\n", "\n\n"),
}


@pytest.mark.parametrize("name", SAME)
def test_a_text_that_can_be_understood_is_read_alike(name: str, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.parquet"  # the name does not matter
    plain.write_text(GOOD)
    other.write_text(SAME[name])
    assert audit(other).to_dict() == audit(plain).to_dict()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_compressed_text_is_read_alike(pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    plain, other = tmp_path / "plain.csv", tmp_path / "other"
    plain.write_text(GOOD)
    half = len(GOOD) // 2
    other.write_bytes(pack(GOOD[:half].encode()) + pack(GOOD[half:].encode()))
    assert audit(other).to_dict() == audit(plain).to_dict()


def test_what_lies_beside_the_data_is_left_out_and_named(tmp_path: Path) -> None:
    table = csv.read_csv(pa.py_buffer(GOOD.encode()))
    parquet.write_table(table, tmp_path / "one.parquet")
    parquet.write_table(table, tmp_path / "two.parquet")
    for name in ("README.txt", "plot.png", "_SUCCESS", ".one.parquet.crc", "notes.md"):
        (tmp_path / name).write_bytes(b"\x89PNG nothing to read")
    result = audit(tmp_path)
    assert n_rows(result) == 2 * N
    assert any("left out: README.txt, notes.md, plot.png" in one for one in result.remarks)


def test_files_of_any_name_are_read_where_none_is_called_as_a_table(tmp_path: Path) -> None:
    (tmp_path / "part-00000").write_text(GOOD)
    (tmp_path / "_SUCCESS").touch()
    result = audit(tmp_path)
    assert n_rows(result) == N
    assert not any("left out" in one for one in result.remarks)


def test_an_archive_is_read_by_its_path(tmp_path: Path) -> None:
    y, p = np.arange(N) % 2, (np.arange(N) + 0.5) / N
    np.savez(tmp_path / "data.npz", y=y, p=p, X=np.arange(N, dtype=float))
    assert n_rows(audit(tmp_path / "data.npz")) == N
