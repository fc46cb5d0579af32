"""Regions from k-means, or from any object with ``fit(X, y)`` and ``apply`` or ``predict``."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss.errors import DataError, OptionError
from epiloss.features import Features
from epiloss.levelsets import Codes
from epiloss.partition.base import LearningRows, Partition, Partitioner, for_each_level_set


@dataclass(frozen=True)
class EstimatorPartitioner(Partitioner):
    """Regions are what a clone of ``estimator``, fitted on each level set, assigns rows to."""

    estimator: Any
    name: str = "custom"

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Fit one clone in each level set that has learning rows."""
        return EstimatorPartition(for_each_level_set(self._fit_one, rows, generator, n_jobs))

    def _fit_one(self, rows: LearningRows, seed: int) -> Any:
        if not len(rows.labels):
            return None
        model = _clone(self.estimator, seed)
        model.fit(rows.features.matrix, rows.labels)  # not all objects return themselves
        return model


@dataclass(frozen=True)
class KMeansPartitioner(Partitioner):
    """Clusters of the features in each level set, found without the labels."""

    n_clusters: int = 2
    name: str = "kmeans"

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Cluster each level set that has enough distinct learning rows."""
        missing = np.isnan(rows.features.matrix).any(axis=0)
        if missing.any():
            raise DataError(
                "k-means regions need complete features, got missing values in column "
                f"{rows.features.names[int(missing.argmax())]!r}. Impute them, or use "
                "partition='tree', which handles missing values."
            )
        return EstimatorPartition(for_each_level_set(self._cluster, rows, generator, n_jobs))

    def _cluster(self, rows: LearningRows, seed: int) -> Any:
        from sklearn.cluster import KMeans

        distinct = np.unique(rows.features.matrix, axis=0)
        if len(distinct) < self.n_clusters:
            return None
        return KMeans(self.n_clusters, n_init=1, random_state=seed).fit(rows.features.matrix)


@dataclass(frozen=True)
class EstimatorPartition(Partition):
    """A fitted estimator for each level set; ``None`` where there was nothing to learn from."""

    estimators: Sequence[Any]

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the place of each row's answer among the answers of its level set."""
        region = np.zeros(len(level_set), np.int64)
        for level, estimator in enumerate(self.estimators):
            rows = np.flatnonzero(level_set == level)
            if estimator is not None and len(rows):
                answer = np.asarray(_answer(estimator, features.matrix[rows]))
                region[rows] = _as_codes(answer, len(rows))
        return region


def _answer(estimator: Any, matrix: Any) -> Any:
    assign = getattr(estimator, "apply", None) or estimator.predict
    return assign(matrix)


def _as_codes(answer: Any, n_rows: int) -> Codes:
    if answer.shape != (n_rows,):
        raise OptionError(
            f"a partition must give one region for each of {n_rows} rows, got an answer of shape "
            f"{answer.shape}. Forests give one per tree: use a single tree."
        )
    return np.unique(answer, return_inverse=True)[1].astype(np.int64)


def _clone(estimator: Any, seed: int) -> Any:
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    fresh = clone(estimator)
    if fresh.get_params().get("random_state", 0) is None:
        fresh.set_params(random_state=seed)
    return fresh
