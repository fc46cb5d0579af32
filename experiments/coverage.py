"""Whether intervals cover, tests keep their level and lower bounds stay below the truth.

    python experiments/coverage.py --repetitions 200 --jobs 2

In each setting the losses are known, so that every repetition draws a sample, audits it and is
compared with them. An interval is for the quantity that it names:

- of the score and the calibration loss, the true ones;
- of the partition bound, the loss explained by the regions of this very repetition less the one
  induced by its bins, ``E[(E[Q|region] - E[Q|bin])^2] - E[Var(C|bin)]``, averaged over the two halves
  and integrated over ``REFERENCE_ROWS`` further rows whose true probabilities are known;
- of the cross-fitted bound, ``E[g (Q-C)]^2 / E[Var(g|S)]`` for the predictions ``g`` learned in this
  repetition, pooled over folds and integrated over the same further rows ("cover"); and, given the
  rows of the sample, ``mean(a (q-c))^2 / mean(a^2)`` for their own directions ``a`` ("on rows");
- of the twin estimate, its own mean, which is at most the true grouping loss: the mean over the other
  repetitions.

A lower bound is valid if its lower limit exceeds the true grouping loss in at most 5% of samples; of
the twin estimate that is the one-sided limit, 1.645 standard errors below it. The interval of the
cross-fitted bound ends at 0, and leaves it out where the test rejects. In settings of more than
``MOST_COLUMNS`` columns the bounds' own targets are not integrated, which would take too long.
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
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.ensemble  # noqa: F401  # loaded before the limit on threads, so that it is reached
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
import realistic
from coverage_settings import Blind
from coverage_targets import TWIN, Line, Verdict, judge
from epiloss._random import stream
from epiloss._saving import write_text
from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import uniform_level_sets
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.bound import cross_fitted_directions, crossfit_bound
from epiloss.estimation.crossfit.learners import Blend, Fitted
from epiloss.input.features import Features
from epiloss.partition.base import LearningRows, Partition, Partitioner
from epiloss.partition.tree import Tree
from epiloss.scoring import Brier
from epiloss.simulate import MultiClass, Problem, Sample, Sigmoid
from repetitions import as_csv, read_csv, repeated

SETTINGS: Mapping[str, Problem] = {
    "smooth": Sigmoid(),
    "step": Sigmoid(perturbation="step"),
    "noise features": Sigmoid(n_noise=8),
    "overconfident": Sigmoid(miscalibration=2.0),
    "imbalanced": Sigmoid(intercept=-7.0),  # 7% positives
    "three classes": MultiClass(),  # of the top label
    "null": Sigmoid(grouping=0.0),
    "overconfident null": Sigmoid(grouping=0.0, miscalibration=2.0),
    "dense 400": Blind(400, "all"),
    "sparse 768": Blind(768, "one"),
    "interaction": Blind(10, "product"),
    "ten scores": Blind(5, "all", n_values=10),
    "ten scores null": Blind(5, "all", grouping=0.0, n_values=10),
}
SIZES = (1_000, 10_000)
BOUNDS = ("partition", "crossfit")
GROUPING_LOSSES = (*BOUNDS, TWIN)
QUANTITIES = (*GROUPING_LOSSES, "calibration_loss", "score")
REFERENCE_ROWS = 50_000
MOST_COLUMNS = 100
ONE_SIDED = 1.645  # standard errors of a one-sided limit at 95%
PEER_REPETITIONS = 20
BOUND_REPETITIONS = {1_000: 60, 10_000: 30}  # of the bounds with their targets, which take long
LEVEL = 0.95
UNIT = 1e-4  # of the printed table; the CSV is in plain units
NAN = float("nan")


@dataclass(frozen=True)
class Cell:
    """One setting and one number of rows."""

    setting: str
    n: int

    @property
    def bins(self) -> int:
        """The level sets of the partition: few for few rows."""
        return 5 if self.n < 3_000 else 15


@dataclass(frozen=True)
class Task:
    """One repetition in one cell, with a seed of its own whatever else is run."""

    cell: Cell
    repetition: int
    seed: int
    with_peer: bool
    rule: str = "brier"
    with_bounds: bool = True


@dataclass(frozen=True)
class Outcome:
    """An estimate beside the number that its interval is for, also on the sample's own rows."""

    estimate: Estimate
    target: float
    target_on_rows: float = NAN

    def covers(self, target: float) -> bool:
        """Tell whether the interval holds ``target``; one that is not known holds nothing."""
        low, high = self.estimate.low, self.estimate.high
        return low is not None and high is not None and low <= target <= high


@dataclass(frozen=True)
class Repetition:
    """All outcomes on one sample; ``peer`` is glest's grouping loss on our scale, or NaN."""

    cell: Cell
    outcomes: Mapping[str, Outcome]
    peer: float
    rule: str = "brier"


@dataclass
class RecordedPartition(Partition):
    """A partition that remembers which of its small regions were joined to which."""

    inner: Partition
    joined: dict[tuple[int, int], int] = field(default_factory=dict)

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the region of each row as learned."""
        return self.inner.assign(features, level_set)

    def join_small(self, level_set: Codes, region: Codes, n: NDArray[Any]) -> Codes:
        """Join small regions, and remember it."""
        into = self.inner.join_small(level_set, region, n)
        cells = zip(level_set.tolist(), region.tolist(), strict=True)
        self.joined.update(zip(cells, into.tolist(), strict=True))
        return into

    def evaluated_region(self, features: Features, level_set: Codes) -> Codes:
        """Return the region that each row is evaluated in."""
        region = self.inner.assign(features, level_set)
        for (level, old), new in self.joined.items():
            if new != old:
                region[(level_set == level) & (region == old)] = new
        return region


@dataclass
class RecordingPartitioner(Partitioner):
    """Trees, kept for later."""

    inner: Partitioner = field(default_factory=Tree)
    name: str = "tree"
    partitions: list[RecordedPartition] = field(default_factory=list)

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Learn the regions of every level set, and keep them."""
        self.partitions.append(RecordedPartition(self.inner.fit(rows, generator, n_jobs)))
        return self.partitions[-1]


@dataclass
class RecordingLearner:
    """The learner of the cross-fitted bound; its models are kept for later."""

    sharing = Blend.sharing
    models: list[Fitted] = field(default_factory=list)

    def prepare(self, features: Features, seed: int) -> Features:
        """Return the features to learn from."""
        return Blend().prepare(features, seed)

    def fit(
        self, features: Features, scores: Floats, target: Floats, weights: Floats | None, seed: int
    ) -> Fitted:
        """Learn to predict ``target``, and keep the model."""
        self.models.append(Blend().fit(features, scores, target, weights, seed))
        return self.models[-1]


def binary(sample: Sample) -> Sample:
    """Return a sample of several classes as the binary problem of its top label."""
    if sample.scores.ndim == 1:
        return sample
    rows, top = np.arange(len(sample.y)), sample.scores.argmax(axis=1)
    hit = (sample.y == top).astype(np.int64)
    return Sample(sample.X, hit, sample.scores[rows, top], sample.q[rows, top], sample.c[rows, top])


@lru_cache
def true_losses(setting: str, rule: str = "brier") -> Mapping[str, float]:
    """Return what each quantity estimates, or bounds."""
    truth = SETTINGS[setting].truth(rule)
    bounds = dict.fromkeys(GROUPING_LOSSES, truth.grouping_loss)
    return {**bounds, "calibration_loss": truth.calibration_loss, "score": truth.score}


@lru_cache
def n_columns(setting: str) -> int:
    """Return the number of columns of a setting."""
    return int(SETTINGS[setting].sample(1).X.shape[1])


@lru_cache(maxsize=len(SETTINGS))
def reference_sample(setting: str, seed: int) -> Sample | None:
    """Return further rows of a setting, in the order of their scores; None of too many columns."""
    if n_columns(setting) > MOST_COLUMNS:
        return None
    generator = np.random.default_rng(_seed_sequence(seed, setting))
    sample = binary(SETTINGS[setting].sample(REFERENCE_ROWS, random_state=generator))
    order = np.argsort(sample.scores)
    return Sample(*(getattr(sample, one.name)[order] for one in fields(Sample)))


def partition_target(partitions: Sequence[RecordedPartition], bins: int, rows: Sample | None) -> float:
    """Return ``E[(E[Q|region] - E[Q|bin])^2] - E[Var(C|bin)]``, averaged over the partitions."""
    if rows is None:
        return NAN
    level_set = uniform_level_sets(bins).assign(rows.scores)
    features = Features.read(rows.X)
    regions = [one.evaluated_region(features, level_set) for one in partitions]
    within = [_mean_squared_mean(level_set * (region.max() + 1) + region, rows.q) for region in regions]
    explained = float(np.mean(within)) - _mean_squared_mean(level_set, rows.q)
    induced = float(np.mean(rows.c**2)) - _mean_squared_mean(level_set, rows.c)
    return explained - induced


def _mean_squared_mean(group: Codes, values: Floats) -> float:
    """Return ``E[E[values|group]^2]`` without bias: products of different rows only."""
    n, total, squares = (np.bincount(group, w) for w in (np.ones_like(values), values, values**2))
    alone = n < 2  # no two rows to multiply
    parts = np.where(alone, squares, (total**2 - squares) / np.where(alone, 1, n - 1))
    return float(parts.sum() / len(values))


def crossfit_target(models: Sequence[Fitted], rows: Sample | None) -> float:
    """Return ``E[g (Q-C)]^2 / E[Var(g|S)]`` pooled over the models; ``rows`` are in order of score."""
    if rows is None:
        return NAN
    features = Features.read(rows.X)
    guesses = [model.predict(features, rows.scores) for model in models]
    theta = np.mean([np.mean(guess * (rows.q - rows.c)) for guess in guesses])
    # neighbours have nearly the same score: half their squared difference is the variance given it
    v = np.mean([np.mean(np.diff(guess) ** 2) / 2 for guess in guesses])
    return float(theta**2 / v) if v > 0 else 0.0


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]  # one core for each job
def run_task(task: Task) -> Repetition:
    """Draw one sample, audit it and compare every estimate with what it is for.

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
    """Return the outcomes that need no features, by another rule."""
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
    """Tell whether glest is installed."""
    return importlib.util.find_spec("glest") is not None


def peer_bound(rows: Sample) -> float:
    """Return glest's grouping loss at its defaults, halved to our scale; NaN where it refuses."""
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
    """Return the repetitions of every cell, the first few with the peer beside."""
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
    """Return how often an interval holds its own target, or that of ``targets``; NaN if unknown."""
    chosen = np.array([one.target for one in outcomes]) if targets is None else targets
    if np.isnan(chosen).any():
        return NAN
    return float(np.mean([one.covers(target) for one, target in zip(outcomes, chosen, strict=True)]))


def _mean_of_others(values: Floats) -> Floats:
    """Return, for each repetition, the mean over the others."""
    return np.asarray((values.sum() - values) / (len(values) - 1), float)


def _lower_limit(estimate: Estimate, *, one_sided: bool) -> float | None:
    if not one_sided:
        return estimate.low
    return None if estimate.stderr is None else estimate.value - ONE_SIDED * estimate.stderr


def _rmse(values: Floats, truth: float) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)))


def as_table(lines: Sequence[Line], peer: bool | None) -> str:
    """Return the tables that are printed: the bounds, the other losses, and the peer, or none (None)."""
    cells: dict[tuple[str, int], dict[str, Line]] = {}
    for line in lines:
        cells.setdefault((line.setting, line.n), {})[line.quantity] = line
    width, most = max(len(name) for name in SETTINGS), max(line.repetitions for line in lines)
    text = [
        f"{most} repetitions; losses x 1e-4. Standard error of a frequency near 0.95: "
        f"{np.sqrt(0.95 * 0.05 / most):.3f}.",
        *sorted({_fewer(line) for line in lines if line.repetitions < most}),
        "",
    ]
    if any(line.quantity in GROUPING_LOSSES for line in lines):
        text += [*_grouping_table(cells, width), ""]
    header = f"{'true':>8} {'bias ± se':>15} {'cover':>6}    "
    text += ["The calibration loss (left) and the score (right), for the true ones."]
    text.append(f"{'':{width}} {'n':>6}  " + header * 2)
    for (setting, n), found in cells.items():
        both = (found["calibration_loss"], found["score"])
        parts = [f"{one.truth / UNIT:8.1f} {_bias(one)} {_share(one.coverage)}    " for one in both]
        text.append(f"{setting:{width}} {n:>6}  " + "".join(parts))
    if peer is None:
        return "\n".join(text)
    return "\n".join([*text, "", *(_peer_table(cells, width) if peer else _no_peer())])


def _grouping_table(cells: Mapping[tuple[str, int], Mapping[str, Line]], width: int) -> list[str]:
    text = [
        "The grouping loss: two lower bounds and the twin estimate. bias, rmse, tight: against the",
        "true loss; cover: by the 95% interval, of the bound for the repetition's own regions or",
        "directions, or of the twin estimate's own mean; valid: lower limit (twin: one-sided) <= true",
        "loss; reject: by the 5% test, its level in the null settings and its power elsewhere.",
        f"{'':{width}} {'n':>6} {'true':>6}  {'':9} {'bias ± se':>15} {'rmse':>6} {'tight':>6} "
        f"{'cover':>6} {'on rows':>7} {'valid':>6} {'reject':>6}",
    ]
    for (setting, n), found in cells.items():
        for name in GROUPING_LOSSES:
            one = found[name]
            first = f"{setting:{width}} {n:>6} {one.truth / UNIT:6.1f}"
            text.append(
                f"{first if name == BOUNDS[0] else ' ' * len(first)}  {name:9} {_bias(one)} "
                f"{one.rmse / UNIT:6.1f} {_share(one.tightness)} {_share(one.coverage)} "
                f"{_share(one.coverage_on_rows):>7} {_share(one.validity)} {_share(one.rejected)}"
            )
    return text


def _fewer(line: Line) -> str:
    share = np.sqrt(0.95 * 0.05 / line.repetitions)
    return f"{line.quantity} at {line.n:,} rows: {line.repetitions} repetitions, {share:.3f}."


def _no_peer() -> list[str]:
    return ["glest is not installed: pip install glest==0.0.1 to see it beside."]


def _peer_table(cells: Mapping[tuple[str, int], Mapping[str, Line]], width: int) -> list[str]:
    text = [
        "The peer glest on the same rows, at its defaults: its RMSE for the true loss over ours.",
        f"{'':{width}} {'n':>6} {'answers':>8} {'/ partition':>12} {'/ crossfit':>12} {'/ twin':>12}",
    ]
    for (setting, n), found in cells.items():
        ratios = "".join(f" {found[name].peer_rmse_ratio:12.2f}" for name in GROUPING_LOSSES)
        text.append(f"{setting:{width}} {n:>6} {found['partition'].peer_repetitions:>8}{ratios}")
    return text


def _bias(line: Line) -> str:
    return f"{line.bias / UNIT:+8.1f} ± {line.stderr / UNIT:<4.1f}"


def _share(value: float) -> str:
    return " " * 6 if np.isnan(value) else f"{value:6.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the tables and save the CSV."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--realistic" in given:  # the scores that people have, with options of their own
        realistic.main([one for one in given if one != "--realistic"])
        return
    parser = argparse.ArgumentParser(
        description="Coverage, level, validity and tightness.",
        epilog="--realistic: the scores that people have instead, with the options of realistic.py.",
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
    parser.add_argument("--rule", choices=("brier", "log"), default="brier", help="log: no bounds")
    parser.add_argument("--quick", action="store_true", help="4 repetitions of 1,000 rows")
    parser.add_argument("--resume", action="store_true", help="keep the cells that the output has")
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
        write_text(options.output, as_csv(lines))  # so that a later run can go on from here
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
