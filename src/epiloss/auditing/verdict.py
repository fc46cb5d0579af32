"""The audit in one sentence: fine as it is, recalibrate, repair by region, or too little data to tell.

A loss matters if it is at least ``tolerance`` times the score of knowing nothing but the base rate:
by default 1%, which for a balanced binary task and the Brier score is 0.0025, or probabilities that
are off by 5 points. A loss is *there* if its test, or its interval, tells it from 0; *large* if it
is there and its estimate matters; and *too small* if its interval lies below what matters. The
grouping loss is estimated with and without bins, and either may miss what the other finds. It is
large if the one that leads is, or if the interval of what the regions explain lies above what
matters, with p <= 0.025. It is too small only if both intervals lie below what matters, and there
are rows enough to learn from. All else is unclear. By the log-loss the number without bins decides
alone, where there is one, as regions explain too much of rare outcomes; where there is none,
regions need two of the rarer labels each. With the grouping loss first, as recalibration cannot
undo it:

========================  ========================  ===================================
grouping loss             calibration loss          verdict
========================  ========================  ===================================
large                     any                       repair by region, or retrain
too small                 large                     recalibrate
too small                 too small                 fine as it is
unclear                   large                     recalibrate; the rest needs more rows
not looked for            too small                 right on average; pass features to tell more
not tested                too small                 right on average; no groups of enough rows
otherwise                                           too little data to tell
========================  ========================  ===================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from epiloss.errors import printable
from epiloss.estimate import Estimate
from epiloss.input.problem import RegionSource
from epiloss.number_format import digits_of, loss_spec, rate_spec

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit
    from epiloss.table import Table

_MOST_FACTOR, _FEW_ROWS = 1e4, 100
_LEARNED = 100  # rows times loss over score: ten standard errors to one who knows where to look
LABELS_PER_REGION, LABELS_ENOUGH = 2, 5  # of the rarer kind, below which entropies have a bias
_SURE = 0.025  # the p-value of the bound that does not lead, as it is a second chance to find a loss
FINE, RECALIBRATE, REPAIR, UNCLEAR = "fine", "recalibrate", "repair", "unclear"


@dataclass(frozen=True)
class Verdict:
    """What to do, in a word and in a sentence; ``rows`` is how many would tell, where it is unclear."""

    kind: str
    sentence: str
    matters: float
    rows: int | None = None

    def __str__(self) -> str:
        return self.sentence


def verdict(audit: Audit) -> Verdict:
    """Return the verdict on an audit by the table above."""
    matters = audit.options["tolerance"] * audit.uninformed
    grouping, bound = _grouping(audit, matters)
    calibration = _state(audit.calibration_loss, matters)
    off = _points(bound, audit)
    if grouping == "large":
        also = " (and recalibrate)" if calibration == "large" else ""
        return Verdict(
            REPAIR,
            f"Repair by region or retrain{also}: {off} even where the scores are right on average"
            f"{_worst(audit.worst_regions(2))}.",
            matters,
        )
    if calibration == "large":
        rest = (
            f"that is all that {_seen_by(audit)} show"
            if grouping == "small"
            else "whether groups of rows are then still misjudged needs more rows to tell"
        )
        return Verdict(
            RECALIBRATE,
            f"Recalibrate: {_points(audit.calibration_loss, audit)} by scores that are wrong on "
            f"average; {rest}.",
            matters,
            None if grouping == "small" else _rows_needed(audit, grouping, calibration, matters),
        )
    if grouping == calibration == "small":
        return Verdict(
            FINE,
            f"Fine as it is: as far as {_seen_by(audit)} can show, what the probabilities are off by is "
            "too small to matter.",
            matters,
        )
    if calibration == "small" and _untested(audit):
        why = (
            "more cannot be told: pass features or subgroups to search for groups that the model gets "
            "wrong"
            if audit.region_source is RegionSource.NONE
            else "more was not tested: no level set has two groups of enough rows to compare"
        )
        return Verdict(UNCLEAR, f"Right on average, and {why}.", matters)
    return _unclear(audit, grouping, calibration, matters)


def _unclear(audit: Audit, grouping: str, calibration: str, matters: float) -> Verdict:
    """Return that there is too little data, and how much would tell."""
    rows = _rows_needed(audit, grouping, calibration, matters)
    wanted = "" if rows is None else f"; about {rows:,} rows would tell"
    return Verdict(
        UNCLEAR,
        f"Too little data to tell whether the probabilities are off by enough to matter{wanted}.",
        matters,
        rows,
    )


def _grouping(audit: Audit, matters: float) -> tuple[str, Estimate]:
    """Return the state of the grouping loss, and the bound that decides on it."""
    state, regions = _state(audit.grouping_loss, matters), audit.partition_bound
    if _labels_per_region(audit) < LABELS_PER_REGION:
        return "unclear", audit.grouping_loss
    if state == "large" or _measured(audit):
        return state, audit.grouping_loss
    few = audit.n_samples < _learnable_from(audit, matters)
    if few or _untested(audit):
        state = "unclear"
    if _leads_alone(audit):
        return state, audit.grouping_loss
    sure = regions.pvalue is not None and regions.pvalue <= _SURE
    if sure and regions.low is not None and regions.low >= matters:
        return "large", regions
    return "unclear" if _may_exceed(regions, matters) else state, audit.grouping_loss


def _seen_by(audit: Audit) -> str:
    """Name what regions were looked for in."""
    return "these subgroups" if audit.region_source is RegionSource.SUBGROUPS else "these features"


def _measured(audit: Audit) -> bool:
    """Tell whether several labels a row have measured the grouping loss, of which there is no bound."""
    return audit.irreducible_loss is not None


def _leads_alone(audit: Audit) -> bool:
    """Tell whether one number decides: by the log-loss regions with few labels explain too much."""
    return _measured(audit) or (audit.rule == "log" and audit.without_bins is not None)


def _labels_per_region(audit: Audit) -> float:
    """Return how many of the rarer labels regions hold on average, where the log-loss rests on them."""
    if audit.rule != "log" or audit.without_bins is not None or _measured(audit):
        return math.inf
    regions = audit.regions
    if not len(regions):
        return math.inf
    ones, n = float(regions["n"] @ regions["label_mean"]), float(regions["n"].sum())
    return min(ones, n - ones) / len(regions)


def _may_exceed(loss: Estimate, matters: float) -> bool:
    return loss.high is not None and loss.high >= matters


def _learnable_from(audit: Audit, matters: float) -> float:
    """Return from how many rows a loss that matters is learned, most often; known groups need none."""
    learned = audit.region_source is RegionSource.LEARNED
    return 0.0 if not learned or not matters > 0 else _LEARNED * audit.score.value / matters


def _untested(audit: Audit) -> bool:
    """Tell whether no level set was split, and nothing without bins was found either."""
    split = len(audit.level_sets) and bool((audit.level_sets["n_regions"] > 1).any())
    return not split and audit.without_bins is None and audit.irreducible_loss is None


def _state(loss: Estimate, matters: float) -> str:
    """Return whether a loss is large, small, or unclear by its interval."""
    if loss.low is None or loss.high is None:
        return "large" if loss.value >= matters else "unclear"
    if loss.high < matters:
        return "small"
    is_there = loss.low > 0 if loss.pvalue is None else loss.pvalue <= 0.05
    return "large" if is_there and loss.value >= matters else "unclear"


def _rows_needed(audit: Audit, grouping: str, calibration: str, matters: float) -> int | None:
    """Return how many rows would end what is unclear, were the losses what they seem to be."""
    needs = []
    if grouping == "unclear":
        needs += _grouping_needs(audit, matters)
    if calibration == "unclear":
        needs.append(_times_the_rows(audit.calibration_loss, matters))
    factor = max([1.0, *needs])
    if not factor <= _MOST_FACTOR or audit.n_samples < _FEW_ROWS:
        return None  # from so little, no number is worth telling
    needed = 1.2 * factor * audit.n_samples  # a little more, for chance
    step = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
    return int(math.ceil(needed / step) * step)


def _grouping_needs(audit: Audit, matters: float) -> list[float]:
    """Return how many times the rows each of what leaves the grouping loss unclear would need."""
    leading, regions = audit.grouping_loss, audit.partition_bound
    needs = [_learnable_from(audit, matters) / audit.n_samples]
    by_regions = leading.value < matters and not _leads_alone(audit) and _may_exceed(regions, matters)
    if by_regions:
        needs.append(_times_the_rows(regions, matters, least=matters))
    if _labels_per_region(audit) < LABELS_PER_REGION:
        needs.append(LABELS_ENOUGH / max(_labels_per_region(audit), 1e-9))
    # where the regions are to find that it matters, the bound that leads need not
    if _state(leading, matters) == "unclear" and not (by_regions and regions.value >= matters):
        needs.append(_times_the_rows(leading, matters))
    return [math.inf] if _untested(audit) else needs


def _times_the_rows(loss: Estimate, matters: float, least: float = 0.0) -> float:
    """Return how many times the rows put the interval above ``least``, or below what matters.

    It must lie above where the estimate matters, and below where it does not; one that is very near
    to what matters is taken to be a standard error, or a quarter of what matters, away from it.
    """
    if loss.stderr is None or not loss.stderr > 0:
        return math.inf
    distance = loss.value - least if loss.value >= matters else matters - loss.value
    distance = max(distance, min(loss.stderr, matters / 4))
    return (2 * loss.stderr / distance) ** 2 if distance > 0 else math.inf


def _points(loss: Estimate, audit: Audit) -> str:
    """Say a loss in words: for the Brier score its root is an error of probabilities."""
    value = max(loss.value, 0.0)
    if math.isinf(value):
        return "the score is infinite"
    if audit.rule == "brier" and audit.task in ("binary", "top-label"):
        points = 100 * math.sqrt(value)
        shown = format(points, ".0f" if points >= 1 else ".1g")
        return f"probabilities are off by {shown} points (root mean square)"
    return f"{value:{loss_spec(audit.score.value, least=4)}} of the score is lost"


def _worst(table: Table) -> str:
    """Name the worst regions, where they can be told from noise."""
    told = np.flatnonzero(table["pvalue_adjusted"] <= 0.05)
    if not len(told) or "rule" not in table:
        return ""
    columns = (table["rule"], table["score_mean"], table["label_mean"], table["expected"])
    parts = [
        f"{printable(str(rule))} ({_rates(score, rate, expected)})"
        for rule, score, rate, expected in zip(*(column[told] for column in columns), strict=True)
    ]
    return ", worst where " + "; and where ".join(parts)


def _rates(score: float, rate: float, expected: float) -> str:
    """Say how a region was scored and is, and how all such rows are where the score tells that wrong."""
    digits = digits_of(rate_spec(rate, expected))
    while digits < 5 and f"{rate:.{digits}f}" == f"{expected:.{digits}f}":
        digits += 1
    text = f"scored {score:.{digits}f}, in truth {rate:.{digits}f}"
    if abs(score - expected) <= abs(rate - expected) / 2:
        return text
    return f"{text}, all with such scores {expected:.{digits}f}"
