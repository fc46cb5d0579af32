"""Describe regions in words: the splits of a region, simplified to one condition per feature."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from epiloss.input.features import Features
from epiloss.input.text import WORD, absence
from epiloss.partition.thresholds import ANYWHERE, Gap, IntegerRange, format_ends, gaps_among, whole_days

_MOST_ROWS = 20_000  # a rounded threshold must split this many rows like the exact one
_RUN = 32  # number of adjacent rows in each run of that sample


@dataclass(frozen=True)
class Step:
    """One split on the path to a region.

    A number goes left if it is at most ``threshold``, and a category if it equals ``threshold``. NaN
    stands for the category "missing". An infinite threshold separates numbers from missing values.
    """

    feature: int
    is_category: bool
    threshold: float
    left: bool
    missing_left: bool


@dataclass(frozen=True)
class Condition:
    """The condition of a region on one feature: a range of numbers, a category, or excluded categories.

    ``missing`` says whether rows without a number belong to the region; it is None if no row lacks a
    number. For categories, "missing" is one of the categories. ``gaps`` are the gaps between observed
    values that contain the two ends of the range. ``integers`` is set if all are integers or days.
    """

    feature: int
    name: str
    low: float = -math.inf
    high: float = math.inf
    only: str | None = None
    never: tuple[str, ...] = ()
    missing: bool | None = None
    dtype: str = ""
    gaps: tuple[Gap, Gap] = (ANYWHERE, ANYWHERE)
    integers: IntegerRange | None = None

    def __str__(self) -> str:
        if self.only is not None:
            return f"{self.name} is {_category(self.only)}"
        if self.never:
            return f"{self.name} is {_none_of([_category(name) for name in self.never])}"
        if not self.low < self.high:
            return f"{self.name} is missing"
        if self.missing is False and not self._has_end:
            return f"{self.name} is not missing"
        return f"{self._range()} or missing" if self.missing else self._range()

    @property
    def in_brackets(self) -> str:
        """The condition as one of several, in brackets if it contains an "or"."""
        is_choice = bool(self.missing) and self.low < self.high and not self.never
        return f"({self})" if is_choice and self.only is None else str(self)

    @property
    def is_trivial(self) -> bool:
        """Whether every row meets the condition."""
        return self.only is None and not self.never and self.missing is not False and not self._has_end

    @property
    def _has_end(self) -> bool:
        return self.low > -math.inf or self.high < math.inf

    def _range(self) -> str:
        if self.dtype == "bool":
            return f"{self.name} is {'true' if math.isfinite(self.low) else 'false'}"
        if self.dtype == WORD:
            return self.name if math.isfinite(self.low) else absence(self.name)
        integers = self.integers or whole_days(self.low, self.high, self.dtype)
        words = None if integers is None else integers.describe(self.name, self.low, self.high)
        if words is not None:
            return words
        ends = self.low, self.high
        if self.integers is not None:  # no integer lies between a number and its floor
            ends = float(np.floor(self.low)), float(np.floor(self.high))
        low, high = format_ends(ends, self.gaps, self.dtype)
        if not math.isfinite(self.high):
            return f"{self.name} > {low}"
        return f"{low} < {self.name} <= {high}" if math.isfinite(self.low) else f"{self.name} <= {high}"


@dataclass(frozen=True)
class Description:
    """The conditions that all rows of a region meet, in the order of the splits.

    Examples
    --------
    >>> features = Features.read({"age": [30.0, 52.0], "city": ["Rome", "Oslo"]})
    >>> steps = [Step(0, False, 47.5, left=False, missing_left=False),
    ...          Step(1, True, 1.0, left=False, missing_left=False)]
    >>> description = describe(steps, features)
    >>> str(description), description.holds(features).tolist()
    ('age >= 48 and city is not Rome', [False, True])
    """

    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        if len(self.conditions) == 1:
            return str(self.conditions[0])
        return " and ".join(condition.in_brackets for condition in self.conditions) or "all rows"

    def holds(self, features: Features) -> NDArray[np.bool_]:
        """Return which rows meet all conditions."""
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
class Describer:
    """Describes regions by the names of features, and remembers which have missing or integer values."""

    features: Features
    _has_missing: dict[int, bool] = field(default_factory=dict)
    _integers: dict[int, IntegerRange | None] = field(default_factory=dict)

    def has_missing(self, feature: int) -> bool:
        """Return whether any row lacks a value of the feature."""
        if feature not in self._has_missing:
            self._has_missing[feature] = self.features.has_missing(feature)
        return self._has_missing[feature]

    def integers(self, feature: int) -> IntegerRange | None:
        """Return the range of the values if all are integers or days, else None."""
        if feature not in self._integers:
            is_number = self.features.n_rows > 0 and feature not in self.features.categories
            dtype = self.features.dtypes.get(feature, "")
            values = self.features.column(feature) if is_number else np.zeros(0)
            self._integers[feature] = IntegerRange.of(values, dtype)
        return self._integers[feature]

    def describe(self, paths: Iterable[Iterable[Step]]) -> list[Description]:
        """Return the description of each path, without redundant conditions."""
        found = [Description(path, tuple(self._conditions(path))) for path in map(tuple, paths)]
        gaps = self._gaps(chain.from_iterable(one.conditions for one in found))
        return [
            replace(one, conditions=tuple(_with_gaps(condition, gaps) for condition in one.conditions))
            for one in found
        ]

    def _gaps(self, conditions: Iterable[Condition]) -> Mapping[tuple[int, float], Gap]:
        """Return the gaps around the ends of the conditions, by feature and threshold."""
        ends: dict[int, set[float]] = defaultdict(set)
        for one in conditions:
            ends[one.feature].update(filter(math.isfinite, (one.low, one.high)))
        gaps: dict[tuple[int, float], Gap] = {}
        for feature, thresholds in ends.items():
            if not thresholds or self.features.dtypes.get(feature):  # shown exactly
                continue
            ordered = np.array(sorted(thresholds))
            found = gaps_among(self._sample.column(feature), ordered)
            gaps |= {(feature, one): gap for one, gap in zip(ordered.tolist(), found, strict=True)}
        return gaps

    @cached_property
    def _sample(self) -> Features:
        """The rows that determine the gaps: all, or evenly spaced runs of rows."""
        n = self.features.n_rows
        if n <= _MOST_ROWS:
            return self.features
        starts = np.linspace(0, n - _RUN, _MOST_ROWS // _RUN).astype(np.int64)
        return self.features.take((starts[:, None] + np.arange(_RUN)).ravel())

    def _conditions(self, path: Sequence[Step]) -> Iterator[Condition]:
        # The learning rows had missing values, even if these rows have none.
        with_missing = {step.feature for step in path if math.isinf(step.threshold)}
        conditions: dict[int, Condition] = {}
        for step in path:
            known = conditions.get(step.feature) or self._unrestricted(step.feature, with_missing)
            conditions[step.feature] = self._narrowed(known, step)
        return (one for one in conditions.values() if not one.is_trivial)

    def _unrestricted(self, feature: int, with_missing: Collection[int]) -> Condition:
        is_category = feature in self.features.categories
        missing = (
            True if not is_category and (feature in with_missing or self.has_missing(feature)) else None
        )
        name, dtype = self.features.names[feature], self.features.dtypes.get(feature, "")
        integers = None if is_category else self.integers(feature)
        return Condition(feature, name, missing=missing, dtype=dtype, integers=integers)

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


def describe(steps: Sequence[Step], features: Features) -> Description:
    """Return the description of one path."""
    return Describer(features).describe([steps])[0]


def _with_gaps(known: Condition, gaps: Mapping[tuple[int, float], Gap]) -> Condition:
    """Return a condition with the gaps around its ends."""
    low, high = (gaps.get((known.feature, end), ANYWHERE) for end in (known.low, known.high))
    return replace(known, gaps=(low, high))


def _category(name: str) -> str:
    """Return the name of a category; one with unusual spaces is in quotes, with each run shortened.

    Examples
    --------
    >>> _category("New York"), _category("Tensed     "), _category("")
    ('New York', "'Tensed '", "''")
    """
    if name and name == " ".join(name.split()):
        return name
    return "'" + re.sub(r"\s+", " ", name) + "'"


def _none_of(names: Sequence[str]) -> str:
    """Return excluded categories in words.

    Examples
    --------
    >>> _none_of(["a"]), _none_of(["a", "b"]), _none_of(["a", "b", "c"])
    ('not a', 'neither a nor b', 'none of a, b and c')
    """
    if len(names) < 3:
        return f"neither {names[0]} nor {names[1]}" if len(names) == 2 else f"not {names[0]}"
    return f"none of {', '.join(names[:-1])} and {names[-1]}"
