"""Run random problems through the compiled loops under gcc's sanitizers.

Usage, from the root of the repository, where gcc and its libasan are installed::

    python scripts/fuzz_kernel.py --seconds 60

The kernel is built with the address and undefined-behaviour sanitizers in a temporary folder, and every
forest, sum and curve is compared with that of the NumPy loops, bit for bit. Exit codes: 0 nothing found,
1 a finding (the sanitizer's report, or the problem's seed, is on the standard error), 2 gcc or libasan
is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels import reference as numpy_kernel
from epiloss._kernels import threads
from epiloss._kernels.boosting import Growth
from epiloss._threads import Workers
from epiloss._typing import Codes
from epiloss.calibration.smoothers import DistinctScores, WindowedLines
from epiloss.estimation import influence
from epiloss.estimation import region_rows as regions
from epiloss.estimation.region_stats import RegionStats, RegionSums
from epiloss.input.features import Features
from epiloss.partition import forest
from epiloss.partition import quantized as codes
from epiloss.partition.base import LearningRows
from epiloss.scoring import Brier, LogLoss

FOLDER = Path(__file__).parents[1] / "src" / "epiloss" / "_kernels"
SOURCES = ("_kernel.c", "_trees.c", "_passes.c", "_boost.c")
FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -ffp-contract=off -fPIC -shared"
MAKES = ("rows", "columns", "reversed", "strided", "read-only", "tuple")


def random_problem(seed: int) -> tuple[LearningRows, int]:
    """Return random learning rows, and the smallest number of rows in a leaf."""
    g = np.random.default_rng(seed)
    n = int(g.integers(1, 600))
    d = int(g.integers(43, 80) if g.random() < 0.1 else g.integers(1, 7))  # rarely wide
    X, categories = _numbers(g, n, d), {}
    if g.random() < 0.4:
        n_levels = int(g.integers(1, 100))
        X[:, 0] = g.integers(n_levels, size=n)
        X[:, 0][g.random(n) < g.choice([0, 0.1])] = np.nan
        categories = {0: tuple(map(str, range(n_levels)))}
    features = Features(_laid_out(g, X), tuple(f"x{j}" for j in range(d)), categories)
    if g.random() < 0.5:  # in random order, some rows twice, in two steps
        mask = g.random(2 * n) < 0.4
        mask[0] = True
        features = features.take(g.integers(n, size=2 * n)).take(mask)
    n = features.n_rows
    n_level_sets = int(g.integers(1, 6))
    labels = (g.random(n) < g.random()).astype(float)
    rule = Brier() if g.random() < 0.6 else LogLoss()
    rows = LearningRows(
        features, labels, g.integers(n_level_sets, size=n), n_level_sets, _weights(g, n), rule
    )
    return rows, int(g.integers(1, 30))


def _numbers(g: np.random.Generator, n: int, d: int) -> NDArray[Any]:
    """Return numbers with ties, missing values and denormals, in either precision."""
    X = g.standard_normal((n, d))
    if g.random() < 0.4:
        X = np.round(X * g.integers(1, 5))
    if g.random() < 0.4:
        X[g.random((n, d)) < 0.2] = np.nan
    if g.random() < 0.1:
        X[:, 0] = np.nan
    if g.random() < 0.1:
        X[:, -1] = 1e-310 * g.integers(0, 5, n)
    if g.random() < 0.1:
        X[:, -1] = g.choice([-3e38, 1, 3e38], n)
    return X.astype(g.choice(["f4", "f8"]))


def _laid_out(g: np.random.Generator, X: NDArray[Any]) -> NDArray[Any] | tuple[NDArray[Any], ...]:
    """Return the same numbers in another layout; a tuple has columns of both precisions."""
    make = g.choice(MAKES)
    if make == "columns":
        return np.asfortranarray(X)
    if make == "reversed":
        return X[::-1, ::-1].copy()[::-1, ::-1]
    if make == "strided":
        return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    if make == "read-only":
        X.flags.writeable = False
    if make == "tuple":
        return tuple(column.astype(g.choice(["f4", "f8"])) for column in X.T)
    return X


def _weights(g: np.random.Generator, n: int) -> NDArray[np.float64] | None:
    """Return no weights, or some of them zero, or of very different sizes."""
    if g.random() < 0.6:
        return None
    weights = g.exponential(size=n) if g.random() < 0.7 else 10.0 ** g.uniform(-12, 12, n)
    weights[g.random(n) < 0.1] = 0
    weights[0] = 1
    return weights


def grown(
    rows: LearningRows, least: int, loops: ModuleType, n_jobs: int | None = None
) -> tuple[forest.Forest, Codes]:
    """Return the forest that the given loops grow, and the assigned leaves."""
    with (
        mock.patch.object(threads, "MANY", 20),  # so that threads share even few rows
        mock.patch.object(forest, "kernel", return_value=loops),
        mock.patch.object(codes, "kernel", return_value=loops),
        Workers(n_jobs) as workers,
    ):
        trees = forest.grow(rows, least, workers)
        return trees, trees.apply(rows.features, rows.level_set, workers)


def passed(seed: int, loops: ModuleType) -> list[bytes]:
    """Return the results of the passes over rows on random rows and curves, as bits."""
    g = np.random.default_rng(seed)
    n, m, n_cells = (int(g.integers(*ends)) for ends in ((0, 3000), (2, 600), (1, 50)))
    code, values = g.integers(n_cells, size=n), _fractions(g, n)
    sums = np.zeros((2, n_cells), np.int64)
    values *= 10.0 ** g.integers(-3, 8)
    values[: int(g.random() < 0.1)] = np.inf
    added = loops.add_fixed_point(code, values, *sums)
    wanted = g.integers(0, 1 + n // n_cells, n_cells)
    among = loops.first_of_each(g.permutation(n), code, wanted)
    knots, x = np.unique(_fractions(g, m)), _fractions(g, n)
    if len(knots) < 2:
        knots = np.array([0.25, 0.5])
    x[g.random(n) < 0.3] = g.choice(knots, 1)  # a tie
    with np.errstate(over="ignore"):  # of denormal steps
        curve = loops.interpolate(knots, g.random(len(knots)), x)
    weight = g.choice([1.0, 1e-3, 1e3], len(knots)) * g.random(len(knots))
    rows = DistinctScores(knots, weight, g.random(len(knots)))
    lines = WindowedLines.prepare(rows, g.choice([knots, np.zeros_like(knots)]))
    windows = weight.sum() * g.random(3) * 2
    cumulative = loops.cumulative_sums(rows.weight, lines.x * g.choice([1, 0, -1]), rows.label_mean)
    fitted = loops.windowed_lines(lines.x, lines.rank, lines.cumulative, windows)
    level_set = loops.level_sets_of(x, knots[: int(g.choice([0, 3, m]))])
    columns = _laid_out(g, _numbers(g, max(n, 1), int(g.integers(1, 9))))
    columns = columns if isinstance(columns, tuple) else tuple(columns.T)
    keys = loops.row_keys(columns)
    extremes = np.array([loops.extremes(np.ascontiguousarray(column)) for column in columns])
    spread = loops.spread_out(x, values, g.permutation(2 * n)[:n], 0.3, 7.0, 2 * n)
    arrays = (sums, np.array(added), among, curve, cumulative, *fitted, level_set, keys, extremes)
    evaluated = _evaluated(g, max(n, 1), loops)
    return [array.tobytes() for array in (*arrays, spread, *evaluated, *_boosted(g, loops))]


def _boosted(g: np.random.Generator, loops: ModuleType) -> list[NDArray[Any]]:
    """Return trees boosted on random codes, with either loss, and their predictions for other rows."""
    n, d = int(g.integers(1, 300)), int(g.integers(1, 9))
    codes = g.integers(0, int(g.choice([2, 40, 64])), (d, n)).astype(np.uint8)
    columns = np.sort(g.choice(d, int(g.integers(1, d + 1)), replace=False)).astype(np.int32)
    weight = g.random(n) * g.choice([1e-5, 0.25, 1.0])
    label, offset = (g.random(n) < g.random()).astype(float), g.normal(size=n) * g.choice([0.1, 30.0])
    growth = Growth(
        n_trees=int(g.integers(1, 5)),
        n_leaves=int(g.integers(1, 12)),
        deepest=int(g.integers(1, 7)),
        rate=0.3,
        ridge=float(g.choice([0.0, 1e-3, 5.0])) + 1e-9,
        least=float(g.choice([1e-9, 0.1, 3.0])),
    )
    total, again = np.zeros(n), np.zeros(n)
    if g.random() < 0.5:
        nodes = loops.boost(codes, columns, label, weight, offset, total, growth)
    else:
        nodes = loops.boost(codes, columns, label - 0.5, weight, None, total, growth)
    rows = g.permutation(n).astype(np.int32) if g.random() < 0.5 else None
    loops.boosted(codes, rows, nodes, again)
    added, table = np.zeros(n), g.normal(size=(d, 64)).astype(np.float32)
    loops.added_up(codes, table, added)
    return [nodes, total, again, added, loops.single_splits(codes, label - 0.5, weight)]


def _evaluated(g: np.random.Generator, n: int, loops: ModuleType) -> list[NDArray[Any]]:
    """Return the sums over rows and the rows' contributions for the Brier score."""
    n_level_sets, n_regions = (int(g.integers(1, most)) for most in (9, 6))
    level_set, region = g.integers(n_level_sets, size=n), g.integers(n_regions, size=n)
    region[level_set == 0] = 0  # a level set with one region
    scores, labels = np.clip(_fractions(g, n), 0, 1), g.integers(2, size=n).astype(float)
    curves = (_fractions(g, n), np.clip(_fractions(g, n), 0, 1))
    weights = g.choice([1.0, 1e-9, 0.3], n) if g.random() < 0.4 else None
    clusters = g.integers(n, size=n) if g.random() < 0.3 else None
    rows: dict[str, Any] = {"labels": labels, "scores": scores, "weights": weights, "curves": curves}
    with (
        mock.patch.object(regions, "kernel", return_value=loops),
        mock.patch.object(influence, "kernel", return_value=loops),
    ):
        stats = RegionStats.from_rows(level_set, region, rule=Brier(), clusters=clusters, **rows)
        growing = RegionSums(n_level_sets, Brier())
        for some in (slice(0, n // 3), slice(n // 3, n)):
            both, some_weights = (curves[0][some], curves[1][some]), weights
            if weights is not None:
                some_weights = weights[some]
            growing.add(level_set[some], region[some], labels[some], scores[some], some_weights, both)
        cell = influence.cell_of(stats, level_set, region)
        terms = influence.row_terms(np.arange(n), stats, level_set, cell, rule=Brier(), **rows)
    return [stats.sums, growing.stats().sums, *vars(terms).values()]


def _fractions(g: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Return numbers in [0, 1]: clustered, rounded, denormal, or slightly outside."""
    values = g.random(n) ** g.choice([1, 20])
    if g.random() < 0.3:
        values = np.round(values, 1)
    if g.random() < 0.1:
        values *= 1e-310
    outside: NDArray[np.float64] = values * 1.2 - 0.1
    return outside if g.random() < 0.2 else values


def same_bits(one: tuple[forest.Forest, Codes], other: tuple[forest.Forest, Codes]) -> bool:
    """Return whether two forests and their leaves are equal, bit for bit."""
    (a, leaf), (b, other_leaf) = one, other
    nodes = all(a.nodes[name].tobytes() == b.nodes[name].tobytes() for name in a.nodes.dtype.names or ())
    return nodes and np.array_equal(a.tree, b.tree) and np.array_equal(leaf, other_leaf)


def fuzz(library: Path, seconds: float, first: int) -> int:
    """Compare the library with the NumPy loops for some time; return the exit code."""
    built = ModuleType("_kernel")
    built.__file__ = str(library)
    sys.modules["epiloss._kernels._kernel"] = built  # compiled_kernel loads its functions from there
    from epiloss._kernels import compiled as compiled_kernel

    seed, n_splits, end = first, 0, time.monotonic() + seconds
    while seed == first or time.monotonic() < end:
        rows, least = random_problem(seed)
        expected = grown(rows, least, numpy_kernel)
        if not same_bits(expected, grown(rows, least, compiled_kernel, n_jobs=1 + seed % 3)):
            print(f"the compiled and the NumPy loops disagree on problem {seed}", file=sys.stderr)
            return 1
        if passed(seed, numpy_kernel) != passed(seed, compiled_kernel):
            print(f"the compiled and the NumPy passes disagree on problem {seed}", file=sys.stderr)
            return 1
        seed += 1
        n_splits += int((expected[0].nodes["left"] >= 0).sum())
    print(f"{seed - first:,} problems with {n_splits:,} splits, nothing found")
    return 0


def built_and_run(sources: Path, seconds: float, first: int) -> int:
    """Build the kernel with sanitizers, and fuzz it in a process that preloads their library."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return _missing("gcc, which is not on the path")
    name = [gcc, "-print-file-name=libasan.so"]
    libasan = subprocess.run(name, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(libasan):  # gcc returns the bare name of a library that it does not find
        return _missing("gcc's libasan.so, which gcc does not find")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "_kernel.so"
        files = [str(sources / name) for name in SOURCES]
        include = f"-I{sysconfig.get_paths()['include']}"
        subprocess.run([gcc, *FLAGS.split(), include, *files, "-o", str(library), "-lm"], check=True)
        environment = {
            **os.environ,
            "LD_PRELOAD": libasan,
            "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps memory until it ends
            "PYTHONMALLOC": "malloc",  # so that the sanitizer sees Python's own blocks too
        }
        again = [sys.executable, __file__, "--library", str(library)]
        again += ["--seconds", str(seconds), "--seed", str(first)]
        return 0 if subprocess.run(again, env=environment, check=False).returncode == 0 else 1


def _missing(what: str) -> int:
    print(f"fuzzing the kernel needs {what}. Install gcc with its sanitizers.", file=sys.stderr)
    return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20, help="duration (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first problem (default: 0)")
    parser.add_argument("--sources", type=Path, default=FOLDER, help="a folder with other C files")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # in the second process
    options = parser.parse_args(arguments)
    if options.library is not None:
        return fuzz(options.library, options.seconds, options.seed)
    return built_and_run(options.sources, options.seconds, options.seed)


if __name__ == "__main__":
    sys.exit(main())
