"""The twin estimate from sums over any number of rows, which may come in any order.

Only three splines of the score are not 0 at a row. Centring and the means of products therefore need
only the sums, over the rows of each interval between knots, of ``b_i b_j``, ``b_i v`` and ``u v``, where
``b`` are the splines and ``u`` and ``v`` predictions or the label. With coefficients ``p`` and ``q``,

    sum (u - b p)(v - b q) = sum u v - p sum b v - q sum b u + p (sum b b) q.

For the log-loss, predictions are tilts that are centred by means found from the sample, and their costs
are summed directly. For scoring rules other than the log-loss and the Brier score, products are
multiplied by ``kappa``, but the coefficients are not, so that both kinds of sums are needed.

Sums are integers in units of 2^-40, stored in two limbs. They do not depend on the order of the rows or
on how these are divided into batches. The limbs can hold sums over 10^10 rows of values up to 880.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference import LIMB
from epiloss._typing import Codes, Floats
from epiloss.errors import DataError
from epiloss.estimation.twins.centring import (
    assemble_products,
    projection_coefficients,
    without_rounding,
)
from epiloss.estimation.twins.estimate import TwinMeans
from epiloss.estimation.twins.evaluate import TwinRows
from epiloss.estimation.twins.sample_models import N_PARTS, EvaluatedPart, Keys, TwinModels
from epiloss.estimation.twins.shrinkage import (
    influence_on_mean,
    late_weight,
    shrinkage_factor,
    unit_factor,
)
from epiloss.input.tasks import BinaryProblem

# The first fields of a cell: the number of rows, their weight, and the sum of their squared weights.
_N_COUNTS = 3
# Residuals and products per row of at most this size are rounding errors, because the unit is 2^-40.
_ROUNDING = 2.0**-38


@dataclass(frozen=True)
class SumLayout:
    """The sums of a cell, in their order.

    They are counts, products of columns, and products of splines with each other and with columns; the
    latter again, times ``kappa``, unless that is 1 (``is_even``). ``width`` splines are not 0 at a row.
    The columns are both predictions of each stage, and the label. For tilts (``uses_tilts``), the cost
    replaces the product of the two predictions.
    """

    width: int
    n_stages: int
    is_even: bool
    uses_tilts: bool

    @classmethod
    def of(cls, models: TwinModels) -> SumLayout:
        """Return the layout of the sums for these models."""
        return cls(models.scale.width, models.n_stages, models.is_even, models.uses_tilts)

    @property
    def n_columns(self) -> int:
        """The number of columns: predictions and the label."""
        return 2 * self.n_stages + 1

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of columns whose products are summed, three for each stage."""
        label = 2 * self.n_stages
        stages = [(2 * stage, 2 * stage + 1) for stage in range(self.n_stages)]
        return [pair for a, b in stages for pair in ((a, label), (b, label), (a, b))]

    @property
    def n_products(self) -> int:
        """The number of products of splines with each other and with columns."""
        return self.width * (self.width + 1) // 2 + self.width * self.n_columns

    @property
    def n_fields(self) -> int:
        """The number of sums of a cell."""
        return _N_COUNTS + len(self.pairs) + self.n_products * (1 if self.is_even else 2)


@dataclass(frozen=True)
class TwinSums:
    """Sums (2 limbs, fields, parts x cells) over the rows that models have evaluated."""

    layout: SumLayout
    sums: NDArray[np.int64]

    @classmethod
    def empty(cls, models: TwinModels) -> TwinSums:
        """Return the sums of no rows."""
        layout = SumLayout.of(models)
        return cls(layout, np.zeros((2, layout.n_fields, N_PARTS * models.scale.n_cells), np.int64))

    def add(self, models: TwinModels, problem: BinaryProblem, places: Keys | None = None) -> None:
        """Evaluate rows, and add their values to the sums."""
        for evaluated in models.evaluate(problem, places):
            cell = evaluated.part * (self.sums.shape[2] // N_PARTS) + evaluated.basis.first
            for field, values in enumerate(_field_values(evaluated, self.layout)):
                if not kernel().add_fixed_point(cell, values, self.sums[0, field], self.sums[1, field]):
                    raise DataError(
                        "predictions must be finite, got NaN or infinity. Check the learner's predict."
                    )

    def merge(self, other: TwinSums) -> TwinSums:
        """Return the sums of both sets of rows."""
        return TwinSums(self.layout, self.sums + other.sums)

    @cached_property
    def parts(self) -> tuple[PartMeans, ...]:
        """The means and sums of products of each part."""
        values = self.sums[0] / LIMB + self.sums[1] / (LIMB * LIMB)
        by_part = values.reshape(len(values), N_PARTS, -1)
        return tuple(PartMeans.of(by_part[:, k], self.layout) for k in range(N_PARTS))

    @property
    def weight(self) -> float:
        """The total weight of all rows."""
        return sum(part.weight for part in self.parts)

    @property
    def weight_sq(self) -> float:
        """The sum of the squared weights of all rows."""
        return sum(part.weight_sq for part in self.parts)

    def terms(
        self, models: TwinModels, problem: BinaryProblem, places: Keys | None = None
    ) -> SampleTerms:
        """Return the terms of sampled rows, centred by the means of all rows."""
        n, n_stages = len(problem.labels), self.layout.n_stages
        values = np.zeros((n_stages, 2, n))
        parts, prediction = np.zeros(n, np.int64), np.zeros(n, np.float32)
        for evaluated in models.evaluate(problem, places):
            part = self.parts[evaluated.part]
            residual = evaluated.columns - evaluated.basis.at(part.coefficients)
            *a, r = without_rounding(residual, evaluated.columns, _ROUNDING)
            factor = evaluated.kappa * part.inflation
            for stage, (a1, a2) in enumerate(zip(a[::2], a[1::2], strict=True)):
                cross, product = factor * (a1 + a2) / 2 * r, factor * a1 * a2
                if evaluated.costs is not None:
                    cross, product = cross / 2, evaluated.costs[stage]
                values[stage][:, evaluated.rows] = cross, product
            parts[evaluated.rows], prediction[evaluated.rows] = evaluated.part, (a[-1] + a[-2]) / 2
        return SampleTerms(values, parts, prediction)

    def combine_stages(self, terms: SampleTerms, weight: Floats) -> Combined:
        """Combine early and full predictions of each part, as decided on the other parts.

        The decisions are those made in memory. They depend on the gains over all rows, but on the
        standard errors of the sampled rows, because models were trained only on these.
        """
        rows, means = np.empty(terms.values.shape[1:]), np.empty((N_PARTS, 2))
        value, values = np.empty(N_PARTS), np.empty(len(terms.parts))
        for k, own in enumerate(self.parts):
            here = terms.parts == k
            scale, late, shrinkage = self._decide(k, terms, weight)
            scales = np.array([scale, scale**2])
            means[k] = scales * (own.sums[0] + late * (own.sums[-1] - own.sums[0])) / own.weight
            sampled = terms.values[:, :, here]
            rows[:, here] = scales[:, None] * (sampled[0] + late * (sampled[-1] - sampled[0]))
            factors = np.array([2 * shrinkage, -(shrinkage**2)])
            value[k], values[here] = factors @ means[k], factors @ rows[:, here]
        share = np.array([part.weight for part in self.parts]) / self.weight
        cross, product = (share @ means).tolist()
        between_parts = float(share @ share * np.var(2 * means[:, 0] - means[:, 1], ddof=1))
        early_cross = sum(float(part.sums[0, 0]) for part in self.parts) / self.weight
        twin_rows = TwinRows(rows[0], rows[1], terms.values[0, 0], values, terms.prediction)
        twin_means = TwinMeans(cross, product, float(share @ value))
        return Combined(twin_rows, twin_means, early_cross, between_parts)

    def _decide(self, k: int, terms: SampleTerms, weight: Floats) -> tuple[float, float, float]:
        """Return the scale, the weight of the later trees and the shrinkage of part ``k``."""
        own, others = self.parts[k], [part for j, part in enumerate(self.parts) if j != k]
        total = sum(part.weight for part in others)
        means = sum((part.sums for part in others), np.zeros_like(own.sums)) / total
        sampled = terms.parts != k

        def stderr(values: Floats) -> float:
            return influence_on_mean(values[sampled], weight[sampled]).stderr()

        scale, late = 1.0, 0.0
        if len(means) == 1:
            scale = unit_factor(*means[0].tolist())
        else:
            gain = float((means[-1] - means[0]) @ (2.0, -1.0))
            late = late_weight(gain, stderr(terms.gains))
        return scale, late, shrinkage_factor(float(means[0, 0]), stderr(terms.values[0, 0]))


@dataclass(frozen=True)
class SampleTerms:
    """The terms of sampled rows, ``abar r`` and ``a1 a2`` (stages, 2, rows), and the rows' parts.

    ``prediction`` is ``abar`` of the last stage.
    """

    values: Floats
    parts: Codes
    prediction: NDArray[np.float32]

    @cached_property
    def gains(self) -> Floats:
        """The additional gain of the last stage over the first."""
        difference = self.values[-1] - self.values[0]
        gains: Floats = 2 * difference[0] - difference[1]
        return gains


@dataclass(frozen=True)
class Combined:
    """The terms of sampled rows, and their means over all rows, after combining the stages.

    ``early_cross`` is the mean of ``abar r`` of the early predictions over all rows. ``between_parts``
    is the variance of the estimate as seen between parts, which different models evaluate.
    """

    rows: TwinRows
    means: TwinMeans
    early_cross: float
    between_parts: float


@dataclass(frozen=True)
class PartMeans:
    """The means given the score of the columns of a part, and sums of products of residuals.

    ``inflation`` is the factor of these products, because the means have absorbed a part of the noise.
    ``sums`` (stages, 2) are those of ``abar r`` and ``a1 a2``, times weight and ``kappa``.
    """

    weight: float
    weight_sq: float
    coefficients: Floats
    inflation: float
    sums: Floats

    @classmethod
    def of(cls, sums: Floats, layout: SumLayout) -> PartMeans:
        """Compute the means from sums (fields, cells)."""
        n, weight, weight_sq = sums[:_N_COUNTS].sum(axis=1).tolist()
        n_pairs = len(layout.pairs)
        products = sums[_N_COUNTS : _N_COUNTS + n_pairs].sum(axis=1)
        rest = sums[_N_COUNTS + n_pairs :]
        gram, moment = assemble_products(*_unpack(rest[: layout.n_products], layout))
        p, n_splines = projection_coefficients(gram, moment), int(np.count_nonzero(np.diag(gram)))
        inflation = n / max(n - n_splines, 1)
        if not layout.is_even:
            gram, moment = assemble_products(*_unpack(rest[layout.n_products :], layout))
        cross_moment = p.T @ moment  # of each pair of columns, the mean of the first times the second
        correction = p.T @ gram @ p - cross_moment - cross_moment.T
        pairs = zip(products, layout.pairs, strict=True)
        centred = [product + correction[pair] for product, pair in pairs]
        centred = [0.0 if abs(one) <= _ROUNDING * n else inflation * one for one in centred]
        stages = np.reshape(centred, (layout.n_stages, 3))
        cross, product = (stages[:, 0] + stages[:, 1]) / 2, stages[:, 2]
        if layout.uses_tilts:
            cross, product = cross / 2, products[2::3]
        return cls(weight, weight_sq, p, inflation, np.stack([cross, product], axis=1))


def _field_values(evaluated: EvaluatedPart, layout: SumLayout) -> Iterator[Floats]:
    """Yield the values of the rows in each field."""
    n, given = len(evaluated.rows), evaluated.basis.weight
    weight = np.ones(n) if given is None else given
    kappa_weight = weight if layout.is_even else weight * evaluated.kappa
    yield from (np.ones(n), weight, weight * weight)
    for place, (u, v) in enumerate(layout.pairs):
        if evaluated.costs is not None and place % 3 == 2:
            yield weight * evaluated.costs[place // 3]
        else:
            yield kappa_weight * evaluated.columns[u] * evaluated.columns[v]
    for factor in (weight,) if layout.is_even else (weight, kappa_weight):
        yield from _spline_products(evaluated.basis.values * factor, evaluated)


def _spline_products(weighted: Floats, evaluated: EvaluatedPart) -> Iterator[Floats]:
    """Yield products of weighted splines with each other and with the columns."""
    for i, spline in enumerate(weighted):
        yield from (spline * other for other in evaluated.basis.values[i:])
    for spline in weighted:
        yield from (spline * column for column in evaluated.columns)


def _unpack(sums: Floats, layout: SumLayout) -> tuple[Floats, Floats]:
    """Return the products of splines with each other (w, w, cells) and with columns (w, k, cells)."""
    pairs = [(i, j) for i in range(layout.width) for j in range(i, layout.width)]
    gram = np.empty((layout.width, layout.width, sums.shape[1]))
    for (i, j), product in zip(pairs, sums, strict=False):
        gram[i, j] = gram[j, i] = product
    return gram, sums[len(pairs) :].reshape(layout.width, layout.n_columns, -1)
