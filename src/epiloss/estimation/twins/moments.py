"""The twin estimate of rows that come in any order and number: sums of all, and what is read off them.

At a row three splines of the score are not 0. So the sums over the rows of each interval between knots
of ``b_i b_j``, ``b_i v`` and ``u v``, with ``b`` the splines and ``u``, ``v`` two of the predictions and
the label, are all that centring and the mean of a product need: with coefficients ``p`` and ``q``,

    sum (u - b p)(v - b q) = sum u v - p sum b v - q sum b u + p (sum b b) q.

By the log-loss predictions are tilts, centred by what the sample tells, and their cost is added up as it
is. For other rules than these and the Brier score rows count ``kappa`` times in products, but once in
the coefficients: then there are both kinds of sums.

Sums are whole numbers of 2^-40 in two limbs, which neither the order of rows nor how they are cut into
parts changes. The limbs hold sums of 10^10 rows of values up to 880.
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
from epiloss.estimation.twins.centring import assembled, solved, without_rounding
from epiloss.estimation.twins.estimate import (
    TwinMeans,
    TwinRows,
    believed,
    best_length,
    influence_on,
    trusted,
)
from epiloss.estimation.twins.jury import N_PARTS, Judged, Jury, Keys
from epiloss.input.tasks import BinaryProblem

_COUNTS = 3  # rows, their weights, and the squares of these
_ROUNDING = 2.0**-38  # of a row's residual or product, which are known to 2^-40


@dataclass(frozen=True)
class Form:
    """What is summed: so many splines are not 0 at a row, and predictions have so many stages.

    Fields are counts, products of columns, products of splines with each other and with columns; the
    latter again, times ``kappa``, unless that is 1 (``is_even``). The columns are both predictions of
    each stage, and the label. Of tilts (``is_tilted``) the cost stands in place of their product.
    """

    width: int
    n_stages: int
    is_even: bool
    is_tilted: bool

    @classmethod
    def of(cls, jury: Jury) -> Form:
        """Return the form of the sums of rows that a jury has judged."""
        return cls(jury.scale.width, jury.n_stages, jury.is_even, jury.is_tilted)

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return 2 * self.n_stages + 1

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The columns whose products count, of each stage three."""
        label = 2 * self.n_stages
        stages = [(2 * one, 2 * one + 1) for one in range(self.n_stages)]
        return [pair for a, b in stages for pair in ((a, label), (b, label), (a, b))]

    @property
    def n_products(self) -> int:
        """The number of products that splines have with each other and with columns."""
        return self.width * (self.width + 1) // 2 + self.width * self.n_columns

    @property
    def n_fields(self) -> int:
        """The number of sums of an interval."""
        return _COUNTS + len(self.pairs) + self.n_products * (1 if self.is_even else 2)


@dataclass(frozen=True)
class TwinSums:
    """Sums (2 limbs, fields, parts x intervals) over the rows that a jury has judged."""

    form: Form
    sums: NDArray[np.int64]

    @classmethod
    def empty(cls, jury: Jury) -> TwinSums:
        """Return the sums of no rows."""
        form = Form.of(jury)
        return cls(form, np.zeros((2, form.n_fields, N_PARTS * jury.scale.reach), np.int64))

    def add(self, jury: Jury, problem: BinaryProblem, places: Keys | None = None) -> None:
        """Judge rows, and add them to the sums."""
        for judged in jury.judged(problem, places):
            cell = judged.part * (self.sums.shape[2] // N_PARTS) + judged.basis.first
            for field, values in enumerate(_row_values(judged, self.form)):
                if not kernel().add_fixed_point(cell, values, self.sums[0, field], self.sums[1, field]):
                    raise DataError("predictions must be finite. Check the learner's predict.")

    def merge(self, other: TwinSums) -> TwinSums:
        """Return the sums of both sets of rows."""
        return TwinSums(self.form, self.sums + other.sums)

    @cached_property
    def parts(self) -> tuple[PartMeans, ...]:
        """What the sums of each part of the rows tell."""
        values = self.sums[0] / LIMB + self.sums[1] / (LIMB * LIMB)
        by_part = values.reshape(len(values), N_PARTS, -1)
        return tuple(PartMeans.of(by_part[:, k], self.form) for k in range(N_PARTS))

    @property
    def weight(self) -> float:
        """The weight of all rows."""
        return sum(part.weight for part in self.parts)

    @property
    def weight_sq(self) -> float:
        """The sum of the squares of all rows' weights."""
        return sum(part.weight_sq for part in self.parts)

    def terms(self, jury: Jury, problem: BinaryProblem, places: Keys | None = None) -> Terms:
        """Return what some of the rows add, centred by the means of all."""
        n, n_stages = len(problem.labels), self.form.n_stages
        values, parts, guess = np.zeros((n_stages, 2, n)), np.zeros(n, np.int64), np.zeros(n, np.float32)
        for judged in jury.judged(problem, places):
            part = self.parts[judged.part]
            residual = judged.columns - judged.basis.at(part.coefficients)
            *a, r = without_rounding(residual, judged.columns, _ROUNDING)
            for stage, (a1, a2) in enumerate(zip(a[::2], a[1::2], strict=True)):
                times = judged.kappa * part.inflation
                cross, product = times * (a1 + a2) / 2 * r, times * a1 * a2
                if judged.costs is not None:
                    cross, product = cross / 2, judged.costs[stage]
                values[stage][:, judged.rows] = cross, product
            parts[judged.rows], guess[judged.rows] = judged.part, (a[-1] + a[-2]) / 2
        return Terms(values, parts, guess)

    def chosen(self, terms: Terms, weight: Floats) -> Chosen:
        """Return the means by the stage that suits each part, by what the other parts say.

        It is chosen as in memory: by gains over all rows, but with the standard errors of the sampled
        rows that there are terms of, as models were learned from no more.
        """
        rows, means = np.empty(terms.values.shape[1:]), np.empty((N_PARTS, 2))
        value, values = np.empty(N_PARTS), np.empty(len(terms.parts))
        for k, own in enumerate(self.parts):
            here, others = terms.parts == k, [part for j, part in enumerate(self.parts) if j != k]
            others_weight = sum(part.weight for part in others)
            found = sum((part.sums for part in others), np.zeros_like(own.sums)) / others_weight
            length, late = 1.0, 0.0
            if len(found) == 1:
                length = best_length(*found[0].tolist())
            else:
                gain = float((found[-1] - found[0]) @ (2.0, -1.0))
                late = believed(gain, influence_on(terms.gains[~here], weight[~here]).stderr())
            sampled = influence_on(terms.values[0, 0, ~here], weight[~here]).stderr()
            trust = trusted(float(found[0, 0]), sampled)
            times = np.array([length, length**2])
            means[k] = times * (own.sums[0] + late * (own.sums[-1] - own.sums[0])) / own.weight
            some = terms.values[:, :, here]
            rows[:, here] = times[:, None] * (some[0] + late * (some[-1] - some[0]))
            tried = np.array([2 * trust, -(trust**2)])
            value[k], values[here] = tried @ means[k], tried @ rows[:, here]
        share = np.array([part.weight for part in self.parts]) / self.weight
        cross, product = (share @ means).tolist()
        spread = float(share @ share * np.var(2 * means[:, 0] - means[:, 1], ddof=1))
        cautious = sum(float(part.sums[0, 0]) for part in self.parts) / self.weight
        added = TwinRows(rows[0], rows[1], terms.values[0, 0], values, terms.guess)
        return Chosen(added, TwinMeans(cross, product, float(share @ value)), cautious, spread)


@dataclass(frozen=True)
class Terms:
    """What rows add by each stage: ``abar r`` and ``a1 a2`` (stages, 2, rows); and their parts.

    ``guess`` is ``abar`` by the last stage.
    """

    values: Floats
    parts: Codes
    guess: NDArray[np.float32]

    @cached_property
    def gains(self) -> Floats:
        """What the last stage finds more than the first."""
        more = self.values[-1] - self.values[0]
        gains: Floats = 2 * more[0] - more[1]
        return gains


@dataclass(frozen=True)
class Chosen:
    """What sampled rows add, and the means over all rows.

    ``cautious`` is the mean of ``abar r`` by the first stage; ``spread`` is the variance of the estimate
    as its parts show it, each judged by two other models.
    """

    rows: TwinRows
    means: TwinMeans
    cautious: float
    spread: float


@dataclass(frozen=True)
class PartMeans:
    """What the sums of a part tell: the columns' means given the score, and sums of products beyond.

    ``inflation`` is how many times products are taken, as the means have used up a part of the noise;
    ``sums`` (stages, 2) are those of ``abar r`` and ``a1 a2``, times weight and ``kappa``.
    """

    weight: float
    weight_sq: float
    coefficients: Floats
    inflation: float
    sums: Floats

    @classmethod
    def of(cls, sums: Floats, form: Form) -> PartMeans:
        """Read sums (fields, intervals)."""
        n, weight, weight_sq = sums[:_COUNTS].sum(axis=1).tolist()
        n_pairs = len(form.pairs)
        products = sums[_COUNTS : _COUNTS + n_pairs].sum(axis=1)
        rest = sums[_COUNTS + n_pairs :]
        gram, moment = assembled(*_local(rest[: form.n_products], form))
        p, n_splines = solved(gram, moment), int(np.count_nonzero(np.diag(gram)))
        inflation = n / max(n - n_splines, 1)
        if not form.is_even:
            gram, moment = assembled(*_local(rest[form.n_products :], form))
        both = p.T @ moment  # of each pair of columns, the first centred
        beyond = p.T @ gram @ p - both - both.T
        found = [product + beyond[pair] for product, pair in zip(products, form.pairs, strict=True)]
        found = [0.0 if abs(one) <= _ROUNDING * n else inflation * one for one in found]
        stages = np.reshape(found, (form.n_stages, 3))
        cross, product = (stages[:, 0] + stages[:, 1]) / 2, stages[:, 2]
        if form.is_tilted:
            cross, product = cross / 2, products[2::3]
        return cls(weight, weight_sq, p, inflation, np.stack([cross, product], axis=1))


def _row_values(judged: Judged, form: Form) -> Iterator[Floats]:
    """Return what rows add to each field."""
    n, given = len(judged.rows), judged.basis.weight
    weight = np.ones(n) if given is None else given
    counted = weight if form.is_even else weight * judged.kappa
    yield from (np.ones(n), weight, weight * weight)
    for place, (u, v) in enumerate(form.pairs):
        if judged.costs is not None and place % 3 == 2:
            yield weight * judged.costs[place // 3]
        else:
            yield counted * judged.columns[u] * judged.columns[v]
    for times in (weight,) if form.is_even else (weight, counted):
        yield from _products(judged.basis.values * times, judged)


def _products(weighted: Floats, judged: Judged) -> Iterator[Floats]:
    for i, one in enumerate(weighted):
        yield from (one * other for other in judged.basis.values[i:])
    for one in weighted:
        yield from (one * column for column in judged.columns)


def _local(sums: Floats, form: Form) -> tuple[Floats, Floats]:
    """Return the products of splines with each other (w, w, intervals), and with columns (w, k, ...)."""
    places = [(i, j) for i in range(form.width) for j in range(i, form.width)]
    gram = np.empty((form.width, form.width, sums.shape[1]))
    for (i, j), one in zip(places, sums, strict=False):
        gram[i, j] = gram[j, i] = one
    return gram, sums[len(places) :].reshape(form.width, form.n_columns, -1)
