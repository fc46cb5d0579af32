"""The jobs of the speed benchmark, each of which runs in a process of its own.

    python benchmarks/workloads.py epiloss 10000 20

runs one job on seeded data with these numbers of rows and columns, and prints its measurements as JSON:
the CPU and wall time of the call alone, after a call on ``WARM_UP`` rows has imported everything, and
its peak memory, which is the largest resident size minus the resident size just before the call. Short
calls are repeated until they have taken ``LEAST_SECONDS`` together, and times are medians.

``epiloss`` is the default call; ``printed`` also prints the result, which searches for segments.
``partition`` does the same work as glest, and ``lightgbm`` fits one model for comparison. ``floor``
encodes all rows once with the compiled loops, the minimum for trees on quantised columns. ``threads``
compares ``n_jobs=1`` and ``n_jobs=2``, and ``profile`` measures the share of each module.
"""

from __future__ import annotations

import contextlib
import cProfile
import hashlib
import importlib
import json
import os
import pstats
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import epiloss
from epiloss._typing import Floats
from epiloss.partition import Tree

WARM_UP = 500
EMBEDDED = 768  # from so many columns on they are 32-bit floats of low rank plus noise
RANK = 16
BLOCK = 1_000  # rows drawn at once, so that drawing does not affect the peak memory
ROWS_PER_LEAF = 30
EDGE_ROWS = 512  # the number of rows from which trees find their edges
LEAST_SECONDS = 0.2  # total time of the repetitions, because a single short call is too noisy
LIGHTGBM = {"objective": "regression", "num_leaves": 31, "num_threads": 1, "verbosity": -1}
LIGHTGBM_TREES = 100
TURNS = 5  # calls with one thread and with two
BUSY_ROUNDS = 300_000  # a tenth of a second
MEGABYTE = 1e6

Job = Callable[["Data"], object]
Function = tuple[str, int, str]  # file, line, name: how pstats knows a function


@dataclass(frozen=True)
class Data:
    """Labels, scores and features."""

    y: NDArray[np.int64]
    scores: Floats
    X: NDArray[Any]

    def first(self, n: int) -> Data:
        """Return the first ``n`` rows."""
        return Data(self.y[:n], self.scores[:n], self.X[:n])

    def with_score(self) -> Data:
        """Return the rows with the score as an additional feature."""
        return Data(self.y, self.scores, np.column_stack([self.X, self.scores.astype(self.X.dtype)]))

    @property
    def megabytes(self) -> float:
        """The size of the input."""
        return (self.y.nbytes + self.scores.nbytes + self.X.nbytes) / MEGABYTE


def draw(n: int, d: int, seed: int = 0) -> Data:
    """Draw calibrated scores along one direction; two others define subgroups with other rates.

    ``S = expit(1.5 z0)`` and ``Q = S + min(S, 1 - S) (sign(z1) + sign(z1 z2)) / 4``. The ``z`` are
    the first columns, or, of embeddings, latent: the columns mix them.
    """
    generator = np.random.default_rng(seed)
    z: NDArray[Any]
    embedded = d >= EMBEDDED
    X = np.empty((n, d), np.float32 if embedded else np.float64)
    latent = np.empty((n, 3))
    mixing = generator.standard_normal((RANK, d), np.float32) / np.float32(np.sqrt(RANK))
    for start in range(0, n, BLOCK):
        rows = X[start : start + BLOCK]
        if embedded:
            z = generator.standard_normal((len(rows), RANK), np.float32)
            generator.standard_normal(out=rows, dtype=np.float32)
            rows *= 0.5
            rows += z @ mixing
        else:
            z = generator.standard_normal(out=rows)
        latent[start : start + BLOCK] = z[:, :3]
    scores = expit(1.5 * latent[:, 0])
    shift = (np.sign(latent[:, 1]) + np.sign(latent[:, 1] * latent[:, 2])) / 4
    q = scores + np.minimum(scores, 1 - scores) * shift
    return Data((generator.random(n) < q).astype(np.int64), scores, X)


def run_glest(data: Data) -> object:
    """Run glest at its defaults: 15 bins, one split, trees of depth 10."""
    return _glest(data, "decision_tree")


def run_glest_same_leaves(data: Data) -> object:
    """Run glest with the leaves of epiloss: at least 30 learning rows, any depth."""
    import glest
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(min_samples_leaf=ROWS_PER_LEAF, random_state=0)
    return _glest(data, glest.Partitioner(tree, "apply"))


def _glest(data: Data, partitioner: object) -> object:
    import glest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small bins
        estimator = glest.GLEstimator(data.scores, partitioner, random_state=0)
        return estimator.fit(data.X, data.y).metrics()


def run_partition(data: Data) -> str:
    """Audit as glest does: 15 bins, one split, 30 learning rows per leaf."""
    options: dict[str, Any] = {"method": "paper", "partition": Tree(ROWS_PER_LEAF)}
    return _losses(epiloss.audit(data.y, data.scores, data.X, **options))


def run_epiloss(data: Data, n_jobs: int | None = None) -> str:
    """Audit at the defaults, with twin learners and regions."""
    return _losses(epiloss.audit(data.y, data.scores, data.X, n_jobs=n_jobs))


def run_printed(data: Data) -> str:
    """Audit at the defaults, search for segments, and print the result with its verdict."""
    return str(epiloss.audit(data.y, data.scores, data.X))


def _losses(result: epiloss.Audit) -> str:
    """Return the losses and their standard errors with all digits."""
    return repr((result.score, result.calibration_loss, result.grouping_loss, result.remainder))


def run_lightgbm(data: Data) -> object:
    """Fit one LightGBM model to the residuals of the scores."""
    lightgbm = importlib.import_module("lightgbm")
    rows = lightgbm.Dataset(data.X, data.y - data.scores)
    return lightgbm.train(LIGHTGBM, rows, LIGHTGBM_TREES)


JOBS: Mapping[str, Job] = {
    "glest": run_glest,
    "glest-same-leaves": run_glest_same_leaves,
    "partition": run_partition,
    "epiloss": run_epiloss,
    "printed": run_printed,
    "lightgbm": run_lightgbm,
}


def measured(job: str, n: int, d: int) -> dict[str, float]:
    """Run one job; return the median times of the call in seconds, and memory in megabytes."""
    import glest  # noqa: F401  # so that all start from the same memory

    data = draw(n, d)
    if job == "lightgbm":
        data = data.with_score()  # a copy, which is not to count as LightGBM's time
    JOBS[job](data.first(WARM_UP))
    _forget_largest_resident()
    before = _resident()
    cpu: list[float] = []
    wall: list[float] = []
    while sum(cpu) < LEAST_SECONDS:
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        JOBS[job](data)
        cpu.append(time.process_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
    peak = _largest_resident() - before
    times = {"cpu": float(np.median(cpu)), "wall": float(np.median(wall))}
    return times | {"peak": peak, "baseline": before, "data": data.megabytes}


def floor(n: int, d: int) -> dict[str, float]:
    """Return the best time to encode all rows with the compiled loops, as one level set."""
    from epiloss._kernels import compiled
    from epiloss.partition.quantized import quantile_edges

    X = draw(n, d).X
    rows, starts = np.arange(n), np.array([0, n])
    edges = quantile_edges(np.ascontiguousarray(X[:EDGE_ROWS].T).astype(float))
    codes = np.empty((d, n), np.uint8)
    seconds: list[float] = []
    while len(seconds) < 3 or sum(seconds) < LEAST_SECONDS:
        start = time.process_time()
        compiled.encode(X, rows, starts, edges[None], codes)
        seconds.append(time.process_time() - start)
    return {"cpu": min(seconds)}


def threads(n: int, d: int) -> dict[str, float]:
    """Return the wall times of the default call with one thread and with two, in turns.

    ``same`` is 1 if all ledgers are the same text, and ``cores`` how many of two cores were free.
    """
    data = draw(n, d)
    run_epiloss(data.first(WARM_UP), n_jobs=2)
    wall: dict[int, list[float]] = {1: [], 2: []}
    ledgers, cores = set(), []
    for n_jobs in (1, 2) * TURNS:
        cores.append(free_cores())
        start = time.perf_counter()
        ledgers.add(run_epiloss(data, n_jobs))
        wall[n_jobs].append(time.perf_counter() - start)
    one, two, free = (float(np.median(found)) for found in (wall[1], wall[2], cores))
    return {"one": one, "two": two, "same": float(len(ledgers) == 1), "cores": free}


def free_cores() -> float:
    """Return the CPU time per second that two threads get now; 2 if nothing else runs."""
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_keep_a_core_busy, range(2)))
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def _keep_a_core_busy(_: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", b"any", b"thing", BUSY_ROUNDS)  # lets other threads run


def profile(n: int, d: int) -> dict[str, float]:
    """Return the share of each module of epiloss in the CPU time of the default call.

    What other libraries take is counted for the module that called them, in proportion to their
    time on its behalf where there are several.
    """
    data = draw(n, d)
    run_epiloss(data.first(WARM_UP))
    profiler = cProfile.Profile(time.process_time)  # not the wall: others may have the processor
    profiler.runcall(run_epiloss, data)
    stats: Mapping[Function, Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    shares: dict[str, float] = {}
    for function, entry in stats.items():
        for module, part in _owners(function, stats).items():
            shares[module] = shares.get(module, 0.0) + part * entry[2]
    total = sum(shares.values())
    return {module: shares[module] / total for module in sorted(shares, key=lambda one: -shares[one])}


def _owners(function: Function, stats: Mapping[Function, Any]) -> Mapping[str, float]:
    """Return the modules that called a function, with their shares, which sum to one."""
    package = str(Path(epiloss.__file__).parent) + os.sep

    @cache
    def own(function: Function) -> str | None:
        inside = function[0].startswith(package)
        return function[0].removeprefix(package).removesuffix(".py") if inside else None

    def search(function: Function, seen: frozenset[Function]) -> dict[str, float]:
        module = own(function)
        if module is not None:
            return {module: 1.0}
        callers = {one: entry[3] for one, entry in stats[function][4].items() if one not in seen}
        total = sum(callers.values())
        if not callers or total <= 0:
            return {"other": 1.0}
        parts: dict[str, float] = {}
        for one, seconds in callers.items():
            for name, part in search(one, seen | {function}).items():
                parts[name] = parts.get(name, 0.0) + part * seconds / total
        return parts

    return search(function, frozenset())


def _resident() -> float:
    """Return the current resident size, or the largest so far if the system has only that."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return _largest_resident()
    pages = int(statm.read_text().split()[1])
    return pages * resource.getpagesize() / MEGABYTE


def _forget_largest_resident() -> None:
    """Reset the peak memory if the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _largest_resident() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE


def main() -> None:
    """Run the job named on the command line, and print its measurements."""
    job, n, d = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    others = {"floor": floor, "profile": profile, "threads": threads}
    found = others[job](n, d) if job in others else measured(job, n, d)
    from epiloss._kernels.dispatch import kernel

    wanted = os.environ.get("EPILOSS_KERNEL", "compiled")
    if not kernel().__name__.endswith({"compiled": ".compiled", "numpy": ".reference"}[wanted]):
        sys.exit(f"the {wanted} loops were asked for, got {kernel().__name__}. Install a C compiler.")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
