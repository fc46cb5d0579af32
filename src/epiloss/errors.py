"""Exceptions and remarks: each message states the rule, the offending value and the remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


class DataError(ValueError):
    """Raised when the data break a rule; the command line exits with code 4.

    See Also
    --------
    OptionError : for options.

    Examples
    --------
    >>> import epiloss
    >>> try:
    ...     epiloss.audit([0, 1], [0.2, 3.1])
    ... except DataError as error:
    ...     print(str(error)[:43])
    scores must lie in [0, 1], got 3.1 at row 1
    """


class NoColumnError(DataError):
    """Raised when an option names a column that the data do not have."""

    def __init__(self, option: str, rest: str) -> None:
        super().__init__(printable(f"{option} {rest}"))
        self.option, self.rest = option, rest

    def __reduce__(self) -> tuple[type[NoColumnError], tuple[str, str]]:
        return NoColumnError, (self.option, self.rest)

    def named(self, names: Mapping[str, str]) -> NoColumnError:
        """Return the same error with the option renamed, such as ``--score`` for ``score``."""
        return NoColumnError(names.get(self.option, self.option), self.rest)


# The order of the rules: where rows break several, the error reports the first.
KIND, WEIGHT, MISSING, INFINITE, OUTSIDE, SUM, FEATURE, KEY = range(8)


class RowsError(DataError):
    """Raised when rows break a rule: reports the first such row, its value and the number of rows.

    Errors from several parts of the data can be merged into one that describes all rows.
    """

    def __init__(
        self, rank: int, rule: str, value: str, place: tuple[str, int], count: int, remedy: str
    ) -> None:
        self.rank = rank
        self.rule, self.value, self.place, self.count, self.remedy = rule, value, place, count, remedy
        of, row = place
        where = f"row {row} of {of}" if of else f"row {row}"
        rows = f"{count:,} {'row' if count == 1 else 'rows'} in all"
        super().__init__(printable(f"{rule}, got {value} at {where} ({rows}). {remedy}"))

    def __reduce__(self) -> tuple[type[RowsError], tuple[object, ...]]:
        return RowsError, self._facts()

    def _facts(self) -> tuple[object, ...]:
        return self.rank, self.rule, self.value, self.place, self.count, self.remedy

    def to_json(self) -> str:
        """Return the error as JSON, to send it from a worker to the caller."""
        return json.dumps(self._facts())

    @classmethod
    def from_json(cls, text: str) -> RowsError:
        """Return the error that ``to_json`` wrote."""
        rank, rule, value, place, count, remedy = json.loads(text)
        return cls(rank, rule, value, (place[0], place[1]), count, remedy)

    @classmethod
    def merged(cls, errors: Iterable[RowsError]) -> RowsError:
        """Return one error for all rows: that of the first rule, with its first row and total count.

        Examples
        --------
        >>> found = [("b", 3, 2), ("a", 7, 5)]
        >>> errors = [RowsError(0, "no", "1", (of, row), n, "Stop.") for of, row, n in found]
        >>> print(RowsError.merged(errors))
        no, got 1 at row 7 of a (7 rows in all). Stop.
        """
        known = list(errors)
        chosen = min((error.rank, error.rule) for error in known)
        alike = [error for error in known if (error.rank, error.rule) == chosen]
        alike.sort(key=lambda one: one.place)
        first = alike[0]
        count = sum(error.count for error in alike)
        return cls(first.rank, first.rule, first.value, first.place, count, first.remedy)


class Remark(str):
    """A sentence about the data or the result, with a machine-readable code.

    Examples
    --------
    >>> remark = Remark("rows-dropped", "3 of 100 rows have no score or no label and were left out.")
    >>> remark.code, str(remark)
    ('rows-dropped', '3 of 100 rows have no score or no label and were left out.')
    """

    code: str

    def __new__(cls, code: str, text: str) -> Remark:
        """Create a remark; it compares and prints as a plain string."""
        remark = super().__new__(cls, text)
        remark.code = code
        return remark

    def __reduce__(self) -> tuple[type[Remark], tuple[str, str]]:
        return Remark, (self.code, str(self))

    def with_text(self, text: str) -> Remark:
        """Return the same remark in other words."""
        return Remark(self.code, text)

    def to_dict(self) -> dict[str, str]:
        """Return the code and the text."""
        return {"code": self.code, "text": str(self)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Remark:
        """Return the remark that ``to_dict`` wrote."""
        return cls(str(plain["code"]), str(plain["text"]))


class OptionError(ValueError):
    """Raised when an option has an invalid value; the command line exits with code 2.

    See Also
    --------
    DataError : for data.

    Examples
    --------
    >>> import epiloss
    >>> try:
    ...     epiloss.audit([0, 1], [0.2, 0.7], rule="hinge")
    ... except OptionError as error:
    ...     print(str(error)[:58])
    rule must be 'brier', 'log' or a ScoringRule, got 'hinge'.
    """


class MissingExtraError(ImportError):
    """Raised when an optional package is missing; the message names the extra to install.

    See Also
    --------
    DataError, OptionError : other errors.

    Examples
    --------
    >>> issubclass(MissingExtraError, ImportError)
    True
    """


def printable(text: str) -> str:
    """Return text with unprintable characters escaped, so that it cannot control a terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
