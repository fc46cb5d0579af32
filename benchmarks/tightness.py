"""How much of the grouping loss of real models the twin estimate finds.

    python benchmarks/tightness.py
    python benchmarks/tightness.py --sets "Adult, logistic" "votes, logistic" --splits 3
    python benchmarks/tightness.py --markdown docs/tightness.md

Rows are split in thirds: one trains the base model, one trains a boosted model of features and score,
and one is audited. The boosted model's improvement of the Brier score over the calibrated score, on the
audited rows, is proven to be grouping loss, and the estimate should not be smaller. The true loss is
unknown and may be larger than both. The data sets after COMPAS were chosen before the first run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss.estimate import Estimate
from epiloss.estimation.options import Options
from epiloss.estimation.twins.estimate import twin
from epiloss.input.checks import read_problem
from epiloss.input.tasks import binary_problems
from epiloss.simulate import Sigmoid
from provers import proven
from registry_data import NEW_TABLES
from repair_data import (
    Part,
    Split,
    Table,
    UnavailableError,
    adult,
    boosting,
    compas,
    flights,
    kdd_census,
    logistic,
    simulation,
    with_base_model,
)
from reporting import Report, Verdict, parsed, set_parser

LEAST_RATIO, MANY_ROWS = 0.95, 10_000
LARGEST_SPREAD = 1 / 3  # of estimates over random splits of the rows, in standard errors
SPLITS, QUICK_ROWS = 10, 600
OLD_TABLES: Mapping[str, Callable[[Path], Table]] = {
    "Adult": adult,
    "KDD census": kdd_census,
    "flights": flights,
    "COMPAS": compas,
}
UNIT = 1e-4
PAGE = """# How tight is the estimate?

The twin estimate misses what its learners cannot express. To see how much that is on real data,
`python benchmarks/tightness.py --markdown docs/tightness.md` compares it with a boosted model that is
trained on as many other rows, with features and score. No model can lower the Brier score of the
calibrated score by more than the grouping loss, so the estimate should not be below this gain.

- *twin* is the estimate, and *bound* the cross-fitted lower bound.
- *proven* is the gain of the boosted model, and *ratio* is the estimate divided by it.
- If rows repeat and rows with equal scores have equal features, as for *fertility*, nothing can vary at
  equal scores. There is no grouping loss then, and what the boosted model gains over a smooth curve is
  calibration loss: the audit finds it there, and no ratio is shown.
- *spread* is the standard deviation of the estimate over random splits of the rows, in standard errors.
  An audit always uses the same split, whatever `random_state` and the order of the rows; `repeats=`
  averages over several.
- *CPU* is the time of one audit on one thread, in seconds.
"""


@dataclass(frozen=True)
class Line:
    """One base model: the estimate, the cross-fitted bound, and the gain of a boosted model."""

    data: str
    rows: int
    columns: int
    positives: float
    estimate: float
    stderr: float
    pvalue: float
    bound: float
    proven: float
    proven_stderr: float
    prover: str
    spread: float
    cpu: float
    bound_cpu: float
    score_tells_all: bool  # rows repeat, and rows with equal scores have equal features

    @property
    def ratio(self) -> float | None:
        """The estimate divided by the proven gain; None if the gain may be noise or calibration loss."""
        unclear = self.score_tells_all or self.proven <= 2 * self.proven_stderr
        return None if unclear else self.estimate / self.proven

    @property
    def tight(self) -> bool:
        """Whether the estimate reaches the proven gain, or no gain is proven."""
        return self.ratio is None or self.ratio >= LEAST_RATIO

    @property
    def stable(self) -> bool:
        """Whether the split has little influence."""
        return self.spread <= LARGEST_SPREAD

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return (
            f"{self.data:22} {self.rows:>8,} {self.columns:>4} {self.positives:6.3f} "
            f"{self.estimate / UNIT:7.1f} ±{self.stderr / UNIT:5.1f} {self.bound / UNIT:7.1f} "
            f"{self.proven / UNIT:7.1f} ±{self.proven_stderr / UNIT:5.1f} {ratio:>6} "
            f"{self.spread:6.2f} {self.cpu:6.2f} {self.bound_cpu:6.2f}  {self.prover}"
        )


HEADER = (
    f"{'losses x 1e-4':22} {'rows':>8} {'cols':>4} {'rate':>6} {'twin ± se':>14} {'bound':>7} "
    f"{'proven ± se':>14} {'ratio':>6} {'spread':>6} {'CPU':>6} {'bound':>6}  best boosted model"
)


def data_sets() -> Mapping[str, Callable[[int, Path], Split]]:
    """Return all base models by name: a logistic regression for each table, and boosting for two."""
    tables = {**OLD_TABLES, **NEW_TABLES}
    found = {f"{name}, logistic": with_base_model(load, logistic) for name, load in tables.items()}
    for name in ("Adult", "votes"):
        found[f"{name}, boosting"] = with_base_model(tables[name], boosting)
    return found


def measure(name: str, split: Split, n_splits: int) -> Line:
    """Audit once, estimate with other splits, and measure the gain of a boosted model."""
    rows = split.held_out
    first, cpu = timed_audit(rows, "twin")
    stderr = first.stderr or 0.0
    spread = float(np.std(estimates_of_other_splits(rows, n_splits), ddof=1)) / stderr if stderr else 0.0
    bound, bound_cpu = timed_audit(rows, "crossfit")
    proof = proven(split.repair, rows, 0)
    return Line(
        data=name,
        rows=len(rows.y),
        columns=rows.X.shape[1],
        positives=float(rows.y.mean()),
        estimate=first.value,
        stderr=stderr,
        pvalue=1.0 if first.pvalue is None else first.pvalue,
        bound=bound.value,
        proven=proof.value,
        proven_stderr=proof.stderr,
        prover=proof.model,
        spread=spread,
        cpu=cpu,
        bound_cpu=bound_cpu,
        score_tells_all=score_tells_all(rows),
    )


def score_tells_all(rows: Part) -> bool:
    """Return whether half of the rows repeat, and rows with equal scores have equal features."""
    kinds = rows.X.assign(score=np.asarray(rows.scores)).drop_duplicates()
    n_scores = len(np.unique(np.asarray(rows.scores)))
    return 2 * n_scores < len(rows.y) and len(kinds) == n_scores


def estimates_of_other_splits(rows: Part, n_splits: int) -> list[float]:
    """Return the twin estimates with other random splits of the rows."""
    options = Options.read()
    (problem,) = binary_problems(
        read_problem(rows.y, rows.scores, rows.X, options.reading), options.rule
    )
    generators = map(np.random.default_rng, range(1, n_splits + 1))
    return [twin(problem, options.confidence_level, one).estimate.value for one in generators]


def timed_audit(rows: Part, method: str) -> tuple[Estimate, float]:
    """Return the grouping loss and the CPU seconds of the audit."""
    started = time.process_time()
    audit = epiloss.audit(rows.y, rows.scores, rows.X, method=method)
    return audit.grouping_loss, time.process_time() - started


def judge(lines: Sequence[Line]) -> list[Verdict]:
    """Compare the results with the targets."""
    large = [line for line in lines if line.rows > MANY_ROWS]
    below = [f"{line.data} {line.ratio:.2f}" for line in large if not line.tight]
    unstable = [f"{line.data} {line.spread:.2f}" for line in lines if not line.stable]
    return [
        Verdict.on_all(
            f"at least {LEAST_RATIO} of the proven gain with {MANY_ROWS:,} rows or more",
            below,
            len(large),
        ),
        Verdict.on_all("spread over splits at most 1/3", unstable, len(lines)),
    ]


def run(
    known: Mapping[str, Callable[[int, Path], Split]], options: argparse.Namespace, report: Report
) -> list[Line]:
    """Measure each base model, print its line and save the lines so far."""
    lines: list[Line] = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for name in options.sets or known:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                lines.append(measure(name, known[name](0, options.cache), options.splits))
            except UnavailableError as error:
                report.print(f"{name} is left out: {error}")
                continue
            report.print(str(lines[-1]))
            save(lines, [], options.output)
    return lines


def save(lines: Sequence[Line], verdicts: Sequence[Verdict], file: Path) -> None:
    """Write everything as JSON."""
    plain: dict[str, Any] = {"lines": [asdict(line) | {"ratio": line.ratio} for line in lines]}
    plain["verdicts"] = [asdict(one) for one in verdicts]
    write_text(file, json.dumps(plain, indent=2, allow_nan=False) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every base model, print the table and the verdicts, and save them."""
    options = _options(arguments)
    report = Report()
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    tiny = simulation("quick", Sigmoid(perturbation="step"), QUICK_ROWS)
    known = {tiny.name: tiny.split} if options.quick else data_sets()
    report.print(HEADER)
    lines = run(known, options, report)
    verdicts = judge(lines)
    report.print("\n".join(["", *map(str, verdicts)]))
    save(lines, verdicts, options.output)
    if options.markdown is not None:
        report.save(options.markdown, PAGE)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    description = "Compare the twin estimate with the gain of boosted models."
    parser = set_parser(description, list(data_sets()), "benchmarks/output/tightness.json")
    parser.add_argument("--splits", type=int, default=SPLITS, help=f"default {SPLITS}")
    options = parsed(parser, arguments)
    if options.splits < 2:
        parser.error(f"--splits must be at least 2 to estimate a spread, got {options.splits}")
    return options


if __name__ == "__main__":
    main()
