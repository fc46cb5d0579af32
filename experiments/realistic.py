"""Whether the estimates, tests and verdicts hold on realistic scores.

    python experiments/realistic.py --repetitions 200 --jobs 2 --page docs/realistic.md

Every repetition draws rows with a known calibration curve, in most settings without grouping loss, and
audits them with the default method. The table shows for each setting and number of rows:

- bias of the calibration loss, and how often its interval and that of the score cover the truth. After a
  recalibration, the truth is that of the recalibration maps of this repetition;
- "head": how often the interval of the grouping loss, the headline, covers the truth if it is 0, and
  otherwise its own mean over the other repetitions, which is at most the truth;
- "limit": how often the one-sided lower limit of the grouping loss is at most the truth;
- "reject": how often the test finds a grouping loss (its level is 5%);
- "repair": how often a verdict asks for a repair although the grouping loss does not matter;
- "fine": how often a verdict says that the losses do not matter although they do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.auditing.judgement import BOTH, FINE, REPAIR, SMALL, kind_of
from epiloss.calibration.recalibrators import IsotonicRecalibrator, SigmoidRecalibrator
from epiloss.estimate import Estimate
from epiloss.estimation.options import DEFAULTS
from epiloss.scoring import ScoringRule, resolve_rule
from realistic_settings import SETTINGS, Rows, Setting
from repetitions import as_csv, read_csv, repeated

SIZES = (500, 2_000, 10_000)
REFERENCE_ROWS = 400_000  # the truth is the mean over these rows
UNIT = 1e-4  # of the printed table; the CSV file has plain units
NAN = float("nan")
COVERAGE, LIMIT, LEVEL, WRONG = (0.92, 0.985), 0.94, 0.065, 0.05  # the targets


@dataclass(frozen=True)
class Task:
    """One sample of a setting; its random stream does not depend on the other tasks."""

    setting: str
    n: int
    repetition: int
    seed: int
    method: str


@dataclass(frozen=True)
class Truth:
    """The true losses of a setting, and the loss from which losses matter."""

    calibration_loss: float
    score: float
    grouping_loss: float
    matters: float


@dataclass(frozen=True)
class Found:
    """The result of one audit, and the truth."""

    task: Task
    truth: Truth
    calibration_loss: Estimate
    score: Estimate
    grouping_loss: Estimate
    at_least: float | None
    verdict: str

    @property
    def false_repair(self) -> bool:
        """Whether the verdict asks for a repair although the grouping loss does not matter."""
        return self.verdict in (REPAIR, BOTH) and self.truth.grouping_loss < self.truth.matters / 2

    @property
    def wrong_fine(self) -> bool:
        """Whether the verdict says that the losses do not matter although they do."""
        losses = self.truth.calibration_loss + self.truth.grouping_loss
        return self.verdict in (FINE, SMALL) and losses >= self.truth.matters


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
    score_coverage: float
    grouping_truth: float
    grouping_mean: float
    headline_coverage: float
    limit: float
    rejected: float
    repair: float
    fine: float

    @property
    def misses(self) -> str:
        """The targets that are missed by more than two standard errors."""

        def slack(share: float) -> float:
            return 2 * float(np.sqrt(share * (1 - share) / self.repetitions))

        low, high = (share + side * slack(share) for share, side in zip(COVERAGE, (-1, 1), strict=True))
        nothing = self.grouping_truth == 0
        checks = {
            "coverage": low <= self.coverage <= high,
            # without a loss, an interval that always contains 0 is right
            "headline": low <= self.headline_coverage <= (1.0 if nothing else high),
            "limit": self.limit >= LIMIT - slack(LIMIT),
            "level": not nothing or self.rejected <= LEVEL + slack(LEVEL),
            "repair": self.repair <= WRONG + slack(WRONG),
            "fine": self.fine <= WRONG + slack(WRONG),
        }
        return ", ".join(name for name, holds in checks.items() if not holds)


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


@lru_cache(maxsize=4)
def _sorted_reference(setting: str) -> tuple[Floats, Floats]:
    """Return scores in increasing order and their calibrated scores."""
    rows = _reference(setting)
    order = np.argsort(rows.scores)
    return rows.scores[order], rows.c[order]


@lru_cache
def truth_of(setting: str) -> Truth:
    """Return the true losses."""
    rows, rule = _reference(setting), resolve_rule(SETTINGS[setting].rule)
    losses = _means(rule, rows.scores, rows.c, rows.weights)
    hidden = None if rows.q is None else rule.divergence(rows.c, rows.q)
    grouping = 0.0 if hidden is None else float(np.average(hidden, weights=rows.weights))
    base_rate = np.average(rows.c, weights=rows.weights)
    return Truth(*losses, grouping, float(DEFAULTS["tolerance"] * rule.entropy(base_rate)))


def _means(rule: ScoringRule, scores: Floats, c: Floats, weights: Floats | None) -> tuple[float, float]:
    loss, score = rule.divergence(scores, c), rule.expected(scores, c)
    return float(np.average(loss, weights=weights)), float(np.average(score, weights=weights))


def _truth_after(
    setting: str, maps: Sequence[IsotonicRecalibrator | SigmoidRecalibrator], before: Truth
) -> Truth:
    """Return the truth for recalibrated scores, averaged over their maps."""
    (given, rates), rule = _sorted_reference(setting), resolve_rule(SETTINGS[setting].rule)
    found = []
    for one in maps:
        scores, c = one.predict(given), rates
        if isinstance(one, IsotonicRecalibrator):
            # where the map is flat, several scores become one, with their common rate
            place = np.cumsum(np.append(False, scores[1:] != scores[:-1]))
            c = (np.bincount(place, rates) / np.bincount(place))[place]
        found.append((*_means(rule, scores, c, None), float(rule.divergence(c, rates).mean())))
    loss, score, grouping = np.mean(found, axis=0).tolist()
    return Truth(loss, score, grouping, before.matters)


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
    truth = truth_of(task.setting)
    if recorder is not None:
        assert audit.recalibrated is not None
        audit = audit.recalibrated
        truth = _truth_after(task.setting, recorder.maps[:2], truth)
    losses = audit.calibration_loss, audit.score, audit.grouping_loss
    return Found(task, truth, *losses, audit.at_least, kind_of(audit))


def summarise(found: Iterable[Found | None]) -> list[Line]:
    """Return a line for each setting and number of rows."""
    cells: dict[tuple[str, int], list[Found]] = {}
    for one in filter(None, found):
        cells.setdefault((one.task.setting, one.task.n), []).append(one)
    return [_line(setting, n, runs) for (setting, n), runs in cells.items()]


def _line(setting: str, n: int, runs: Sequence[Found]) -> Line:
    truth = np.array([one.truth.calibration_loss for one in runs])
    error = np.array([one.calibration_loss.value for one in runs]) - truth
    stderr = np.array([one.calibration_loss.stderr or NAN for one in runs])
    pairs = [(one.calibration_loss, one.truth.calibration_loss) for one in runs]
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
        score_coverage=float(np.mean([_covers(one.score, one.truth.score) for one in runs])),
        **_of_headline(runs),
        repair=float(np.mean([one.false_repair for one in runs])),
        fine=float(np.mean([one.wrong_fine for one in runs])),
    )


def _of_headline(runs: Sequence[Found]) -> dict[str, float]:
    """Return the columns of the grouping loss."""
    loss, truth = [one.grouping_loss for one in runs], [one.truth.grouping_loss for one in runs]
    value, target = np.array([one.value for one in loss]), np.zeros(len(runs))
    if max(truth) > 0:  # the estimate misses what the learners cannot express, and covers its own mean
        target = (value.sum() - value) / max(len(runs) - 1, 1)
    covered = [_covers(*pair) for pair in zip(loss, target.tolist(), strict=True)]
    valid = [one.at_least is None or one.at_least <= one.truth.grouping_loss for one in runs]
    rejected = [one.pvalue is not None and one.pvalue <= 0.05 for one in loss]
    return {
        "grouping_truth": float(np.mean(truth)),
        "grouping_mean": float(value.mean()),
        "headline_coverage": float(np.mean(covered)),
        "limit": float(np.mean(valid)),
        "rejected": float(np.mean(rejected)),
    }


def _covers(estimate: Estimate, truth: float) -> bool:
    """Return whether the interval contains the truth; without an interval, nothing false is claimed."""
    low, high = estimate.low, estimate.high
    return low is None or high is None or low <= truth <= high


def as_table(lines: Sequence[Line]) -> str:
    """Return the table that is printed."""
    width = max(len(line.setting) for line in lines)
    text = [
        "Losses x 1e-4. Calibration loss: bias, standard errors over the spread of the errors (se/sd),",
        "coverage of the interval, intervals above the truth; score: coverage of its interval.",
        "Grouping loss: truth and mean, coverage of the interval (head), lower limits below the truth,",
        "tests that reject at 5%. Verdicts: false repairs, and 'fine' or 'small' where losses matter.",
        f"{'':{width}} {'rows':>6} {'runs':>4} {'true':>7} {'bias ± se':>15} {'se/sd':>6} {'cover':>5} "
        f"{'above':>5} {'score':>5} | {'true':>6} {'mean':>6} {'head':>5} {'limit':>5} {'reject':>6} | "
        f"{'repair':>6} {'fine':>5}",
    ]
    for line in lines:
        bias = f"{line.bias / UNIT:+8.2f} ± {line.bias_stderr / UNIT:<4.2f}"
        calibration = f"{line.coverage:5.3f} {line.above:5.3f} {line.score_coverage:5.3f}"
        grouping = f"{line.grouping_truth / UNIT:6.1f} {line.grouping_mean / UNIT:6.1f}"
        shares = f"{line.headline_coverage:5.3f} {line.limit:5.3f} {line.rejected:6.3f}"
        row = f"{line.setting:{width}} {line.n:>6} {line.repetitions:>4} {line.truth / UNIT:7.2f} {bias}"
        row = f"{row} {line.stderr_ratio:6.3f} {calibration} | {grouping} {shares}"
        text.append(f"{row} | {line.repair:6.3f} {line.fine:5.3f}  {line.misses}".rstrip())
    missed = sum(bool(line.misses) for line in lines)
    return "\n".join([*text, f"{missed} of {len(lines)} cells miss the targets."])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="Estimates, tests and verdicts on realistic scores.")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/realistic.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes; the result is the same")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME"
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="ROWS")
    parser.add_argument("--method", default=DEFAULTS["method"], help="method of the audit")
    parser.add_argument("--resume", action="store_true", help="keep the cells in the output file")
    parser.add_argument("--page", type=Path, help="also write the results into docs/realistic.md")
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    lines = read_csv(options.output, Line) if options.resume else []
    cells = [(setting, n) for setting in options.settings for n in options.sizes]
    done = {(line.setting, line.n) for line in lines}
    todo = [
        Task(setting, n, repetition, options.seed, options.method)
        for setting, n in cells
        if (setting, n) not in done
        for repetition in range(options.repetitions)
    ]
    console = Console(stderr=True)
    runs = repeated(run_task, todo, jobs=options.jobs)
    bar = track(runs, "realistic scores", len(todo), console=console, disable=not console.is_terminal)
    for _, found in groupby(zip(todo, bar, strict=True), key=lambda pair: (pair[0].setting, pair[0].n)):
        lines += summarise(one for _, one in found)
        if lines:
            write_text(options.output, as_csv(lines))  # so that --resume can continue from here
    places = {cell: place for place, cell in enumerate(cells)}
    lines = [line for line in lines if (line.setting, line.n) in places]
    lines.sort(key=lambda line: places[line.setting, line.n])
    print(as_table(lines))
    if options.page is not None:
        from realistic_page import with_results  # imports this module

        write_text(options.page, with_results(options.page.read_text(encoding="utf-8"), lines))


if __name__ == "__main__":
    main()
