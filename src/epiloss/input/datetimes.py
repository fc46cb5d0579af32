"""Moments, durations and times of day as numbers: all in microseconds, whatever they came in."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.input.text import WORD

MOMENT, DURATION = "datetime64[us]", "timedelta64[us]"  # since 1970, in UTC
DATE = "date"  # moments too, of which only the day is told
TIME = "time"  # of day, since midnight
_DAYS = ("Y", "M", "W", "D")  # the units in which nothing is told but the day


def microseconds(column: NDArray[Any]) -> tuple[Floats, str]:
    """Return moments or durations of any unit in microseconds, NaN where there is none, and their kind.

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
    return numbers, DATE if np.datetime_data(column.dtype)[0] in _DAYS else MOMENT


def object_microseconds(values: NDArray[Any]) -> tuple[Floats, str] | None:
    """Return objects in microseconds, and their kind; None if they are no moments or the like."""
    if all(isinstance(value, date | np.datetime64) for value in values):
        is_dates = not any(isinstance(value, datetime | np.datetime64) for value in values)
        moments = [_in_utc(value) for value in values]
        return microseconds(np.array(moments, "datetime64[D]" if is_dates else MOMENT))
    if all(isinstance(value, timedelta | np.timedelta64) for value in values):
        return microseconds(np.array(list(values), DURATION))
    if all(isinstance(value, time) for value in values):
        return np.array([float(_since_midnight(value)) for value in values]), TIME
    if all(isinstance(getattr(value, "start_time", None), datetime) for value in values):
        starts = np.array([value.start_time for value in values], MOMENT)  # of pandas' periods
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
    """Return what a column of a kind holds, in words: such columns can be held against each other.

    Examples
    --------
    >>> family("date"), family("datetime64[ns]"), family("bool"), family("")
    ('moments', 'moments', 'numbers', 'numbers')
    """
    if dtype == DATE or dtype.startswith("datetime64"):
        return "moments"
    if dtype.startswith("timedelta64"):
        return "durations"
    return "times of day" if dtype == TIME else "numbers"


def checked_kind(dtype: str) -> str:
    """Return the name of a kind of column, or raise what NumPy says of it."""
    if dtype not in (DATE, TIME, WORD) and np.dtype(dtype).kind not in "bmM":
        raise ValueError(f"{dtype} is no kind of column")
    return dtype


def in_unit(column: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return microseconds in the unit of a kind: repairs of old were not always learned in these."""
    if family(dtype) not in ("moments", "durations") or dtype in (DATE, MOMENT, DURATION):
        return column
    if dtype.endswith("[ns]"):
        return np.asarray(column * 1000.0)
    ticks = np.nan_to_num(column).astype(np.int64).view(f"{np.dtype(dtype).kind}8[us]")
    return np.where(np.isnan(column), np.nan, ticks.astype(dtype).astype(np.int64))
