"""Whether intervals cover the truth, tests keep their level and lower bounds stay below the truth.

    python experiments/coverage.py --repetitions 200 --jobs 2

Every repetition draws a sample from a problem with known losses, audits it and compares the results with
the truth. Each interval is compared with the quantity that it is an interval for:

- score and calibration loss: the true values;
- partition bound: the loss explained by the regions of this repetition minus the loss induced by its
  bins, ``E[(E[Q|region] - E[Q|bin])^2] - E[Var(C|bin)]``, averaged over the two halves and over
  ``REFERENCE_ROWS`` further rows with known true probabilities;
- cross-fitted bound: ``E[g (Q-C)]^2 / E[Var(g|S)]`` for the predictions ``g`` of this repetition,
  pooled over folds and averaged over the same further rows ("cover"); and, on the rows of the sample,
  ``mean(a (q-c))^2 / mean(a^2)`` for their own directions ``a`` ("on rows");
- twin estimate: its own mean, which is at most the true grouping loss, taken over the other repetitions.

A lower bound is valid if its lower limit exceeds the true grouping loss in at most 5% of the samples.
The limit of the twin estimate is one-sided, 1.645 standard errors below it. The interval of the
cross-fitted bound starts at 0 unless the test rejects. For settings with more than ``MOST_COLUMNS``
columns, the targets of the bounds are not computed, because that would take too long.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.ensemble  # noqa: F401  # loaded first, so that the limit on threads applies to it
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
import realistic
from coverage_recorders import (
    RecordingLearner,
    RecordingPartitioner,
    crossfit_target,
    partition_target,
)
from coverage_settings import SETTINGS
from coverage_tables import as_table
from coverage_targets import GROUPING_LOSSES, NAN, TWIN, Line, Verdict, judge
from epiloss._random import stream
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.bound import cross_fitted_directions, crossfit_bound
from epiloss.input.features import Features
from epiloss.scoring import Brier
from epiloss.simulate import Sample
from repetitions import as_csv, read_csv, repeated

SIZES = (1_000, 10_000)
QUANTITIES = (*GROUPING_LOSSES, "calibration_loss", "score")
REFERENCE_ROWS = 50_000
MOST_COLUMNS = 100  # of settings for which the targets of the bounds are computed
ONE_SIDED = 1.645  # standard errors of a one-sided limit at 95%
PEER_REPETITIONS = 20
BOUND_REPETITIONS = {1_000: 60, 10_000: 30}  # the targets of the bounds take long
LEVEL = 0.95


@dataclass(frozen=True)
class Cell:
    """One setting and one number of rows."""

    setting: str
    n: int

    @property
    def bins(self) -> int:
        """The number of level sets of the partition, fewer for small samples."""
        return 5 if self.n < 3_000 else 15


@dataclass(frozen=True)
class Task:
    """One repetition in one cell; its random stream does not depend on the other tasks."""

    cell: Cell
    repetition: int
    seed: int
    with_peer: bool
    rule: str = "brier"
    with_bounds: bool = True


@dataclass(frozen=True)
class Outcome:
    """An estimate and the quantity that its interval is for, also on the rows of the sample."""

    estimate: Estimate
    target: float
    target_on_rows: float = NAN

    def covers(self, target: float) -> bool:
        """Return whether the interval contains ``target``; False if there is no interval."""
        low, high = self.estimate.low, self.estimate.high
        return low is not None and high is not None and low <= target <= high


@dataclass(frozen=True)
class Repetition:
    """All outcomes on one sample; ``peer`` is glest's grouping loss on our scale, or NaN."""

    cell: Cell
    outcomes: Mapping[str, Outcome]
    peer: float
    rule: str = "brier"


def binary(sample: Sample) -> Sample:
    """Return a sample of several classes as the binary problem of its top label."""
    if sample.scores.ndim == 1:
        return sample
    rows, top = np.arange(len(sample.y)), sample.scores.argmax(axis=1)
    hit = (sample.y == top).astype(np.int64)
    return Sample(sample.X, hit, sample.scores[rows, top], sample.q[rows, top], sample.c[rows, top])


@lru_cache
def true_losses(setting: str, rule: str = "brier") -> Mapping[str, float]:
    """Return the true value of each quantity; the grouping loss for its bounds."""
    truth = SETTINGS[setting].truth(rule)
    bounds = dict.fromkeys(GROUPING_LOSSES, truth.grouping_loss)
    return {**bounds, "calibration_loss": truth.calibration_loss, "score": truth.score}


@lru_cache
def n_columns(setting: str) -> int:
    """Return the number of columns of a setting."""
    return int(SETTINGS[setting].sample(1).X.shape[1])


@lru_cache(maxsize=len(SETTINGS))
def reference_sample(setting: str, seed: int) -> Sample | None:
    """Return further rows of a setting, sorted by score; None if it has too many columns."""
    if n_columns(setting) > MOST_COLUMNS:
        return None
    generator = np.random.default_rng(_seed_sequence(seed, setting))
    sample = binary(SETTINGS[setting].sample(REFERENCE_ROWS, random_state=generator))
    order = np.argsort(sample.scores)
    return Sample(*(getattr(sample, one.name)[order] for one in fields(Sample)))


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]  # one core for each job
def run_task(task: Task) -> Repetition:
    """Draw one sample, audit it and pair every estimate with its target.

    The bounds are those of ``epiloss.audit(..., method="crossfit")``, bit for bit.
    """
    cell = task.cell
    sequence = _seed_sequence(task.seed, cell.setting, cell.n, task.repetition)
    generator = np.random.default_rng(sequence)
    sample = SETTINGS[cell.setting].sample(cell.n, random_state=generator)
    random_state = int(generator.integers(2**31))
    if task.rule != "brier":
        return _without_features(task, binary(sample), random_state)
    partitioner = RecordingPartitioner()
    audit = epiloss.audit(
        sample.y,
        sample.scores,
        sample.X,
        method="partition",
        partition=partitioner,
        n_bins=cell.bins,
        confidence_level=LEVEL,
        random_state=random_state,
    )
    assert audit.partition_bound is not None  # there are features
    rows, truth = binary(sample), true_losses(cell.setting)
    outcomes = {
        TWIN: Outcome(_twin(sample, random_state), NAN),
        "calibration_loss": Outcome(audit.calibration_loss, truth["calibration_loss"]),
        "score": Outcome(audit.score, truth["score"]),
    }
    if task.with_bounds:
        reference = reference_sample(cell.setting, task.seed)
        regions = partition_target(partitioner.partitions, cell.bins, reference)
        outcomes["partition"] = Outcome(audit.partition_bound, regions)
        outcomes["crossfit"] = _crossfit_outcome(rows, reference, random_state)
    return Repetition(cell, outcomes, peer_bound(rows) if task.with_peer else NAN)


def _without_features(task: Task, rows: Sample, random_state: int) -> Repetition:
    """Return the outcomes that need no features, with another scoring rule."""
    truth = true_losses(task.cell.setting, task.rule)
    options: dict[str, Any] = {"rule": task.rule, "n_bins": task.cell.bins, "confidence_level": LEVEL}
    audit = epiloss.audit(rows.y, rows.scores, random_state=random_state, **options)
    names = ("calibration_loss", "score")
    outcomes = {name: Outcome(getattr(audit, name), truth[name]) for name in names}
    return Repetition(task.cell, outcomes, NAN, task.rule)


def _crossfit_outcome(rows: Sample, reference: Sample | None, random_state: int) -> Outcome:
    learner = RecordingLearner()
    directions = cross_fitted_directions(
        Features.read(rows.X),
        rows.scores,
        rows.y.astype(float),
        rule=Brier(),
        learner=learner,
        generator=stream(random_state, "crossfit"),
    )
    a = directions.prediction
    v = np.mean(a**2)
    on_rows = float(np.mean(a * (rows.q - rows.c)) ** 2 / v) if v > 0 else 0.0
    estimate = crossfit_bound(directions, LEVEL, sharing=learner.sharing).estimate
    return Outcome(estimate, crossfit_target(learner.models, reference), on_rows)


def _twin(sample: Sample, random_state: int) -> Estimate:
    options: dict[str, Any] = {"method": TWIN, "confidence_level": LEVEL, "random_state": random_state}
    return epiloss.audit(sample.y, sample.scores, sample.X, **options).grouping_loss


def has_peer() -> bool:
    """Return whether glest is installed."""
    return importlib.util.find_spec("glest") is not None


def peer_bound(rows: Sample) -> float:
    """Return glest's grouping loss at its defaults, halved to our scale; NaN if it fails."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # glest imports pyplot
    import glest

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            metrics = glest.GLEstimator(rows.scores, random_state=0).fit(rows.X, rows.y).metrics()
        except ValueError:  # a bin with one row
            return NAN
    return float(metrics["GL"]) / 2


def _seed_sequence(seed: int, setting: str, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(list(SETTINGS).index(setting), *key))


def tasks(
    cells: Iterable[Cell], repetitions: int, *, seed: int, peer_repetitions: int, rule: str = "brier"
) -> list[Task]:
    """Return the repetitions of every cell; the first few also run the peer."""
    return [
        Task(
            cell,
            repetition,
            seed,
            repetition < peer_repetitions,
            rule,
            repetition < BOUND_REPETITIONS.get(cell.n, repetitions),
        )
        for cell in cells
        for repetition in range(repetitions)
    ]


def summarise(repetitions: Iterable[Repetition]) -> list[Line]:
    """Return one line for each quantity in each cell."""
    by_cell: dict[Cell, list[Repetition]] = {}
    for one in repetitions:
        by_cell.setdefault(one.cell, []).append(one)
    return [
        _line(cell, name, [one for one in found if name in one.outcomes])
        for cell, found in by_cell.items()
        for name in QUANTITIES
        if name in found[0].outcomes
    ]


def _line(cell: Cell, quantity: str, found: Sequence[Repetition]) -> Line:
    truth = true_losses(cell.setting, found[0].rule)[quantity]
    outcomes = [one.outcomes[quantity] for one in found]
    values = np.array([one.estimate.value for one in outcomes])
    line = Line(
        setting=cell.setting,
        n=cell.n,
        quantity=quantity,
        repetitions=len(found),
        truth=truth,
        mean=float(values.mean()),
        sd=float(values.std(ddof=1)),
        bias=float(values.mean() - truth),
        rmse=_rmse(values, truth),
        tightness=NAN,
        coverage=_coverage(outcomes, _mean_of_others(values) if quantity == TWIN else None),
        coverage_on_rows=NAN,
        validity=NAN,
        rejected=NAN,
        peer_repetitions=0,
        peer_rmse_ratio=NAN,
    )
    if quantity not in GROUPING_LOSSES:
        return line
    pvalues = [1.0 if one.estimate.pvalue is None else one.estimate.pvalue for one in outcomes]
    lows = [_lower_limit(one.estimate, one_sided=quantity == TWIN) for one in outcomes]
    peer = np.array([one.peer for one in found])
    answered = np.isfinite(peer)
    return replace(
        line,
        tightness=line.mean / truth if truth > 0 else NAN,
        coverage_on_rows=float(np.mean([one.covers(one.target_on_rows) for one in outcomes]))
        if quantity == "crossfit"
        else NAN,
        validity=float(np.mean([low is None or low <= truth for low in lows])),
        rejected=float(np.mean(np.array(pvalues) <= 0.05)),
        peer_repetitions=int(answered.sum()),
        peer_rmse_ratio=_rmse(peer[answered], truth) / _rmse(values[answered], truth)
        if answered.any()
        else NAN,
    )


def _coverage(outcomes: Sequence[Outcome], targets: Floats | None = None) -> float:
    """Return how often intervals cover their targets, or ``targets``; NaN if these are unknown."""
    chosen = np.array([one.target for one in outcomes]) if targets is None else targets
    if np.isnan(chosen).any():
        return NAN
    return float(np.mean([one.covers(target) for one, target in zip(outcomes, chosen, strict=True)]))


def _mean_of_others(values: Floats) -> Floats:
    """Return the mean over the other repetitions, for each repetition."""
    return np.asarray((values.sum() - values) / (len(values) - 1), float)


def _lower_limit(estimate: Estimate, *, one_sided: bool) -> float | None:
    if not one_sided:
        return estimate.low
    return None if estimate.stderr is None else estimate.value - ONE_SIDED * estimate.stderr


def _rmse(values: Floats, truth: float) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the tables and save the CSV."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--realistic" in given:  # realistic scores, with the options of that script
        realistic.main([one for one in given if one != "--realistic"])
        return
    parser = argparse.ArgumentParser(
        description="Coverage, level, validity and tightness.",
        epilog="--realistic: run realistic.py instead, with its options.",
    )
    parser.add_argument("--repetitions", type=int, help="default 200")
    parser.add_argument("--output", type=Path, default=Path("experiments/output/coverage.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes; the result is the same")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME"
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, choices=SIZES, default=SIZES, metavar="ROWS", help="default both"
    )
    parser.add_argument("--rule", choices=("brier", "log"), default="brier", help="log: without bounds")
    parser.add_argument("--quick", action="store_true", help="4 repetitions of 1,000 rows")
    parser.add_argument("--resume", action="store_true", help="keep the cells in the output file")
    options = parser.parse_args(given)
    repetitions = options.repetitions
    if repetitions is None:
        repetitions = 4 if options.quick else 200
    if repetitions < 2 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 2 repetitions and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    peer = has_peer() if options.rule == "brier" else None
    sizes = SIZES[:1] if options.quick else options.sizes
    cells = [Cell(name, n) for n in sizes for name in options.settings]
    peer_repetitions = PEER_REPETITIONS if peer else 0
    lines = read_csv(options.output, Line) if options.resume else []
    todo = [cell for cell in cells if (cell.setting, cell.n) not in {line.cell for line in lines}]
    console = Console(stderr=True)
    for cell in track(todo, "cells", console=console, disable=not console.is_terminal):
        runs = tasks(
            [cell], repetitions, seed=options.seed, peer_repetitions=peer_repetitions, rule=options.rule
        )
        lines += summarise(repeated(run_task, runs, jobs=options.jobs))
        write_text(options.output, as_csv(lines))  # so that --resume can continue from here
    places = {(cell.setting, cell.n): place for place, cell in enumerate(cells)}
    lines = sorted((line for line in lines if line.cell in places), key=lambda one: places[one.cell])
    print(as_table(lines, peer))
    if options.rule == "brier":
        print("\n".join(["", "Targets of the twin estimate.", *map(str, verdicts(lines))]))


def verdicts(lines: Sequence[Line]) -> list[Verdict]:
    """Return whether the twin estimate meets its targets in these cells."""
    return judge(lines, {line.setting: n_columns(line.setting) for line in lines})


if __name__ == "__main__":
    main()
