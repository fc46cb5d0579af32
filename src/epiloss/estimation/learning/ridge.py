"""A ridge regression on codes: every column by the normal scores of its ranks.

With weights ``w`` the residual ``r = Y - C`` is fitted by ``w x b``. For predictions the best strength
is that of generalised cross-validation. An estimate of squares is better with less shrinkage, as only
the bias of the mean prediction counts and the noise of two predictions cancels: it takes a part of that
strength.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import Bytes
from epiloss._typing import Floats

_STRENGTHS = 4.0 ** np.arange(-7, 4)  # in units of the rows' weight
LIGHTER = 16.0  # times less than what is best for predictions
_MOST_WORK = 3e10  # products for a Gram matrix; more rows are left out of it
_BLOCK = 2**22  # numbers at a time
_WIDE, _FEW = 1_024, 1_200  # columns from which on few rows tell the penalty, and how many


@dataclass(frozen=True)
class CodedRidge:
    """Coefficients of the codes' normal scores; ``values`` are those of the encoding."""

    coefficients: NDArray[np.float32]
    values: NDArray[np.float32]

    def add(self, codes: Bytes, total: Floats) -> None:
        """Add the predictions for rows, given by their codes (columns, rows), to their totals."""
        kernel().added_up(codes, self.values * self.coefficients[:, None], total)


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
    halves = slice(0, None, 2), slice(1, None, 2)
    parts = [
        _Part.of(codes[:, half][:, ::step], values, root[half][::step], scaled[half][::step])
        for half in halves
    ]
    both = parts[0].joined(parts[1])
    few = both
    if d > _WIDE:  # the penalty does not depend on how many rows there are, so few tell it
        some = np.unique(np.linspace(0, n - 1, min(d // 2, _FEW)).astype(np.int64))
        few = _Part.of(codes[:, some], values, root[some], scaled[some])
    path, left_out = few.path(), np.zeros(n)
    penalty = path.best()
    for part, others in zip(parts, reversed(halves), strict=True):
        found = np.zeros(n)
        CodedRidge(part.solved(penalty), values).add(codes, found)
        left_out[others] = found[others]
    light = penalty / LIGHTER
    coefficients = path.coefficients(light) if few is both else both.solved(light)
    return FittedRidge(CodedRidge(coefficients, values), left_out)


class _Part(ABC):
    """Weighted rows: enough of them to solve for coefficients, in the smaller of their two spaces."""

    square: float  # of what is to be explained
    mass: float
    n: int

    @staticmethod
    def of(codes: Bytes, values: NDArray[np.float32], root: Floats, scaled: Floats) -> _Part:
        """Return rows: by the products of their columns or, where these are more, as they are."""
        d, n = codes.shape
        square, mass = float(scaled @ scaled), float(root @ root)
        if 2 * n <= d:
            return _FewRows(square, mass, n, _columns(codes, values, root), scaled)
        gram, moment = np.zeros((d, d)), np.zeros(d)
        size = max(_BLOCK // d, 1)
        for first in range(0, n, size):
            some = slice(first, first + size)
            block = _columns(codes[:, some], values, root[some])
            gram += block @ block.T
            moment += block @ scaled[some]
        return _ManyRows(square, mass, n, gram, moment)

    @abstractmethod
    def joined(self, other: Any) -> _Part:
        """Return both parts."""

    @abstractmethod
    def solved(self, penalty: float) -> NDArray[np.float32]:
        """Return the coefficients for one penalty."""

    @abstractmethod
    def path(self) -> _Path:
        """Return the coefficients for any."""


@dataclass(frozen=True)
class _ManyRows(_Part):
    square: float
    mass: float
    n: int
    gram: Floats
    moment: Floats

    def joined(self, other: _ManyRows) -> _ManyRows:
        sums = (getattr(self, one.name) + getattr(other, one.name) for one in fields(self))
        return _ManyRows(*sums)

    def solved(self, penalty: float) -> NDArray[np.float32]:
        return _solution(self.gram, penalty, self.moment)

    def path(self) -> _Path:
        spectrum, vectors = _decomposed(self.gram)
        projected = vectors.T @ self.moment
        return _Path(spectrum, projected**2, self.square, self.n, self.mass, vectors, projected)


@dataclass(frozen=True)
class _FewRows(_Part):
    square: float
    mass: float
    n: int
    columns: NDArray[np.float32]  # (columns, rows)
    target: Floats

    def joined(self, other: _FewRows) -> _FewRows:
        columns = np.concatenate([self.columns, other.columns], axis=1)
        target = np.concatenate([self.target, other.target])
        square, mass = self.square + other.square, self.mass + other.mass
        return _FewRows(square, mass, self.n + other.n, columns, target)

    def solved(self, penalty: float) -> NDArray[np.float32]:
        return self.columns @ _solution(self.columns.T @ self.columns, penalty, self.target)

    def path(self) -> _Path:
        spectrum, vectors = _decomposed(self.columns.T @ self.columns)
        projected = vectors.T @ self.target
        lifted = self.columns @ vectors.astype(np.float32)
        return _Path(
            spectrum, spectrum * projected**2, self.square, self.n, self.mass, lifted, projected
        )


def _columns(codes: Bytes, values: NDArray[np.float32], root: Floats) -> NDArray[np.float32]:
    """Return the weighted normal scores (columns, rows) of rows."""
    block = np.empty(codes.shape, np.float32)
    for value, code, column in zip(values, codes, block, strict=True):
        np.take(value, code, out=column, mode="clip")
    block *= root.astype(np.float32)
    return block


def _solution(matrix: NDArray[Any], penalty: float, target: Floats) -> NDArray[np.float32]:
    from scipy.linalg.lapack import dposv  # which takes a while to load

    penalised = matrix.astype(float)
    penalised[np.diag_indices(len(matrix))] += penalty
    found, failed = dposv(penalised.T, target, overwrite_a=True)[1:]  # in LAPACK's order, no copy
    if failed:
        raise np.linalg.LinAlgError(f"the ridge regression has no solution (LAPACK: {failed})")
    return np.asarray(found, np.float32)


def _decomposed(matrix: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return eigenvalues, none below 0, and vectors; in single precision, which is enough here."""
    from scipy.linalg import eigh  # which takes a while to load

    spectrum, vectors = eigh(matrix.astype(np.float32), driver="evd", overwrite_a=True)
    return np.maximum(spectrum.astype(float), 0.0), vectors.astype(float)


@dataclass(frozen=True)
class _Path:
    """The solutions of every strength, from one decomposition.

    ``energy`` is what each direction would explain times its eigenvalue.
    """

    spectrum: Floats
    energy: Floats
    square: float
    n: int
    mass: float
    vectors: NDArray[Any]
    projected: Floats

    def coefficients(self, penalty: float) -> NDArray[np.float32]:
        shrunk = self.projected / (self.spectrum + penalty)
        return (self.vectors @ shrunk).astype(np.float32)

    def best(self) -> float:
        """Return the penalty of the least generalised cross-validation error."""
        errors, penalties = [], _STRENGTHS * self.mass
        for penalty in penalties:
            inverse = 1.0 / (self.spectrum + penalty)
            explained = (2 * inverse - self.spectrum * inverse**2) @ self.energy
            free = max(self.n - self.spectrum @ inverse, 1.0)
            errors.append((self.square - explained) / free**2)
        return float(penalties[int(np.argmin(errors))])
