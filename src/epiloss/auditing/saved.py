"""Audits read back from JSON, including JSON of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from epiloss._saving import SCHEMA
from epiloss.auditing.fields import Bounds
from epiloss.auditing.result import Audit
from epiloss.auditing.verdict import Verdict
from epiloss.errors import Remark
from epiloss.estimate import Estimate
from epiloss.input.problem import RegionSource
from epiloss.metrics.result import Metric, Metrics, NoiseFloor
from epiloss.segments.result import NO_ROWS, Segment, Segments
from epiloss.table import Table

_ESTIMATES = (
    "score", "calibration_loss", "grouping_loss", "remainder", "partition_bound", "crossfit_bound",
    "twin_estimate", "irreducible_loss",
)  # fmt: skip
_READ = (  # fields that are not plain numbers or strings
    *_ESTIMATES, "level_sets", "regions", "histogram", "bounds", "region_source", "options", "remarks",
    "recalibrated", "subgroups",
)  # fmt: skip
_NO_METRICS = "This audit was saved without metrics: run it again for them."


@dataclass(frozen=True)
class SavedAudit(Audit):
    """An audit without its rows; results that need the rows are those that were saved."""

    saved: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def verdict(self) -> Verdict:
        """The verdict that was saved."""
        known = {one.name for one in fields(Verdict)}
        return Verdict(**{name: part for name, part in self.saved["verdict"].items() if name in known})

    @property
    def segments(self) -> Segments:
        """The segments that were saved, without their rows."""
        plain = self.saved.get("segments")
        if plain is None:
            return Segments((), note=NO_ROWS)
        found = tuple(_segment(one) for one in plain["segments"])
        return Segments(found, tuple(plain["passed"]), plain["note"])

    @property
    def metrics(self) -> Metrics:
        """The metrics that were saved."""
        plain = self.saved.get("metrics")
        return Metrics({}, notes=(_NO_METRICS,)) if plain is None else read_metrics(plain)

    @property
    def subgroup_gaps(self) -> Mapping[str, Table]:
        """The subgroup gaps that were saved."""
        return {name: read_table(one) for name, one in self.saved.get("subgroup_gaps", {}).items()}

    def to_dict(self) -> dict[str, Any]:
        """Return what was saved.

        Returns
        -------
        dict
            The attributes by name, and the version of the schema.
        """
        return {**self.saved, "schema": SCHEMA}


def read_audit(plain: Mapping[str, Any]) -> SavedAudit:
    """Return the audit that ``Audit.to_dict`` returned; fields that an earlier version lacks are None.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X, method="partition")
    >>> again = read_audit(result.to_dict())
    >>> str(again) == str(result), again.to_dict() == result.to_dict()
    (True, True)
    """
    again = plain.get("recalibrated")
    estimates: dict[str, Any] = {name: read_estimate(plain.get(name)) for name in _ESTIMATES}
    as_saved = [one.name for one in fields(Audit) if one.name in plain and one.name not in _READ]
    return SavedAudit(
        **{name: plain[name] for name in as_saved},
        **estimates,
        level_sets=read_table(plain["level_sets"]),
        regions=read_table(plain["regions"]),
        histogram=read_table(plain["histogram"]),
        bounds=Bounds(**plain["bounds"]),
        region_source=RegionSource(plain["region_source"]),
        options=dict(plain["options"]),
        remarks=tuple(map(Remark.from_dict, plain["remarks"])),
        recalibrated=None if again is None else read_audit(again),
        subgroups={str(name): read_audit(one) for name, one in plain["subgroups"].items()},
        saved=plain,
    )


def read_estimate(plain: Mapping[str, Any] | None) -> Estimate | None:
    """Return an estimate; a missing value was infinite, which JSON cannot express."""
    if plain is None:
        return None
    numbers = {name: None if one is None else float(one) for name, one in plain.items()}
    value = numbers.pop("value")
    return Estimate(np.inf if value is None else value, **numbers)


def read_table(plain: Mapping[str, list[Any]]) -> Table:
    """Return a table; missing numbers were NaN, which JSON cannot express."""
    return Table({str(name): _column(values) for name, values in plain.items()})


def _column(values: list[Any]) -> Any:
    if any(isinstance(one, str) for one in values):
        return np.array(values, object)
    if any(one is None or isinstance(one, float) for one in values):
        return np.array([np.nan if one is None else one for one in values], float)
    is_bool = any(isinstance(one, bool) for one in values)
    return np.array(values, bool if is_bool else np.int64)


def _segment(plain: Mapping[str, Any]) -> Segment:
    known = {one.name for one in fields(Segment)} - {"conditions", "rows"}
    return Segment(conditions=(), **{name: one for name, one in plain.items() if name in known})


def read_metrics(plain: Mapping[str, Any]) -> Metrics:
    """Return the metrics that ``Metrics.to_dict`` returned."""
    return Metrics(
        {str(name): _metric(one) for name, one in plain["metrics"].items()},
        subject=str(plain["subject"]),
        n_rows=int(plain["n_rows"]),
        confidence_level=float(plain["confidence_level"]),
        left_out=dict(plain["left_out"]),
        notes=tuple(plain["notes"]),
    )


def _metric(plain: Mapping[str, Any]) -> Metric:
    estimate = read_estimate({name: plain.get(name) for name in ("value", "stderr", "low", "high")})
    assert estimate is not None  # it was just made
    floor = plain.get("floor")
    return Metric(
        str(plain["name"]),
        str(plain["title"]),
        estimate,
        plain.get("interval") or "",
        None if floor is None else NoiseFloor(float(floor), float(plain["floor_high"])),
        str(plain.get("subject", "")),
    )
