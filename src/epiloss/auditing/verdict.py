"""The audit in one sentence: what to do, how large the loss is, and where it is largest.

Two questions are answered apart. *Is a loss there?* The calibration loss is there if its interval lies
above 0, the grouping loss if its test rejects at 5%. *Does it matter?* The sum of both is held against
``tolerance`` times the score of always predicting the base rate: by default 1%, which for a balanced
binary task and the Brier score is 0.0025, or probabilities that are off by 5 points.

==================================================================  ================================
the sum of both losses                                              verdict
==================================================================  ================================
matters, and is surely at least 0.7 times what matters              recalibrate, repair, or both
is surely below what matters, on rows enough to learn from          fine; small, if a loss is there
neither, and a loss is there                                        borderline
neither, and none is found                                          too little data to tell
==================================================================  ================================

"Surely" is the one-sided 95% limit. To be acted on, a part of the sum must be there, and be half of what
matters; the larger part is named first. Without features the calibration loss decides alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy.special import ndtri

from epiloss.errors import printable
from epiloss.estimate import Estimate, percent
from epiloss.estimation.inference import normal_estimate
from epiloss.input.problem import RegionSource
from epiloss.number_format import loss_spec

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

FINE, SMALL, BORDERLINE, UNCLEAR = "fine", "small", "borderline", "unclear"
RECALIBRATE, REPAIR, BOTH = "recalibrate", "repair", "recalibrate-and-repair"
_SURELY, _PART = 0.7, 0.5  # of what matters: what a loss to act on surely is, and a part of it
_LEVEL = 0.05
_ONE_SIDED = float(ndtri(1 - _LEVEL))
_LEARNED = 100  # rows times loss over score: ten standard errors to one who knows where to look
_MOST_FACTOR, _FEW_ROWS = 1e4, 100
LABELS_PER_REGION, LABELS_ENOUGH = 2, 5  # of the rarer kind, below which entropies have a bias
_NAMES = {"brier": "Brier score", "log": "log-loss"}


@dataclass(frozen=True)
class Verdict:
    """What to do, in a word and in a sentence.

    Attributes
    ----------
    kind : str
        "fine", "small", "borderline", "unclear", "recalibrate", "repair" or "recalibrate-and-repair".
    sentence : str
        The kind with the sizes that it rests on; ``str(verdict)``.
    matters : float
        The least sum of calibration and grouping loss that matters.
    rows : int or None
        About how many rows would settle an unclear verdict.

    See Also
    --------
    epiloss.Audit.verdict : gives it.

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
        """The sentence without the word that it begins with."""
        first, found, rest = self.sentence.partition(": ")
        return f"{rest[:1].upper()}{rest[1:]}" if found and "." not in first else self.sentence

    def __str__(self) -> str:
        return self.sentence


def verdict(audit: Audit) -> Verdict:
    """Return the verdict on an audit by the table above."""
    told = _Telling(audit, what_matters(audit))
    kind = told.kind()
    rows = told.rows_needed() if kind == UNCLEAR and told.is_open else None
    return Verdict(kind, told.sentence(kind, rows), told.matters, rows)


def kind_of(audit: Audit) -> str:
    """Return the kind of the verdict alone, without searching for what its sentence names."""
    return _Telling(audit, what_matters(audit)).kind()


def what_matters(audit: Audit) -> float:
    """Return the least sum of losses that matters."""
    return float(audit.options["tolerance"] * audit.uninformed)


@dataclass(frozen=True)
class _Telling:
    """What is known of an audit's losses, and how it is said."""

    audit: Audit
    matters: float

    @property
    def by(self) -> Audit:
        """The audit, or that by a column of subgroups, whose grouping loss is the largest found."""
        found = [one for one in self.audit.subgroups.values() if _is_there(one.grouping_loss)]
        return max([self.audit, *found], key=lambda one: one.grouping_loss.value)

    @property
    def grouping(self) -> Estimate:
        return self.by.grouping_loss

    @property
    def total(self) -> Estimate:
        """The sum of calibration and grouping loss, with its standard error."""
        audit, calibration, grouping = self.audit, self.audit.calibration_loss, self.grouping
        if self.is_blind:
            return calibration
        value, parts = calibration.value + grouping.value, dict(audit.influence)
        if "grouping_loss" in self.by.influence:
            parts["grouping_loss"] = self.by.influence["grouping_loss"]
        if {"calibration_loss", "grouping_loss"} <= parts.keys():
            stderr = (parts["calibration_loss"] + parts["grouping_loss"]).stderr()
        elif calibration.stderr is None or grouping.stderr is None:
            return Estimate(value)
        else:
            stderr = math.hypot(calibration.stderr, grouping.stderr)
        return normal_estimate(value, stderr, audit.confidence_level)

    @property
    def low(self) -> float:
        """What the sum surely is at least; itself where its error is not known."""
        return self.total.value - _ONE_SIDED * (self.total.stderr or 0.0)

    @property
    def high(self) -> float:
        """What the sum surely is at most; without end where its error is not known."""
        stderr = self.total.stderr
        return math.inf if stderr is None else self.total.value + _ONE_SIDED * stderr

    @property
    def is_blind(self) -> bool:
        return self.audit.region_source is RegionSource.NONE and self.audit.irreducible_loss is None

    @property
    def is_untested(self) -> bool:
        """Whether no level set was split, and nothing was learned without bins either."""
        audit = self.audit
        split = len(audit.level_sets) and bool((audit.level_sets["n_regions"] > 1).any())
        return not split and audit.without_bins is None and audit.irreducible_loss is None

    @property
    def is_vacuous(self) -> bool:
        """Whether a bound by regions lies wholly below 0, and so tells nothing of the grouping loss."""
        loss = self.audit.grouping_loss
        by_regions = self.audit.without_bins is None and self.audit.irreducible_loss is None
        below = loss.high is not None and loss.high < 0
        few = by_regions and _labels_per_region(self.audit) < LABELS_PER_REGION
        return not self.is_blind and ((by_regions and below) or few)

    @property
    def acts(self) -> bool:
        return self.total.value >= self.matters and self.low >= _SURELY * self.matters

    @property
    def is_below(self) -> bool:
        return self.high < self.matters and self.audit.n_samples >= self._enough_to_learn()

    @property
    def is_there(self) -> bool:
        return _is_there(self.audit.calibration_loss) or self._grouping_is_there

    @property
    def _grouping_is_there(self) -> bool:
        return not self.is_blind and _is_there(self.grouping)

    def _enough_to_learn(self) -> float:
        """Return from how many rows a loss that matters is mostly learned; known groups need none."""
        learned = self.audit.region_source is RegionSource.LEARNED
        if not learned or not self.matters > 0 or self.audit.irreducible_loss is not None:
            return 0.0
        return _LEARNED * self.audit.score.value / self.matters

    def kind(self) -> str:
        """Return the kind of the verdict."""
        if self.is_vacuous:
            return UNCLEAR
        if self.acts:
            return self._action()
        if self.is_below:
            if self.is_blind or self.is_untested:
                return UNCLEAR
            return SMALL if self.is_there else FINE
        return BORDERLINE if self.is_there else UNCLEAR

    @property
    def is_open(self) -> bool:
        """Whether more rows would tell."""
        return not self.is_vacuous and not self.is_below

    def sentence(self, kind: str, rows: int | None) -> str:
        """Return the verdict in words."""
        if self.is_vacuous:
            return self.vacuous()
        if kind == UNCLEAR:
            return self.unclear(rows) if self.is_open else self.right_on_average()
        known = {FINE: self.fine, SMALL: self.small, BORDERLINE: self.borderline}
        return known[kind]() if kind in known else self.to_do(kind)

    def _action(self) -> str:
        """Return what to do: about each part that counts, or about the larger one."""
        calibration, grouping = self.audit.calibration_loss, self.grouping
        least = _PART * self.matters
        recalibrate = _is_there(calibration) and calibration.value >= least
        repair = self._grouping_is_there and grouping.value >= least
        if recalibrate == repair and not self.is_blind:
            return BOTH if repair else RECALIBRATE if calibration.value >= grouping.value else REPAIR
        return REPAIR if repair else RECALIBRATE

    def to_do(self, kind: str) -> str:
        on_average = f"the scores are off on average by {self._size(self.audit.calibration_loss)}"
        if math.isinf(self.audit.calibration_loss.value):
            on_average = "the score is infinite, because an outcome with a score of 0 occurred"
        grouping = self._size(self.grouping)
        at_equal = f"at equal scores, probabilities are off by {self._at_least}{grouping}"
        if kind == REPAIR:
            return f"Repair or retrain: {at_equal}.{self._where()}"
        if kind == RECALIBRATE:
            return f"Recalibrate: {on_average}. {self._beyond()}"
        if self.audit.calibration_loss.value >= self.grouping.value:
            return f"Recalibrate and repair: {on_average}; {at_equal}.{self._where()}"
        return f"Repair and recalibrate: {at_equal}; {on_average}.{self._where()}"

    def _beyond(self) -> str:
        """Say what is known of the grouping loss, where the calibration loss is to be mended."""
        if self.is_blind:
            return "Pass features or subgroups to search for groups that stay wrong after that."
        high = self.grouping.high
        if high is not None and high < self.matters:
            return f"What stays wrong after that is too small to matter, as far as {self._seen_by} show."
        return "More rows are needed to see whether groups of rows stay wrong after that."

    def fine(self) -> str:
        return (
            f"Fine: as far as {self._seen_by} show, probabilities are off by at most "
            f"{self._amount(self.high)}{self._measure}; {self._amount(self.matters)} would matter."
        )

    def small(self) -> str:
        return (
            f"Small: a loss is there{self._evidence()}, but probabilities are off by only "
            f"{self._size(self.total)}; {self._amount(self.matters)} would matter.{self._where()}"
        )

    def borderline(self) -> str:
        return (
            f"Borderline: a loss is there{self._evidence()}; probabilities are off by "
            f"{self._at_least}{self._size(self.total)}, and {self._amount(self.matters)} would matter."
            f"{self._where()}"
        )

    def unclear(self, rows: int | None) -> str:
        wanted = "" if rows is None else f" About {rows:,} rows would tell."
        most = ""
        if math.isfinite(self.high):
            most = (
                f": probabilities may be off by up to {self._amount(self.high)}{self._measure}, and "
                f"{self._amount(self.matters)} would matter"
            )
        return f"Too little data to tell{most}.{wanted}"

    def right_on_average(self) -> str:
        if self.is_blind:
            more = "Pass features or subgroups to search for groups that the model gets wrong."
        else:
            more = "Groups were not tested: no level set has two groups of enough rows to compare."
        return f"Right on average. {more}"

    def vacuous(self) -> str:
        """Say that the regions cannot tell, and what can."""
        if _labels_per_region(self.audit) < LABELS_PER_REGION:
            why = "the regions hold too few of the rarer outcome"
            remedy = "Use method='twin', or larger regions"
        else:
            why = "binning alone induces more than the regions explain"
            remedy = (
                "Use method='twin', or more rows" if self._can_learn else "Use fewer, larger subgroups"
            )
        return f"The grouping loss cannot be estimated this way: {why}. {remedy}."

    @property
    def _can_learn(self) -> bool:
        return self.audit.region_source is RegionSource.LEARNED

    @property
    def _seen_by(self) -> str:
        subgroups = self.audit.region_source is RegionSource.SUBGROUPS
        return "these subgroups" if subgroups else "these features"

    @property
    def _at_least(self) -> str:
        return "at least " if self.audit.is_bound and not self.is_blind else ""

    def _evidence(self) -> str:
        pvalue = self.grouping.pvalue
        return f" (p = {pvalue:.2g})" if self._grouping_is_there and pvalue is not None else ""

    @property
    def _in_points(self) -> bool:
        """Whether a loss is the mean square of an error of probabilities."""
        return self.audit.rule == "brier" and self.audit.task in ("binary", "top-label")

    @property
    def _measure(self) -> str:
        return " (root mean square)" if self._in_points else ""

    def _amount(self, loss: float) -> str:
        """Say a loss in words: for the Brier score its root is an error of probabilities."""
        if self._in_points:
            return f"{_points(loss)} points"
        rule = _NAMES.get(self.audit.rule, "score")
        return f"{max(loss, 0.0):{loss_spec(self.audit.score.value, least=4)}} of the {rule}"

    def _size(self, loss: Estimate) -> str:
        """Say a loss with its interval."""
        text = self._amount(loss.value)
        if loss.low is None or loss.high is None or not math.isfinite(loss.high):
            return text + self._measure
        level = percent(self.audit.confidence_level)
        if self._in_points:
            ends = f"{_points(loss.low)} to {_points(loss.high)}"
            return f"{text} (root mean square; {level} interval {ends})"
        spec = loss_spec(self.audit.score.value, least=4)
        return f"{text} ({level} interval {max(loss.low, 0.0):{spec}} to {loss.high:{spec}})"

    def _where(self) -> str:
        """Name the first segment, where there is one."""
        audit = self.audit
        if self.by.region_source is RegionSource.SUBGROUPS:
            return _most_of_all(_surest_subgroup(audit))
        if audit.region_source is not RegionSource.LEARNED or not len(audit.segments):
            return ""
        first = audit.segments[0]
        return _most_of_all({**vars(first), "name": f"where {first.description}"})

    def rows_needed(self) -> int | None:
        """Return how many rows would end what is unclear, were the losses what they seem to be."""
        n, loss, matters = self.audit.n_samples, self.total, self.matters
        if self.is_untested or n < _FEW_ROWS or not loss.stderr:
            return None  # from so little, no number is worth telling
        distance = loss.value - _SURELY * matters if loss.value >= matters else matters - loss.value
        distance = max(distance, min(loss.stderr, matters / 4))
        factor = max((_ONE_SIDED * loss.stderr / distance) ** 2, self._enough_to_learn() / n, 1.0)
        if not factor <= _MOST_FACTOR:
            return None
        needed = 1.2 * factor * n  # a little more, for chance
        step = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
        return int(math.ceil(needed / step) * step)


def _is_there(loss: Estimate) -> bool:
    """Tell whether a loss is told from 0: by its test or, where there is none, by its interval."""
    if loss.pvalue is not None:
        return loss.pvalue <= _LEVEL
    return loss.low is not None and loss.low > 0


def _surest_subgroup(audit: Audit) -> Mapping[str, Any] | None:
    """Return the subgroup whose gap is the surest, if it is more than noise."""
    rows = [
        {**row, "name": f"for {row['subgroup']} ({column})"}
        for column, table in audit.subgroup_gaps.items()
        for row in table.rows()
        if row["pvalue_adjusted"] <= _LEVEL
    ]
    return min(rows, key=lambda row: float(row["pvalue_adjusted"]), default=None)


def _most_of_all(row: Mapping[str, Any] | None) -> str:
    """Name a group of rows with its gap."""
    if row is None:
        return ""
    gap, low, high = (100 * float(row[name]) for name in ("gap", "low", "high"))
    side = "under-predicted" if gap > 0 else "over-predicted"
    low, high = sorted((abs(low), abs(high))) if low * high > 0 else (0.0, max(abs(low), abs(high)))
    return (
        f" Most of all {printable(str(row['name']))}: {int(row['n']):,} rows, {side} by {abs(gap):.1f} "
        f"points ({low:.1f} to {high:.1f})."
    )


def _points(loss: float) -> str:
    """Return the root of a mean square of errors, in points.

    Examples
    --------
    >>> _points(0.0064), _points(0.0000004), _points(-0.001)
    ('8.0', '0.06', '0')
    """
    points = 100 * math.sqrt(max(loss, 0.0))
    return format(points, ".1f" if points >= 1 else ".1g")


def _labels_per_region(audit: Audit) -> float:
    """Return how many of the rarer labels regions hold on average, where the log-loss rests on them."""
    measured = audit.irreducible_loss is not None
    if audit.rule != "log" or audit.without_bins is not None or measured or not len(audit.regions):
        return math.inf
    regions = audit.regions
    ones, n = float(regions["n"] @ regions["label_mean"]), float(regions["n"].sum())
    return min(ones, n - ones) / len(regions)
