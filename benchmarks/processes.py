"""CPU and wall time of audits with one process and with two, on Parquet files of several sizes.

    python benchmarks/processes.py
    python benchmarks/processes.py --rows 100000

It writes files with 8 columns, audits each with one process and with two, each run in a process of its
own, and removes them. Wall times on a busy machine mean little. ``at least`` is the time on an idle
machine: the CPU time of the process itself plus half of that of its workers.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROWS, AT_ONCE, FEATURES = (1_000_000, 10_000_000), 1_000_000, 6


def make_data(path: Path, n_rows: int) -> None:
    """Write labels, scores and features, a million rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    g, writer = np.random.default_rng(0), None
    for start in range(0, n_rows, AT_ONCE):
        n = min(AT_ONCE, n_rows - start)
        X = g.normal(size=(n, FEATURES))
        p = 1 / (1 + np.exp(-X[:, 0]))
        truth = 1 / (1 + np.exp(-X[:, 0] - 0.3 * np.sin(3 * X[:, 1])))
        columns = {"y": (g.random(n) < truth).astype(np.int8), "p": p}
        table = pa.table(columns | {f"x{j}": X[:, j] for j in range(FEATURES)})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=AT_ONCE // 4)
    assert writer is not None
    writer.close()


def one(path: str, n_jobs: int) -> None:
    """Audit a file, and print the times."""
    import epiloss

    start, before = time.perf_counter(), _cpu(resource.RUSAGE_SELF)
    result = epiloss.audit_table(path, label="y", score="p", n_jobs=n_jobs, verbose=False)
    wall, own = time.perf_counter() - start, _cpu(resource.RUSAGE_SELF) - before
    if n_jobs > 1:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)  # so that the CPU time of the workers is counted
    workers = _cpu(resource.RUSAGE_CHILDREN)
    took = {"wall": wall, "own": own, "workers": workers, "loss": result.grouping_loss.value}
    print(json.dumps(took))


def _cpu(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def measured(path: Path, n_jobs: int) -> dict[str, Any]:
    """Audit a file in a process of its own."""
    command = [sys.executable, __file__, "--one", str(path), str(n_jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure every size with one process and with two, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--one", nargs=2, metavar=("FILE", "JOBS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one[0], int(given.one[1]))
        return
    print("| rows x 8 columns | processes | wall | CPU | of workers | at least |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in given.rows:
            path = Path(folder) / "rows.parquet"
            make_data(path, n_rows)
            losses = set()
            for n_jobs in (1, 2):
                took = measured(path, n_jobs)
                losses.add(took["loss"])
                own, workers = took["own"], took["workers"]
                numbers = (took["wall"], own + workers, workers, own + workers / 2)
                cells = " | ".join(f"{number:.1f} s" for number in numbers)
                print(f"| {n_rows:,} | {n_jobs} | {cells} |", flush=True)
            if len(losses) > 1:
                raise SystemExit(f"the results differ: {losses}")


if __name__ == "__main__":
    main()
