"""Tasks: each is reduced to binary problems, whose losses add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.input.features import Features
from epiloss.input.problem import Problem
from epiloss.scoring import ScoringRule


@dataclass(frozen=True)
class BinaryProblem:
    """A score and an outcome in {0, 1} for each row; every task is reduced to such problems."""

    name: Any  # the class, if the task has one problem per class
    scores: Floats
    labels: Floats
    rule: ScoringRule
    vectors: Floats | None  # the scores of all classes, if level sets condition on them jointly
    features: Features | None
    groups: Codes | None
    weights: Floats | None
    clusters: Codes | None = None
    claimed: Codes | None = None  # the predicted class of each row, if there are several classes

    def take(self, rows: Codes) -> BinaryProblem:
        """Return some of the rows."""

        def some(values: Any) -> Any:
            return None if values is None else values[rows]

        return replace(
            self,
            scores=self.scores[rows],
            labels=self.labels[rows],
            vectors=some(self.vectors),
            features=None if self.features is None else self.features.take(rows),
            groups=some(self.groups),
            weights=some(self.weights),
            clusters=some(self.clusters),
            claimed=some(self.claimed),
        )


def score_sums(binaries: Sequence[BinaryProblem]) -> tuple[float, float]:
    """Return the weighted sum of losses over all binary problems, and the sum of weights."""
    first = binaries[0]
    weights = np.ones(len(first.labels)) if first.weights is None else first.weights
    losses = sum(float(weights @ one.rule.loss(one.scores, one.labels)) for one in binaries)
    return losses, float(weights.sum())


def binary_problems(problem: Problem, rule: ScoringRule) -> list[BinaryProblem]:
    """Reduce the task to binary problems whose losses add up."""
    groups = None if problem.groups is None else problem.groups.codes
    shared = (problem.features, groups, problem.weights, problem.clusters)
    if problem.task == "binary":
        hit = (problem.labels == problem.positive).astype(float)
        return [BinaryProblem(None, problem.scores, hit, rule, None, *shared)]
    top = problem.scores.argmax(axis=1) if problem.claimed is None else problem.claimed
    if problem.task == "top-label":
        hit = (problem.labels == top).astype(float)
        claimed = np.take_along_axis(problem.scores, top[:, None], axis=1)[:, 0]
        return [BinaryProblem(None, claimed, hit, rule, None, *shared, top)]
    vectors = problem.scores if problem.task == "joint" else None
    return [
        BinaryProblem(
            name,
            np.ascontiguousarray(problem.scores[:, k]),
            (problem.labels == k).astype(float),
            rule.per_class(),
            vectors,
            *shared,
            top,
        )
        for k, name in enumerate(problem.classes)
    ]
