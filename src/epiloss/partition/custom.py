"""Regions from k-means, or from any object with ``fit(X, y)`` and ``apply`` or ``predict``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._models import fit_weighted, fresh
from epiloss._typing import Codes
from epiloss.errors import DataError, OptionError
from epiloss.input.features import Features
from epiloss.partition.base import LearningRows, Partition, Partitioner, for_each_level_set


@dataclass(frozen=True)
class Custom(Partitioner):
    """Regions from a scikit-learn estimator: a clone of it is fitted on each level set.

    Parameters
    ----------
    estimator : estimator
        An estimator with ``fit(X, y)``, and ``apply`` or ``predict`` to assign rows to regions.

    See Also
    --------
    epiloss.partition.Partitioner : for full control.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier(max_leaf_nodes=4)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X, partition=Custom(tree))
    >>> result.options["partition"]
    'custom'
    """

    estimator: Any
    name: str = "custom"

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Fit one clone in each level set that has learning rows."""
        return EstimatorPartition(for_each_level_set(self._fit_one, rows, generator, n_jobs))

    def _fit_one(self, rows: LearningRows, seed: int) -> _Assigner | None:
        from sklearn.base import BaseEstimator, is_classifier

        one_class = not len(rows.labels) or rows.labels.min() == rows.labels.max()
        # is_classifier only accepts scikit-learn estimators.
        classifies = isinstance(self.estimator, BaseEstimator) and is_classifier(self.estimator)
        if not len(rows.labels) or (one_class and classifies):
            return None
        model = fresh(self.estimator, seed)
        fit_weighted(model, rows.features.matrix, rows.labels, rows.weights)
        return _Assigner.of(model, rows.features)


@dataclass(frozen=True)
class KMeans(Partitioner):
    """Regions from k-means clustering of the features in each level set, without using the labels.

    Parameters
    ----------
    n_clusters : int
        The number of clusters in each level set.

    See Also
    --------
    epiloss.partition.Tree : regions that are learned from the labels.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X, partition=KMeans(n_clusters=3))
    >>> result.options["partition"]
    'kmeans'
    """

    n_clusters: int = 2
    name: str = "kmeans"

    def fit(self, rows: LearningRows, generator: np.random.Generator, n_jobs: int | None) -> Partition:
        """Cluster each level set that has enough distinct learning rows."""
        _check_complete(rows.features)
        return _ClusterPartition(for_each_level_set(self._cluster, rows, generator, n_jobs))

    def _cluster(self, rows: LearningRows, seed: int) -> _Assigner | None:
        from sklearn import cluster
        from sklearn.exceptions import ConvergenceWarning

        distinct = np.unique(rows.features.matrix, axis=0)
        if len(distinct) < self.n_clusters:
            return None
        with warnings.catch_warnings():
            # Fewer clusters than requested are still valid regions.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = cluster.KMeans(self.n_clusters, n_init=1, random_state=seed)
            model.fit(rows.features.matrix, sample_weight=rows.weights)
        return _Assigner.of(model, rows.features)


@dataclass(frozen=True)
class EstimatorPartition(Partition):
    """A fitted estimator for each level set; ``None`` if there was nothing to learn from."""

    assigners: Sequence[_Assigner | None]

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the region that the estimator of each row's level set predicts."""
        region = np.zeros(len(level_set), np.int64)
        for level, assigner in enumerate(self.assigners):
            rows = np.flatnonzero(level_set == level)
            if assigner is not None and len(rows):
                region[rows] = assigner.apply(features.take(rows).matrix)
        return region


class _ClusterPartition(EstimatorPartition):
    """Regions from clusters, which do not support missing values."""

    noun = "cluster"

    def assign(self, features: Features, level_set: Codes) -> Codes:
        """Return the cluster of each row."""
        _check_complete(features)
        return super().assign(features, level_set)


def _check_complete(features: Features) -> None:
    missing = np.array([np.isnan(features.column(j)).any() for j in range(features.n_columns)])
    if missing.any():
        raise DataError(
            "partition='kmeans' needs complete features, got missing values in column "
            f"{features.names[int(missing.argmax())]!r}. Impute them, or use partition='tree', which "
            "supports missing values."
        )


@dataclass(frozen=True)
class _Assigner:
    """A fitted estimator, and the distinct values that it predicted for its learning rows.

    Regions are numbered by these values, so that rows assigned in batches get the same numbers.
    """

    estimator: Any
    known: NDArray[Any]

    @classmethod
    def of(cls, estimator: Any, features: Features) -> _Assigner:
        return cls(estimator, np.unique(_predicted(estimator, features.matrix)))

    def apply(self, matrix: NDArray[Any]) -> Codes:
        predicted = _predicted(self.estimator, matrix)
        region = np.minimum(np.searchsorted(self.known, predicted), len(self.known) - 1)
        unseen = len(self.known)  # one more region for all values that no learning row had
        return np.where(self.known[region] == predicted, region, unseen).astype(np.int64)


def _predicted(estimator: Any, matrix: NDArray[Any]) -> NDArray[Any]:
    predicted = np.asarray((getattr(estimator, "apply", None) or estimator.predict)(matrix))
    if predicted.shape != (len(matrix),):
        raise OptionError(
            f"a partition must return one region for each of {len(matrix)} rows, got an array of shape "
            f"{predicted.shape}. Use a single tree instead of a forest, which returns one leaf per tree."
        )
    return predicted
