"""Moments as periods: days, weeks or months, in order, each with its name."""

from __future__ import annotations

from typing import Any

import numpy as np

from epiloss._typing import Codes
from epiloss.errors import DataError, OptionError, printable
from epiloss.input.arrays import as_array
from epiloss.input.datetimes import object_microseconds

PERIODS = ("day", "week", "month", "value")
_UNITS = {"day": "D", "month": "M"}
_MONDAY = 3  # 1970 began on a Thursday


def read_periods(when: Any, by: str | None, n_rows: int, what: str) -> tuple[Codes, list[str]]:
    """Return the number of each row's period, and the periods' names in order.

    Moments are put together by day unless ``by`` says otherwise; all other values are periods
    themselves, in the order of numbers or texts.

    Examples
    --------
    >>> days = np.array(["2024-02-01T10", "2024-01-31T23", "2024-02-01T11"], "datetime64[h]")
    >>> read_periods(days, None, 3, "when")[1], read_periods(days, "month", 3, "when")[0].tolist()
    (['2024-01-31', '2024-02-01'], [1, 0, 1])
    >>> read_periods([3, 1, 3], None, 3, "when")
    (array([1, 0, 1]), ['1', '3'])
    """
    if by is not None and by not in PERIODS:
        raise OptionError(f"by must be one of {', '.join(map(repr, PERIODS))}, got {by!r}.")
    values = as_array(when, what)
    if values.ndim != 1 or len(values) != n_rows:
        raise DataError(f"{what} must have a value for each of the {n_rows:,} rows, got {values.shape}.")
    moments = _moments(values)
    if moments is None:
        if by not in (None, "value"):
            raise DataError(
                f"{what} must hold dates to be put together by {by}, got "
                f"{printable(repr(values[0]))[:60]}. Convert it to dates, or use by='value'."
            )
        return _distinct(values, what)
    if np.isnat(moments).any():
        row = int(np.flatnonzero(np.isnat(moments))[0])
        raise DataError(f"{what} must not be missing, got none at row {row}. Leave such rows out.")
    return _distinct(_rounded(moments, by or "day"), what)


def _moments(values: Any) -> Any:
    """Return moments of any make; None for what holds none."""
    if values.dtype.kind == "M":
        return values
    if values.dtype.kind != "O" or not len(values):
        return None
    found = object_microseconds(values)
    if found is None or found[1] not in ("date", "datetime64[us]"):
        return None
    return found[0].astype(np.int64).astype("datetime64[us]")


def _rounded(moments: Any, by: str) -> Any:
    if by == "value":
        return moments
    if by == "week":
        days = moments.astype("datetime64[D]").astype(np.int64)
        return (days - (days + _MONDAY) % 7).astype("datetime64[D]")
    return moments.astype(f"datetime64[{_UNITS[by]}]")


def _distinct(values: Any, what: str) -> tuple[Codes, list[str]]:
    try:
        names, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise DataError(f"{what} must hold values of one kind, with none missing. Clean it.") from None
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise DataError(f"{what} must not be missing, got NaN. Leave such rows out.")
    return codes.astype(np.int64), [str(name) for name in names.tolist()] if (
        names.dtype.kind != "M"
    ) else [str(name) for name in names]
