"""Whether the calibration loss and the region test hold on realistic scores.

    python experiments/realistic.py --repetitions 200

Every repetition draws rows with a known calibration curve and without grouping loss, and audits them.
The table shows the bias of the calibration loss, how often its interval and that of the score cover the
truth, how often the method finds a grouping loss (its level is 5%), and how often the verdict is to
repair. After a recalibration, the truth is that of the recalibration maps of this repetition.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.calibration.recalibrators import IsotonicRecalibrator, SigmoidRecalibrator
from epiloss.estimate import Estimate
from epiloss.scoring import ScoringRule, resolve_rule
from realistic_settings import SETTINGS, Rows, Setting
from repetitions import as_csv, repeated

SIZES = (500, 2_000, 10_000)
REFERENCE_ROWS = 400_000  # the truth is the mean over these rows
UNIT = 1e-4  # of the printed table; the CSV file has plain units
NAN = float("nan")
COVERAGE, LEVEL, FALSE_REPAIR = (0.92, 0.985), 0.065, 0.05  # the targets


@dataclass(frozen=True)
class Task:
    """One sample of a setting; its random stream does not depend on the other tasks."""

    setting: str
    n: int
    repetition: int
    seed: int
    method: str


@dataclass(frozen=True)
class Found:
    """The result of one audit, and the truth."""

    task: Task
    calibration_loss: Estimate
    true_calibration_loss: float
    score: Estimate
    true_score: float
    pvalue: float
    repair: bool


@dataclass(frozen=True)
class Line:
    """One setting and number of rows, over the repetitions; NaN for columns that do not apply."""

    setting: str
    n: int
    repetitions: int
    truth: float
    bias: float
    bias_stderr: float
    sd: float
    stderr_ratio: float  # root mean square of the standard errors over the sd of the errors
    coverage: float
    above: float  # intervals that lie above the truth
    level: float
    repair: float
    score_coverage: float

    @property
    def misses(self) -> str:
        """The targets that are missed by more than two standard errors."""

        def slack(share: float) -> float:
            return 2 * float(np.sqrt(share * (1 - share) / self.repetitions))

        found = []
        if not COVERAGE[0] - slack(COVERAGE[0]) <= self.coverage <= COVERAGE[1] + slack(COVERAGE[1]):
            found.append("coverage")
        if self.level > LEVEL + slack(LEVEL):
            found.append("level")
        if self.repair > FALSE_REPAIR + slack(FALSE_REPAIR):
            found.append("repair")
        return ", ".join(found)


class _Recorder:
    """A recalibrator that keeps its fitted maps."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.maps: list[IsotonicRecalibrator | SigmoidRecalibrator] = []

    def __deepcopy__(self, memo: object) -> _Recorder:
        return self  # so that the maps of copies are kept too

    def fit(self, scores: Floats, labels: Floats) -> None:
        """Learn a map."""
        new = IsotonicRecalibrator() if self.kind == "isotonic" else SigmoidRecalibrator()
        self.maps.append(new.fit(scores, labels))

    def predict(self, scores: Floats) -> Floats:
        """Apply the last map."""
        return self.maps[-1].predict(scores)


@lru_cache(maxsize=4)
def _reference(setting: str) -> Rows:
    return SETTINGS[setting].draw(REFERENCE_ROWS, np.random.default_rng(0))


@lru_cache
def true_losses(setting: str) -> tuple[float, float]:
    """Return the true calibration loss and score."""
    rows, rule = _reference(setting), resolve_rule(SETTINGS[setting].rule)
    return _means(rule, rows.scores, rows.c, rows.weights)


def _means(rule: ScoringRule, scores: Floats, c: Floats, weights: Floats | None) -> tuple[float, float]:
    loss, score = rule.divergence(scores, c), rule.expected(scores, c)
    return float(np.average(loss, weights=weights)), float(np.average(score, weights=weights))


def _losses_after(setting: str, maps: Sequence[IsotonicRecalibrator | SigmoidRecalibrator]) -> Floats:
    """Return the calibration loss and the score of recalibrated scores, averaged over their maps."""
    rows, rule = _reference(setting), resolve_rule(SETTINGS[setting].rule)
    found = []
    for one in maps:
        scores = one.predict(rows.scores)
        # where a map is flat, several scores become one, with their common rate
        _, place = np.unique(scores, return_inverse=True)
        c = (np.bincount(place, rows.c) / np.bincount(place))[place]
        found.append(_means(rule, scores, c, None))
    return np.asarray(np.mean(found, axis=0), float)


def run_task(task: Task) -> Found | None:
    """Audit one sample; one with fewer than 5 labels of either kind is left out."""
    setting = SETTINGS[task.setting]
    key = (list(SETTINGS).index(task.setting), task.n, task.repetition)
    generator = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=key))
    rows = setting.draw(task.n, generator)
    if min(rows.y.sum(), task.n - rows.y.sum()) < 5:
        return None
    with threadpool_limits(1):
        return _audited(task, setting, rows, int(generator.integers(2**31)))


def _audited(task: Task, setting: Setting, rows: Rows, seed: int) -> Found:
    recorder = None if setting.recalibrate is None else _Recorder(setting.recalibrate)
    audit = epiloss.audit(
        rows.y,
        rows.scores,
        rows.X,
        rule=setting.rule,
        method=task.method,
        sample_weight=rows.weights,
        clusters=rows.clusters,
        recalibrate=recorder,
        n_bins=5 if task.n < 3_000 else 15,
        random_state=seed,
    )
    truth, score = true_losses(task.setting)
    if recorder is not None:
        assert audit.recalibrated is not None
        audit = audit.recalibrated
        truth, score = _losses_after(task.setting, recorder.maps[:2])
    pvalue = audit.grouping_loss.pvalue  # of the method; of regions if it is not possible
    return Found(
        task,
        audit.calibration_loss,
        truth,
        audit.score,
        score,
        # where a map is flat there is a grouping loss, so rejecting is not an error
        NAN if pvalue is None or setting.recalibrate == "isotonic" else pvalue,
        "repair" in audit.verdict.kind,  # also together with a recalibration
    )


def summarise(found: Iterable[Found | None]) -> list[Line]:
    """Return a line for each setting and number of rows."""
    cells: dict[tuple[str, int], list[Found]] = {}
    for one in filter(None, found):
        cells.setdefault((one.task.setting, one.task.n), []).append(one)
    return [_line(setting, n, runs) for (setting, n), runs in cells.items()]


def _line(setting: str, n: int, runs: Sequence[Found]) -> Line:
    truth = np.array([one.true_calibration_loss for one in runs])
    error = np.array([one.calibration_loss.value for one in runs]) - truth
    stderr = np.array([one.calibration_loss.stderr or NAN for one in runs])
    pvalue = np.array([one.pvalue for one in runs])
    pairs = [(one.calibration_loss, one.true_calibration_loss) for one in runs]
    sd = float(error.std(ddof=min(1, len(runs) - 1)))
    return Line(
        setting=setting,
        n=n,
        repetitions=len(runs),
        truth=float(truth.mean()),
        bias=float(error.mean()),
        bias_stderr=sd / float(np.sqrt(len(runs))),
        sd=sd,
        stderr_ratio=float(np.sqrt(np.nanmean(stderr**2))) / sd if sd > 0 else NAN,
        coverage=float(np.mean([_covers(*pair) for pair in pairs])),
        above=float(np.mean([one.low is not None and one.low > true for one, true in pairs])),
        level=NAN if np.isnan(pvalue).all() else float(np.mean(pvalue <= 0.05)),
        repair=float(np.mean([one.repair for one in runs])),
        score_coverage=float(np.mean([_covers(one.score, one.true_score) for one in runs])),
    )


def _covers(estimate: Estimate, truth: float) -> bool:
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low <= truth <= high


def as_table(lines: Sequence[Line]) -> str:
    """Return the table that is printed."""
    width = max(len(line.setting) for line in lines)
    text = [
        "Losses x 1e-4. cover, score: coverage of the intervals of calibration loss and score;",
        "above: intervals above the truth; se/sd: standard errors over the spread of the errors;",
        "level: tests of a grouping loss that reject at 5%; repair: verdicts to do so. There is none.",
        f"{'':{width}} {'rows':>6} {'runs':>4} {'true':>7} {'bias ± se':>15} {'se/sd':>6} {'cover':>6} "
        f"{'above':>6} {'level':>6} {'repair':>6} {'score':>6}",
    ]
    for line in lines:
        bias = f"{line.bias / UNIT:+8.2f} ± {line.bias_stderr / UNIT:<4.2f}"
        shares = (line.stderr_ratio, line.coverage, line.above, line.level, line.repair)
        shown = " ".join(f"{one:6.3f}" for one in (*shares, line.score_coverage))
        row = f"{line.setting:{width}} {line.n:>6} {line.repetitions:>4} {line.truth / UNIT:7.2f} {bias}"
        text.append(f"{row} {shown}  {line.misses}".rstrip())
    missed = sum(bool(line.misses) for line in lines)
    return "\n".join([*text, f"{missed} of {len(lines)} cells miss the targets."])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="Calibration loss on realistic scores.")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/realistic.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes; the result is the same")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME"
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="ROWS")
    parser.add_argument(
        "--method", default="partition", help="method of the audit, which determines the verdict"
    )
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    todo = [
        Task(setting, n, repetition, options.seed, options.method)
        for setting in options.settings
        for n in options.sizes
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "realistic scores", len(todo), console=console, disable=not console.is_terminal)
    lines = summarise(bar)
    write_text(options.output, as_csv(lines))
    print(as_table(lines))


if __name__ == "__main__":
    main()
