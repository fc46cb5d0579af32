"""How often the intervals of familiar metrics cover the truth, and whether noise floors are right.

    python experiments/metrics.py --repetitions 200 --jobs 2

Every repetition draws scores, labels whose probability is a known function of the score, and clusters or
weights if the setting has them, and computes the metrics. The truth is the metric of 200,000 scores of
the same distribution, with exact probabilities instead of labels. The floors are compared with the
metrics of samples whose labels are drawn from the scores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.special import expit, logit, ndtr
from threadpoolctl import threadpool_limits

from epiloss._saving import write_text
from epiloss._typing import Codes, Floats
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem, Reading
from epiloss.metrics.measure import measure
from epiloss.metrics.result import Metrics
from repetitions import as_csv, repeated

SIZES = (500, 2_000, 10_000)
N_TRUTH = 200_000
CLUSTER, SPREAD = 5, 1.0  # rows per cluster, and the standard deviation of their shared noise


@dataclass(frozen=True)
class Setting:
    """A beta distribution of scores, and the probability as a function of the score."""

    shape: tuple[float, float]
    curve: Callable[[Floats], Floats]
    weighted: bool = False
    clustered: bool = False

    def scores(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw scores."""
        return np.asarray(generator.beta(*self.shape, n), float)

    def weights(self, scores: Floats, generator: np.random.Generator) -> Floats | None:
        """Draw weights, which do not depend on the labels."""
        return generator.exponential(size=len(scores)) + 0.1 if self.weighted else None

    def labels(
        self, scores: Floats, probability: Floats, generator: np.random.Generator
    ) -> tuple[Floats, Codes | None]:
        """Draw labels, and clusters whose labels depend on each other."""
        uniform = generator.random(len(scores))
        if not self.clustered:
            return (uniform < probability).astype(float), None
        # a copula: each label keeps its probability, and rows of a cluster share a part of the noise
        clusters = np.arange(len(scores)) // CLUSTER
        shared = generator.standard_normal(int(clusters.max()) + 1)[clusters]
        own = generator.standard_normal(len(scores))
        noise = ndtr((SPREAD * shared + own) / np.sqrt(1 + SPREAD**2))
        return (noise < probability).astype(float), clusters


def _same(s: Floats) -> Floats:
    return s


def _slightly_off(s: Floats) -> Floats:
    return np.asarray(expit(0.9 * logit(s) - 0.1), float)


def _overconfident(s: Floats) -> Floats:
    return np.asarray(expit(0.6 * logit(s) - 0.2), float)


def _half_wrong(s: Floats) -> Floats:
    return np.where(s > 0.5, s - 0.1, s)


SETTINGS: Mapping[str, Setting] = {
    "calibrated": Setting((2.0, 3.0), _same),
    "slightly off": Setting((2.0, 3.0), _slightly_off),
    "overconfident": Setting((1.0, 1.5), _overconfident),
    "wrong above 0.5": Setting((2.0, 3.0), _half_wrong),
    "rare, overconfident": Setting((1.0, 20.0), _overconfident),
    "overconfident, weights": Setting((1.0, 1.5), _overconfident, weighted=True),
    "overconfident, clusters": Setting((1.0, 1.5), _overconfident, clustered=True),
    "calibrated, clusters": Setting((2.0, 3.0), _same, clustered=True),
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
    """The metrics of one sample, and of one with labels drawn from its scores."""

    task: Task
    measured: Metrics
    by_chance: Mapping[str, float]


@dataclass(frozen=True)
class Line:
    """One metric over the repetitions; ``by_chance`` and ``floor`` are means."""

    setting: str
    n: int
    metric: str
    repetitions: int
    truth: float
    mean: float
    covered: float
    width: float
    floor: float
    by_chance: float


def problem_of(
    labels: Floats, scores: Floats, weights: Floats | None = None, clusters: Codes | None = None
) -> Problem:
    """Return checked rows of a binary task."""
    return read_problem(labels, scores, None, Reading(), sample_weight=weights, clusters=clusters)


@cache
def truth_of(setting: str) -> Mapping[str, float]:
    """Return the metrics of a large population: each score with both labels, by its probability."""
    one = SETTINGS[setting]
    scores = np.sort(one.scores(N_TRUTH, np.random.default_rng(0)))
    probability = one.curve(scores)
    labels = np.repeat([1.0, 0.0], N_TRUTH)
    weights = np.concatenate([probability, 1 - probability])
    found = measure(problem_of(labels, np.tile(scores, 2), weights))
    return {name: metric.value for name, metric in found.items()}


def problems_of(task: Task) -> tuple[Problem, Problem]:
    """Return a sample, and the same scores with labels drawn from them."""
    setting = SETTINGS[task.setting]
    key = (list(SETTINGS).index(task.setting), task.n, task.repetition)
    generator = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=key))
    scores = setting.scores(task.n, generator)
    weights = setting.weights(scores, generator)
    labels, clusters = setting.labels(scores, setting.curve(scores), generator)
    null, _ = setting.labels(scores, scores, generator)
    rows = (scores, weights, clusters)
    return problem_of(labels, *rows), problem_of(null, *rows)


def run_task(task: Task) -> Found:
    """Measure one sample."""
    with threadpool_limits(1):  # one core for each job
        measured, chance = (measure(one, seed=task.repetition) for one in problems_of(task))
    return Found(task, measured, {name: metric.value for name, metric in chance.items()})


def summarise(found: Iterable[Found]) -> list[Line]:
    """Return a line for each setting, number of rows and metric."""
    cells: dict[tuple[str, int], list[Found]] = {}
    for one in found:
        cells.setdefault((one.task.setting, one.task.n), []).append(one)
    lines = []
    for (setting, n), runs in cells.items():
        for name, truth in truth_of(setting).items():
            some = [run for run in runs if name in run.measured and name in run.by_chance]
            if some:
                lines.append(_line(setting, n, name, truth, some))
    return lines


def _line(setting: str, n: int, name: str, truth: float, runs: Sequence[Found]) -> Line:
    estimates = [run.measured[name].estimate for run in runs]
    ends = np.array([(one.low, one.high) for one in estimates], float)  # NaN if there is no interval
    floors = [run.measured[name].floor for run in runs]
    has_floor = floors[0] is not None
    covered = (ends[:, 0] <= truth + 1e-4) & (truth <= ends[:, 1])  # up to rounding
    return Line(
        setting,
        n,
        name,
        len(runs),
        truth,
        float(np.mean([one.value for one in estimates])),
        float(covered.mean()),
        float(np.mean(ends[:, 1] - ends[:, 0])),
        float(np.mean([one.value for one in floors if one is not None])) if has_floor else np.nan,
        float(np.mean([run.by_chance[name] for run in runs])) if has_floor else np.nan,
    )


def as_table(lines: Sequence[Line]) -> str:
    """Return a table per number of rows: the coverage and the noise floor of each metric."""
    return "\n\n".join(
        _table([line for line in lines if line.n == n]) for n in sorted({line.n for line in lines})
    )


def _table(lines: Sequence[Line]) -> str:
    settings = list(dict.fromkeys(line.setting for line in lines))
    names = list(dict.fromkeys(line.metric for line in lines))
    found = {(line.metric, line.setting): line for line in lines}
    samples = max(line.repetitions for line in lines)
    letters = [chr(ord("A") + place) for place in range(len(settings))]
    text = [f"{lines[0].n:,} rows, {samples} samples each"]
    text += [f"{letter}: {name}" for letter, name in zip(letters, settings, strict=True)]

    def block(title: str, cell: Callable[[Line], str], some: Sequence[str], width: int) -> None:
        text.extend(["", f"{title:42}" + "".join(f"{letter:>{width}}" for letter in letters)])
        for name in some:
            cells = [found.get((name, setting)) for setting in settings]
            shown = [f"{'' if one is None else cell(one):>{width}}" for one in cells]
            text.append(f"{name:42}{''.join(shown)}".rstrip())

    block("95% intervals: coverage", lambda one: f"{one.covered:.2f}", names, 6)
    floored = [name for name in names if any(x.metric == name and x.floor == x.floor for x in lines)]
    block(
        "noise floor / mean if calibrated",
        lambda one: f"{one.floor:.4f}/{one.by_chance:.4f}",
        floored,
        15,
    )
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="Coverage of the metrics' intervals, noise floors.")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/metrics.csv"))
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
        for n in (SIZES[1:2] if options.quick else SIZES)
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "metrics", len(todo), console=console, disable=not console.is_terminal)
    lines = summarise(bar)
    write_text(options.output, as_csv(lines))
    print(as_table(lines))


if __name__ == "__main__":
    main()
