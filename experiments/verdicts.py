"""How often the verdict is wrong, where the truth is known.

    python experiments/verdicts.py --repetitions 100 --jobs 2

Every repetition draws a sample, audits it with the defaults and reads the verdict. A loss matters from
1% of the score of the base rate on, so that what a verdict claims is true or not:

- "fine": neither the calibration loss nor the grouping loss matters;
- "recalibrate": the calibration loss matters;
- "repair": the grouping loss matters.

"unclear" claims nothing. Losses in the settings are told in multiples of what matters.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss.auditing.verdict import FINE, RECALIBRATE, REPAIR, UNCLEAR
from epiloss.estimation.options import DEFAULTS
from epiloss.simulate import Sample, Sigmoid
from repetitions import as_csv, repeated

KINDS = (FINE, RECALIBRATE, REPAIR, UNCLEAR)
SETTINGS: Mapping[str, Sigmoid] = {
    "nothing": Sigmoid(grouping=0.0),
    "nothing, 20 noise columns": Sigmoid(grouping=0.0, n_noise=20),
    "grouping 0.25": Sigmoid(perturbation="step", grouping=0.136),
    "grouping 0.7": Sigmoid(perturbation="step", grouping=0.2275),
    "grouping 1.4": Sigmoid(perturbation="step", grouping=0.322),
    "grouping 3": Sigmoid(perturbation="step", grouping=0.471),
    "grouping 3, 20 noise columns": Sigmoid(perturbation="step", grouping=0.471, n_noise=20),
    "grouping 3, crossed": Sigmoid(perturbation="step", grouping=0.471),
    "grouping 2.3, smooth": Sigmoid(),
    "calibration 0.4": Sigmoid(grouping=0.0, miscalibration=1.3),
    "calibration 2.4": Sigmoid(grouping=0.0, miscalibration=2.0),
    "both, 3 and 2.4": Sigmoid(perturbation="step", grouping=0.471, miscalibration=2.0),
}
CROSSED = "grouping 3, crossed"  # in no single column, but in the product of two
SIZES = (300, 1_000, 4_000, 10_000)


@dataclass(frozen=True)
class Task:
    """One sample of a setting, with a seed of its own whatever else is run."""

    setting: str
    n: int
    repetition: int
    seed: int


@dataclass(frozen=True)
class Line:
    """How often each verdict was given on so many rows of a setting, and how often it was not true."""

    setting: str
    n: int
    repetitions: int
    fine: float
    recalibrate: float
    repair: float
    unclear: float
    wrong: float


def true_claims(setting: str) -> Mapping[str, bool]:
    """Tell of each verdict whether what it claims is true."""
    truth = SETTINGS[setting].truth()
    matters = DEFAULTS["tolerance"] / 4  # of p (1 - p) for as many positives as negatives
    calibration, grouping = truth.calibration_loss >= matters, truth.grouping_loss >= matters
    claims = {FINE: not calibration and not grouping, RECALIBRATE: calibration, REPAIR: grouping}
    return claims | {UNCLEAR: True}


def crossed(sample: Sample, generator: np.random.Generator) -> Sample:
    """Return the sample with the sign that matters, of x1 - x2, as that of a product of two columns."""
    sign = np.sign(sample.X[:, 0] - sample.X[:, 1])
    a, b = generator.standard_normal((2, len(sign)))
    X = np.column_stack([sample.X[:, 0] + sample.X[:, 1], a, np.abs(b) * sign * np.sign(a)])
    return replace(sample, X=X)


def run_task(task: Task) -> tuple[Task, str]:
    """Draw one sample, audit it and return the verdict."""
    key = (list(SETTINGS).index(task.setting), task.n, task.repetition)
    generator = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=key))
    sample = SETTINGS[task.setting].sample(task.n, random_state=generator)
    if task.setting == CROSSED:
        sample = crossed(sample, generator)
    random_state = int(generator.integers(2**31))
    with threadpool_limits(1):  # one core for each job
        audit = epiloss.audit(sample.y, sample.scores, sample.X, random_state=random_state)
    return task, audit.verdict.kind


def summarise(found: Iterable[tuple[Task, str]]) -> list[Line]:
    """Return a line for each setting and number of rows."""
    kinds: dict[tuple[str, int], list[str]] = {}
    for task, kind in found:
        kinds.setdefault((task.setting, task.n), []).append(kind)
    lines = []
    for (setting, n), given in kinds.items():
        shares = {kind: given.count(kind) / len(given) for kind in KINDS}
        claims = true_claims(setting)
        wrong = sum(share for kind, share in shares.items() if not claims[kind])
        lines.append(Line(setting, n, len(given), **shares, wrong=wrong))
    return lines


def as_table(lines: Sequence[Line]) -> str:
    """Return the table that is printed."""
    width = max(len(line.setting) for line in lines)
    text = [
        f"{lines[0].repetitions} samples each: how often each verdict was given, and was wrong.",
        "Losses in multiples of what matters, 1% of the score of the base rate.",
        f"{'true loss':{width}} {'rows':>6}" + "".join(f" {name:>11}" for name in (*KINDS, "wrong")),
    ]
    for line in lines:
        shares = (line.fine, line.recalibrate, line.repair, line.unclear, line.wrong)
        text.append(f"{line.setting:{width}} {line.n:>6}" + "".join(f" {one:11.2f}" for one in shares))
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="How often the verdict is wrong.")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/verdicts.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes; the result is the same")
    parser.add_argument("--quick", action="store_true", help="300 rows only")
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # told before the work, not after
    todo = [
        Task(setting, n, repetition, options.seed)
        for setting in SETTINGS
        for n in (SIZES[:1] if options.quick else SIZES)
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "verdicts", len(todo), console=console, disable=not console.is_terminal)
    lines = summarise(bar)
    write_text(options.output, as_csv(lines))
    print(as_table(lines))


if __name__ == "__main__":
    main()
