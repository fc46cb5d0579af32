"""The speed of `epiloss.audit` at its defaults, compared with glest and one LightGBM fit.

    python benchmarks/speed.py
    python benchmarks/speed.py --quick --kernel compiled
    python benchmarks/speed.py --markdown docs/speed.md --readme README.md

Every job runs in its own process, on one thread, and the jobs take turns, so that other load on the
machine affects all of them alike: ratios of times mean more than the times. ``workloads.py`` has the
measurements. The default call does more than glest; the partition alone (``method="paper"``) does the
same work as glest: 15 bins, Brier score, one split, trees, calibration curve, statistics. glest runs at
its defaults, with trees of depth 10, and once with at least 30 learning rows per leaf, as epiloss has.

The floor of the partition is the CPU time to encode all rows once with the compiled loops, because each
row of X has to be encoded to be learned from or to be assigned to a region. Growth exponents are the
slopes of log CPU time against log rows and log columns. Wall times of one and two threads are only
meaningful on a machine with two free cores; they are measured last, in processes of their own, in turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from epiloss._saving import write_text
from reporting import Verdict
from speed_page import (
    NAN,
    README_COLUMNS,
    Cost,
    Findings,
    Row,
    Size,
    default_table,
    number,
    page,
    with_table,
)

CHILD = Path(__file__).with_name("workloads.py")
KERNELS = ("compiled", "numpy")
DEFAULT, PARTITION = "epiloss", "partition"  # jobs of workloads.py
WORDS = {DEFAULT: "the default", PARTITION: "the partition"}
MILLION_MEGABYTES, FLOORS, EXPONENT = 400.0, 8.0, 1.1  # the targets
INPUT_SHARE, SPARE_MEGABYTES = 0.6, 150.0
TWO_THREADS, FREE_CORES = 1.6, 1.8  # with fewer free cores, the ratio is not meaningful
GROWTH_REPETITIONS = 3
GROWTH_ROWS = tuple((n, 20) for n in (25_000, 50_000, 100_000, 200_000))
GROWTH_COLUMNS = tuple((20_000, d) for d in (64, 256, 1_024))
QUICK_NOTE = "A quick run: small sizes, each measured once."
NO_LIGHTGBM = "LightGBM is left out: it is not installed (pip install lightgbm)."
ONE_CORE = "Two threads are left out: this machine has one core."


def _by_kernel(compiled: float, numpy: float) -> Mapping[str, float]:
    return {"compiled": compiled, "numpy": numpy}


SIZES = (
    Size(
        10_000, 20, 9, 5, partition_over_glest=_by_kernel(40, 10)
    ),  # many repetitions, because each is short
    Size(100_000, 20, 3, 15, over_lightgbm=4, partition_over_glest=_by_kernel(400, 70)),
    Size(30_000, 768, 2, 4, partition_over_glest=_by_kernel(40, 5)),
    Size(50_000, 2_048, 1, 6, partition_over_glest=_by_kernel(40, 4), same_leaves=False),
    Size(1_000_000, 20, 2, over_partition=12, peer=False),  # glest runs out of memory
)
QUICK_SIZES = (Size(5_000, 10), replace(SIZES[0], repetitions=1))
BY_NUMPY = SIZES[0]  # the default call with the NumPy loops, which is slow
THREADED, QUICK_THREADED = SIZES[1:3], QUICK_SIZES[:1]
PROFILED, QUICK_PROFILED = SIZES[1], SIZES[0]


@dataclass(frozen=True)
class Call:
    """A job of ``workloads.py`` on data of one size, with one kernel."""

    job: str
    n: int
    d: int
    kernel: str = "compiled"

    def run(self) -> dict[str, float]:
        """Run the job in its own process, on one thread, and return its measurements."""
        chosen = {"EPILOSS_KERNEL": "numpy"} if self.kernel == "numpy" else {}
        kept = {name: value for name, value in os.environ.items() if name != "EPILOSS_KERNEL"}
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        done = subprocess.run(
            [sys.executable, str(CHILD), self.job, str(self.n), str(self.d)],
            env=kept | chosen | threads | {"MPLBACKEND": "Agg"},
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            died = f"{self.job} at {self.n} x {self.d} failed, exit code {done.returncode}."
            sys.exit(f"{died} See its message above.")
        found: dict[str, float] = json.loads(done.stdout)
        cpu = f", {found['cpu']:.4g} s" if "cpu" in found else ""
        print(f"{self.job}, {self.kernel}, {self.n:,} x {self.d:,}{cpu}", file=sys.stderr, flush=True)
        return found


def measure(size: Size, kernels: Sequence[str]) -> Row:
    """Run all jobs of one size in turns, the partition with each kernel."""
    compiled = "compiled" in kernels
    peer, floor = Call("glest", size.n, size.d, kernels[0]), Call("floor", size.n, size.d)
    default, lightgbm = replace(peer, job=DEFAULT), replace(peer, job="lightgbm")
    same_leaves = replace(peer, job="glest-same-leaves")
    partition = {kernel: Call(PARTITION, size.n, size.d, kernel) for kernel in kernels}
    wanted = {
        peer: size.peer,
        floor: has_compiled_kernel(),
        default: compiled,
        lightgbm: compiled and is_installed("lightgbm"),
    }
    turns = [*(call for call, is_wanted in wanted.items() if is_wanted), *partition.values()]
    once = [same_leaves] if size.peer and size.same_leaves else []
    found: dict[Call, list[dict[str, float]]] = {}
    for call in [*once, *turns * size.repetitions]:
        found.setdefault(call, []).append(call.run())
    costs = {call: Cost.median(runs) for call, runs in found.items() if call != floor}
    return Row(
        size,
        glest=costs.get(peer, Cost()),
        glest_same_leaves=costs.get(same_leaves, Cost()),
        default=costs.get(default, Cost()),
        lightgbm=costs.get(lightgbm, Cost()),
        partition={kernel: costs[call] for kernel, call in partition.items()},
        floor=float(np.median([one["cpu"] for one in found[floor]])) if floor in found else NAN,
    )


def growth(sizes: Sequence[tuple[int, int]], job: str, kernel: str) -> float:
    """Return the slope of log CPU time against log size, from medians of runs that take turns."""
    calls = [Call(job, n, d, kernel) for n, d in sizes]
    seconds = [[call.run()["cpu"] for call in calls] for _ in range(GROWTH_REPETITIONS)]
    elements = np.log([n * d for n, d in sizes])  # one of the two is constant
    return float(np.polyfit(elements, np.log(np.median(seconds, axis=0)), 1)[0])


def exponents(kernels: Sequence[str]) -> dict[str, float]:
    """Return the growth exponents of the default call, then of the partition."""
    jobs = [(DEFAULT, "compiled")] if "compiled" in kernels else []
    jobs += [(PARTITION, kernel) for kernel in kernels]
    along = {"rows": GROWTH_ROWS, "columns": GROWTH_COLUMNS}
    return {
        f"{WORDS[job]}, {kernel}, in {name}": growth(sizes, job, kernel)
        for job, kernel in jobs
        for name, sizes in along.items()
    }


def run(kernels: Sequence[str], *, quick: bool) -> Findings:
    """Measure everything."""
    rows = [measure(size, kernels) for size in (QUICK_SIZES if quick else SIZES)]
    by_numpy = {}
    if "numpy" in kernels:
        by_numpy[str(BY_NUMPY)] = Cost.median([Call(DEFAULT, BY_NUMPY.n, BY_NUMPY.d, "numpy").run()])
    slopes = {} if quick else exponents(kernels)
    profiled = QUICK_PROFILED if quick else PROFILED
    shares = Call("profile", profiled.n, profiled.d, kernels[0]).run()
    full = THREADED if "compiled" in kernels else ()  # the NumPy loops would take many minutes
    threaded = QUICK_THREADED if quick else full
    calls = {str(one): Call("threads", one.n, one.d, kernels[0]) for one in threaded}
    threads = {size: call.run() for size, call in calls.items() if has_two_cores()}
    return Findings(rows, by_numpy, slopes, threads, str(profiled), shares)


def judge(found: Findings) -> list[Verdict]:
    """Judge every target, those of the default call first."""
    return [
        *(one for row in found.rows for one in judge_default(row)),
        *(one for size, seconds in found.threads.items() for one in judge_threads(size, seconds)),
        *(one for row in found.rows for one in judge_partition(row)),
        *(at_most(f"growth exponent, {name}", one, EXPONENT) for name, one in found.growth.items()),
    ]


def judge_default(row: Row) -> list[Verdict]:
    """Judge the CPU time and the memory of the default call at one size."""
    size, default, found = row.size, row.default, []
    if not default.was_measured:
        return []
    if size.over_glest is not None:
        found.append(at_least(f"{size}, CPU time of glest over the default", row.ratio, size.over_glest))
    if size.over_lightgbm is not None and row.lightgbm.was_measured:
        name = f"{size}, CPU time of the default over LightGBM"
        found.append(at_most(name, row.over_lightgbm, size.over_lightgbm))
    if size.over_partition is not None:
        name = f"{size}, CPU time of the default over the partition"
        found.append(at_most(name, row.over_partition, size.over_partition))
    limit = INPUT_SHARE * default.data + SPARE_MEGABYTES
    name = f"{size}, peak MB of the default above the data"
    return [*found, at_most(name, default.peak, limit)]


def judge_threads(size: str, seconds: Mapping[str, float]) -> list[Verdict]:
    """Judge two threads: the same bits at every size, and the time in the full benchmark."""
    same = bool(seconds["same"])
    bits = Verdict(f"{size}, the same ledger by one thread and by two", same, "yes" if same else "no")
    if size not in map(str, THREADED):
        return [bits]
    ratio = seconds["one"] / seconds["two"]
    cores = seconds["cores"]
    busy = "" if cores >= FREE_CORES else f" (the machine was busy: {cores:.1f} cores were free)"
    return [bits, at_least(f"{size}, wall time of one thread over two{busy}", ratio, TWO_THREADS)]


def judge_partition(row: Row) -> list[Verdict]:
    """Judge the partition alone; the floor and the memory only for the compiled kernel."""
    found = []
    for kernel, target in row.size.partition_over_glest.items():
        if kernel in row.partition:
            ratio = row.glest.cpu / row.partition[kernel].cpu
            name = f"{row.size}, {kernel}, CPU time of glest over the partition"
            found.append(at_least(name, ratio, target))
    ours = row.partition.get("compiled")
    if ours is not None:
        name = f"{row.size}, compiled, CPU time of the partition over the floor"
        found.append(at_most(name, ours.cpu / row.floor, FLOORS))
        if row.size.n == 1_000_000:
            name = f"{row.size}, compiled, peak MB of the partition above the data"
            found.append(at_most(name, ours.peak, MILLION_MEGABYTES))
    return found


def at_most(name: str, value: float, target: float) -> Verdict:
    """Return the verdict on a value with an upper limit."""
    return Verdict(name, value <= target, f"{number(value, 3)}, at most {target:.4g} asked")


def at_least(name: str, value: float, target: float) -> Verdict:
    """Return the verdict on a value with a lower limit."""
    return Verdict(name, value >= target, f"{number(value, 3)}, at least {target:g} asked")


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def has_compiled_kernel() -> bool:
    """Return whether epiloss was installed with its compiled kernel."""
    return is_installed("epiloss._kernels._kernel")


def has_two_cores() -> bool:
    """Return whether two threads can run at the same time."""
    return (os.cpu_count() or 1) > 1


def as_json(found: Findings, verdicts: Sequence[Verdict]) -> str:
    """Return all results as JSON; missing ones are null."""
    machine = {"processor": platform.machine(), "python": platform.python_version()}
    content = {"machine": machine, **asdict(found), "verdicts": [asdict(one) for one in verdicts]}
    return json.dumps(_without_nan(content), indent=2, allow_nan=False) + "\n"


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if value != value else value


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line, and stop early if the run would fail later."""
    parser = argparse.ArgumentParser(description="Speed and memory, compared with glest and LightGBM.")
    parser.add_argument("--quick", action="store_true", help="two small sizes, once; no growth")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/output/speed.json"))
    parser.add_argument(
        "--kernel",
        choices=(*KERNELS, "both"),
        default="both",
        help="loops of the partition; numpy alone measures the default call at one size",
    )
    parser.add_argument("--markdown", type=Path, help="also write the page to this file")
    parser.add_argument("--readme", type=Path, help="also replace the table in this file")
    options = parser.parse_args(arguments)
    if not is_installed("glest"):
        sys.exit("this benchmark needs glest, which is not installed: pip install glest==0.0.1")
    if options.kernel != "numpy" and not has_compiled_kernel():
        sys.exit(
            "epiloss was installed without its compiled kernel. Install a C compiler and epiloss again, "
            "or choose --kernel numpy."
        )
    if options.readme is not None:
        with_table(options.readme.read_text(encoding="utf-8"), "")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the page with its verdicts, and save all as JSON."""
    options = _options(arguments)
    found = run(KERNELS if options.kernel == "both" else (options.kernel,), quick=options.quick)
    verdicts = judge(found)
    notes = {
        QUICK_NOTE: options.quick,
        NO_LIGHTGBM: not is_installed("lightgbm"),
        ONE_CORE: not has_two_cores(),
    }
    shown = [note for note, applies in notes.items() if applies]
    text = page(found, verdicts, shown)
    write_text(options.output, as_json(found, verdicts))
    print(text)
    if options.markdown is not None:
        write_text(options.markdown, text)
    if options.readme is not None:
        table = "\n\n".join([default_table(found.rows, README_COLUMNS), *shown])
        write_text(options.readme, with_table(options.readme.read_text(encoding="utf-8"), table))


if __name__ == "__main__":
    main()
