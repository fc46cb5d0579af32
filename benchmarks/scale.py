"""Data larger than memory: speed, memory, growth, and clusters that lose a worker.

    python benchmarks/scale.py
    python benchmarks/scale.py --quick

It writes Parquet files of a million rows with 20 features (12 of 32-bit floats, 4 of prices with two
decimals, 4 of small integers), audits them in processes of their own, and removes them. Plain reading
is ``pyarrow.dataset(...).to_batches()`` on the same columns. Memory is that of the process and all its
children, with each shared page counted once (PSS), sampled every tenth of a second. In the dask and
Spark runs, a worker is killed in the middle of the last pass; all runs must give the same bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from epiloss._saving import write_text
from epiloss.streaming.engines import Engine, resolve_engine

PER_FILE, FEATURES, BOUND = 1_000_000, 20, 2_000_000_000
MOST_READING, MOST_GROWTH, MOST_MEMORY_GROWTH = 3.0, 1.15, 1.25  # the targets


@dataclass(frozen=True)
class Run:
    """The measurements of one audit, or of plain reading."""

    wall: float
    cpu: float  # of the call alone, in its own process
    all_cpu: float  # of the process and its children, from start to end
    memory: float  # bytes
    digest: str = ""
    killed: int = 0


def make_data(folder: Path, n_rows: int, per_file: int) -> None:
    """Write rows whose true probability depends on a feature that the score ignores."""
    import pyarrow as pa
    from pyarrow import parquet

    for place in range(n_rows // per_file):
        g = np.random.default_rng(place)
        columns: dict[str, Any] = {}
        for j in range(FEATURES):
            values = g.standard_normal(per_file)
            if j >= 16:
                columns[f"f{j}"] = (np.abs(values) * 20).astype(np.int32)
            else:
                columns[f"f{j}"] = values.astype(np.float32) if j < 12 else np.round(values * 30, 2)
        score = 1 / (1 + np.exp(-columns["f0"].astype(float) - 0.5 * columns["f1"]))
        truth = np.clip(score + 0.2 * np.sign(columns["f2"]) * 4 * score * (1 - score) * 0.3, 0, 1)
        columns |= {"score": score, "label": (g.random(per_file) < truth).astype(np.int8)}
        parquet.write_table(pa.table(columns), folder / f"{place:04}.parquet")


def read_plainly(folder: Path) -> Run:
    """Read all columns once with pyarrow."""
    code = f"""
import time, os, json, pyarrow.dataset as ds
start, before = time.perf_counter(), os.times()
for batch in ds.dataset({str(folder)!r}).to_batches():
    pass
after = os.times()
cpu = after.user + after.system - before.user - before.system
print(json.dumps({{"wall": time.perf_counter() - start, "cpu": cpu}}))
"""
    return _measured([sys.executable, "-c", code])


@dataclass(frozen=True)
class Audit:
    """Audits data in processes of their own; one may be killed some time into the last pass."""

    memory: int
    delay: float

    def __call__(self, folder: Path, engine: str, n_jobs: int, kill: bool = False) -> Run:
        """Audit a folder."""
        command = [sys.executable, __file__, "--one", engine, str(folder), "--jobs", str(n_jobs)]
        command += ["--memory", str(self.memory)]
        return _measured([*command, *(["--kill", str(self.delay)] if kill else [])])


def _measured(command: Sequence[str]) -> Run:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    most = 0
    ticks: dict[int, int] = {}
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.1):
            pids = _tree(process.pid)
            most = max(most, sum(map(_proportional_set, pids)))
            for pid in pids:
                ticks[pid] = max(ticks.get(pid, 0), _ticks(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = process.communicate()
    done.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:200]} failed:\n{err[-3000:]}")
    all_cpu = sum(ticks.values()) / os.sysconf("SC_CLK_TCK")
    return Run(memory=most, all_cpu=all_cpu, **json.loads(out.splitlines()[-1]))


def _tree(root: int) -> list[int]:
    """Return a process and all its children."""
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                left.extend(map(int, path.read_text().split()))
            except OSError:
                continue  # it has just ended
    return found


def _proportional_set(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it has just ended
    return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def one(engine: str, folder: str, n_jobs: int, kill: float | None, memory: int) -> None:
    """Audit in this process, and print the measurements."""
    from epiloss import audit_table
    from epiloss.streaming.engines import local

    local.LEAST_BYTES = 0  # a quick run on little data starts processes too
    running = resolve_engine(_engine(engine), n_jobs)
    killer = None if kill is None else Killing(running, kill)
    start, before = time.perf_counter(), os.times()
    result = audit_table(
        folder, label="label", score="score", engine=killer or running, memory=memory, n_jobs=n_jobs
    )
    wall, after = time.perf_counter() - start, os.times()
    cpu = sum(after[k] - before[k] for k in (0, 1))
    text = json.dumps(result.to_dict(), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    killed = 0 if killer is None else killer.killed
    print(json.dumps({"wall": wall, "cpu": cpu, "digest": digest, "killed": killed}))


def _engine(name: str) -> Any:
    if name != "spark":
        return name
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    return builder.config("spark.driver.memory", "1g").getOrCreate()


class Killing(Engine):
    """An engine that kills its busiest worker some time into the last pass."""

    def __init__(self, inner: Engine, delay: float) -> None:
        self.inner, self.delay, self.killed = inner, delay, 0

    def __enter__(self) -> Killing:
        self.inner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.inner.__exit__()

    def run(self, work: Any, tasks: Any) -> Iterator[Any]:
        """Run the pass, and kill a worker meanwhile."""
        if work.name == "tally":
            threading.Thread(target=self._kill, daemon=True).start()
        yield from self.inner.run(work, tasks)

    def _kill(self) -> None:
        time.sleep(self.delay)
        while not self.killed:
            leaves = [pid for pid in _tree(os.getpid())[1:] if len(_tree(pid)) == 1]
            workers = sorted(filter(_is_worker, leaves), key=_ticks)
            if workers:
                os.kill(workers[-1], signal.SIGKILL)
                self.killed = workers[-1]
            time.sleep(0.01)


def _is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
    marks = ("pyspark.daemon", "spawn_main", "loky", "distributed")
    return any(mark in command for mark in marks) and "resource_tracker" not in command


def _ticks(pid: int) -> int:
    try:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    except OSError:
        return 0


def main() -> None:
    """Measure everything, and judge the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/output/scale.json"))
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--kill", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, default=BOUND, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        engine, folder = given.one
        one(engine, folder, given.jobs, given.kill, given.memory)
        return
    root = Path(tempfile.mkdtemp(prefix="epiloss-scale-"))
    try:
        if given.quick:
            found = measure(root, 200_000, PER_FILE // 100, Audit(40_000_000, 0.0))
        else:
            found = measure(root, 20_000_000, PER_FILE, Audit(BOUND, 2.0))
    finally:
        shutil.rmtree(root)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    write_text(given.output, json.dumps(found, indent=1) + "\n")


def measure(root: Path, n_rows: int, per_file: int, audit: Audit) -> dict[str, Any]:
    """Return all measurements, and print each as it is made."""
    small, large = root / "small", root / "large"
    for folder, n in ((small, n_rows // 10), (large, n_rows)):
        folder.mkdir()
        make_data(folder, n, per_file)
    runs: dict[str, Run] = {}
    rows_of = {}

    def note(name: str, n: int, run: Run) -> None:
        runs[name], rows_of[name] = run, n
        print(
            f"{name:34}{n:>12,} rows  {run.wall:8.1f} s  {run.all_cpu:8.1f} s CPU  "
            f"{n / run.wall:>12,.0f} rows/s  {run.memory / 1e6:8,.0f} MB",
            flush=True,
        )

    note("reading plainly", n_rows, read_plainly(large))
    note("one process", n_rows // 10, audit(small, "local", 1))
    note("one process, ten times the rows", n_rows, audit(large, "local", 1))
    note("reading plainly again", n_rows, read_plainly(large))
    note("two processes", n_rows, audit(large, "local", 2))
    note("two processes, one killed", n_rows, audit(large, "local", 2, kill=True))
    for engine, package in (("dask", "distributed"), ("spark", "pyspark")):
        if find_spec(package) is None:
            print(f"{engine} is left out: it is not installed")
            continue
        note(engine, n_rows, audit(large, engine, 2))
        note(f"{engine}, a worker killed", n_rows, audit(large, engine, 2, kill=True))
    judge(runs, n_rows)
    return {name: {"rows": rows_of[name], **vars(run)} for name, run in runs.items()}


def judge(runs: dict[str, Run], n_rows: int) -> None:
    """Print a verdict for each target."""
    small, large = runs["one process"], runs["one process, ten times the rows"]
    plain = min(runs["reading plainly"].wall, runs["reading plainly again"].wall)
    fastest = min(large.wall, runs["two processes"].wall)
    reading = fastest / plain
    growth = np.log10(large.cpu / small.cpu)
    memory = large.memory / small.memory
    most = max(runs[name].memory for name in ("one process, ten times the rows", "two processes"))
    verdicts = [
        (
            reading <= MOST_READING,
            f"time relative to plain reading {reading:.2f}, at most {MOST_READING}",
        ),
        (most <= BOUND, f"memory {most / 1e6:,.0f} MB, at most {BOUND / 1e6:,.0f}"),
        (growth <= MOST_GROWTH, f"growth exponent of time in rows {growth:.2f}, at most {MOST_GROWTH}"),
        (memory <= MOST_MEMORY_GROWTH, f"memory for ten times the rows: {memory:.2f} times as much"),
    ]
    for name, run in runs.items():
        if run.digest and run not in (small, large):
            lost = f", process {run.killed} killed" if run.killed else ""
            verdicts.append((run.digest == large.digest, f"same bits: {name}{lost}"))
    for met, text in verdicts:
        print(f"{'met ' if met else 'MISSED '}{text}")


if __name__ == "__main__":
    main()
