"""The model of the reference with which batches are compared: predictions, cells and noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from epiloss._random import stream
from epiloss._typing import Codes, Floats
from epiloss.analysis.cells import Divisions, learn_divisions
from epiloss.analysis.evidence import Sums
from epiloss.calibration.curves import Curve, LocalLinear
from epiloss.errors import DataError, OptionError
from epiloss.estimation.options import Options
from epiloss.input.problem import Problem
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.repair.base import Correction
from epiloss.repair.boosted import fit_boosted

LEAST_ROWS = 500  # of the reference
_FOLDS = 5
LEAST_UNITS = 10  # days or clusters that are needed to estimate their noise
_FEW = 10  # rows; a smaller share in the reference counts as the share of this many
_MOST_DEVIATION = 4.0  # of a single day, in standard deviations
LEDGER = ("score", "calibration_loss", "grouping_loss", "remainder", "expected_score")


_BatchSums: TypeAlias = tuple[Floats, Floats, Floats]  # weights, values, variances (T, K)


@dataclass(frozen=True)
class Predicted:
    """Rows with two predictions learned on the reference: by score, and by score and features."""

    labels: Floats
    scores: Floats
    curve: Floats
    best: Floats
    weights: Floats
    cells: list[Codes]  # for each division

    @property
    def residual(self) -> Floats:
        """The outcome minus its prediction."""
        return self.labels - self.best

    def losses(self, rule: Any) -> Floats:
        """Return the losses of each row (5, n), in the order of ``LEDGER``.

        The first is the sum of the next three. The last is the score that is expected if outcomes are as
        in the reference.
        """
        given, curve, best = (
            rule.loss(one, self.labels) for one in (self.scores, self.curve, self.best)
        )
        one, zero = (rule.loss(self.scores, np.full(len(self.labels), y)) for y in (1.0, 0.0))
        expected = self.best * one + (1 - self.best) * zero
        return np.stack([given, given - curve, curve - best, best, expected])


@dataclass(frozen=True)
class ReferenceModel:
    """Everything that is learned on the reference."""

    known: Problem
    options: Options
    curve: Curve
    correction: Correction
    divisions: Divisions
    reference: Predicted
    units: Codes  # days or clusters of the reference's rows; all 0 if neither is known
    dispersion: Mapping[str, Any]  # excess variance between units, as a factor for each cell
    contrast: Any  # cells whose residuals are compared with those of all rows of the day
    has_days: bool  # whether the days of the reference are known

    @property
    def n_units(self) -> int:
        """The number of days or clusters from which noise was estimated; 0 if there are too few."""
        return int(self.units.max()) + 1 if self.dispersion else 0

    @classmethod
    def learn(cls, problem: Problem, options: Options, batch: Codes | None) -> ReferenceModel:
        """Learn cross-fitted predictions, so that no row of the reference is predicted from itself.

        ``batch`` has the days of the reference, if they are known.
        """
        binary = _binary(problem, options)
        generator = stream(options.seed, "track")
        unit = np.arange(len(binary.labels)) if binary.clusters is None else binary.clusters
        fold = (generator.permutation(int(unit.max()) + 1) % _FOLDS)[unit]
        base = np.empty(len(fold))
        for k in range(_FOLDS):
            rest, inside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            base[inside] = _fitted(binary.take(rest))(binary.scores[inside])
        assert binary.features is not None  # checked by _binary
        rows = (binary.features, base, binary.labels, binary.weights)
        correction, best = fit_boosted(*rows, fold, None, generator)
        least = 0.5 / len(fold)
        base, best = (np.clip(one, least, 1 - least) for one in (base, best))
        divisions = learn_divisions(binary.scores, binary.features, problem.subgroups)
        cells = divisions.cells(binary.scores, binary.features, problem.subgroups)
        reference = Predicted(binary.labels, binary.scores, base, best, _weights(binary), cells)
        units = _units(batch, binary.clusters)
        units = np.zeros(len(fold), np.int64) if units is None else units
        parts = (_known(problem), options, _fitted(binary), correction, divisions, reference, units)
        return cls(*parts, {}, False, batch is not None)._with_dispersion()

    def predict(self, problem: Problem) -> tuple[Predicted, BinaryProblem]:
        """Return other rows with the predictions learned on the reference."""
        binary = binary_problems(problem, self.options.rule)[0]
        assert binary.features is not None  # rows are read like the reference
        base = self.curve(binary.scores)
        least = 0.5 / len(self.reference.labels)
        best = np.clip(self.correction.corrected(binary.features, base), least, 1 - least)
        base = np.clip(base, least, 1 - least)
        cells = self.divisions.cells(binary.scores, binary.features, problem.subgroups)
        return Predicted(binary.labels, binary.scores, base, best, _weights(binary), cells), binary

    def outcome_sums(self, rows: Predicted, batch: Codes, n_batches: int) -> Sums:
        """Return the sums of residuals in each cell, for the reference and each batch."""
        first = self.reference
        square = _by_cell(first, first.weights**2, self.divisions)
        spread = _by_cell(first, (first.weights * first.residual) ** 2, self.divisions)
        row_variance = np.where(square > 0, spread / np.maximum(square, 1e-300), 0.25)
        old = self._residuals(first, self.units, int(self.units.max()) + 1)
        new = self._residuals(rows, batch, n_batches)
        return self._joined("outcomes", old, new, np.maximum(row_variance, 1e-9))

    def share_sums(self, rows: Predicted, batch: Codes, n_batches: int) -> Sums:
        """Return the number of rows in each cell, for the reference and each batch."""
        row_variance = self._share_variance()
        old = _share_sums(
            self.reference, self.units, int(self.units.max()) + 1, self.divisions, row_variance
        )
        new = _share_sums(rows, batch, n_batches, self.divisions, row_variance)
        return self._joined("shares", old, new, row_variance)

    def _joined(self, name: str, old: _BatchSums, new: _BatchSums, row_variance: Floats) -> Sums:
        """Return the sums of the whole reference, followed by those of each batch.

        If the noise of days is known, the deviation of a single day is clipped at a few standard
        deviations: one day of storm is not a change, but several in a row are.
        """
        noise = self.dispersion.get(name, 1.0)
        weight, value, variance = (np.sum(part, axis=0, keepdims=True) for part in old)
        variance = noise * variance
        n, hits, spread = new[0], new[1], noise * new[2]
        if self.dispersion:
            mean = value / np.maximum(weight, 1e-300)
            deviation = hits - n * mean
            most = _MOST_DEVIATION * np.sqrt(spread + (n / np.maximum(weight, 1.0)) ** 2 * variance)
            hits = n * mean + np.clip(deviation, -most, most)
        return Sums(
            np.concatenate([weight, n]),
            np.concatenate([value, hits]),
            np.concatenate([variance, spread]),
            row_variance,
            np.concatenate([value, new[1]]),
        )

    def _residuals(self, rows: Predicted, batch: Codes, n_batches: int) -> _BatchSums:
        weight, value, variance = lines = _residual_sums(rows, batch, n_batches, self.divisions)
        relative, spread = _contrasts(lines)
        contrast = np.asarray(self.contrast)
        return weight, np.where(contrast, relative, value), np.where(contrast, spread, variance)

    def _share_variance(self) -> Floats:
        """Return the variance of the indicator of each cell; very small shares are rounded up."""
        rows = self.reference
        share = _by_cell(rows, rows.weights, self.divisions) / rows.weights.sum()
        least = min(_FEW / len(rows.labels), 0.5)
        clipped = np.clip(share, least, 1 - least)
        return np.asarray(clipped * (1 - clipped))

    def _with_dispersion(self) -> ReferenceModel:
        """Estimate how much more days or clusters vary than independent rows would.

        If days differ in all cells alike, comparing a cell with all rows of the day cancels that noise.
        Each cell uses the comparison that is more precise.
        """
        n_units = int(self.units.max()) + 1
        if n_units < LEAST_UNITS:
            return replace(self, units=np.zeros_like(self.units))
        rows = self.reference
        lines = _residual_sums(rows, self.units, n_units, self.divisions)
        alone = _dispersion(*lines)
        relative = _dispersion(lines[0], *_contrasts(lines))
        share = lines[0].sum(axis=0) / rows.weights.sum()
        contrast = relative < alone * (1 - share) if self.has_days else np.zeros(len(share), bool)
        shares = _share_sums(rows, self.units, n_units, self.divisions, self._share_variance())
        found = {"outcomes": np.where(contrast, relative, alone), "shares": _dispersion(*shares)}
        return replace(self, dispersion=found, contrast=contrast)


def _binary(problem: Problem, options: Options) -> BinaryProblem:
    if problem.task not in ("binary", "top-label"):
        raise OptionError(
            f"task must be 'binary' or 'top-label' to track, got {problem.task!r}. For one class of "
            "several pass y_true == k and y_prob[:, k]."
        )
    if problem.features is None:
        raise DataError("the reference must have features, got none. Pass (y_true, y_prob, X).")
    if len(problem.labels) < LEAST_ROWS:
        raise DataError(
            f"the reference must have at least {LEAST_ROWS} rows to learn from, got "
            f"{len(problem.labels)}. Use a longer period."
        )
    return binary_problems(problem, options.rule)[0]


def _known(problem: Problem) -> Problem:
    """Return the problem without its rows, as a template for reading other rows."""
    assert problem.features is not None  # checked by the caller
    return replace(problem.take(np.arange(0)), features=problem.features.description(), subgroups={})


def _fitted(binary: BinaryProblem) -> Curve:
    return LocalLinear().fit(binary.scores, binary.labels, binary.weights)


def _weights(binary: BinaryProblem) -> Floats:
    return np.ones(len(binary.labels)) if binary.weights is None else binary.weights


def _units(batch: Codes | None, clusters: Codes | None) -> Codes | None:
    """Return the days if they are known, otherwise the clusters."""
    return clusters if batch is None else batch


def _sums(rows: Predicted, batch: Codes, n_batches: int, divisions: Divisions, values: Floats) -> Floats:
    """Return the sums of values in each batch and cell (T, K)."""
    found = []
    for division, cells in zip(divisions.divisions, rows.cells, strict=True):
        place = batch * division.n_cells + cells
        found.append(np.bincount(place, values, n_batches * division.n_cells).reshape(n_batches, -1))
    return np.concatenate(found, axis=1)


def _by_cell(rows: Predicted, values: Floats, divisions: Divisions) -> Floats:
    return np.asarray(_sums(rows, np.zeros(len(values), np.int64), 1, divisions, values)[0])


def _residual_sums(rows: Predicted, batch: Codes, n_batches: int, divisions: Divisions) -> _BatchSums:
    w, q = rows.weights, rows.best
    values = (w, w * rows.residual, w**2 * q * (1 - q))
    weight, value, variance = (_sums(rows, batch, n_batches, divisions, one) for one in values)
    return weight, value, variance


def _contrasts(lines: _BatchSums) -> tuple[Floats, Floats]:
    """Return residual sums minus the share of the whole batch's residuals, and their variances."""
    weight, value, variance = lines
    every, total, spread = (part[:, :1] for part in lines)  # the first cell contains all rows
    share = weight / np.maximum(every, 1e-300)
    return value - share * total, variance * (1 - 2 * share) + share**2 * spread


def _share_sums(
    rows: Predicted, batch: Codes, n_batches: int, divisions: Divisions, row_variance: Floats
) -> _BatchSums:
    w = rows.weights
    counted = _sums(rows, batch, n_batches, divisions, w)
    every, square = (np.bincount(batch, one, n_batches)[:, None] for one in (w, w**2))
    return np.broadcast_to(every, counted.shape), counted, row_variance * square


def _dispersion(weight: Floats, value: Floats, variance: Floats) -> Floats:
    """Return the variance between units divided by that of independent rows, at least 1.

    If the ratio is clearly above 1, one standard error is added, because it is itself an estimate.
    """
    n_units, total = len(weight), np.maximum(np.sum(weight, axis=0), 1e-300)
    deviation = value - weight * np.sum(value, axis=0) / total
    ratio = np.sum(deviation**2, axis=0) / np.maximum(np.sum(variance, axis=0), 1e-300)
    error = np.sqrt(2 / n_units)
    return np.asarray(np.maximum(np.where(ratio > 1 + 2 * error, ratio * (1 + error), ratio), 1.0))
