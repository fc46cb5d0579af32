"""The passes over the data: pure functions of a part, whose results merge in any order."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss.errors import DataError, RowsError, printable
from epiloss.estimation.learned import Frozen
from epiloss.estimation.planning import Plan
from epiloss.estimation.region_stats import RegionStats, RegionSums
from epiloss.input.arrays import missing_labels, read_weights
from epiloss.input.features import Place
from epiloss.input.tasks import binary_problems
from epiloss.scoring import ScoringRule
from epiloss.sources.arrow import arrow, value_counts
from epiloss.sources.base import Part
from epiloss.streaming.packing import packed, unpacked
from epiloss.streaming.reader import Reader, Roles, named_groups, plain_labels, plain_numbers
from epiloss.streaming.score_cells import ScoreCells

_MOST_LABELS, _MOST_GROUPS = 10_000, 10_000  # more are an identifier, named by mistake
KEYS = 2**64
KEY, ROW = "\0epiloss key", "\0epiloss row"  # columns of a sample that the data do not have

Result = TypeVar("Result", bound="PassResult")


class PassResult(ABC):
    """What a pass knows of some rows; ``merge`` is associative and commutative."""

    n_rows: int

    @abstractmethod
    def merge(self, other: Any) -> Any:
        """Return what is known of both sets of rows."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return everything as bytes, the same on every machine."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> PassResult:
        """Return what ``to_bytes`` was made of."""


class Pass(ABC, Generic[Result]):
    """A pass over the data: a function of a part, that needs nothing of the other parts."""

    name: ClassVar[str]
    result: ClassVar[type[PassResult]]

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The columns that are read."""

    @abstractmethod
    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Result:
        """Return the result for rows, those of ``part_name`` from ``first_row`` on.

        ``offset`` is the number of the first row in the whole data.
        """

    def __call__(self, part: Part, offset: int = 0) -> Result:
        """Return the result for a part."""
        return self.over(part.batches(self.columns), part.name, part.first_row, offset)


def placed(batches: Iterable[Any], part_name: str, first_row: int) -> Iterator[tuple[Any, int, Place]]:
    """Return the batches, the rows before each, and how its rows are named."""
    before = 0
    for batch in batches:
        yield batch, before, Place(part_name, first_row + before)
        before += batch.num_rows


class Faults:
    """What is wrong with rows of a part: it is told once all of them are read, and counted."""

    def __init__(self) -> None:
        self._found: list[RowsError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is wrong with the rows of a batch, and go on."""
        try:
            yield
        except RowsError as error:
            self._found.append(error)

    def tell(self) -> None:
        """Raise the error for all rows, if there is one."""
        if self._found:
            raise RowsError.merged(self._found)


@dataclass(frozen=True)
class Census(PassResult):
    """Who is there: rows, labels, groups, and the largest weight."""

    n_rows: int
    labels: Mapping[Any, int]
    groups: frozenset[str]
    largest_weight: float
    n_weightless: int
    n_unlabelled: int
    parts: Mapping[str, int]  # rows of each

    def merge(self, other: Census) -> Census:
        """Return the census of both."""
        labels = dict(self.labels)
        for label, n in other.labels.items():
            labels[label] = labels.get(label, 0) + n
        return Census(
            self.n_rows + other.n_rows,
            labels,
            self.groups | other.groups,
            max(self.largest_weight, other.largest_weight),
            self.n_weightless + other.n_weightless,
            self.n_unlabelled + other.n_unlabelled,
            {**self.parts, **other.parts},
        )

    def to_bytes(self) -> bytes:
        """Return the census as JSON."""
        plain = {**vars(self), "labels": list(self.labels.items()), "groups": sorted(self.groups)}
        return json.dumps(plain).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Census:
        """Read the census from JSON."""
        plain = json.loads(data)
        labels = dict(plain.pop("labels"))
        return cls(**{**plain, "labels": labels, "groups": frozenset(plain["groups"])})


@dataclass(frozen=True)
class TakeCensus(Pass[Census]):
    """Count labels, groups and rows."""

    roles: Roles
    drop_missing: bool = False
    name: ClassVar[str] = "census"
    result: ClassVar[type[PassResult]] = Census

    @property
    def columns(self) -> list[str]:
        """Labels, weights and groups."""
        return self.roles.census

    def __call__(self, part: Part, offset: int = 0) -> Census:
        """Count the rows of a part, and remember that they are this part's."""
        found = super().__call__(part, offset)
        return replace(found, parts={part.identity: found.n_rows})

    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Census:
        """Count the rows of a part."""
        n_rows, weightless, largest = 0, 0, 0.0
        labels: dict[Any, int] = {}
        groups: set[str] = set()
        faults = Faults()
        for batch, _, at in placed(batches, part_name, first_row):
            n_rows += batch.num_rows
            with faults.noted():
                for label, n in self._labels(batch, at).items():
                    labels[label] = labels.get(label, 0) + n
            if self.roles.weight is not None:
                with faults.noted():
                    column = batch.column(self.roles.weight)
                    weights = read_weights(plain_numbers(column), at, [self.roles.weight])
                    largest = max(largest, float(weights.max(initial=0.0)))
                    weightless += int((weights == 0).sum())
            if self.roles.groups is not None:
                names, places = named_groups(batch.column(self.roles.groups))
                groups |= set(names[np.unique(places)].tolist())
            _check_few(self.roles.label, len(labels), _MOST_LABELS, "labels")
            _check_few(self.roles.groups or "", len(groups), _MOST_GROUPS, "groups")
        faults.tell()
        unlabelled = labels.pop(None, 0)
        return Census(n_rows, labels, frozenset(groups), largest, weightless, unlabelled, {})

    def _labels(self, batch: Any, at: Place) -> dict[Any, int]:
        """Count the labels; None is for missing ones, where they are to be left out."""
        name = self.roles.label
        values = plain_labels(batch.column(name), name, at)
        labels = value_counts(values)
        if None in labels and not self.drop_missing:
            missing = np.array([one is None or one != one for one in values.to_pylist()], bool)
            raise missing_labels(missing, at, [name])
        return labels


def _check_few(column: str, n: int, most: int, what: str) -> None:
    if n > most:
        raise DataError(
            printable(
                f"{what} must have at most {most:,} values, got more in column {column!r}. "
                "Name another column."
            )
        )


@dataclass(frozen=True)
class Survey(PassResult):
    """A uniform sample of the rows, and the scores of all of them."""

    n_rows: int
    sample: Any  # an Arrow table, with each row's key and number
    cells: tuple[ScoreCells, ...]
    n_clipped: int = 0  # scores that were outside [0, 1] by rounding
    n_missing: int = 0  # rows that were left out for want of a score or a label

    def merge(self, other: Survey) -> Survey:
        """Return the survey of both."""
        n_clipped, n_missing = self.n_clipped + other.n_clipped, self.n_missing + other.n_missing
        if not self.n_rows or not other.n_rows:  # a part without rows knows no columns
            one = self if self.n_rows else other
            return replace(one, n_clipped=n_clipped, n_missing=n_missing)
        cells = tuple(a.merge(b) for a, b in zip(self.cells, other.cells, strict=True))
        samples = [one for one in (self.sample, other.sample) if one is not None]
        sample = arrow().concat_tables(samples) if samples else None
        return Survey(self.n_rows + other.n_rows, sample, cells, n_clipped, n_missing)

    def to_bytes(self) -> bytes:
        """Return the sample and the sums as Arrow."""
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
    """Draw the rows whose keys are below a limit, and add up the scores of all.

    ``by_place`` draws by the row's number instead of what it holds, for data that repeat themselves.
    """

    reader: Reader
    plan: Plan
    rule: ScoringRule
    limit: int
    most: int  # rows that clusters may bring
    by_place: bool = False
    with_scores: bool = True
    name: ClassVar[str] = "survey"
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
        faults = Faults()
        n_rows = n_drawn = n_clipped = n_missing = 0
        for batch, before, at in placed(batches, part_name, first_row):
            first = offset + before
            problem = keys = None
            with faults.noted():
                scores, n_outside = self.reader.scores(batch, at)
                labels = self.reader.labels(batch, at)
                problem = self.reader.problem(batch, at, scores=scores, labels=labels, features=False)
                n_clipped += n_outside
                n_missing += int(self.reader.missing(scores, labels).sum())
            with faults.noted():
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
                break  # rows that repeat themselves: the number tells
            rows = pa.array(drawn)
            table = pa.Table.from_batches([batch]).take(rows)
            table = table.append_column(KEY, pa.array(keys[drawn]))
            samples.append(table.append_column(ROW, pa.array(first + drawn)))
        faults.tell()
        sample = pa.concat_tables(samples).combine_chunks() if samples else None
        return Survey(n_rows, sample, cells, n_clipped, n_missing)

    def _most(self, n_rows: int) -> float:
        """Return how many rows of so many are as many as can be drawn, were they all distinct."""
        if self.reader.roles.clusters is not None:
            return self.most
        return 2 * n_rows * (self.limit + 1) / KEYS + 1_000


def row_numbers(first: int, n: int) -> NDArray[np.uint64]:
    """Return keys that are made of the rows' numbers."""
    keys: NDArray[np.uint64] = kernel().row_keys([np.arange(first, first + n, dtype=float)])
    return keys


@dataclass(frozen=True)
class Tally(PassResult):
    """The sums of each region, for each binary problem."""

    n_rows: int
    stats: tuple[RegionStats, ...]

    def merge(self, other: Tally) -> Tally:
        """Return the sums of both."""
        stats = tuple(a.merge(b) for a, b in zip(self.stats, other.stats, strict=True))
        return Tally(self.n_rows + other.n_rows, stats)

    def to_bytes(self) -> bytes:
        """Return the sums as Arrow."""
        arrays = [
            array for one in self.stats for array in (one.level_set, one.region, one.sums.reshape(-1))
        ]
        return packed({"n_rows": self.n_rows, "plans": [one.plan for one in self.stats]}, arrays, None)

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        """Read the sums from Arrow."""
        facts, arrays, _ = unpacked(data)
        stats = []
        for place, plan in enumerate(facts["plans"]):
            level_set, region, sums = arrays[3 * place : 3 * place + 3]
            stats.append(
                RegionStats(level_set, region, sums.reshape(2, -1, len(region)), (plan[0], plan[1]))
            )
        return cls(facts["n_rows"], tuple(stats))


@dataclass(frozen=True)
class TakeTally(Pass[Tally]):
    """Find the region of each row, and add up the rows of each region."""

    reader: Reader
    plan: Plan
    rule: ScoringRule
    frozen: tuple[Frozen, ...]
    name: ClassVar[str] = "tally"
    result: ClassVar[type[PassResult]] = Tally

    @property
    def columns(self) -> list[str]:
        """The columns that are added up."""
        return self.reader.roles.tally

    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Tally:
        """Add up the rows of a part."""
        sums = [RegionSums(one.n_level_sets, one.rule) for one in self.frozen]
        n_rows = 0
        for batch, _, at in placed(batches, part_name, first_row):
            problem = self.reader.problem(batch, at)
            n_rows += len(problem.labels)
            binaries = binary_problems(problem, self.rule)
            for binary, frozen, region_sums in zip(binaries, self.frozen, sums, strict=True):
                level_set, region, curves = frozen.placed(binary)
                region_sums.add(level_set, region, binary.labels, binary.scores, binary.weights, curves)
        return Tally(n_rows, tuple(one.stats() for one in sums))
