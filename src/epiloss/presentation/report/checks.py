"""What an audit has checked without finding anything wrong."""

from __future__ import annotations

import math

from epiloss.auditing.judgement import is_there, judged
from epiloss.auditing.result import Audit
from epiloss.estimate import percent
from epiloss.input.problem import RegionSource
from epiloss.number_format import loss_spec

_DUPLICATES = "duplicate-rows"


def passed_checks(audit: Audit) -> list[str]:
    """Return a sentence for each check that an audit has passed; none if its rows were not kept.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(2_000)
    >>> for text in passed_checks(epiloss.audit(sample.y, sample.scores, sample.X)):
    ...     print(text)
    Scores are right on average: no calibration loss was found (-0.00020 [-0.00124, 0.00085]).
    No column nearly determines the label.
    Few rows, if any, are duplicates of others.
    """
    if audit.details is None:
        return []
    found, spec = [], loss_spec(audit.score.value)
    if math.isfinite(audit.calibration_loss.value) and not is_there(audit.calibration_loss):
        shown = f"{audit.calibration_loss:{spec}}"
        found.append(f"Scores are right on average: no calibration loss was found ({shown}).")
    if audit.region_source is RegionSource.LEARNED:
        found += _of_features(audit)
    level = 1 - audit.confidence_level
    for column, table in audit.subgroup_gaps.items():
        if (table["pvalue_adjusted"] > level).all():
            found.append(f"No gap beyond noise was found for the subgroups of {column}.")
    return found


def _of_features(audit: Audit) -> list[str]:
    found = []
    if judged(audit).leak is None:
        found.append("No column nearly determines the label.")
    has_clusters = audit.details is not None and audit.details.problem.clusters is not None
    if not has_clusters and _DUPLICATES not in {remark.code for remark in audit.remarks}:
        found.append("Few rows, if any, are duplicates of others.")
    equal = audit.equal_rows
    if equal is not None and equal.agrees:
        found.append(
            f"Rows with equal features and scores ({percent(round(equal.share, 2))} of the rows) agree "
            f"with the learners: their labels alone show a grouping loss of {equal.grouping_loss:.4f}, "
            f"and the learners estimate {equal.learned:.4f} for them."
        )
    return found
