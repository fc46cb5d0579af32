"""The checked input of every audit, comparison and repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from epiloss._typing import Codes, Floats
from epiloss.errors import DataError, Remark
from epiloss.input.features import Features


@dataclass(frozen=True)
class Reading:
    """How to read labels and scores.

    ``pos_label`` is the positive class of a binary task, ``classes`` are the classes of the score
    columns, ``logits`` converts scores to probabilities, and ``drop_missing`` drops incomplete rows.
    """

    task: str | None = None
    pos_label: Any = None
    classes: Sequence[Any] | None = None
    drop_missing: bool = False
    logits: bool = False


@dataclass(frozen=True)
class Groups:
    """Groups given by the user: a code for each row, and the names of the groups."""

    codes: Codes
    names: tuple[str, ...]

    def take(self, rows: Codes) -> Groups:
        """Return the groups of some rows."""
        return Groups(self.codes[rows], self.names)


class RegionSource(Enum):
    """Where the regions of an audit come from."""

    LEARNED = "learned"
    SUBGROUPS = "subgroups"
    NONE = "none"  # neither features nor subgroups: each level set is one region


@dataclass(frozen=True)
class Problem:
    """Checked input: ``labels`` are indices into ``classes``, ``scores`` are (n,) or (n, K).

    The columns of ``scores`` follow ``classes``; a single column is the probability of ``positive``.
    """

    task: str
    classes: tuple[Any, ...]
    positive: int
    labels: Codes
    scores: Floats
    features: Features | None
    groups: Groups | None  # the regions, if the user gives them instead of features
    weights: Floats | None  # scaled by a power of two to at most 1
    clusters: Codes | None
    remarks: tuple[Remark, ...]
    rows: Codes | None = None  # row numbers in the input, if some rows were left out
    claimed: Codes | None = None  # predicted class of task top-label, if not that of the top score
    subgroups: Mapping[str, Groups] = field(default_factory=dict)  # by column name

    def take(self, rows: Codes) -> Problem:
        """Return some of the rows, in increasing order."""
        return replace(
            self,
            labels=self.labels[rows],
            scores=self.scores[rows],
            features=None if self.features is None else self.features.take(rows),
            groups=None if self.groups is None else self.groups.take(rows),
            weights=None if self.weights is None else self.weights[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            rows=rows if self.rows is None else self.rows[rows],
            claimed=None if self.claimed is None else self.claimed[rows],
            subgroups={name: groups.take(rows) for name, groups in self.subgroups.items()},
        )

    @property
    def region_source(self) -> RegionSource:
        """Where the regions come from."""
        if self.groups is not None:
            return RegionSource.SUBGROUPS
        return RegionSource.NONE if self.features is None else RegionSource.LEARNED

    def by_subgroup(self, name: str) -> Problem:
        """Return the same rows with the subgroups of one column as the only regions."""
        return replace(self, features=None, groups=self.subgroups[name], subgroups={}, remarks=())

    def with_remarks(self, *remarks: Remark) -> Problem:
        """Return the problem with additional remarks."""
        return replace(self, remarks=(*self.remarks, *remarks)) if remarks else self


class OneClassError(DataError):
    """Raised when all labels are equal: the rows have a score, but no losses to estimate."""

    def __init__(self, label: Any, n_rows: int, problem: Problem | None = None) -> None:
        super().__init__(
            f"y_true must hold at least two classes, got only {label!r} in all {n_rows:,} rows. "
            "Calibration and grouping loss need both outcomes: add rows of another class."
        )
        self.problem = problem

    def scored(self, rule: str, score: float) -> DataError:
        """Return the error with the score of the rows, which needs only one class."""
        return DataError(f"{self} The score ({rule}) of these rows is {score:.5g}.")
