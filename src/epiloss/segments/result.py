"""Segments as a result: their numbers, and how they are printed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from epiloss._saving import for_json
from epiloss._typing import Codes
from epiloss.errors import printable
from epiloss.number_format import points_digits, rate_spec
from epiloss.partition.descriptions import Condition
from epiloss.table import Table, aligned

NO_ROWS = "The rows of this audit were not kept: run it again to search for segments."
_NONE_FOUND = "No segment found whose rate differs from that of all rows with equal scores."
_ADJUSTED = "Gaps are adjusted for the search, so they are smaller than rate minus expected rate."
_MOST_NAMES = 12  # columns without a gap that are listed
_ROUNDING = 1e-9
_COLUMNS = (
    "description", "n", "share", "score_mean", "rate", "expected", "gap", "low", "high", "pvalue",
    "direction", "cost", "part_of_grouping_loss",
)  # fmt: skip


@dataclass(frozen=True)
class Segment:
    """A group of rows whose rate differs from that of all rows with the same scores.

    Attributes
    ----------
    description : str
        The description of the group.
    conditions : tuple
        The conditions that define it.
    n, share : int, float
        Number of its rows, and their share of all rows.
    score_mean, rate, expected : float
        Its mean score, its rate, and the rate of all rows with the same scores.
    gap, low, high : float
        The difference between both rates, with its interval. It is adjusted for the search, which
        favours groups that stand out by chance: usually it is smaller than ``rate - expected``.
    pvalue : float
        The p-value of no gap, adjusted for the search.
    cost : float
        The contribution of the segment to the grouping loss.
    part_of_grouping_loss : float or None
        The cost as a fraction of the grouping loss; None if that is not positive.
    rows : array of int
        The indices of its rows.

    See Also
    --------
    Segments : all segments of an audit.

    Examples
    --------
    >>> numbers = {"n": 40, "share": 0.1, "score_mean": 0.3, "rate": 0.5, "expected": 0.3, "gap": 0.15}
    >>> one = Segment("age >= 60", (), **numbers, low=0.05, high=0.25, pvalue=0.001, cost=0.004)
    >>> print(one)
    age >= 60: 40 rows, rate 0.50, expected 0.30 at equal scores, gap +15.0 points [+5.0, +25.0]
    >>> one.direction, one.is_adjusted, one.to_dict()["n"]
    ('under-predicted', True, 40)
    """

    description: str
    conditions: tuple[Condition, ...] = field(repr=False)
    n: int
    share: float
    score_mean: float
    rate: float
    expected: float
    gap: float
    low: float
    high: float
    pvalue: float
    cost: float
    part_of_grouping_loss: float | None = None
    rows: Codes = field(default_factory=lambda: np.zeros(0, np.int64), repr=False, compare=False)

    @property
    def direction(self) -> str:
        """Whether the scores of these rows are too low ("under-predicted") or too high."""
        return "under-predicted" if self.gap > 0 else "over-predicted"

    @property
    def is_adjusted(self) -> bool:
        """Whether the gap is smaller than the observed difference."""
        return abs(self.gap) < abs(self.rate - self.expected) - _ROUNDING

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows as plain values.

        Returns
        -------
        dict
            The attributes by name.
        """
        plain: dict[str, Any] = for_json({name: getattr(self, name) for name in _COLUMNS})
        return plain

    def __str__(self) -> str:
        spec = rate_spec(self.rate, self.expected)
        return (
            f"{printable(self.description)}: {self.n:,} rows, rate {self.rate:{spec}}, expected "
            f"{self.expected:{spec}} at equal scores, gap {' points '.join(_points(self))}"
        )


@dataclass(frozen=True)
class Segments(Sequence[Segment]):
    """The segments of an audit, the costliest first.

    A sequence of :class:`Segment` that prints as a table. It is empty if no segment was found.

    Attributes
    ----------
    segments : tuple of Segment
        The segments.
    passed : tuple of str
        Columns in which no gap was found.
    note : str
        Why the search was not possible, if it was not.

    See Also
    --------
    epiloss.Audit.segments : segments in the features of an audit.
    epiloss.Audit.segments_by : segments in other columns.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(3_000)
    >>> side = np.where(sample.X[:, 0] > sample.X[:, 1], "left", "right")
    >>> found = epiloss.audit(sample.y, sample.scores, {"side": side}).segments
    >>> found[0].description, len(found) == len(found.table) == len(found.to_dict()["segments"])
    ('side is left', True)
    """

    segments: tuple[Segment, ...]
    passed: tuple[str, ...] = ()
    note: str = ""

    @overload
    def __getitem__(self, place: int) -> Segment: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, place: int | slice) -> Segment | tuple[Segment, ...]:
        return self.segments[place]

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def were_searched(self) -> bool:
        """Whether there were rows to search for segments."""
        return self.note != NO_ROWS

    @property
    def table(self) -> Table:
        """The segments as a table, one row each."""
        return Table(
            {name: np.array([getattr(one, name) for one in self.segments]) for name in _COLUMNS}
        )

    def to_pandas(self) -> Any:
        """Return the segments as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each segment.

        Examples
        --------
        With pandas::

            result.segments.to_pandas()
        """
        return self.table.to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows as plain values.

        Returns
        -------
        dict
            The segments, the columns without a gap, and the note.
        """
        segments = [one.to_dict() for one in self.segments]
        return {"segments": segments, "passed": list(self.passed), "note": self.note}

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        table = aligned(self._cells()) if self.segments else []
        return "\n".join([*table, *self._remarks()])

    def _repr_html_(self) -> str:
        """Return the segments for a notebook."""
        remarks = "".join(f"<p>{html.escape(one)}</p>" for one in self._remarks())
        if not self.segments:
            return remarks
        header, *rows = ([html.escape(cell) for cell in row] for row in self._cells())
        head = "".join(f"<th>{cell}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{remarks}"

    def _cells(self) -> list[list[str]]:
        header = ["segment", "rows", "share", "score", "rate", "expected", "gap (points)", "p", ""]
        return [header, *map(_cells_of, self.segments)]

    def _remarks(self) -> list[str]:
        lines = []
        if not self.segments and not self.note:
            lines.append(_NONE_FOUND)
        if any(one.is_adjusted for one in self.segments):
            lines.append(_ADJUSTED)
        if self.passed:
            shown = ", ".join(printable(name) or "''" for name in self.passed[:_MOST_NAMES])
            more = len(self.passed) - _MOST_NAMES
            lines.append(f"No gap found for {shown}{f' and {more:,} more' if more > 0 else ''}.")
        return [*lines, self.note] if self.note else lines


def _cells_of(one: Segment) -> list[str]:
    spec = rate_spec(one.score_mean, one.rate, one.expected)
    gap = " ".join(_points(one))
    rates = [format(value, spec) for value in (one.score_mean, one.rate, one.expected)]
    pvalue = f"{one.pvalue:.1g}" if one.pvalue >= 1e-15 else "<1e-15"
    return [one.description, f"{one.n:,}", f"{one.share:.1%}", *rates, gap, pvalue, one.direction]


def _points(one: Segment) -> tuple[str, str]:
    """Return a gap and its interval in percentage points."""
    digits = points_digits(one.gap, one.low, one.high)
    gap, low, high = (f"{100 * value:+z.{digits}f}" for value in (one.gap, one.low, one.high))
    return gap, f"[{low}, {high}]"
