"""The last pass: sums over all rows for each region, and for the estimate with twin learners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from epiloss.estimation.learned import Learned
from epiloss.estimation.region_stats import RegionStats, RegionSums
from epiloss.estimation.twins.moments import SumLayout, TwinSums
from epiloss.estimation.twins.sample_models import TwinModels
from epiloss.input.tasks import binary_problems
from epiloss.scoring import ScoringRule
from epiloss.streaming.packing import packed, unpacked
from epiloss.streaming.passes import Pass, PassResult, numbered_batches
from epiloss.streaming.reader import Reader
from epiloss.streaming.survey import row_numbers


@dataclass(frozen=True)
class Tally(PassResult):
    """The sums of regions, of subgroups and of twin models, for each binary problem."""

    n_rows: int
    stats: tuple[RegionStats, ...]
    by_subgroup: tuple[RegionStats, ...] = ()  # for each problem, those of each subgroup column
    twins: tuple[TwinSums, ...] = ()  # for each problem, those of each set of models

    def merge(self, other: Tally) -> Tally:
        """Return the sums of both."""
        stats = tuple(a.merge(b) for a, b in zip(self.stats, other.stats, strict=True))
        pairs = zip(self.by_subgroup, other.by_subgroup, strict=True)
        by_subgroup = tuple(a.merge(b) for a, b in pairs)
        twins = tuple(a.merge(b) for a, b in zip(self.twins, other.twins, strict=True))
        return Tally(self.n_rows + other.n_rows, stats, by_subgroup, twins)

    def to_bytes(self) -> bytes:
        """Return the sums as Arrow."""
        every = (*self.stats, *self.by_subgroup)
        arrays = [array for one in every for array in (one.level_set, one.region, one.sums.reshape(-1))]
        plans = [one.plan for one in every]
        facts = {"n_rows": self.n_rows, "plans": plans, "n_problems": len(self.stats)}
        facts["twins"] = [astuple(one.layout) for one in self.twins]
        return packed(facts, [*arrays, *(one.sums for one in self.twins)], None)

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        """Read the sums from Arrow."""
        facts, arrays, _ = unpacked(data)
        every = []
        for place, plan in enumerate(facts["plans"]):
            level_set, region, sums = arrays[3 * place : 3 * place + 3]
            every.append(
                RegionStats(level_set, region, sums.reshape(2, -1, len(region)), (plan[0], plan[1]))
            )
        n, others = int(facts["n_problems"]), arrays[3 * len(every) :]
        layouts = (SumLayout(*layout) for layout in facts["twins"])
        twins = (TwinSums(layout, one) for layout, one in zip(layouts, others, strict=True))
        return cls(facts["n_rows"], tuple(every[:n]), tuple(every[n:]), tuple(twins))


@dataclass(frozen=True)
class TakeTally(Pass[Tally]):
    """Add up the rows of each region, and the predictions of the twin models for every row."""

    reader: Reader
    rule: ScoringRule
    learned: tuple[Learned, ...]
    twin_models: tuple[tuple[TwinModels, ...], ...] = ()  # of each problem; empty for other methods
    name: ClassVar[str] = "tally"
    title: ClassVar[str] = "evaluating rows"
    result: ClassVar[type[PassResult]] = Tally

    @property
    def columns(self) -> list[str]:
        """The columns that the sums need."""
        return self.reader.roles.tally

    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Tally:
        """Add up the rows of a part."""
        rules = self.rules
        sums = [
            RegionSums(one.n_level_sets, rule) for one, rule in zip(self.learned, rules, strict=True)
        ]
        names = list(self.reader.subgroups)
        by_subgroup = [
            [RegionSums(one.n_level_sets, rule) for _ in names]
            for one, rule in zip(self.learned, rules, strict=True)
        ]
        twins = [[TwinSums.empty(models) for models in some] for some in self.twin_models]
        n_rows = 0
        for batch, before, at in numbered_batches(batches, part_name, first_row):
            problem = self.reader.problem(batch, at)
            n_rows += len(problem.labels)
            binaries = binary_problems(problem, self.rule)
            for binary, learned, whole, parts in zip(
                binaries, self.learned, sums, by_subgroup, strict=True
            ):
                rows = learned.place(binary)
                values = (binary.labels, binary.scores, binary.weights, rows.curves)
                whole.add(rows.level_set, rows.region, *values)
                for part, groups in zip(parts, problem.subgroups.values(), strict=True):
                    part.add(rows.level_set, groups.codes, *values)
            if not self.twin_models:
                continue
            places = row_numbers(offset + before, batch.num_rows)
            places = places if problem.rows is None else places[problem.rows]
            for binary, repeats, twin_sums in zip(binaries, self.twin_models, twins, strict=True):
                for models, one in zip(repeats, twin_sums, strict=True):
                    one.add(models, binary, places)
        return Tally(
            n_rows,
            tuple(one.stats() for one in sums),
            tuple(part.stats() for parts in by_subgroup for part in parts),
            tuple(one for repeats in twins for one in repeats),
        )

    @property
    def rules(self) -> list[ScoringRule]:
        """The scoring rule of each binary problem."""
        one = self.rule.per_class() if self.reader.task in ("classwise", "joint") else self.rule
        return [one] * len(self.learned)
