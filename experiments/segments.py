"""Are the segments that an audit tells true? With planted segments, with nothing to find, and real data.

    python experiments/segments.py --draws 200 --markdown docs/segments.md

A planted segment has two conditions. Its gap against equal scores is known, and so is that of whatever
segment is told: the mean over its rows of the true probability less the curve. Real data are scored by
a logistic regression that learned from another part of the rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import epiloss
from epiloss._saving import write_text
from epiloss._threads import limited_threads
from epiloss._typing import Floats
from epiloss.datasets import load_census_income
from epiloss.estimation.options import Options
from epiloss.estimation.twins.centring import ScoreBasis
from epiloss.input.checks import read_problem
from epiloss.input.tasks import binary_problems
from epiloss.segments.find import Search
from epiloss.segments.result import Segment, Segments
from epiloss.segments.tell import find_segments
from segments_data import REAL, Real

CITIES = np.array(["Lima", "Oslo", "Rome"], object)
CITY = 1 / len(CITIES)  # share of the rows in each
SEEDS = 10
PERSON = 5  # rows


@dataclass(frozen=True)
class Setting:
    """How rows are drawn: ``gap`` is that of the planted segment against rows of equal scores."""

    name: str
    n: int = 6_000
    n_noise: int = 4
    share: float = 0.12
    gap: float = 0.10
    middle: float = -1.5  # log-odds: the lower, the rarer the outcome
    category: bool = False
    distort: str = ""


@dataclass(frozen=True)
class Draw:
    """Features by name, scores, true probabilities, labels and the rows of the planted segment."""

    X: dict[str, NDArray[Any]]
    scores: Floats
    q: Floats
    y: NDArray[np.int64]
    inside: NDArray[np.bool_]
    clusters: NDArray[np.int64] | None = None


SETTINGS = (
    Setting("12% of the rows, 10 points, 6,000 rows"),
    Setting("the same, 20 noise columns", n_noise=20),
    Setting("the same, one condition is a category", category=True),
    Setting("the same, half of the outcomes are positive", middle=0.0),
    # where probabilities are raised by 10 points, which moves the curve by 1.2
    Setting("12% of the rows, 8.8 points, 6,000 rows", gap=0.088),
    Setting("5% of the rows, 15 points, 6,000 rows", share=0.05, gap=0.15),
    Setting("12% of the rows, 10 points, 2,000 rows", n=2_000),
    Setting("12% of the rows, 20 points, 2,000 rows", n=2_000, gap=0.20),
    Setting("12% of the rows, 10 points, 20,000 rows", n=20_000),
    Setting("12% of the rows, 5 points, 30,000 rows", n=30_000, gap=0.05),
)
NOTHING = (
    Setting("calibrated, 6,000 rows", gap=0.0),
    Setting("calibrated, 20 noise columns", gap=0.0, n_noise=20),
    Setting("miscalibrated (score to the power 0.6)", gap=0.0, distort="power"),
    Setting("ten different scores", gap=0.0, distort="tenths"),
    Setting("five rows of each person, given as clusters", gap=0.0, distort="persons"),
    Setting("half of the outcomes are positive", gap=0.0, middle=0.0),
    Setting("2,000 rows", gap=0.0, n=2_000),
    Setting("30,000 rows", gap=0.0, n=30_000),
)

SEARCHED = (
    Setting("10 points"),
    Setting("10 points, 20 noise columns", n_noise=20),
    Setting("8 points", gap=0.08),
    Setting("8 points, 20 noise columns", gap=0.08, n_noise=20),
)


def drawn(setting: Setting, seed: int) -> Draw:
    """Draw rows; two of the columns lead to the score, of which one is a condition too."""
    rng = np.random.default_rng(seed)
    n, root = setting.n, setting.share**0.5
    X = {f"x{j}": rng.random(n) for j in range(setting.n_noise + 2)}
    inside = (X["x0"] > 1 - root) & (X["x1"] <= root)
    if setting.category:
        X["city"] = CITIES[rng.integers(len(CITIES), size=n)]
        inside = (X["city"] == "Oslo") & (X["x1"] <= setting.share / CITY)
    z = setting.middle + 1.5 * rng.normal(size=n) + X["x0"] + X["x2"] - 1
    scores = np.clip(expit(z), 0.02, 0.85)
    q = scores + setting.gap / (1 - setting.share) * inside
    if setting.distort == "power":
        scores = scores**0.6
    if setting.distort == "tenths":
        scores = q = np.round(scores, 1).clip(0.05, 0.95)
    uniform, clusters = rng.random(n), None
    if setting.distort == "persons":  # whose rows have the same features, score and luck
        clusters = np.arange(n) // PERSON
        first = clusters * PERSON
        X = {name: column[first] for name, column in X.items()}
        scores, q, inside = scores[first], q[first], inside[first]
        uniform = np.where(rng.random(n) < 0.7, uniform[first], uniform)
    return Draw(X, scores, q, (uniform < q).astype(np.int64), inside, clusters)


def segments_of(draw: Draw, seed: int = 0) -> Segments:
    """Return the segments of an audit of these rows, without the rest of it."""
    options = Options.read(random_state=seed)
    problem = read_problem(draw.y, draw.scores, draw.X, options.reading, clusters=draw.clusters)
    return find_segments(problem, options)


def true_gap(draw: Draw, rows: NDArray[np.int64]) -> float:
    """Return the mean over rows of the true probability less the curve."""
    order = np.argsort(draw.scores, kind="stable")
    curve = np.empty(len(order))
    curve[order] = ScoreBasis.of(draw.scores[order]).mean(draw.q[order][None])[0]
    return float((draw.q - curve)[rows].mean())


def overlap(draw: Draw, rows: NDArray[np.int64]) -> float:
    """Return the share of the planted and the told rows together that both have."""
    told = np.zeros(len(draw.y), bool)
    told[rows] = True
    return float((told & draw.inside).sum() / (told | draw.inside).sum())


@dataclass(frozen=True)
class Outcome:
    """What was told first in one draw, beside the truth."""

    n_told: int
    found: bool = False
    covered: bool = False
    error: float = 0.0  # of the told gap, in its own direction
    naive: float = 0.0  # of rate less expected


def outcome(setting: Setting, seed: int) -> Outcome:
    """Draw, tell, and compare with the truth."""
    draw = drawn(setting, seed)
    told = segments_of(draw, seed)
    if not len(told):
        return Outcome(0)
    first, truth = told[0], true_gap(draw, told[0].rows)
    sign = np.sign(first.gap)
    return Outcome(
        len(told),
        overlap(draw, first.rows) > 0.5,
        first.low <= truth <= first.high,
        float(sign * (first.gap - truth)),
        float(sign * (first.rate - first.expected - truth)),
    )


def planted_table(draws: int) -> list[list[str]]:
    """Return what was told where a segment is planted."""
    header = ["planted", "told any", "told first", "interval holds", "told - true", "unadjusted"]
    return [header, *(planted_row(setting, draws) for setting in SETTINGS)]


def planted_row(setting: Setting, draws: int) -> list[str]:
    """Return one row of the table: shares of draws, and mean errors in points."""
    all_draws = [outcome(setting, seed) for seed in range(draws)]
    told = [one for one in all_draws if one.n_told]
    return [
        setting.name,
        percent([one.n_told > 0 for one in all_draws]),
        percent([one.found for one in all_draws]),
        percent([one.covered for one in told]),
        f"{100 * np.mean([one.error for one in told]):+.1f}",
        f"{100 * np.mean([one.naive for one in told]):+.1f}",
    ]


def nothing_table(draws: int) -> list[list[str]]:
    """Return in how many draws nothing was told where there is nothing."""
    rows = [
        [one.name, percent([outcome(one, seed).n_told == 0 for seed in range(draws)])] for one in NOTHING
    ]
    return [["nothing to find", "nothing told"], *rows]


def percent(values: Iterable[bool]) -> str:
    """Return the share of what is true."""
    return f"{100 * float(np.mean(list(values))):.1f}%"


def search_table(draws: int) -> list[list[str]]:
    """Return how often the best segment has mostly planted rows, by either way to search."""
    ways: Mapping[str, Callable[[Draw, int], NDArray[np.int64]]] = {
        "all pairs of conditions, on residuals": _by_pairs,
        "a tree of depth 3, on what boosting predicts beyond the score": _by_tree,
    }
    rows = [
        [name, *(percent([found_by(way, one, seed) for seed in range(draws)]) for one in SEARCHED)]
        for name, way in ways.items()
    ]
    return [["search", *(one.name for one in SEARCHED)], *rows]


def found_by(way: Callable[[Draw, int], NDArray[np.int64]], setting: Setting, seed: int) -> bool:
    """Tell whether a way to search finds the planted segment first."""
    draw = drawn(setting, seed)
    return overlap(draw, way(draw, seed)) > 0.5


def _by_pairs(draw: Draw, seed: int) -> NDArray[np.int64]:
    """Return the rows of the best segment, whether or not it would be told."""
    options = Options.read()
    problem = read_problem(draw.y, draw.scores, draw.X, options.reading)
    search = Search.of(binary_problems(problem, options.rule)[0], np.random.default_rng(seed))
    best = search.best(np.arange(search.n_rows))
    assert best is not None
    return search.order[best[0].holds(search.columns)]


def _by_tree(draw: Draw, seed: int) -> NDArray[np.int64]:
    """Return the rows of the leaf that costs most by cross-fitted predictions."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict
    from sklearn.tree import DecisionTreeRegressor

    X = np.column_stack(list(draw.X.values()))
    order = np.argsort(draw.scores, kind="stable")
    basis, residual = ScoreBasis.of(draw.scores[order]), np.empty(len(order))
    residual[order] = draw.y[order] - basis.mean(draw.y[order][None].astype(float))[0]
    boosting = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=7, random_state=seed)
    with limited_threads(openmp=True):
        predicted = cross_val_predict(boosting, np.column_stack([X, draw.scores]), residual, cv=5)
        predicted[order] -= basis.mean(predicted[order][None])[0]
        tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=0.02, random_state=seed)
        leaf = tree.fit(X, predicted).apply(X)
    leaves = np.unique(leaf)
    costs = [(leaf == one).mean() * predicted[leaf == one].mean() ** 2 for one in leaves]
    return np.flatnonzero(leaf == leaves[int(np.argmax(costs))])


def stability() -> str:
    """Return how stable the first segment of the bundled data is, over seeds and over halves."""
    demo = load_census_income()
    options = Options.read()
    problem = read_problem(demo.y, demo.scores, demo.X, options.reading)
    by_seed = [find_segments(problem, replace(options, seed=k))[0].description for k in range(SEEDS)]
    first = max(by_seed, key=by_seed.count)
    halves = [np.random.default_rng(k).permutation(len(demo.y))[::2] for k in range(SEEDS)]
    by_half = [find_segments(problem.take(np.sort(half)), options)[0].conditions for half in halves]
    named = [{condition.name for condition in conditions} for conditions in by_half]
    same = sum("dividends" in names for names in named)
    return (
        f"On the bundled data {by_seed.count(first)} of {SEEDS} seeds tell the same first segment: up "
        f"to 20,000 rows a seed only divides them into fifths. On {SEEDS} random halves of the rows the "
        f"thresholds move; {same} of the first segments have dividends among their conditions."
    )


def real_section(one: Real, folder: Path) -> str:
    """Return the segments of real data in words, beside what is known."""
    X, y, scores = one.load(folder)
    result = epiloss.audit(y, scores, X)
    told = result.segments
    table = [["segment", "rows", "score", "rate", "expected", "gap in points", "p"]]
    table += [list(map(str, _real_cells(segment))) for segment in told]
    passed = f"No gap found for {', '.join(told.passed)}." if told.passed else ""
    loss = f"{result.grouping_loss.value:.4f}"
    head = f"### {one.name}\n\n{len(y):,} rows, grouping loss {loss}."
    return "\n\n".join(part for part in (head, markdown(table), passed, one.known) if part)


def _real_cells(one: Segment) -> Sequence[str]:
    gap = f"{100 * one.gap:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"
    rates = [f"{value:.3f}" for value in (one.score_mean, one.rate, one.expected)]
    return [one.description, f"{one.n:,}", *rates, gap, f"{one.pvalue:.1g}"]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a table."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


PAGE = """# Segments: where a model is wrong

`python experiments/segments.py --draws {draws} --markdown docs/segments.md` wrote this page.

`result.segments` lists the few groups of rows whose rates differ from those of all rows with the
same scores:

```python
result = epiloss.audit(y_true, y_prob, X)
print(result.segments)  # a table; result.segments[0].rows are the rows of the first one
result.segments.passed  # columns without a gap
result.segments_by(frame)  # told by other columns, texts by their words
```

A segment has at most three conditions, and at least 1% of the rows and 50 rows. Its gap is its rate
less the rate of all rows with the same scores, in points. Segments are in the order of what they
cost: their share of the rows times the square of the gap, by the Brier score.

## How they are found

All pairs of conditions are looked at, over all scores together. The best one is moved to its best
thresholds and may take a third condition; a condition is dropped if it adds no more than noise would,
or less than a tenth of the square of the z-score. Then the rows that it holds are set aside, and the
search goes on. A segment is told if

- the search finds as much in at most 1 of 20 problems where nothing is there (the search is
  repeated on residuals of random signs),
- what is found on each four fifths of the rows holds on the other fifth (a z-score of at least 1.28
  over all five),
- the interval of its gap on the rows that found it does not hold 0, and at most half of its rows are
  in a segment before it.

The search prefers groups that were lucky. So the gap that is told is smaller than rate less
expected rate. First, the square of its z-score is lowered by what the search finds on average where
nothing is there. Then it is averaged with the gap that the other fifths show, which had no part in
the search, if that one is smaller; it counts by 1.5 times the share of noise in that square. The
interval is wider, too, and reaches beyond both gaps; near the limit of what can be seen it may hold
0. Above 20,000 rows, segments are found on some rows and measured on all others, and
nothing has to be adjusted. The p-values are adjusted for everything that was looked at.

Conditions are told as a person would: whole numbers as such ("party is 3", "age is 30 to 60", "age >=
65"), days as days, and thresholds in at most four digits where these part the same rows.

With several classes the label is whether the claimed class is right, and the class may be a
condition. Rows of an embedding are told by the columns passed as `display=`, or else are clusters,
told by their typical rows. Data beyond memory are searched on the sample that the audit keeps.

## Is what is told true?

A segment of two conditions is planted among 6 columns, with {rate} of the outcomes positive; its gap is
against rows of equal scores. "Told
first" is the share of draws in which the first segment and the planted one have more than half of
their rows in common. "Interval holds" is how often the interval has the true gap of the segment
that was told, and "told - true" is the mean error in points; "unadjusted" is that of rate less
expected rate. {draws} draws each.

{planted}

With 2,000 rows a gap of 10 points is at the limit of what can be seen. What is told there is still
somewhat too large: it is told only in draws that were lucky.

Where there is nothing to find:

{nothing}

Why not a tree? On {searched} draws, how often the best segment of 12% of 6,000 rows is the planted
one, before any test:

{search}

{stability}

## Real data

Two thirds of each data set, scored by a logistic regression that learned from the other third. The
bundled data come with such scores. The sentences on what is known of a field were written after its
segments were seen.

{real}

"""


def main() -> None:
    """Print the tables, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "epiloss-benchmarks")
    options = parser.parse_args()
    draws, searched = options.draws, max(options.draws // 4, 1)
    positive = np.mean([drawn(SETTINGS[0], seed).y.mean() for seed in range(min(draws, 20))])
    sections: dict[str, Callable[[], str]] = {
        "stability": stability,
        "real": lambda: "\n\n".join(real_section(one, options.cache) for one in REAL),
        "planted": lambda: markdown(planted_table(draws)),
        "nothing": lambda: markdown(nothing_table(draws)),
        "search": lambda: markdown(search_table(searched)),
    }
    texts = {}
    for name, section in sections.items():
        texts[name] = section()
        print(texts[name], end="\n\n", flush=True)
    if options.markdown is not None:
        page = PAGE.format(draws=draws, searched=searched, rate=f"{positive:.0%}", **texts)
        write_text(options.markdown, page)


if __name__ == "__main__":
    main()
