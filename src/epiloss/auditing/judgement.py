"""The kind of the verdict: is a loss there, does it matter, and what is to be done about it.

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

A column that nearly tells the label goes before all of these: the verdict is then to check for a leak.

"Surely" is the one-sided 95% limit. To be acted on, a part of the sum must be there, and be half of what
matters; the larger part is named first. Without features the calibration loss decides alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import ndtri

from epiloss.auditing.leaks import Leak, find_leak
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.run import LEAST_EFFECTIVE
from epiloss.estimation.inference import normal_estimate
from epiloss.input.problem import RegionSource

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

FINE, SMALL, BORDERLINE, UNCLEAR = "fine", "small", "borderline", "unclear"
LEAK = "leak"
RECALIBRATE, REPAIR, BOTH = "recalibrate", "repair", "recalibrate-and-repair"
LEVEL = 0.05
LABELS_PER_REGION, LABELS_ENOUGH = 2, 5  # of the rarer kind, below which entropies have a bias
_SURELY, _PART = 0.7, 0.5  # of what matters: what a loss to act on surely is, and a part of it
_ONE_SIDED = float(ndtri(1 - LEVEL))
_LEARNED = 100  # rows times loss over score: ten standard errors to one who knows where to look
_MOST_FACTOR, _FEW_ROWS = 1e4, 100


def judged(audit: Audit) -> Judgement:
    """Hold the losses of an audit against what matters."""
    return Judgement(audit, float(audit.options["tolerance"] * audit.uninformed))


def kind_of(audit: Audit) -> str:
    """Return the kind of the verdict alone, without searching for what its sentence names."""
    return judged(audit).kind()


@dataclass(frozen=True)
class Judgement:
    """What is known of an audit's losses, held against what ``matters``."""

    audit: Audit
    matters: float

    @property
    def by(self) -> Audit:
        """The audit, or that by a column of subgroups, whose grouping loss is the largest found."""
        found = [one for one in self.audit.subgroups.values() if is_there(one.grouping_loss)]
        return max([self.audit, *found], key=lambda one: one.grouping_loss.value)

    @property
    def grouping(self) -> Estimate:
        """The largest grouping loss found."""
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
        """Whether there was nothing to look for a grouping loss in."""
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
        few = by_regions and labels_per_region(self.audit) < LABELS_PER_REGION
        return not self.is_blind and ((by_regions and below) or few)

    @property
    def is_too_few(self) -> bool:
        """Whether weights leave so few effective rows that no standard error can be trusted."""
        effective = self.audit.effective_rows
        return effective is not None and effective < LEAST_EFFECTIVE

    @property
    def acts(self) -> bool:
        """Whether something is to be done."""
        return self.total.value >= self.matters and self.low >= _SURELY * self.matters

    @property
    def is_below(self) -> bool:
        """Whether the sum surely does not matter."""
        return self.high < self.matters and self.audit.n_samples >= self._enough_to_learn()

    @property
    def is_there(self) -> bool:
        """Whether either loss is told from 0."""
        return is_there(self.audit.calibration_loss) or self.grouping_is_there

    @property
    def grouping_is_there(self) -> bool:
        """Whether the grouping loss is told from 0."""
        return not self.is_blind and is_there(self.grouping)

    def _enough_to_learn(self) -> float:
        """Return from how many rows a loss that matters is mostly learned; known groups need none."""
        learned = self.audit.region_source is RegionSource.LEARNED
        if not learned or not self.matters > 0 or self.audit.irreducible_loss is not None:
            return 0.0
        return _LEARNED * self.audit.score.value / self.matters

    @property
    def leak(self) -> Leak | None:
        """A column that nearly tells the label; it is looked for once."""
        details = self.audit.details
        if details is None:
            return None
        return details.kept("leak", lambda: find_leak(details.problem))

    def kind(self) -> str:
        """Return the kind of the verdict."""
        if self.is_too_few:
            return UNCLEAR
        if self.leak is not None:
            return LEAK
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
        return not self.is_vacuous and not self.is_below and not self.is_too_few

    def _action(self) -> str:
        """Return what to do: about each part that counts, or about the larger one."""
        calibration, grouping = self.audit.calibration_loss, self.grouping
        least = _PART * self.matters
        recalibrate = is_there(calibration) and calibration.value >= least
        repair = self.grouping_is_there and grouping.value >= least
        if recalibrate == repair and not self.is_blind:
            return BOTH if repair else RECALIBRATE if calibration.value >= grouping.value else REPAIR
        return REPAIR if repair else RECALIBRATE

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


def is_there(loss: Estimate) -> bool:
    """Tell whether a loss is told from 0: by its test or, where there is none, by its interval."""
    if loss.pvalue is not None:
        return loss.pvalue <= LEVEL
    return loss.low is not None and loss.low > 0


def labels_per_region(audit: Audit) -> float:
    """Return how many of the rarer labels regions hold on average, where the log-loss rests on them."""
    measured = audit.irreducible_loss is not None
    if audit.rule != "log" or audit.without_bins is not None or measured or not len(audit.regions):
        return math.inf
    regions = audit.regions
    ones, n = float(regions["n"] @ regions["label_mean"]), float(regions["n"].sum())
    return min(ones, n - ones) / len(regions)
