"""The pass over data with one class, which have a score but no losses to estimate."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from epiloss.input.tasks import binary_problems, score_sums
from epiloss.scoring import ScoringRule
from epiloss.streaming.passes import Pass, PassResult, RowErrors, numbered_batches
from epiloss.streaming.reader import Reader


@dataclass(frozen=True)
class ScoreSum(PassResult):
    """The sum of the rows' losses and of their weights."""

    n_rows: int
    losses: float
    weights: float

    def merge(self, other: ScoreSum) -> ScoreSum:
        """Return the sums of both."""
        sums = self.losses + other.losses, self.weights + other.weights
        return ScoreSum(self.n_rows + other.n_rows, *sums)

    def _sums(self) -> tuple[int, float, float]:
        return self.n_rows, self.losses, self.weights

    def to_bytes(self) -> bytes:
        """Return the sums as JSON."""
        return json.dumps(self._sums()).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ScoreSum:
        """Read the sums from JSON."""
        return cls(*json.loads(data))


@dataclass(frozen=True)
class TakeScore(Pass[ScoreSum]):
    """Add up the scoring-rule losses of the rows."""

    reader: Reader
    rule: ScoringRule
    name: ClassVar[str] = "score"
    title: ClassVar[str] = "adding up losses"
    result: ClassVar[type[PassResult]] = ScoreSum

    @property
    def columns(self) -> list[str]:
        """The columns that the sums need."""
        return self.reader.roles.tally

    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> ScoreSum:
        """Add up the losses of a part."""
        total, errors = ScoreSum(0, 0.0, 0.0), RowErrors()
        for batch, _, at in numbered_batches(batches, part_name, first_row):
            with errors.collected():
                problem = self.reader.problem(batch, at, features=False)
                sums = score_sums(binary_problems(problem, self.rule))
                total = total.merge(ScoreSum(len(problem.labels), *sums))
        errors.raise_merged()
        return total
