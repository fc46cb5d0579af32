"""Format thresholds with few digits such that they split the rows like the exact numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.input.datetimes import DATE, DATETIME, TIME

_DIGITS, _MOST_DIGITS = 4, 17  # number of significant digits; more only if the split needs them
_FEW = 8  # number of thresholds up to which sorting the values does not pay
_NEAR = 2e-3  # relative distance, twice that of a threshold rounded to its first digits
_UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}  # of durations, in seconds
_DAY = 86_400e6  # microseconds
_MANY_DAYS = 10**8  # beyond all datetimes
_LARGEST_EXACT = 2.0**53
_PLAIN = 10_000  # smaller numbers have no thousands separator, because they may be years

Gap = tuple[float, float]  # the observed values below (or at) and above a threshold; infinite if far
ANYWHERE: Gap = (-math.inf, math.inf)


@dataclass(frozen=True)
class IntegerRange:
    """The range of values that are all integers, or all days.

    Examples
    --------
    >>> party = IntegerRange(1, 7)
    >>> [party.describe("party", *ends) for ends in ((2.0, 3.0), (2.5, 5.5), (-np.inf, 1.5))]
    ['party is 3', 'party is 3 to 5', 'party is 1']
    >>> age = IntegerRange(17, 90)
    >>> [age.describe("age", low, np.inf) for low in (64.5, 20.0, 89.0)]
    ['age >= 65', 'age > 20', 'age is 90']
    >>> age.describe("age", -np.inf, 29.0), age.describe("age", -np.inf, 31.0)
    ('age < 30', 'age <= 31')
    """

    smallest: int
    largest: int
    is_days: bool = False

    @classmethod
    def of(cls, values: NDArray[Any], dtype: str) -> IntegerRange | None:
        """Return the range of values; None unless all are integers, or all are days."""
        if dtype not in ("", DATE, DATETIME):
            return None
        unit = _DAY if dtype else 1.0
        known = np.asarray(values, float)
        known = known[~np.isnan(known)] / unit
        if not len(known) or not (np.abs(known) < _LARGEST_EXACT).all():
            return None
        if not (known == np.floor(known)).all():
            return None
        return cls(int(known.min()), int(known.max()), is_days=bool(dtype))

    def describe(self, name: str, low: float, high: float) -> str | None:
        """Return the condition ``low < name <= high`` in words; None if its numbers have many digits."""
        unit = _DAY if self.is_days else 1.0
        first = math.floor(low / unit) + 1 if math.isfinite(low) else None
        last = math.floor(high / unit) if math.isfinite(high) else None
        # If only the smallest or the largest value is left, it is named.
        begin = self.smallest if first is None and last == self.smallest else first
        end = self.largest if last is None and first == self.largest else last
        if begin is not None and begin == end:
            return f"{name} is {self._format(begin)}"
        if first is None or last is None:
            return self._one_sided(name, first, last)
        if first > last or self._is_long(first - 1, first, last):
            return None
        return f"{name} is {self._format(first)} to {self._format(last)}"

    def _one_sided(self, name: str, first: int | None, last: int | None) -> str | None:
        """Describe a range with one end; of ">=" and ">" use the one with fewer digits."""
        if self.is_days:
            if first is not None:
                return f"{name} is after {self._format(first - 1)}"
            return None if last is None else f"{name} is before {self._format(last + 1)}"
        if first is not None:
            inclusive, exclusive = (">=", first), (">", first - 1)
        else:
            assert last is not None  # a condition has at least one end
            inclusive, exclusive = ("<=", last), ("<", last + 1)
        sign, number = min(inclusive, exclusive, key=lambda one: _n_digits(one[1]))
        return None if _n_digits(number) > _DIGITS else f"{name} {sign} {self._format(number)}"

    def _is_long(self, low: int, first: int, last: int) -> bool:
        """Return whether the ends of a range have too many digits."""
        if self.is_days:
            return False
        return max(_n_digits(first), _n_digits(last)) > _DIGITS or _n_digits(first) > _n_digits(low) + 1

    def _format(self, number: int) -> str:
        if self.is_days:
            return _plain_time(number * _DAY, DATE)
        return str(number) if abs(number) < _PLAIN else f"{number:,}"


def whole_days(low: float, high: float, dtype: str) -> IntegerRange | None:
    """Return a range of days for datetimes if both ends are the last moment of a day.

    Examples
    --------
    >>> days = whole_days(-np.inf, 2 * 86_400e6 - 1, "datetime64[us]")
    >>> days.describe("when", -np.inf, 2 * 86_400e6 - 1)
    'when is before 1970-01-03'
    """
    ends = [end for end in (low, high) if math.isfinite(end)]
    if dtype != DATETIME or not ends or any((end + 1) % _DAY for end in ends):
        return None
    return IntegerRange(-_MANY_DAYS, _MANY_DAYS, is_days=True)


def last_moment_of_a_day(moments: NDArray[Any]) -> Floats:
    """Return the last microsecond of the day nearest to each moment, for rounded thresholds."""
    return np.asarray(np.rint(moments / _DAY) * _DAY - 1, float)


def _n_digits(number: int) -> int:
    """Return the number of digits of an integer without trailing zeros.

    Examples
    --------
    >>> [_n_digits(number) for number in (0, 20, 7_401, -30_000)]
    [0, 1, 4, 1]
    """
    return len(str(abs(number)).strip("0"))


def gaps_among(values: NDArray[Any], thresholds: Floats) -> list[Gap]:
    """Return the values just below (or at) and just above each of the sorted thresholds.

    For few thresholds, only values near them are considered. If no value is known, the gaps are chosen
    such that the thresholds can be distinguished.

    Examples
    --------
    >>> gaps_among(np.array([903.0, 901.0, np.nan, 902.0]), np.array([901.5, 902.0, 903.5]))
    [(901.0, 902.0), (902.0, 903.0), (903.0, inf)]
    """
    if len(thresholds) <= _FEW and not np.isnan(values).all():
        return [_gap_near(values, one) for one in thresholds]
    ordered = np.sort(values)[: np.count_nonzero(~np.isnan(values))]  # NaN is sorted last
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


def format_ends(ends: tuple[float, float], gaps: tuple[Gap, Gap], dtype: str) -> tuple[str, str]:
    """Format both ends of a range with few digits, or more if they would look the same."""
    for digits in range(_DIGITS, _MOST_DIGITS + 1):
        low, high = (
            _format_inside(end, gap, dtype, digits) if math.isfinite(end) else ""
            for end, gap in zip(ends, gaps, strict=True)
        )
        if low != high:
            break
    return low, high


def _format_inside(value: float, gap: Gap, dtype: str, digits: int) -> str:
    """Format a number with ``digits`` digits, or more if needed to stay inside its gap."""
    if dtype:
        return format_number(value, dtype)  # exact
    for more in range(digits, _MOST_DIGITS + 1):
        text = format_number(value, dtype, more)
        if gap[0] <= float(text.replace(",", "")) < gap[1]:
            return text
    return f"{value:,}"


def format_number(value: float, dtype: str = "", digits: int = _DIGITS) -> str:
    """Format a number with ``digits`` significant digits, rounded down.

    Examples
    --------
    >>> format_number(47.5), format_number(21_300.5), format_number(0.012345), format_number(-2.5)
    ('47.5', '21,300', '0.01234', '-2.5')
    >>> format_number(1.7e9, "datetime64[s]"), format_number(3.2e-9)
    ('2023-11-14T22:13:20', '3.2e-09')
    >>> format_number(1.27e11, "timedelta64[us]"), format_number(5.4e9, "time")
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
    places = digits - 1 - math.floor(math.log10(abs(value)))
    # Positive powers of ten are exact, negative powers are not.
    down = math.floor(value * 10.0**places) / 10.0**places if places >= 0 else _down(value, -places)
    text = f"{down:{'' if abs(down) < _PLAIN else ','}.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _down(value: float, zeros: int) -> float:
    return math.floor(value / 10.0**zeros) * 10.0**zeros


def _duration(seconds: float, digits: int) -> str:
    """Format a duration in the largest unit that fits into it."""
    unit, size = next(
        ((name, size) for name, size in _UNITS.items() if abs(seconds) >= size), ("second", 1)
    )
    number = format_number(seconds / size, digits=digits)
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


def _plain_time(value: float, dtype: str) -> str:
    """Format a date, a time of day or both, without a zero fraction or midnight."""
    ticks = np.array(math.floor(value), np.int64)
    if dtype == DATE:
        return str(ticks.view(DATETIME).astype("datetime64[D]"))
    text = str(ticks.view(DATETIME if dtype == TIME else dtype))
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.partition("T")[2] if dtype == TIME else text.removesuffix("T00:00:00")
