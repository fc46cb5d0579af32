"""Gates for pipelines: tests whether a loss is significantly above a limit or a baseline."""

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
    """A loss and its limit; the check fails if the loss's interval is entirely above the limit."""

    loss: str
    limit: float
    estimate: Estimate

    @property
    def low(self) -> float:
        """The lower confidence limit, or the value if there is no interval."""
        return self.estimate.value if self.estimate.low is None else self.estimate.low

    @property
    def failed(self) -> bool:
        """Whether the loss is significantly above its limit."""
        return self.low > self.limit

    def __str__(self) -> str:
        verb = "is" if self.failed else "is not"
        estimate = format(self.estimate, loss_spec(10 * self.limit))
        return f"the {_title(self.loss)} {verb} significantly above {self.limit:g}: {estimate}"

    def to_dict(self) -> dict[str, float | str | bool]:
        """Return the check as plain values."""
        return {"loss": self.loss, "limit": self.limit, "low": self.low, "failed": self.failed}


@dataclass(frozen=True)
class WorseCheck:
    """The difference of two losses; the check fails if its whole interval is above a margin."""

    loss: str
    difference: Estimate
    than: str  # what the loss is compared with, in words
    margin: float = 0.0
    model: str = ""
    n_checks: int = 1  # for which the interval is adjusted

    @property
    def low(self) -> float:
        """The lower confidence limit of the difference, or its value if there is no interval."""
        return self.difference.value if self.difference.low is None else self.difference.low

    @property
    def failed(self) -> bool:
        """Whether the loss is significantly larger by more than the margin."""
        return self.low > self.margin

    def __str__(self) -> str:
        verb = "is" if self.failed else "is not"
        of = f" of {self.model}" if self.model else ""
        margin = f" by more than {self.margin:g}" if self.margin else ""
        spec = loss_spec(max(abs(self.difference.value), 1e-9))
        adjusted = f", adjusted for {self.n_checks} comparisons" if self.n_checks > 1 else ""
        return (
            f"the {_title(self.loss)}{of} {verb} significantly larger than {self.than}{margin}: "
            f"difference {self.difference:+{spec}}{adjusted}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain values."""
        plain: dict[str, Any] = {"loss": self.loss, "difference": self.difference.value}
        plain |= {"margin": self.margin, "low": self.low, "failed": self.failed}
        return ({"model": self.model} if self.model else {}) | plain


@dataclass(frozen=True)
class Change:
    """The difference of a loss from another one, on the same rows or on an independent sample."""

    loss: str
    value: float
    stderr: float | None
    model: str = ""


def worse_checks(
    changes: Sequence[Change], level: float, than: str, margin: float = 0.0
) -> list[WorseCheck]:
    """Return a check for each difference; intervals are adjusted for their number (Bonferroni)."""
    if not margin >= 0 or math.isinf(margin):
        raise OptionError(f"margin must be a finite number of at least 0, got {margin!r}.")
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
            len(changes),
        )
        for one in changes
    ]


def baseline_checks(result: Audit, baseline: Audit, margin: float = 0.0) -> list[WorseCheck]:
    """Compare the losses of an audit with those of an earlier one.

    The two audits are treated as independent samples. If they use the same rows, the true standard
    error is smaller and the checks are less sensitive than they could be; use ``epiloss.compare``
    instead. Intervals are adjusted for the number of losses (Bonferroni): without any change, all checks
    pass in at least 97.5% of cases at a confidence level of 95%. Grouping losses estimated by different
    methods are not compared, because a lower bound is smaller than the loss itself.

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
                f"the baseline must have the {name} of this audit, {now!r}, got {then!r}. Audit both "
                "with the same options."
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
    """Compare the losses of an audit with limits: ``{"grouping": 0.005, "calibration": 0.002}``.

    A check compares the lower end of the interval with the limit, so noise alone seldom fails it: if a
    loss equals its limit, the lower end of its 95% interval is above the limit once in 40 audits.

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
        raise OptionError(
            f"limits must be for {', '.join(LOSSES)}, got {unknown[0]!r}. Rename or remove it."
        )
    return [Check(loss, float(limit), estimates[loss]) for loss, limit in limits.items()]


def read_limits(texts: Sequence[str]) -> dict[str, float]:
    """Parse limits such as "calibration=0.002"; a number alone is the limit of the grouping loss.

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
                f"a limit must be a number of at least 0, or LOSS=NUMBER with a loss out of "
                f"{', '.join(LOSSES)}, got {text!r}. Write, for example, grouping=0.005."
            )
        if loss in limits:
            raise OptionError(f"each loss may have one limit, got two for {loss!r}. Remove one of them.")
        limits[loss] = number
    return limits
