"""The numbers and tables that an audit holds, and what follows directly from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scipy.special import ndtri

from epiloss.errors import Remark
from epiloss.estimate import Estimate
from epiloss.estimation.influence import Influence
from epiloss.input.problem import RegionSource
from epiloss.table import Table

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit
    from epiloss.auditing.row_details import RowDetails


@dataclass(frozen=True)
class Bounds:
    """Limits on what single labels and bins leave unknown.

    Attributes
    ----------
    grouping_loss_high : float
        Upper limit of the grouping loss, ``E[e(C)]``: the only one that needs no assumption.
    binning_low, binning_high : float or None
        Without a calibration curve, binning could shift the sum of calibration and grouping loss by an
        amount between these two; for the Brier score only.
    epistemic_loss_low : float or None
        The resulting lower limit of the sum of both losses; for the Brier score only.

    See Also
    --------
    Audit : holds them as ``result.bounds``.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(2_000)
    >>> bounds = epiloss.audit(sample.y, sample.scores).bounds
    >>> bool(bounds.binning_low <= bounds.binning_high <= bounds.grouping_loss_high)
    True
    """

    grouping_loss_high: float
    binning_low: float | None = None
    binning_high: float | None = None
    epistemic_loss_low: float | None = None


@dataclass(frozen=True)
class AuditFields:
    """The fields of :class:`epiloss.Audit`, which describes them."""

    task: str
    rule: str
    method: str
    recommendation: str
    n_samples: int
    n_evaluated: int
    uninformed: float
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
    irreducible_loss: Estimate | None
    level_sets: Table = field(repr=False)
    regions: Table = field(repr=False)
    histogram: Table = field(repr=False)
    region_source: RegionSource
    options: Mapping[str, Any] = field(repr=False)
    remarks: tuple[Remark, ...] = ()
    recalibrated: Audit | None = field(default=None, repr=False)
    subgroups: Mapping[str, Audit] = field(default_factory=dict, repr=False)
    smallest_detectable: float | None = None
    effective_rows: float | None = None
    # The last two need the rows, so they are neither compared nor saved.
    influence: Mapping[str, Influence] = field(default_factory=dict, repr=False, compare=False)
    details: RowDetails | None = field(default=None, repr=False, compare=False)

    @property
    def is_bound(self) -> bool:
        """Whether the grouping loss is only a lower bound: not by twin learners or repeated labels."""
        return self.twin_estimate is None and self.irreducible_loss is None

    @property
    def at_least(self) -> float | None:
        """The one-sided lower confidence limit of the grouping loss; None without a standard error."""
        loss = self.grouping_loss
        if loss.stderr is None:
            return None
        return max(loss.value - float(ndtri(self.confidence_level)) * loss.stderr, 0.0)

    @property
    def without_bins(self) -> Estimate | None:
        """The grouping loss estimated without bins: by twin learners, cross-fitted, or None."""
        return self.crossfit_bound if self.twin_estimate is None else self.twin_estimate

    @property
    def confidence_level(self) -> float:
        """The confidence level of all intervals."""
        return float(self.options["confidence_level"])
