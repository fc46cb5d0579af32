"""The audit in one sentence: fine as it is, recalibrate, repair by region, or too little data to tell.

A loss matters if it is at least ``tolerance`` times the score of knowing nothing but the base rate: by
default 1%, which for a balanced binary task and the Brier score is 0.0025, or probabilities that are
off by 5 points. A loss is *there* if its interval lies above 0, and *too small* if it lies below what
matters; the grouping loss only if the interval of what the regions explain does so too, for either bound
may have missed what the other would find. With the grouping loss first, as recalibration cannot undo it:

========================  ========================  ===================================
grouping loss             calibration loss          verdict
========================  ========================  ===================================
there, and matters        any                       repair by region, or retrain
too small                 there, and matters        recalibrate
too small                 too small                 fine as it is
unclear                   there, and matters        recalibrate; the rest needs more rows
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
from epiloss.results import Audit, Estimate

if TYPE_CHECKING:
    from epiloss.results import Table

TOLERANCE = 0.01
_MOST_FACTOR, _FEW_ROWS = 1e4, 100
_LEARNED = 100  # rows times loss over score: ten standard errors to one who knows where to look
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


def verdict(audit: Audit, tolerance: float = TOLERANCE) -> Verdict:
    """Return the verdict on an audit by the table above."""
    matters = tolerance * audit.uninformed
    grouping, calibration = (
        _state(loss, matters) for loss in (audit.grouping_loss, audit.calibration_loss)
    )
    if grouping == "small" and _may_be_more(audit, matters):
        grouping = "unclear"
    off = _points(audit.grouping_loss, audit)
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
            "that is all that these features show"
            if grouping == "small"
            else "whether groups of rows are then still misjudged needs more rows to tell"
        )
        return Verdict(
            RECALIBRATE,
            f"Recalibrate: {_points(audit.calibration_loss, audit)} by scores that are wrong on "
            f"average; {rest}.",
            matters,
            None if grouping == "small" else _rows_needed([audit.grouping_loss], matters, audit),
        )
    if grouping == calibration == "small":
        return Verdict(
            FINE,
            "Fine as it is: as far as these features can show, what the probabilities are off by is too "
            "small to matter.",
            matters,
        )
    if calibration == "small" and _untested(audit):
        why = (
            "more cannot be told: without features or groups there is nothing to look for "
            "misjudged rows in"
            if audit.options["partition"] == "level set"
            else "more was not tested: no level set has two groups of enough rows to compare"
        )
        return Verdict(UNCLEAR, f"Right on average, and {why}.", matters)
    return _unclear(audit, grouping, calibration, matters)


def _unclear(audit: Audit, grouping: str, calibration: str, matters: float) -> Verdict:
    """Return that there is too little data, and how much would tell."""
    losses = [
        loss
        for loss, state in ((audit.grouping_loss, grouping), (audit.calibration_loss, calibration))
        if state == "unclear"
    ]
    rows = _rows_needed(losses, matters, audit)
    wanted = "" if rows is None else f"; about {rows:,} rows would tell"
    return Verdict(
        UNCLEAR,
        f"Too little data to tell whether the probabilities are off by enough to matter{wanted}.",
        matters,
        rows,
    )


def _may_be_more(audit: Audit, matters: float) -> bool:
    """Tell whether few rows, or what the regions explain, leave room for a loss that matters."""
    regions = audit.partition_bound
    beyond = regions.high is not None and regions.high >= matters
    measured = audit.irreducible_loss is not None  # from several labels a row, no bound
    few = audit.n_samples < _learnable_from(audit, matters)
    return not measured and (beyond or few or _untested(audit))


def _learnable_from(audit: Audit, matters: float) -> float:
    """Return from how many rows a loss that matters is learned, most often; known groups need none."""
    known = audit.options["partition"] in ("groups", "level set")
    return 0.0 if known or not matters > 0 else _LEARNED * audit.score.value / matters


def _untested(audit: Audit) -> bool:
    """Tell whether no level set was split, and nothing without bins was found either."""
    split = len(audit.level_sets) and bool((audit.level_sets["n_regions"] > 1).any())
    return not split and audit.crossfit_bound is None and audit.irreducible_loss is None


def _state(loss: Estimate, matters: float) -> str:
    """Return whether a loss is large, small, or unclear by its interval."""
    if loss.low is None or loss.high is None:
        return "large" if loss.value >= matters else "unclear"
    if loss.high < matters:
        return "small"
    is_there = loss.low > 0 if loss.pvalue is None else loss.pvalue <= 0.05
    return "large" if is_there and loss.value >= matters else "unclear"


def _rows_needed(losses: list[Estimate], matters: float, audit: Audit) -> int | None:
    """Return how many rows would end what is unclear, were the losses what they seem to be.

    The interval must then lie above 0, or below what matters: whichever is nearer to be reached.
    """
    factor = 1.0
    for loss in losses:
        if loss.stderr is None or not loss.stderr > 0:
            return None
        distance = max(loss.value, matters - loss.value, matters / 4)
        factor = max(factor, (2 * loss.stderr / distance) ** 2)
    if any(loss is audit.grouping_loss for loss in losses):
        factor = max(factor, _learnable_from(audit, matters) / audit.n_samples)
    if not factor <= _MOST_FACTOR or audit.n_samples < _FEW_ROWS:
        return None  # from so little, no number is worth telling
    needed = 1.2 * factor * audit.n_samples  # a little more, for chance
    step = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
    return int(math.ceil(needed / step) * step)


def _points(loss: Estimate, audit: Audit) -> str:
    """Say a loss in words: for the Brier score its root is an error of probabilities."""
    value = max(loss.value, 0.0)
    if audit.rule == "brier" and audit.task in ("binary", "top-label"):
        return f"probabilities are off by {100 * math.sqrt(value):.0f} points (root mean square)"
    return f"{value:.4f} of the score is lost"


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
    digits = 2
    while digits < 5 and f"{rate:.{digits}f}" == f"{expected:.{digits}f}":
        digits += 1
    text = f"scored {score:.{digits}f}, in truth {rate:.{digits}f}"
    if abs(score - expected) <= abs(rate - expected) / 2:
        return text
    return f"{text}, all with such scores {expected:.{digits}f}"
