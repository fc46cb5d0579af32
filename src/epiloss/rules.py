"""Regions in words: the splits that lead to a region, simplified to one condition for each feature."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epiloss.features import Features
from epiloss.moments import DATE, MOMENT, TIME

_DIGITS = 4  # that a threshold is shown with, and more only where two would look alike
_UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}  # of durations, in seconds


@dataclass(frozen=True)
class Step:
    """One split on the way to a region.

    A number goes left if it is at most ``threshold``, a category if it is that one; a threshold of
    NaN stands for the category "missing".
    """

    feature: int
    is_category: bool
    threshold: float
    left: bool
    missing_left: bool


@dataclass(frozen=True)
class Condition:
    """What a region asks of one feature: a range of numbers, or one or none of some categories.

    ``missing`` is True where rows without a number belong to the region, and None where every row
    has one; of categories, "missing" is one more.
    """

    feature: int
    name: str
    low: float = -math.inf
    high: float = math.inf
    only: str | None = None
    never: tuple[str, ...] = ()
    missing: bool | None = None
    dtype: str = ""

    def __str__(self) -> str:
        if self.only is not None:
            return f"{self.name} is {self.only}"
        if self.never:
            return f"{self.name} is not {' or '.join(self.never)}"
        return f"{self._range()} or missing" if self.missing else self._range()

    def _range(self) -> str:
        if self.dtype == "bool":
            return f"{self.name} is {'true' if math.isfinite(self.low) else 'false'}"
        low, high = _shown(self.low, self.high, self.dtype)
        if not math.isfinite(self.high):
            return f"{self.name} > {low}"
        return f"{low} < {self.name} <= {high}" if math.isfinite(self.low) else f"{self.name} <= {high}"


@dataclass(frozen=True)
class Rule:
    """The conditions that all rows of a region meet, the first split's first.

    Examples
    --------
    >>> features = Features.read({"age": [30.0, 52.0], "city": ["Rome", "Oslo"]})
    >>> steps = [Step(0, False, 47.5, left=False, missing_left=False),
    ...          Step(1, True, 1.0, left=False, missing_left=False)]
    >>> rule = rule_of(steps, features)
    >>> str(rule), rule.holds(features).tolist()
    ('age > 47.5 and city is not Rome', [False, True])
    """

    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions)) or "all of it"

    def holds(self, features: Features) -> NDArray[np.bool_]:
        """Tell which rows meet the rule."""
        inside = np.ones(features.n_rows, bool)
        for step in self.steps:
            values = features.column(step.feature)
            missing = np.isnan(values)
            if step.is_category:
                left = missing if math.isnan(step.threshold) else values == step.threshold
            else:
                left = np.where(missing, step.missing_left, values <= step.threshold)
            inside &= left if step.left else ~left
        return inside


@dataclass
class Wording:
    """How rules name the features, and which of these have missing values; found out once."""

    features: Features
    _has_missing: dict[int, bool] = field(default_factory=dict)

    def has_missing(self, feature: int) -> bool:
        """Tell whether any row lacks a value."""
        if feature not in self._has_missing:
            self._has_missing[feature] = self.features.has_missing(feature)
        return self._has_missing[feature]

    def rule(self, steps: Iterable[Step]) -> Rule:
        """Return the rule of a path, with no redundant bound."""
        path = tuple(steps)
        conditions: dict[int, Condition] = {}
        for step in path:
            known = conditions.get(step.feature) or self._anything(step.feature)
            conditions[step.feature] = self._narrowed(known, step)
        return Rule(path, tuple(conditions.values()))

    def _anything(self, feature: int) -> Condition:
        is_category = feature in self.features.categories
        missing = None if is_category or not self.has_missing(feature) else True
        name, dtype = self.features.names[feature], self.features.dtypes.get(feature, "")
        return Condition(feature, name, missing=missing, dtype=dtype)

    def _narrowed(self, known: Condition, step: Step) -> Condition:
        stays = None if known.missing is None else known.missing and step.missing_left == step.left
        if not step.is_category:
            if step.left:
                return replace(known, high=min(known.high, step.threshold), missing=stays)
            return replace(known, low=max(known.low, step.threshold), missing=stays)
        levels = self.features.categories[step.feature]
        name = "missing" if math.isnan(step.threshold) else levels[int(step.threshold)]
        if step.left:
            return replace(known, only=name)
        return replace(known, never=(*known.never, name))


def rule_of(steps: Sequence[Step], features: Features) -> Rule:
    """Return the rule of one path."""
    return Wording(features).rule(steps)


def _shown(low: float, high: float, dtype: str) -> tuple[str, str]:
    """Return both ends in few digits, and in more where these would look alike."""
    for digits in range(_DIGITS, 18):
        ends = tuple(
            shown_number(end, dtype, digits) if math.isfinite(end) else "" for end in (low, high)
        )
        if ends[0] != ends[1]:
            break
    return ends[0], ends[1]


def shown_number(value: float, dtype: str = "", digits: int = _DIGITS) -> str:
    """Return a number in so many digits, rounded down: at most 2.5 is at most 2 for whole numbers.

    Examples
    --------
    >>> shown_number(47.5), shown_number(21_300.5), shown_number(0.012345), shown_number(-2.5)
    ('47.5', '21,300', '0.01234', '-2.5')
    >>> shown_number(1.7e9, "datetime64[s]"), shown_number(3.2e-9)
    ('2023-11-14T22:13:20', '3.2e-09')
    >>> shown_number(1.27e11, "timedelta64[us]"), shown_number(5.4e9, "time")
    ('1.469 days', '01:30:00')
    """
    if dtype.startswith("timedelta64"):
        seconds = np.array(1, f"m8[{dtype[12:-1]}]") / np.timedelta64(1, "s")
        return _duration(float(value * seconds), digits)
    if dtype.startswith("datetime64") or dtype in (DATE, TIME):
        return _plain_time(value, dtype)
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    down = math.floor(value * 10.0**places) / 10.0**places
    text = f"{down:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _duration(seconds: float, digits: int) -> str:
    """Return a duration in the largest unit of which it has one."""
    unit, size = next(
        ((name, size) for name, size in _UNITS.items() if abs(seconds) >= size), ("second", 1)
    )
    number = shown_number(seconds / size, digits=digits)
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


def _plain_time(value: float, dtype: str) -> str:
    """Return a moment, its day or its time of day, without a fraction that is nil."""
    ticks = np.array(math.floor(value), np.int64)
    if dtype == DATE:
        return str(ticks.view(MOMENT).astype("datetime64[D]"))
    text = str(ticks.view(MOMENT if dtype == TIME else dtype))
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.partition("T")[2] if dtype == TIME else text.removesuffix("T00:00:00")
