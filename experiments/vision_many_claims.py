"""The paper's statements about many networks, counted in those measured here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from epiloss import Estimate
from protocol import Line
from study_claims import left_claim, overlap, removed_claim, tree_pairs, twin_pairs
from study_verdicts import (
    HALF,
    HOLDS,
    IN_PART,
    NOT,
    Correlation,
    Statement,
    by_order,
    by_share,
    rank_correlation,
)
from vision_parts import CLEAN, MERGED, SNOW

NEGLIGIBLE = 0.003  # the largest grouping loss that the paper prints without shift
COMPARABLE = 0.03  # accuracies that are as good as equal, with 6,000 images
DATA = "CIFAR-10"
Lines = Mapping[str, Sequence[Line]]


@dataclass(frozen=True)
class Known:
    """The grouping loss by twins from known groups, from a network's features and from both."""

    name: str
    groups: Estimate
    features: Estimate
    both: Estimate


def claims(lines: Lines, single: Mapping[str, Mapping[str, Estimate]]) -> list[Statement]:
    """Return the paper's statements with their counts, in the order of its argument."""
    every = [line for some in lines.values() for line in some]
    return [
        removed_claim(every, DATA),
        left_claim(twin_pairs(every), DATA),
        left_claim(tree_pairs(every), DATA, "by trees"),
        more(lines, CLEAN, MERGED, "The grouping loss is larger under shift"),
        more(lines, CLEAN, SNOW, "The grouping loss is larger under shift"),
        substantial(lines[MERGED]),
        next_to_none(lines[CLEAN]),
        *(more_accurate(lines[part], part) for part in (MERGED, SNOW)),
        more(lines, MERGED, SNOW, "Snow alone shows a larger loss than 19 corruptions mixed"),
        mixture(single),
        comparable(lines[MERGED]),
    ]


def loss(line: Line) -> Estimate:
    """Return the grouping loss by twins."""
    assert line.twin is not None
    return line.twin


def above(one: Estimate, other: Estimate) -> bool:
    """Return whether an estimate lies above another and their intervals do not overlap."""
    return one.value > other.value and not overlap(one, other)


def pairs(lines: Lines, first: str, second: str) -> list[tuple[Line, Line]]:
    """Return the lines of each network on two parts."""
    later = {line.name: line for line in lines[second]}
    return [(line, later[line.name]) for line in lines[first]]


def more(lines: Lines, first: str, second: str, text: str) -> Statement:
    """Count the networks with a larger grouping loss on one part than on another.

    Clean images are a shift for zero-shot networks, so the verdict leaves these out.
    """
    everyone = pairs(lines, first, second)
    known = [pair for pair in everyone if first != CLEAN or learned(pair[0])]
    up = sum(loss(after).value > loss(before).value for before, after in known)
    apart = sum(above(loss(after), loss(before)) for before, after in known)
    down = sum(above(loss(before), loss(after)) for before, after in known)
    trees = sum(after.gl.value > before.gl.value for before, after in known)
    means = [
        float(np.mean([loss(line).value for line in column])) for column in zip(*known, strict=True)
    ]
    count = (
        f"by twins GL is larger on {second} than on {first} for {up} of {len(known)} networks, beyond "
        f"the intervals for {apart} (smaller for {down}); by trees for {trees}; means by twins "
        f"{means[0]:.4f} and {means[1]:.4f}"
    )
    others = [pair for pair in everyone if pair not in known]
    if others:
        n = sum(loss(after).value > loss(before).value for before, after in others)
        count += f"; for {n} of {len(others)} zero-shot networks, to which clean images are a shift"
    return Statement(text, f"{DATA}, {first} and {second}", count, by_share(up, len(known)))


def learned(line: Line) -> bool:
    """Return whether a network was trained on images like the clean ones."""
    return "zero-shot" not in line.name


def substantial(lines: Sequence[Line]) -> Statement:
    """Count the networks whose grouping loss is significantly above what the paper has without shift."""
    twins, trees = (
        sum(one.low is not None and one.low > NEGLIGIBLE for one in column)
        for column in ([loss(line) for line in lines], [line.gl for line in lines])
    )
    highest = max(lines, key=lambda line: loss(line).value)
    count = (
        f"by twins GL is significantly above {NEGLIGIBLE} for {twins} of {len(lines)} networks, by "
        f"trees for {trees}; at most {loss(highest).value:.4f} ({highest.name})"
    )
    text = "Most networks have a substantial grouping loss under shift"
    return Statement(text, f"{DATA}, {MERGED}", count, by_share(twins, len(lines)))


def next_to_none(lines: Sequence[Line]) -> Statement:
    """Count the networks whose grouping loss without shift may be as small as in the paper."""
    own = [line for line in lines if learned(line)]
    trees = sum(line.gl.low is None or line.gl.low <= NEGLIGIBLE for line in own)
    twins = sum((loss(line).low or 0) <= NEGLIGIBLE for line in own)
    values = [loss(line).value for line in own]
    count = (
        f"of {len(own)} networks trained on such images, GL is not significantly above {NEGLIGIBLE} "
        f"for {trees} by trees and for {twins} by twins, which find {min(values):z.4f} to "
        f"{max(values):.4f}"
    )
    both = [by_share(n, len(own)) for n in (trees, twins)]
    verdict = HOLDS if both == [HOLDS, HOLDS] else NOT if both == [NOT, NOT] else IN_PART
    return Statement(
        "Without shift, there is almost no grouping loss", f"{DATA}, {CLEAN}", count, verdict
    )


def more_accurate(lines: Sequence[Line], part: str) -> Statement:
    """Measure whether more accurate networks have a larger grouping loss."""
    twins = _by_accuracy(lines)
    trees = rank_correlation([line.accuracy for line in lines], [line.gl.value for line in lines])
    count = f"rank correlation {twins} by twins and {trees} by trees ({len(lines)} networks)"
    own = [line for line in lines if learned(line)]
    if len(own) < len(lines):
        count += f"; without zero-shot networks {_by_accuracy(own)} by twins"
    return Statement(
        "More accurate networks have a larger grouping loss", f"{DATA}, {part}", count, by_order(twins)
    )


def _by_accuracy(lines: Sequence[Line]) -> Correlation:
    return rank_correlation([line.accuracy for line in lines], [loss(line).value for line in lines])


def mixture(single: Mapping[str, Mapping[str, Estimate]]) -> Statement:
    """Count the corruptions with a larger mean loss than the mixture, with as many images."""
    means = {
        part: float(np.mean([one.value for one in known.values()])) for part, known in single.items()
    }
    mixed = means.pop(MERGED)
    means.pop(CLEAN)
    higher = sorted((part for part in means if means[part] > mixed), key=lambda part: -means[part])
    names = ", ".join(part.replace("_", " ") for part in higher[:4])
    count = (
        f"with as many images each, the mean over networks, by twins, is above that of the mixture "
        f"({mixed:.4f}) for {len(higher)} of {len(means)} corruptions"
        + (f", most for {names}" if names else "")
    )
    verdict = by_share(len(higher), len(means))
    return Statement(
        "A single corruption shows a larger loss than the mixture", f"{DATA}, each", count, verdict
    )


def comparable(lines: Sequence[Line]) -> Statement:
    """Count the pairs of networks of similar accuracy whose grouping losses differ."""
    near = [
        (one, other)
        for one, other in combinations(lines, 2)
        if abs(one.accuracy - other.accuracy) <= COMPARABLE
    ]
    apart = [pair for pair in near if not overlap(*(loss(line) for line in pair))]
    count = (
        f"of {len(near)} pairs within {100 * COMPARABLE:.0f} points of accuracy, {len(apart)} have "
        "intervals that do not overlap"
    )
    if apart:
        widest = max(apart, key=lambda pair: abs(loss(pair[0]).value - loss(pair[1]).value))
        names = " and ".join(
            f"{line.name} {loss(line).value:.4f} at {line.accuracy:.1%}" for line in widest
        )
        count += f"; widest: {names}"
    text = "Networks of comparable accuracy can differ"
    return Statement(text, f"{DATA}, {MERGED}", count, HOLDS if apart else NOT)


def group_claims(known: Sequence[Known]) -> list[Statement]:
    """Return what known groups explain of the loss that features explain."""
    there = [one for one in known if (one.groups.low or 0) > 0]
    seen = [one for one in known if (one.both.low or 0) > 0]
    shares = [one.groups.value / one.both.value for one in seen]
    explained = sum(share >= HALF for share in shares)
    data = f"{DATA}, {MERGED}"
    count = (
        f"the corruption alone explains a loss significantly above 0 for {len(there)} of {len(known)} "
        "networks"
    )
    return [
        Statement("Known groups differ at equal scores", data, count, by_share(len(there), len(known))),
        Statement(
            "Known groups explain what features find",
            data,
            f"the corruption alone explains {_range(shares)} of what it explains together with the "
            f"features, half or more for {explained} of {len(seen)} networks",
            by_share(explained, len(seen)) if seen else NOT,
        ),
    ]


def _range(shares: Iterable[float]) -> str:
    known = list(shares)
    return f"{min(known):.0%} to {max(known):.0%}" if known else "nothing"
