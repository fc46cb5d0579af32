"""A ridge regression on codes: every column by the normal scores of its ranks.

With weights ``w`` the residual ``r = Y - C`` is fitted by ``w x b``. For predictions the best strength
is that of generalised cross-validation. An estimate of squares is better with less shrinkage, as only
the bias of the mean prediction counts and the noise of two predictions cancels: it takes a part of that
strength.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import Bytes
from epiloss._typing import Codes, Floats

_STRENGTHS = 4.0 ** np.arange(-7, 4)  # in units of the rows' weight
LIGHTER = 16.0  # times less than what is best for predictions
_MOST_WORK = 6e10  # products for a Gram matrix; more rows are left out of it
_BLOCK = 2**22  # numbers at a time


@dataclass(frozen=True)
class CodedRidge:
    """Coefficients of the codes' normal scores; ``values`` are those of the encoding."""

    coefficients: NDArray[np.float32]
    values: NDArray[np.float32]

    def add(self, codes: Bytes, rows: Codes, total: Floats) -> None:
        """Add the predictions for rows to their totals, in place."""
        table = self.values * self.coefficients[:, None]
        for j in np.flatnonzero(self.coefficients):
            total += table[j][codes[j, rows]]


@dataclass(frozen=True)
class FittedRidge:
    """The regression for an estimate, and what the best one predicts for rows that it has not seen.

    For the latter it is fitted on either half of the rows, and predicts the other.
    """

    model: CodedRidge
    left_out: Floats


def fit_ridge(
    codes: Bytes, values: NDArray[np.float32], residual: Floats, weight: Floats
) -> FittedRidge:
    """Fit residuals of rows whose codes (columns, rows) are given."""
    d, n = codes.shape
    root = np.sqrt(weight)
    scaled = np.where(root > 0, residual / np.where(root > 0, root, 1.0), 0.0)
    step = max(-(-n * d * d // int(_MOST_WORK)), 1)  # more rows than that are left out of the sums
    halves = [np.arange(half, n, 2) for half in (0, 1)]
    sums = [_sums(codes, values, rows[::step], root, scaled) for rows in halves]
    rows = np.arange(n) if step == 1 else np.concatenate([half[::step] for half in halves])
    square, mass = float(scaled[rows] @ scaled[rows]), float(weight[rows].sum())
    path = _Path.of(sums[0][0] + sums[1][0], sums[0][1] + sums[1][1], square, len(rows), mass)
    best, left_out = path.best(), np.zeros(n)
    for (gram, moment), others in zip(sums, reversed(halves), strict=True):
        gram[np.diag_indices(d)] += best * mass / 2
        found = np.zeros(len(others))
        one = CodedRidge(np.linalg.solve(gram, moment).astype(np.float32), values)
        one.add(codes, others, found)
        left_out[others] = found
    return FittedRidge(CodedRidge(path.coefficients(best / LIGHTER), values), left_out)


def _sums(
    codes: Bytes, values: NDArray[np.float32], rows: Codes, root: Floats, scaled: Floats
) -> tuple[Floats, Floats]:
    """Return the Gram matrix and the products with the residuals, added up block by block."""
    d = len(codes)
    gram, moment = np.zeros((d, d)), np.zeros(d)
    for some in np.array_split(rows, max(-(-len(rows) * d // _BLOCK), 1)):
        block = np.empty((d, len(some)), np.float32)
        for j in range(d):
            block[j] = values[j][codes[j, some]]
        block *= root[some].astype(np.float32)
        gram += block @ block.T
        moment += block @ scaled[some]
    return gram, moment


@dataclass(frozen=True)
class _Path:
    """The solutions of every strength, from one decomposition."""

    spectrum: Floats
    vectors: Floats
    projected: Floats
    square: float
    n: int
    mass: float

    @classmethod
    def of(cls, gram: Floats, moment: Floats, square: float, n: int, mass: float) -> _Path:
        spectrum, vectors = np.linalg.eigh(gram)
        return cls(np.maximum(spectrum, 0.0), vectors, vectors.T @ moment, square, n, mass)

    def coefficients(self, strength: float) -> NDArray[np.float32]:
        shrunk = self.projected / (self.spectrum + strength * self.mass)
        return (self.vectors @ shrunk).astype(np.float32)

    def trace(self, strength: float) -> float:
        return float((self.spectrum / (self.spectrum + strength * self.mass)).sum())

    def best(self) -> float:
        """Return the strength of the least generalised cross-validation error."""
        errors = []
        for strength in _STRENGTHS:
            inverse = 1.0 / (self.spectrum + strength * self.mass)
            explained = (
                2 * inverse @ self.projected**2 - (self.spectrum * inverse**2) @ self.projected**2
            )
            free = max(self.n - self.trace(strength), 1.0)
            errors.append((self.square - explained) / free**2)
        return float(_STRENGTHS[int(np.argmin(errors))])
