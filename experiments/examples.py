"""Counter-examples: calibrated classifiers that are wrong. ``python experiments/examples.py``.

The constructions are those of the paper's figures 1 to 5 and 9 to 12, whose losses are known exactly: a
feature x uniform on (-1, 1) with the score S = abs(x), and two Gaussian features of which the score uses
one direction. Each figure states the true losses and the estimates. Losses here are those of one class,
mean (p - y)^2: half of those in the tables of the other studies.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import epiloss
from epiloss import Audit, Estimate
from epiloss._typing import Floats
from epiloss.simulate import Link, Problem, Sample, Sigmoid, Truth
from examples_pictures import (
    binning_picture,
    link_picture,
    sigmoid_picture,
    two_regions,
    wrong_everywhere,
)
from protocol import Section, accuracy, one_thread, options, progress, write_section
from study_claims import counted, holds, left_claim
from study_verdicts import Statement, by_share

DATA = "known losses"  # in the table of claims
TITLE = "Counter-examples with known losses"
ROWS, QUICK_ROWS = 20_000, 4_000
DRAWS, QUICK_DRAWS = 40, 1  # samples of each problem in which twins are compared with the exact loss
BINS = (1, 2, 3, 5, 8, 15, 30)
LINKS: Mapping[str, Problem] = {
    "square link": Link("square"),
    "double link": Link("double"),
    "plateau link": Link("plateau"),
    "half-step link": Link("half-step"),
}
SIGMOIDS: Mapping[str, Problem] = {
    "smooth": Sigmoid(),
    "step": Sigmoid(perturbation="step"),
    "smooth, best accuracy": Sigmoid(optimal_accuracy=True),
    "step, best accuracy": Sigmoid(perturbation="step", optimal_accuracy=True),
}
# of the links, by hand: the integral over s of the variance between the two sides
CLOSED_FORMS = {
    "square link": (1 / 30, "1/30"),
    "double link": (1 / 12, "1/12"),
    "plateau link": (1 / 48, "1/48"),
    "half-step link": (1 / 24, "1/24"),
}


@dataclass(frozen=True)
class Example:
    """A problem, a sample of it, its exact losses, and the estimates."""

    name: str
    problem: Problem
    sample: Sample
    truth: Truth
    result: Audit
    seconds: float  # of the audit

    @property
    def bounds(self) -> tuple[tuple[Estimate, Estimate], tuple[Estimate, Estimate]]:
        """The losses by trees and by twins, each as given and after isotonic recalibration."""
        after = self.result.recalibrated
        assert after is not None
        assert self.result.twin_estimate is not None
        assert after.twin_estimate is not None
        trees = self.result.partition_bound, after.partition_bound
        return trees, (self.result.twin_estimate, after.twin_estimate)


@dataclass(frozen=True)
class Draws:
    """How many of ``n`` intervals by twins contain the exact loss, and how many lie above it.

    ``shares`` are the mean estimates of each problem, divided by the exact loss.
    """

    n: int
    inside: int
    above: int
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Binned:
    """The square link with ``bins`` level sets: exact values, and the estimator's."""

    bins: int
    grouping_loss: float  # of the binned score, GL(S_B)
    induced: float
    explained: float  # by the two sides of the feature
    found: Audit

    @property
    def lower_bound(self) -> float:
        """The loss that the two sides explain, minus the induced loss."""
        return self.explained - self.induced


def example(name: str, problem: Problem, n: int, seed: int) -> Example:
    """Draw rows of a problem, and audit them."""
    sample = problem.sample(n, random_state=seed)
    start = time.perf_counter()
    rows = sample.y, sample.scores, sample.X
    result = epiloss.audit(*rows, recalibrate="isotonic", random_state=seed)
    seconds = time.perf_counter() - start
    return Example(name, problem, sample, problem.truth(), result, seconds)


def drawn(examples: Sequence[Example], count: int, seed: int) -> Draws:
    """Compare twins with the exact loss in ``count`` samples of each problem, the example's included."""
    found, shares = [], []
    for one in examples:
        exact, losses = one.truth.grouping_loss, [one.bounds[1][0]]
        for k in range(1, count):
            sample = one.problem.sample(len(one.sample.y), random_state=seed + k)
            again = epiloss.audit(sample.y, sample.scores, sample.X, random_state=seed + k)
            losses.append(again.grouping_loss)
        found += [(loss, exact) for loss in losses]
        shares.append(float(np.mean([loss.value for loss in losses])) / exact)
    inside = sum(holds(loss, exact) for loss, exact in found)
    above = sum((loss.low or 0) > exact for loss, exact in found)
    return Draws(len(found), inside, above, tuple(shares))


def binned(bins: int, sample: Sample) -> Binned:
    """Return what ``bins`` equal bins make of the square link, with the sides of x as known regions.

    C = S is uniform, so binning induces 1 / (12 bins^2). Q - C is +-(s - s^2) on the two sides, whose
    mean over a bin from a to b is ((b^2 - a^2)/2 - (b^3 - a^3)/3) / (b - a).
    """
    edges = np.linspace(0, 1, bins + 1)
    gap = bins * np.diff(edges**2 / 2 - edges**3 / 3)
    induced = 1 / (12 * bins**2)
    found = epiloss.audit(sample.y, sample.scores, subgroups=sample.X[:, 0] > 0, n_bins=bins)
    return Binned(bins, 1 / 30 + induced, induced, float(np.mean(gap**2)), found)


def best_accuracy(problem: Problem, n_nodes: int = 200_001) -> tuple[float, float]:
    """Return the accuracy of the score cut at 1/2 and the best there is, for a link."""
    assert isinstance(problem, Link)
    s: Floats = (np.arange(n_nodes) + 0.5) / n_nodes
    plus, minus, chance = sides(problem, s)
    q = np.stack([plus, minus])
    weight = np.stack([chance, 1 - chance]) / n_nodes
    ours = np.where(s >= 0.5, q, 1 - q)
    return float(np.sum(weight * ours)), float(np.sum(weight * np.maximum(q, 1 - q)))


def sides(problem: Link, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Q for x > 0 and for x < 0, and how likely x > 0 is, at scores ``s``."""
    if problem.link == "half-step":
        low: Floats = np.floor(2 * s).clip(max=1) / 2
        return low + 0.5, low, 2 * (s - low)
    plus: Floats = {
        "square": 2 * s - s**2,
        "double": np.minimum(2 * s, 1),
        "plateau": np.maximum(np.minimum(2 * s, 0.5), 2 * s - 1),
    }[problem.link]
    return plus, 2 * s - plus, np.full_like(s, 0.5)


def table(examples: Sequence[Example]) -> str:
    """Return the exact and the estimated losses as a Markdown table."""
    rows = [
        "| | rows | accuracy | CL | CL' | GL, exact | GL, by trees | GL', by trees "
        "| GL, by twins | GL', by twins | audit |",
        "|---|" + "---:|" * 10,
    ]
    for one in examples:
        closed = CLOSED_FORMS.get(one.name)
        exact = f"{one.truth.grouping_loss:.5f}" + ("" if closed is None else f" = {closed[1]}")
        after = one.result.recalibrated
        assert after is not None
        found = [one.result.calibration_loss, after.calibration_loss]
        cells = [
            *(f"{len(one.sample.y):,}", f"{accuracy(one.result):.3f}"),
            *(f"{loss:z.5f}" for loss in found),
            exact,
            *(f"{bound:z.5f}" for pair in one.bounds for bound in pair),
            f"{one.seconds:.1f} s",
        ]
        rows.append(f"| {one.name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def never_above(examples: Sequence[Example]) -> str:
    """Return how many estimates have intervals that reach down to the exact loss.

    They are counted separately before and after recalibration, because isotonic regression merges scores
    and thereby raises the exact loss slightly.
    """
    exact = [one.truth.grouping_loss for one in examples for _ in one.bounds]
    pairs = [pair for one in examples for pair in one.bounds]
    given, again = (
        sum(bound.low is None or bound.low <= loss for bound, loss in zip(bounds, exact, strict=True))
        for bounds in zip(*pairs, strict=True)
    )
    n = len(exact)
    return (
        f"the intervals of {given} of {n} estimates reach down to the exact loss, and those of {again} "
        f"of {n} after recalibration, which merges scores and thereby raises the loss slightly"
    )


def unchanged(examples: Sequence[Example]) -> str:
    """Return for how many examples recalibration does not change the estimates."""
    trees, twins = (counted(one.bounds[kind] for one in examples) for kind in (0, 1))
    return (
        f"GL' lies within the 95% interval of GL in {trees.within} of {trees.n} rows by trees and in "
        f"{twins.within} of {twins.n} by twins"
    )


def paragraph(examples: Sequence[Example], bins: Sequence[Binned]) -> str:
    """Return the paragraph on the results."""
    plateau = LINKS["plateau link"]
    ours, best = best_accuracy(plateau)
    trees, shares = (
        [one.bounds[kind][0].value / one.truth.grouping_loss for one in examples] for kind in (0, 1)
    )
    worst = max(abs(one.result.calibration_loss.value) for one in examples)
    after = [one.result.recalibrated for one in examples]
    added = max(one.calibration_loss.value for one in after if one is not None)
    few, many = bins[0], bins[-1]
    return (
        f"All these classifiers are exactly calibrated. The plateau link even has the best possible "
        f"accuracy ({ours:.4f} of {best:.4f}), although its score equals the true probability only at "
        f"1/2. The estimated calibration losses are at most {worst:.5f}. Trees find {min(trees):.0%} to "
        f"{max(trees):.0%} of the true grouping losses, and twins {min(shares):.0%} to "
        f"{max(shares):.0%} (an estimate can be above the truth by chance; {never_above(examples)}). "
        f"These classifiers need no recalibration; isotonic regression adds a calibration loss of up "
        f"to {added:.5f} and does not change the grouping loss: {unchanged(examples)}. Binning inflates "
        f"the grouping loss: with one bin, the square link shows {few.grouping_loss:.4f} instead of "
        f"1/30 = 0.0333, and with {many.bins} bins {many.grouping_loss:.4f}. After the induced loss is "
        f"subtracted, the bound stays below the truth for every number of bins. The losses of this "
        f"section are those of one class, half of those in the other tables."
    )


def study(images: Path, seed: int, quick: bool) -> Section:
    """Draw samples, audit them, and return the section with its figures."""
    n = QUICK_ROWS if quick else ROWS
    problems = {**LINKS, **SIGMOIDS}
    with one_thread():
        examples = [
            example(name, problem, n, seed)
            for name, problem in progress(problems.items(), "counter-examples", len(problems))
        ]
        by_name = {one.name: one for one in examples}
        bins = [binned(count, by_name["square link"].sample) for count in BINS]
        draws = drawn(examples, QUICK_DRAWS if quick else DRAWS, seed)
        pictures = [
            wrong_everywhere(by_name["plateau link"], images / "examples-wrong-everywhere.png"),
            two_regions(by_name["step"], images / "examples-two-regions.png"),
            binning_picture(bins, images / "examples-binning.png"),
            link_picture([by_name[name] for name in LINKS], images / "examples-links.png"),
            sigmoid_picture([by_name[name] for name in SIGMOIDS], images / "examples-sigmoids.png"),
        ]
    text = paragraph(examples, bins)
    return Section(TITLE, [], text, pictures, table(examples), claims(examples, draws))


def claims(examples: Sequence[Example], draws: Draws) -> list[Statement]:
    """Return the claims about the exact losses."""
    twins = [one.bounds[1] for one in examples]
    wrong = sum(
        (one.result.calibration_loss.low or 0) <= 0 < (bound.low or 0)
        for one, (bound, _) in zip(examples, twins, strict=True)
    )
    n = len(examples)
    return [
        Statement(
            "A calibrated classifier can have a grouping loss",
            DATA,
            f"no calibration loss and a grouping loss are found in {wrong} of {n} problems",
            by_share(wrong, n),
        ),
        Statement(
            "Twins find the exact grouping loss",
            DATA,
            f"it lies within their 95% intervals in {draws.inside} of {draws.n} samples, {draws.n // n} "
            f"of each problem; intervals that lie above it: {draws.above}; on average, twins find "
            f"{min(draws.shares):.1%} to {max(draws.shares):.1%} of it",
            by_share(draws.inside, draws.n),
        ),
        left_claim(twins, DATA),
        left_claim([one.bounds[0] for one in examples], DATA, "by trees"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table, and write the section."""
    import matplotlib

    matplotlib.use("Agg")
    given = options("Calibrated classifiers with known grouping loss.").parse_args(arguments)
    section = study(given.images, given.seed, given.quick)
    print(f"{section.title}\n\n{section.extra}\n\n{section.text}")
    write_section(section, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
