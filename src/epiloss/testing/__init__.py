"""Assertions for test suites that fail if a model's probabilities are not good enough."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epiloss.analysis.gate import WorseCheck, baseline_checks, checks
from epiloss.analysis.saved import load_audit
from epiloss.auditing.result import Audit

__all__ = ["assert_trustworthy"]

_TO_DO = ("recalibrate", "repair", "recalibrate-and-repair")  # verdicts that ask for action


def assert_trustworthy(
    result: Audit,
    *,
    limits: Mapping[str, float] | None = None,
    baseline: Audit | str | Path | None = None,
    margin: float = 0.0,
) -> None:
    """Raise an AssertionError that shows the audit if it is not good enough.

    A loss fails if it is significantly above its limit, or significantly larger than in the baseline, so
    noise alone seldom raises the error. Without limits and baseline, the verdict must not ask for
    recalibration or repair.

    Parameters
    ----------
    result : Audit
        The audit of the model.
    limits : mapping of {"grouping", "calibration", "score"} to float, optional
        The largest acceptable value of each loss.
    baseline : Audit or path, optional
        An earlier audit, or its saved JSON, to compare the losses with.
    margin : float
        The increase over the baseline to tolerate.

    See Also
    --------
    epiloss.audit : audits a model.
    epiloss.load_result : reads a saved audit.

    Examples
    --------
    >>> import epiloss
    >>> from epiloss.testing import assert_trustworthy
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(4_000)
    >>> good = epiloss.audit(sample.y, sample.q, sample.X)
    >>> assert_trustworthy(good, limits={"grouping": 0.005, "calibration": 0.005})
    >>> bad = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> try:
    ...     assert_trustworthy(bad, baseline=good)
    ... except AssertionError as error:
    ...     print(str(error)[:62])
    the grouping loss is significantly larger than in the baseline
    """
    __tracebackhide__ = True  # makes pytest show the line of the test
    failed: list[str] = [str(one) for one in checks(result, limits or {}) if one.failed]
    if baseline is not None:
        before = baseline if isinstance(baseline, Audit) else load_audit(baseline)
        against: list[WorseCheck] = baseline_checks(result, before, margin)
        failed += [str(one) for one in against if one.failed]
    if limits is None and baseline is None and result.verdict.kind in _TO_DO:
        failed.append(str(result.verdict))
    if failed:
        raise AssertionError("\n".join([*failed, "", str(result)]))
