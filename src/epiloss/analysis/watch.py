"""What is learned on a reference, so that batches can be held against it: predictions, cells, noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from epiloss._random import stream
from epiloss._typing import Codes, Floats
from epiloss.analysis.cells import Ways, learn_ways
from epiloss.analysis.evidence import Sums
from epiloss.calibration.curves import Curve, LocalLinear
from epiloss.errors import DataError, OptionError
from epiloss.estimation.options import Options
from epiloss.input.problem import Problem
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.repair.base import Correction
from epiloss.repair.boosted import fit_boosted

LEAST_ROWS = 500  # of a reference
_FOLDS = 5
_LEAST_UNITS = 10  # days or clusters from which on their noise is estimated
_FEW = 10  # rows: a share of fewer in the reference is not told from that of so many
_MOST_DEVIATION = 4.0  # of a day, in standard deviations of days
LEDGER = ("score", "calibration_loss", "grouping_loss", "remainder", "expected_score")


_Lines: TypeAlias = tuple[Floats, Floats, Floats]  # weights, values, variances (T, K)


@dataclass(frozen=True)
class Predicted:
    """Rows with the reference's predictions: by the score alone, and by score and features."""

    labels: Floats
    scores: Floats
    curve: Floats
    best: Floats
    weights: Floats
    cells: list[Codes]  # for each way

    @property
    def residual(self) -> Floats:
        """How much more often the outcome occurred than predicted."""
        return self.labels - self.best

    def losses(self, rule: Any) -> Floats:
        """Return the ledger of each row (5, n): the losses add up to the score.

        The last line is the score to be expected if outcomes are as learned on the reference.
        """
        given, curve, best = (
            rule.loss(one, self.labels) for one in (self.scores, self.curve, self.best)
        )
        one, zero = (rule.loss(self.scores, np.full(len(self.labels), y)) for y in (1.0, 0.0))
        expected = self.best * one + (1 - self.best) * zero
        return np.stack([given, given - curve, curve - best, best, expected])


@dataclass(frozen=True)
class Watch:
    """Everything that is fixed on the reference."""

    known: Problem
    options: Options
    curve: Curve
    correction: Correction
    ways: Ways
    reference: Predicted
    units: Codes  # the days of the reference's rows, or their clusters; all 0 where neither is known
    dispersion: Mapping[str, Any]  # by what units vary more than their rows, for each cell
    contrast: Any  # cells whose residuals are held against those of all rows of the day

    @property
    def n_units(self) -> int:
        """The number of days or clusters whose noise is known; 0 for none."""
        return int(self.units.max()) + 1 if self.dispersion else 0

    @classmethod
    def learn(cls, problem: Problem, options: Options, batch: Codes | None) -> Watch:
        """Learn predictions by cross-fitting, so that no row of the reference is judged by its own.

        ``batch`` are the days of the reference, where they are known.
        """
        binary = _binary(problem, options)
        generator = stream(options.seed, "track")
        unit = np.arange(len(binary.labels)) if binary.clusters is None else binary.clusters
        fold = (generator.permutation(int(unit.max()) + 1) % _FOLDS)[unit]
        base = np.empty(len(fold))
        for k in range(_FOLDS):
            rest, inside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            base[inside] = _fitted(binary.take(rest))(binary.scores[inside])
        assert binary.features is not None  # rows without features are refused
        rows = (binary.features, base, binary.labels, binary.weights)
        correction, best = fit_boosted(*rows, fold, None, generator)
        least = 0.5 / len(fold)
        base, best = (np.clip(one, least, 1 - least) for one in (base, best))
        ways = learn_ways(binary.scores, binary.features, problem.subgroups)
        cells = ways.cells(binary.scores, binary.features, problem.subgroups)
        reference = Predicted(binary.labels, binary.scores, base, best, _ones(binary), cells)
        units = _coarser(batch, binary.clusters)
        units = np.zeros(len(fold), np.int64) if units is None else units
        parts = (_known(problem), options, _fitted(binary), correction, ways, reference, units)
        return cls(*parts, {}, False)._with_dispersion(by_day=batch is not None)

    def predict(self, problem: Problem) -> tuple[Predicted, BinaryProblem]:
        """Return further rows with the predictions of the reference."""
        binary = binary_problems(problem, self.options.rule)[0]
        assert binary.features is not None  # they are read like the reference
        base = self.curve(binary.scores)
        least = 0.5 / len(self.reference.labels)
        best = np.clip(self.correction.corrected(binary.features, base), least, 1 - least)
        base = np.clip(base, least, 1 - least)
        cells = self.ways.cells(binary.scores, binary.features, problem.subgroups)
        return Predicted(binary.labels, binary.scores, base, best, _ones(binary), cells), binary

    def outcome_sums(self, rows: Predicted, batch: Codes, n_batches: int) -> Sums:
        """Return the sums of residuals in each cell, of the reference and of each batch."""
        first = self.reference
        square = _by_cell(first, first.weights**2, self.ways)
        spread = _by_cell(first, (first.weights * first.residual) ** 2, self.ways)
        row_variance = np.where(square > 0, spread / np.maximum(square, 1e-300), 0.25)
        old = self._residuals(first, self.units, int(self.units.max()) + 1)
        new = self._residuals(rows, batch, n_batches)
        return self._joined("outcomes", old, new, np.maximum(row_variance, 1e-9))

    def share_sums(self, rows: Predicted, batch: Codes, n_batches: int) -> Sums:
        """Return how many rows are in each cell, of the reference and of each batch."""
        row_variance = self._share_variance()
        old = _share_sums(self.reference, self.units, int(self.units.max()) + 1, self.ways, row_variance)
        new = _share_sums(rows, batch, n_batches, self.ways, row_variance)
        return self._joined("shares", old, new, row_variance)

    def _joined(self, name: str, old: _Lines, new: _Lines, row_variance: Floats) -> Sums:
        """Return the reference as one line, and the batches after it.

        Where it is known how much days differ, no single one counts for more than a few standard
        deviations: a day of storm is no change, and several in a row are.
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

    def _residuals(self, rows: Predicted, batch: Codes, n_batches: int) -> _Lines:
        weight, value, variance = lines = _residual_sums(rows, batch, n_batches, self.ways)
        beside, spread = _contrasts(lines)
        held = np.asarray(self.contrast)
        return weight, np.where(held, beside, value), np.where(held, spread, variance)

    def _share_variance(self) -> Floats:
        """Return the variance of belonging to each cell; very rare ones count as a little less rare."""
        rows = self.reference
        share = _by_cell(rows, rows.weights, self.ways) / rows.weights.sum()
        least = min(_FEW / len(rows.labels), 0.5)
        clipped = np.clip(share, least, 1 - least)
        return np.asarray(clipped * (1 - clipped))

    def _with_dispersion(self, *, by_day: bool) -> Watch:
        """Estimate by how much days, or clusters, vary more than rows that are independent.

        Where days differ in all cells alike, a cell is held against all rows of the day: that noise
        cancels. Each cell takes what is the more precise.
        """
        n_units = int(self.units.max()) + 1
        if n_units < _LEAST_UNITS:
            return replace(self, units=np.zeros_like(self.units))
        rows = self.reference
        lines = _residual_sums(rows, self.units, n_units, self.ways)
        alone = _dispersion(*lines)
        beside = _dispersion(lines[0], *_contrasts(lines))
        share = lines[0].sum(axis=0) / rows.weights.sum()
        contrast = beside < alone * (1 - share) if by_day else np.zeros(len(share), bool)
        shares = _share_sums(rows, self.units, n_units, self.ways, self._share_variance())
        found = {"outcomes": np.where(contrast, beside, alone), "shares": _dispersion(*shares)}
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
            f"a reference must have at least {LEAST_ROWS} rows to learn from, got "
            f"{len(problem.labels)}. Take a longer time."
        )
    return binary_problems(problem, options.rule)[0]


def _known(problem: Problem) -> Problem:
    """Return the problem without its rows, to read others like it."""
    assert problem.features is not None  # the caller has looked
    return replace(problem.take(np.arange(0)), features=problem.features.description(), subgroups={})


def _fitted(binary: BinaryProblem) -> Curve:
    return LocalLinear().fit(binary.scores, binary.labels, binary.weights)


def _ones(binary: BinaryProblem) -> Floats:
    return np.ones(len(binary.labels)) if binary.weights is None else binary.weights


def _coarser(batch: Codes | None, clusters: Codes | None) -> Codes | None:
    """Return the days where they are known, else the clusters."""
    return clusters if batch is None else batch


def _sums(rows: Predicted, batch: Codes, n_batches: int, ways: Ways, values: Floats) -> Floats:
    """Return the sums of values of each batch in each cell (T, K)."""
    found = []
    for way, cells in zip(ways.ways, rows.cells, strict=True):
        place = batch * way.n_cells + cells
        found.append(np.bincount(place, values, n_batches * way.n_cells).reshape(n_batches, -1))
    return np.concatenate(found, axis=1)


def _by_cell(rows: Predicted, values: Floats, ways: Ways) -> Floats:
    return np.asarray(_sums(rows, np.zeros(len(values), np.int64), 1, ways, values)[0])


def _residual_sums(rows: Predicted, batch: Codes, n_batches: int, ways: Ways) -> _Lines:
    w, q = rows.weights, rows.best
    values = (w, w * rows.residual, w**2 * q * (1 - q))
    weight, value, variance = (_sums(rows, batch, n_batches, ways, one) for one in values)
    return weight, value, variance


def _contrasts(lines: _Lines) -> tuple[Floats, Floats]:
    """Return the sums of residuals less those of all rows of their batch, and their variances."""
    weight, value, variance = lines
    every, total, spread = (part[:, :1] for part in lines)  # the first cell has all rows
    share = weight / np.maximum(every, 1e-300)
    return value - share * total, variance * (1 - 2 * share) + share**2 * spread


def _share_sums(
    rows: Predicted, batch: Codes, n_batches: int, ways: Ways, row_variance: Floats
) -> _Lines:
    w = rows.weights
    counted = _sums(rows, batch, n_batches, ways, w)
    every, square = (np.bincount(batch, one, n_batches)[:, None] for one in (w, w**2))
    return np.broadcast_to(every, counted.shape), counted, row_variance * square


def _dispersion(weight: Floats, value: Floats, variance: Floats) -> Floats:
    """Return the variance between units over that of independent rows, at least 1.

    Where it is clearly above 1, it is taken one standard error larger: it is an estimate itself.
    """
    n_units, total = len(weight), np.maximum(np.sum(weight, axis=0), 1e-300)
    deviation = value - weight * np.sum(value, axis=0) / total
    ratio = np.sum(deviation**2, axis=0) / np.maximum(np.sum(variance, axis=0), 1e-300)
    error = np.sqrt(2 / n_units)
    return np.asarray(np.maximum(np.where(ratio > 1 + 2 * error, ratio * (1 + error), ratio), 1.0))
