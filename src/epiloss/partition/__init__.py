"""Partitions: (features, level set) -> region."""

from epiloss.partition.base import Partition, Partitioner, pool_small_regions
from epiloss.partition.custom import EstimatorPartitioner, KMeansPartitioner
from epiloss.partition.options import resolve_partition
from epiloss.partition.stump import StumpPartitioner
from epiloss.partition.tree import TreePartitioner

__all__ = [
    "EstimatorPartitioner",
    "KMeansPartitioner",
    "Partition",
    "Partitioner",
    "StumpPartitioner",
    "TreePartitioner",
    "pool_small_regions",
    "resolve_partition",
]
