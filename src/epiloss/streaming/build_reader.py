"""Building the reader from the labels, subgroups and weights that the census found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epiloss.errors import DataError, Remark
from epiloss.input.checks import task_and_remarks
from epiloss.input.labels import encode_labels, label_named, positive_class, read_classes
from epiloss.input.pandas_metadata import index_remark
from epiloss.input.problem import Reading
from epiloss.sources.arrow import INDEX, mark_of
from epiloss.sources.base import Source
from epiloss.streaming.census import Census
from epiloss.streaming.reader import Layout, Reader


def build_reader(
    source: Source, layout: Layout, reading: Reading, census: Census
) -> tuple[Reader, list[Remark]]:
    """Return the reader of the data, and remarks."""
    roles, n_columns = layout.roles, layout.n_scores
    labels = integer_labels(census.labels)
    named = read_classes(
        None if reading.classes is None else [_meant(labels, one) for one in reading.classes],
        max(n_columns, 2),
    )
    names = encode_labels(np.array(labels, object), n_columns, named)[0]
    pos_label = None if reading.pos_label is None else _meant(names, reading.pos_label)
    positive = positive_class(names, pos_label)
    task, chosen = task_and_remarks(replace(reading, pos_label=pos_label), names, n_columns, named)
    remarks = source_remarks(source.remarks)
    remarks += [_left_out(source.schema.field(name)) for name in roles.identifiers]
    remarks += chosen
    if roles.weight is not None and census.largest_weight == 0:
        raise DataError("weights must not all be 0. Leave sample_weight out for equal weights.")
    read = Reader(
        **vars(layout),
        task=task,
        classes=names,
        positive=positive,
        largest_weight=None if roles.weight is None else census.largest_weight,
        subgroups={name: tuple(sorted(found)) for name, found in census.subgroups.items()},
        drop_missing=reading.drop_missing,
        logits=reading.logits,
    )
    return read, remarks


def source_remarks(texts: Sequence[str]) -> list[Remark]:
    """Return the remarks of a source."""
    return [Remark("source", text) for text in texts]


def _left_out(field: Any) -> Remark:
    """Return the remark that an identifier or index is not used as a feature."""
    if mark_of(field) == INDEX:
        return index_remark(field.name)
    text = f"column {field.name!r} is an identifier and is not used as a feature."
    return Remark("identifier-left-out", text)


def integer_labels(labels: Mapping[Any, int]) -> list[Any]:
    """Return the labels; if all are integral floats, as CSV gives them, as integers."""
    if all(isinstance(label, float) and label.is_integer() for label in labels):
        return [int(label) for label in labels]
    return list(labels)


def _meant(labels: Sequence[Any], given: Any) -> Any:
    """Return the label for a value that the user gave, which is a string on the command line."""
    return label_named(labels, given) if isinstance(given, str) and given not in labels else given
