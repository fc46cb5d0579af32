"""How fast `epiloss.audit` is beside glest, how far from the least possible, and how it grows.

    python benchmarks/speed.py
    python benchmarks/speed.py --quick --kernel compiled

Both do the same job end to end: 15 bins, Brier score, one split, trees, calibration curve, statistics.
glest runs at its defaults, trees of depth 10; ours have 30 learning rows a leaf, and glest with such
trees stands beside, measured once. Every job is in a process of its own, and they take turns, so that
what else the machine does slows all alike: times say little, their ratios much. ``workloads.py`` says
how each is measured: CPU and wall time of the call alone, of short calls the median of many; as peak
memory, the process's largest resident size less the resident size just before the call, which holds the
data and both libraries.

The floor is the CPU time to encode all rows once by the compiled loops: each row of X is learned from
or placed, and trees on codes can do neither for less. Growth exponents are the slopes of log CPU time
against log rows and log columns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from epiloss._saving import write_text

CHILD = Path(__file__).with_name("workloads.py")
KERNELS = ("compiled", "numpy")
MILLION_MEGABYTES, FLOORS, EXPONENT = 400.0, 8.0, 1.1  # the targets
FLOOR_NOTE = (
    "Of 10,000 rows the floor is two thirds of a millisecond, less than Python takes to call the parts "
    "of an audit, so that eight times the floor is out of reach there."
)
GROWTH_REPETITIONS = 3
GROWTH_ROWS = tuple((n, 20) for n in (25_000, 50_000, 100_000, 200_000))
GROWTH_COLUMNS = tuple((20_000, d) for d in (64, 256, 1_024))
NAN = float("nan")


@dataclass(frozen=True)
class Size:
    """Rows and columns, and how many times as fast as glest each kernel is to be."""

    n: int
    d: int
    repetitions: int = 1
    targets: Mapping[str, float] | None = None
    peer: bool = True
    same_leaves: bool = True

    def __str__(self) -> str:
        return f"{self.n:,} x {self.d:,}"


def _targets(compiled: float, numpy: float) -> Mapping[str, float]:
    return {"compiled": compiled, "numpy": numpy}


SIZES = (
    Size(10_000, 20, 9, _targets(40, 10)),  # each a moment, so that many are looked at
    Size(100_000, 20, 3, _targets(400, 70)),
    Size(30_000, 768, 2, _targets(40, 5)),
    Size(50_000, 2_048, 1, _targets(40, 4), same_leaves=False),
    Size(1_000_000, 20, 2, peer=False),  # for which glest has not the memory
)
QUICK_SIZES = (Size(5_000, 10), replace(SIZES[0], repetitions=1))
PROFILED, QUICK_PROFILED = SIZES[1], SIZES[0]


@dataclass(frozen=True)
class Call:
    """A job of ``workloads.py`` on data of one size, with one kernel."""

    job: str
    n: int
    d: int
    kernel: str = "compiled"

    def run(self) -> dict[str, float]:
        """Run in a process of its own, on one thread, and return what it measured."""
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


@dataclass(frozen=True)
class Cost:
    """Medians over the repetitions of one job: seconds and megabytes; NaN where it was not run."""

    cpu: float = NAN
    wall: float = NAN
    peak: float = NAN

    @classmethod
    def median(cls, found: Sequence[Mapping[str, float]]) -> Cost:
        """Return the medians of what the repetitions measured."""
        if not found:
            return cls()
        return cls(*(float(np.median([one[name] for one in found])) for name in ("cpu", "wall", "peak")))


@dataclass(frozen=True)
class Row:
    """Everything measured at one size with one kernel."""

    size: Size
    kernel: str
    glest: Cost
    glest_same_leaves: Cost
    ours: Cost
    default: Cost
    floor: float

    @property
    def ratio(self) -> float:
        """How many times our CPU time glest takes."""
        return self.glest.cpu / self.ours.cpu

    @property
    def floors(self) -> float:
        """How many times the floor we take."""
        return self.ours.cpu / self.floor


@dataclass(frozen=True)
class Verdict:
    """Whether what was measured is what was asked for."""

    name: str
    value: float
    target: float
    at_most: bool

    @property
    def met(self) -> bool:
        """Tell whether the target is met."""
        return self.value <= self.target if self.at_most else self.value >= self.target

    def __str__(self) -> str:
        limit = f"at {'most' if self.at_most else 'least'} {self.target:g}"
        return f"{'met   ' if self.met else 'MISSED'}  {self.name}: {self.value:.3g}, {limit} asked"


def measure(size: Size, kernels: Sequence[str]) -> list[Row]:
    """Measure one size: glest, then ours with each kernel, in turn; what is beside, once."""
    peer = ["glest"] if size.peer else []
    once = ["glest-same-leaves"] if size.peer and size.same_leaves else []
    floor = ["floor"] if has_compiled_kernel() else []
    calls = [Call(job, size.n, size.d, kernels[0]) for job in peer]
    calls += [Call(job, size.n, size.d) for job in floor]
    calls += [Call("epiloss", size.n, size.d, kernel) for kernel in kernels]
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    beside = [Call(job, size.n, size.d, kernels[0]) for job in (*once, "epiloss-default")]
    for call in [*beside, *calls * size.repetitions]:
        found.setdefault((call.job, call.kernel), []).append(call.run())

    def cost(job: str, kernel: str = kernels[0]) -> Cost:
        return Cost.median(found.get((job, kernel), []))

    passes = [one["cpu"] for one in found.get(("floor", "compiled"), [])]
    floor_time = float(np.median(passes)) if passes else NAN
    others, default = (cost("glest"), cost("glest-same-leaves")), cost("epiloss-default")
    return [Row(size, one, *others, cost("epiloss", one), default, floor_time) for one in kernels]


def has_compiled_kernel() -> bool:
    """Tell whether epiloss was installed with its compiled part."""
    return importlib.util.find_spec("epiloss._kernels._kernel") is not None


def growth(sizes: Sequence[tuple[int, int]], kernel: str) -> float:
    """Return the slope of log CPU time against log size, from medians of runs that take turns."""
    calls = [Call("epiloss", n, d, kernel) for n, d in sizes]
    seconds = [[call.run()["cpu"] for call in calls] for _ in range(GROWTH_REPETITIONS)]
    elements = np.log([n * d for n, d in sizes])  # one of the two is constant
    return float(np.polyfit(elements, np.log(np.median(seconds, axis=0)), 1)[0])


def verdicts(rows: Iterable[Row], exponents: Mapping[str, float]) -> list[Verdict]:
    """Judge every target; those of the floor and of memory are for the compiled kernel."""
    found = []
    for row in rows:
        where = f"{row.size}, {row.kernel}"
        if row.size.targets is not None:
            target = row.size.targets[row.kernel]
            found.append(Verdict(f"{where}, CPU time of glest over ours", row.ratio, target, False))
        if row.kernel == "compiled":
            found.append(Verdict(f"{where}, our CPU time over the floor", row.floors, FLOORS, True))
            if row.size.n == 1_000_000:
                peak = row.ours.peak
                found.append(Verdict(f"{where}, peak MB above the data", peak, MILLION_MEGABYTES, True))
    found += [
        Verdict(f"growth exponent in {name}", slope, EXPONENT, True) for name, slope in exponents.items()
    ]
    return found


def as_table(rows: Sequence[Row]) -> str:
    """Return the table that is printed."""
    header = (
        f"{'rows x columns':>15} {'kernel':>9} | {'glest':>8} {'epiloss':>8} {'ratio':>6} {'ratio':>6} "
        f"{'ratio,':>9} | {'glest':>7} {'epiloss':>8} | {'x floor':>8}"
    )
    units = (
        f"{'':>15} {'':>9} | {'CPU s':>8} {'CPU s':>8} {'CPU':>6} {'wall':>6} {'30 a leaf':>9} | "
        f"{'peak MB':>7} {'peak MB':>8} |"
    )
    text = [header, units]
    for row in rows:
        ours, glest = row.ours, row.glest
        ratios = f"{_number(row.ratio, 6)} {_number(glest.wall / ours.wall, 6)}"
        same = _number(row.glest_same_leaves.cpu / ours.cpu, 9)
        seconds = f"{_number(glest.cpu, 8)} {_number(ours.cpu, 8)}"
        text.append(
            f"{row.size!s:>15} {row.kernel:>9} | {seconds} {ratios} {same} "
            f"| {_number(glest.peak, 7)} {_number(ours.peak, 8)} | {_number(row.floors, 8)}"
        )
    text += ["", "The default call, epiloss.audit(y, s, X): cross-fitted, both halves evaluated."]
    text.append(f"{'rows x columns':>15} | {'CPU s':>8} {'wall s':>8} {'peak MB':>8} | {'floor ms':>9}")
    for row in {str(row.size): row for row in rows}.values():
        cost = row.default
        numbers = " ".join(_number(one, 8) for one in (cost.cpu, cost.wall, cost.peak))
        text.append(f"{row.size!s:>15} | {numbers} | {_number(1e3 * row.floor, 9)}")
    return "\n".join(text)


def _number(value: float, width: int) -> str:
    """Return three digits, or a blank where nothing was measured."""
    if value != value:
        return " " * width
    digits = max(0, 2 - int(np.floor(np.log10(abs(value))))) if value else 0
    return f"{value:>{width},.{digits}f}"


def as_profile(size: Size, shares: Mapping[str, float]) -> str:
    """Return where the time of one call goes, by module, from the largest part on."""
    text = [f"Where the time of {size} goes, compiled where it can be: share of each module"]
    large = {module: share for module, share in shares.items() if share >= 0.005}
    text += [f"  {module:28} {share:6.1%}" for module, share in large.items()]
    return "\n".join([*text, f"  {'all others':28} {1 - sum(large.values()):6.1%}"])


def as_json(
    rows: Sequence[Row],
    exponents: Mapping[str, float],
    shares: Mapping[str, float],
    judged: Sequence[Verdict],
) -> str:
    """Return all that was measured; what was not is null."""
    content = {
        "machine": {"processor": platform.machine(), "python": platform.python_version()},
        "rows": [asdict(row) | {"ratio": row.ratio, "floors": row.floors} for row in rows],
        "growth": dict(exponents),
        "profile": dict(shares),
        "verdicts": [asdict(one) | {"met": one.met} for one in judged],
    }
    return json.dumps(_without_nan(content), indent=2, allow_nan=False) + "\n"


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if value != value else value


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the tables and the verdicts, and save all as JSON."""
    parser = argparse.ArgumentParser(description="Speed and memory beside glest.")
    parser.add_argument("--quick", action="store_true", help="two small sizes, once; no growth")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/output/speed.json"))
    parser.add_argument("--kernel", choices=(*KERNELS, "both"), default="both")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("glest") is None:
        sys.exit("this benchmark needs the peer glest, which is not installed: pip install glest==0.0.1")
    kernels = KERNELS if options.kernel == "both" else (options.kernel,)
    if "compiled" in kernels and not has_compiled_kernel():
        sys.exit(
            "epiloss was installed without its compiled part. Install a C compiler and epiloss again, "
            "or choose --kernel numpy."
        )
    options.output.parent.mkdir(parents=True, exist_ok=True)  # told before the work, not after
    sizes = QUICK_SIZES if options.quick else SIZES
    rows = [row for size in sizes for row in measure(size, kernels)]
    exponents = {}
    if not options.quick:
        for kernel in kernels:
            exponents[f"rows, {kernel}"] = growth(GROWTH_ROWS, kernel)
            exponents[f"columns, {kernel}"] = growth(GROWTH_COLUMNS, kernel)
    profiled = QUICK_PROFILED if options.quick else PROFILED
    shares = Call("profile", profiled.n, profiled.d, kernels[0]).run()
    judged = verdicts(rows, exponents)
    write_text(options.output, as_json(rows, exponents, shares, judged))
    print(as_table(rows), as_profile(profiled, shares), "\n".join(map(str, judged)), sep="\n\n")
    print(f"\n{sum(one.met for one in judged)} of {len(judged)} targets met. {FLOOR_NOTE}")


if __name__ == "__main__":
    main()
