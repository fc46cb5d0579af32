"""The least memory in which an audit finishes, as a multiple of its input, compared with glest.

    python benchmarks/memory.py           # a quarter of an hour
    python benchmarks/memory.py --quick   # small data, without glest

Each try runs in a process of its own. Its address space is limited to what it uses after everything is
loaded, a small audit is done and the input is made, plus a multiple of the input (8 bytes per number).
The smallest multiple in which it finishes is found by bisection to within a tenth, from 1/8 to 512.
Allocators are configured not to reserve address space in advance. The input of a file is the size of
its columns in memory. Exit codes: 0 all targets are met, 1 one is not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LEAST, MOST = 1 / 8, 512.0
PLAIN = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PLAIN |= {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}


@dataclass(frozen=True)
class Job:
    """A tool, the numbers of rows and columns, and the target multiple."""

    who: str
    n: int
    d: int
    target: float | None = None

    def __str__(self) -> str:
        return f"{self.who:<42} {self.n:>9,} x {self.d:<4}"


PARTITION, DEFAULT = "epiloss, method='partition'", "epiloss, by default"
FILE, PEER = "epiloss, a Parquet file, memory='100MB'", "glest"
JOBS = (
    Job(PARTITION, 500_000, 20, 1.5),
    Job(PARTITION, 100_000, 200, 1.5),
    Job(PEER, 20_000, 20),
    Job(PARTITION, 20_000, 20),
    Job(FILE, 2_000_000, 20),
    Job(DEFAULT, 500_000, 20, 4.0),
    Job(DEFAULT, 100_000, 200, 4.0),
)
QUICK = (Job(PARTITION, 100_000, 20, 2.0), Job(FILE, 500_000, 20, 6.0))


def child(job: Job, multiple: float, path: str) -> None:
    """Audit in limited memory; raise an error if it does not fit."""
    import resource

    import numpy as np

    import epiloss

    def rows(n: int) -> tuple[object, object, object]:
        g = np.random.default_rng(0)
        X = g.standard_normal((n, job.d))
        p = 1 / (1 + np.exp(-X[:, 0]))
        return (g.random(n) < np.clip(p + 0.2 * np.sign(X[:, 1]), 0, 1)).astype(float), p, X

    def run(y: object, p: object, X: object) -> None:
        if job.who == PEER:
            import warnings

            import glest

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of small bins
                glest.GLEstimator(p, "decision_tree", random_state=0).fit(X, y).metrics()
        else:
            epiloss.audit(y, p, X, method="twin" if job.who == DEFAULT else "partition")

    run(*rows(2_000))  # imports everything
    given = None if job.who == FILE else rows(job.n)
    if job.who == FILE:
        import pyarrow.parquet  # noqa: F401
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    room = used + int(multiple * 8 * job.n * (job.d + 2))
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    if given is None:
        epiloss.audit_table(path, label="y", score="p", method="partition", memory="100MB")
    else:
        run(*given)


def write_rows(job: Job, path: Path) -> None:
    """Write the file that a job audits, in parts."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    g = np.random.default_rng(0)
    writer = None
    for _ in range(0, job.n, 100_000):
        X = g.standard_normal((100_000, job.d))
        p = 1 / (1 + np.exp(-X[:, 0]))
        y = g.random(len(p)) < np.clip(p + 0.2 * np.sign(X[:, 1]), 0, 1)
        table = pa.table({"y": y.astype(float), "p": p, **{f"x{j}": X[:, j] for j in range(job.d)}})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def finishes(jobs: str, place: int, multiple: float, path: Path) -> bool:
    """Return whether a job finishes in a multiple of its input."""
    command = [sys.executable, __file__, "--child", jobs, str(place), str(multiple), str(path)]
    done = subprocess.run(command, env={**os.environ, **PLAIN}, capture_output=True, check=False)
    return done.returncode == 0


def least_multiple(jobs: str, place: int, path: Path) -> float:
    """Return the least multiple in which a job finishes, to within a tenth; infinite if none."""
    low, high = LEAST, MOST
    if not finishes(jobs, place, high, path):
        return float("inf")
    while high / low > 1.1:
        middle = (low * high) ** 0.5
        if finishes(jobs, place, middle, path):
            high = middle
        else:
            low = middle
    return high


def main(arguments: Sequence[str] | None = None) -> int:
    """Find the least memory of every job, and print a table with verdicts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small data, without glest")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        jobs, place, multiple, path = options.child
        child((QUICK if jobs == "quick" else JOBS)[int(place)], float(multiple), path)
        return 0
    met = True
    print(f"{'':<42} {'rows x columns':>16}   input    least memory beyond it")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        for place, job in enumerate(QUICK if options.quick else JOBS):
            if job.who == FILE:
                write_rows(job, path)
            found = least_multiple("quick" if options.quick else "all", place, path)
            verdict = ""
            if job.target is not None:
                met &= found <= job.target
                verdict = f"target {job.target:g}: {'met' if found <= job.target else 'NOT met'}"
            size = 8e-6 * job.n * (job.d + 2)
            print(
                f"{job} {size:>6.0f} MB  {found:>5.2f} x = {found * size:>6.0f} MB  {verdict}",
                flush=True,
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
