"""A skore check: ``report.checks.add([ProbabilityCheck()])`` audits the report's probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from epiloss._models import predicted_probabilities
from epiloss.auditing.judgement import BORDERLINE, FINE, SMALL, UNCLEAR
from epiloss.auditing.run import audit
from epiloss.errors import DataError, MissingExtraError, OptionError

try:
    from skore import Check, CheckNotApplicable
except ImportError:
    raise MissingExtraError(
        "the check needs skore, which is not installed. Run: pip install 'epiloss[skore]'"
    ) from None

_TASKS = ("binary-classification", "multiclass-classification")


class ProbabilityCheck(Check):  # type: ignore[misc]  # skore may not be installed
    """Report an issue if the probabilities are off, on average or at equal scores.

    For the report of an estimator, the check audits the test rows. For a cross-validation, it audits all
    rows, each with the model that was not fitted to it. The explanation is the verdict of the audit.

    Parameters
    ----------
    **options
        Options of :func:`epiloss.audit`.
    """

    code = "EPI001"
    title = "Probabilities are off"
    report_types = ["estimator", "cross-validation"]  # noqa: RUF012  # skore expects a list
    docs_url = None
    severity = "issue"
    slow = True

    def __init__(self, **options: Any) -> None:
        self.options = options

    def check_function(self, report: Any) -> str | None:
        """Return the verdict if it asks for recalibration or repair, otherwise None."""
        if report.ml_task not in _TASKS:
            raise CheckNotApplicable(f"Only classifiers have probabilities; got {report.ml_task}.")
        try:
            verdict = audit(*_rows(report), **self.options).verdict
        except (DataError, OptionError) as error:
            raise CheckNotApplicable(str(error)) from error
        return None if verdict.kind in (FINE, SMALL, BORDERLINE, UNCLEAR) else str(verdict)


def _rows(report: Any) -> tuple[Any, Any, Any]:
    """Return the labels, probabilities and features of held-out rows."""
    if hasattr(report, "X_test"):
        scores, _ = predicted_probabilities(report.estimator_, report.X_test)
        return report.y_test, scores, report.X_test
    tested = [test for _, test in report.split_indices]
    if not np.array_equal(np.sort(np.concatenate(tested)), np.arange(len(report.y))):
        raise CheckNotApplicable("Splits must test each row exactly once. Use KFold or StratifiedKFold.")
    parts = [predicted_probabilities(one.estimator_, one.X_test)[0] for one in report.reports_]
    scores = np.empty((len(report.y), parts[0].shape[1]))
    for rows, part in zip(tested, parts, strict=True):
        scores[rows] = part
    return report.y, scores, report.X
