"""What an audit computes only when asked for, and keeps: segments, metrics and equal rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epiloss._progress import working
from epiloss.auditing.equal_rows import EqualRows, equal_rows
from epiloss.metrics.measure import measure_audited, not_measured
from epiloss.metrics.result import Metrics
from epiloss.segments.describe import find_segments
from epiloss.segments.result import NO_ROWS, Segments

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit


def segments_of(audit: Audit) -> Segments:
    """Search for segments, once."""
    details = audit.details
    if details is None:
        return Segments((), note=NO_ROWS)

    def search() -> Segments:
        with working("searching for segments", details.options.verbose):
            return find_segments(
                details.problem,
                details.options,
                grouping_loss=audit.grouping_loss.value,
                display=details.display,
            )

    return details.kept("segments", search)


def metrics_of(audit: Audit) -> Metrics:
    """Measure accuracy, AUC, calibration errors and the like, once."""
    details = audit.details
    if details is None:
        return not_measured("The rows of this audit were not kept: run it again for its metrics.")
    if details.options.recalibrate is not None and audit.recalibrated is None:
        return not_measured("Each fold has recalibrated scores of its own: audit them by themselves.")
    drawn = audit.irreducible_loss is not None
    return details.kept(
        "metrics",
        lambda: measure_audited(details.problem, details.options, n_rows=audit.n_samples, drawn=drawn),
    )


def equal_rows_of(audit: Audit) -> EqualRows | None:
    """Measure the grouping loss of rows with equal features and score, once."""
    details = audit.details
    if details is None or audit.irreducible_loss is not None:
        return None
    influence = None if audit.is_bound else audit.influence.get("grouping_loss")
    return details.kept(
        "equal rows",
        lambda: equal_rows(details.problem, details.options, audit.grouping_loss, influence),
    )
