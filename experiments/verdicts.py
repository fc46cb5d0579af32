"""How often the verdict is wrong, where the truth is known.

    python experiments/verdicts.py --repetitions 100 --jobs 2

Every repetition draws a sample, audits it with the defaults and records the verdict. Losses matter above
a threshold of 1% of the score of the base rate, so the claim of each verdict is either true or false:

- "fine" and "small" claim that the sum of calibration and grouping loss is below the threshold;
- "recalibrate" claims that the sum is above, and the calibration loss at least half of the threshold;
- "repair" claims the same of the grouping loss, and "both" of either loss.

"borderline" and "unclear" claim nothing. The settings give losses in multiples of the threshold. With
``--seeds`` each sample is audited ten times, with other seeds and its rows in another order, and the
table shows how often the verdicts agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss.auditing.judgement import (
    BORDERLINE,
    BOTH,
    FINE,
    RECALIBRATE,
    REPAIR,
    SMALL,
    UNCLEAR,
    kind_of,
)
from epiloss.estimation.options import DEFAULTS
from epiloss.simulate import Sample, Sigmoid
from repetitions import as_csv, repeated

KINDS = (FINE, SMALL, RECALIBRATE, REPAIR, BOTH, BORDERLINE, UNCLEAR)
N_SEEDS, _STABLE = 10, 0.9
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
    "both, 3 and 0.4": Sigmoid(perturbation="step", grouping=0.471, miscalibration=1.3),
}
CROSSED = "grouping 3, crossed"  # no single column reveals it, but the product of two does
SIZES = (300, 1_000, 4_000, 10_000)


@dataclass(frozen=True)
class Task:
    """One sample of a setting; its random stream does not depend on the other tasks."""

    setting: str
    n: int
    repetition: int
    seed: int
    n_seeds: int = 1


@dataclass(frozen=True)
class Line:
    """How often each verdict was given for one setting and number of rows, and how often it was wrong.

    ``wrong_fine`` counts "fine" and "small", ``wrong_action`` the verdicts that ask for an action.
    ``same`` is the mean share of the audits of a sample that agree with its most frequent verdict, and
    ``stable`` the share of samples in which at least nine of ten do.
    """

    setting: str
    n: int
    repetitions: int
    fine: float
    small: float
    recalibrate: float
    repair: float
    both: float
    borderline: float
    unclear: float
    wrong_fine: float
    wrong_action: float
    same: float
    stable: float


def true_claims(setting: str) -> Mapping[str, bool]:
    """Return for each verdict whether its claim is true."""
    truth = SETTINGS[setting].truth()
    threshold = DEFAULTS["tolerance"] / 4  # the Brier score of the base rate is 1/4 for balanced classes
    calibration, grouping = truth.calibration_loss, truth.grouping_loss
    large = calibration + grouping >= threshold
    recalibrate, repair = large and calibration >= threshold / 2, large and grouping >= threshold / 2
    claims = {FINE: not large, SMALL: not large, RECALIBRATE: recalibrate, REPAIR: repair}
    return claims | {BOTH: recalibrate and repair, BORDERLINE: True, UNCLEAR: True}


def crossed(sample: Sample, generator: np.random.Generator) -> Sample:
    """Replace the columns so that the sign of x1 - x2 is the sign of the product of two columns."""
    sign = np.sign(sample.X[:, 0] - sample.X[:, 1])
    a, b = generator.standard_normal((2, len(sign)))
    X = np.column_stack([sample.X[:, 0] + sample.X[:, 1], a, np.abs(b) * sign * np.sign(a)])
    return replace(sample, X=X)


def run_task(task: Task) -> tuple[Task, list[str]]:
    """Draw one sample, audit it with each seed and order of the rows, and return the verdicts."""
    key = (list(SETTINGS).index(task.setting), task.n, task.repetition)
    generator = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=key))
    sample = SETTINGS[task.setting].sample(task.n, random_state=generator)
    if task.setting == CROSSED:
        sample = crossed(sample, generator)
    kinds: list[str] = []
    with threadpool_limits(1):  # one core for each job
        for random_state in generator.integers(2**31, size=task.n_seeds).tolist():
            rows = np.arange(task.n)
            if kinds:  # the first audit has the rows as drawn
                np.random.default_rng(random_state).shuffle(rows)
            y, scores, X = sample.y[rows], sample.scores[rows], sample.X[rows]
            kinds.append(kind_of(epiloss.audit(y, scores, X, random_state=random_state)))
    return task, kinds


def summarise(found: Iterable[tuple[Task, list[str]]]) -> list[Line]:
    """Return a line for each setting and number of rows."""
    kinds: dict[tuple[str, int], list[list[str]]] = {}
    for task, given in found:
        kinds.setdefault((task.setting, task.n), []).append(given)
    return [_line(setting, n, samples) for (setting, n), samples in kinds.items()]


def _line(setting: str, n: int, samples: Sequence[Sequence[str]]) -> Line:
    given = [kind for sample in samples for kind in sample]
    shares = {kind: given.count(kind) / len(given) for kind in KINDS}
    claims = true_claims(setting)
    wrong = {kind: 0.0 if claims[kind] else share for kind, share in shares.items()}
    agree = np.array([max(map(sample.count, sample)) / len(sample) for sample in samples])
    return Line(
        setting,
        n,
        len(samples),
        fine=shares[FINE],
        small=shares[SMALL],
        recalibrate=shares[RECALIBRATE],
        repair=shares[REPAIR],
        both=shares[BOTH],
        borderline=shares[BORDERLINE],
        unclear=shares[UNCLEAR],
        wrong_fine=wrong[FINE] + wrong[SMALL],
        wrong_action=wrong[RECALIBRATE] + wrong[REPAIR] + wrong[BOTH],
        same=float(agree.mean()),
        stable=float(np.mean(agree >= _STABLE)),
    )


def as_table(lines: Sequence[Line], *, seeds: bool = False) -> str:
    """Return the table that is printed."""
    width = max(len(line.setting) for line in lines)
    names = ["fine", "small", "recal.", "repair", "both", "border", "unclear", "wrong fine", "wrong act"]
    names += ["same", "stable"] if seeds else []
    text = [
        f"{lines[0].repetitions} samples each: how often each verdict was given, and was wrong.",
        "Losses in multiples of the threshold, 1% of the score of the base rate.",
        f"{'true loss':{width}} {'rows':>6}" + "".join(f" {name:>10}" for name in names),
    ]
    for line in lines:
        shares = astuple(line)[3 : 3 + len(names)]
        text.append(f"{line.setting:{width}} {line.n:>6}" + "".join(f" {one:10.2f}" for one in shares))
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="How often the verdict is wrong.")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/verdicts.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes; the result is the same")
    parser.add_argument("--seeds", action="store_true", help=f"audit each sample {N_SEEDS} times")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="ROWS")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME"
    )
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    todo = [
        Task(setting, n, repetition, options.seed, N_SEEDS if options.seeds else 1)
        for setting in options.settings
        for n in options.sizes
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "verdicts", len(todo), console=console, disable=not console.is_terminal)
    lines = summarise(bar)
    write_text(options.output, as_csv(lines))
    print(as_table(lines, seeds=options.seeds))


if __name__ == "__main__":
    main()
