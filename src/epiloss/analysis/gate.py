"""A gate for pipelines: whether a loss is significantly above its limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.estimate import Estimate
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
        name = self.loss if self.loss == "score" else f"{self.loss} loss"
        beyond = "significantly above" if self.failed else "not significantly above"
        return f"the {name} is {beyond} {self.limit:g}: {self.estimate:{loss_spec(10 * self.limit)}}"

    def to_dict(self) -> dict[str, float | str | bool]:
        """Return the check as plain values."""
        return {"loss": self.loss, "limit": self.limit, "low": self.low, "failed": self.failed}


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
    estimates = dict(
        zip(LOSSES, (result.grouping_loss, result.calibration_loss, result.score), strict=True)
    )
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
