"""Which rows to defer: those with the largest excess risk, or those with undecided scores.

    python experiments/deferral.py

In simulations the true excess risk of each row is known: its mean over the 10% of rows that are deferred
is compared with that of the best 10%. On real data, a boosted model is trained on one half of the rows
as a second opinion. In the other half, 10% of the rows are deferred, to that model or to a person who
knows the answer, and the labels show how much this saves per 1,000 rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.simulate import Sigmoid
from repetitions import as_csv
from segments_data import REAL

SHARE = 0.1
COSTS = ((1.0, 1.0), (1.0, 5.0))
CACHE = Path.home() / ".cache" / "epiloss-benchmarks"
SETS = ("Census-Income (bundled), incomes above 50,000", "Adult, incomes above 50,000")
Drawn = tuple[Floats, NDArray[np.int64], Floats, Floats]  # features, labels, scores, truth


@dataclass(frozen=True)
class Simulated:
    """The mean true excess risk of the deferred rows, as a share of that of the best choice."""

    problem: str
    n: int
    repetitions: int
    by_excess: float
    by_score: float
    at_random: float


@dataclass(frozen=True)
class Saved:
    """Savings of deferral per 1,000 rows by either ranking, and their difference."""

    data: str
    rows: int
    cost_fn: float
    deferred_to: str
    cost: float
    by_risk: float
    by_score: float
    difference: float
    stderr: float


def one_segment(n: int, generator: np.random.Generator) -> Drawn:
    """Draw rows whose scores are wrong in one fifth, which two features define."""
    X = generator.normal(size=(n, 6))
    scores = generator.beta(2, 3, n)
    off = np.where((X[:, 0] > 0.5) & (X[:, 1] < 0.4), np.where(X[:, 2] > 0, 0.25, -0.25), 0.0)
    truth = np.clip(scores + off, 0.01, 0.99)
    return X, (generator.random(n) < truth).astype(np.int64), scores, truth


def perturbed(**options: Any) -> Callable[[int, np.random.Generator], Drawn]:
    """Return a function that draws rows of the paper's simulation."""

    def draw(n: int, generator: np.random.Generator) -> Drawn:
        sample = Sigmoid(**options).sample(n, random_state=generator)
        return sample.X, sample.y, sample.scores, sample.q

    return draw


PROBLEMS: Mapping[str, Callable[[int, np.random.Generator], Drawn]] = {
    "one segment is wrong": one_segment,
    "wrong far from 1/2": perturbed(perturbation="step", optimal_accuracy=True),
    "wrong near 1/2, smooth": perturbed(perturbation="smooth"),
    "wrong near 1/2, a function of the score": perturbed(perturbation="step"),
}


def top(order: Floats, share: float = SHARE) -> NDArray[np.int64]:
    """Return the rows with the largest values."""
    return np.asarray(np.argsort(-order, kind="stable")[: round(share * len(order))], np.int64)


def simulated(problem: str, n: int, repetitions: int, seed: int) -> Simulated:
    """Return the share of the largest possible excess risk that is deferred."""
    parts = []
    for repetition in range(repetitions):
        key = (list(PROBLEMS).index(problem), n, repetition)
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        X, y, scores, truth = PROBLEMS[problem](n, generator)
        found = epiloss.audit(y, scores, X, method="partition").excess_risk()
        excess = (scores - truth) ** 2
        best = excess[top(excess)].mean()
        orders = (found["excess_risk"], -np.abs(scores - 0.5))
        parts.append([*(excess[top(one)].mean() / best for one in orders), excess.mean() / best])
    return Simulated(problem, n, repetitions, *np.mean(parts, axis=0).tolist())


def second_opinion(X: Any, y: NDArray[np.int64]) -> Any:
    """Return a boosted model of the features."""
    encoder = make_column_transformer(
        (
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
            make_column_selector(dtype_exclude="number"),
        ),
        remainder="passthrough",
    )
    return make_pipeline(encoder, HistGradientBoostingClassifier(random_state=0)).fit(X, y)


def paid(acted_on: Floats, y: NDArray[np.int64], cost_fn: float) -> Floats:
    """Return the cost of each decision; a false positive costs 1."""
    acts = acted_on >= 1 / (1 + cost_fn)
    return np.asarray(np.where(acts, 1.0 * (y == 0), cost_fn * (y == 1)), float)


def on_real_data(name: str, folder: Path, seed: int) -> list[Saved]:
    """Return the savings of deferral on one half of the rows of a data set."""
    columns, y, scores = next(one for one in REAL if one.name == name).load(folder)
    X = pd.DataFrame(columns)
    order = np.random.default_rng(seed).permutation(len(y))
    teach, audited = np.sort(order[: len(y) // 2]), np.sort(order[len(y) // 2 :])
    opinion = second_opinion(X.iloc[teach], y[teach]).predict_proba(X.iloc[audited])[:, 1]
    X, y, scores = X.iloc[audited].reset_index(drop=True), y[audited], scores[audited]
    result = epiloss.audit(y, scores, X, method="partition")
    lines = []
    for _, cost_fn in COSTS:
        found = result.excess_risk(cost_fp=1.0, cost_fn=cost_fn)
        near = -np.abs(scores - 1 / (1 + cost_fn))
        now = paid(scores, y, cost_fn)
        # rows without excess risk are ranked by their risk
        excess = found["excess_risk"] + 1e-9 * found["risk"]
        for who, risk, saved in (
            ("a boosted model", excess, now - paid(opinion, y, cost_fn)),
            ("a person who knows", found["risk"], now),
        ):
            chosen = [np.isin(np.arange(len(y)), top(one)) for one in (risk, near)]
            by_risk, by_score = (1000 * np.where(one, saved, 0.0) for one in chosen)
            more = by_risk - by_score
            lines.append(
                Saved(
                    name.split(" ")[0].strip(","), len(y), cost_fn, who, 1000 * float(now.mean()),
                    float(by_risk.mean()), float(by_score.mean()), float(more.mean()),
                    float(more.std() / np.sqrt(len(y))),
                )
            )  # fmt: skip
    return lines


def as_table(lines: Sequence[Simulated], saved: Sequence[Saved]) -> str:
    """Return both tables as Markdown."""
    text = [
        "| simulation | rows | by excess risk | by the score | at random |",
        "|---|---|---|---|---|",
    ]
    text += [
        f"| {one.problem} | {one.n:,} | {one.by_excess:.0%} | {one.by_score:.0%} | {one.at_random:.0%} |"
        for one in lines
    ]
    text += [
        "",
        "| data | rows | cost of a false negative | deferred to | cost of all rows | saved by risk "
        "| saved by score | difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    text += [
        f"| {one.data} | {one.rows:,} | {one.cost_fn:g} | {one.deferred_to} | {one.cost:.1f} "
        f"| {one.by_risk:.1f} | {one.by_score:.1f} | {one.difference:+.1f} ± {one.stderr:.1f} |"
        for one in saved
    ]
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both parts, print the tables and save them."""
    parser = argparse.ArgumentParser(description="Defer rows by excess risk or by score.")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of downloaded data")
    parser.add_argument("--output", type=Path, default=Path("experiments/output/deferral.csv"))
    parser.add_argument("--quick", action="store_true", help="one simulation, and the bundled data")
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.seed < 0:
        parser.error("needs at least 1 repetition, and a seed of at least 0")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    sizes = (2_000,) if options.quick else (2_000, 10_000)
    problems = list(PROBLEMS)[: 1 if options.quick else None]
    lines = [
        simulated(problem, n, options.repetitions, options.seed) for problem in problems for n in sizes
    ]
    sets = SETS[: 1 if options.quick else None]
    saved = [line for name in sets for line in on_real_data(name, options.cache, options.seed)]
    write_text(options.output, as_csv(saved))
    print(as_table(lines, saved))


if __name__ == "__main__":
    main()
