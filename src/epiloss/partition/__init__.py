"""Partitions: divide each level set into regions by features."""

from epiloss.partition.base import Partition, Partitioner, pool_small_regions
from epiloss.partition.custom import Custom, KMeans
from epiloss.partition.options import resolve_partition
from epiloss.partition.stump import Stump
from epiloss.partition.tree import Tree

__all__ = [
    "Custom",
    "KMeans",
    "Partition",
    "Partitioner",
    "Stump",
    "Tree",
    "pool_small_regions",
    "resolve_partition",
]
