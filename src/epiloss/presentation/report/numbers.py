"""Familiar metrics as a table: accuracy, AUC and calibration errors, with their noise floors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from epiloss.auditing.result import Audit
from epiloss.metrics.result import Metric
from epiloss.presentation.report.wording import interval, number

_DIGITS = 4
_ACRONYMS = ("auc", "ece", "ici", "e50", "e90")
_KEY = ("accuracy", "auc", "brier_skill_score", "ece_equal_width")  # also at the top of the page


@dataclass(frozen=True)
class MetricRow:
    """One metric as text; ``is_chance`` says whether a calibrated model could show this value."""

    title: str
    value: str
    interval: str
    floor: str
    is_chance: bool
    is_key: bool = False


@dataclass(frozen=True)
class MetricTable:
    """The metrics, the probability that they evaluate, and notes on what was left out."""

    subject: str
    rows: list[MetricRow]
    notes: list[str]

    @property
    def key_rows(self) -> list[MetricRow]:
        """The rows that are also shown at the top of the page."""
        return [row for row in self.rows if row.is_key]

    @property
    def has_floors(self) -> bool:
        """Whether any metric has a noise floor."""
        return any(row.floor for row in self.rows)


def metric_table(audit: Audit) -> MetricTable | None:
    """Return the metrics of an audit; None if its rows were not kept."""
    found = audit.metrics
    if not len(found):
        return None
    reasons: dict[str, list[str]] = {}
    for name, reason in found.left_out.items():
        reasons.setdefault(reason, []).append(_in_words(name))
    left = [f"Left out: {', '.join(names)} ({reason})." for reason, names in reasons.items()]
    rows = [replace(_row(one), is_key=name in _KEY) for name, one in found.items()]
    return MetricTable(found.subject, rows, [*left, *found.notes])


def _in_words(name: str) -> str:
    """Return the name of a metric in words, with acronyms in capitals.

    Examples
    --------
    >>> _in_words("smooth_ece"), _in_words("calibration_slope")
    ('smooth ECE', 'calibration slope')
    """
    words = name.split("_")
    return " ".join(word.upper() if word in _ACRONYMS else word for word in words)


def _row(one: Metric) -> MetricRow:
    spec = spec_of(one.value)
    floor, is_chance = "", False
    if one.floor is not None:
        floor, is_chance = number(one.floor.value, spec), one.value <= one.floor.high
    return MetricRow(one.title, number(one.value, spec), interval(one.estimate, spec), floor, is_chance)


def spec_of(value: float) -> str:
    """Return a format with at most four digits, and at most four decimals.

    Examples
    --------
    >>> [format(value, spec_of(value)) for value in (0.91237, 12.3456, 0.00042)]
    ['0.9124', '12.35', '0.0004']
    """
    before = len(str(int(abs(value)))) if 1 <= abs(value) < math.inf else 0
    return f"z.{max(_DIGITS - before, 0)}f"
