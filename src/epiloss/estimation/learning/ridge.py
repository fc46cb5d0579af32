"""Ridge regression on codes: every column enters as the normal scores of its ranks.

With few columns, each may enter a second time, multiplied by the normal scores of the score: subgroups
often have rates that are too high at small scores and too low at large ones, or the other way round.
These slopes are used if they lower the error of generalised cross-validation; otherwise they are noise.

With weights ``w``, the residual ``r = Y - C`` is fitted by ``w x b``. Generalised cross-validation finds
the penalty that is best for prediction. The twin estimate is better with a sixteenth of it, because the
noise of the two predictions cancels and only the bias of their mean counts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import Bytes
from epiloss._typing import Floats

# Penalties that generalised cross-validation compares, relative to the total weight of the rows.
_RELATIVE_PENALTIES = 4.0 ** np.arange(-7, 4)
# The penalty of the model is this many times smaller than the best one for prediction.
_PENALTY_DIVISOR = 16.0
# Effects may change along the score with at most this many columns and at least this many rows for each.
_MAX_WITH_SLOPES, _MIN_ROWS_PER_SLOPE = 96, 4
# Slopes must lower the logarithm of the error by this number, divided by the number of rows.
_WORTH_OF_SLOPES = 2.0
# Maximum number of multiplications for a Gram matrix. Rows beyond it are skipped, to bound the time.
_MAX_GRAM_PRODUCTS = 3e10
# Number of values that are decoded at a time, to bound memory.
_BLOCK_VALUES = 2**22
# With more than 1,024 columns, the penalty is chosen on at most 1,200 rows: the time of an eigenvalue
# decomposition grows with the cube of the smaller number of rows and columns.
_WIDE, _MAX_PENALTY_ROWS = 1_024, 1_200


@dataclass(frozen=True)
class CodedRidge:
    """The coefficients of a ridge regression; ``values`` are the encoding's normal scores of codes.

    ``coefficients`` has a row of effects and, with few columns, a row of their slopes along the score.
    """

    coefficients: NDArray[np.float32]
    values: NDArray[np.float32]

    def add(self, codes: Bytes, total: Floats) -> None:
        """Add the predictions for rows with these codes (columns, rows) to ``total``."""
        effects, *slopes = self.coefficients
        kernel().added_up(codes, self.values * effects[:, None], total)
        for slope in slopes:
            per_unit = np.zeros(len(total))
            kernel().added_up(codes, self.values * slope[:, None], per_unit)
            total += _along_score(codes, self.values) * per_unit


@dataclass(frozen=True)
class FittedRidge:
    """The lightly penalised model, and out-of-fold predictions with the best penalty.

    For the latter, a model is fitted on each half of the rows and predicts the other half.
    """

    model: CodedRidge
    out_of_fold: Floats


def fit_ridge(
    codes: Bytes, values: NDArray[np.float32], residual: Floats, weight: Floats
) -> FittedRidge:
    """Fit the residuals of rows with these codes (columns, rows); the last column is the score."""
    d, n = codes.shape
    with_slopes = d <= _MAX_WITH_SLOPES and _MIN_ROWS_PER_SLOPE * d <= n
    root = np.sqrt(weight)
    target = np.where(root > 0, residual / np.where(root > 0, root, 1.0), 0.0)
    step = max(-(-n * d * d // int(_MAX_GRAM_PRODUCTS)), 1)
    halves = slice(0, None, 2), slice(1, None, 2)
    systems = [
        _System.of(
            codes[:, half][:, ::step], values, root[half][::step], target[half][::step], with_slopes
        )
        for half in halves
    ]
    both = systems[0].merge(systems[1])
    if with_slopes:
        without = both.first(d)
        if slopes_are_noise(both, without):
            systems, both = [one.first(d) for one in systems], without
    penalty_system = both
    if d > _WIDE:  # the best penalty does not depend on the number of rows
        rows = np.unique(np.linspace(0, n - 1, min(d // 2, _MAX_PENALTY_ROWS)).astype(np.int64))
        penalty_system = _System.of(codes[:, rows], values, root[rows], target[rows])
    path, out_of_fold = penalty_system.path, np.zeros(n)
    penalty = path.best_penalty()
    for system, other_half in zip(systems, reversed(halves), strict=True):
        prediction = np.zeros(n)
        CodedRidge(system.solve(penalty).reshape(-1, d), values).add(codes, prediction)
        out_of_fold[other_half] = prediction[other_half]
    light = penalty / _PENALTY_DIVISOR
    coefficients = path.coefficients(light) if penalty_system is both else both.solve(light)
    return FittedRidge(CodedRidge(coefficients.reshape(-1, d), values), out_of_fold)


def slopes_are_noise(with_slopes: _System, without: _System) -> bool:
    """Return whether slopes lower the error of generalised cross-validation by no more than chance."""
    lower, upper = (float(one.path.errors().min()) for one in (with_slopes, without))
    return upper <= lower * math.exp(_WORTH_OF_SLOPES / with_slopes.n)


class _System(ABC):
    """The normal equations of weighted rows, in the smaller of the spaces of columns and of rows."""

    target_sq: float  # sum of the squared targets
    mass: float  # total weight of the rows
    n: int

    @staticmethod
    def of(
        codes: Bytes,
        values: NDArray[np.float32],
        root: Floats,
        target: Floats,
        with_slopes: bool = False,
    ) -> _System:
        """Return the system of rows with these codes (columns, rows) and square roots of weights."""
        (d, n), n_terms = codes.shape, 1 + with_slopes
        target_sq, mass = float(target @ target), float(root @ root)
        if 2 * n <= d:
            return _RowSystem(target_sq, mass, n, _decode(codes, values, root), target)
        gram, moment = np.zeros((n_terms * d, n_terms * d)), np.zeros(n_terms * d)
        size = max(_BLOCK_VALUES // d, 1)
        for first in range(0, n, size):
            rows = slice(first, first + size)
            block = _decode(codes[:, rows], values, root[rows])
            if with_slopes:
                block = np.concatenate([block, _along_score(codes[:, rows], values) * block])
            gram += block @ block.T
            moment += block @ target[rows]
        return _ColumnSystem(target_sq, mass, n, gram, moment)

    @abstractmethod
    def merge(self, other: Any) -> _System:
        """Return the system of the rows of both."""

    @abstractmethod
    def solve(self, penalty: float) -> NDArray[np.float32]:
        """Return the coefficients for one penalty."""

    @abstractmethod
    def first(self, n_columns: int) -> _System:
        """Return the system of the first columns."""

    @cached_property
    @abstractmethod
    def path(self) -> _Path:
        """The solutions for all penalties."""


@dataclass(frozen=True)
class _ColumnSystem(_System):
    target_sq: float
    mass: float
    n: int
    gram: Floats
    moment: Floats

    def merge(self, other: _ColumnSystem) -> _ColumnSystem:
        sums = (getattr(self, field.name) + getattr(other, field.name) for field in fields(self))
        return _ColumnSystem(*sums)

    def first(self, n_columns: int) -> _ColumnSystem:
        some = slice(n_columns)
        gram = np.ascontiguousarray(self.gram[some, some])
        return _ColumnSystem(self.target_sq, self.mass, self.n, gram, self.moment[some])

    def solve(self, penalty: float) -> NDArray[np.float32]:
        return _solve_penalised(self.gram, penalty, self.moment)

    @cached_property
    def path(self) -> _Path:
        spectrum, vectors = _eigh(self.gram)
        projected = vectors.T @ self.moment
        return _Path(spectrum, projected**2, self.target_sq, self.n, self.mass, vectors, projected)


@dataclass(frozen=True)
class _RowSystem(_System):
    target_sq: float
    mass: float
    n: int
    columns: NDArray[np.float32]  # (columns, rows)
    target: Floats

    def merge(self, other: _RowSystem) -> _RowSystem:
        columns = np.concatenate([self.columns, other.columns], axis=1)
        target = np.concatenate([self.target, other.target])
        target_sq, mass = self.target_sq + other.target_sq, self.mass + other.mass
        return _RowSystem(target_sq, mass, self.n + other.n, columns, target)

    def first(self, n_columns: int) -> _RowSystem:
        return _RowSystem(self.target_sq, self.mass, self.n, self.columns[:n_columns], self.target)

    def solve(self, penalty: float) -> NDArray[np.float32]:
        return self.columns @ _solve_penalised(self.columns.T @ self.columns, penalty, self.target)

    @cached_property
    def path(self) -> _Path:
        spectrum, vectors = _eigh(self.columns.T @ self.columns)
        projected = vectors.T @ self.target
        lifted = self.columns @ vectors.astype(np.float32)
        return _Path(
            spectrum, spectrum * projected**2, self.target_sq, self.n, self.mass, lifted, projected
        )


def _along_score(codes: Bytes, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the normal scores of the last column, which is the score."""
    score: NDArray[np.float32] = values[-1][codes[-1]]
    return score


def _decode(codes: Bytes, values: NDArray[np.float32], root: Floats) -> NDArray[np.float32]:
    """Return the normal scores (columns, rows), times the square roots of the rows' weights."""
    block = np.empty(codes.shape, np.float32)
    for value, code, column in zip(values, codes, block, strict=True):
        np.take(value, code, out=column, mode="clip")
    block *= root.astype(np.float32)
    return block


def _solve_penalised(matrix: NDArray[Any], penalty: float, target: Floats) -> NDArray[np.float32]:
    from scipy.linalg.lapack import dposv  # slow to import

    penalised = matrix.astype(float)
    penalised[np.diag_indices(len(matrix))] += penalty
    # LAPACK stores matrices by columns, so that the transpose of a symmetric one needs no copy.
    found, info = dposv(penalised.T, target, overwrite_a=True)[1:]
    if info:
        raise np.linalg.LinAlgError(f"the ridge regression has no solution (LAPACK info {info})")
    return np.asarray(found, np.float32)


def _eigh(matrix: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the eigenvalues, clipped at 0, and the eigenvectors; single precision is enough here."""
    from scipy.linalg.lapack import ssyevd  # slow to import

    spectrum, vectors, info = ssyevd(matrix.astype(np.float32).T, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(f"the eigenvalues were not found (LAPACK info {info})")
    return np.maximum(spectrum.astype(float), 0.0), vectors.astype(float)


@dataclass(frozen=True)
class _Path:
    """The solutions for all penalties, from one eigenvalue decomposition.

    ``energy`` is the squared moment along each eigenvector: the explained sum of squares times the
    eigenvalue.
    """

    spectrum: Floats
    energy: Floats
    target_sq: float
    n: int
    mass: float
    vectors: NDArray[Any]
    projected: Floats

    def coefficients(self, penalty: float) -> NDArray[np.float32]:
        shrunk = self.projected / (self.spectrum + penalty)
        return (self.vectors @ shrunk).astype(np.float32)

    def best_penalty(self) -> float:
        """Return the penalty with the smallest generalised cross-validation error."""
        return float(_RELATIVE_PENALTIES[int(np.argmin(self.errors()))] * self.mass)

    def errors(self) -> Floats:
        """Return the generalised cross-validation error of each penalty."""
        errors = []
        for penalty in _RELATIVE_PENALTIES * self.mass:
            inverse = 1.0 / (self.spectrum + penalty)
            explained = (2 * inverse - self.spectrum * inverse**2) @ self.energy
            degrees_of_freedom = max(self.n - self.spectrum @ inverse, 1.0)
            errors.append((self.target_sq - explained) / degrees_of_freedom**2)
        return np.array(errors)
