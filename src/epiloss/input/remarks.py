"""Remarks on the data: dropped rows, duplicates, label leaks, empty columns, uneven weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from epiloss._typing import Codes, Floats
from epiloss.errors import Remark
from epiloss.input.arrays import ROUNDING
from epiloss.input.duplicate_rows import copied_share
from epiloss.input.features import Features
from epiloss.input.problem import Problem

_FIRST = 256  # rows that are inspected first, to exclude most columns quickly
_UNEVEN = 0.1  # a smaller ratio of the effective to the actual number of rows gives a remark


def misaligned_remarks(y_prob: Any, **others: Any) -> list[Remark]:
    """Remark on pandas objects with the same index in different orders, as rows match by position."""
    found = []
    one: Any = getattr(y_prob, "index", None)
    for name, other in others.items():
        two: Any = getattr(other, "index", None)
        if not (hasattr(one, "equals") and hasattr(two, "equals")) or one.equals(two):
            continue
        if len(one) == len(two) and set(one) == set(two):
            text = (
                f"{name} has the index of y_prob in another order, and rows are matched by position. "
                "To match them by index, use .loc[y_prob.index]."
            )
            found.append(Remark("index-order", text))
    return found


def dropped_remark(n: int, of: int) -> Remark:
    """Return the remark on rows that were dropped because a score or a label is missing."""
    return Remark("rows-dropped", f"{n:,} of {of:,} rows have no score or no label and were left out.")


def clipped_remark(n: int) -> list[Remark]:
    """Return the remark on clipped scores, if there are any."""
    text = f"{n:,} scores outside [0, 1] by at most {ROUNDING:g} were clipped."
    return [Remark("scores-clipped", text)] if n else []


def remarks_on(problem: Problem) -> list[Remark]:
    """Return remarks on properties of the data that limit what the audit can show."""
    remarks = []
    scores = problem.scores
    if len(scores) > 1 and (scores.min(axis=0) == scores.max(axis=0)).all():
        one = f"all scores are {scores[0]:.6g}" if scores.ndim == 1 else "all rows have the same scores"
        text = f"{one}: there is only one level set, and no calibration curve."
        remarks.append(Remark("constant-score", text))
    if problem.features is not None:
        remarks += _remarks_on_features(problem, problem.features)
    if problem.weights is not None:
        remarks += _uneven_remark(problem.weights)
    return remarks


def _remarks_on_features(problem: Problem, features: Features) -> list[Remark]:
    remarks = []
    share = 0.0
    if problem.clusters is None:
        share = copied_share(problem.labels, problem.scores, features)
    if share:
        text = (
            f"about {share:.0%} of the rows are duplicates of others, with the same score, features "
            "and label: the grouping loss is overstated and intervals are too narrow. Drop the "
            "duplicates, or pass clusters that contain them."
        )
        remarks.append(Remark("duplicate-rows", text))
    leak = leaking_column(problem.labels, features) if problem.task == "binary" else None
    if leak is not None:
        text = (
            f"column {leak!r} determines the label of every row. If it is known only after the "
            "outcome, leave it out: the results come from this column alone."
        )
        remarks.append(Remark("label-leak", text))
    empty = empty_columns(features)
    if empty:
        shown = f"{', '.join(map(repr, empty)):.80}"
        text = f"column {shown} has no values and is not used."
        remarks.append(Remark("empty-column", text))
    return remarks


def _uneven_remark(weights: Floats) -> list[Remark]:
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    if effective >= _UNEVEN * len(weights):
        return []
    text = (
        f"the weights are very uneven: {len(weights):,} rows have an effective sample size of "
        f"{effective:,.0f}, so standard errors rest on few rows."
    )
    return [Remark("uneven-weights", text)]


def varied_remarks(varied: Mapping[str, int], n_rows: int, dates: Collection[str] = ()) -> list[Remark]:
    """Return remarks on columns that were left out because they have too many categories.

    ``dates`` are those of them whose strings look like dates.
    """
    hint = " They look like dates: convert the column to datetimes to use it."
    return [
        Remark(
            "names-left-out",
            f"column {name!r} has {n:,} distinct strings in {n_rows:,} rows, too many to learn from, "
            f"and was left out.{hint if name in dates else ''}",
        )
        for name, n in varied.items()
    ]


def leaking_column(labels: Codes, features: Features) -> str | None:
    """Return the name of a column with two values that determine the label; None if there is none."""
    first = features.take(np.arange(min(len(labels), _FIRST))).matrix
    same = labels[: len(first)] == labels[0]
    for j in np.flatnonzero(((first == first[0]) == same[:, None]).all(axis=0)):
        values = features.column(int(j))
        one = values == values[0]
        others = values[~one]
        if len(others) and (others == others[0]).all() and (one == (labels == labels[0])).all():
            return features.names[j]
    return None


def empty_columns(features: Features) -> list[str]:
    """Return the names of columns whose values are all missing."""
    if features.complete or not features.n_rows:
        return []
    first = features.take(np.arange(min(features.n_rows, _FIRST))).matrix
    maybe = np.flatnonzero(np.isnan(first).all(axis=0)).tolist()
    return [features.names[j] for j in maybe if np.isnan(features.column(j)).all()]


def weightless_remarks(n_zero: int, n: int) -> list[Remark]:
    """Return remarks on rows with zero weight, and on rows with a negligible weight."""
    remarks = []
    if n_zero:
        remarks.append(Remark("weight-zero", f"rows left out because their weight is 0: {n_zero:,}."))
    if n > n_zero:
        text = f"rows left out because their weight is negligible: {n - n_zero:,}."
        remarks.append(Remark("weight-tiny", text))
    return remarks
