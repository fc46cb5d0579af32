"""Names of partitions."""

from __future__ import annotations

from typing import Any

from epiloss.errors import OptionError
from epiloss.partition.base import Partitioner
from epiloss.partition.custom import Custom, KMeans
from epiloss.partition.stump import Stump
from epiloss.partition.tree import Tree


def resolve_partition(partition: Any) -> Partitioner:
    """Return the partitioner for a name or an estimator."""
    if isinstance(partition, Partitioner):
        return partition
    partitioners: dict[str, Partitioner] = {"tree": Tree(), "stump": Stump(), "kmeans": KMeans()}
    if isinstance(partition, str) and partition in partitioners:
        return partitioners[partition]
    is_object = not isinstance(partition, type)
    if (
        is_object
        and hasattr(partition, "fit")
        and (hasattr(partition, "apply") or hasattr(partition, "predict"))
    ):
        return Custom(partition, type(partition).__name__)
    raise OptionError(
        "partition must be 'tree', 'stump', 'kmeans', a partitioner of epiloss.partition such as "
        f"Tree(region_ratio=30), or an object with fit(X, y) and apply or predict, got {partition!r}."
    )
