"""Applying a saved repair to tables, batch by batch, so that they may be larger than memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from epiloss._progress import counted
from epiloss._typing import Floats
from epiloss.errors import DataError, printable
from epiloss.input.arrays import checked_scores, lacks_score, score_numbers
from epiloss.input.features import Features, Place
from epiloss.input.tables import no_column
from epiloss.input.text import text_of
from epiloss.repair import RegionRecalibrator
from epiloss.sources.arrow import arrow, is_list, is_of_categories, read_matrix
from epiloss.sources.base import Source
from epiloss.sources.kept_columns import kept_columns, plain_field
from epiloss.sources.tables import open_source
from epiloss.sources.whole_files import column, writing_table
from epiloss.streaming.passes import numbered_batches
from epiloss.streaming.reader import plain_numbers


def repair_table(
    repair: RegionRecalibrator,
    X: Any,
    scores: Sequence[str],
    output: str | Path,
    *,
    logits: bool = False,
) -> int:
    """Write a table with repaired scores and return its number of rows.

    The output has the rows of the input in the same order and all of its columns, followed by a column
    ``NAME_repaired`` for each score column ``NAME``. Repaired scores are probabilities, also for
    ``logits``, and are missing for rows whose score is missing. The first columns are ``file`` (if there
    are several files) and ``row``, unless the input has columns with these names.
    """
    pa = arrow()
    source = open_source(X)
    known = dict.fromkeys(source.schema.names)
    for name in scores:
        column(known, name, "y_prob")
    learned = _columns_of(repair.features_in_, source, scores)
    several = len({part.name for part in source.parts}) > 1
    better = [f"{name}_repaired" for name in scores]
    kept = kept_columns(source.schema, better, output)
    fields = [pa.field("file", pa.string())] if several and "file" not in kept else []
    fields += [pa.field("row", pa.int64())] if "row" not in kept else []
    front = [field.name for field in fields]
    fields += [plain_field(source.schema.field(name)) for name in kept]
    fields += [pa.field(name, pa.float64()) for name in better]
    n_rows = 0
    with (
        writing_table(output, pa.schema(fields)) as write,
        counted("repairing", source.n_rows) as advance,
    ):
        for part in source.parts:
            batches = part.batches(list(dict.fromkeys([*scores, *learned, *kept])))
            for batch, _, at in numbered_batches(batches, part.name, part.first_row):
                given = _features(batch, learned, source)
                found = _repaired(repair, given, batch, scores, at, logits=logits)
                where = {
                    "file": pa.array([part.name] * batch.num_rows),
                    "row": pa.array(at.first + np.arange(batch.num_rows)),
                }
                columns = [where[name] for name in front]
                columns += [batch.column(name) for name in kept]
                columns += [pa.array(one, from_pandas=True) for one in found]
                plain = zip(columns, fields, strict=True)
                write(pa.table([one.cast(to.type) for one, to in plain], schema=pa.schema(fields)))
                n_rows += batch.num_rows
                advance(batch.num_rows)
    return n_rows


def _repaired(
    repair: RegionRecalibrator, X: Any, batch: Any, names: Sequence[str], at: Place, *, logits: bool
) -> list[Floats]:
    """Return the columns of repaired scores, with NaN in rows whose score is missing."""
    given = score_numbers(_scores(batch, names), at, names)
    rows = np.flatnonzero(~lacks_score(given))
    better = np.full(given.shape, np.nan)
    if len(rows):
        scores, _ = checked_scores(given[rows], replace(at, rows=rows), names, logits=logits)
        better[rows] = repair.predict(scores, Features.read(X, repair.features_in_).take(rows))
    return [better] if better.ndim == 1 else list(np.ascontiguousarray(better.T))


def _columns_of(learned: Features, source: Source, scores: Sequence[str]) -> list[str]:
    """Return the columns the repair was fitted to; for a matrix, the list column of the same width."""
    widths = {
        field.name: _width(field, source.widths)
        for field in source.schema
        if is_list(field.type) and field.name not in scores
    }
    fitting = [name for name, width in widths.items() if width == learned.n_columns]
    if learned.nameless and len(fitting) == 1:
        return fitting
    parts = {f"{name}[{j}]": name for name, width in widths.items() for j in range(width)}
    known = {**parts, **{name: name for name in source.schema.names}}
    made_of = {name: text_of(name) for name in learned.names if name not in known}
    names = (found[0] if (found := made_of.get(name)) else name for name in learned.names)
    columns = list(dict.fromkeys(names))
    missing = next((name for name in columns if name not in known), None)
    if missing is not None:
        hint = no_column(missing, known)
        raise DataError(
            printable(
                f"{source.parts[0].name} has no column {missing!r}, which this repair needs; {hint}"
            )
        )
    return list(dict.fromkeys(known[name] for name in columns))


def _width(field: Any, widths: Mapping[str, int]) -> int:
    fixed = arrow().types.is_fixed_size_list(field.type)
    return int(field.type.list_size) if fixed else widths.get(field.name, 0)


def _features(batch: Any, names: Sequence[str], source: Source) -> Any:
    """Return the feature columns of a batch in the form that a repair accepts."""
    columns: dict[str, Any] = {}
    for name in names:
        values, field = batch.column(name), source.schema.field(name)
        if not is_list(field.type):
            columns[name] = values.dictionary_encode() if is_of_categories(field) else _values(values)
            continue
        matrix = read_matrix(name, values, _width(field, source.widths))
        if len(names) == 1:
            return matrix
        columns |= {f"{name}[{j}]": part for j, part in enumerate(matrix.T)}
    return columns


def _values(values: Any) -> Any:
    """Return truth values and dates as NumPy arrays, and everything else as plain numbers or text."""
    types = arrow().types
    if types.is_boolean(values.type) or types.is_temporal(values.type):
        return values.to_numpy(zero_copy_only=False)
    return plain_numbers(values)


def _scores(batch: Any, names: Sequence[str]) -> Any:
    chosen = [plain_numbers(batch.column(name)) for name in names]
    return chosen[0] if len(chosen) == 1 else np.column_stack(chosen)
