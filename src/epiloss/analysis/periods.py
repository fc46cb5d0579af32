"""Dates grouped into periods: days, weeks or months, with their names in order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from epiloss._typing import Codes
from epiloss.errors import DataError, OptionError, printable
from epiloss.input.arrays import as_array
from epiloss.input.datetimes import object_microseconds

PERIODS = ("day", "week", "month", "value")
_UNITS = {"day": "D", "month": "M"}
_MONDAY = 3  # 1970 began on a Thursday
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?Z?)?")
# day first, month first or with the name of a month: dates whose alphabetical order is not that of time
_OTHER_DATE = re.compile(
    r"\b[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{2}([0-9]{2})?\b"
    r"|(?i:\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*[0-9])"
)


def read_periods(when: Any, by: str | None, n_rows: int, what: str) -> tuple[Codes, list[str]]:
    """Return the index of each row's period, and the names of the periods in order.

    Dates, also as text such as 2024-06-30, are grouped by day unless ``by`` says otherwise; a week is
    named after its Monday, or after the first date if that is later. Each other value is a period of its
    own, in numerical or alphabetical order.

    Examples
    --------
    >>> days = np.array(["2024-02-01T10", "2024-01-31T23", "2024-02-01T11"], "datetime64[h]")
    >>> read_periods(days, None, 3, "when")[1], read_periods(days, "month", 3, "when")[0].tolist()
    (['2024-01-31', '2024-02-01'], [1, 0, 1])
    >>> read_periods([3, 1, 3], None, 3, "when")
    (array([1, 0, 1]), ['1', '3'])
    """
    if by is not None and by not in PERIODS:
        raise OptionError(f"by must be one of {', '.join(map(repr, PERIODS))}, got {by!r}. Choose one.")
    values = as_array(when, what)
    if values.ndim != 1 or len(values) != n_rows:
        raise DataError(
            f"{what} must have one value for each of the {n_rows:,} rows, got shape {values.shape}. "
            "Pass the dates of the same rows."
        )
    dates = read_dates(values, what)
    if dates is None or (by == "value" and values.dtype.kind != "M"):
        if by not in (None, "value"):
            first = printable(repr(values[:1].tolist()[0]))[:60]
            raise DataError(
                f"{what} must hold dates to be grouped by {by}, got {first}. Convert it to dates, or "
                "use by='value'."
            )
        return _distinct(values, what)
    if np.isnat(dates).any():
        row = int(np.flatnonzero(np.isnat(dates))[0])
        raise DataError(f"{what} must not be missing, got no date at row {row}. Leave out such rows.")
    return _distinct(_grouped(dates, by or "day"), what)


def read_noise_periods(when: Any, by: str | None, n_rows: int, least: int) -> Codes:
    """Return the index of each reference row's period, between which random variation is estimated.

    If there are fewer than ``least`` weeks or months, the periods are days.
    """
    batch, names = read_periods(when, by, n_rows, "reference_when")
    if by in ("week", "month") and len(names) < least:
        batch, _ = read_periods(when, "day", n_rows, "reference_when")
    return batch


def read_dates(values: Any, what: str) -> Any:
    """Return dates and times as datetime64, or None if the values are something else.

    Examples
    --------
    >>> read_dates(np.array(["2024-01-31", "2024-02-01"]), "when").astype("datetime64[M]")
    array(['2024-01', '2024-02'], dtype='datetime64[M]')
    """
    if values.dtype.kind == "M":
        return values
    if values.dtype.kind not in "OU" or not len(values):
        return None
    if all(isinstance(one, str) for one in values):
        return _dates_of_text(values, what)
    found = object_microseconds(values)
    if found is None or found[1] not in ("date", "datetime64[us]"):
        return None
    return found[0].astype(np.int64).astype("datetime64[us]")


def _dates_of_text(values: Any, what: str) -> Any:
    """Return text as dates, or None if it is no date; raise an error if its order is unclear."""
    names, codes = np.unique(values.astype(str), return_inverse=True)
    if all(map(_ISO.fullmatch, names.tolist())):
        try:
            return np.array([name.rstrip("Z") for name in names], "datetime64[us]")[codes]
        except ValueError:  # a day or hour that does not exist
            pass
    in_order = sorted(names.tolist(), key=_by_number)
    unclear = [
        name
        for name, sorted_name in zip(names.tolist(), in_order, strict=True)
        if name != sorted_name or _OTHER_DATE.search(name)
    ]
    if unclear:
        raise DataError(
            f"{what} must hold dates such as 2024-06-30 or values in alphabetical order, got "
            f"{printable(repr(unclear[0]))[:60]}. Convert them to dates or numbers."
        )
    return None


def _by_number(name: str) -> list[Any]:
    """Return a sort key by which 'week 2' comes before 'week 10'."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def _grouped(dates: Any, by: str) -> Any:
    if by == "value":
        return dates
    if by == "week":
        days = dates.astype("datetime64[D]").astype(np.int64)
        monday = days - (days + _MONDAY) % 7
        return np.maximum(monday, days.min()).astype("datetime64[D]")  # the first may be a part
    return dates.astype(f"datetime64[{_UNITS[by]}]")


def _distinct(values: Any, what: str) -> tuple[Codes, list[str]]:
    try:
        names, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise DataError(
            f"{what} must hold values of one type, with none missing, got a mixture. Convert them."
        ) from None
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise DataError(f"{what} must not be missing, got NaN. Leave out such rows.")
    values_or_dates = names if names.dtype.kind == "M" else names.tolist()
    return codes.astype(np.int64), [str(name) for name in values_or_dates]
