"""A torchmetrics metric: the losses in the regions of a plan, over batches and ranks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from epiloss.analysis.region_plan import RegionPlan
from epiloss.errors import MissingExtraError
from epiloss.estimation.region_rows import FIELDS, carried
from epiloss.estimation.region_stats import RegionStats
from epiloss.integrations.extraction.frameworks import import_torchvision

try:
    import torch

    if find_spec("torchvision") is not None:
        import_torchvision()  # torchmetrics imports it if it is installed
    from torchmetrics import Metric
except ImportError:
    raise MissingExtraError(
        "the metric needs torch and torchmetrics, which are not installed. "
        "Run: pip install 'epiloss[metric]'"
    ) from None

_LOSSES = ("score", "calibration_loss", "grouping_loss")


class GroupingLossMetric(Metric):  # type: ignore[misc]  # torchmetrics may not be installed
    """The score, the calibration loss and a lower bound on the grouping loss of all rows so far.

    The state is a tensor of integers, so its sum over ranks is exact.

    Parameters
    ----------
    plan : RegionPlan
        The level sets and regions. They must be learned on other rows.
    """

    full_state_update = False
    higher_is_better = False
    sums: torch.Tensor

    def __init__(self, plan: RegionPlan, **options: Any) -> None:
        super().__init__(**options)
        self.plan = plan
        shape = (2, len(FIELDS), *plan.shape)
        self.add_state("sums", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, y_prob: torch.Tensor, y_true: torch.Tensor, X: torch.Tensor) -> None:
        """Count the rows of a batch."""
        arrays = (one.detach().cpu().numpy() for one in (y_true, y_prob, X))
        stats = self.plan.stats(*arrays)
        dense = np.zeros(self.sums.shape, np.int64)
        dense[:, :, stats.level_set, stats.region] = stats.sums
        self.sums += torch.from_numpy(dense).to(self.sums.device)

    def compute(self) -> dict[str, torch.Tensor]:
        """Return the losses of all rows so far."""
        losses = self.plan.losses(self.stats)
        return {name: torch.tensor(losses.total(name), dtype=torch.float64) for name in _LOSSES}

    @property
    def stats(self) -> RegionStats:
        """The statistics of all rows so far."""
        sums = self.sums.cpu().numpy()
        level_set, region = np.nonzero(sums[:, 0].any(axis=0))
        return RegionStats(level_set, region, carried(sums[:, :, level_set, region]), self.plan.name)
