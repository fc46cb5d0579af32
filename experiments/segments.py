"""Are the segments of an audit correct? With planted segments, without any, and on real data.

    python experiments/segments.py --draws 200 --markdown docs/segments.md

A planted segment has two conditions. Its gap to rows with equal scores is known, and so is the gap of
any reported segment: the mean of the true probability minus the curve over its rows. Real data are
scored by a logistic regression that was trained on other rows.
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
from epiloss.segments.describe import find_segments
from epiloss.segments.find import Search
from epiloss.segments.result import Segment, Segments
from segments_data import REAL, Real
from segments_page import PAGE

CITIES = np.array(["Lima", "Oslo", "Rome"], object)
CITY = 1 / len(CITIES)  # share of the rows in each
SEEDS = 10
PERSON = 5  # rows


@dataclass(frozen=True)
class Setting:
    """How rows are drawn; ``gap`` is the gap of the planted segment to rows with equal scores."""

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
    # probabilities are raised by 10 points, which raises the curve by 1.2
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


@dataclass(frozen=True)
class Several:
    """Several segments of two conditions each; ``gaps`` are added to the true probabilities."""

    name: str
    n: int
    gaps: tuple[float, ...]
    share: float = 0.10
    n_noise: int = 4


SEVERAL = (
    Several("15, -12 and 10 points, 6,000 rows", 6_000, (0.15, -0.12, 0.10)),
    Several("three of 10 points, 10,000 rows", 10_000, (0.10, 0.10, 0.10)),
    Several("12, -10, 9, -8 and 7 points, 18,000 rows", 18_000, (0.12, -0.10, 0.09, -0.08, 0.07)),
)


def drawn(setting: Setting, seed: int) -> Draw:
    """Draw rows; the score depends on two columns, and one of them is also a condition."""
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
    if (
        setting.distort == "persons"
    ):  # rows of one person have the same features and score, and mostly the same label
        clusters = np.arange(n) // PERSON
        first = clusters * PERSON
        X = {name: column[first] for name, column in X.items()}
        scores, q, inside = scores[first], q[first], inside[first]
        uniform = np.where(rng.random(n) < 0.7, uniform[first], uniform)
    return Draw(X, scores, q, (uniform < q).astype(np.int64), inside, clusters)


def drawn_several(setting: Several, seed: int) -> Draw:
    """Draw rows with several segments, each with two columns of its own."""
    rng = np.random.default_rng(seed)
    n, root = setting.n, setting.share**0.5
    columns = [rng.random(n) for _ in range(2 * len(setting.gaps) + setting.n_noise)]
    scores = np.clip(expit(1.5 * rng.normal(size=n) + columns[0] + columns[2] - 2), 0.02, 0.85)
    planted = [
        (columns[2 * k] > 1 - root) & (columns[2 * k + 1] <= root) for k in range(len(setting.gaps))
    ]
    q = np.clip(scores + np.array(setting.gaps) @ np.array(planted, float), 0.005, 0.995)
    X = {f"x{j}": column for j, column in enumerate(columns)}
    return Draw(X, scores, q, (rng.random(n) < q).astype(np.int64), np.logical_or.reduce(planted))


def segments_of(draw: Draw, seed: int = 0) -> Segments:
    """Return the segments of an audit of these rows, without the rest of it."""
    options = Options.read(random_state=seed)
    problem = read_problem(draw.y, draw.scores, draw.X, options.reading, clusters=draw.clusters)
    return find_segments(problem, options)


def true_gap(draw: Draw, rows: NDArray[np.int64]) -> float:
    """Return the mean of the true probability minus the curve over some rows."""
    order = np.argsort(draw.scores, kind="stable")
    curve = np.empty(len(order))
    curve[order] = ScoreBasis.of(draw.scores[order]).mean(draw.q[order][None])[0]
    return float((draw.q - curve)[rows].mean())


def overlap(draw: Draw, rows: NDArray[np.int64]) -> float:
    """Return the Jaccard index of the planted rows and the reported rows."""
    reported = np.zeros(len(draw.y), bool)
    reported[rows] = True
    return float((reported & draw.inside).sum() / (reported | draw.inside).sum())


@dataclass(frozen=True)
class Outcome:
    """The first reported segment of one draw, compared with the truth."""

    n_reported: int
    found: bool = False
    covered: bool = False
    error: float = 0.0  # of the reported gap, in its own direction
    naive: float = 0.0  # of the rate minus the expected rate


def outcome(setting: Setting, seed: int) -> Outcome:
    """Draw rows, find segments, and compare the first one with the truth."""
    draw = drawn(setting, seed)
    segments = segments_of(draw, seed)
    if not len(segments):
        return Outcome(0)
    first, truth = segments[0], true_gap(draw, segments[0].rows)
    sign = np.sign(first.gap)
    return Outcome(
        len(segments),
        overlap(draw, first.rows) > 0.5,
        first.low <= truth <= first.high,
        float(sign * (first.gap - truth)),
        float(sign * (first.rate - first.expected - truth)),
    )


def planted_table(draws: int) -> list[list[str]]:
    """Return how often a planted segment is reported, and how accurate its gap is."""
    header = [
        *("planted segment", "any reported", "planted reported first"),
        *("interval covers", "reported - true", "unadjusted"),
    ]
    return [header, *(planted_row(setting, draws) for setting in SETTINGS)]


def planted_row(setting: Setting, draws: int) -> list[str]:
    """Return one row of the table: shares of draws, and mean errors in points."""
    all_draws = [outcome(setting, seed) for seed in range(draws)]
    reported = [one for one in all_draws if one.n_reported]
    return [
        setting.name,
        percent([one.n_reported > 0 for one in all_draws]),
        percent([one.found for one in all_draws]),
        percent([one.covered for one in reported]),
        f"{100 * np.mean([one.error for one in reported]):+.1f}",
        f"{100 * np.mean([one.naive for one in reported]):+.1f}",
    ]


def several_errors(setting: Several, seeds: Iterable[int]) -> list[list[tuple[float, float, bool]]]:
    """Return the reported and the true gap of each segment, and whether it is covered, by place.

    The first place is that of the costliest segment. Gaps have the sign that is reported.
    """
    places: list[list[tuple[float, float, bool]]] = [[] for _ in setting.gaps]
    for seed in seeds:
        draw = drawn_several(setting, seed)
        for place, one in zip(places, segments_of(draw, seed), strict=False):
            truth, sign = true_gap(draw, one.rows), float(np.sign(one.gap))
            place.append((sign * one.gap, sign * truth, one.low <= truth <= one.high))
    return places


def several_table(draws: int) -> list[list[str]]:
    """Return how accurate the gaps of the first and of later segments are."""
    rows = [["planted segments", "place", "reported", "true gap", "reported - true", "interval covers"]]
    for setting in SEVERAL:
        for place, found in enumerate(several_errors(setting, range(draws)), start=1):
            told, truth, covered = (np.array(part) for part in zip(*found, strict=True))
            rows.append(
                [
                    setting.name,
                    str(place),
                    f"{len(found) / draws:.0%}",
                    f"{100 * truth.mean():.1f}",
                    f"{100 * (told - truth).mean():+.1f}",
                    percent(covered.tolist()),
                ]
            )
    return rows


def nothing_table(draws: int) -> list[list[str]]:
    """Return how often nothing is reported if there is nothing to find."""
    rows = [
        [one.name, percent([outcome(one, seed).n_reported == 0 for seed in range(draws)])]
        for one in NOTHING
    ]
    return [["no segment", "nothing reported"], *rows]


def percent(values: Iterable[bool]) -> str:
    """Return the share of true values in percent."""
    return f"{100 * float(np.mean(list(values))):.1f}%"


def search_table(draws: int) -> list[list[str]]:
    """Return how often each search finds the planted segment first."""
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
    """Return whether a search finds the planted segment first."""
    draw = drawn(setting, seed)
    return overlap(draw, way(draw, seed)) > 0.5


def _by_pairs(draw: Draw, seed: int) -> NDArray[np.int64]:
    """Return the rows of the best segment, whether or not it would be reported."""
    options = Options.read()
    problem = read_problem(draw.y, draw.scores, draw.X, options.reading)
    search = Search.of(binary_problems(problem, options.rule)[0], np.random.default_rng(seed))
    best = search.best(np.arange(search.n_rows))
    assert best is not None
    return search.order[best[0].holds(search.columns)]


def _by_tree(draw: Draw, seed: int) -> NDArray[np.int64]:
    """Return the rows of the leaf with the largest cost according to cross-fitted predictions."""
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
        f"On the bundled data, {by_seed.count(first)} of {SEEDS} seeds give the same first segment: up "
        f"to 20,000 rows, a seed only determines the five folds. On {SEEDS} random halves of the rows "
        f"the thresholds vary; {same} of the first segments have dividends among their conditions."
    )


def real_section(one: Real, folder: Path) -> str:
    """Return the segments of a real data set, and a comment on its field."""
    X, y, scores = one.load(folder)
    result = epiloss.audit(y, scores, X)
    segments = result.segments
    table = [["segment", "rows", "score", "rate", "expected", "gap in points", "p"]]
    table += [list(map(str, _real_cells(segment))) for segment in segments]
    passed = f"No gap found for {', '.join(segments.passed)}." if segments.passed else ""
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
        "several": lambda: markdown(several_table(draws)),
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
