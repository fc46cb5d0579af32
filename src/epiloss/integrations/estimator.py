"""The audit as a scikit-learn object, for those who want ``get_params`` and ``clone``."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit


class Auditor(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """An audit with its options; ``fit`` runs it and keeps the result in ``audit_``.

    The options are those of :func:`epiloss.audit`, apart from the data.

    Examples
    --------
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid().sample(2_000)
    >>> auditor = Auditor(bins=5).fit(sample.X, sample.y, sample.scores)
    >>> auditor.audit_.n_samples
    2000
    """

    audit_: Audit

    def __init__(
        self,
        *,
        task: Any = None,
        rule: Any = "brier",
        bins: Any = 15,
        binning: str = "uniform",
        partition: Any = "tree",
        region_ratio: float = 12,
        curve: Any = None,
        method: str = "auto",
        learner: Any = None,
        split: float = 0.5,
        swap: bool = True,
        repeats: int = 1,
        recalibrate: Any = None,
        drop_missing: bool = False,
        logits: bool = False,
        adjust: str = "benjamini-hochberg",
        pos_label: Any = None,
        classes: Any = None,
        level: float = 0.95,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.task = task
        self.rule = rule
        self.bins = bins
        self.binning = binning
        self.partition = partition
        self.region_ratio = region_ratio
        self.curve = curve
        self.method = method
        self.learner = learner
        self.split = split
        self.swap = swap
        self.repeats = repeats
        self.recalibrate = recalibrate
        self.drop_missing = drop_missing
        self.logits = logits
        self.adjust = adjust
        self.pos_label = pos_label
        self.classes = classes
        self.level = level
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y_true: Any,
        y_prob: Any,
        *,
        groups: Any = None,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
        display: Any = None,
    ) -> Auditor:
        """Run the audit on these rows."""
        per_row = {
            "groups": groups,
            "sensitive_features": sensitive_features,
            "sample_weight": sample_weight,
            "clusters": clusters,
            "display": display,
        }
        self.audit_ = audit(y_true, y_prob, X, **per_row, **self.get_params(deep=False))
        return self
