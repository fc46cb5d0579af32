"""Bundled demo data; the README.md in this folder describes them."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DemoData", "load_census_income"]

NUMERIC = (
    "age",
    "employer_size",
    "weeks_worked",
    "wage_per_hour",
    "capital_gains",
    "capital_losses",
    "dividends",
)
TARGET = "over_50k"
SCORE = "score"


@dataclass(frozen=True)
class DemoData:
    """Features, binary labels, and the scores of a model that was fitted to other rows.

    Attributes
    ----------
    X : dict of str to array
        The features.
    y : array of int
        The labels.
    scores : array
        The predicted probabilities.

    See Also
    --------
    load_census_income : returns it.

    Examples
    --------
    >>> demo = load_census_income()
    >>> len(demo.X["age"]) == len(demo.y) == len(demo.scores)
    True
    """

    X: dict[str, NDArray[Any]]
    y: NDArray[np.int64]
    scores: NDArray[np.float64]


def load_census_income() -> DemoData:
    """Load 20,000 rows of the Census-Income data, with held-out scores of a logistic regression.

    Returns
    -------
    DemoData
        Features, labels and scores.

    See Also
    --------
    epiloss.audit : audits the scores.

    References
    ----------
    "Census-Income (KDD)", UCI Machine Learning Repository, 2000.

    Examples
    --------
    >>> demo = load_census_income()
    >>> demo.y.shape, demo.X["education"][0], demo.X["age"].dtype
    ((20000,), '1st 2nd 3rd or 4th grade', dtype('float64'))
    """
    packed = resources.files(__name__).joinpath("census_income.csv.gz").read_bytes()
    header, *rows = csv.reader(io.StringIO(gzip.decompress(packed).decode(), newline=""))
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    y = np.array(columns.pop(TARGET), dtype=np.int64)
    scores = np.array(columns.pop(SCORE), dtype=np.float64)
    X = {
        name: np.array(values, dtype=np.float64 if name in NUMERIC else np.object_)
        for name, values in columns.items()
    }
    return DemoData(X=X, y=y, scores=scores)
