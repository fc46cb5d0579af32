"""The second pass: a uniform sample of the rows, and a histogram of all scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss.input.tasks import binary_problems
from epiloss.scoring import ScoringRule
from epiloss.sources.arrow import arrow
from epiloss.streaming.packing import packed, unpacked
from epiloss.streaming.passes import Pass, PassResult, RowErrors, numbered_batches
from epiloss.streaming.reader import Reader
from epiloss.streaming.score_cells import ScoreCells

KEYS = 2**64
KEY, ROW = "\0epiloss key", "\0epiloss row"  # columns that are added to the sample


@dataclass(frozen=True)
class Survey(PassResult):
    """A uniform sample of the rows, and histograms of all scores."""

    n_rows: int
    sample: Any  # an Arrow table, with each row's key and number
    cells: tuple[ScoreCells, ...]
    n_clipped: int = 0  # scores that were outside [0, 1] by rounding
    n_missing: int = 0  # rows that were dropped because a score or a label is missing

    def merge(self, other: Survey) -> Survey:
        """Return the survey of both."""
        n_clipped, n_missing = self.n_clipped + other.n_clipped, self.n_missing + other.n_missing
        if not self.n_rows or not other.n_rows:  # a part without rows has no histograms
            one = self if self.n_rows else other
            return replace(one, n_clipped=n_clipped, n_missing=n_missing)
        cells = tuple(a.merge(b) for a, b in zip(self.cells, other.cells, strict=True))
        samples = [one for one in (self.sample, other.sample) if one is not None]
        sample = arrow().concat_tables(samples) if samples else None
        return Survey(self.n_rows + other.n_rows, sample, cells, n_clipped, n_missing)

    def to_bytes(self) -> bytes:
        """Return the sample and the histograms as Arrow."""
        bits = [one.bits for one in self.cells]
        facts = {name: getattr(self, name) for name in ("n_rows", "n_clipped", "n_missing")}
        facts |= {"bits": bits}
        sums = [one.sums for one in self.cells]
        return packed(facts, sums, self.sample)

    @classmethod
    def from_bytes(cls, data: bytes) -> Survey:
        """Read the survey from Arrow."""
        facts, sums, sample = unpacked(data)
        cells = (ScoreCells(bits, one.copy()) for bits, one in zip(facts["bits"], sums, strict=True))
        return cls(facts["n_rows"], sample, tuple(cells), facts["n_clipped"], facts["n_missing"])


@dataclass(frozen=True)
class TakeSurvey(Pass[Survey]):
    """Sample the rows whose keys are below a limit, and add up histograms of all scores.

    With ``by_place``, rows are sampled by row number instead of their values, for repetitive data.
    """

    reader: Reader
    rule: ScoringRule
    limit: int
    most: int  # maximum number of sampled rows if there are clusters
    by_place: bool = False
    with_scores: bool = True
    name: ClassVar[str] = "survey"
    title: ClassVar[str] = "reading scores and features"
    result: ClassVar[type[PassResult]] = Survey

    @property
    def columns(self) -> list[str]:
        """All columns that are used."""
        return self.reader.roles.survey

    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Survey:
        """Survey the rows of a part."""
        pa = arrow()
        samples: list[Any] = []
        cells: tuple[ScoreCells, ...] = ()
        errors = RowErrors()
        n_rows = n_drawn = n_clipped = n_missing = 0
        for batch, before, at in numbered_batches(batches, part_name, first_row):
            first = offset + before
            problem = keys = None
            with errors.collected():
                scores, n_outside = self.reader.scores(batch, at)
                labels = self.reader.labels(batch, at)
                problem = self.reader.problem(batch, at, scores=scores, labels=labels, features=False)
                n_clipped += n_outside
                n_missing += int(self.reader.missing(scores, labels).sum())
            with errors.collected():
                values = self.reader.columns.key_values(batch, at)
                if problem is not None:
                    keys = self.reader.keys(batch, scores, values, at)
            if problem is None or keys is None:
                continue
            kept = problem.rows
            keys = row_numbers(first, batch.num_rows) if self.by_place else keys
            n_rows += len(problem.labels)
            low = keys if kept is None else keys[kept]
            if self.with_scores:
                binaries = binary_problems(problem, self.rule)
                cells = cells or tuple(ScoreCells.empty(len(binaries)) for _ in binaries)
                half = (low & np.uint64(1)).view(np.int64)
                for one, binary in zip(cells, binaries, strict=True):
                    one.add(binary, half)
            drawn = np.flatnonzero(low <= np.uint64(self.limit))
            drawn = drawn if kept is None else kept[drawn]
            n_drawn += len(drawn)
            if n_drawn > self._most(n_rows):
                break  # too many rows are equal; the size of the sample shows it
            rows = pa.array(drawn)
            table = pa.Table.from_batches([batch]).take(rows)
            table = table.append_column(KEY, pa.array(keys[drawn]))
            samples.append(table.append_column(ROW, pa.array(first + drawn)))
        errors.raise_merged()
        sample = pa.concat_tables(samples).combine_chunks() if samples else None
        return Survey(n_rows, sample, cells, n_clipped, n_missing)

    def _most(self, n_rows: int) -> float:
        """Return an upper limit for the number of sampled rows if all rows are distinct."""
        if self.reader.roles.clusters is not None:
            return self.most
        return 2 * n_rows * (self.limit + 1) / KEYS + 1_000


def row_numbers(first: int, n: int) -> NDArray[np.uint64]:
    """Return keys that are hashes of row numbers."""
    keys: NDArray[np.uint64] = kernel().row_keys([np.arange(first, first + n, dtype=float)])
    return keys
