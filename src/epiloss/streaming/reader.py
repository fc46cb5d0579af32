"""Readers, which convert batches of rows to checked problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._typing import Codes, Floats
from epiloss.errors import OptionError, printable
from epiloss.input.arrays import (
    checked_scores,
    from_one_hot,
    group_names,
    lacks_score,
    missing_keys,
    missing_labels,
    read_weights,
    score_numbers,
)
from epiloss.input.checks import columns_of_task, has_weight, scaled_weights
from epiloss.input.features import Place
from epiloss.input.problem import Groups, Problem
from epiloss.input.subgroups import all_combinations
from epiloss.sources.arrow import (
    FeatureColumns,
    arrow,
    encoded,
    is_list,
    is_text,
    key_numbers,
    read_codes,
    read_matrix,
    read_numbers,
)
from epiloss.sources.base import Source
from epiloss.streaming.roles import Roles, check_types


@dataclass(frozen=True)
class Layout:
    """The columns to read and their widths, known before any row is read."""

    roles: Roles
    columns: FeatureColumns
    score_width: int  # length of the lists of a score column that holds all classes; else 0

    @classmethod
    def of(cls, source: Source, roles: Roles) -> Layout:
        """Return the layout of a source, or raise an error for a column of an unsupported type."""
        check_types(source.schema, roles)
        width = _score_width(source, roles)
        return cls(roles, FeatureColumns.of(source.schema, roles.features, source.widths), width)

    @property
    def n_scores(self) -> int:
        """The number of scores per row."""
        return self.score_width or len(self.roles.scores)


def _score_width(source: Source, roles: Roles) -> int:
    """Return the length of the lists in a score column; 0 if score columns hold single numbers."""
    lists = [name for name in roles.scores if is_list(source.schema.field(name).type)]
    if lists and len(roles.scores) > 1:
        raise OptionError(
            printable(
                f"score must be one column of lists or several of numbers, got lists in {lists[0]!r} "
                f"and {len(roles.scores) - 1} other columns. Pass only {lists[0]!r}."
            )
        )
    return FeatureColumns.of(source.schema, lists, source.widths).columns[0].width if lists else 0


@dataclass(frozen=True)
class Reader(Layout):
    """Reads batches independently of each other, with what is known of the whole data."""

    task: str
    classes: tuple[Any, ...]
    positive: int
    largest_weight: float | None
    subgroups: Mapping[str, tuple[str, ...]]  # sorted names of the subgroups of each column
    drop_missing: bool
    logits: bool

    def problem(
        self,
        batch: Any,
        at: Place,
        *,
        scores: Floats | None = None,
        labels: Codes | None = None,
        features: bool = True,
    ) -> Problem:
        """Return the checked rows of a batch or table, without incomplete and weightless ones."""
        roles = self.roles
        given = self.scores(batch, at)[0] if scores is None else scores
        labels = self.labels(batch, at) if labels is None else labels
        weights = None
        counted = ~self.missing(given, labels)
        if roles.weight is not None and self.largest_weight is not None:
            raw = read_weights(plain_numbers(batch.column(roles.weight)), at, [roles.weight])
            weights = scaled_weights(raw, self.largest_weight)
            counted &= has_weight(weights)
        subgroups = self._subgroups(batch)
        given_regions = bool(subgroups) and not self.columns.columns
        problem = Problem(
            self.task,
            self.classes,
            self.positive,
            labels,
            columns_of_task(given, self.task, self.positive),
            self.columns.read(batch) if features and self.columns.columns else None,
            all_combinations(subgroups) if given_regions else None,
            weights,
            self._clusters(batch) if features else None,
            (),
            subgroups=subgroups,
        )
        return problem if counted.all() else problem.take(np.flatnonzero(counted))

    def missing(self, scores: Floats, labels: Codes) -> NDArray[np.bool_]:
        """Return which rows have no score or no label."""
        if not self.drop_missing:
            return np.zeros(len(labels), bool)  # missing values have already raised an error
        return lacks_score(scores) | (labels < 0)

    def scores(self, batch: Any, at: Place) -> tuple[Floats, int]:
        """Return the probabilities, and the number that were clipped to [0, 1].

        With ``drop_missing``, rows with a missing score are NaN.
        """
        names = self.roles.scores
        if self.score_width:
            values: NDArray[Any] = read_matrix(names[0], batch.column(names[0]), self.score_width)
        elif len(names) == 1:
            values = plain_numbers(batch.column(names[0]))
        else:
            values = np.column_stack([plain_numbers(batch.column(name)) for name in names])
        if not len(values):
            return values.astype(np.float64), 0
        numbers = score_numbers(values, at, names)
        if not self.drop_missing:
            return checked_scores(numbers, at, names, logits=self.logits)
        rows = np.flatnonzero(~lacks_score(numbers))
        whole = np.full(numbers.shape, np.nan)
        n_clipped = 0
        if len(rows):
            some = replace(at, rows=rows)
            whole[rows], n_clipped = checked_scores(numbers[rows], some, names, logits=self.logits)
        return whole, n_clipped

    def labels(self, batch: Any, at: Place) -> Codes:
        """Return the index of each row's class; -1 if the label is missing."""
        places = {name: code for code, name in enumerate(self.classes)}
        values = plain_labels(batch.column(self.roles.label), self.roles.label, at)
        codes = read_codes(values, places)
        if not self.drop_missing and codes.min(initial=0) < 0:
            raise missing_labels(codes < 0, at, [self.roles.label])
        return codes

    def _subgroups(self, batch: Any) -> dict[str, Groups]:
        found = {}
        for column, known in self.subgroups.items():
            names, places = named_groups(batch.column(column))
            codes = np.searchsorted(np.array(known), names)[places]
            found[column] = Groups(codes.astype(np.int64), known)
        return found

    def _clusters(self, batch: Any) -> Codes | None:
        if self.roles.clusters is None:
            return None
        numbers = key_numbers(batch.column(self.roles.clusters))
        return np.unique(numbers, return_inverse=True)[1].astype(np.int64)

    def keys(
        self, batch: Any, scores: Floats, features: Sequence[NDArray[Any]], at: Place
    ) -> NDArray[np.uint64]:
        """Return a hash of each row, by which a sample is drawn.

        It is made from the cluster or the identifier of the row, else from score and features.
        """
        by = self.roles.clusters or self.roles.row_id
        if by is not None:
            values = [key_numbers(batch.column(by))]
            missing = np.isnan(values[0])
            if missing.any():
                raise missing_keys(
                    "clusters" if by == self.roles.clusters else "row_id", missing, at, [by]
                )
        else:
            given = scores[:, None] if scores.ndim == 1 else scores
            values = [*np.ascontiguousarray(given.T), *features]
            values += [key_numbers(batch.column(name)) for name in self.roles.subgroups]
        keys: NDArray[np.uint64] = kernel().row_keys(values)
        return keys

    def learned(self, table: Any) -> Reader:
        """Return a reader with the categories of a table."""
        return replace(self, columns=self.columns.learned(table))


def plain_labels(values: Any, name: str, at: Place) -> Any:
    """Return labels; one-hot rows are converted to the position of the 1."""
    if not is_list(values.type):
        return values
    first = next((len(one) for one in values.to_pylist() if one is not None), 0)
    rows = read_matrix(name, values, first)
    return arrow().array(from_one_hot(rows, at, [name]))


def plain_numbers(values: Any) -> NDArray[Any]:
    """Return numbers; strings unchanged, so that the error can show them."""
    if is_text(values.type):
        return np.array(values.to_pylist(), object)
    return read_numbers(values)


def named_groups(values: Any) -> tuple[NDArray[Any], Codes]:
    """Return the names of groups, the last one for missing values, and each row's index in them."""
    distinct, places = encoded(values)
    given = np.empty(len(distinct) + 1, object)
    given[:-1] = distinct
    return group_names(given, "subgroups"), places
