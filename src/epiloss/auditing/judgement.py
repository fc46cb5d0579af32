"""The kind of the verdict: whether there is a loss, whether it matters, and what to do about it.

Two questions are kept apart. *Is there a loss?* A calibration loss is present if its interval lies above
0, a grouping loss if its test rejects at 5%. *Does it matter?* The sum of both is compared with a
threshold: ``tolerance`` times the score of always predicting the base rate. The default tolerance is 1%;
for a balanced binary task and the Brier score, the threshold is then 0.0025, or probabilities that are
off by 5 points.

==================================================================  ================================
the sum of both losses                                              verdict
==================================================================  ================================
reaches the threshold; lower limit at least 0.7 of it               recalibrate, repair, or both
upper limit below the threshold, and enough rows to learn from      fine; small if a loss is present
neither, and a loss is present                                      borderline
neither, and no loss is found                                       too little data to tell
==================================================================  ================================

If a column nearly determines the label, the verdict is to check for a leak, whatever the losses are.

The limits are one-sided 95% limits; the upper one takes the variance at the limit itself, because the
variance grows with the loss. The verdict recommends an action on each part of the sum that is present
and reaches the threshold by itself, the larger one first. Beside such a part, a smaller one would not
matter once the larger is removed. If neither part reaches the threshold, but their sum does, both parts
count from half of it. Without features, the calibration loss decides alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import ndtri

from epiloss.auditing.leaks import Leak, find_leak
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.run import LEAST_EFFECTIVE
from epiloss.estimation.inference import loss_estimate, normal_estimate
from epiloss.input.problem import RegionSource
from epiloss.scoring import Brier, LogLoss

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

FINE, SMALL, BORDERLINE, UNCLEAR = "fine", "small", "borderline", "unclear"
LEAK = "leak"
RECALIBRATE, REPAIR, BOTH = "recalibrate", "repair", "recalibrate-and-repair"
LEVEL = 0.05
LABELS_PER_REGION, LABELS_ENOUGH = 2, 5  # rows with the rarer label; entropies of fewer are biased
_LOWER_LIMIT, _PART = 0.7, 0.5  # fractions of the threshold: the lower limit of the sum; a part
_ONE_SIDED = float(ndtri(1 - LEVEL))
# Rows times loss over score. At this value, a loss is ten standard errors for an oracle that knows where
# to look, and learners find most of it.
_ENOUGH_TO_LEARN = 100
_MOST_FACTOR, _FEW_ROWS = 1e4, 100


def judged(audit: Audit) -> Judgement:
    """Compare the losses of an audit with the threshold from which losses matter."""
    return Judgement(audit, float(audit.options["tolerance"] * audit.uninformed))


def kind_of(audit: Audit) -> str:
    """Return the kind of the verdict without its sentence, for which segments would be searched."""
    return judged(audit).kind()


@dataclass(frozen=True)
class Judgement:
    """The losses of an audit, compared with the threshold ``matters``."""

    audit: Audit
    matters: float

    @property
    def by(self) -> Audit:
        """The audit with the largest grouping loss: the whole, or that of a column of subgroups."""
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
        """The lower limit of the sum; its value if there is no standard error."""
        return self.total.value - _ONE_SIDED * (self.total.stderr or 0.0)

    @property
    def high(self) -> float:
        """The upper limit of the sum; infinite if there is no standard error."""
        value, stderr = self.total.value, self.total.stderr
        if stderr is None:
            return math.inf
        high = loss_estimate(value, stderr, self._variance_per_loss(), 1 - 2 * LEVEL).high
        return math.inf if high is None else high

    def _variance_per_loss(self) -> float:
        """Return the increase of the variance of the sum per unit of loss; 0 if it is not known.

        A row's influence is ``2 (Q - S) (Y - C)`` to first order for the Brier score, whose variance is
        ``4 E[C (1 - C)]`` times the loss; for the log-loss it is twice the loss.
        """
        audit = self.audit
        n = audit.n_samples if audit.effective_rows is None else audit.effective_rows
        if audit.rule == Brier().name:
            return 4 * audit.bounds.grouping_loss_high / n
        return 2 / n if audit.rule == LogLoss().name else 0.0

    @property
    def is_blind(self) -> bool:
        """Whether there are neither features nor subgroups to find a grouping loss with."""
        return self.audit.region_source is RegionSource.NONE and self.audit.irreducible_loss is None

    @property
    def is_untested(self) -> bool:
        """Whether no level set was split and no estimate without bins was made either."""
        audit = self.audit
        split = len(audit.level_sets) and bool((audit.level_sets["n_regions"] > 1).any())
        return not split and audit.without_bins is None and audit.irreducible_loss is None

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound by regions says nothing: its interval is below 0, or labels are too rare."""
        loss = self.audit.grouping_loss
        by_regions = self.audit.without_bins is None and self.audit.irreducible_loss is None
        below = loss.high is not None and loss.high < 0
        few = by_regions and labels_per_region(self.audit) < LABELS_PER_REGION
        return not self.is_blind and ((by_regions and below) or few)

    @property
    def is_too_few(self) -> bool:
        """Whether the weights leave too few effective rows for standard errors."""
        effective = self.audit.effective_rows
        return effective is not None and effective < LEAST_EFFECTIVE

    @property
    def acts(self) -> bool:
        """Whether the losses are large enough to recommend an action."""
        return self.total.value >= self.matters and self.low >= _LOWER_LIMIT * self.matters

    @property
    def is_below(self) -> bool:
        """Whether the sum is significantly below the threshold, with enough rows to learn from."""
        return self.high < self.matters and self.audit.n_samples >= self._enough_to_learn()

    @property
    def is_there(self) -> bool:
        """Whether either loss is significantly above 0."""
        return is_there(self.audit.calibration_loss) or self.grouping_is_there

    @property
    def grouping_is_there(self) -> bool:
        """Whether the grouping loss is significantly above 0."""
        return not self.is_blind and is_there(self.grouping)

    def _enough_to_learn(self) -> float:
        """Return the number of rows needed to learn a loss that matters; known groups need none."""
        learned = self.audit.region_source is RegionSource.LEARNED
        if not learned or not self.matters > 0 or self.audit.irreducible_loss is not None:
            return 0.0
        return _ENOUGH_TO_LEARN * self.audit.score.value / self.matters

    @property
    def leak(self) -> Leak | None:
        """A column that nearly determines the label, if there is one."""
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
        """Whether more rows would settle the verdict."""
        return not self.is_vacuous and not self.is_below and not self.is_too_few

    def _action(self) -> str:
        """Return the action for each part that is large enough, or for the larger part."""
        calibration, grouping = self.audit.calibration_loss, self.grouping
        recalibrate, repair = self._parts_from(self.matters)
        if not recalibrate and not repair:
            recalibrate, repair = self._parts_from(_PART * self.matters)
        if recalibrate == repair and not self.is_blind:
            return BOTH if repair else RECALIBRATE if calibration.value >= grouping.value else REPAIR
        return REPAIR if repair else RECALIBRATE

    def _parts_from(self, least: float) -> tuple[bool, bool]:
        """Return which of calibration and grouping loss are present and have at least this size."""
        calibration = self.audit.calibration_loss
        recalibrate = is_there(calibration) and calibration.value >= least
        recalibrate |= math.isinf(calibration.value)  # without a standard error or a test
        return recalibrate, self.grouping_is_there and self.grouping.value >= least

    def rows_needed(self) -> int | None:
        """Return how many rows would settle the verdict if the losses are as estimated."""
        n, loss, matters = self.audit.n_samples, self.total, self.matters
        if self.is_untested or n < _FEW_ROWS or not loss.stderr:
            return None  # a number extrapolated from so few rows would be meaningless
        distance = loss.value - _LOWER_LIMIT * matters if loss.value >= matters else matters - loss.value
        distance = max(distance, min(loss.stderr, matters / 4))
        factor = max((_ONE_SIDED * loss.stderr / distance) ** 2, self._enough_to_learn() / n, 1.0)
        if not factor <= _MOST_FACTOR:
            return None
        needed = 1.2 * factor * n  # with a margin for chance
        step = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
        return int(math.ceil(needed / step) * step)


def is_there(loss: Estimate) -> bool:
    """Return whether a loss is significantly above 0, by its test or else by its interval."""
    if loss.pvalue is not None:
        return loss.pvalue <= LEVEL
    return loss.low is not None and loss.low > 0


def labels_per_region(audit: Audit) -> float:
    """Return the mean number of rarer labels per region if the log-loss is based on regions."""
    measured = audit.irreducible_loss is not None
    if audit.rule != "log" or audit.without_bins is not None or measured or not len(audit.regions):
        return math.inf
    regions = audit.regions
    ones, n = float(regions["n"] @ regions["label_mean"]), float(regions["n"].sum())
    return min(ones, n - ones) / len(regions)
