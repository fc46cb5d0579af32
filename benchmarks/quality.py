"""The loss that histogram trees explain on held-out rows, compared with exact trees.

    python benchmarks/quality.py
    python benchmarks/quality.py --quick

Both audit the same samples with the same splits and the same minimum of learning rows per leaf; the
exact trees are scikit-learn's. For each problem and size, it prints the ratio of the mean explained
losses over the seeds, with its standard error from paired differences.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.tree import DecisionTreeRegressor

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features
from epiloss.partition import Tree
from epiloss.partition.base import LearningRows, Partition, Partitioner, for_each_level_set
from epiloss.simulate import Problem, Sigmoid
from workloads import Data

LEAST_RATIO = 0.98
SEEDS = 16
REGION_RATIO = 12.0


@dataclass(frozen=True)
class ExactTreePartitioner(Partitioner):
    """scikit-learn's trees, which try every threshold, with ``region_ratio`` learning rows per leaf."""

    region_ratio: float = REGION_RATIO
    name: str = "exact tree"

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Grow one tree in each level set."""
        return ExactTreePartition(for_each_level_set(self._grow, rows, generator, n_jobs))

    def _grow(self, rows: LearningRows, seed: int) -> Any:
        if not len(rows.labels):
            return None
        tree = DecisionTreeRegressor(min_samples_leaf=math.ceil(self.region_ratio), random_state=seed)
        return tree.fit(rows.features.matrix, rows.labels, sample_weight=rows.weights)


@dataclass(frozen=True)
class ExactTreePartition(Partition):
    """A tree for each level set; ``None`` for level sets without rows."""

    trees: Sequence[Any]

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the leaf of each row."""
        region = np.zeros(len(level_set), np.int64)
        for level, tree in enumerate(self.trees):
            rows = np.flatnonzero(level_set == level)
            if tree is not None and len(rows):
                region[rows] = tree.apply(features.take(rows).matrix)
        return region


def simulated(problem: Problem) -> Callable[[int, int], Data]:
    """Return a function that draws rows of a problem by a seed."""

    def sample(n: int, seed: int) -> Data:
        rows = problem.sample(n, random_state=seed)
        return Data(rows.y, rows.scores, rows.X)

    return sample


def interactions(n: int, seed: int) -> Data:
    """Draw 20 columns, eight of which matter: one by the score, the others within its level sets."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((n, 20))
    return Data(*_labelled(x, generator), x)


def _labelled(x: Floats, generator: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """Return labels, and scores that ignore smooth, step and product effects of seven columns."""
    scores = expit(1.5 * x[:, 0])
    steps = (x[:, 1] > 0.5) - 0.5 * (x[:, 2] > -0.5)
    products = np.sign(x[:, 3]) * x[:, 4] + (x[:, 5] > 0) * x[:, 6]
    shift = np.tanh(0.7 * steps + 0.5 * products + 0.5 * x[:, 7])
    q = scores + np.minimum(scores, 1 - scores) * shift
    return (generator.random(len(x)) < q).astype(np.int64), scores


def embedding(n: int, seed: int, d: int = 768, rank: int = 12) -> Data:
    """Draw 32-bit columns that each follow one of few latent directions, seven of which matter."""
    generator = np.random.default_rng(seed)
    z = generator.standard_normal((n, rank), np.float32)
    mixing = np.float32(0.2) * generator.standard_normal((rank, d), np.float32)
    mixing[np.arange(d) % rank, np.arange(d)] += 1
    X = z @ mixing + np.float32(0.3) * generator.standard_normal((n, d), np.float32)
    return Data(*_labelled(z.astype(float), generator), X)


PROBLEMS: Mapping[str, Callable[[int, int], Data]] = {
    "sigmoid, smooth": simulated(Sigmoid(n_noise=18)),
    "sigmoid, step": simulated(Sigmoid(perturbation="step", n_noise=18)),
    "interactions": interactions,
    "embedding": embedding,
}


@dataclass(frozen=True)
class Setting:
    """A problem and a number of rows."""

    problem: str
    n: int
    d: int


SETTINGS = (
    *(Setting(name, n, 20) for n in (10_000, 100_000) for name in list(PROBLEMS)[:3]),
    Setting("embedding", 30_000, 768),
)
QUICK_SETTINGS = (Setting("sigmoid, step", 5_000, 20), Setting("interactions", 5_000, 20))


@dataclass(frozen=True)
class Line:
    """The explained loss in one setting: means over seeds, their ratio and its standard error."""

    setting: Setting
    seeds: int
    histogram: float
    exact: float
    ratio: float
    stderr: float

    @property
    def met(self) -> bool:
        """Whether the histogram trees meet the target."""
        return self.ratio >= LEAST_RATIO

    def __str__(self) -> str:
        size = f"{self.setting.n:,} x {self.setting.d}"
        return (
            f"{'met   ' if self.met else 'MISSED'}  {size:>12}  {self.setting.problem:16} "
            f"{self.histogram:9.5f} {self.exact:9.5f}  {self.ratio:6.3f} ± {self.stderr:.3f}"
        )


def explained(data: Data, seed: int) -> tuple[float, float]:
    """Return the losses that our trees and exact ones explain on held-out rows, on equal splits."""
    partitions = (Tree(REGION_RATIO), ExactTreePartitioner())
    ours, exact = (
        epiloss.audit(
            data.y,
            data.scores,
            data.X,
            method="partition",
            partition=partition,
            random_state=seed,
        ).explained
        for partition in partitions
    )
    return float(ours), float(exact)


def compare(setting: Setting, seeds: int) -> Line:
    """Compare over some seeds, each with a sample and a split of its own."""
    pairs = []
    for seed in range(seeds):
        print(f"{setting.problem}, {setting.n:,}: seed {seed}", file=sys.stderr, flush=True)
        pairs.append(explained(PROBLEMS[setting.problem](setting.n, seed), seed))
    ours, exact = np.array(pairs).T
    return Line(setting, seeds, float(ours.mean()), float(exact.mean()), *ratio_of_means(ours, exact))


def ratio_of_means(ours: Floats, exact: Floats) -> tuple[float, float]:
    """Return ``mean(ours) / mean(exact)`` and its standard error, by the delta method."""
    ratio = ours.mean() / exact.mean()
    spread = (ours - ratio * exact).std(ddof=1) / np.sqrt(len(ours))
    return float(ratio), float(spread / abs(exact.mean()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare in every setting, print the verdicts and save them as JSON."""
    parser = argparse.ArgumentParser(description="Explained loss of histogram and of exact trees.")
    parser.add_argument("--quick", action="store_true", help="3 seeds of two small settings")
    parser.add_argument("--seeds", type=int, help=f"default {SEEDS}")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/output/quality.json"))
    options = parser.parse_args(arguments)
    seeds = options.seeds if options.seeds is not None else 3 if options.quick else SEEDS
    if seeds < 2:
        parser.error(f"--seeds must be at least 2, for a standard error, got {seeds}")
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    settings = QUICK_SETTINGS if options.quick else SETTINGS
    print(f"{'explained loss':38} {'histogram':>9} {'exact':>9}  ratio ± standard error, {seeds} seeds")
    lines = []
    for setting in settings:
        lines.append(compare(setting, seeds))
        print(lines[-1], flush=True)
    print(f"\n{sum(one.met for one in lines)} of {len(lines)} settings reach {LEAST_RATIO}")
    content = [asdict(one) | {"met": one.met} for one in lines]
    write_text(options.output, json.dumps({"settings": content}, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
