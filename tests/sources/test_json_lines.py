"""JSON lines and records: the same result as CSV and Parquet files of the same rows."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import epiloss
from epiloss.sources import json_lines
from epiloss.sources.files import open_files
from epiloss.sources.whole_files import read_file

N = 600
_g = np.random.default_rng(0)
P = _g.random(N)
COLUMNS: dict[str, Any] = {
    "y": (_g.random(N) < P).astype(int),
    "p": P,
    "x": _g.normal(size=N),
    "n": np.arange(N) % 7,
    "sex": np.where(_g.random(N) < 0.5, "f", "m"),
}
ROWS: list[dict[str, Any]] = pa.table(COLUMNS).to_pylist()


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def audit(path: Any, **options: Any) -> dict[str, Any]:
    given = {"label": "y", "score": "p", "method": "partition", **options}
    return epiloss.audit_table(path, **given).to_dict()


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return audit(pa.table(COLUMNS))


FORMS: dict[str, Callable[[], bytes]] = {
    "lines": lambda: lines(ROWS),
    "the last line without an end": lambda: lines(ROWS).rstrip(b"\n"),
    "windows": lambda: lines(ROWS).replace(b"\n", b"\r\n"),
    "blank lines": lambda: lines(ROWS).replace(b"\n", b"\n\n", 20),
    "a byte order mark": lambda: b"\xef\xbb\xbf" + lines(ROWS),
    "gzip": lambda: gzip.compress(lines(ROWS)),
    "bz2": lambda: bz2.compress(lines(ROWS)),
    "records": lambda: json.dumps(ROWS).encode(),
    "indented records": lambda: json.dumps(ROWS, indent=2).encode(),
    "indented objects": lambda: "\n".join(json.dumps(row, indent=2) for row in ROWS).encode(),
    "compressed records": lambda: gzip.compress(json.dumps(ROWS).encode()),
    "another order of fields": lambda: lines([ROWS[0], *(dict(sorted(r.items())) for r in ROWS[1:])]),
}


@pytest.mark.parametrize("block", [2**22, 1_000])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bits(
    form: str, block: int, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "_BLOCK", block)
    path = tmp_path / "data.jsonl"
    path.write_bytes(FORMS[form]())
    assert audit(path) == expected


def test_csv_parquet_and_json_of_the_same_rows_give_the_same_bits(
    tmp_path: Path, expected: dict[str, Any]
) -> None:
    parquet.write_table(pa.table(COLUMNS), tmp_path / "data.parquet")
    csv.write_csv(pa.table(COLUMNS), tmp_path / "data.csv")
    (tmp_path / "data.ndjson").write_bytes(lines(ROWS))
    for name in ("data.parquet", "data.csv", "data.ndjson"):
        assert audit(tmp_path / name) == expected


@pytest.mark.parametrize("form", ["lines", "gzip", "records"])
def test_the_standard_input_is_read_alike(
    form: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(FORMS[form]())))
    assert audit("-") == expected


def test_a_folder_of_parts_is_read_by_several_processes_alike(
    tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epiloss.streaming.engines.local.LEAST_BYTES", 0)
    for place in range(3):
        (tmp_path / f"{place}.jsonl").write_bytes(lines(ROWS[200 * place : 200 * place + 200]))
    assert audit(tmp_path) == audit(tmp_path, n_jobs=2) == expected


def test_nested_fields_have_dotted_names(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    nested = [
        {"y": r["y"], "out": {"p": r["p"]}, "doc": {"a": {"x": r["x"]}, "n": r["n"]}} for r in ROWS
    ]
    path.write_bytes(lines([{**nested[0], "doc": None}, *nested[1:]]))
    x = [None, *COLUMNS["x"][1:]]
    flat = {"y": COLUMNS["y"], "out.p": P, "doc.a.x": x, "doc.n": [None, *COLUMNS["n"][1:].tolist()]}
    table = pa.table({name: pa.array(values) for name, values in flat.items()})
    assert audit(path, score="out.p") == audit(table, score="out.p")
    assert list(read_file(str(path))) == list(flat)


def test_lists_of_scores_and_embeddings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    rows = [{"y": r["y"], "prob": [1 - r["p"], r["p"]], "e": [r["x"], r["n"]]} for r in ROWS]
    path.write_bytes(lines(rows))
    two = {"y": COLUMNS["y"], "q": 1 - P, "p": P, "e[0]": COLUMNS["x"], "e[1]": COLUMNS["n"]}
    found, same = audit(path, score="prob"), audit(pa.table(two), score=["q", "p"])
    assert found["score"] == same["score"]
    assert found["n_samples"] == N


def test_a_long_line_is_read(tmp_path: Path, expected: dict[str, Any]) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(
        lines([{**row, "text": "long " * 10**6 if k == 1 else ""} for k, row in enumerate(ROWS)])
    )
    assert audit(path, exclude="text") == expected


def test_of_a_large_file_only_blocks_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(lines(ROWS))
    monkeypatch.setattr(json_lines, "_BLOCK", 2_000)
    sizes = [batch.num_rows for batch in open_files(path).parts[0].batches(["y", "p"])]
    assert sum(sizes) == N
    assert max(sizes) < 50


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    numbers = [
        *np.random.default_rng(1).random(200).tolist(),
        5e-324,
        1.7976931348623157e308,
        0.1,
        1 / 3,
    ]
    path = tmp_path / "data.json"
    for content in (lines([{"v": one} for one in numbers]), json.dumps([{"v": v} for v in numbers])):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert read_file(str(path))["v"].tolist() == numbers


def test_missing_fields_nulls_and_nan_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"y": 1, "x": 0.5}\n{"y": 0}\n{"y": 1, "x": null}\n{"y": 0, "x": NaN}\n')
    assert np.isnan(read_file(str(path))["x"]).tolist() == [False, True, True, True]


DEEP = b'{"y": 1, "p": 0.5, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
BAD: dict[str, tuple[bytes, str]] = {
    "another kind": (lines(ROWS) + b'{"y": 1, "p": "high"}\n', "column 'p' of .* a string .* line 601"),
    "half a line": (lines(ROWS) + b'\n{"y": 1, "p"', "line 602 of .* must be a JSON object: "),
    "no object": (lines(ROWS) + b"[1, 2]\n", "line 601 of .* must be a JSON object"),
    "a number": (b'[{"y": 1}, 3]', "record 2 of .* must be a JSON object, got 3"),
    "half a list": (json.dumps(ROWS).encode()[:-9], "record 600 of .* is not valid JSON"),
    "matrices": (b"[[1, 2], [3, 4]]", "JSON without column names"),
    "twice": (b'{"y": 1, "p": 0.5, "p": 0.6}\n', "line 1 of .*specified twice"),
    "too deep": (lines(ROWS[:2]) + DEEP, "nested more than 64 levels deep"),
    "too deep at first": (DEEP, "nested more than 64 levels deep"),
    "too deep in a list": (b"[" + DEEP + b"]", "nested more than 64 levels deep"),
    "too deep in a list of lines": (b"[\n" + DEEP + b"]", "nested too deeply"),
    "deep in a list of lines": (
        b'[\n{"y": 1, "x": ' + b"[" * 100 + b"]" * 100 + b"}\n]",
        "nested more than 64 levels deep",
    ),
    "no text": (b'{"y": 1, "p": 0.5, "x": "\xff\xfe"}\n', "UTF-8|utf-8"),
    "no rows": (b"{}\n{}\n", "label must name a column"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    with pytest.raises(epiloss.DataError, match=words) as caught:
        audit(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300 + len(str(path))


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_MAX_BYTES", 2**20)
    monkeypatch.setattr(json_lines, "_BLOCK", 2**18)
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"y": "' + b"a" * 2**22)
    with pytest.raises(epiloss.DataError, match="a line of over 1,048,576 bytes"):
        audit(path)


def test_a_text_that_swells_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epiloss.sources.size_limits.FREE", 2**20)
    monkeypatch.setattr(json_lines, "MAX_RATIO", 50)
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"y": 1, "p": 0.5}\n' * 2**20))
    with pytest.raises(epiloss.DataError, match="must not expand to more than"):
        audit(path)
