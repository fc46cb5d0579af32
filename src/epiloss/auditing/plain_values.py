"""An audit as plain Python values, as JSON needs them; `saved.py` reads them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epiloss._saving import SCHEMA, for_json
from epiloss.estimate import Estimate
from epiloss.table import Table

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

_NOT_SAVED = ("influence", "details")


def plain_audit(audit: Audit) -> dict[str, Any]:
    """Return everything but the rows as plain values; numbers that are not finite become None."""
    metrics = audit.metrics.to_dict()
    finite: dict[str, Any] = for_json({"schema": SCHEMA, **_without_metrics(audit), "metrics": metrics})
    return finite


def _without_metrics(audit: Audit) -> dict[str, Any]:
    """Return everything but the metrics, which audits by subgroup share with the whole."""
    plain = {
        name: value.to_dict() if isinstance(value, Estimate | Table) else value
        for name, value in vars(audit).items()
        if name not in _NOT_SAVED
    }
    plain["verdict"] = dict(vars(audit.verdict))
    plain["bounds"] = dict(vars(audit.bounds))
    plain["options"] = dict(audit.options)
    plain["region_source"] = audit.region_source.value
    plain["remarks"] = [remark.to_dict() for remark in audit.remarks]
    plain["subgroups"] = {
        name: {"schema": SCHEMA, **_without_metrics(one)} for name, one in audit.subgroups.items()
    }
    plain["subgroup_gaps"] = {name: one.to_dict() for name, one in audit.subgroup_gaps.items()}
    plain["segments"] = audit.segments.to_dict()
    equal_rows = audit.equal_rows
    plain["equal_rows"] = None if equal_rows is None else equal_rows.to_dict()
    plain["recalibrated"] = audit.recalibrated.to_dict() if audit.recalibrated else None
    return plain
