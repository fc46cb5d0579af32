"""Clusters of an embedding: groups found without labels, described by typical rows."""

from __future__ import annotations

import numpy as np

from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.input.features import Features

_COMPONENTS = 10  # principal components used for clustering
_SAMPLED = 4_096  # rows that the components are computed from
_ROWS_PER_CLUSTER, _MOST_CLUSTERS = 150, 24
_TYPICAL = 3  # rows that describe a cluster


def clustered(features: Features, generator: np.random.Generator) -> tuple[Codes, list[Codes]]:
    """Return the cluster of each row, and the rows nearest to the centre of each cluster."""
    from sklearn.cluster import KMeans

    points = _principal_components(features, generator)
    n_clusters = int(np.clip(len(points) // _ROWS_PER_CLUSTER, 2, _MOST_CLUSTERS))
    some = np.sort(generator.permutation(len(points))[: 4 * _SAMPLED])
    with limited_threads(openmp=True):
        model = KMeans(n_clusters, n_init=2, random_state=int(generator.integers(2**31)))
        distance = model.fit(points[some]).transform(points)
    cluster = distance.argmin(axis=1)
    nearest = []
    for k in range(n_clusters):
        rows = np.flatnonzero(cluster == k)
        nearest.append(rows[np.argsort(distance[rows, k], kind="stable")[:_TYPICAL]])
    return np.asarray(cluster, np.int64), nearest


def _principal_components(features: Features, generator: np.random.Generator) -> Floats:
    """Return the first principal components; missing values are replaced by the column means."""
    matrix = np.asarray(features.matrix, np.float32)
    mean = np.nanmean(matrix, axis=0)
    centred = np.where(np.isnan(matrix), 0.0, matrix - mean)
    some = np.sort(generator.permutation(len(matrix))[:_SAMPLED])
    _, _, directions = np.linalg.svd(centred[some], full_matrices=False)
    return np.asarray(centred @ directions[:_COMPONENTS].T, float)
