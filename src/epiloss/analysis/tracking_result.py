"""The result of monitoring a model over time, and how it is printed, saved and drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss.analysis.wording import rule_title
from epiloss.errors import Remark, printable
from epiloss.estimate import Estimate, percent
from epiloss.number_format import loss_spec, rate_spec
from epiloss.table import Table, aligned

if TYPE_CHECKING:
    from epiloss.presentation.plot.tracking import TrackingDisplay

LOSSES, POPULATION = "losses", "population"
NUMBERS = ("expected", "current", "change", "low", "high")  # columns of the table of changes
_SHOWN = 5  # groups that are printed for each kind of change
_LINE_LENGTH = 100  # characters
_ALL, _SCORES = "all rows", "scores "  # names of groups that do not read as a condition
_TITLES = {
    LOSSES: "groups whose rates differ from the predictions learned on the reference",
    POPULATION: "groups whose share of the rows differs from the reference",
}
_PARTS = {POPULATION: "population", LOSSES: "outcomes"}
_COLUMNS = {LOSSES: ("rate", "expected"), POPULATION: ("share", "before")}


@dataclass(frozen=True)
class Alarm:
    """An alarm: when a change was found, and in which group of rows.

    Attributes
    ----------
    kind : str
        "losses" or "population".
    period : str
        The first batch at which the evidence exceeded its limit.
    since : str
        The most likely first batch of the change.
    name : str
        The group of rows with the most evidence.
    expected, current : float
        Its rate, or its share of the rows, as expected without a change and since the change.
    change, low, high : float
        The difference, with an interval that is valid at all times and for all groups.

    See Also
    --------
    epiloss.Tracking : contains the alarms.

    Examples
    --------
    >>> numbers = {"expected": 0.2, "current": 0.26, "change": 0.06, "low": 0.01, "high": 0.11}
    >>> alarm = Alarm("losses", "2024-06-12", since="2024-05-30", name="ward is B", **numbers)
    >>> print(str(alarm)[:69])
    Outcomes changed (alarm at 2024-06-12), most clearly where ward is B:
    >>> alarm.to_dict()["since"]
    '2024-05-30'
    """

    kind: str
    period: str
    since: str
    name: str
    expected: float
    current: float
    change: float
    low: float
    high: float

    def __str__(self) -> str:
        is_outcome = self.kind == LOSSES
        subject = "Outcomes" if is_outcome else "The population"
        what = "the rate was" if is_outcome else "the share of these rows was"
        before = "the expected " if is_outcome else ""
        name, spec = printable(self.name), rate_spec(self.current, self.expected)
        is_phrase = name == _ALL or name.startswith(_SCORES)
        return (
            f"{subject} changed (alarm at {self.period}), most clearly "
            f"{'for' if is_phrase else 'where'} {name}: from about {self.since} to the alarm, {what} "
            f"{self.current:{spec}} instead of {before}{self.expected:{spec}}, a change of "
            f"{100 * self.change:+z.1f} points [{100 * self.low:+z.1f}, {100 * self.high:+z.1f}]."
        )

    def to_dict(self) -> dict[str, str | float]:
        """Return the fields by name.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        return dict(vars(self))


@dataclass(frozen=True)
class Tracking(SavedAsJson, SavedAsPage):
    """A model over time: the losses of each batch, the alarms, and the groups that changed.

    Attributes
    ----------
    task, rule : str
        The task and the scoring rule.
    confidence_level : float
        The probability that there is never an alarm if nothing changes.
    n_reference, n_current : int
        The number of rows.
    limit : float
        The evidence at which an alarm is raised, as a power of ten.
    reference : mapping of str to float
        The losses on the reference, with cross-fitted predictions.
    score_change : mapping of str to Estimate
        The change of the score since the reference, and how much of it comes from the "population" and
        from the "losses", with intervals that are valid at all times.
    periods : Table
        A row for each batch: its losses, the score that is expected if outcomes are as in the reference,
        and the evidence of both kinds of change up to that batch, as powers of ten.
    changes : Table
        A row for each group of rows and kind of change: the expected rate or share and the one since
        the most likely start of the change, their difference with an interval that is valid at all
        times and for all groups, the evidence, and the batch of the alarm, if any.
    alarms : tuple of Alarm
        At most one of each kind, in the order of time.
    remarks : tuple of Remark
        Notes on the data and the result.

    See Also
    --------
    track : returns it.

    Examples
    --------
    >>> import epiloss, numpy as np
    >>> one, two = (epiloss.simulate.Sigmoid().sample(2_000, random_state=i) for i in range(2))
    >>> days = np.arange(2_000) // 100
    >>> result = epiloss.track((one.y, one.scores, one.X), (two.y, two.scores, two.X), days)
    >>> result.alarms, len(result.periods), result.to_dict()["n_current"]
    ((), 20, 2000)
    >>> result.to_html()[:15]
    '<!DOCTYPE html>'
    """

    task: str
    rule: str
    confidence_level: float
    n_reference: int
    n_current: int
    limit: float
    reference: Mapping[str, float]
    score_change: Mapping[str, Estimate]
    periods: Table = field(repr=False)
    changes: Table = field(repr=False)
    alarms: tuple[Alarm, ...] = ()
    remarks: tuple[Remark, ...] = ()

    @property
    def losses_changed(self) -> bool:
        """Whether outcomes changed at equal scores and features."""
        return any(one.kind == LOSSES for one in self.alarms)

    @property
    def population_changed(self) -> bool:
        """Whether the distribution of scores or features differs from the reference."""
        return any(one.kind == POPULATION for one in self.alarms)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; numbers that are not finite become None.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        plain: dict[str, Any] = for_json(
            {
                "schema": SCHEMA,
                **vars(self),
                "reference": dict(self.reference),
                "score_change": {name: one.to_dict() for name, one in self.score_change.items()},
                "periods": self.periods.to_dict(),
                "changes": self.changes.to_dict(),
                "alarms": [one.to_dict() for one in self.alarms],
                "remarks": [one.to_dict() for one in self.remarks],
            }
        )
        return plain

    def _page(self, **about: Any) -> str:
        from epiloss.presentation.report.series_pages import tracking_page

        return tracking_page(self, **about)

    def plot(self, axes: Any = None, **layers: Any) -> TrackingDisplay:
        """Draw the score and the evidence over time.

        Parameters
        ----------
        axes : two matplotlib Axes, optional
            Where to draw; by default a new figure.
        **layers
            Options of :meth:`epiloss.presentation.plot.TrackingDisplay.plot`.

        Returns
        -------
        TrackingDisplay
            The figure, with the data that it shows.

        Examples
        --------
        With matplotlib::

            epiloss.track(reference, current, days).plot().figure_.savefig("year.png")
        """
        from epiloss.presentation.plot.tracking import TrackingDisplay

        return TrackingDisplay(self).plot(axes, **layers)

    @property
    def verdict(self) -> str:
        """The result in a few sentences."""
        if not self.alarms:
            return (
                f"No change was found in {len(self.periods):,} batches, neither in the outcomes nor in "
                "the population."
            )
        return " ".join([*map(str, self.alarms), self._score()])

    def _score(self) -> str:
        change = self.score_change
        spec = loss_spec(abs(self.reference["score"]))
        parts = [f"{change[name].value:+{spec}} from the {title}" for name, title in _PARTS.items()]
        return (
            f"The score changed by {change['score'].value:+{spec}} since the reference: "
            f"{' and '.join(parts)}."
        )

    def __str__(self) -> str:
        level = percent(self.confidence_level)
        lines = [
            f"{self.task} task, {rule_title(self.rule)}, {self.n_reference:,} reference rows, "
            f"{self.n_current:,} current rows in {len(self.periods):,} batches",
            "",
            *aligned(self._score_rows()),
        ]
        for kind, title in _TITLES.items():
            lines += ["", title, *aligned(self._change_rows(kind))]
        lines += ["", textwrap.fill(self.verdict, _LINE_LENGTH, break_on_hyphens=False), ""]
        lines.append(
            f"Intervals and alarms are valid at all times: if nothing changes, {level} of all series "
            "never raise an alarm."
        )
        return "\n".join([*lines, *(f"note: {one}" for one in self.remarks)])

    def _score_rows(self) -> list[list[str]]:
        spec = loss_spec(abs(self.reference["score"]))
        rows = [["", "reference", "change"]]
        rows.append(
            ["score", f"{self.reference['score']:{spec}}", f"{self.score_change['score']:+{spec}}"]
        )
        rows += [
            [f"  from the {title}", "", f"{self.score_change[name]:+{spec}}"]
            for name, title in _PARTS.items()
        ]
        return rows

    def _change_rows(self, kind: str) -> list[list[str]]:
        rows = [["  change in points", "since", "rows", *_COLUMNS[kind], "alarm", "group"]]
        shown = [row for row in self.changes.rows() if row["kind"] == kind and row["n"] > 0][:_SHOWN]
        for row in shown:
            spec = rate_spec(row["current"], row["expected"])
            change, low, high = (100 * row[name] for name in ("change", "low", "high"))
            rows.append(
                [
                    f"  {change:+z.1f} [{low:+z.1f}, {high:+z.1f}]",
                    str(row["since"]),
                    f"{row['n']:,.0f}",
                    f"{row['current']:{spec}}",
                    f"{row['expected']:{spec}}",
                    str(row["alarm"]) or "-",
                    printable(str(row["name"])),
                ]
            )
        return rows
