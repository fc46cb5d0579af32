"""The checked input: what every audit, comparison and repair works on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from epiloss._typing import Codes, Floats
from epiloss.errors import DataError
from epiloss.input.features import Features


@dataclass(frozen=True)
class Groups:
    """Groups given by the user: a code for each row, and the groups' names."""

    codes: Codes
    names: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Checked input: ``labels`` are places in ``classes``, ``scores`` are (n,) or (n, K).

    Columns of scores follow ``classes``; a single column is the probability of ``positive``.
    """

    task: str
    classes: tuple[Any, ...]
    positive: int
    labels: Codes
    scores: Floats
    features: Features | None
    groups: Groups | None
    weights: Floats | None  # scaled by a power of two to at most 1
    clusters: Codes | None
    warnings: tuple[str, ...]
    rows: Codes | None = None  # of the input, where some were left out
    claimed: Codes | None = None  # the class that task top-label is about, if not that of the top score

    def take(self, rows: Codes) -> Problem:
        """Return some of the rows, in increasing order."""
        groups, features = self.groups, self.features
        return replace(
            self,
            labels=self.labels[rows],
            scores=self.scores[rows],
            features=None if features is None else features.take(rows),
            groups=None if groups is None else Groups(groups.codes[rows], groups.names),
            weights=None if self.weights is None else self.weights[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            rows=rows if self.rows is None else self.rows[rows],
            claimed=None if self.claimed is None else self.claimed[rows],
        )


class OneClassError(DataError):
    """All labels are the same: there is a score, but no loss to audit."""

    def __init__(self, label: Any, n_rows: int, problem: Problem | None = None) -> None:
        super().__init__(
            f"y_true must hold at least two classes to audit, got only {label!r} in all {n_rows:,} "
            "rows. Calibration and grouping loss need both outcomes: take more rows."
        )
        self.problem = problem

    def scored(self, rule: str, score: float) -> DataError:
        """Return the error with the score of the rows, which one class is enough for."""
        return DataError(f"{self} The score ({rule}) of these rows is {score:.5g}.")
