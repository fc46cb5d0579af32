"""What to tell the user about the data: rows left out, copies, leaks, empty columns, uneven weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from epiloss._typing import Codes
from epiloss.errors import Remark
from epiloss.input.arrays import (
    ROUNDING,
)
from epiloss.input.duplicate_rows import copied_share
from epiloss.input.features import Features
from epiloss.input.problem import Problem

_FIRST = 256  # rows that are looked at to see whether a column can be the label
_UNEVEN = 0.1  # weights by which rows count as so small a part of them are remarked on


def misaligned_remarks(y_prob: Any, **others: Any) -> list[Remark]:
    """Say where pandas objects have one index in different orders: rows are taken by their places."""
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
    """Say how many rows were left out for want of a score or a label."""
    return Remark("rows-dropped", f"{n:,} of {of:,} rows have no score or no label and were left out.")


def clipped_remark(n: int) -> list[Remark]:
    """Say how many scores were clipped, if any were."""
    text = f"{n:,} scores outside [0, 1] by at most {ROUNDING:g} were clipped."
    return [Remark("scores-clipped", text)] if n else []


def remarks_on(problem: Problem) -> list[Remark]:
    """Say what makes an audit of these rows tell less than it seems to."""
    remarks = []
    scores = problem.scores
    if len(scores) > 1 and (scores.min(axis=0) == scores.max(axis=0)).all():
        one = f"all scores are {scores[0]:.6g}" if scores.ndim == 1 else "all rows have the same scores"
        text = f"{one}: there is only one level set, and no calibration curve."
        remarks.append(Remark("constant-score", text))
    if problem.features is not None and problem.clusters is None:
        share = copied_share(problem.labels, scores, problem.features)
        if share:
            remarks.append(
                Remark(
                    "duplicate-rows",
                    f"about {share:.0%} of the rows are copies of others, with the same score, "
                    "features and label: the grouping loss is overstated and intervals are too "
                    "narrow. Drop them, or pass what they belong to as clusters.",
                )
            )
    if problem.features is not None and problem.task == "binary":
        leak = told_label(problem.labels, problem.features)
        if leak is not None:
            remarks.append(
                Remark(
                    "label-leak",
                    f"column {leak!r} determines the label of every row. If it is known only after the "
                    "outcome, leave it out: what is found comes from it alone.",
                )
            )
    empty = [] if problem.features is None else empty_columns(problem.features)
    if empty:
        shown = f"{', '.join(map(repr, empty)):.80}"
        text = f"column {shown} has no values and is not used."
        remarks.append(Remark("empty-column", text))
    weights = problem.weights
    if weights is not None:
        count = float(weights.sum() ** 2 / (weights**2).sum())
        if count < _UNEVEN * len(weights):
            remarks.append(
                Remark(
                    "uneven-weights",
                    f"weights are so uneven that {len(weights):,} rows are worth {count:,.0f}: "
                    "standard errors rest on few rows.",
                )
            )
    return remarks


def varied_remarks(varied: Mapping[str, int], n_rows: int) -> list[Remark]:
    """Say which columns of texts were left out, and why."""
    texts = {
        name: (
            f"column {name!r} has {n:,} texts in {n_rows:,} rows, too many to learn from, and was left "
            "out."
        )
        for name, n in varied.items()
    }
    return [Remark("names-left-out", text) for text in texts.values()]


def told_label(labels: Codes, features: Features) -> str | None:
    """Return the name of a column that takes two values, and with them tells the label of every row."""
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
    """Return the names of columns in which every value is missing."""
    if features.complete or not features.n_rows:
        return []
    first = features.take(np.arange(min(features.n_rows, _FIRST))).matrix
    maybe = np.flatnonzero(np.isnan(first).all(axis=0)).tolist()
    return [features.names[j] for j in maybe if np.isnan(features.column(j)).all()]


def weightless_remarks(n_zero: int, n: int) -> list[Remark]:
    """Say how many rows have no weight, and how many next to none."""
    remarks = []
    if n_zero:
        remarks.append(Remark("weight-zero", f"rows left out because their weight is 0: {n_zero:,}."))
    if n > n_zero:
        text = f"rows left out because their weight is negligible: {n - n_zero:,}."
        remarks.append(Remark("weight-tiny", text))
    return remarks
