"""A torchmetrics metric: the losses of a plan's regions, tracked over batches and ranks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from epiloss.analysis.tracking import RegionPlan
from epiloss.errors import MissingExtraError
from epiloss.estimation.region_rows import FIELDS, carried
from epiloss.estimation.region_stats import RegionStats
from epiloss.integrations.extraction.frameworks import import_torchvision

try:
    import torch

    if find_spec("torchvision") is not None:
        import_torchvision()  # which torchmetrics loads where it is there
    from torchmetrics import Metric
except ImportError:
    raise MissingExtraError(
        "the metric needs torch and torchmetrics, which are not installed. "
        "Run: pip install 'epiloss[metric]'"
    ) from None

_LOSSES = ("score", "calibration_loss", "grouping_loss")


class GroupingLossMetric(Metric):  # type: ignore[misc]  # torchmetrics may not be installed
    """The score, the calibration loss and a lower bound on the grouping loss of all rows so far.

    The one state is a tensor of whole numbers whose sum over ranks is exact.

    Parameters
    ----------
    plan : RegionPlan
        The level sets and regions, learned on rows that the metric does not see.
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
        """Return the losses of all rows that were counted."""
        losses = self.plan.losses(self.stats)
        return {name: torch.tensor(losses.total(name), dtype=torch.float64) for name in _LOSSES}

    @property
    def stats(self) -> RegionStats:
        """The sums of all rows that were counted."""
        sums = self.sums.cpu().numpy()
        level_set, region = np.nonzero(sums[:, 0].any(axis=0))
        return RegionStats(level_set, region, carried(sums[:, :, level_set, region]), self.plan.name)
