"""Several classes, wide data, many categories, comparisons, regret and repair, with known truth.

    python experiments/known_truth.py --repetitions 40

For audits: how often the lower limit is below the true grouping loss ("valid"), the intervals of
calibration loss and score cover the truth, and the test finds a loss. For other claims: how often they
are false. Settings with 10 and 100 classes are repeated fewer times.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.estimate import Estimate
from epiloss.simulate import MultiClass, Sigmoid
from repetitions import as_csv, repeated

ONE_SIDED = 1.645
UNIT = 1e-4


@dataclass(frozen=True)
class Found:
    """The result of one repetition and the truth; NaN for columns that do not apply."""

    value: float
    truth: float
    valid: float = float("nan")
    calibration: float = float("nan")
    score: float = float("nan")
    rejected: float = float("nan")
    false_claim: float = float("nan")


Run = Callable[[int], Found]


def classes(seed: int, *, n: int, n_classes: int, task: str, rule: str, grouping: float) -> Found:
    """Audit a classifier of several classes, calibrated in every sense."""
    problem = MultiClass(n_classes=n_classes, grouping=grouping)
    sample = problem.sample(n, random_state=seed)
    truth = problem.truth(rule, task="classwise" if task == "joint" else task)  # type: ignore[arg-type]
    result = epiloss.audit(sample.y, sample.scores, sample.X, task=task, rule=rule, n_bins=5)
    return audited(result, truth.grouping_loss, truth.calibration_loss, truth.score)


def audited(result: epiloss.Audit, grouping: float, calibration: float, score: float) -> Found:
    """Compare an audit with the truth."""
    loss = result.grouping_loss
    low = loss.value - ONE_SIDED * (loss.stderr or 0.0)
    return Found(
        loss.value,
        grouping,
        float(low <= grouping),
        float(_covers(result.calibration_loss, calibration)),
        float(_covers(result.score, score)),
        float((1.0 if loss.pvalue is None else loss.pvalue) <= 0.05),
    )


def _covers(estimate: Estimate, truth: float) -> bool:
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low <= truth <= high


def null(seed: int, *, n: int, columns: Callable[[np.random.Generator, int], Any]) -> Found:
    """Audit a calibrated score without grouping loss, with uninformative features."""
    generator = np.random.default_rng(seed)
    scores = expit(1.2 * generator.normal(size=n))
    y = (generator.random(n) < scores).astype(int)
    result = epiloss.audit(y, scores, columns(generator, n), n_bins=5)
    every = expit(1.2 * ndtri((np.arange(100_000) + 0.5) / 100_000))
    return audited(result, 0.0, 0.0, float(np.mean(every * (1 - every))))


def many_levels(generator: np.random.Generator, n: int) -> dict[str, Any]:
    """Return a category of 1,000 levels and a numeric column."""
    level = generator.integers(0, 1_000, n)
    return {"level": np.array([f"l{i}" for i in level]), "x": generator.normal(size=n)}


def wide(generator: np.random.Generator, n: int) -> Floats:
    """Return twice as many columns as rows."""
    return generator.normal(size=(n, 2 * n))


def equal_models(seed: int, *, n: int, method: str) -> Found:
    """Compare two equally good models that err on different features."""
    generator = np.random.default_rng(seed)
    u, a, b = generator.normal(size=(3, n))
    q = expit(u + 0.6 * np.sign(a) + 0.6 * np.sign(b))
    y = (generator.random(n) < q).astype(int)
    X = np.column_stack([u, a, b])
    scores = {
        "knows a": (expit(u + 0.6 * np.sign(a) + 0.6) + expit(u + 0.6 * np.sign(a) - 0.6)) / 2,
        "knows b": (expit(u + 0.6 * np.sign(b) + 0.6) + expit(u + 0.6 * np.sign(b) - 0.6)) / 2,
    }
    table = epiloss.compare(y, scores, X, method=method, n_bins=5).differences
    row = next(one for one in table.rows() if one["loss"] == "grouping_loss")
    claim = float(row["pvalue"] <= 0.05)
    return Found(float(row["difference"]), 0.0, false_claim=claim)


def saved_by_recalibration(seed: int, *, n: int) -> Found:
    """Estimate what recalibration would save for calibrated scores, which is nothing."""
    sample = Sigmoid(grouping=0.0).sample(n, random_state=seed)
    result = epiloss.audit(sample.y, sample.scores, sample.X, n_bins=5)
    saved = epiloss.regret(result, cost_fn=3.0).calibration
    return Found(saved.value, 0.0, false_claim=float(saved.low is not None and saved.low > 0))


def unseen_categories(seed: int, *, n: int) -> Found:
    """Learn a repair from a category, and apply it to unseen categories: it should do no harm."""
    generator = np.random.default_rng(seed)

    def drawn(first: int) -> tuple[Floats, Floats, Floats, dict[str, Any]]:
        level = generator.integers(first, first + 6, n)
        scores = expit(generator.normal(size=n))
        q = np.clip(scores + np.where(first == 0, 0.1, 0.0) * np.where(level % 2, 1, -1), 0.01, 0.99)
        y = (generator.random(n) < q).astype(float)
        return y, scores, q, {"site": np.array([f"s{i}" for i in level])}

    y, scores, _, X = drawn(0)
    _, new_scores, q, new = drawn(100)
    repair = epiloss.RegionRecalibrator().fit(y, scores, X)
    harm = float(np.mean((repair.predict(new_scores, new) - q) ** 2) - np.mean((new_scores - q) ** 2))
    return Found(harm, 0.0, false_claim=float(harm > 0.0025))


def _studies() -> dict[str, tuple[Run, int]]:
    """Return each study, and the divisor of its number of repetitions."""
    found: dict[str, tuple[Run, int]] = {}
    options: dict[str, Any]
    for k, tasks in {3: ("top-label", "classwise", "joint"), 10: ("top-label", "classwise")}.items():
        for task in tasks:
            for rule in ("brier", "log"):
                for grouping in (0.0, 0.5):
                    truth = "nothing" if grouping == 0 else "loss"
                    name = f"{k} classes, {task}, {rule}, {truth}"
                    options = {"n": 1_000, "n_classes": k, "task": task, "rule": rule}
                    found[name] = (partial(classes, **options, grouping=grouping), 1 if k == 3 else 2)
    for task, rule in (("top-label", "brier"), ("top-label", "log"), ("classwise", "brier")):
        options = {"n": 1_000, "n_classes": 100, "task": task, "rule": rule}
        share = 1 if task == "top-label" else 8
        found[f"100 classes, {task}, {rule}, nothing"] = (
            partial(classes, **options, grouping=0.0),
            share,
        )
    found["category of 1,000 levels, nothing"] = (partial(null, n=1_000, columns=many_levels), 1)
    found["600 columns of 300 rows, nothing"] = (partial(null, n=300, columns=wide), 1)
    for method in ("twin", "crossfit", "partition"):
        found[f"compare equal models, {method}"] = (partial(equal_models, n=1_000, method=method), 1)
    found["regret of calibrated scores"] = (partial(saved_by_recalibration, n=1_000), 1)
    found["repair, categories not seen"] = (partial(unseen_categories, n=1_000), 1)
    return found


STUDIES: Mapping[str, tuple[Run, int]] = _studies()


@dataclass(frozen=True)
class Task:
    """One repetition of a study."""

    study: str
    seed: int


@dataclass(frozen=True)
class Line:
    """A study over its repetitions."""

    study: str
    repetitions: int
    truth: float
    mean: float
    valid: float
    calibration: float
    score: float
    rejected: float
    false_claim: float


def run_task(task: Task) -> Found:
    """Run one repetition."""
    with threadpool_limits(1):
        return STUDIES[task.study][0](task.seed)


def as_table(lines: Sequence[Line]) -> str:
    """Return the table that is printed."""
    width = max(len(line.study) for line in lines)
    text = [
        "Losses x 1e-4. valid: lower limits below the true grouping loss; CL, score: coverage of the",
        "intervals; reject: tests that find a grouping loss; false: other claims that are false.",
        f"{'':{width}} {'runs':>4} {'true':>7} {'mean':>7} {'valid':>6} {'CL':>6} {'score':>6} "
        f"{'reject':>6} {'false':>6}",
    ]
    for line in lines:
        shares = (line.valid, line.calibration, line.score, line.rejected, line.false_claim)
        shown = " ".join(" " * 6 if np.isnan(one) else f"{one:6.2f}" for one in shares)
        values = f"{line.truth / UNIT:7.1f} {line.mean / UNIT:7.1f}"
        text.append(f"{line.study:{width}} {line.repetitions:>4} {values} {shown}".rstrip())
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the repetitions, print the table and save the CSV."""
    parser = argparse.ArgumentParser(description="Claims of many kinds against known truth.")
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--output", type=Path, default=Path("experiments/output/known_truth.csv"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes; the result is the same")
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES), metavar="NAME")
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.jobs < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition and 1 job, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    lines = []
    for name in options.studies:
        n = max(options.repetitions // STUDIES[name][1], 1)
        todo = [Task(name, options.seed + 1_000 * k) for k in range(n)]
        found = list(repeated(run_task, todo, jobs=options.jobs))
        columns = np.array([list(vars(one).values()) for one in found])
        value, truth, *shares = columns.mean(axis=0).tolist()
        lines.append(Line(name, n, truth, value, *shares))
        write_text(options.output, as_csv(lines))  # after each line, because a run takes long
    print(as_table(lines))


if __name__ == "__main__":
    main()
