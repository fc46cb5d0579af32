"""Small files that claim to be huge are refused before memory is taken; large ones are read in parts.

Each is read in a process that may take half a gigabyte beside what it has loaded.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from forked_scripts import ForkedScripts

ROOM = 2**29
HUGE = 2**28 + 2**20  # bytes: more than a claim may be without a look at the file
LIMITED = """
import resource, sys
from pathlib import Path
import epiloss
from epiloss.sources import whole_files as files
from epiloss.repair import load_repair
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, used + {room}))
try:
    {door}
    print("done")
except epiloss.DataError as error:
    assert not isinstance(error.__cause__, MemoryError), error
    print(error)
"""
AUDIT = 'epiloss.audit_table(sys.argv[1], label="label", score="score", method="partition")'
READ = "files.read_file(sys.argv[1])"
WHOLE = "files.read_whole(sys.argv[1])"
REPAIR = "load_repair(sys.argv[1])"
Entered = Callable[[str, Path], str]


@pytest.fixture
def entered(forked: ForkedScripts) -> Entered:
    """Return what a door says of a file, in a process with little room."""

    def entered(door: str, path: Path, room: int = ROOM) -> str:
        done = forked.run(LIMITED.format(door=door, room=room), path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return entered


LINES = b"0,0.5,1\n1,0.5,2\n"
PACKS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 9),
    "bz2": bz2.compress,
    "zstd": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
}


def swollen(pack: str) -> bytes:
    """Return a text of more than a claim may be: the same piece again and again, as these allow."""
    head, piece = PACKS[pack](b"label,score,x\n"), PACKS[pack](LINES * 2**18)
    return head + piece * (HUGE // (len(LINES) * 2**18) + 1)


@pytest.mark.parametrize("pack", PACKS)
def test_a_text_that_swells_without_end_is_refused(pack: str, tmp_path: Path, entered: Entered) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(swollen(pack))
    assert path.stat().st_size * 500 < HUGE
    assert "must not expand to more than" in entered(AUDIT, path)


def test_a_line_without_an_end_is_refused(tmp_path: Path, entered: Entered) -> None:
    path = tmp_path / "bomb.zst"
    path.write_bytes(PACKS["zstd"](b"label,score,x\n" + b"1" * 2**28))
    assert "over a million bytes" in entered(AUDIT, path)


def test_an_xz_file_is_refused_in_words(tmp_path: Path, entered: Entered) -> None:
    path = tmp_path / "bomb.csv.xz"
    path.write_bytes(lzma.compress(b"label,score\n0,0.5\n"))
    assert "decompress it with xz -d" in entered(AUDIT, path)


def npz(shape: tuple[int, ...], content: bytes, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    header = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", kind) as archive:
        archive.writestr("label.npy", header.getvalue() + content)
    return packed.getvalue()


def relabelled(archive: bytes, old: int, new: int) -> bytes:
    """Return an archive whose headers tell of another size."""
    return archive.replace(old.to_bytes(4, "little"), new.to_bytes(4, "little"))


ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "zeros": (lambda: npz((HUGE // 8,), bytes(HUGE)), "must not expand to more than"),
    "shape": (lambda: npz((2**37,), bytes(64)), "is more than the archive holds"),
    "overflow": (lambda: npz((2**62, 4), bytes(64)), "is more than the archive holds"),
    "size": (lambda: relabelled(npz((2**28,), bytes(64)), 192, 2**31), "must not expand to more than"),
    "stored": (
        lambda: relabelled(npz((2**28,), bytes(64), zipfile.ZIP_STORED), 192, 2**31 + 128),
        "longer than the archive",
    ),
    "packing": (lambda: npz((8,), bytes(64), zipfile.ZIP_LZMA), "a compression that NumPy does not use"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_that_claims_too_much_is_refused(name: str, tmp_path: Path, entered: Entered) -> None:
    make, words = ARCHIVES[name]
    path = tmp_path / "bomb.npz"
    path.write_bytes(make())
    assert words in entered(WHOLE, path)


def constant(n: int) -> pa.Table:
    label = pa.array(np.arange(n) >= n // 2)
    return pa.table({"label": label, "score": np.full(n, 0.5), "x": np.zeros(n), "z": np.ones(n)})


def test_a_parquet_page_that_swells_is_refused(tmp_path: Path, entered: Entered) -> None:
    path = tmp_path / "bomb.parquet"
    table = constant(HUGE // 8)
    parquet.write_table(
        table,
        path,
        row_group_size=len(table),
        use_dictionary=False,
        compression="zstd",
        data_page_size=2**30,
        write_batch_size=len(table),
        max_rows_per_page=len(table),
    )
    assert "a page of" in entered(AUDIT, path)
    assert "must not expand to more than" in entered(READ, path)


def test_a_parquet_text_that_is_repeated_without_end_is_refused(
    tmp_path: Path, entered: Entered
) -> None:
    path = tmp_path / "bomb.parquet"
    n = 10**6
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), ["x" * 10**6])
    parquet.write_table(constant(n).append_column("text", text), path, store_schema=False)
    assert "must have at most 65,536 bytes, got 1,000,000" in entered(AUDIT, path)


@pytest.mark.slow
def test_many_rows_in_few_bytes_are_read_in_parts_and_not_at_once(
    tmp_path: Path, entered: Entered
) -> None:
    """25 million rows in one row group of half a megabyte: 625 MB, were they read at once."""
    path = tmp_path / "rows.parquet"
    n = 25 * 10**6
    parquet.write_table(constant(n), path, row_group_size=n)
    assert path.stat().st_size < 10**6
    assert entered(AUDIT, path) == "done"
    assert "must not expand to more than" in entered(READ, path)


def arrow_bytes(table: pa.Table, write: Callable[..., pa.RecordBatchFileWriter]) -> bytes:
    sink = pa.BufferOutputStream()
    with write(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("write", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_an_arrow_buffer_that_swells_or_lies_is_refused(
    write: Callable[..., pa.RecordBatchFileWriter], tmp_path: Path, entered: Entered
) -> None:
    path = tmp_path / "bomb.arrow"
    path.write_bytes(arrow_bytes(constant(HUGE // 24), write))
    assert "a batch of" in entered(AUDIT, path)
    small = arrow_bytes(constant(1001), write)
    claimed = (8 * 1001).to_bytes(8, "little")
    assert claimed in small
    path.write_bytes(small.replace(claimed, (2**40).to_bytes(8, "little")))
    assert "must not expand to more than" in entered(AUDIT, path)
    assert "must not expand to more than" in entered(READ, path)


def test_a_repair_that_is_too_deep_or_too_large_is_refused(tmp_path: Path, entered: Entered) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 10**6 + "]" * 10**6)
    assert "cannot read a repair" in entered(REPAIR, deep)
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(2**32)  # takes no room on the disk
    assert "a repair must not exceed" in entered(REPAIR, large)
    long = tmp_path / "long.json"
    long.write_text(json.dumps({"format": "epiloss repair", "schema": 1}) + "9" * 10**6)
    assert "cannot read a repair" in entered(REPAIR, long)


@pytest.mark.slow
def test_a_large_text_is_read_in_parts(tmp_path: Path, entered: Entered) -> None:
    """550 MB of text, in a process that may take 512."""
    path = tmp_path / "large.csv"
    scores = np.random.default_rng(0).random(10**4)
    rows = "".join(f"{int(p > 0.5)},{p:.4f},{'s' * 120}\n" for p in scores)
    with path.open("w") as file:
        file.write("label,score,text\n")
        for _ in range(ROOM // len(rows) + 20):
            file.write(rows)
    assert path.stat().st_size > ROOM
    assert entered(AUDIT, path) == "done"
