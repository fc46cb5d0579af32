"""Ridge regressions on codes: the effect of a column on the log-odds is a table with one entry per code.

A numeric column enters as the normal score of its rank and, for heavy tails, as the mean value of its
code; both also enter multiplied by ``4 S (1 - S)``. A category enters as an indicator that is not
standardised, so that rare categories are shrunk more. With few columns, normal scores and the indicators
of few levels also enter multiplied by the normal score of S, because subgroups often have rates that are
too high at small scores and too low at large ones. The sums of products are computed once for each fold;
the sums of all folds but one are a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import MISSING, N_CODES, Bytes
from epiloss._typing import Codes, Floats
from epiloss.estimation.learning.encoding import Encoding
from epiloss.input.features import Features

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # penalties, relative to the weight of the rows
LEAST_VARIANCE = 1e-4  # of a label whose score is close to 0 or 1
_WIDEST = 1_500  # columns of a regression; larger systems take too long to solve
# Effects may change along S with at most this many columns, and in categories of so few levels.
_MAX_WITH_SLOPES, _MAX_LEVELS = 96, 8
_SLOPE_SCALE = 0.5  # slopes are shrunk four times as much as effects
_BLOCK = 2**20  # numbers that are processed at a time

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Additive:
    """Tables (3, columns, 64): the effect of each code, and those times ``4 S (1 - S)`` and ``along``.

    ``along`` (64) has half of the normal scores of the codes of S, which is the last column.
    """

    tables: Singles
    along: Singles

    def predict(self, codes: Bytes, base: Floats) -> Floats:
        """Return the correction of the log-odds of rows with codes (columns, rows)."""
        sums = np.zeros((3, len(base)))
        for table, part in zip(self.tables, sums, strict=True):
            kernel().added_up(codes, table, part)
        sums[1] *= _scaled_variance(base)
        sums[2] *= self.along[codes[-1]]
        total: Floats = sums.sum(axis=0)
        return total


@dataclass(frozen=True)
class Basis:
    """The basis functions of a regression: a table (64, width) of the codes for each column.

    ``products`` has the tables of the basis functions that are multiplied by ``4 S (1 - S)``, and
    ``slopes`` of those that are multiplied by ``along``, half of the normal scores of the codes of S.
    """

    plain: Sequence[Singles]
    products: Sequence[Singles]
    slopes: Sequence[Singles]
    along: Singles

    @classmethod
    def of(cls, encoding: Encoding, codes: Bytes, features: Features) -> Basis:
        """Return the tables of all columns; if there are too many, only the normal scores."""
        along = _SLOPE_SCALE * encoding.values[-1]
        normal, none = [one[:, None] for one in encoding.values], np.zeros((N_CODES, 0), np.float32)
        plain, products, slopes = [], [], []
        for j in range(features.n_columns):
            if j in features.categories:
                plain.append(_indicators(codes[j]))
                products.append(none)
                slopes.append(plain[j] if plain[j].shape[1] <= _MAX_LEVELS else none)
            else:
                plain.append(np.hstack([normal[j], _mean_values(codes[j], features.column(j))]))
                products.append(plain[j])
                slopes.append(normal[j])
        if features.n_columns > _MAX_WITH_SLOPES:
            slopes = [none] * features.n_columns
        # the score has no terms of its own: its curve is already fitted
        basis = cls([*plain, none], [*products, none], [*slopes, none], along)
        if basis.width <= _WIDEST:
            return basis
        without = [none] * len(normal)
        return cls([*normal[:-1], none], without, without, along)

    @property
    def width(self) -> int:
        """The number of coefficients."""
        return sum(table.shape[1] for table in [*self.plain, *self.products, *self.slopes])

    def design(self, codes: Bytes, base: Floats) -> Singles:
        """Return the columns of the regression for rows with codes (columns, rows)."""
        factors = (None, _scaled_variance(base).astype(np.float32), self.along[codes[-1]])
        columns = []
        for tables, factor in zip((self.plain, self.products, self.slopes), factors, strict=True):
            for table, code in zip(tables, codes, strict=True):
                if table.shape[1]:
                    columns.append(table[code] if factor is None else table[code] * factor[:, None])
        return np.hstack(columns)

    def additive(self, coefficients: Floats) -> Additive:
        """Return the effects of a regression as tables."""
        every = [*self.plain, *self.products, *self.slopes]
        ends = np.cumsum([table.shape[1] for table in every])
        parts = np.split(coefficients, ends[:-1])
        tables = np.stack([table @ part for table, part in zip(every, parts, strict=True)])
        return Additive(tables.reshape(3, -1, N_CODES).astype(np.float32), self.along)


@dataclass(frozen=True)
class Products:
    """Sums over rows for a weighted regression: Gram matrix, moments and total weight."""

    gram: Floats
    moment: Floats
    mass: float

    @classmethod
    def of(
        cls, basis: Basis, codes: Bytes, base: Floats, labels: Floats, weights: Floats, rows: Codes
    ) -> Products:
        """Return the sums over the given rows."""
        gram, moment, mass = np.zeros((basis.width, basis.width)), np.zeros(basis.width), 0.0
        for some in np.array_split(rows, max(-(-len(rows) * basis.width // _BLOCK), 1)):
            p, w = base[some], weights[some]
            variance = w * np.maximum(p * (1 - p), LEAST_VARIANCE)
            design = basis.design(np.take(codes, some, axis=1), p)
            moment += design.T @ (w * (labels[some] - p)).astype(np.float32)
            design *= np.sqrt(variance).astype(np.float32)[:, None]
            gram += design.T @ design
            mass += float(variance.sum())
        return cls(gram, moment, mass)

    def without(self, part: Products) -> Products:
        """Return the sums over the other rows."""
        return Products(self.gram - part.gram, self.moment - part.moment, self.mass - part.mass)

    def solutions(self) -> Floats:
        """Return the coefficients (strengths, width): a Newton step of a penalised logistic model."""
        found = []
        for strength in STRENGTHS:
            penalised = self.gram.copy()
            penalised[np.diag_indices(len(penalised))] += strength * self.mass
            found.append(np.linalg.solve(penalised, self.moment))
        return np.stack(found)


def fit_ridges(
    basis: Basis, codes: Bytes, base: Floats, labels: Floats, weights: Floats, folds: Sequence[Codes]
) -> list[Floats]:
    """Return, for each fold, the coefficients (strengths, width) fitted to all other folds."""
    parts = [Products.of(basis, codes, base, labels, weights, rows) for rows in folds]
    total = Products(
        np.sum([one.gram for one in parts], axis=0),
        np.sum([one.moment for one in parts], axis=0),
        sum(one.mass for one in parts),
    )
    return [total.without(part).solutions() for part in parts]


def _scaled_variance(base: Floats) -> Floats:
    return 4 * base * (1 - base)


def _indicators(column: NDArray[np.uint8]) -> Singles:
    """Return centred indicators of the codes that occur; missing values are 0."""
    count = np.bincount(column, minlength=N_CODES)[:MISSING]
    table = np.zeros((N_CODES, MISSING))
    table[:MISSING] = np.eye(MISSING) - count / max(int(count.sum()), 1)
    return table[:, count > 0].astype(np.float32)


def _mean_values(column: NDArray[np.uint8], values: NDArray[np.float64]) -> Singles:
    """Return the mean value of each code, standardised over the rows."""
    count = np.bincount(column, minlength=N_CODES).astype(float)
    mean = np.bincount(column, np.nan_to_num(values.astype(float)), N_CODES) / np.maximum(count, 1)
    count[MISSING] = 0.0
    total = max(count.sum(), 1.0)
    mean = np.where(count > 0, mean - count @ mean / total, 0.0)
    spread = np.sqrt(count @ mean**2 / total)
    scaled = mean / spread if spread > 0 else np.zeros(N_CODES)
    return scaled.astype(np.float32)[:, None]
