"""Ridge regressions of several strengths, on features and on features times ``4 S (1-S)``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.input.features import Features

_MOST_CATEGORIES = 200  # columns with more categories are left out
_BLOCK = 4096  # number of rows at a time, because indicators make a wide matrix


class Ridges:
    """Ridge regressions of several strengths from one factorisation.

    Numbers are scaled by their standard deviation. Categories have unscaled indicators, so that rare
    ones are shrunk more, and have no interaction with the score. Columns with very many categories are
    left to the trees.
    """

    def __init__(self, centre: Floats, scale: Floats, coefficients: Floats) -> None:
        self.centre, self.scale, self.coefficients = centre, scale, coefficients

    @classmethod
    def fit(
        cls,
        features: Features,
        scores: Floats,
        target: Floats,
        weights: Floats | None,
        alphas: tuple[float, ...],
    ) -> Ridges:
        """Fit one regression for each strength, relative to the total weight."""
        centre, scale = _centre_and_scale(features)
        unfitted = cls(centre, scale, np.zeros((0, 0)))
        gram: Floats | float = 0.0
        moment: Floats | float = 0.0
        for rows in _blocks(len(scores)):
            design = unfitted._design(features.take(rows), scores[rows])
            weighted = design if weights is None else design * weights[rows, None]
            gram = gram + design.T @ weighted
            moment = moment + weighted.T @ target[rows]
        values, vectors = np.linalg.eigh(gram)
        projected = vectors.T @ moment
        mass = len(target) if weights is None else weights.sum()
        shrunk = [projected / (np.maximum(values, 0) + alpha * mass) for alpha in alphas]
        return cls(centre, scale, vectors @ np.stack(shrunk, axis=1))

    def predict_columns(self, features: Features, scores: Floats) -> Floats:
        """Return the predictions, one column per strength."""
        found = np.empty((len(scores), self.coefficients.shape[1]))
        for rows in _blocks(len(scores)):
            found[rows] = self._design(features.take(rows), scores[rows]) @ self.coefficients
        return found

    def _design(self, features: Features, scores: Floats) -> Floats:
        x = np.nan_to_num((_numbers(features) - self.centre) / self.scale)
        return np.hstack([x, x[:, _is_number(features)] * (4 * scores * (1 - scores))[:, None]])


def design_widths(features: Features) -> tuple[int, int]:
    """Return the number of columns with indicators, and the number with the interactions as well."""
    numbers = _is_number(features)
    return len(numbers), len(numbers) + int(numbers.sum())


def _centre_and_scale(features: Features) -> tuple[Floats, Floats]:
    """Return the mean and scale of each column; the scale of indicators and constants is 1."""
    counts, sums = [], []
    for rows in _blocks(features.n_rows):
        raw = _numbers(features.take(rows))
        counts.append((~np.isnan(raw)).sum(axis=0))
        sums.append(np.nansum(raw, axis=0))
    count = np.maximum(np.sum(counts, axis=0), 1)  # a column may have no values
    centre = np.sum(sums, axis=0) / count
    squares = [
        np.nansum((_numbers(features.take(rows)) - centre) ** 2, axis=0)
        for rows in _blocks(features.n_rows)
    ]
    scale = np.sqrt(np.sum(squares, axis=0) / count)
    scale[(scale == 0) | ~_is_number(features)] = 1.0
    return centre, scale


def _blocks(n: int) -> Iterator[Codes]:
    for start in range(0, n, _BLOCK):
        yield np.arange(start, min(start + _BLOCK, n))


def _numbers(features: Features) -> Floats:
    """Return the features with categorical columns replaced by indicators."""
    columns = []
    for j in range(features.n_columns):
        column = features.column(j)[:, None].astype(np.float64)
        levels = _n_indicators(features, j)
        columns.append(column if levels is None else (column == np.arange(levels)).astype(float))
    return np.hstack(columns)


def _n_indicators(features: Features, j: int) -> int | None:
    """Return the number of indicators for a column; None for a numeric column."""
    levels = features.categories.get(j)
    if levels is None:
        return None
    return len(levels) if len(levels) <= _MOST_CATEGORIES else 0


def _is_number(features: Features) -> NDArray[np.bool_]:
    """Return which columns of ``_numbers`` are numeric."""
    counts = (_n_indicators(features, j) for j in range(features.n_columns))
    return np.concatenate([np.full(1 if n is None else n, n is None) for n in counts])
