"""Regions in words: the splits that lead to a region, simplified to one condition for each feature."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.input.datetimes import DATE, MOMENT, TIME
from epiloss.input.features import Features

_DIGITS, _MOST_DIGITS = 4, 17  # that a threshold is shown with: more only where these say another one
_MOST_ROWS = 20_000  # that a number in words is to part just as the threshold does
_RUN = 32  # of them next to each other, which are read together
_FEW = 8  # thresholds, for which it does not pay to sort
_NEAR = 2e-3  # of a threshold: twice as far as its first digits are from it
_UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}  # of durations, in seconds

Gap = tuple[float, float]  # rows' values next to a threshold, at most it and above; infinite if far
_ANYWHERE: Gap = (-math.inf, math.inf)


@dataclass(frozen=True)
class Step:
    """One split on the way to a region.

    A number goes left if it is at most ``threshold``, a category if it is that one; a threshold of
    NaN stands for the category "missing", and an infinite one parts numbers from missing values.
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
    has one; of categories, "missing" is one more. ``gaps`` are those that the two ends lie in.
    """

    feature: int
    name: str
    low: float = -math.inf
    high: float = math.inf
    only: str | None = None
    never: tuple[str, ...] = ()
    missing: bool | None = None
    dtype: str = ""
    gaps: tuple[Gap, Gap] = (_ANYWHERE, _ANYWHERE)

    def __str__(self) -> str:
        if self.only is not None:
            return f"{self.name} is {self.only}"
        if self.never:
            return f"{self.name} is not {' or '.join(self.never)}"
        if not self.low < self.high:
            return f"{self.name} is missing"
        if self.missing is False and not self._has_end:
            return f"{self.name} is not missing"
        return f"{self._range()} or missing" if self.missing else self._range()

    @property
    def in_brackets(self) -> str:
        """The condition as one of several: what has an "or" stands in brackets."""
        is_choice = len(self.never) > 1 or (bool(self.missing) and self.low < self.high)
        return f"({self})" if is_choice and self.only is None else str(self)

    @property
    def says_nothing(self) -> bool:
        """Tell whether every row meets it."""
        return self.only is None and not self.never and self.missing is not False and not self._has_end

    @property
    def _has_end(self) -> bool:
        return self.low > -math.inf or self.high < math.inf

    def _range(self) -> str:
        if self.dtype == "bool":
            return f"{self.name} is {'true' if math.isfinite(self.low) else 'false'}"
        low, high = _shown((self.low, self.high), self.gaps, self.dtype)
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
        if len(self.conditions) == 1:
            return str(self.conditions[0])
        return " and ".join(condition.in_brackets for condition in self.conditions) or "all of it"

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
    """How rules name the features, and which of these have missing values."""

    features: Features
    _has_missing: dict[int, bool] = field(default_factory=dict)

    def has_missing(self, feature: int) -> bool:
        """Tell whether any row lacks a value."""
        if feature not in self._has_missing:
            self._has_missing[feature] = self.features.has_missing(feature)
        return self._has_missing[feature]

    def rules(self, paths: Iterable[Iterable[Step]]) -> list[Rule]:
        """Return the rules of some paths, with no redundant bound."""
        found = [Rule(path, tuple(self._conditions(path))) for path in map(tuple, paths)]
        gaps = self._gaps(chain.from_iterable(rule.conditions for rule in found))
        return [
            replace(rule, conditions=tuple(_placed(one, gaps) for one in rule.conditions))
            for rule in found
        ]

    def _gaps(self, conditions: Iterable[Condition]) -> Mapping[tuple[int, float], Gap]:
        """Return the gaps of the conditions' ends, by feature and threshold."""
        ends: dict[int, set[float]] = defaultdict(set)
        for one in conditions:
            ends[one.feature].update(filter(math.isfinite, (one.low, one.high)))
        gaps: dict[tuple[int, float], Gap] = {}
        for feature, thresholds in ends.items():
            if not thresholds or self.features.dtypes.get(feature):  # these are shown to the tick
                continue
            ordered = np.array(sorted(thresholds))
            found = _gaps_among(self._some.column(feature), ordered)
            gaps |= {(feature, one): gap for one, gap in zip(ordered.tolist(), found, strict=True)}
        return gaps

    @cached_property
    def _some(self) -> Features:
        """The rows that thresholds are placed among: all, or so many, in runs evenly spread."""
        n = self.features.n_rows
        if n <= _MOST_ROWS:
            return self.features
        starts = np.linspace(0, n - _RUN, _MOST_ROWS // _RUN).astype(np.int64)
        return self.features.take((starts[:, None] + np.arange(_RUN)).ravel())

    def _conditions(self, path: Sequence[Step]) -> Iterator[Condition]:
        # learned where values were missing, whether or not any of these rows lacks one
        parted = {step.feature for step in path if math.isinf(step.threshold)}
        conditions: dict[int, Condition] = {}
        for step in path:
            known = conditions.get(step.feature) or self._anything(step.feature, parted)
            conditions[step.feature] = self._narrowed(known, step)
        return (one for one in conditions.values() if not one.says_nothing)

    def _anything(self, feature: int, parted: Collection[int]) -> Condition:
        is_category = feature in self.features.categories
        missing = True if not is_category and (feature in parted or self.has_missing(feature)) else None
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
    return Wording(features).rules([steps])[0]


def _placed(known: Condition, gaps: Mapping[tuple[int, float], Gap]) -> Condition:
    """Return a condition with the gaps of its ends."""
    low, high = (gaps.get((known.feature, end), _ANYWHERE) for end in (known.low, known.high))
    return replace(known, gaps=(low, high))


def _gaps_among(values: NDArray[Any], thresholds: Floats) -> list[Gap]:
    """Return the values next to each of the sorted thresholds, at most it and above it.

    Of few thresholds only what is near them is looked at. Where no value is known, the thresholds are
    to be told apart, and from what is farther than a hundredth of their range.

    Examples
    --------
    >>> _gaps_among(np.array([903.0, 901.0, np.nan, 902.0]), np.array([901.5, 902.0, 903.5]))
    [(901.0, 902.0), (902.0, 903.0), (903.0, inf)]
    """
    if len(thresholds) <= _FEW and not np.isnan(values).all():
        return [_gap_near(values, one) for one in thresholds]
    ordered = np.sort(values)[: np.count_nonzero(~np.isnan(values))]  # what is missing sorts last
    if not len(ordered) and len(thresholds) > 1:
        near = min(np.diff(thresholds).min() / 2, np.ptp(thresholds) / 100)
        ordered = np.sort(np.concatenate([thresholds - near, thresholds + near]))
    place = np.searchsorted(ordered, thresholds, side="right")
    ends = np.concatenate([[-math.inf], ordered, [math.inf]])
    return list(zip(ends[place].tolist(), ends[place + 1].tolist(), strict=True))


def _gap_near(values: NDArray[Any], threshold: np.float64) -> Gap:
    near = values[np.abs(values - threshold) <= _NEAR * abs(threshold)]
    below, above = near[near <= threshold], near[near > threshold]
    return float(below.max(initial=-math.inf)), float(above.min(initial=math.inf))


def _shown(ends: tuple[float, float], gaps: tuple[Gap, Gap], dtype: str) -> tuple[str, str]:
    """Return both ends in few digits, and in more where these would look alike."""
    for digits in range(_DIGITS, _MOST_DIGITS + 1):
        low, high = (
            _shown_inside(end, gap, dtype, digits) if math.isfinite(end) else ""
            for end, gap in zip(ends, gaps, strict=True)
        )
        if low != high:
            break
    return low, high


def _shown_inside(value: float, gap: Gap, dtype: str, digits: int) -> str:
    """Return a number in so many digits, or in as many as part the rows just as it does."""
    if dtype:
        return shown_number(value, dtype)  # to the tick
    for more in range(digits, _MOST_DIGITS + 1):
        text = shown_number(value, dtype, more)
        if gap[0] <= float(text.replace(",", "")) < gap[1]:
            return text
    return f"{value:,}"


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
