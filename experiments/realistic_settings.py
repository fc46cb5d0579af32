"""Realistic scores with known truth: few values, jumps, clusters, weights, rare outcomes.

Each setting draws rows whose calibrated score ``C = E[Y | S]`` is known. The score depends on the first
feature; the others are noise, or are shared within a cluster. In most settings ``C`` is also the true
probability: there is no grouping loss, and any that is found is a false positive. In the settings with
groups, half of the rows with equal scores have a higher and half a lower probability than ``C``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import expit, logit, ndtri

from epiloss._typing import Codes, Floats
from epiloss.calibration.recalibrators import IsotonicRecalibrator

N_NOISE = 2
Curve = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Rows:
    """Drawn rows: labels, scores, calibrated scores and features; weights and clusters, if any.

    ``q`` are the true probabilities; None means that they equal ``c``.
    """

    y: Floats
    scores: Floats
    c: Floats
    X: Floats
    weights: Floats | None = None
    clusters: Codes | None = None
    q: Floats | None = None


Draw = Callable[[int, np.random.Generator], Rows]


@dataclass(frozen=True)
class Setting:
    """A way to draw rows, and the options of the audit."""

    draw: Draw
    rule: str = "brier"
    recalibrate: str | None = None


def labelled(
    u: Floats, scores: Floats, c: Floats, generator: np.random.Generator, chance: Floats | None = None
) -> Rows:
    """Return rows with labels, which are 1 if the uniform number ``chance`` is below ``c``."""
    n = len(u)
    chance = generator.random(n) if chance is None else chance
    X = np.column_stack([u, generator.normal(size=(n, N_NOISE))])
    return Rows((chance < c).astype(float), scores, c, X)


def smooth(n: int, generator: np.random.Generator, *, stretch: float = 1.0) -> Rows:
    """Draw logistic scores with log-odds that are ``stretch`` times too large."""
    u = generator.normal(size=n)
    return labelled(u, expit(stretch * u), expit(u), generator)


def by_curve(n: int, generator: np.random.Generator, *, curve: Curve) -> Rows:
    """Draw uniform scores with a calibration curve."""
    u = generator.random(n)
    return labelled(u, u, curve(u), generator)


def leaves(n: int, generator: np.random.Generator, *, n_values: int, off: float = 0.08) -> Rows:
    """Draw scores of tree leaves; the rate of each leaf differs from its score independently."""
    # one tree, with the same leaves in every sample
    tree = np.random.default_rng(n_values)
    value = np.sort(tree.uniform(0.05, 0.95, n_values))
    rate = np.clip(value + off * tree.standard_normal(n_values), 0.02, 0.98)
    u = generator.random(n)
    leaf = np.minimum((u * n_values).astype(np.int64), n_values - 1)
    return labelled(u, value[leaf], rate[leaf], generator)


def tenths(n: int, generator: np.random.Generator) -> Rows:
    """Draw votes of a forest of ten trees."""
    u = generator.normal(size=n)
    scores = generator.binomial(10, expit(1.5 * u)) / 10
    return labelled(u, scores, 0.1 + 0.8 * scores**1.5, generator)


def staircase(n: int, generator: np.random.Generator) -> Rows:
    """Draw scores of an isotonic map, with steps of unequal height and mass."""
    tree = np.random.default_rng(40)
    edges = np.sort(tree.beta(0.7, 0.7, 40))
    value = np.sort(tree.random(41))
    u = generator.random(n)
    step = np.searchsorted(edges, u)
    return labelled(u, value[step], (0.7 * value + 0.15)[step], generator)


def mixed(n: int, generator: np.random.Generator) -> Rows:
    """Draw continuous scores, and replace a third of them by three values with their own rates."""
    u = generator.random(n)
    atom = generator.integers(0, 9, n)
    scores = np.where(atom < 3, np.array([0.05, 0.3, 0.62])[np.minimum(atom, 2)], u)
    rates = np.array([0.15, 0.22, 0.5])[np.minimum(atom, 2)]
    return labelled(u, scores, np.where(atom < 3, rates, 0.1 + 0.8 * u), generator)


def piled(n: int, generator: np.random.Generator) -> Rows:
    """Draw scores of which a third are exactly 0 or 1, and overconfident."""
    u = generator.normal(size=n)
    scores = np.clip(0.5 + 0.6 * u, 0, 1)
    return labelled(u, scores, 0.1 + 0.8 * scores, generator)


def jump(s: Floats) -> Floats:
    """Return rates that drop at a score of 0.5, as if an intervention started there."""
    return np.where(s < 0.5, s, 0.6 * s)


def two_jumps(s: Floats) -> Floats:
    """Return rates with a small and a large jump."""
    return np.asarray(0.2 + 0.4 * s + 0.12 * (s > 0.31) - 0.3 * (s > 0.77), float)


def hump(s: Floats) -> Floats:
    """Return rates that rise and fall several times."""
    return np.asarray(0.5 + 0.3 * np.sin(9 * s), float)


def clustered(
    n: int,
    generator: np.random.Generator,
    *,
    shared: str,
    icc: float,
    size: int = 10,
    unequal: bool = False,
) -> Rows:
    """Draw clusters that share a score, features or neither, with correlated labels (``icc``)."""
    sizes = np.full(n // size + 1, size)
    if unequal:
        sizes = 1 + generator.negative_binomial(0.5, 0.5 / (size - 0.5), n)
    cluster = np.repeat(np.arange(len(sizes)), sizes)[:n]
    of_cluster = generator.normal(size=(len(sizes), 1 + N_NOISE))[cluster]
    u = of_cluster[:, 0] if shared == "score" else generator.normal(size=n)
    # two rows of a cluster share their uniform number with probability icc
    common = generator.random(n) < np.sqrt(icc)
    chance = np.where(common, generator.random(len(sizes))[cluster], generator.random(n))
    rows = labelled(u, expit(1.3 * u), expit(u), generator, chance)
    if shared != "neither":
        rows = replace(rows, X=np.column_stack([u, of_cluster[:, 1:]]))
    return replace(rows, clusters=cluster)


def survey(n: int, generator: np.random.Generator, *, cv: float) -> Rows:
    """Draw rows with independent log-normal weights of this coefficient of variation."""
    rows = smooth(n, generator, stretch=1.4)
    return replace(rows, weights=np.exp(np.sqrt(np.log1p(cv**2)) * generator.normal(size=n)))


def importance(n: int, generator: np.random.Generator, *, cv: float) -> Rows:
    """Draw rows with importance weights for another mean of the score's log-odds."""
    rows = smooth(n, generator, stretch=1.4)
    return replace(rows, weights=np.exp(np.sqrt(np.log1p(cv**2)) * rows.X[:, 0]))


def down_sampled(n: int, generator: np.random.Generator, *, kept: float = 0.05) -> Rows:
    """Draw all positives and some negatives of a rare outcome, with compensating weights."""
    all_rows = rare(int(6 * n), generator, base=0.05)
    rows = np.flatnonzero((all_rows.y > 0) | (generator.random(6 * n) < kept))[:n]
    weights = np.where(all_rows.y[rows] > 0, 1.0, 1 / kept)
    return Rows(all_rows.y[rows], all_rows.scores[rows], all_rows.c[rows], all_rows.X[rows], weights)


def rare(n: int, generator: np.random.Generator, *, base: float, stretch: float = 1.0) -> Rows:
    """Draw rows with about this share of positives; ``stretch`` scales log-odds around it."""
    u = generator.normal(size=n)
    centre = logit(base) - 0.5
    return labelled(u, expit(centre + stretch * u), expit(centre + u), generator)


def rounded(n: int, generator: np.random.Generator) -> Rows:
    """Draw scores with two decimals and a smooth curve."""
    u = generator.normal(size=n)
    scores = np.round(expit(1.4 * u), 2)
    return labelled(u, scores, 0.1 + 0.8 * scores, generator)


def half_at_one(n: int, generator: np.random.Generator) -> Rows:
    """Draw uniform scores, and replace half of them by one value with its own rate."""
    u, atom = generator.random(n), generator.random(n) < 0.5
    return labelled(u, np.where(atom, 0.3, u), np.where(atom, 0.42, 0.1 + 0.8 * u), generator)


def unequal_leaves(n: int, generator: np.random.Generator) -> Rows:
    """Draw 300 values with their own rates, of which a few are frequent and most are rare."""
    tree = np.random.default_rng(11)
    value = np.sort(tree.uniform(0.02, 0.98, 300))
    rate = np.clip(value + 0.1 * tree.normal(size=300), 0.02, 0.98)
    share = tree.permutation(1 / np.arange(1.0, 301))
    leaf = generator.choice(300, n, p=share / share.sum())
    return labelled(value[leaf], value[leaf], rate[leaf], generator)


def four_jumps(s: Floats) -> Floats:
    """Return rates that are constant between four jumps up and down."""
    return np.array([0.1, 0.5, 0.3, 0.8, 0.6])[np.searchsorted([0.15, 0.4, 0.6, 0.85], s)]


def jumps_at_the_ends(s: Floats) -> Floats:
    """Return rates that are right except for the lowest and the highest scores."""
    return np.where(s < 0.2, 0.5, np.where(s > 0.95, 0.1, s))


def bump(s: Floats) -> Floats:
    """Return rates that are right except in a narrow range."""
    return np.asarray(np.minimum(s + 0.35 * np.exp(-(((s - 0.4) / 0.03) ** 2) / 2), 1.0), float)


def hospitals(n: int, generator: np.random.Generator) -> Rows:
    """Draw clusters of 1 to 100 rows with correlated labels, each with its own weight."""
    sizes = generator.integers(1, 101, n)
    cluster = np.repeat(np.arange(n), sizes)[:n]
    u, common = generator.normal(size=n), generator.random(n) < np.sqrt(0.1)
    chance = np.where(common, generator.random(n)[cluster], generator.random(n))
    rows = labelled(u, expit(1.3 * u), expit(u), generator, chance)
    return replace(rows, clusters=cluster, weights=np.exp(0.8 * generator.normal(size=n)[cluster]))


def weighted_by_label(n: int, generator: np.random.Generator) -> Rows:
    """Draw rows whose weights are three times as large for positives; the scores are for all weights."""
    u = generator.normal(size=n)
    rows = labelled(u, expit(1.3 * u + np.log(3)), expit(u), generator)
    weights = np.where(rows.y > 0, 3.0, 1.0) * np.exp(0.5 * generator.normal(size=n))
    return replace(rows, c=expit(u + np.log(3)), weights=weights)


def few_atoms(n: int, generator: np.random.Generator) -> Rows:
    """Draw four scores of very unequal frequency, whose rates do not increase with the score."""
    value, rate = np.array([0.1, 0.35, 0.6, 0.9]), np.array([0.2, 0.3, 0.75, 0.65])
    atom = generator.choice(4, n, p=[0.3, 0.6, 0.09, 0.01])
    return labelled(value[atom], value[atom], rate[atom], generator)


def single_precision(n: int, generator: np.random.Generator) -> Rows:
    """Draw confident float32 scores, many of which are rounded to exactly 1."""
    u = 12 * generator.normal(size=n)
    scores = expit(u).astype(np.float32).astype(float)
    return labelled(u, scores, 0.08 + 0.84 * scores, generator)


def three_decimals(n: int, generator: np.random.Generator) -> Rows:
    """Draw scores with three decimals, most of which are small, and overconfident."""
    u = generator.normal(size=n)
    scores = np.round(expit(1.5 * u - 2), 3)
    return labelled(u, scores, 0.03 + 0.8 * scores, generator)


@lru_cache
def _small_map() -> tuple[IsotonicRecalibrator, Floats, Floats]:
    """Return an isotonic map of 100 rows, its steps and their rates among normal log-odds."""
    past = np.random.default_rng(100)
    x = past.normal(size=100)
    learned = IsotonicRecalibrator().fit(expit(x), (past.random(100) < expit(x)).astype(float))
    chance = expit(ndtri(np.linspace(0, 1, 200_001)[1:-1]))
    value, place = np.unique(_steps(learned.predict(chance)), return_inverse=True)
    return learned, value, np.bincount(place, chance) / np.bincount(place)


def small_isotonic(n: int, generator: np.random.Generator, *, least: float = 0.0) -> Rows:
    """Draw scores of an isotonic map that was learned on 100 rows, always the same."""
    learned, value, rate = _small_map()
    u = generator.normal(size=n)
    step = np.searchsorted(value, _steps(learned.predict(expit(u))))
    return labelled(u, np.clip(value, least, 1 - least)[step], rate[step], generator)


def _steps(scores: Floats) -> Floats:
    """Round to steps of 0.04, because the map is linear between its steps."""
    return np.asarray(np.round(scores / 0.04) * 0.04, float)


def sawtooth(s: Floats) -> Floats:
    """Return rates that rise in five teeth and drop in between."""
    return np.asarray(0.2 + 0.5 * (5 * s % 1), float)


def few_large_clusters(n: int, generator: np.random.Generator) -> Rows:
    """Draw correlated labels in clusters of which 10 have half of the rows, and the others 3 each."""
    cluster = np.concatenate([np.arange(n // 2) % 10, 10 + np.arange(n - n // 2) // 3])
    u, common = generator.normal(size=n), generator.random(n) < np.sqrt(0.05)
    chance = np.where(common, generator.random(n)[cluster], generator.random(n))
    return replace(labelled(u, expit(1.3 * u), expit(u), generator, chance), clusters=cluster)


def balanced(n: int, generator: np.random.Generator) -> Rows:
    """Draw a rare outcome with weights that give both outcomes the same mass, and scores for them."""
    u = generator.normal(size=n)
    rows = labelled(u, expit(1.3 * u - 0.5), expit(u - 0.5 - np.log(19)), generator)
    weights = np.where(rows.y > 0, 19.0, 1.0)
    return replace(rows, c=expit(u - 0.5), weights=weights)


def with_groups(n: int, generator: np.random.Generator, *, draw: Draw, size: float = 0.5) -> Rows:
    """Draw rows of another setting, and move the probabilities up or down by a feature's sign."""
    rows = draw(n, generator)
    sign = np.where(rows.X[:, 1] > 0, 1.0, -1.0)
    q = rows.c + size * sign * np.minimum(rows.c, 1 - rows.c)
    return replace(rows, y=(generator.random(n) < q).astype(float), q=q)


SETTINGS: Mapping[str, Setting] = {
    "smooth": Setting(smooth),
    "smooth, overconfident": Setting(partial(smooth, stretch=1.5)),
    "smooth, log-loss": Setting(partial(smooth, stretch=1.3), rule="log"),
    "2 leaves": Setting(partial(leaves, n_values=2)),
    "8 leaves": Setting(partial(leaves, n_values=8)),
    "32 leaves": Setting(partial(leaves, n_values=32)),
    "32 leaves, log-loss": Setting(partial(leaves, n_values=32), rule="log"),
    "32 leaves, calibrated": Setting(partial(leaves, n_values=32, off=0.0)),
    "500 leaves": Setting(partial(leaves, n_values=500)),
    "forest in tenths": Setting(tenths),
    "isotonic map": Setting(staircase),
    "atoms and continuous": Setting(mixed),
    "piled at 0 and 1": Setting(piled),
    "jump at 0.5": Setting(partial(by_curve, curve=jump)),
    "two jumps": Setting(partial(by_curve, curve=two_jumps)),
    "non-monotone": Setting(partial(by_curve, curve=hump)),
    "clusters, score, ICC 0": Setting(partial(clustered, shared="score", icc=0.0)),
    "clusters, score, ICC 0.3": Setting(partial(clustered, shared="score", icc=0.3)),
    "clusters, score, ICC 1": Setting(partial(clustered, shared="score", icc=1.0)),
    "clusters, score, unequal": Setting(partial(clustered, shared="score", icc=0.3, unequal=True)),
    "clusters, features, ICC 0.3": Setting(partial(clustered, shared="features", icc=0.3)),
    "clusters, neither, ICC 0": Setting(partial(clustered, shared="neither", icc=0.0)),
    "clusters, neither, ICC 0.5": Setting(partial(clustered, shared="neither", icc=0.5)),
    "survey weights, CV 1": Setting(partial(survey, cv=1.0)),
    "survey weights, CV 2": Setting(partial(survey, cv=2.0)),
    "survey weights, CV 3": Setting(partial(survey, cv=3.0)),
    "importance weights, CV 2": Setting(partial(importance, cv=2.0)),
    "down-sampled negatives": Setting(down_sampled),
    "5% positive": Setting(partial(rare, base=0.05)),
    "1% positive": Setting(partial(rare, base=0.01)),
    "0.1% positive": Setting(partial(rare, base=0.001)),
    "1% positive, overconf.": Setting(partial(rare, base=0.01, stretch=1.5)),
    "5% positive, log-loss": Setting(partial(rare, base=0.05), rule="log"),
    "1% positive, log-loss": Setting(partial(rare, base=0.01), rule="log"),
    "1%, overconf., log-loss": Setting(partial(rare, base=0.01, stretch=1.5), rule="log"),
    "after sigmoid": Setting(partial(smooth, stretch=1.5), recalibrate="sigmoid"),
    "after isotonic": Setting(partial(smooth, stretch=1.5), recalibrate="isotonic"),
    "jump, after isotonic": Setting(partial(by_curve, curve=jump), recalibrate="isotonic"),
    # drawn by an adversary after the estimators were fixed
    "two decimals": Setting(rounded),
    "half at one score": Setting(half_at_one),
    "300 leaves, unequal": Setting(unequal_leaves),
    "four jumps": Setting(partial(by_curve, curve=four_jumps)),
    "jumps at the ends": Setting(partial(by_curve, curve=jumps_at_the_ends)),
    "narrow bump": Setting(partial(by_curve, curve=bump)),
    "clusters of 1 to 100, weights": Setting(hospitals),
    "weights by label": Setting(weighted_by_label),
    "down-sampled, log-loss": Setting(down_sampled, rule="log"),
    "four unequal atoms": Setting(few_atoms),
    "single precision": Setting(single_precision),
    "three decimals": Setting(three_decimals),
    "isotonic on 100 rows": Setting(small_isotonic),
    "isotonic on 100, log-loss": Setting(partial(small_isotonic, least=0.02), rule="log"),
    "sawtooth": Setting(partial(by_curve, curve=sawtooth)),
    "few large clusters": Setting(few_large_clusters),
    "balanced weights": Setting(balanced),
    "0.5% positive": Setting(partial(rare, base=0.005)),
    # with a grouping loss
    "32 leaves, groups": Setting(partial(with_groups, draw=partial(leaves, n_values=32))),
    "two decimals, groups": Setting(partial(with_groups, draw=rounded)),
    "jump at 0.5, groups": Setting(partial(with_groups, draw=partial(by_curve, curve=jump))),
    "clusters, features, groups": Setting(
        partial(with_groups, draw=partial(clustered, shared="features", icc=0.0))
    ),
    "survey weights 2, groups": Setting(partial(with_groups, draw=partial(survey, cv=2.0))),
    "5% positive, groups": Setting(partial(with_groups, draw=partial(rare, base=0.05))),
    "32 leaves, log, groups": Setting(
        partial(with_groups, draw=partial(leaves, n_values=32)), rule="log"
    ),
}
