"""The result of a drift analysis: the losses on two data sets, and how it is printed and saved."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss.analysis.changes import Changes
from epiloss.analysis.wording import rule_title
from epiloss.auditing.differences import LOSSES
from epiloss.errors import Remark
from epiloss.estimate import Estimate, percent
from epiloss.number_format import loss_spec
from epiloss.table import aligned

_LINE_LENGTH = 100  # characters


@dataclass(frozen=True)
class SampleLosses:
    """The losses on one of the two data sets.

    Attributes
    ----------
    n_evaluated : int
        The number of evaluated rows.
    score, calibration_loss, grouping_loss : Estimate
        The losses. Unless it is estimated by twin learners, the grouping loss is a lower bound.

    See Also
    --------
    epiloss.Drift : contains one for each data set.

    Examples
    --------
    >>> loss = Estimate(0.1)
    >>> SampleLosses(100, loss, loss, loss).to_dict()["n_evaluated"]
    100
    """

    n_evaluated: int
    score: Estimate
    calibration_loss: Estimate
    grouping_loss: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        losses = {name: getattr(self, name).to_dict() for name in LOSSES}
        return {"n_evaluated": self.n_evaluated, **losses}


@dataclass(frozen=True)
class Drift(SavedAsJson, SavedAsPage):
    """The losses on two data sets, evaluated in the same regions, and their differences.

    Attributes
    ----------
    reference, current : SampleLosses
        The losses of each data set.
    difference : mapping of str to Estimate
        The current losses minus those of the reference, with intervals and p-values.
    task, rule, method : str
        The task, the scoring rule, and the estimator of the grouping loss.
    n_regions : int
        The number of regions.
    confidence_level : float
        The level of all intervals.
    remarks : tuple of Remark
        Notes on the data and the result.
    changes : Changes or None
        What changed (the population, the losses or both), and the differences of the losses on the
        population that both data sets have in common. None if there are fewer than 100 rows.

    See Also
    --------
    drift : returns it.

    Examples
    --------
    >>> import epiloss
    >>> one, two = (epiloss.simulate.Sigmoid().sample(1_000, random_state=i) for i in range(2))
    >>> result = epiloss.drift((one.y, one.scores, one.X), (two.y, two.scores, two.X))
    >>> sorted(result.difference), result.to_dict()["current"]["n_evaluated"]
    (['calibration_loss', 'grouping_loss', 'score'], 1000)
    """

    task: str
    rule: str
    reference: SampleLosses
    current: SampleLosses
    difference: Mapping[str, Estimate]
    n_regions: int
    confidence_level: float
    remarks: tuple[Remark, ...] = field(default=())
    method: str = "partition"
    changes: Changes | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; numbers that are not finite become None.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        plain = {
            "schema": SCHEMA,
            **vars(self),
            "remarks": [remark.to_dict() for remark in self.remarks],
        }
        plain |= {"reference": self.reference.to_dict(), "current": self.current.to_dict()}
        plain["changes"] = None if self.changes is None else self.changes.to_dict()
        plain["difference"] = {name: part.to_dict() for name, part in self.difference.items()}
        finite: dict[str, Any] = for_json(plain)
        return finite

    def _page(self, **about: Any) -> str:
        from epiloss.presentation.report import drift_page

        return drift_page(self, **about)

    def __str__(self) -> str:
        spec = loss_spec(*(part.score.value for part in (self.reference, self.current)))
        rows = [["", "reference", "current", "difference", "p-value"]]
        for name, change in self.difference.items():
            before, after = (getattr(part, name) for part in (self.reference, self.current))
            ends = [f"{before:{spec}}", f"{after:{spec}}", f"{change:+{spec}}", _pvalue(change)]
            rows.append([self._title(name), *ends])
        headline = (
            f"{self.task} task, {rule_title(self.rule)}, {self.reference.n_evaluated:,} reference and "
            f"{self.current.n_evaluated:,} current rows evaluated, {self.n_regions:,} regions, "
            f"{percent(self.confidence_level)} intervals"
        )
        lines = [headline, "", *aligned(rows)]
        if self.changes is not None:
            summary = textwrap.fill(str(self.changes), _LINE_LENGTH, break_on_hyphens=False)
            lines += ["", *self._common_population(self.changes, spec), "", summary]
        notes = [f"note: {remark}" for remark in self.remarks]
        return "\n".join([*lines, *([""] if notes else []), *notes])

    def _title(self, name: str) -> str:
        title = name.replace("_", " ")
        is_bound = name == "grouping_loss" and self.method != "twin"
        return f"{title}, at least" if is_bound else title

    def _common_population(self, changes: Changes, spec: str) -> list[str]:
        """Return the table of differences on the common population."""
        overlap = percent(round(changes.overlap, 2))
        rows = [[f"on the common population (overlap {overlap})", "difference", "p-value"]]
        for name, change in changes.differences.items():
            rows.append([self._title(name), f"{change:+{spec}}", _pvalue(change)])
        return aligned(rows)


def _pvalue(change: Estimate) -> str:
    return "" if change.pvalue is None else f"{change.pvalue:.2g}"
