"""Evaluation of a repair: fit it on one part of the rows, audit the others before and after."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from epiloss._progress import working
from epiloss._random import stream
from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.auditing.differences import PARTS, loss_title, paired_difference
from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit_problem
from epiloss.errors import DataError, OptionError
from epiloss.estimate import Estimate, percent
from epiloss.input.problem import Problem
from epiloss.number_format import digits_of, loss_spec
from epiloss.repair.fitting import ENOUGH_ROWS
from epiloss.repair.recalibrator import RegionRecalibrator, repaired_scores
from epiloss.repair.subgroups import features_of_subgroups

_SIGNS = {"score": "", "calibration_loss": "= ", "grouping_loss": "+ ", "remainder": "+ "}


@dataclass(frozen=True)
class RepairResult(SavedAsJson, SavedAsPage):
    """Audits of held-out rows before and after a repair, and the differences of the losses.

    Attributes
    ----------
    before, after : Audit
        The audits of the rows to which the repair was not fitted.
    differences : dict of str to Estimate
        The score and its parts after minus before. Negative differences are improvements.
    rows : array of int
        The numbers of the held-out rows.
    scores : array
        Their repaired scores.
    repair : RegionRecalibrator
        The fitted repair.
    n_learned : int or None
        The number of rows to which it was fitted.

    See Also
    --------
    Audit.repair : returns it.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(2_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X).repair(part=0.6)
    >>> len(result.rows) == len(result.scores) == result.after.n_samples == 800
    True
    >>> sorted(result.to_dict()["differences"])
    ['calibration_loss', 'grouping_loss', 'remainder', 'score']
    """

    before: Audit
    after: Audit
    differences: dict[str, Estimate]
    rows: Codes = field(repr=False)
    scores: Floats = field(repr=False)
    repair: RegionRecalibrator = field(repr=False)
    n_learned: int | None = None

    @property
    def keeps(self) -> bool:
        """Whether the repair leaves all scores as they are."""
        return all(one.keeps for one in self.repair.repairs_)

    @property
    def note(self) -> str:
        """A warning if the repair changes nothing or was fitted to few rows, otherwise empty."""
        few = self.n_learned is not None and self.n_learned < ENOUGH_ROWS
        if self.keeps:
            why = (
                f"{self.n_learned:,} rows are too few to find a correction"
                if few
                else "no correction improved held-out rows"
            )
            more = f" Fit it to {ENOUGH_ROWS:,} rows or more." if few else ""
            return f"The repair does not change the scores: {why}.{more}"
        if few:
            return (
                f"The repair was fitted to only {self.n_learned:,} rows. With {ENOUGH_ROWS:,} rows or "
                "more it would be better."
            )
        return ""

    @property
    def missed(self) -> str:
        """A note if the repair removed grouping loss that the audit before it had missed, or ""."""
        rest = self.differences["remainder"]
        if rest.pvalue is None or rest.pvalue > 0.05 or rest.value >= 0:
            return ""
        return (
            "The remainder fell: the repair also removed grouping loss that the audit before it had "
            "missed. The score shows the whole gain."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; numbers that are not finite become None.

        Returns
        -------
        dict
            Both audits and the differences.
        """
        plain: dict[str, Any] = for_json(
            {
                "schema": SCHEMA,
                "before": self.before.to_dict(),
                "after": self.after.to_dict(),
                "differences": {name: one.to_dict() for name, one in self.differences.items()},
                "note": self.note,
            }
        )
        return plain

    def _page(self, **about: Any) -> str:
        from epiloss.presentation.report import repair_page

        return repair_page(self, **about)

    def __str__(self) -> str:
        level = f"[{percent(self.before.confidence_level)} interval]"
        spec = loss_spec(*(one.score.value for one in (self.before, self.after)))
        wide = 5 + digits_of(spec)
        lines = [
            f"{self.repair.method} repair, evaluated on {self.before.n_samples:,} rows that it was not "
            "fitted to",
            "",
            f"{'':28}{'before':>{wide}}{'after':>{wide}}{'difference':>{wide + 2}} {level}",
        ]
        for name, sign in _SIGNS.items():
            title = f"{sign}{loss_title(name, self.before)}"
            versions = (getattr(one, name).value for one in (self.before, self.after))
            both = "".join(f"{format(value, spec):>{wide}}" for value in versions)
            change = self.differences[name]
            interval = ""
            if change.low is not None and change.high is not None:
                interval = f" [{change.low:{spec}}, {change.high:{spec}}]"
            pvalue = "" if change.pvalue is None else f"  p = {change.pvalue:.2g}"
            lines.append(f"{title:28}{both}{format(change.value, spec):>{wide + 2}}{interval}{pvalue}")
        notes = [f"note: {one}" for one in (self.note, self.missed) if one]
        verdict = textwrap.fill(f"After the repair: {self.after.verdict}", 100, break_on_hyphens=False)
        return "\n".join([*lines, "", verdict, *notes])


@limited_threads()
def repair_audit(
    result: Audit, recalibrator: RegionRecalibrator | None = None, part: float = 0.5
) -> RepairResult:
    """Fit a repair to a ``part`` of the audited rows, and audit the others before and after."""
    details = result.details
    seen = None if details is None else features_of_subgroups(details.problem)
    if details is None or seen is None:
        raise OptionError(
            "a repair needs X or subgroups of a few rows each, and the rows of the audit, which this "
            "audit lacks. Audit again with X or subgroups."
        )
    if not 0 < part < 1:
        raise OptionError(
            f"part, the fraction of rows to fit the repair to, must lie in (0, 1), got {part}."
        )
    problem, options = details.problem, replace(details.options, recalibrate=None)
    repair = RegionRecalibrator(rule=options.rule) if recalibrator is None else clone(recalibrator)
    learn, fresh = _parts(problem, part, stream(options.seed, "repair"))
    with working(f"fitting a repair to {len(learn):,} rows", options.verbose):
        repair.fit_problem(replace(problem, features=seen, groups=None).take(learn))
    given = problem.take(fresh)
    if given.task == "top-label":  # audit the same class after the repair, even if the top one changes
        given = replace(given, claimed=given.scores.argmax(axis=1))
    scores = repaired_scores(repair.repairs_, repair.positive_, seen.take(fresh), given.scores)
    before, after = (
        audit_problem(one, options, details.display) for one in (given, replace(given, scores=scores))
    )
    differences = {name: paired_difference(after, before, name) for name in PARTS}
    return RepairResult(before, after, differences, _numbers(given), scores, repair, len(learn))


def _numbers(problem: Problem) -> Codes:
    assert problem.rows is not None  # take() keeps the numbers of the rows
    return problem.rows


def _parts(problem: Problem, part: float, generator: np.random.Generator) -> tuple[Codes, Codes]:
    """Return the rows to fit to and the held-out rows; clusters are not split."""
    unit = np.arange(len(problem.labels)) if problem.clusters is None else problem.clusters
    n_units = int(unit.max()) + 1
    learns = generator.permutation(n_units) < round(part * n_units)
    learn, fresh = np.flatnonzero(learns[unit]), np.flatnonzero(~learns[unit])
    for name, rows in (("fit the repair", learn), ("evaluate it", fresh)):
        if len(rows) < 2 or len(np.unique(problem.labels[rows])) < 2:
            raise DataError(
                f"{len(rows)} rows are too few to {name}, which needs rows of both outcomes. Use more "
                "rows, or another part=."
            )
    return learn, fresh
