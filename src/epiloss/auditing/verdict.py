"""The verdict in words: what to do, how large the loss is, and where it is largest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epiloss.auditing.judgement import (
    BORDERLINE,
    FINE,
    LABELS_PER_REGION,
    LEVEL,
    RECALIBRATE,
    REPAIR,
    SMALL,
    UNCLEAR,
    Judgement,
    judged,
    labels_per_region,
)
from epiloss.auditing.leaks import Leak
from epiloss.auditing.ledger import RULES
from epiloss.errors import printable
from epiloss.estimate import Estimate, percent
from epiloss.input.problem import RegionSource
from epiloss.number_format import loss_spec, points_digits
from epiloss.segments.subgroups import GAP_COLUMNS

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit


@dataclass(frozen=True)
class Verdict:
    """The recommended action, as a keyword and as a sentence.

    Attributes
    ----------
    kind : str
        "fine", "small", "borderline", "unclear", "recalibrate", "repair", "recalibrate-and-repair" or
        "leak".
    sentence : str
        The action and the sizes of the losses that it is based on; ``str(verdict)``.
    matters : float
        The smallest sum of calibration and grouping loss that matters.
    rows : int or None
        Approximate number of rows that would settle an unclear verdict.

    See Also
    --------
    epiloss.Audit.verdict : the verdict of an audit.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(3_000)
    >>> verdict = epiloss.audit(sample.y, sample.scores, sample.X).verdict
    >>> verdict.kind, bool(verdict.matters < 0.003), str(verdict) == verdict.sentence
    ('repair', True, True)
    """

    kind: str
    sentence: str
    matters: float
    rows: int | None = None

    @property
    def reason(self) -> str:
        """The sentence without the action that it begins with."""
        first, found, rest = self.sentence.partition(": ")
        return f"{rest[:1].upper()}{rest[1:]}" if found and "." not in first else self.sentence

    def __str__(self) -> str:
        return self.sentence


def verdict(audit: Audit) -> Verdict:
    """Return the verdict on an audit."""
    found = judged(audit)
    kind = found.kind()
    rows = found.rows_needed() if kind == UNCLEAR and found.is_open else None
    return Verdict(kind, _Sentences(found).sentence(kind, rows), found.matters, rows)


@dataclass(frozen=True)
class _Sentences:
    """The sentence for each kind of verdict."""

    found: Judgement

    def sentence(self, kind: str, rows: int | None) -> str:
        """Return the verdict in words."""
        if self.found.is_too_few:
            left = self.found.audit.effective_rows
            return f"Too little data to tell: the weights leave only {left:.3g} effective rows."
        if self.found.leak is not None:
            return self.leaking(self.found.leak)
        if self.found.is_vacuous:
            return self.vacuous()
        if kind == UNCLEAR:
            return self.unclear(rows) if self.found.is_open else self.right_on_average()
        known = {FINE: self.fine, SMALL: self.small, BORDERLINE: self.borderline}
        return known[kind]() if kind in known else self.to_do(kind)

    def leaking(self, leak: Leak) -> str:
        name = printable(leak.column)
        return (
            f"Check for a leak: column {name!r} alone explains "
            f"{percent(math.floor(100 * leak.share) / 100)} of the variance of the labels. If it is not "
            "known when the model predicts, leave it out and audit again."
        )

    def to_do(self, kind: str) -> str:
        calibration, grouping = self.found.audit.calibration_loss, self._size(self.found.grouping)
        on_average = f"scores differ from observed rates by {self._size(calibration)}"
        at_equal = f"at equal scores, true probabilities vary by {self._at_least}{grouping}"
        if not self._in_points:
            on_average = f"scores that differ from observed rates cost {self._size(calibration)}"
            at_equal = f"differences between rows with equal scores cost {self._at_least}{grouping}"
        if math.isinf(calibration.value):
            on_average = "the score is infinite, because an outcome with a score of 0 occurred"
        if kind == REPAIR:
            return f"Repair or retrain: {at_equal}.{self._where()}"
        if kind == RECALIBRATE:
            return f"Recalibrate: {on_average}. {self._beyond()}"
        if self.found.audit.calibration_loss.value >= self.found.grouping.value:
            return f"Recalibrate and repair: {on_average}; {at_equal}.{self._where()}"
        return f"Repair and recalibrate: {at_equal}; {on_average}.{self._where()}"

    def _beyond(self) -> str:
        """Say what is known about the grouping loss if recalibration is recommended."""
        if self.found.is_blind:
            return "Pass features or subgroups to search for groups that remain wrong after that."
        if self.found.grouping_is_there:
            rest = self._off(f"{self._at_least}{self._size(self.found.grouping)}")
            return f"Among rows with equal scores, {rest}, while {self._needed}."
        high = self.found.grouping.high
        if high is not None and high < self.found.matters:
            return f"As far as {self._seen_by} show, the error that remains is too small to matter."
        return "More rows are needed to see whether groups of rows remain wrong after that."

    def fine(self) -> str:
        most = self._off(f"at most {self._amount(self.found.high)}{self._measure}")
        return f"Fine: as far as {self._seen_by} show, {most}; {self._needed}."

    def small(self) -> str:
        only = self._off(f"only {self._size(self.found.total)}")
        return f"Small: {self._evidence()}, but {only}; {self._needed}.{self._where()}"

    def borderline(self) -> str:
        size = self._off(f"{self._at_least}{self._size(self.found.total)}")
        return f"Borderline: {self._evidence()}; {size}, while {self._needed}.{self._where()}"

    def unclear(self, rows: int | None) -> str:
        wanted = "" if rows is None else f" About {rows:,} rows would settle it."
        if not math.isfinite(self.found.high):
            return f"Too little data to tell.{wanted}"
        most = f"up to {self._amount(self.found.high)}{self._measure}"
        most = f"probabilities may be off by {most}" if self._in_points else f"errors may cost {most}"
        return f"Too little data to tell: {most}; {self._needed}.{wanted}"

    def _off(self, size: str) -> str:
        return f"probabilities are off by {size}" if self._in_points else f"errors cost {size}"

    @property
    def _needed(self) -> str:
        what = "errors" if self._in_points else "losses"
        return f"{what} above {self._amount(self.found.matters)} matter"

    def right_on_average(self) -> str:
        if self.found.is_blind:
            more = "Pass features or subgroups to search for groups that the model gets wrong."
        else:
            more = "Groups were not compared: no level set has two groups with enough rows."
        return f"Right on average. {more}"

    def vacuous(self) -> str:
        """Say why the regions do not show the grouping loss, and what to do instead."""
        if labels_per_region(self.found.audit) < LABELS_PER_REGION:
            why = "the regions hold too few rows with the rarer outcome"
            remedy = f"Use {self._instead}, or larger regions"
        else:
            why = "binning induces more loss than the regions explain"
            remedy = f"Use {self._instead}, or more rows"
            if self.found.audit.region_source is not RegionSource.LEARNED:
                remedy = "Use fewer, larger subgroups"
        return f"The grouping loss cannot be estimated this way: {why}. {remedy}."

    @property
    def _instead(self) -> str:
        """An estimate that needs no bins: there is none for whole vectors of scores."""
        return "task='classwise'" if self.found.audit.task == "joint" else "method='twin'"

    @property
    def _seen_by(self) -> str:
        subgroups = self.found.audit.region_source is RegionSource.SUBGROUPS
        return "these subgroups" if subgroups else "these features"

    @property
    def _at_least(self) -> str:
        return "at least " if self.found.audit.is_bound and not self.found.is_blind else ""

    def _evidence(self) -> str:
        """Say which loss is significantly above 0."""
        if not self.found.grouping_is_there:
            return "there is a calibration loss"
        pvalue = self.found.grouping.pvalue
        return "there is a grouping loss" + ("" if pvalue is None else f" (p = {pvalue:.2g})")

    @property
    def _in_points(self) -> bool:
        """Whether the root of a loss is an error of probabilities, in percentage points."""
        return self.found.audit.rule == "brier" and self.found.audit.task in ("binary", "top-label")

    @property
    def _measure(self) -> str:
        return " (root mean square)" if self._in_points else ""

    def _amount(self, loss: float) -> str:
        """Return the size of a loss: in percentage points for the Brier score of one probability."""
        if self._in_points:
            return f"{_points(loss)} points"
        rule = RULES.get(self.found.audit.rule, "score")
        return f"{max(loss, 0.0):{loss_spec(self.found.audit.score.value, least=4)}} of the {rule}"

    def _size(self, loss: Estimate) -> str:
        """Return the size of a loss with its interval."""
        text = self._amount(loss.value)
        if loss.low is None or loss.high is None or not math.isfinite(loss.high):
            return text + self._measure
        level = percent(self.found.audit.confidence_level)
        if self._in_points:
            ends = f"{_points(loss.low)} to {_points(loss.high)}"
            return f"{text} (root mean square; {level} interval {ends})"
        spec = loss_spec(self.found.audit.score.value, least=4)
        return f"{text} ({level} interval {max(loss.low, 0.0):{spec}} to {loss.high:{spec}})"

    def _where(self) -> str:
        """Name the costliest segment, or the clearest gap of a subgroup if that costs more."""
        audit, level = self.found.audit, self.found.audit.confidence_level
        subgroup = _most_significant_subgroup(audit)
        is_learned = audit.region_source is RegionSource.LEARNED
        if self.found.by.region_source is RegionSource.LEARNED and is_learned and len(audit.segments):
            first = audit.segments[0]
            if subgroup is None or _cost(vars(first)) >= _cost(subgroup):
                row = {**vars(first), "name": first.description}
                return f" Costliest segment: {_with_gap(row, level)}."
        return "" if subgroup is None else f" Clearest gap: {_with_gap(subgroup, level)}."


def _most_significant_subgroup(audit: Audit) -> Mapping[str, Any] | None:
    """Return the subgroup whose gap has the smallest p-value, if that is significant."""
    rows = [
        {**row, "name": f"{column} {'' if column == 'subgroup' else '= '}{row['subgroup']}"}
        for column, table in audit.subgroup_gaps.items()
        for row in table.rows(*GAP_COLUMNS)
        if row["pvalue_adjusted"] <= LEVEL
    ]
    return min(rows, key=lambda row: (float(row["pvalue_adjusted"]), -_cost(row)), default=None)


def _cost(row: Mapping[str, Any]) -> float:
    """Return the contribution of a gap to the Brier score, up to a factor."""
    return float(row["n"]) * float(row["gap"]) ** 2


def _with_gap(row: Mapping[str, Any], level: float) -> str:
    """Return the name of a group with its number of rows and its gap.

    Examples
    --------
    >>> row = {"name": "age <= 32", "n": 4706, "gap": -0.014, "low": -0.022, "high": -0.007}
    >>> _with_gap(row, 0.95)
    'age <= 32 (4,706 rows, over-predicted by 1.4 points, 95% interval 0.7 to 2.2)'
    """
    gap, low, high = (100 * float(row[name]) for name in ("gap", "low", "high"))
    side = "under-predicted" if gap > 0 else "over-predicted"
    low, high = sorted((abs(low), abs(high))) if low * high > 0 else (0.0, max(abs(low), abs(high)))
    spec = f".{points_digits(row['gap'], row['low'], row['high'])}f"
    return (
        f"{printable(str(row['name']))} ({int(row['n']):,} rows, {side} by {abs(gap):{spec}} points, "
        f"{percent(level)} interval {low:{spec}} to {high:{spec}})"
    )


def _points(loss: float) -> str:
    """Return the root of a mean squared error, in percentage points.

    Examples
    --------
    >>> _points(0.0064), _points(0.0000998), _points(0.0000004), _points(-0.001)
    ('8.0', '1.0', '0.06', '0')
    """
    points = 100 * math.sqrt(max(loss, 0.0))
    return format(points, ".1f" if points >= 0.95 else ".1g")
