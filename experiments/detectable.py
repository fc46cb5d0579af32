"""Whether the smallest detectable grouping loss of an audit is found in 80% of the samples.

    python experiments/detectable.py --repetitions 100

In each setting the true grouping loss equals ``result.smallest_detectable``. It is caused by the sign of
one column, by the sum of all columns, or by the product of two, for which the formula makes no promise.
The table shows how often the test at 5% finds it; the target is 0.70 to 0.90.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.special import expit
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Codes, Floats
from repetitions import as_csv, repeated

TARGET = (0.70, 0.90)
_STEPS = 25  # of the search for the planted loss


@dataclass(frozen=True)
class Setting:
    """Rows with a calibrated score and labels that also depend on other columns."""

    n: int
    n_columns: int
    shape: str
    intercept: float = 0.0
    rule: str = "brier"
    weight_cv: float = 0.0
    cluster_size: int = 1

    def effect(self, X: Floats, c: Floats) -> Floats:
        """Return the direction in which the scores are wrong."""
        others = X[:, 1:]
        wave = {
            "one": np.sign(others[:, 0]),
            "all": others.sum(axis=1) / np.sqrt(others.shape[1]),
            "product": np.sign(others[:, 0] * others[:, 1]),
        }[self.shape]
        return np.asarray(wave * np.minimum(c, 1 - c), float)

    def draw(self, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Return features, calibrated scores, and the uniform numbers that determine the labels."""
        X = generator.normal(size=(self.n, self.n_columns))
        return X, expit(self.intercept + X[:, 0]), generator.random(self.n)

    def weights(self, generator: np.random.Generator) -> Floats | None:
        """Return log-normal weights."""
        if not self.weight_cv:
            return None
        drawn: Floats = np.exp(np.sqrt(np.log1p(self.weight_cv**2)) * generator.normal(size=self.n))
        return drawn

    def clusters(self) -> Codes | None:
        """Return clusters of independent rows."""
        return None if self.cluster_size == 1 else np.arange(self.n) // self.cluster_size


SETTINGS: Mapping[str, Setting] = {
    "one of 5 columns, 1,000 rows": Setting(1_000, 5, "one"),
    "all of 5 columns, 1,000 rows": Setting(1_000, 5, "all"),
    "one of 30 columns, 1,000 rows": Setting(1_000, 30, "one"),
    "all of 30 columns, 2,000 rows": Setting(2_000, 30, "all"),
    "one of 5 columns, 4,000 rows": Setting(4_000, 5, "one"),
    "one of 10 columns, 10,000 rows": Setting(10_000, 10, "one"),
    "10% positives, 4,000 rows": Setting(4_000, 5, "one", intercept=-2.5),
    "3% positives, 10,000 rows": Setting(10_000, 5, "one", intercept=-4.0),
    "log-loss, 2,000 rows": Setting(2_000, 5, "one", rule="log"),
    "weights of CV 1, 2,000 rows": Setting(2_000, 5, "one", weight_cv=1.0),
    "clusters of 5, 2,000 rows": Setting(2_000, 5, "one", cluster_size=5),
    "product of 2 of 5, 4,000 rows": Setting(4_000, 5, "product"),
}


@dataclass(frozen=True)
class Task:
    """One sample of a setting; its random stream does not depend on the other tasks."""

    setting: str
    repetition: int
    seed: int


@dataclass(frozen=True)
class Found:
    """Whether the loss was found."""

    task: Task
    planted: float
    pvalue: float


@dataclass(frozen=True)
class Line:
    """How often the loss was found."""

    setting: str
    repetitions: int
    planted: float
    power: float

    @property
    def misses(self) -> str:
        """Return "power" if it misses the target by more than two standard errors."""
        slack = 2 * float(np.sqrt(0.8 * 0.2 / self.repetitions))
        return "" if TARGET[0] - slack <= self.power <= TARGET[1] + slack else "power"


def run_task(task: Task) -> Found:
    """Plant the smallest detectable loss of an audit of such rows, and test for it."""
    setting = SETTINGS[task.setting]
    key = (list(SETTINGS).index(task.setting), task.repetition)
    generator = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=key))
    X, c, chance = setting.draw(generator)
    weights, clusters = setting.weights(generator), setting.clusters()
    options: dict[str, Any] = {"rule": setting.rule, "sample_weight": weights, "clusters": clusters}
    with threadpool_limits(1):
        without = epiloss.audit((chance < c).astype(int), c, X, **options)
        planted = without.smallest_detectable
        assert planted is not None
        q = _with_loss(c, setting.effect(X, c), planted, setting.rule, weights)
        found = epiloss.audit((chance < q).astype(int), c, X, **options)
    return Found(task, planted, found.grouping_loss.pvalue or 0.0)


def _with_loss(c: Floats, effect: Floats, loss: float, rule: str, weights: Floats | None) -> Floats:
    """Return probabilities, moved in a direction, that have this grouping loss."""
    divergence = epiloss.LogLoss().divergence if rule == "log" else epiloss.Brier().divergence
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        reached = float(np.average(divergence(c, c + middle * effect), weights=weights))
        low, high = (middle, high) if reached < loss else (low, middle)
    return np.clip(c + low * effect, 0, 1)


def summarise(found: Iterable[Found]) -> list[Line]:
    """Return a line for each setting."""
    cells: dict[str, list[Found]] = {}
    for one in found:
        cells.setdefault(one.task.setting, []).append(one)
    return [
        Line(
            name,
            len(runs),
            float(np.mean([one.planted for one in runs])),
            float(np.mean([one.pvalue <= 0.05 for one in runs])),
        )
        for name, runs in cells.items()
    ]


def as_table(lines: Sequence[Line]) -> str:
    """Return the table that is printed."""
    width = max(len(line.setting) for line in lines)
    text = [
        f"{lines[0].repetitions} samples with the smallest detectable grouping loss.",
        f"{'':{width}} {'loss':>8} {'found':>6}",
    ]
    text += [
        f"{line.setting:{width}} {line.planted:8.5f} {line.power:6.2f}  {line.misses}".rstrip()
        for line in lines
    ]
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="Power at the smallest detectable grouping loss.")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/detectable.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes; the result is the same")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME"
    )
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    todo = [
        Task(name, repetition, options.seed)
        for name in options.settings
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "detectable losses", len(todo), console=console, disable=not console.is_terminal)
    lines = summarise(bar)
    write_text(options.output, as_csv(lines))
    print(as_table(lines))


if __name__ == "__main__":
    main()
