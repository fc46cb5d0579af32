"""How much of the grouping loss of rare outcomes is found with the log-loss, and how often too much.

    python experiments/rare.py --repetitions 60 --jobs 2

Every repetition draws rows with a logistic score and audits them with ``rule="log"``. The true
probability is ``1 + ratio`` or ``1 - ratio`` times the score, depending on the sign of another column;
above 1/2, the same holds for the opposite outcome. Both lower bounds are compared with the true grouping
loss ``E[KL(Q || S)]`` of the same rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.special import expit
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.estimate import Estimate
from epiloss.scoring import LogLoss
from repetitions import as_csv, repeated

BOUNDS = ("crossfit", "partition")
SIZES = (2_000, 10_000, 50_000)
N_NOISE = 4
UNIT = 1e-4  # of the printed table; the CSV file has plain units


@dataclass(frozen=True)
class Setting:
    """The rarity of the outcome (by the intercept of its log-odds), and how much groups differ.

    ``stretch`` is the factor by which the log-odds of the scores are too large.
    """

    intercept: float
    ratio: float
    stretch: float = 1.0

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
        """Return features, scores, calibrated scores and truth."""
        X = generator.normal(size=(n, 2 + N_NOISE))
        c = expit(X[:, 0] - self.intercept)
        q = c + self.ratio * np.minimum(c, 1 - c) * np.sign(X[:, 1])
        return X, expit(self.stretch * X[:, 0] - self.intercept), c, q


SETTINGS: Mapping[str, Setting] = {
    "16% positive": Setting(2.0, 0.5),
    "1.1% positive": Setting(5.0, 0.5),
    "1.1% positive, much": Setting(5.0, 0.8),
    "0.15% positive, much": Setting(7.0, 0.8),
    "16% positive, null": Setting(2.0, 0.0),
    "1.1% positive, null": Setting(5.0, 0.0),
    "1.1%, null, too large": Setting(5.0, 0.0, stretch=2.0),
}


@dataclass(frozen=True)
class Task:
    """One sample of a setting; its random stream does not depend on the other tasks."""

    setting: str
    n: int
    repetition: int
    seed: int


@dataclass(frozen=True)
class Found:
    """Both bounds of one sample, and the truth."""

    task: Task
    truth: float
    bounds: Mapping[str, Estimate]


@dataclass(frozen=True)
class Line:
    """One bound over the repetitions; ``above`` is how often its interval lies above the truth."""

    setting: str
    n: int
    bound: str
    repetitions: int
    truth: float
    mean: float
    stderr: float
    above: float
    significant: float


def run_task(task: Task) -> Found | None:
    """Audit one sample; one with fewer than 5 positives is left out."""
    key = (list(SETTINGS).index(task.setting), task.n, task.repetition)
    generator = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=key))
    X, scores, c, q = SETTINGS[task.setting].draw(task.n, generator)
    y = (generator.random(task.n) < q).astype(int)
    if y.sum() < 5:
        return None
    with threadpool_limits(1):  # one core for each job
        seed = int(generator.integers(2**31))
        audit = epiloss.audit(y, scores, X, rule="log", method="crossfit", random_state=seed)
    assert audit.crossfit_bound is not None  # because there are features and enough rows
    bounds = dict(zip(BOUNDS, (audit.crossfit_bound, audit.partition_bound), strict=True))
    return Found(task, float(LogLoss().divergence(c, q).mean()), bounds)


def summarise(found: Iterable[Found | None]) -> list[Line]:
    """Return a line for each setting, number of rows and bound."""
    cells: dict[tuple[str, int, str], list[tuple[float, Estimate]]] = {}
    for one in filter(None, found):
        for name, bound in one.bounds.items():
            cells.setdefault((one.task.setting, one.task.n, name), []).append((one.truth, bound))
    lines = []
    for key, pairs in cells.items():
        truths = np.array([truth for truth, _ in pairs])
        values = np.array([bound.value for _, bound in pairs])
        above = np.mean([(bound.low or 0.0) > truth for truth, bound in pairs])
        significant = np.mean([(bound.pvalue or 0.0) < 0.05 for _, bound in pairs])
        stderr = values.std(ddof=min(1, len(values) - 1)) / np.sqrt(len(values))
        shares = float(above), float(significant)
        lines.append(Line(*key, len(pairs), truths.mean(), values.mean(), stderr, *shares))
    return lines


def as_table(lines: Sequence[Line]) -> str:
    """Return the table that is printed."""
    width = max(len(line.setting) for line in lines)
    text = [
        "Losses x 1e-4. above: intervals that lie above the truth; p < 5%: how often a loss is found.",
        f"{'outcome':{width}} {'rows':>6} {'samples':>7} {'true':>7}   {'bound':>9} {'mean ± se':>15} "
        f"{'found':>6} {'above':>6} {'p < 5%':>6}",
    ]
    for line in lines:
        share = f"{line.mean / line.truth:.0%}" if line.truth > 0 else ""
        mean = f"{line.mean / UNIT:.2f} ± {line.stderr / UNIT:.2f}"
        text.append(
            f"{line.setting:{width}} {line.n:>6} {line.repetitions:>7} {line.truth / UNIT:7.2f}   "
            f"{line.bound:>9} {mean:>15} {share:>6} {line.above:6.2f} {line.significant:6.2f}"
        )
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="Bounds on the log-loss's grouping loss.")
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/rare.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes; the result is the same")
    parser.add_argument("--quick", action="store_true", help="2,000 rows only")
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    todo = [
        Task(setting, n, repetition, options.seed)
        for setting in SETTINGS
        for n in (SIZES[:1] if options.quick else SIZES)
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "rare outcomes", len(todo), console=console, disable=not console.is_terminal)
    lines = summarise(bar)
    write_text(options.output, as_csv(lines))
    print(as_table(lines))


if __name__ == "__main__":
    main()
