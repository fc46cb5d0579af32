"""The paper's simulation figure as numbers: the lower bound against region_ratio and n_bins.

    python experiments/simulation.py --trials 50 --jobs 2

A calibrated logistic classifier ignores an informative direction, and its true grouping loss is known
(58.6e-4). Each trial draws one sample and audits it in every setting: as in the paper, where one half of
the rows learns the regions and the other evaluates them, and as by default, where the halves then swap
roles. The reference is a separate implementation of the paper's estimator, run over 40 trials with exact
trees.
"""

from __future__ import annotations

import argparse
import csv
import io
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss.partition import Tree
from epiloss.simulate import Sigmoid

PROBLEM = Sigmoid()
QUANTITIES = ("true", "plugin", "bias", "explained", "induced", "lower_bound")
UNIT = 1e-4  # of the printed table and the reference; the CSV is in plain units
REFERENCE_ROWS = 10_000


@dataclass(frozen=True)
class Setting:
    """One way to audit a sample."""

    n_bins: int
    region_ratio: float
    swap: bool


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over the trials of one quantity in one setting."""

    mean: float
    sd: float
    trials: int

    @property
    def stderr(self) -> float:
        """The standard error of the mean."""
        return float(self.sd / np.sqrt(self.trials))


@dataclass(frozen=True)
class Reference:
    """The result of the reference in one setting without a swap, in units of 1e-4."""

    plugin: float
    lower_bound: float
    bias: float | None = None
    lower_bound_sd: float | None = None


SWEEPS: Mapping[str, tuple[int, ...]] = {
    "region_ratio": (2, 5, 12, 30, 100),  # at 15 bins
    "n_bins": (1, 2, 5, 10, 15, 30),  # at a ratio of 30
}
REFERENCES = {
    ("region_ratio", 5): Reference(148, 54.4, 86, 11),
    ("region_ratio", 12): Reference(99, 55.1, 41, 9.5),
    ("region_ratio", 30): Reference(62.5, 46.3, 12.9, 10),
    ("region_ratio", 100): Reference(6.0, 1.4, 1.2, 2.4),
    ("n_bins", 1): Reference(1724, 7),
    ("n_bins", 2): Reference(266, 48),
    ("n_bins", 5): Reference(97, 50),
    ("n_bins", 10): Reference(73.5, 51),
    ("n_bins", 15): Reference(62.5, 46),
    ("n_bins", 30): Reference(43.8, 33),
}

Trial = Mapping[Setting, Mapping[str, float]]
Summaries = Mapping[Setting, Mapping[str, Summary]]


def setting(sweep: str, value: int, swap: bool) -> Setting:
    """Return the setting at one point of a sweep."""
    return Setting(value, 30, swap) if sweep == "n_bins" else Setting(15, value, swap)


def all_settings() -> list[Setting]:
    """Return every setting once; the two sweeps cross in one point."""
    points = ((sweep, value) for sweep, values in SWEEPS.items() for value in values)
    return list(dict.fromkeys(setting(*point, swap) for point in points for swap in (False, True)))


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]  # one core for each job
def run_trial(seed: np.random.SeedSequence, n: int) -> Trial:
    """Draw one sample of ``n`` rows and audit it in every setting."""
    generator = np.random.default_rng(seed)
    sample = PROBLEM.sample(n, random_state=generator)
    true = float(np.mean((sample.q - sample.c) ** 2))
    random_state = int(generator.integers(2**31))
    measured = {}
    for one in all_settings():
        audit = epiloss.audit(
            sample.y,
            sample.scores,
            sample.X,
            task="binary",
            method="partition" if one.swap else "paper",
            n_bins=one.n_bins,
            partition=Tree(one.region_ratio),
            random_state=random_state,
        )
        bound = audit.grouping_loss.value
        values = (true, audit.plugin, audit.bias, audit.explained, audit.induced, bound)
        measured[one] = dict(zip(QUANTITIES, values, strict=True))
    return measured


def run_trials(trials: int, n: int, *, seed: int = 0, jobs: int = 1) -> Iterator[Trial]:
    """Yield the trials in order, each with its own seed; ``jobs`` does not change the results."""
    seeds = np.random.SeedSequence(seed).spawn(trials)
    if jobs == 1:
        yield from (run_trial(one, n) for one in seeds)
        return
    # spawn, not fork: the progress bar of the parent is a thread
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(run_trial, n=n), seeds)


def summarise(trials: Iterable[Trial]) -> Summaries:
    """Return mean and standard deviation of every quantity in every setting."""
    results = list(trials)

    def summary(one: Setting, quantity: str) -> Summary:
        values = [trial[one][quantity] for trial in results]
        return Summary(float(np.mean(values)), float(np.std(values, ddof=1)), len(values))

    return {one: {name: summary(one, name) for name in QUANTITIES} for one in results[0]}


def as_csv(summaries: Summaries, n: int) -> str:
    """Return one line for each point of each sweep, without and with the swap."""
    stream = io.StringIO()
    columns = [f"{name}_{part}" for name in QUANTITIES for part in ("mean", "sd")]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["sweep", "value", "swap", "n", "trials", *columns])
    for sweep, values in SWEEPS.items():
        for value in values:
            for swap in (False, True):
                line = summaries[setting(sweep, value, swap)]
                numbers = [part for name in QUANTITIES for part in (line[name].mean, line[name].sd)]
                writer.writerow([sweep, value, swap, n, line["true"].trials, *map(repr, numbers)])
    return stream.getvalue()


def as_table(summaries: Summaries, n: int) -> str:
    """Return the table that is printed, in units of 1e-4, mean ± standard deviation."""
    trials = next(iter(summaries.values()))["true"].trials
    exact = PROBLEM.truth().grouping_loss / UNIT
    lines = [f"{trials} trials of {n:,} rows, x 1e-4, mean ± sd; exact grouping loss {exact:.1f}"]
    for sweep, values in SWEEPS.items():
        lines += ["", f"{sweep:>12}  {'':12}" + "".join(f"{name:>15}" for name in QUANTITIES)]
        for value in values:
            for swap, title in ((False, "the paper's"), (True, "swapped")):
                line = summaries[setting(sweep, value, swap)]
                cells = [_cell(line[name].mean / UNIT, line[name].sd / UNIT) for name in QUANTITIES]
                lines.append(f"{'' if swap else value:>12}  {title:12}" + "".join(cells))
            reference = REFERENCES.get((sweep, value))
            if reference is not None and n == REFERENCE_ROWS:
                lines.append(f"{'':12}  {'reference':12}" + "".join(_reference_cells(reference)))
    return "\n".join(lines)


def _reference_cells(reference: Reference) -> Sequence[str]:
    bound = _cell(reference.lower_bound, reference.lower_bound_sd)
    return ["".rjust(15), _cell(reference.plugin), _cell(reference.bias), " " * 30, bound]


def _cell(mean: float | None, sd: float | None = None) -> str:
    if mean is None:
        return " " * 15
    return f"{mean:8.1f}" + (" " * 7 if sd is None else f" ± {sd:<4.3g}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the trials, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="The lower bound against region_ratio and n_bins.")
    parser.add_argument("--trials", type=int, help="default 50")
    parser.add_argument("--n", type=int, help="rows of each trial, default 10,000")
    parser.add_argument("--output", type=Path, default=Path("experiments/output/simulation.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes; the result is the same")
    parser.add_argument("--quick", action="store_true", help="6 trials of 2,000 rows")
    options = parser.parse_args(arguments)
    trials = options.trials if options.trials is not None else 6 if options.quick else 50
    n = options.n if options.n is not None else 2_000 if options.quick else 10_000
    if trials < 2 or n < 100 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 2 trials, 100 rows and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    console = Console(stderr=True)
    runs = run_trials(trials, n, seed=options.seed, jobs=options.jobs)
    bar = track(runs, "trials", trials, console=console, disable=not console.is_terminal)
    summaries = summarise(bar)
    write_text(options.output, as_csv(summaries, n))
    print(as_table(summaries, n))


if __name__ == "__main__":
    main()
