"""Displayed columns as features to search segments in; texts are split into words."""

from __future__ import annotations

import numpy as np

from epiloss.errors import DataError
from epiloss.input.features import Features
from epiloss.input.problem import Problem
from epiloss.input.row_display import Display
from epiloss.input.text_features import with_words


def shown_features(display: Display, problem: Problem) -> Features | None:
    """Return the columns of a display as features; None if it has only images or names."""
    columns = {name or "text": np.asarray(column) for name, column in display.columns.items()}
    if not columns:
        return None
    n = len(next(iter(columns.values())))
    if problem.rows is not None and n > len(problem.labels):
        columns = {name: column[problem.rows] for name, column in columns.items()}
    try:
        features = Features.read(columns)
    except DataError:  # columns that hold neither numbers nor texts
        return None
    return with_words(features).features
