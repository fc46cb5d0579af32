"""Ridge regressions on codes: what a column adds to the log-odds is a table of its codes.

A number comes by the normal score of its rank and, as heavy tails need, by the mean value of its code;
each also times ``4 S (1 - S)``. A category is an indicator in units of 1, so that the rarer it is the
more it is shrunk. Sums of products are added up once, fold by fold: those of all folds
but one are a difference.
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

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # in units of the rows' weight
LEAST_VARIANCE = 1e-4  # of a label, where the score is nearly sure
_WIDEST = 1_500  # columns of a regression; more are too many to solve for
_BLOCK = 2**20  # numbers at a time

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Additive:
    """Tables (2, columns, 64): what a code adds, and what it adds times ``4 S (1 - S)``."""

    tables: Singles

    def predict(self, codes: Bytes, base: Floats) -> Floats:
        """Return what to add to the log-odds of rows with codes (columns, rows)."""
        plain, product = np.zeros((2, len(base)))
        kernel().added_up(codes, self.tables[0], plain)
        kernel().added_up(codes, self.tables[1], product)
        return plain + _room(base) * product


@dataclass(frozen=True)
class Basis:
    """What codes are in a regression: a table (64, width) for each column.

    ``products`` has a table for each column too: what is multiplied with ``4 S (1 - S)``.
    """

    plain: Sequence[Singles]
    products: Sequence[Singles]

    @classmethod
    def of(cls, encoding: Encoding, codes: Bytes, features: Features) -> Basis:
        """Return the tables of all columns; of too many, each column has its normal scores alone."""
        normal, none = [one[:, None] for one in encoding.values], np.zeros((N_CODES, 0), np.float32)
        plain, products = [], []
        for j in range(features.n_columns):
            if j in features.categories:
                plain.append(_indicators(codes[j]))
                products.append(none)
            else:
                plain.append(np.hstack([normal[j], _mean_values(codes[j], features.column(j))]))
                products.append(plain[j])
        basis = cls([*plain, none], [*products, none])  # the score itself is left to its curve
        if basis.width <= _WIDEST:
            return basis
        return cls([*normal[:-1], none], [none] * len(normal))

    @property
    def width(self) -> int:
        """The number of coefficients."""
        return sum(table.shape[1] for table in [*self.plain, *self.products])

    def design(self, codes: Bytes, base: Floats) -> Singles:
        """Return the columns of the regression for rows with codes (columns, rows)."""
        room = _room(base).astype(np.float32)[:, None]
        plain = [table[code] for table, code in zip(self.plain, codes, strict=True)]
        pairs = zip(self.products, codes, strict=True)
        return np.hstack([*plain, *(table[code] * room for table, code in pairs if table.shape[1])])

    def additive(self, coefficients: Floats) -> Additive:
        """Return what a regression adds, as tables."""
        every = [*self.plain, *self.products]
        ends = np.cumsum([table.shape[1] for table in every])
        parts = np.split(coefficients, ends[:-1])
        tables = np.stack([table @ part for table, part in zip(every, parts, strict=True)])
        return Additive(tables.reshape(2, -1, N_CODES).astype(np.float32))


@dataclass(frozen=True)
class Products:
    """Sums over rows for a regression with weights: of products, with the residuals, of the weights."""

    gram: Floats
    moment: Floats
    mass: float

    @classmethod
    def of(
        cls, basis: Basis, codes: Bytes, base: Floats, labels: Floats, weights: Floats, rows: Codes
    ) -> Products:
        """Add up some of the rows."""
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
    """Return the coefficients (strengths, width) that the rows of all folds but one give, for each."""
    parts = [Products.of(basis, codes, base, labels, weights, rows) for rows in folds]
    total = Products(
        np.sum([one.gram for one in parts], axis=0),
        np.sum([one.moment for one in parts], axis=0),
        sum(one.mass for one in parts),
    )
    return [total.without(part).solutions() for part in parts]


def _room(base: Floats) -> Floats:
    return 4 * base * (1 - base)


def _indicators(column: NDArray[np.uint8]) -> Singles:
    """Return an indicator of each code that there is, less its mean; 0 for missing values."""
    count = np.bincount(column, minlength=N_CODES)[:MISSING]
    table = np.zeros((N_CODES, MISSING))
    table[:MISSING] = np.eye(MISSING) - count / max(int(count.sum()), 1)
    return table[:, count > 0].astype(np.float32)


def _mean_values(column: NDArray[np.uint8], values: NDArray[np.float64]) -> Singles:
    """Return the mean value of each code, with mean 0 and variance 1 over the rows."""
    count = np.bincount(column, minlength=N_CODES).astype(float)
    mean = np.bincount(column, np.nan_to_num(values.astype(float)), N_CODES) / np.maximum(count, 1)
    count[MISSING] = 0.0
    total = max(count.sum(), 1.0)
    mean = np.where(count > 0, mean - count @ mean / total, 0.0)
    spread = np.sqrt(count @ mean**2 / total)
    scaled = mean / spread if spread > 0 else np.zeros(N_CODES)
    return scaled.astype(np.float32)[:, None]
