"""Computations behind the calibration curves: lines and means in sliding windows of scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from epiloss._kernels.dispatch import kernel
from epiloss._typing import Codes, Floats

_SHRINKAGE, _TOLERANCE = 1e-3 * np.eye(3), 1e-3  # penalty and last step of a logistic regression


@dataclass(frozen=True)
class DistinctScores:
    """Rows grouped by equal score, in increasing order; every curve is fitted to them.

    The weights sum to the number of rows. ``n_labels`` is the effective number of independent labels at
    each score; None means that it equals the weight. ``of_one_score`` is False for cells that contain
    several scores; None means that there are none.
    """

    scores: Floats
    weight: Floats
    label_mean: Floats
    unit_weights: bool = False  # whether every weight is 1
    n_labels: Floats | None = None
    clustered: bool = False  # whether labels of the same score may be dependent
    of_one_score: NDArray[np.bool_] | None = None

    @classmethod
    def gather(
        cls,
        scores: Floats,
        labels: Floats,
        weights: Floats | None,
        design_effect: float | None = None,
    ) -> DistinctScores:
        """Group rows by score; the result does not depend on their order, not even for equal scores.

        ``design_effect`` is the number of rows of clusters that count as one independent label.
        """
        if (scores[1:] >= scores[:-1]).all():  # sorted already
            is_first = np.concatenate([[True], scores[1:] > scores[:-1]])
            if weights is None and design_effect is None and is_first.all():
                ones = np.broadcast_to(1.0, len(scores))  # needs no memory
                return cls(scores, ones, np.asarray(labels, float), unit_weights=True)
            distinct, code = scores[is_first], np.cumsum(is_first) - 1
        else:
            distinct, code = np.unique(scores, return_inverse=True)
        weight = np.bincount(code, weights, minlength=len(distinct)).astype(float)
        positive = np.bincount(code, labels if weights is None else weights * labels)
        if weights is None and design_effect is None:
            return cls(distinct, weight, positive / weight)
        unit = 2.0 ** np.floor(np.log2(weight.max()))  # scaling by a power of two is exact
        own = np.ones(len(code)) if weights is None else weights / unit
        squares = np.bincount(code, own * own)
        size = (weight / (1.0 if weights is None else unit)) ** 2  # numerator of Kish's effective size
        n_labels = np.divide(size, squares, out=np.ones(len(size)), where=squares > 0)
        n_labels /= design_effect or 1.0
        weight, mean = weight * (len(scores) / weight.sum()), positive / weight
        return cls(distinct, weight, mean, False, n_labels, design_effect is not None)

    @property
    def mid_rank(self) -> Floats:
        """The cumulative weight below each score, plus half of its own weight."""
        if self.unit_weights:
            return np.arange(0.5, len(self.weight))
        rank = np.cumsum(self.weight)
        rank -= self.weight / 2
        return rank

    @property
    def repeats(self) -> Floats:
        """The number of independent labels of each score; 1 for a cell of several scores."""
        labels = self.weight if self.n_labels is None else self.n_labels
        return labels if self.of_one_score is None else np.where(self.of_one_score, labels, 1.0)

    def independent(self) -> DistinctScores:
        """Return the scores with weights that sum to the number of independent labels."""
        if self.n_labels is None or not len(self.scores):
            return self
        total = self.weight.sum()
        squares = (self.weight * (self.weight / self.n_labels)).sum()
        return replace(self, weight=self.weight * (total / squares))

    def take(self, some: Codes | slice | NDArray[np.bool_]) -> DistinctScores:
        """Return a subset of the scores."""
        n_labels, single = self.n_labels, self.of_one_score
        return replace(
            self,
            scores=self.scores[some],
            weight=self.weight[some],
            label_mean=self.label_mean[some],
            n_labels=None if n_labels is None else n_labels[some],
            of_one_score=None if single is None else single[some],
        )

    def in_blocks(self, most: int) -> DistinctScores:
        """Join neighbouring scores into at most ``most`` blocks of about equal mass."""
        if len(self.scores) <= most:
            return self
        total = float(self.weight.sum())
        position = self.mid_rank
        position *= most / total
        code = np.minimum(position, most - 1, out=position).astype(np.int32)
        first = np.concatenate([[0], np.flatnonzero(code[1:] != code[:-1]) + 1])
        terms = [self.scores, self.label_mean]
        if not self.unit_weights:
            terms = [self.weight * values for values in terms]
        weight, score, positive = (np.add.reduceat(one, first) for one in (self.weight, *terms))
        single = np.diff(first, append=len(self.scores)) == 1
        if self.of_one_score is not None:
            single &= self.of_one_score[first]
        return DistinctScores(score / weight, weight, positive / weight, of_one_score=single)


@dataclass(frozen=True)
class WindowedLines:
    """Cumulative sums from which the least-squares line of any window is computed."""

    rows: DistinctScores
    x: Floats
    rank: Floats
    cumulative: Floats  # (5, m + 1): weight, w x, w x^2, w y, w x y

    @classmethod
    def prepare(cls, rows: DistinctScores, x: Floats) -> WindowedLines:
        """Compute the cumulative sums for lines in ``x``."""
        w, y = rows.weight, rows.label_mean
        x = x - (x * w).sum() / w.sum()  # centring reduces cancellation in the cumulative sums
        cumulative = kernel().cumulative_sums(w, x, y)
        rank = np.maximum.accumulate(rows.mid_rank)  # rounding must not make ranks decrease
        return cls(rows, x, rank, cumulative)

    def fit(self, windows: Floats) -> tuple[Floats, Floats]:
        """Return the fitted values (windows, scores) and their leverages."""
        fitted, leverage = kernel().windowed_lines(self.x, self.rank, self.cumulative, windows)
        return fitted, leverage

    def repeated_fit(self, window: float, times: int) -> Floats:
        """Return the values of a fit, to which fits of its residuals are added to reduce its bias."""
        windows = np.array([window])
        values: Floats = self.fit(windows)[0][0]
        if window >= (1 - 1e-9) * self.cumulative[0, -1]:  # residuals of a single line have no line
            return values
        for _ in range(times - 1):
            residual = replace(self.rows, label_mean=self.rows.label_mean - values)
            values += WindowedLines.prepare(residual, self.x).fit(windows)[0][0]
        return values

    def leave_one_out(self, windows: Floats) -> Floats:
        """Return the leave-one-out squared error of each window size."""
        error, leverage = self.fit(windows)
        mean = self.rows.label_mean
        np.square(np.subtract(mean, error, out=error), out=error)
        error += mean * (1 - mean)
        alone = leverage > 1 - 1e-9
        leverage[alone] = 0.0
        error /= np.square(np.subtract(1, leverage, out=leverage), out=leverage)
        error[alone] = 1.0
        return np.asarray(np.einsum("ij,j->i", error, self.rows.weight), float)


def beta_calibration(blocks: DistinctScores, terms: Floats) -> Floats:
    """Return the coefficients of a logistic regression on the log-odds terms (2, m) of the scores.

    A few Newton steps with slight shrinkage suffice, even for separable labels: the result only
    determines the regressor of the local lines.
    """
    design = np.concatenate([np.ones((1, terms.shape[1])), terms])
    start = np.array([0.0, 1.0, 1.0])  # the identity: calibrated scores
    coefficients, weight = start, blocks.weight
    for _ in range(12):
        fitted = expit(coefficients @ design)
        gradient = design @ (weight * (blocks.label_mean - fitted))
        curvature = (design * (weight * fitted * (1 - fitted))) @ design.T + _SHRINKAGE
        step = np.linalg.solve(curvature, gradient - _SHRINKAGE @ (coefficients - start))
        size = float(np.abs(step).max())
        coefficients = coefficients + step * min(1.0, 2.0 / max(size, 1e-300))
        if size < _TOLERANCE:  # the next step would be about its square
            break
    return coefficients


def calibrated(terms: Floats, coefficients: Floats) -> Floats:
    """Return the beta-calibrated scores from their log-odds terms (2, m)."""
    return np.asarray(expit(coefficients[0] + coefficients[1:] @ terms), float)


def log_odds_terms(scores: Floats) -> Floats:
    """Return log s and -log(1-s) as an array (2, m) of finite values."""
    terms = np.empty((2, len(scores)))
    np.log(np.maximum(scores, 1e-300), out=terms[0])
    np.log(np.maximum(1 - scores, 2.0**-53), out=terms[1])
    np.negative(terms[1], out=terms[1])
    return terms


def nearest_means(rows: DistinctScores, k: float) -> Floats:
    """Return the weighted mean label over the nearest scores of total weight ``k``."""
    s = rows.scores
    mass = np.concatenate([[0.0], np.cumsum(rows.weight)])
    positive = np.concatenate([[0.0], np.cumsum(rows.weight * rows.label_mean)])
    left, right = _windows_of_mass(s, mass, k)
    reach_left, reach_right = s - s[left], s[right - 1] - s
    reach = np.maximum(reach_left, reach_right)
    at_left, at_right = reach_left == reach, (reach_right == reach) & (right - 1 > left)
    # The farthest score (or both, if equally far) counts with the weight that is needed to reach k.
    inner_left, inner_right = left + at_left, right - at_right
    inside, ones = mass[inner_right] - mass[inner_left], positive[inner_right] - positive[inner_left]
    border = mass[right] - mass[left] - inside
    share = np.clip((k - inside) / border, 0, 1)
    border_ones = positive[right] - positive[left] - ones
    means: Floats = (ones + share * border_ones) / (inside + share * border)
    return np.clip(means, 0, 1)


def _windows_of_mass(s: Floats, mass: Floats, k: float) -> tuple[Codes, Codes]:
    """Return the smallest window around each sorted score that contains weight ``k``."""
    enough = k * (1 - 1e-12)
    low, high = np.zeros(len(s)), np.full(len(s), (s[-1] - s[0]) * (1 + 1e-9))
    for _ in range(60):  # bisection of the radius for all scores at once
        radius = (low + high) / 2
        left = np.searchsorted(s, s - radius, side="left")
        right = np.searchsorted(s, s + radius, side="right")
        holds = mass[right] - mass[left] >= enough
        high, low = np.where(holds, radius, high), np.where(holds, low, radius)
    high *= 1 + 1e-12  # rounding must not exclude one of two scores at equal distance
    left, right = np.searchsorted(s, s - high, side="left"), np.searchsorted(s, s + high, side="right")
    for _ in range(3):  # remove scores that the tolerance included needlessly
        reach = np.maximum(s - s[left], s[right - 1] - s)
        fewer_left = left + ((s - s[left] == reach) & (reach > 0))
        fewer_right = right - ((s[right - 1] - s == reach) & (reach > 0))
        holds = mass[fewer_right] - mass[fewer_left] >= enough
        left, right = np.where(holds, fewer_left, left), np.where(holds, fewer_right, right)
    return left, right


def tricube_line(rows: DistinctScores, rank: Floats, point: int, half: float) -> float:
    """Return the value at one score of the weighted local line around it."""
    mass = rank[-1] + rows.weight[-1] / 2
    start = np.clip(rank[point] - half, 0, max(mass - 2 * half, 0))
    slack = 1e-9 * mass  # a rank on the border of the window is inside in spite of rounding
    window = slice(
        min(int(np.searchsorted(rank, start - slack)), point),
        max(int(np.searchsorted(rank, start + 2 * half + slack, side="right")), point + 1),
    )
    x = rows.scores[window] - rows.scores[point]
    reach = float(np.abs(x).max())
    x = x / reach / (1 + 1e-9) if reach > 0 else x  # scaling by the window avoids underflow
    tricube = (1 - np.abs(x) ** 3) ** 3
    w = rows.weight[window] * tricube
    centre = np.average(x, weights=w)
    spread = float(w @ (x - centre) ** 2)
    mean = float(np.average(rows.label_mean[window], weights=w))
    if spread <= 1e-12 * float(w.sum()):
        return mean
    slope = float(w @ ((x - centre) * rows.label_mean[window])) / spread
    return mean - slope * float(centre)
