"""Estimate: a value with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A value with its uncertainty, where known.

    ``float(estimate)`` is the value; ``f"{estimate:.3f}"`` also shows the confidence interval.

    Attributes
    ----------
    value : float
        The estimate.
    stderr : float or None
        Its standard error.
    low, high : float or None
        Its confidence interval.
    pvalue : float or None
        The p-value of the hypothesis that the loss, or difference, is zero.

    See Also
    --------
    Audit : its losses are estimates.

    Examples
    --------
    >>> f"{Estimate(0.0312, low=0.0274, high=0.035):.3f}", f"{Estimate(0.0312):.3f}"
    ('0.031 [0.027, 0.035]', '0.031')
    >>> float(Estimate(0.0312)), Estimate(0.0312, stderr=0.002).to_dict()["stderr"]
    (0.0312, 0.002)
    """

    value: float
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    pvalue: float | None = None

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        text = format(self.value, spec)
        if self.low is None or self.high is None:
            return text
        return f"{text} [{format(self.low, spec)}, {format(self.high, spec)}]"

    def to_dict(self) -> dict[str, float | None]:
        """Return the fields by name.

        Returns
        -------
        dict
            Value, standard error, confidence interval and p-value; None where unknown.
        """
        return dict(vars(self))


def percent(share: float) -> str:
    """Format a fraction as a percentage, without trailing zeros.

    Examples
    --------
    >>> percent(0.95), percent(0.995), percent(0.57)
    ('95%', '99.5%', '57%')
    """
    return f"{100 * share:.10g}%"
