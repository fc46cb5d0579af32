"""Estimate, Table and Audit: frozen results, and how they print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from epiloss._saving import SCHEMA, SavedAsJson, for_json, write_text
from epiloss.errors import OptionError, Remark
from epiloss.estimate import Estimate
from epiloss.estimation.influence import Influence
from epiloss.input.problem import RegionSource
from epiloss.table import Table

if TYPE_CHECKING:
    from epiloss.auditing.row_details import RowDetails
    from epiloss.auditing.verdict import Verdict
    from epiloss.presentation.plot.grouping import GroupingDisplay
    from epiloss.repair import RegionRecalibrator
    from epiloss.repair.evaluate import RepairResult
    from epiloss.segments.result import Segments

_SEGMENTS = "result.segments"  # under which the details keep what was searched for


@dataclass(frozen=True)
class Bounds:
    """What cannot be seen from single labels and bins.

    ``grouping_loss_high`` is the only upper limit that needs no assumption, ``E[e(C)]``. The others
    are for the Brier score: binning hides between ``binning_low`` and ``binning_high`` of the
    calibration and grouping loss together, whatever the calibration curve does inside the bins,
    and the epistemic loss is therefore at least ``epistemic_loss_low``.
    """

    grouping_loss_high: float
    binning_low: float | None = None
    binning_high: float | None = None
    epistemic_loss_low: float | None = None


@dataclass(frozen=True)
class Audit(SavedAsJson):
    """How far a classifier's probabilities are from the truth, and where.

    The ledger adds up: ``score = calibration_loss + grouping_loss + remainder``. Where the grouping
    loss is a lower bound (``is_bound``), the remainder is the irreducible loss and what was not seen.
    """

    task: str
    rule: str
    method: str
    recommendation: str  # which lower bound leads, and why
    n_samples: int
    n_evaluated: int
    uninformed: float  # the score of one who knows the base rate alone
    score: Estimate
    calibration_loss: Estimate
    grouping_loss: Estimate
    remainder: Estimate
    plugin: float
    bias: float
    explained: float
    induced: float
    bounds: Bounds
    partition_bound: Estimate
    crossfit_bound: Estimate | None
    twin_estimate: Estimate | None
    irreducible_loss: Estimate | None  # known from repeated labels only
    level_sets: Table = field(repr=False)
    regions: Table = field(repr=False)
    histogram: Table = field(repr=False)
    region_source: RegionSource
    options: Mapping[str, Any] = field(repr=False)
    remarks: tuple[Remark, ...] = ()
    recalibrated: Audit | None = field(default=None, repr=False)
    # the audit by each column of subgroups, by its name
    subgroups: Mapping[str, Audit] = field(default_factory=dict, repr=False)
    # of each row, or cluster, on each loss: what compares audits of the same rows; not written out
    influence: Mapping[str, Influence] = field(default_factory=dict, repr=False, compare=False)
    # the rows and their regions, from which more is told when asked; not written out
    details: RowDetails | None = field(default=None, repr=False, compare=False)

    @property
    def is_bound(self) -> bool:
        """Whether the grouping loss is a lower bound: not by twin learners or repeated labels."""
        return self.twin_estimate is None and self.irreducible_loss is None

    @property
    def at_least(self) -> float | None:
        """What the grouping loss exceeds, sure to the confidence level; None without standard error."""
        loss = self.grouping_loss
        if loss.stderr is None:
            return None
        return max(loss.value - float(ndtri(self.confidence_level)) * loss.stderr, 0.0)

    @property
    def without_bins(self) -> Estimate | None:
        """The grouping loss without bins, by twin learners or cross-fitted; None where there is none."""
        return self.crossfit_bound if self.twin_estimate is None else self.twin_estimate

    @property
    def confidence_level(self) -> float:
        """The level of all intervals."""
        return float(self.options["confidence_level"])

    @property
    def verdict(self) -> Verdict:
        """What to do, in one sentence."""
        from epiloss.auditing.verdict import verdict

        return verdict(self)

    def worst_regions(self, n: int = 10, side: str | None = None) -> Table:
        """Return the regions that cost most, the worst first.

        ``side`` is "over" for those with lower rates than all rows with such scores, for whom even
        calibrated scores are too high, and "under" for those with higher rates.
        """
        if side not in (None, "over", "under"):
            raise OptionError(f"side must be 'over', 'under' or None, got {side!r}.")
        deviation = self.regions["deviation"]
        here = {None: deviation == deviation, "over": deviation < 0, "under": deviation > 0}[side]
        order = np.argsort(-self.regions["cost"], kind="stable")
        return self.regions.take(order[here[order]][:n])

    @property
    def segments(self) -> Segments:
        """The few groups of rows, in words, whose rates differ from those of rows with equal scores.

        They are searched for when first asked for.
        """
        from epiloss.segments.result import NO_ROWS, Segments
        from epiloss.segments.tell import find_segments

        details = self.details
        if details is None:
            return Segments((), note=NO_ROWS)
        if _SEGMENTS not in details.views:
            details.views[_SEGMENTS] = find_segments(
                details.problem,
                details.options,
                grouping_loss=self.grouping_loss.value,
                display=details.display,
            )
        found: Segments = details.views[_SEGMENTS]
        return found

    @property
    def subgroup_gaps(self) -> Mapping[str, Table]:
        """Of each column of subgroups, a table of its values: rate, rate at equal scores, and the gap.

        Empty where there is more than one score a row, or the rows were not kept.
        """
        from epiloss.segments.subgroups import subgroup_gaps

        details = self.details
        if details is None or len(details.evaluations) > 1 or self.task == "joint":
            return {}
        problem = details.evaluations[0].problem
        return {
            name: subgroup_gaps(problem, groups, level=self.confidence_level)
            for name, groups in details.problem.subgroups.items()
        }

    def segments_by(self, columns: Any) -> Segments:
        """Return segments told by other columns than the features, texts by their words.

        ``columns`` is a data frame, a mapping of columns or one column, in the order of the rows.
        """
        from epiloss.segments.result import NO_ROWS, Segments
        from epiloss.segments.tell import find_segments_by

        if self.details is None:
            return Segments((), note=NO_ROWS)
        problem, options = self.details.problem, self.details.options
        return find_segments_by(columns, problem, options, grouping_loss=self.grouping_loss.value)

    def plot(self, ax: Any = None, *, partition: Any = "halves", **layers: Any) -> GroupingDisplay:
        """Draw the grouping diagram: in each level set, the rows predicted higher and lower.

        The predictions are cross-fitted, so that no row chose its side. ``partition="stump"`` draws two
        regions in words instead, ``None`` the audit's own regions, and a partition those that it learns.
        Further options are those of :meth:`epiloss.GroupingDisplay.plot`.
        """
        from epiloss.presentation.plot.grouping import GroupingDisplay

        return GroupingDisplay.from_audit(self, partition=partition).plot(ax, **layers)

    def repair(self, recalibrator: RegionRecalibrator | None = None, part: float = 0.5) -> RepairResult:
        """Learn a repair on a ``part`` of the rows, and audit the others before and after it."""
        from epiloss.repair.evaluate import repair_audit

        return repair_audit(self, recalibrator, part)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the audit as a page that needs nothing else, and write it to ``path`` if given."""
        from epiloss.presentation.report import audit_page

        text = audit_page(self, title=title)
        if path is not None:
            write_text(path, text)
        return text

    def log_to_mlflow(
        self,
        prefix: str = "epiloss",
        *,
        run_id: str | None = None,
        client: Any = None,
        step: int = 0,
    ) -> str:
        """Log losses, options, verdict and report into an MLflow run, and return the run's id.

        The run is the active one, or that of ``run_id``, of the default ``mlflow.MlflowClient()`` or
        that of ``client``. Each loss is a metric ``prefix/loss``, with ``_stderr``, ``_low``, ``_high``
        and ``_pvalue`` where they are known.
        """
        from epiloss.integrations.mlflow import log_audit

        return log_audit(self, prefix, run_id=run_id, client=client, step=step)

    def _repr_html_(self) -> str:
        from epiloss.presentation.report import audit_card

        return audit_card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None."""
        plain = {
            name: value.to_dict() if isinstance(value, Estimate | Table) else value
            for name, value in vars(self).items()
            if name not in ("influence", "details")
        }
        plain["verdict"] = dict(vars(self.verdict))
        plain["bounds"] = dict(vars(self.bounds))
        plain["options"] = dict(self.options)
        plain["region_source"] = self.region_source.value
        plain["remarks"] = [remark.to_dict() for remark in self.remarks]
        plain["subgroups"] = {name: one.to_dict() for name, one in self.subgroups.items()}
        plain["recalibrated"] = self.recalibrated.to_dict() if self.recalibrated else None
        finite: dict[str, Any] = for_json({"schema": SCHEMA, **plain})
        return finite

    def __str__(self) -> str:
        from epiloss.auditing.ledger import ledger

        return ledger(self)
