"""A gate for pipelines: whether a loss is significantly above its limit, or above that of a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epiloss.auditing.result import Audit
from epiloss.errors import DataError, OptionError
from epiloss.estimate import Estimate
from epiloss.estimation.inference import difference_estimate
from epiloss.number_format import loss_spec

LOSSES = ("grouping", "calibration", "score")


@dataclass(frozen=True)
class Check:
    """A loss beside its limit; it fails where even the low end of the loss's interval is above."""

    loss: str
    limit: float
    estimate: Estimate

    @property
    def low(self) -> float:
        """The lower confidence limit, or the value where no interval is known."""
        return self.estimate.value if self.estimate.low is None else self.estimate.low

    @property
    def failed(self) -> bool:
        """Tell whether the loss is significantly above its limit."""
        return self.low > self.limit

    def __str__(self) -> str:
        name = _title(self.loss)
        beyond = "significantly above" if self.failed else "not significantly above"
        return f"the {name} is {beyond} {self.limit:g}: {self.estimate:{loss_spec(10 * self.limit)}}"

    def to_dict(self) -> dict[str, float | str | bool]:
        """Return the check as plain values."""
        return {"loss": self.loss, "limit": self.limit, "low": self.low, "failed": self.failed}


@dataclass(frozen=True)
class WorseCheck:
    """A loss beside another one; it fails where all of the difference's interval is above a margin."""

    loss: str
    difference: Estimate
    than: str  # what it is compared with, in words
    margin: float = 0.0
    model: str = ""

    @property
    def low(self) -> float:
        """The lower confidence limit of the difference, or the difference where none is known."""
        return self.difference.value if self.difference.low is None else self.difference.low

    @property
    def failed(self) -> bool:
        """Tell whether the loss is significantly larger, beyond the margin."""
        return self.low > self.margin

    def __str__(self) -> str:
        beyond = "significantly larger" if self.failed else "not significantly larger"
        of = f" of {self.model}" if self.model else ""
        margin = f" by more than {self.margin:g}" if self.margin else ""
        spec = loss_spec(max(abs(self.difference.value), 1e-9))
        return (
            f"the {_title(self.loss)}{of} is {beyond} than {self.than}{margin}: "
            f"difference {self.difference:+{spec}}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain values."""
        plain: dict[str, Any] = {"loss": self.loss, "difference": self.difference.value}
        plain |= {"margin": self.margin, "low": self.low, "failed": self.failed}
        return ({"model": self.model} if self.model else {}) | plain


@dataclass(frozen=True)
class Change:
    """By how much a loss differs from another one, in the same or in an independent sample."""

    loss: str
    value: float
    stderr: float | None
    model: str = ""


def worse_checks(
    changes: Sequence[Change], level: float, than: str, margin: float = 0.0
) -> list[WorseCheck]:
    """Return a check for each difference, with intervals widened for their number (Bonferroni)."""
    if not margin >= 0 or math.isinf(margin):
        raise OptionError(f"margin must be a number of at least 0, got {margin!r}.")
    each = 1 - (1 - level) / max(len(changes), 1)
    return [
        WorseCheck(
            one.loss,
            Estimate(one.value)
            if one.stderr is None
            else difference_estimate(one.value, one.stderr, each),
            than,
            margin,
            one.model,
        )
        for one in changes
    ]


def baseline_checks(result: Audit, baseline: Audit, margin: float = 0.0) -> list[WorseCheck]:
    """Hold the losses of an audit against those of an earlier one.

    The two count as independent samples. On the same rows the true standard error is smaller, so that
    a check fails less often than it could: use ``epiloss.compare`` there. Intervals are widened for the
    number of losses (Bonferroni), so that without any change all checks pass in 97.5% of cases at the
    level 95%. Grouping losses of different methods are not compared: a lower bound is smaller than
    the loss itself.

    Examples
    --------
    >>> import epiloss
    >>> from epiloss.simulate import Sigmoid
    >>> good, bad = Sigmoid(), Sigmoid(perturbation="step")
    >>> samples = [problem.sample(4_000, random_state=i) for i, problem in enumerate((good, good, bad))]
    >>> first, same, worse = (epiloss.audit(one.y, one.scores, one.X) for one in samples)
    >>> [one.failed for one in baseline_checks(same, first)]
    [False, False, False]
    >>> [one.loss for one in baseline_checks(worse, first) if one.failed]
    ['grouping']
    """
    for name in ("task", "rule"):
        then, now = getattr(baseline, name), getattr(result, name)
        if then != now:
            raise DataError(
                f"the baseline must have the {name} of this audit, {now!r}, got {then!r}. Audit both in "
                "the same way."
            )
    losses = [loss for loss in LOSSES if loss != "grouping" or _same_estimate(result, baseline)]
    before, after = _losses(baseline), _losses(result)
    changes = [
        Change(loss, after[loss].value - before[loss].value, _stderr(before[loss], after[loss]))
        for loss in losses
    ]
    return worse_checks(changes, result.confidence_level, "in the baseline", margin)


def _same_estimate(one: Audit, other: Audit) -> bool:
    return one.method == other.method and one.is_bound == other.is_bound


def _stderr(before: Estimate, after: Estimate) -> float | None:
    if before.stderr is None or after.stderr is None:
        return None
    return math.hypot(before.stderr, after.stderr)


def _losses(result: Audit) -> dict[str, Estimate]:
    estimates = (result.grouping_loss, result.calibration_loss, result.score)
    return dict(zip(LOSSES, estimates, strict=True))


def _title(loss: str) -> str:
    return f"{loss} loss" if loss in LOSSES[:2] else loss.replace("_", " ")


def checks(result: Audit, limits: Mapping[str, float]) -> list[Check]:
    """Hold the losses of an audit against limits: ``{"grouping": 0.005, "calibration": 0.002}``.

    Noise alone seldom fails a check: the low end of the interval is held against the limit. The low
    end of a 95% interval is above a loss that is at its limit once in 40 times.

    Examples
    --------
    >>> import epiloss
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(5_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X, method="partition")
    >>> [(one.loss, one.failed) for one in checks(result, {"grouping": 0.01, "calibration": 0.01})]
    [('grouping', True), ('calibration', False)]
    """
    estimates = _losses(result)
    unknown = [loss for loss in limits if loss not in estimates]
    if unknown:
        raise OptionError(f"a limit must be for one of {', '.join(LOSSES)}, got {unknown[0]!r}.")
    return [Check(loss, float(limit), estimates[loss]) for loss, limit in limits.items()]


def read_limits(texts: Sequence[str]) -> dict[str, float]:
    """Return limits by loss from texts; a limit alone is that of the grouping loss.

    Examples
    --------
    >>> read_limits(["0.005", "calibration=0.002"])
    {'grouping': 0.005, 'calibration': 0.002}
    """
    limits: dict[str, float] = {}
    for text in texts:
        loss, _, limit = text.rpartition("=")
        loss = loss.strip().lower() or "grouping"
        try:
            number = float(limit)
        except ValueError:
            number = float("nan")
        if loss not in LOSSES or not number >= 0 or number == float("inf"):
            raise OptionError(
                f"a limit must be a number of at least 0, alone or for one of {', '.join(LOSSES)}, as "
                f"in grouping=0.005; got {text!r}."
            )
        if loss in limits:
            raise OptionError(f"each loss may have one limit, got two for {loss!r}.")
        limits[loss] = number
    return limits
