"""Damage files at random, and pass them to everything in epiloss that reads files.

Usage, from the root of the repository::

    python scripts/fuzz_files.py --seconds 60            # all readers, for a minute
    python scripts/fuzz_files.py --cases 90              # some cases for each of the 14 readers
    python scripts/fuzz_files.py --replay 1234           # repeat one case, and show its output

Undamaged files must give a result. Each case is determined by its number. It runs in a process with
limited memory and time, and must end in a result or in a one-line, printable error of epiloss
(``DataError``, ``OptionError``). Everything else is a finding: another exception, a signal, too much
memory or time, a warning, printed output, a file written elsewhere, or a result that cannot be printed.
Exit codes: 0 nothing found, 1 findings (each is printed, and its file is kept in the folder ``--keep``).
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import damage
import epiloss
from fuzz_readers import (
    PACKS,
    READERS,
    Reader,
    inside,
    json_texts,
    resumed,
    samples,
    texts,
    write_rows,
)

ROOM = 2**30  # bytes of memory that a case may use beyond what is loaded
SECONDS = 30.0  # time limit of a case
FORK = multiprocessing.get_context("fork")


def made(number: int, corpus: Path, folder: Path) -> tuple[Reader, str, Path]:
    """Write the file of a case into an empty folder; return its reader, its title and its path."""
    g = np.random.default_rng(number)
    reader = READERS[number % len(READERS)]
    seeds = sorted((corpus / reader.name).iterdir())
    seed = seeds[int(g.integers(len(seeds)))]
    content = seed.read_bytes()
    ways = reader.ways
    inner = {texts: damage.cells, json_texts: damage.lines, samples: damage.lines}.get(reader.seeds)
    if inner is not None and seed.name in PACKS:
        ways = (damage.recompressed(seed.name, inner), damage.blindly)
    way = ways[int(g.integers(len(ways)))]
    content = way(g, content)
    while g.random() < 0.2 and content:
        content = damage.blindly(g, content)
    return reader, f"{reader.name}: {seed.name}, {way.__name__}", laid_out(reader, seed, content, folder)


def laid_out(reader: Reader, seed: Path, content: bytes, folder: Path) -> Path:
    """Write the content in place of an undamaged file; return the path to read."""
    if reader.read is not resumed:
        (folder / "case").write_bytes(content)
        return folder / "case"
    shutil.copytree(seed.parent, folder / "kept", dirs_exist_ok=True)
    (folder / "kept" / seed.name).write_bytes(content)
    write_rows(folder / "data.parquet")
    return folder / "data.parquet"


class Watch:
    """Records what a case writes or removes outside of its folder, and what it starts or calls."""

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
    """Run one case; return its reader and ending, and a description of what is wrong, or ""."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        reader, title, path = made(number, corpus, folder)
        before = _listing(folder)
        watch.folder, watch.seen = str(folder), []
        wrong = ""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                reader.read(path)
                ending = "result"
            except (epiloss.DataError, epiloss.OptionError) as error:
                ending, wrong = "refused", _message_problem(error, folder)
            except BaseException:
                ending, wrong = "crash", traceback.format_exc()
            finally:
                watch.folder = None
        # forged sums of a checkpoint may cause warnings
        if not wrong and warned and not title.endswith(inside.__name__):
            wrong = f"a warning: {warned[0].message} ({warned[0].filename}:{warned[0].lineno})"
        if not wrong and watch.seen:
            wrong = f"it did: {watch.seen}"
        new = _listing(folder) - before
        if not wrong and any(
            not (one.startswith("kept/") and one.endswith(".checkpoint")) for one in new
        ):
            wrong = f"it left files: {sorted(new)}"
    return f"{reader.name}: {ending}", f"{title}\n{wrong}" if wrong else ""


def _listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _message_problem(error: Exception, folder: Path) -> str:
    """Return what is wrong with an error's message, or ""."""
    message, cause = str(error), error.__cause__
    if not message.isprintable():
        return f"not one printable line: {message!r:.500}"
    if len(message) > 600 + message.count(str(folder)) * len(str(folder)):
        return f"long: {message}"
    if isinstance(cause, MemoryError):
        return f"memory was allocated for it first: {message}"
    return ""


def worker(pipe: Connection, corpus: Path, output: Path) -> None:
    """Run the cases whose numbers arrive on the pipe."""
    with output.open("wb") as sink:  # all printed output goes there
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
        """Return the reader of a case with its ending, and what is wrong, or ""."""
        self.pipe.send(number)
        reader = READERS[number % len(READERS)].name
        if not self.pipe.poll(SECONDS):
            self.stop()
            self._start()
            return f"{reader}: hangs", f"{reader}\nno end after {SECONDS:g} s"
        try:
            ending, wrong = self.pipe.recv()
        except EOFError:
            self.process.join()
            code, said = self.process.exitcode, self._said()
            self._start()
            return f"{reader}: dies", f"{reader}\nthe process died (exit code {code}): {said}"
        said = self._said()
        if said and not wrong:
            wrong = f"{reader}\nit printed: {said}"
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
def corpus_of(readers: Sequence[Reader]) -> Iterator[tuple[Path, Path]]:
    """Yield a folder with the undamaged files of all readers, and a folder to work in."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        corpus = Path(name) / "corpus"
        process = FORK.Process(
            target=_write_corpus, args=(readers, corpus)
        )  # in a process of its own, so that no thread runs here
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit("the undamaged files cannot be made, or are refused")
        yield corpus, Path(name)


def _write_corpus(readers: Sequence[Reader], corpus: Path) -> None:
    for reader in readers:
        (corpus / reader.name).mkdir(parents=True)
        for name, content in reader.seeds().items():
            (corpus / reader.name / name).write_bytes(content)
        for seed in sorted(
            (corpus / reader.name).iterdir()
        ):  # otherwise a reader could refuse everything
            with tempfile.TemporaryDirectory() as folder:
                reader.read(laid_out(reader, seed, seed.read_bytes(), Path(folder)))


def fuzz(seconds: float, first: int, keep: Path, most: int | None = None) -> int:
    """Run cases for a while; return the exit code."""
    counts: Counter[str] = Counter()
    found: list[int] = []
    with corpus_of(READERS) as (corpus, folder):
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
    for reader in READERS:
        endings = {
            name.partition(": ")[2]: n
            for name, n in counts.items()
            if name.startswith(f"{reader.name}: ")
        }
        print(f"  {reader.name}: " + ", ".join(f"{n:,} {name}" for name, n in sorted(endings.items())))
    if found:
        print(f"again: python scripts/fuzz_files.py --replay {found[0]}", file=sys.stderr)
    return 1 if found else 0


def replay(number: int) -> int:
    """Run one case in this process, and print how it ends."""
    with corpus_of([READERS[number % len(READERS)]]) as (corpus, folder):
        case = folder / "again"
        case.mkdir()
        reader, title, path = made(number, corpus, case)
        print(title, file=sys.stderr)
        try:
            reader.read(path)
        except (epiloss.DataError, epiloss.OptionError) as error:
            print(f"refused: {error}")
            return 0
    print("a result")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30, help="duration (default: 30)")
    parser.add_argument("--cases", type=int, help="largest number of cases (default: no limit)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for findings")
    parser.add_argument("--replay", type=int, help="run only this case, in this process")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return replay(options.replay)
    return fuzz(options.seconds, options.seed, options.keep, options.cases)


if __name__ == "__main__":
    # allocators that reserve address space in advance would hit the limit needlessly
    plain = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    if not plain.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **plain})
    sys.exit(main())
