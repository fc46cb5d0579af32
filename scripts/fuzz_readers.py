"""The readers that ``fuzz_files.py`` tests, with the undamaged files that each of them reads."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

import damage
import epiloss
import language_model_logs
from epiloss.repair import load_repair
from epiloss.sources import whole_files as files
from epiloss.streaming.checkpoint import sealed, unsealed

N = 300
PACKS = ("gzip", "zstd", "bz2", "lz4")
MEMORY = 16_000_000  # so little that the rows of the checkpoint's run do not fit


@dataclass(frozen=True)
class Reader:
    """A function that reads files, undamaged files for it, and ways to damage them."""

    name: str
    seeds: Callable[[], Mapping[str, bytes]]
    ways: tuple[damage.Damage, ...]
    read: Callable[[Path], object]


def table(n: int = N) -> Any:
    """Return rows with columns of every type that a file can contain."""
    g = np.random.default_rng(0)
    score = np.round(g.random(n), 4)
    x = np.round(g.standard_normal(n), 3)
    return pa.table(
        {
            "label": (g.random(n) < score).astype(int),
            "score": score,
            "x": x,
            "text": g.choice(["a", "b", "c"], n),
            "day": pa.array(g.integers(0, 10**9, n), pa.timestamp("s")),
            "n": pa.array(g.integers(0, 9, n), mask=g.random(n) < 0.1),
        }
    )


def csv_text() -> bytes:
    """Return the table as text."""
    sink = io.BytesIO()
    from pyarrow import csv

    csv.write_csv(table(), sink)
    return sink.getvalue()


def texts() -> Mapping[str, bytes]:
    """Return the text, plain and with every compression."""
    whole = csv_text()
    packed = {pack: damage.compress(pack, whole) for pack in PACKS}
    return {"plain": whole, **packed}


def parquets() -> Mapping[str, bytes]:
    """Return Parquet files with different settings."""
    lists = pa.array(np.random.default_rng(1).random((N, 3)).tolist())
    wide = table().append_column("e", lists)
    coded = wide.set_column(3, "text", wide["text"].dictionary_encode())
    makes: dict[str, dict[str, Any]] = {
        "snappy": {},
        "zstd": {"compression": "zstd", "row_group_size": 100},
        "plain": {"compression": "none", "use_dictionary": False},
        "new pages": {"data_page_version": "2.0", "compression": "gzip"},
        "checked": {"write_page_checksum": True},
    }
    found = {}
    for name, options in makes.items():
        sink = io.BytesIO()
        parquet.write_table(coded if name == "zstd" else wide, sink, **options)
        found[name] = sink.getvalue()
    return found


def arrows() -> Mapping[str, bytes]:
    """Return Arrow files and streams."""
    coded = table().set_column(3, "text", table()["text"].dictionary_encode())
    found = {}
    for pack in ("uncompressed", "lz4", "zstd"):
        sink = io.BytesIO()
        feather.write_feather(coded, sink, compression=pack)
        found[f"file, {pack}"] = sink.getvalue()
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=None if pack == "uncompressed" else pack)
        with pa.ipc.new_stream(sink, coded.schema, options=options) as writer:
            writer.write_table(coded)
        found[f"stream, {pack}"] = sink.getvalue()
    return found


def json_texts() -> Mapping[str, bytes]:
    """Return the table as JSON: lines, also compressed, and records."""
    rows = [{**row, "day": str(row["day"])} for row in table().to_pylist()]
    whole = "".join(json.dumps(row) + "\n" for row in rows).encode()
    nested = [{**row, "place": [0.5, k % 3]} for k, row in enumerate(rows)]
    both = [{**row, "id": k, "row": row} for k, row in enumerate(nested)]
    inner = "".join(json.dumps(row) + "\n" for row in both).encode()
    return {"plain": whole, "nested": inner, "gzip": damage.compress("gzip", whole)}


def samples() -> Mapping[str, bytes]:
    """Return samples as lm-evaluation-harness writes them."""
    lines = language_model_logs.harness_lines(80)
    for line in lines[::2]:
        line["doc"]["lists"] = [[1, "a"], {"b": None}]
    whole = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return {"plain": whole, "gzip": damage.compress("gzip", whole)}


def inspect_logs(*, archive: bool) -> Mapping[str, bytes]:
    """Return logs as Inspect writes them, of one and of several epochs."""
    write = language_model_logs.write_eval_log if archive else language_model_logs.write_json_log
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in {"one": (60, 1), "repeated": (40, 3), "clusters": (40, 2)}.items():
            log = language_model_logs.inspect_samples(*options, vary=name == "clusters")
            found[name] = write(Path(folder) / "log", log).read_bytes()
    return found


def archives() -> Mapping[str, bytes]:
    """Return NPZ archives."""
    g = np.random.default_rng(0)
    score = g.random(N)
    arrays = {"label": (g.random(N) < score).astype(int), "score": score, "X": g.random((N, 3))}
    found = {}
    for name, save in {"stored": np.savez, "deflated": np.savez_compressed}.items():
        sink = io.BytesIO()
        save(sink, **arrays)  # type: ignore[arg-type]
        found[name] = sink.getvalue()
    return found


def rows() -> tuple[dict[str, Any], Any, Any]:
    """Return features, labels and scores to repair."""
    plain = table(N).select(["x", "text", "label", "score"]).to_pydict()
    label, score = np.array(plain.pop("label")), np.array(plain.pop("score"))
    return {name: np.array(values) for name, values in plain.items()}, label, score


def repairs() -> Mapping[str, bytes]:
    """Return repairs of every kind, as they are saved."""
    X, label, score = rows()
    wrong = np.where(X["x"] > 0, score * 0.3, 0.3 + score * 0.7)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repair.json"
        for method in ("boosted", "regions"):
            epiloss.RegionRecalibrator(method).fit(label, wrong, X).save(path)
            found[method] = path.read_bytes()
    return found


def audit_of(path: Path, **options: Any) -> None:
    """Audit a file, and print the result in every form."""
    result = epiloss.audit_table(str(path), label="label", score="score", method="partition", **options)
    str(result)
    json.dumps(result.to_dict(), allow_nan=False)


def audit_file(path: Path) -> None:
    """Audit a file in passes."""
    audit_of(path)


def audit_whole(path: Path) -> None:
    """Audit a file that is read at once, as the command line does."""
    whole = files.read_whole(str(path))
    if whole is None:
        audit_of(path)
    else:
        epiloss.audit_table(whole, label="label", score="score", method="partition")


def audit_log(path: Path) -> None:
    """Audit a log of a language model, without naming its columns."""
    result = epiloss.audit_table(str(path), method="partition")
    str(result)
    json.dumps(result.to_dict(), allow_nan=False)


def read_file(path: Path) -> None:
    """Read all columns at once, as ``epiloss apply`` does."""
    files.read_file(str(path))


def use_repair(path: Path) -> None:
    """Read a repair and use it; its results must be probabilities."""
    repair = load_repair(path)
    X, _, score = rows()
    better = repair.predict(score, X)
    if not ((better >= 0) & (better <= 1)).all():
        raise AssertionError("the repair returned values outside [0, 1]")


def resumed(path: Path, **options: Any) -> None:
    """Resume from a checkpoint with one damaged file."""
    os.chdir(path.parent)  # because the checkpoint identifies files by their paths
    try:
        audit_of(Path("data.parquet"), memory=MEMORY, checkpoint="kept", **options)
    finally:
        os.chdir("/")


def checkpoints() -> Mapping[str, bytes]:
    """Return the files of a checkpoint, from a run on more rows than fit into the sample."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.parquet"
        write_rows(data)
        resumed(data)
        kept = (Path(folder) / "kept").iterdir()
        return {path.name: path.read_bytes() for path in sorted(kept)}


def write_rows(path: Path) -> None:
    """Write the rows of the checkpoint's run, with the same modification time each time."""
    parquet.write_table(table(12_000), path)
    os.utime(path, ns=(0, 0))


def inside(g: np.random.Generator, content: bytes) -> bytes:
    """Damage the content of a checkpoint and seal it again, as an attacker would."""
    facts, result = unsealed(content)
    if g.random() < 0.3:
        return sealed(damage.tree(g, facts), result)
    return sealed(facts, _json_or_blind(g, result))


def _json_or_blind(g: np.random.Generator, content: bytes) -> bytes:
    return damage.tree(g, content) if content.startswith(b"{") else damage.blindly(g, content)


TEXT_WAYS = (damage.cells, damage.cells, damage.encoded, damage.blindly)
BINARY_WAYS = (damage.blindly, damage.near_the_end, damage.near_the_start)
READERS = (
    Reader("CSV", texts, TEXT_WAYS, audit_file),
    Reader("CSV, whole", texts, TEXT_WAYS, read_file),
    Reader("Parquet", parquets, BINARY_WAYS, audit_file),
    Reader("Parquet, whole", parquets, BINARY_WAYS, read_file),
    Reader("Arrow", arrows, BINARY_WAYS, audit_file),
    Reader("Arrow, whole", arrows, BINARY_WAYS, read_file),
    Reader("NPZ", archives, (damage.archive, damage.archive, damage.blindly), audit_whole),
    Reader("JSON lines", json_texts, (damage.lines, damage.lines, damage.blindly), audit_file),
    Reader("JSON, whole", json_texts, (damage.lines, damage.encoded, damage.blindly), read_file),
    Reader("lm-evaluation-harness", samples, (damage.lines, damage.lines, damage.blindly), audit_log),
    Reader(
        "Inspect, archive",
        lambda: inspect_logs(archive=True),
        (damage.trees_in_archive, damage.trees_in_archive, damage.blindly),
        audit_log,
    ),
    Reader(
        "Inspect, JSON",
        lambda: inspect_logs(archive=False),
        (damage.tree, damage.tree, damage.blindly),
        audit_log,
    ),
    Reader("repair", repairs, (damage.tree, damage.tree, damage.tree, damage.blindly), use_repair),
    Reader("checkpoint", checkpoints, (damage.blindly, inside, inside), resumed),
)
