"""The paper's statements about its networks, counted in its printed values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from published_values import (
    DIGIT,
    MERGED,
    RENDITIONS,
    SHIFTED,
    SNOW,
    VALIDATION,
    YAHOO,
    Printed,
    printed,
    printed_on,
    printed_topics,
)
from study_verdicts import (
    HALF,
    HOLDS,
    LARGE,
    LEVEL,
    MOST,
    NEAR,
    NOT,
    RATIO,
    ROUNDING,
    SMALL,
    Correlation,
    Statement,
    by_change,
    by_order,
    by_share,
    rank_correlation,
)

RULES = (
    "These limits are ours, set after looking at the tables; the paper gives none. A count *holds* if "
    f"it is at least {MOST:.0%} of the networks and *holds in part* if it is at least {HALF:.0%}. That "
    f"there is no change holds up to {SMALL:.0%} of the mean GL, and in part up to {LARGE:.0%}. A rank "
    f"correlation (Spearman's) holds if it is positive with a two-sided p-value below {LEVEL:.0%}. "
    "That networks *can* differ holds if one pair does. The networks "
    "share images and families, so the p-values are approximate."
)


def statements() -> list[Statement]:
    """Return the paper's statements with their counts, in the order of its argument."""
    return [
        removed(),
        *(left(name) for name in SHIFTED),
        *(more_than_clean(name) for name in SHIFTED),
        substantial(),
        next_to_none(),
        *(more_accurate(name) for name in SHIFTED),
        one_corruption(),
        comparable(),
        *topics(),
    ]


def removed() -> Statement:
    """Count the rows without calibration loss after recalibration."""
    rows = printed()
    n = sum(one.cl_after <= DIGIT + ROUNDING for one in rows)
    before, after = (float(np.mean([getattr(one, name) for one in rows])) for name in ("cl", "cl_after"))
    count = (
        f"CL' is at most {DIGIT} in {n} of {len(rows)} rows; the mean falls from {before:.4f} to "
        f"{after:.4f}"
    )
    return Statement("Recalibration removes the calibration loss", "all", count, by_share(n, len(rows)))


def left(data_set: str) -> Statement:
    """Measure how much recalibration changes the grouping loss."""
    rows = list(printed_on(data_set).values())
    gl, after = (np.array([getattr(one, name) for one in rows]) for name in ("gl", "gl_after"))
    change, size = float(np.abs(after - gl).mean()), float(gl.mean())
    largest = rows[int(np.abs(after - gl).argmax())]
    count = (
        f"mean absolute change {change:.4f}, {change / size:.0%} of the mean GL of {size:.4f} (mean GL' "
        f"{after.mean():.4f}); largest {largest.gl_after - largest.gl:+.3f} ({largest.model}); rank "
        f"correlation of GL and GL' {rank_correlation(gl.tolist(), after.tolist()).rho:.2f}"
    )
    text = "Recalibration does not change the grouping loss"
    return Statement(text, data_set, count, by_change(change, size))


def more_than_clean(data_set: str) -> Statement:
    """Count the networks with a larger grouping loss than on the images they were trained for."""
    pairs = list(both(VALIDATION, data_set))
    n = sum(clean.gl < shifted.gl for clean, shifted in pairs)
    count = f"GL is larger than on {VALIDATION} for {n} of {len(pairs)} networks"
    return Statement("The grouping loss is larger under shift", data_set, count, by_share(n, len(pairs)))


def substantial() -> Statement:
    """Count the networks above the largest grouping loss of any network without shift."""
    limit = max(one.gl for one in printed_on(VALIDATION).values())
    rows = printed_on(RENDITIONS).values()
    n = sum(one.gl > limit for one in rows)
    highest = max(rows, key=lambda one: one.gl)
    count = (
        f"GL is above {limit:.3f}, the largest of any network on {VALIDATION}, for {n} of {len(rows)} "
        f"networks; at most {highest.gl:.3f} ({highest.model})"
    )
    text = "Most networks have a substantial grouping loss"
    return Statement(text, RENDITIONS, count, by_share(n, len(rows)))


def next_to_none() -> Statement:
    """Count the networks with almost no grouping loss without shift."""
    rows = printed_on(VALIDATION).values()
    limit = 3 * DIGIT
    n = sum(abs(one.gl) <= limit + ROUNDING for one in rows)
    low, high = min(one.gl for one in rows), max(one.gl for one in rows)
    count = f"GL is within ±{limit:.3f} for {n} of {len(rows)} networks, from {low:.3f} to {high:.3f}"
    return Statement(
        "Without shift, there is almost no grouping loss", VALIDATION, count, by_share(n, len(rows))
    )


def more_accurate(data_set: str) -> Statement:
    """Measure whether more accurate networks have a larger grouping loss."""
    found = accuracy_correlation(data_set)
    text = "More accurate networks have a larger grouping loss"
    return Statement(text, data_set, f"rank correlation {found}", by_order(found))


def accuracy_correlation(data_set: str) -> Correlation:
    """Return the rank correlation of accuracy and grouping loss over the networks."""
    rows = printed_on(data_set).values()
    return rank_correlation([one.accuracy for one in rows], [one.gl for one in rows])


def one_corruption() -> Statement:
    """Count the networks with a larger grouping loss on snow than on 19 corruptions mixed."""
    pairs = list(both(MERGED, SNOW))
    n = sum(snow.gl > merged.gl for merged, snow in pairs)
    less = [snow.model for merged, snow in pairs if snow.gl < merged.gl]
    means = [float(np.mean([one.gl for one in column])) for column in zip(*pairs, strict=True)]
    count = (
        f"GL is larger on snow for {n} of {len(pairs)} networks, smaller for {len(less)} "
        f"({', '.join(less)}); means {means[0]:.4f} and {means[1]:.4f}"
    )
    text = "Snow alone shows a larger loss than 19 corruptions mixed"
    return Statement(text, "ImageNet-C", count, by_share(n, len(pairs)))


def comparable() -> Statement:
    """Count the pairs of networks of similar accuracy whose grouping losses differ."""
    rows = printed_on(RENDITIONS).values()
    pairs = [
        (one, other)
        for one, other in combinations(rows, 2)
        if abs(one.accuracy - other.accuracy) <= NEAR + ROUNDING
    ]
    n = sum(differ(*pair) for pair in pairs)
    widest = max(pairs, key=lambda pair: abs(pair[0].gl - pair[1].gl))
    count = (
        f"of {len(pairs)} pairs within {100 * NEAR:.0f} point of accuracy, {n} have losses that differ "
        f"by a factor of {RATIO} or more; widest: "
        f"{' and '.join(f'{one.model} {one.gl:.3f}' for one in widest)}"
    )
    text = "Networks of comparable accuracy can differ"
    return Statement(text, RENDITIONS, count, HOLDS if n else NOT)


def differ(one: Printed, other: Printed) -> bool:
    """Return whether one grouping loss is at least ``RATIO`` times the other."""
    low, high = sorted((one.gl, other.gl))
    return high >= RATIO * low - ROUNDING


def topics() -> Iterator[Statement]:
    """Yield the statements on BART on seen and unseen topics."""
    seen, unseen = printed_topics("seen"), printed_topics("unseen")
    count = f"GL {seen.gl:.3f} on seen and {unseen.gl:.3f} on unseen topics"
    more = HOLDS if unseen.gl > seen.gl else NOT
    yield Statement("The grouping loss of BART is larger on topics it has not seen", YAHOO, count, more)
    change = abs(unseen.gl_after - unseen.gl)
    count = f"GL {unseen.gl:.3f}, GL' {unseen.gl_after:.3f} on unseen topics"
    yield Statement("Recalibration does not change it", YAHOO, count, by_change(change, unseen.gl))


def both(first: str, second: str) -> Iterator[tuple[Printed, Printed]]:
    """Yield the networks' rows of two data sets."""
    one, other = printed_on(first), printed_on(second)
    assert one.keys() == other.keys()
    return ((one[model], other[model]) for model in one)
