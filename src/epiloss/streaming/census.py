"""The first pass: counting labels, and collecting subgroups and the largest weight."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from epiloss.errors import DataError, printable
from epiloss.input.arrays import missing_labels, read_weights
from epiloss.input.features import Place
from epiloss.sources.arrow import value_counts
from epiloss.sources.base import Part
from epiloss.streaming.passes import Pass, PassResult, RowErrors, numbered_batches
from epiloss.streaming.reader import named_groups, plain_labels, plain_numbers
from epiloss.streaming.roles import Roles

_MAX_LABELS, _MAX_GROUPS = 10_000, 10_000  # a column with more values is probably an identifier


@dataclass(frozen=True)
class Census(PassResult):
    """Counts of rows and labels, the names of subgroups, and the largest weight."""

    n_rows: int
    labels: Mapping[Any, int]
    subgroups: Mapping[str, frozenset[str]]  # names of the subgroups of each column
    largest_weight: float
    n_weightless: int
    n_unlabelled: int
    parts: Mapping[str, int]  # number of rows by identity of the part

    def merge(self, other: Census) -> Census:
        """Return the census of both."""
        labels = dict(self.labels)
        for label, n in other.labels.items():
            labels[label] = labels.get(label, 0) + n
        return Census(
            self.n_rows + other.n_rows,
            labels,
            {name: found | other.subgroups[name] for name, found in self.subgroups.items()},
            max(self.largest_weight, other.largest_weight),
            self.n_weightless + other.n_weightless,
            self.n_unlabelled + other.n_unlabelled,
            {**self.parts, **other.parts},
        )

    def to_bytes(self) -> bytes:
        """Return the census as JSON."""
        known = {name: sorted(found) for name, found in self.subgroups.items()}
        plain = {**vars(self), "labels": list(self.labels.items()), "subgroups": known}
        return json.dumps(plain).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Census:
        """Read the census from JSON."""
        plain = json.loads(data)
        labels = dict(plain.pop("labels"))
        known = {name: frozenset(found) for name, found in plain["subgroups"].items()}
        return cls(**{**plain, "labels": labels, "subgroups": known})


@dataclass(frozen=True)
class TakeCensus(Pass[Census]):
    """Count labels, subgroups and rows."""

    roles: Roles
    drop_missing: bool = False
    name: ClassVar[str] = "census"
    title: ClassVar[str] = "reading labels"
    result: ClassVar[type[PassResult]] = Census

    @property
    def columns(self) -> list[str]:
        """Labels, weights and subgroups."""
        return self.roles.census

    def __call__(self, part: Part, offset: int = 0) -> Census:
        """Count the rows of a part, and record their number with its identity."""
        found = super().__call__(part, offset)
        return replace(found, parts={part.identity: found.n_rows})

    def over(self, batches: Iterable[Any], part_name: str, first_row: int, offset: int) -> Census:
        """Count the rows of a part."""
        n_rows, weightless, largest = 0, 0, 0.0
        labels: dict[Any, int] = {}
        subgroups: dict[str, set[str]] = {name: set() for name in self.roles.subgroups}
        errors = RowErrors()
        for batch, _, at in numbered_batches(batches, part_name, first_row):
            n_rows += batch.num_rows
            with errors.collected():
                for label, n in self._labels(batch, at).items():
                    labels[label] = labels.get(label, 0) + n
            if self.roles.weight is not None:
                with errors.collected():
                    column = batch.column(self.roles.weight)
                    weights = read_weights(plain_numbers(column), at, [self.roles.weight])
                    largest = max(largest, float(weights.max(initial=0.0)))
                    weightless += int((weights == 0).sum())
            for name, found in subgroups.items():
                names, places = named_groups(batch.column(name))
                found |= set(names[np.unique(places)].tolist())
                _check_few(name, len(found), _MAX_GROUPS, "subgroups")
            _check_few(self.roles.label, len(labels), _MAX_LABELS, "labels")
        errors.raise_merged()
        unlabelled = labels.pop(None, 0)
        known = {name: frozenset(found) for name, found in subgroups.items()}
        return Census(n_rows, labels, known, largest, weightless, unlabelled, {})

    def _labels(self, batch: Any, at: Place) -> dict[Any, int]:
        """Count the labels; with ``drop_missing``, missing ones are counted as None."""
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
                f"{what} must have at most {most:,} distinct values, got more in column {column!r}. "
                "Pass another column."
            )
        )
