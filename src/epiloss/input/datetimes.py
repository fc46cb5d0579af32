"""Datetimes, durations and times of day as numbers: all in microseconds, whatever their unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.input.text import WORD

DATETIME, DURATION = "datetime64[us]", "timedelta64[us]"  # datetimes since 1970, in UTC
DATE = "date"  # a datetime of which only the day is known
TIME = "time"  # time of day, since midnight
_DATE_STRING = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(\D|$)")
_JUDGED = 50  # strings that decide whether a column looks like dates
_DAYS = ("Y", "M", "W", "D")  # NumPy units of a day or more


def microseconds(column: NDArray[Any]) -> tuple[Floats, str]:
    """Return datetimes or durations in microseconds, NaN if missing, and their kind.

    Examples
    --------
    >>> microseconds(np.array(["1970-01-02", "NaT"], "datetime64[s]"))
    (array([8.64e+10,      nan]), 'datetime64[us]')
    """
    letter = column.dtype.kind
    ticks = column.astype(f"{letter}8[us]")
    numbers = np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64).astype(np.float64))
    if letter == "m":
        return numbers, DURATION
    return numbers, DATE if np.datetime_data(column.dtype)[0] in _DAYS else DATETIME


def look_like_dates(strings: Sequence[Any]) -> bool:
    """Return whether strings begin with a date such as 2024-02-29 or 29/02/2024, judged by the first.

    Examples
    --------
    >>> look_like_dates(["2024-02-29 10:31", "2024-03-01"]), look_like_dates(["A-2024", "B-2024"])
    (True, False)
    """
    return all(_DATE_STRING.match(str(one)) for one in strings[:_JUDGED])


def object_microseconds(values: NDArray[Any]) -> tuple[Floats, str] | None:
    """Return datetime objects in microseconds, and their kind; None for other objects."""
    if all(isinstance(value, date | np.datetime64) for value in values):
        is_dates = not any(isinstance(value, datetime | np.datetime64) for value in values)
        in_utc = [_in_utc(value) for value in values]
        return microseconds(np.array(in_utc, "datetime64[D]" if is_dates else DATETIME))
    if all(isinstance(value, timedelta | np.timedelta64) for value in values):
        return microseconds(np.array(list(values), DURATION))
    if all(isinstance(value, time) for value in values):
        return np.array([float(_since_midnight(value)) for value in values]), TIME
    if all(isinstance(getattr(value, "start_time", None), datetime) for value in values):
        starts = np.array([value.start_time for value in values], DATETIME)  # of pandas periods
        days = starts.astype("datetime64[D]")
        return microseconds(days if (days == starts).all() else starts)
    return None


def _in_utc(value: Any) -> Any:
    zone = getattr(value, "tzinfo", None)
    return value if zone is None else value.astimezone(UTC).replace(tzinfo=None)


def _since_midnight(value: time) -> int:
    seconds = 3600 * value.hour + 60 * value.minute + value.second
    return 1_000_000 * seconds + value.microsecond


def family(dtype: str) -> str:
    """Return what columns of a kind hold; columns of one family can be compared.

    Examples
    --------
    >>> family("date"), family("datetime64[ns]"), family("bool"), family("")
    ('datetimes', 'datetimes', 'numbers', 'numbers')
    """
    if dtype == DATE or dtype.startswith("datetime64"):
        return "datetimes"
    if dtype.startswith("timedelta64"):
        return "durations"
    return "times of day" if dtype == TIME else "numbers"


def checked_kind(dtype: str) -> str:
    """Return a kind of column, or raise an error if it is unknown."""
    if dtype not in (DATE, TIME, WORD) and np.dtype(dtype).kind not in "bmM":
        raise ValueError(f"{dtype} is not a kind of column")
    return dtype


def in_unit(column: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Convert microseconds to the unit of a kind, because old repairs were learned in other units."""
    if family(dtype) not in ("datetimes", "durations") or dtype in (DATE, DATETIME, DURATION):
        return column
    if dtype.endswith("[ns]"):
        return np.asarray(column * 1000.0)
    ticks = np.nan_to_num(column).astype(np.int64).view(f"{np.dtype(dtype).kind}8[us]")
    return np.where(np.isnan(column), np.nan, ticks.astype(dtype).astype(np.int64))
