"""Positions of bars, whiskers and the smooth calibration curve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from epiloss._typing import Floats
from epiloss.auditing.result import Audit
from epiloss.estimate import Estimate
from epiloss.number_format import loss_spec
from epiloss.presentation.axes import reach_to
from epiloss.presentation.report.wording import LEDGER, grouping_title, interval, number
from epiloss.table import Table

_WIDE = 1000.0  # width of the view box of a bar
LOSSES = ("calibration_loss", "grouping_loss")


@dataclass(frozen=True)
class Bar:
    """A bar with its whisker, in units of a view box that is 1,000 wide."""

    kind: str
    start: float
    width: float
    low: float | None = None
    high: float | None = None
    zero: float = 0.0
    mark: float | None = None  # the threshold from which losses matter


@dataclass(frozen=True)
class Line:
    """A line of the ledger: its title, and for each audit the number, the interval and the bar.

    ``below`` has, for each audit, a note to show below the number; it may be empty.
    """

    title: str
    hint: str
    cells: list[tuple[str, str, Bar | None]]
    below: tuple[str, ...] = ("", "")


@dataclass(frozen=True)
class Curve:
    """The calibration curve and its band as paths in a square, with y pointing downwards."""

    line: Markup
    band: Markup
    half: str  # tick labels in the middle and at the end of both axes
    end: str


def ledger_lines(audit: Audit) -> list[Line]:
    """Return the lines of the ledger; the bar of each part begins where the previous one ends."""
    columns = [audit] if audit.recalibrated is None else [audit, audit.recalibrated]
    parts = [name for name, *_ in LEDGER if name != "score"]
    # The scale ignores infinite values, so that finite parts still have bars.
    scale = _Scale.of([getattr(one, name) for one in columns for name, *_ in LEDGER])
    starts = [_starts([getattr(one, name) for name in parts]) for one in columns]
    lines, spec = [], loss_spec(*(one.score.value for one in columns))
    for name, title, hint in LEDGER:
        cells = []
        for one, start in zip(columns, starts, strict=True):
            estimate = getattr(one, name)
            bar = scale.bar(estimate, name, 0.0 if name == "score" else start[parts.index(name)])
            cells.append((number(estimate.value, spec), interval(estimate, spec), bar))
        below = ("", "")
        if name == "grouping_loss":
            title = f"+ {grouping_title(audit)}"
            below = (_detectable(columns[0], spec), _detectable(columns[-1], spec))
        lines.append(Line(title, hint, cells, below))
    if audit.irreducible_loss is not None:
        measured = audit.irreducible_loss
        cells = [(number(measured.value, spec), interval(measured, spec), None)]
        lines.append(Line("(irreducible loss)", "noise that no model can remove, measured", cells))
    return lines


def _detectable(audit: Audit, spec: str) -> str:
    """Return the smallest detectable grouping loss in words, if it is known."""
    loss = audit.smallest_detectable
    return "" if loss is None else f"smallest detectable {number(loss, spec)}"


def loss_bars(
    audits: Sequence[tuple[str, Audit]], matters: float | None = None
) -> list[tuple[str, list[tuple[str, str, str, Bar | None]]]]:
    """Return bars of the calibration and grouping loss of each named audit, on one scale.

    Each bar has a title, a number and an interval; losses after recalibration follow those before it.
    """
    every = [version for _, one in audits for version in _versions(one)]
    estimates = [getattr(one, loss) for _, one in every for loss in LOSSES]
    scale = _Scale.of(estimates, matters)
    rows, spec = [], loss_spec(*(one.score.value for _, one in every))
    for name, one in audits:
        bars = []
        for loss in LOSSES:
            title = "calibration loss" if loss == "calibration_loss" else grouping_title(one)
            for when, version in _versions(one):
                estimate = getattr(version, loss)
                text = title if when == "before" else "after recalibration"
                bar = scale.bar(estimate, f"{loss} {when}")
                bars.append((text, number(estimate.value, spec), interval(estimate, spec), bar))
        rows.append((name, bars))
    return rows


def difference_bars(differences: Sequence[Estimate], kinds: Sequence[str]) -> list[Bar | None]:
    """Return a bar for each difference, all on one scale; ``kinds`` determine the colours."""
    scale = _Scale.of(differences)
    return [scale.bar(one, kind) for one, kind in zip(differences, kinds, strict=True)]


def smooth_curve(table: Table) -> Curve:
    """Return the smooth calibration curve as paths."""
    score, rate, low, high = (table[name] for name in ("score", "rate", "low", "high"))
    reach = reach_to(max(float(score.max()), float(rate.max())))
    there, back = _points(score, high, reach), _points(score[::-1], low[::-1], reach)
    line, band = "L".join(_points(score, rate, reach)), "L".join([*there, *back])
    return Curve(Markup(f"M{line}"), Markup(f"M{band}Z"), f"{reach / 2:g}", f"{reach:g}")


def _points(score: Floats, rate: Floats, reach: float) -> list[str]:
    x, y = 200 * score / reach, 200 - 200 * np.minimum(rate / reach, 1.0)
    return [f"{a:.2f} {b:.2f}" for a, b in zip(x, y, strict=True)]


def _versions(audit: Audit) -> list[tuple[str, Audit]]:
    again = audit.recalibrated
    return [("before", audit), *([] if again is None else [("after", again)])]


def _starts(parts: Sequence[Estimate]) -> list[float]:
    values = [max(part.value, 0.0) if math.isfinite(part.value) else 0.0 for part in parts]
    return [0.0, *np.cumsum(values)[:-1].tolist()]


@dataclass(frozen=True)
class _Scale:
    """Maps losses to positions in the view box of a bar."""

    low: float
    high: float
    mark: float | None = None

    @classmethod
    def of(cls, estimates: Iterable[Estimate], mark: float | None = None) -> _Scale:
        """Return a scale that contains 0 and all finite values and whiskers."""
        ends = [0.0] if mark is None else [0.0, mark]
        for estimate in estimates:
            ends += [
                end
                for end in (estimate.value, estimate.low, estimate.high)
                if end is not None and math.isfinite(end)
            ]
        margin = 0.02 * (max(ends) - min(ends)) or 1.0
        return cls(min(ends) - (margin if min(ends) < 0 else 0.0), max(ends) + margin, mark)

    def bar(self, estimate: Estimate, kind: str, start: float = 0.0) -> Bar | None:
        """Return the bar of an estimate that begins at ``start``; None if it is not finite."""
        if not math.isfinite(estimate.value):
            return None
        ends = sorted((self.at(start), self.at(start + estimate.value)))
        whisker = [
            None if end is None or not math.isfinite(end) else self.at(start + end)
            for end in (estimate.low, estimate.high)
        ]
        mark = None if self.mark is None else self.at(self.mark)
        width = round(max(ends[1] - ends[0], 1.5), 2)
        return Bar(kind, ends[0], width, whisker[0], whisker[1], self.at(0.0), mark)

    def at(self, value: float) -> float:
        place = _WIDE * (value - self.low) / (self.high - self.low)
        return round(min(max(place, 0.0), _WIDE), 2)
