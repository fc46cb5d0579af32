"""Whether ``epiloss.drift`` distinguishes a change of the population from a change of the losses.

    python experiments/drift.py --repetitions 100

Every repetition draws a reference and a current data set with a known difference: other scores, other
features, other rates at equal features, or several of these. The table shows how often each test finds a
change at 5%: of the population; of the labels at equal scores and features ("losses"); and of each loss,
on the data sets as they are ("own") and on their common population ("same"). If only the population
changes, "losses" and "same" must stay near 5%.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
from drift_settings import SHIFTS
from epiloss._saving import write_text
from repetitions import as_csv, repeated

LOSSES = ("score", "calibration_loss", "grouping_loss")
LEVEL, TARGET = 0.05, 0.065  # level of the tests, and largest accepted rate of false rejections


@dataclass(frozen=True)
class Task:
    """One pair of data sets; its random stream does not depend on the other tasks."""

    shift: str
    n: int
    repetition: int
    seed: int
    rule: str


@dataclass(frozen=True)
class Found:
    """Which tests found a change."""

    task: Task
    population: bool
    losses: bool
    own: tuple[bool, ...]
    same: tuple[bool, ...]


@dataclass(frozen=True)
class Line:
    """How often each test found a change, and whether that meets the target."""

    shift: str
    n: int
    repetitions: int
    population: float
    losses: float
    own_score: float
    own_calibration: float
    own_grouping: float
    same_score: float
    same_calibration: float
    same_grouping: float

    @property
    def misses(self) -> str:
        """The tests that reject too often, beyond two standard errors of a frequency."""
        most = TARGET + 2 * float(np.sqrt(TARGET * (1 - TARGET) / self.repetitions))
        shift, found = SHIFTS[self.shift], []
        if not shift.population and self.population > most:
            found.append("population")
        if not shift.losses:
            found += [name for name in ("losses", *_SAME) if getattr(self, name) > most]
        if not shift.losses and not shift.population:
            found += [name for name in _OWN if getattr(self, name) > most]
        return ", ".join(found)


_OWN = ("own_score", "own_calibration", "own_grouping")
_SAME = ("same_score", "same_calibration", "same_grouping")


def run_task(task: Task) -> Found:
    """Draw two data sets and compare them."""
    key = (list(SHIFTS).index(task.shift), task.n, task.repetition)
    generator = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=key))
    reference, current = SHIFTS[task.shift].draw((task.n, task.n), generator)
    options = {"n_bins": 5, "rule": task.rule, "random_state": int(generator.integers(2**31))}
    with threadpool_limits(1):
        result = epiloss.drift(reference, current, **options)
    changes = result.changes
    assert changes is not None

    def found(differences: object) -> tuple[bool, ...]:
        return tuple((differences[name].pvalue or 0.0) <= LEVEL for name in LOSSES)  # type: ignore[index]

    return Found(
        task,
        changes.pvalue_population <= LEVEL,
        changes.pvalue_labels <= LEVEL,
        found(result.difference),
        found(changes.differences),
    )


def summarise(found: Iterable[Found]) -> list[Line]:
    """Return a line for each shift."""
    cells: dict[tuple[str, int], list[Found]] = {}
    for one in found:
        cells.setdefault((one.task.shift, one.task.n), []).append(one)
    return [_line(shift, n, runs) for (shift, n), runs in cells.items()]


def _line(shift: str, n: int, runs: Sequence[Found]) -> Line:
    tests = np.array([[one.population, one.losses, *one.own, *one.same] for one in runs], float)
    return Line(shift, n, len(runs), *tests.mean(axis=0).tolist())


def as_table(lines: Sequence[Line]) -> str:
    """Return the table that is printed."""
    width, n = max(len(line.shift) for line in lines), f"{lines[0].n:,}"
    text = [
        f"{lines[0].repetitions} repetitions of {n} reference and {n} current rows: how",
        "often tests at 5% find a change. own: losses as they are; same: on a common population.",
        f"{'what changed':{width}} {'truth':>10} {'popul.':>7} {'losses':>7} {'own score':>10} "
        f"{'calib.':>7} {'group.':>7} {'same score':>11} {'calib.':>7} {'group.':>7}",
    ]
    for line in lines:
        shift = SHIFTS[line.shift]
        truth = {(False, False): "nothing", (True, False): "population", (False, True): "losses"}.get(
            (shift.population, shift.losses), "both"
        )
        shares = (line.population, line.losses), [getattr(line, name) for name in (*_OWN, *_SAME)]
        tests = " ".join(f"{one:7.2f}" for one in shares[0])
        others = " ".join(
            f"{one:{wide}.2f}" for one, wide in zip(shares[1], (10, 7, 7, 11, 7, 7), strict=True)
        )
        text.append(f"{line.shift:{width}} {truth:>10} {tests} {others}  {line.misses}".rstrip())
    missed = sum(bool(line.misses) for line in lines)
    return "\n".join([*text, f"{missed} of {len(lines)} lines miss the target."])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="What changed: the population, the losses, or both.")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/drift.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes; the result is the same")
    parser.add_argument("--shifts", nargs="+", choices=SHIFTS, default=list(SHIFTS), metavar="NAME")
    parser.add_argument("--rows", type=int, default=1_000, help="rows of each data set")
    parser.add_argument("--rule", choices=("brier", "log"), default="brier")
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    todo = [
        Task(shift, options.rows, repetition, options.seed, options.rule)
        for shift in options.shifts
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "two data sets", len(todo), console=console, disable=not console.is_terminal)
    lines = summarise(bar)
    write_text(options.output, as_csv(lines))
    print(as_table(lines))


if __name__ == "__main__":
    main()
