"""The sample that is kept in memory: its size, its rows, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import FEATURE, OptionError, Remark, RowsError
from epiloss.input.features import Place
from epiloss.input.problem import Problem
from epiloss.input.row_display import Display
from epiloss.input.subgroups import all_combinations
from epiloss.input.text_features import with_words
from epiloss.sources.arrow import TEXT, WORDS, FeatureColumns
from epiloss.streaming.reader import Layout, Reader
from epiloss.streaming.runner import no_rows
from epiloss.streaming.survey import KEY, KEYS, ROW, Survey

MOST = 250_000  # rows of a sample, on half of which regions are learned
_MIN_ROWS = 10_000  # of a sample; a memory limit for fewer rows is an error
_COPIES = 12  # memory of the audit, as a multiple of the size of the sample
_FEW_STRINGS = 0.1  # a column with a smaller share of non-numeric values should hold numbers
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def read_memory(memory: int | float | str) -> int:
    """Return a number of bytes.

    Examples
    --------
    >>> read_memory("2GB"), read_memory("512 MiB"), read_memory(1e9)
    (2000000000, 536870912, 1000000000)
    """
    text = str(memory).strip().lower()
    number = text.rstrip("bkmgti ")
    try:
        size = float(number) * _UNITS[text[len(number) :].strip()]
    except (KeyError, ValueError):
        size = 0.0
    if not 0 < size < float("inf"):
        raise OptionError(f"memory must be a size such as '2GB' or a number of bytes, got {memory!r}.")
    return int(size)


def capacity(layout: Layout, memory: int) -> int:
    """Return the maximum number of rows of a sample."""
    numbers = sum(one.width for one in layout.columns.columns) + max(layout.score_width, 1) + 6
    texts = sum(one.kind == TEXT for one in layout.columns.columns) + len(layout.roles.display)
    rows = memory // (_COPIES * (8 * numbers + 32 * texts))
    if rows < _MIN_ROWS:
        needed = _MIN_ROWS * _COPIES * (8 * numbers + 32 * texts)
        raise OptionError(
            f"memory must be at least {needed / 1e6:,.0f} MB for a sample of {_MIN_ROWS:,} rows with "
            f"{numbers - 6} columns, got {memory / 1e6:,.0f} MB. Allow more, or pass fewer features."
        )
    return min(rows, MOST)


def limit_of(wanted: int, n_rows: int) -> int:
    """Return the largest key of a sample of about ``wanted`` rows."""
    return KEYS - 1 if n_rows <= wanted else wanted * KEYS // n_rows


def is_uneven(survey: Survey, limit: int) -> bool:
    """Return whether the size of a sample is implausible for distinct rows, because rows repeat."""
    expected = survey.n_rows * (limit + 1) / KEYS
    n = 0 if survey.sample is None else survey.sample.num_rows
    return bool(abs(n - expected) > 10 * np.sqrt(expected) + 10)


@dataclass(frozen=True)
class Sample:
    """The sampled rows in the order of their keys, which does not depend on the order of the data.

    Keys are hashes of the rows' values or, if ``by_place``, of their row numbers.
    """

    problem: Problem
    keys: NDArray[np.uint64]
    table: Any
    by_place: bool = False

    @property
    def places(self) -> NDArray[np.uint64] | None:
        """The keys, if they are hashes of row numbers; else None."""
        return self.keys if self.by_place else None

    def display(self, names: Sequence[str]) -> Display | None:
        """Return the columns to display, indexed by row number in the whole data if there is one."""
        if not names:
            return None
        columns = {name: np.array(self.table.column(name).to_pylist(), object) for name in names}
        if self.problem.rows is None:
            return Display(columns)
        place = {int(row): at for at, row in enumerate(self.problem.rows)}
        return Display({name: _ByNumber(values, place) for name, values in columns.items()})


@dataclass(frozen=True)
class _ByNumber:
    """Values of sampled rows, indexed by row number in the whole data."""

    values: Any
    place: Mapping[int, int]

    def __getitem__(self, row: int) -> Any:
        return self.values[self.place[int(row)]]


def with_text_features(
    sample: Sample, reader: Reader, *, features_named: bool
) -> tuple[Sample, Reader, list[Remark]]:
    """Replace text columns by features of their words, and leave out columns of names.

    Features that the user has listed are not left out.
    """
    problem = sample.problem
    if problem.features is None or not problem.features.too_varied():
        return sample, reader, []
    found = with_words(problem.features, keep=features_named)
    kept = replace(problem, features=found.features)
    if kept.features is None and kept.subgroups:  # the subgroups are then the regions
        kept = replace(kept, groups=all_combinations(kept.subgroups))
    changed = {*found.words, *found.left_out}
    own = {one.name: one for one in reader.columns.columns}
    texts = [
        replace(own[name], kind=WORDS, width=1 + len(words), words=words)
        for name, words in found.words.items()
    ]
    columns = replace(
        reader.columns,
        columns=(*(one for name, one in own.items() if name not in changed), *texts),
        categories={name: one for name, one in reader.columns.categories.items() if name not in changed},
    )
    remarks = found.remarks(len(problem.labels))
    return replace(sample, problem=kept), replace(reader, columns=columns), remarks


def check_untyped(columns: FeatureColumns, table: Any, name: str) -> None:
    """Raise an error for CSV columns of numbers with few strings, which would become categories."""
    for column, categories in columns.categories.items():
        odd = [text for text in categories if not _NUMBER.fullmatch(text.strip())]
        if not 0 < len(odd) <= _FEW_STRINGS * len(categories):
            continue
        texts = np.array(table.column(column).to_pylist(), object)
        wrong = np.isin(texts, np.array(odd, object))
        rows = table.column(ROW).to_numpy()
        first = int(np.flatnonzero(wrong)[rows[wrong].argmin()])
        raise RowsError(
            FEATURE,
            f"column {column!r} must hold numbers, like nearly all of its values",
            repr(texts[first])[:60],
            (name, int(rows[first])),
            int(wrong.sum()),
            "Leave such values empty; if the column is categorical, save the table as Parquet.",
        )


def read_sample(survey: Survey, reader: Reader, *, numbered: bool) -> tuple[Sample, Reader]:
    """Return the sample, and a reader with its categories.

    Rows with equal keys are ordered by label, weight and row number. If ``numbered``, the rows have a
    number in the whole data.
    """
    if survey.sample is None:
        raise no_rows()
    table = survey.sample.combine_chunks()
    reader = reader.learned(table)
    numbers = table.column(ROW).to_numpy()
    at = Place("the sample")
    problem = reader.problem(table, at)
    keys = table.column(KEY).to_numpy()
    weights = np.zeros(len(keys)) if problem.weights is None else problem.weights
    order = np.lexsort((numbers, weights, problem.labels, keys))
    table = table.take(order)
    problem = reader.problem(table, at)
    if numbered:
        problem = replace(problem, rows=numbers[order])
    return Sample(problem, keys[order], table), reader
