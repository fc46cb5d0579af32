"""The short-hands that name a partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from epiloss.errors import OptionError
from epiloss.partition.base import Partitioner
from epiloss.partition.custom import EstimatorPartitioner, KMeansPartitioner
from epiloss.partition.stump import StumpPartitioner
from epiloss.partition.tree import TreePartitioner


def resolve_partition(partition: Any, region_ratio: float) -> Partitioner:
    """Return the partitioner that a short-hand or an estimator stands for."""
    numeric = isinstance(region_ratio, int | float | np.number) and not isinstance(region_ratio, bool)
    if not numeric or not 1 <= region_ratio < float("inf"):
        raise OptionError(
            "region_ratio, the learning rows per region, must be at least 1 and finite, "
            f"got {region_ratio!r}. 12 suits most data; the paper uses 30."
        )
    if isinstance(partition, Partitioner):
        return partition
    partitioners: dict[str, Partitioner] = {
        "tree": TreePartitioner(region_ratio),
        "stump": StumpPartitioner(),
        "kmeans": KMeansPartitioner(),
    }
    if isinstance(partition, str) and partition in partitioners:
        return partitioners[partition]
    is_object = not isinstance(partition, type)
    if (
        is_object
        and hasattr(partition, "fit")
        and (hasattr(partition, "apply") or hasattr(partition, "predict"))
    ):
        return EstimatorPartitioner(partition, type(partition).__name__)
    raise OptionError(
        "partition must be 'tree', 'stump', 'kmeans' or an object with fit(X, y) and apply or "
        f"predict, got {partition!r}."
    )
