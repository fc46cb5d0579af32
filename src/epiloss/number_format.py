"""Number formats with enough digits, also for rare outcomes, whose losses are small."""

from __future__ import annotations

import math

_MAX_DIGITS = 12  # after the decimal point
_SMALL = 0.1  # rates below this need more than two digits after the decimal point


def loss_spec(*scores: float, least: int = 5, sign: str = "") -> str:
    """Return the format of losses: ``least`` decimal places, more if the scores are small.

    Examples
    --------
    >>> loss_spec(0.17), loss_spec(0.17, 0.0004, sign="+"), loss_spec(0.0004, least=4)
    ('z.5f', '+z.7f', 'z.6f')
    """
    known = [score for score in scores if 0 < score < math.inf]
    zeros = math.ceil(-math.log10(min(known))) if known else 0
    return f"{sign}z.{max(least, min(least - 2 + zeros, _MAX_DIGITS))}f"


def digits_of(spec: str) -> int:
    """Return the number of decimal places of a format.

    Examples
    --------
    >>> digits_of("+z.7f")
    7
    """
    return int(spec.partition(".")[2][:-1])


def rate_spec(*rates: float) -> str:
    """Return the format of rates: two decimal places, or two digits of their distance from 0 or 1.

    Examples
    --------
    >>> [format(rate, rate_spec(rate)) for rate in (0.312, 0.054, 0.004, 0.9996, 0.0, 1.0)]
    ['0.31', '0.054', '0.0040', '0.99960', '0.00', '1.00']
    """
    near = [min(rate, 1 - rate) for rate in rates if 0 < rate < 1]
    zeros = math.ceil(-math.log10(min(near))) if near and min(near) < _SMALL else 1
    return f"z.{min(1 + zeros, _MAX_DIGITS)}f"


def points_digits(*gaps: float) -> int:
    """Return the decimal places of gaps in percentage points: one, or two digits of small gaps.

    Examples
    --------
    >>> points_digits(0.07, 0.05, 0.09), points_digits(0.0003, -0.001, 0.0016), points_digits(0.0)
    (1, 2, 1)
    """
    reach = 100 * max(map(abs, gaps))
    if not 0 < reach < 1:
        return 1
    return min(1 + math.ceil(-math.log10(reach)), _MAX_DIGITS)
