"""Damage files at random, and give them to every door that reads one.

Usage, from the root of the repository::

    python scripts/fuzz_files.py --seconds 60            # all doors, for a minute
    python scripts/fuzz_files.py --cases 90              # some cases for each of the 14 doors
    python scripts/fuzz_files.py --replay 1234           # one case again, with what it says

The undamaged files must end in a result. Each case is made by its number alone. It runs in a process of
its own memory and time limit, and must end in a result or in one printable line of an error that is
ours (``DataError``, ``OptionError``).
Everything else is a finding: another exception, a signal, too much memory or time, a warning, something
printed, a file written elsewhere, a result that cannot be printed. Exit codes: 0 nothing found,
1 findings (each is printed, and its file kept in the folder ``--keep``).
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
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

ROOM = 2**30  # bytes that a case may take beside what is loaded
SECONDS = 30.0  # of a case
FORK = multiprocessing.get_context("fork")
N = 300
PACKS = ("gzip", "zstd", "bz2", "lz4")
MEMORY = 16_000_000  # so little that the rows of the checkpoint's run do not fit


@dataclass(frozen=True)
class Door:
    """A way in: undamaged files, ways to damage them, and what is done with one."""

    name: str
    seeds: Callable[[], Mapping[str, bytes]]
    ways: tuple[damage.Damage, ...]
    enter: Callable[[Path], object]


def table(n: int = N) -> Any:
    """Return rows of every kind that a file can hold."""
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
    """Return the text plain and compressed in every way."""
    whole = csv_text()
    packed = {pack: damage.compress(pack, whole) for pack in PACKS}
    return {"plain": whole, **packed}


def parquets() -> Mapping[str, bytes]:
    """Return Parquet files of several makes."""
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
    """Audit what is read at once, as the command line does."""
    whole = files.read_whole(str(path))
    if whole is None:
        audit_of(path)
    else:
        epiloss.audit_table(whole, label="label", score="score", method="partition")


def audit_log(path: Path) -> None:
    """Audit a log of a language model, whose columns are not named."""
    result = epiloss.audit_table(str(path), method="partition")
    str(result)
    json.dumps(result.to_dict(), allow_nan=False)


def read_file(path: Path) -> None:
    """Read all columns at once, as the application of a repair does."""
    files.read_file(str(path))


def use_repair(path: Path) -> None:
    """Read a repair and use it; what it gives must be probabilities."""
    repair = load_repair(path)
    X, _, score = rows()
    better = repair.predict(score, X)
    if not ((better >= 0) & (better <= 1)).all():
        raise AssertionError("what a repair gave are no probabilities")


def resumed(path: Path, **options: Any) -> None:
    """Go on from a checkpoint whose one file is damaged."""
    os.chdir(path.parent)  # a part is known by its path
    try:
        audit_of(Path("data.parquet"), memory=MEMORY, checkpoint="kept", **options)
    finally:
        os.chdir("/")


def checkpoints() -> Mapping[str, bytes]:
    """Return the files of a checkpoint, of a run over more rows than are kept."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.parquet"
        write_rows(data)
        resumed(data)
        kept = (Path(folder) / "kept").iterdir()
        return {path.name: path.read_bytes() for path in sorted(kept)}


def write_rows(path: Path) -> None:
    """Write the rows that the checkpoint is of, in the same state each time."""
    parquet.write_table(table(12_000), path)
    os.utime(path, ns=(0, 0))


def inside(g: np.random.Generator, content: bytes) -> bytes:
    """Damage what a checkpoint holds, and seal it again, as one who means harm would."""
    facts, result = unsealed(content)
    if g.random() < 0.3:
        return sealed(damage.tree(g, facts), result)
    return sealed(facts, _json_or_blind(g, result))


def _json_or_blind(g: np.random.Generator, content: bytes) -> bytes:
    return damage.tree(g, content) if content.startswith(b"{") else damage.blindly(g, content)


TEXT_WAYS = (damage.cells, damage.cells, damage.encoded, damage.blindly)
BINARY_WAYS = (damage.blindly, damage.near_the_end, damage.near_the_start)
DOORS = (
    Door("CSV", texts, TEXT_WAYS, audit_file),
    Door("CSV, whole", texts, TEXT_WAYS, read_file),
    Door("Parquet", parquets, BINARY_WAYS, audit_file),
    Door("Parquet, whole", parquets, BINARY_WAYS, read_file),
    Door("Arrow", arrows, BINARY_WAYS, audit_file),
    Door("Arrow, whole", arrows, BINARY_WAYS, read_file),
    Door("NPZ", archives, (damage.archive, damage.archive, damage.blindly), audit_whole),
    Door("JSON lines", json_texts, (damage.lines, damage.lines, damage.blindly), audit_file),
    Door("JSON, whole", json_texts, (damage.lines, damage.encoded, damage.blindly), read_file),
    Door("lm-evaluation-harness", samples, (damage.lines, damage.lines, damage.blindly), audit_log),
    Door(
        "Inspect, archive",
        lambda: inspect_logs(archive=True),
        (damage.trees_in_archive, damage.trees_in_archive, damage.blindly),
        audit_log,
    ),
    Door(
        "Inspect, JSON",
        lambda: inspect_logs(archive=False),
        (damage.tree, damage.tree, damage.blindly),
        audit_log,
    ),
    Door("repair", repairs, (damage.tree, damage.tree, damage.tree, damage.blindly), use_repair),
    Door("checkpoint", checkpoints, (damage.blindly, inside, inside), resumed),
)


def made(number: int, corpus: Path, folder: Path) -> tuple[Door, str, Path]:
    """Write the file of a case into an empty folder; return its door, what it is, and its path."""
    g = np.random.default_rng(number)
    door = DOORS[number % len(DOORS)]
    seeds = sorted((corpus / door.name).iterdir())
    seed = seeds[int(g.integers(len(seeds)))]
    content = seed.read_bytes()
    ways = door.ways
    inner = {texts: damage.cells, json_texts: damage.lines, samples: damage.lines}.get(door.seeds)
    if inner is not None and seed.name in PACKS:
        ways = (damage.recompressed(seed.name, inner), damage.blindly)
    way = ways[int(g.integers(len(ways)))]
    content = way(g, content)
    while g.random() < 0.2 and content:
        content = damage.blindly(g, content)
    return door, f"{door.name}: {seed.name}, {way.__name__}", laid_out(door, seed, content, folder)


def laid_out(door: Door, seed: Path, content: bytes, folder: Path) -> Path:
    """Write what is to stand in the place of an undamaged file; return the path that is entered."""
    if door.enter is not resumed:
        (folder / "case").write_bytes(content)
        return folder / "case"
    shutil.copytree(seed.parent, folder / "kept", dirs_exist_ok=True)
    (folder / "kept" / seed.name).write_bytes(content)
    write_rows(folder / "data.parquet")
    return folder / "data.parquet"


class Watch:
    """Notes whatever a case opens for writing, removes, starts or calls outside of its folder."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in ("subprocess.Popen", "os.system", "socket.connect", "pickle.find_class", "os.exec"):
            self.seen.append(f"{event} {arguments!r:.200}")
        writes = (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if writes or event in (
            "os.mkdir",
            "os.remove",
            "os.rename",
            "os.chmod",
            "os.symlink",
            "os.link",
        ):
            for path in arguments[:1]:
                if isinstance(path, str | os.PathLike) and not os.path.realpath(path).startswith(
                    self.folder
                ):
                    self.seen.append(f"{event} {path}")


def tried(number: int, corpus: Path, watch: Watch) -> tuple[str, str]:
    """Run one case; return its door and what is wrong with how it ended, or nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        door, title, path = made(number, corpus, folder)
        before = _listing(folder)
        watch.folder, watch.seen = str(folder), []
        wrong = ""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                door.enter(path)
                ending = "result"
            except (epiloss.DataError, epiloss.OptionError) as error:
                ending, wrong = "refused", _ill_said(error, folder)
            except BaseException:
                ending, wrong = "crash", traceback.format_exc()
            finally:
                watch.folder = None
        if (
            not wrong and warned and not title.endswith(inside.__name__)
        ):  # sums that are forged may be odd
            wrong = f"a warning: {warned[0].message} ({warned[0].filename}:{warned[0].lineno})"
        if not wrong and watch.seen:
            wrong = f"it did: {watch.seen}"
        new = _listing(folder) - before
        if not wrong and any(
            not (one.startswith("kept/") and one.endswith(".checkpoint")) for one in new
        ):
            wrong = f"it left files: {sorted(new)}"
    return f"{door.name}: {ending}", f"{title}\n{wrong}" if wrong else ""


def _listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _ill_said(error: Exception, folder: Path) -> str:
    """Tell what is wrong with an error's message, if anything is."""
    said, cause = str(error), error.__cause__
    if not said.isprintable():
        return f"not one printable line: {said!r:.500}"
    if len(said) > 600 + said.count(str(folder)) * len(str(folder)):
        return f"long: {said}"
    if isinstance(cause, MemoryError):
        return f"memory was taken for it first: {said}"
    return ""


def worker(pipe: Connection, corpus: Path, output: Path) -> None:
    """Run the cases that the pipe names."""
    with output.open("wb") as sink:  # whatever is printed is printed there
        for stream in (1, 2):
            os.dup2(sink.fileno(), stream)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    watch = Watch()
    while True:
        number = pipe.recv()
        if number is None:
            return
        pipe.send(tried(number, corpus, watch))


class Workers:
    """Processes that run cases; one that dies or hangs is replaced."""

    def __init__(self, corpus: Path, folder: Path) -> None:
        self.corpus, self.output = corpus, folder / "printed"
        self._start()

    def _start(self) -> None:
        self.pipe, other = FORK.Pipe()
        self.process = FORK.Process(target=worker, args=(other, self.corpus, self.output), daemon=True)
        self.process.start()
        other.close()
        self.printed = 0

    def run(self, number: int) -> tuple[str, str]:
        """Return the door of a case and how it ended, and what is wrong with that, if anything."""
        self.pipe.send(number)
        door = DOORS[number % len(DOORS)].name
        if not self.pipe.poll(SECONDS):
            self.stop()
            self._start()
            return f"{door}: hangs", f"{door}\nno end after {SECONDS:g} s"
        try:
            ending, wrong = self.pipe.recv()
        except EOFError:
            self.process.join()
            code, said = self.process.exitcode, self._said()
            self._start()
            return f"{door}: dies", f"{door}\nthe process died (exit code {code}): {said}"
        said = self._said()
        if said and not wrong:
            wrong = f"{door}\nit printed: {said}"
        return ending, wrong

    def _said(self) -> str:
        with self.output.open("rb") as file:
            file.seek(self.printed)
            new = file.read()
        self.printed += len(new)
        return new.decode("utf-8", "replace")[-2000:]

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def corpus_of(doors: Sequence[Door]) -> Iterator[tuple[Path, Path]]:
    """Give a folder with the undamaged files of all doors, and one to work in."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        corpus = Path(name) / "corpus"
        process = FORK.Process(target=_write_corpus, args=(doors, corpus))  # so that no thread is here
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit("the undamaged files cannot be made, or are refused")
        yield corpus, Path(name)


def _write_corpus(doors: Sequence[Door], corpus: Path) -> None:
    for door in doors:
        (corpus / door.name).mkdir(parents=True)
        for name, content in door.seeds().items():
            (corpus / door.name / name).write_bytes(content)
        for seed in sorted((corpus / door.name).iterdir()):  # or refusing whatever comes would do
            with tempfile.TemporaryDirectory() as folder:
                door.enter(laid_out(door, seed, seed.read_bytes(), Path(folder)))


def fuzz(seconds: float, first: int, keep: Path, most: int | None = None) -> int:
    """Run cases for a while; return the exit code."""
    counts: Counter[str] = Counter()
    found: list[int] = []
    with corpus_of(DOORS) as (corpus, folder):
        workers = Workers(corpus, folder)
        number, end = first, time.monotonic() + seconds
        while time.monotonic() < end and (most is None or number < first + most):
            ending, wrong = workers.run(number)
            counts[ending] += 1
            if wrong:
                found.append(number)
                print(f"finding, case {number}: {wrong}\n", file=sys.stderr, flush=True)
                case = keep / str(number)
                case.mkdir(parents=True, exist_ok=True)
                made(number, corpus, case)
                (case / "finding.txt").write_text(wrong)
            number += 1
        workers.stop()
    print(f"{number - first:,} cases from {first} on in {seconds:g} s, {len(found)} findings")
    for door in DOORS:
        endings = {
            name.partition(": ")[2]: n for name, n in counts.items() if name.startswith(f"{door.name}: ")
        }
        print(f"  {door.name}: " + ", ".join(f"{n:,} {name}" for name, n in sorted(endings.items())))
    if found:
        print(f"again: python scripts/fuzz_files.py --replay {found[0]}", file=sys.stderr)
    return 1 if found else 0


def replay(number: int) -> int:
    """Run one case in this process, and say how it ends."""
    with corpus_of([DOORS[number % len(DOORS)]]) as (corpus, folder):
        case = folder / "again"
        case.mkdir()
        door, title, path = made(number, corpus, case)
        print(title, file=sys.stderr)
        try:
            door.enter(path)
        except (epiloss.DataError, epiloss.OptionError) as error:
            print(f"refused: {error}")
            return 0
    print("a result")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30, help="how long (default: 30)")
    parser.add_argument("--cases", type=int, help="how many at most (default: as many as there is time)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for findings")
    parser.add_argument("--replay", type=int, help="run this case alone, in the open")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return replay(options.replay)
    return fuzz(options.seconds, options.seed, options.keep, options.cases)


if __name__ == "__main__":
    # allocators that take address space in advance would hit the limit without need
    plain = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    if not plain.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **plain})
    sys.exit(main())
