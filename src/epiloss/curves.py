"""Calibration curves: score -> probability, each fitted in O(n log n) time and O(n) memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from epiloss.errors import DataError, OptionError
from epiloss.levelsets import Codes
from epiloss.scoring import Floats
from epiloss.splitting import even_halves

Curve = Callable[[Floats], Floats]
FINEST = 20_000  # smoothers work on at most so many scores: finer steps than any curve needs


@dataclass(frozen=True)
class InterpolatedCurve:
    """A curve known at some scores, linear between them and flat outside."""

    scores: Floats
    values: Floats

    def __call__(self, scores: Floats) -> Floats:
        """Return the probability at each score."""
        if len(self.scores) == 1:
            return np.full(np.shape(scores), self.values[0])
        right = np.clip(np.searchsorted(self.scores, scores), 1, len(self.scores) - 1)
        start, end = self.scores[right - 1], self.scores[right]
        # numpy.interp divides by the step first, which overflows where scores are denormal
        share = np.clip((scores - start) / (end - start), 0, 1)
        low, high = self.values[right - 1], self.values[right]
        return np.asarray(low + share * (high - low), float)


@dataclass(frozen=True)
class DistinctScores:
    """Rows gathered by equal score, in increasing order: what every curve is fitted on."""

    scores: Floats
    weight: Floats
    label_mean: Floats

    @classmethod
    def gather(cls, scores: Floats, labels: Floats, weights: Floats | None) -> DistinctScores:
        """Gather rows; the result does not depend on their order, ties included."""
        distinct, code = np.unique(scores, return_inverse=True)
        weight = np.bincount(code, weights, minlength=len(distinct)).astype(float)
        positive = np.bincount(code, labels if weights is None else weights * labels)
        return cls(distinct, weight * (len(scores) / weight.sum()), positive / weight)

    @property
    def mid_rank(self) -> Floats:
        """The mass below each score, half of its own included."""
        return np.cumsum(self.weight) - self.weight / 2

    def in_blocks(self, most: int) -> DistinctScores:
        """Join neighbouring scores into at most ``most`` blocks of about equal mass."""
        if len(self.scores) <= most:
            return self
        total = float(self.weight.sum())
        code = np.minimum((self.mid_rank * (most / total)).astype(np.int64), most - 1)
        first = np.flatnonzero(np.diff(code, prepend=-1))
        weight = np.add.reduceat(self.weight, first)
        score = np.add.reduceat(self.weight * self.scores, first) / weight
        positive = np.add.reduceat(self.weight * self.label_mean, first)
        return DistinctScores(score, weight, positive / weight)


class CurveFitter(ABC):
    """A way to estimate the calibration curve ``C(s) = E[Y | S = s]``."""

    @abstractmethod
    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit the curve to rows gathered by score."""

    def fit(self, scores: Floats, labels: Floats, weights: Floats | None = None) -> Curve:
        """Fit the curve to rows."""
        return self.fit_distinct(DistinctScores.gather(scores, labels, weights))


@dataclass(frozen=True)
class LocalLinear(CurveFitter):
    """Least-squares lines in sliding windows of equal mass; leave-one-out chooses their size.

    The line's abscissa is the beta-calibrated score, so that the widest window is a parametric
    recalibration, and narrower ones are taken only where the labels ask for them.

    Examples
    --------
    >>> s = np.linspace(0, 1, 2001)
    >>> y = (np.arange(2001) * 0.618 % 1 < s**2).astype(float)
    >>> curve = LocalLinear().fit(s, y)
    >>> bool(abs(curve(np.array([0.5]))[0] - 0.25) < 0.03)
    True
    """

    n_windows: int = 12
    finest: int = 5_000  # blocks of scores: a line through a window needs no finer steps

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit with each window size, and keep the one with the least leave-one-out error."""
        rows = rows.in_blocks(self.finest)
        mass = float(rows.weight.sum())
        windows = np.geomspace(min(30.0, mass), 2 * mass, self.n_windows)
        lines = _WindowedLines.prepare(rows, _beta_calibrated(rows))
        fits = [lines.fit(window) for window in windows]
        best = int(np.argmin([error for _, error in fits]))
        return InterpolatedCurve(rows.scores, np.clip(fits[best][0], 0, 1))


@dataclass(frozen=True)
class Isotonic(CurveFitter):
    """The non-decreasing curve nearest to the labels."""

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit by pooling adjacent violators."""
        from sklearn.isotonic import isotonic_regression

        values = isotonic_regression(rows.label_mean, sample_weight=rows.weight)
        return InterpolatedCurve(rows.scores, np.asarray(values, float))


@dataclass(frozen=True)
class Nearest(CurveFitter):
    """The mean label of the ``k`` nearest scores; by default ``k`` is min(2000, n/10).

    Ties at the border of the window count with the same weight each, so that the result does not
    depend on the order of the rows.
    """

    n_neighbors: int | None = None

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Average over windows found by bisection in the sorted scores."""
        rows = rows.in_blocks(FINEST)
        mass = float(rows.weight.sum())
        k = float(self.n_neighbors or min(2000, max(1, int(mass / 10 + 1e-9))))
        return InterpolatedCurve(rows.scores, _nearest_means(rows, min(k, mass)))


@dataclass(frozen=True)
class Lowess(CurveFitter):
    """Tricube-weighted local lines over a fraction of the rows, at points between which it is linear."""

    fraction: float = 0.3
    n_points: int = 200

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit a weighted line around each of ``n_points`` scores of equal mass apart."""
        rows = rows.in_blocks(FINEST)
        rank, mass = rows.mid_rank, float(rows.weight.sum())
        targets = np.linspace(rank[0], rank[-1], min(self.n_points, len(rank)))
        points = np.unique(np.searchsorted(rank, targets, side="left"))
        half = max(self.fraction * mass / 2, 1.0)
        values = np.array([_tricube_line(rows, rank, int(point), half) for point in points])
        return InterpolatedCurve(rows.scores[points], np.clip(values, 0, 1))


@dataclass(frozen=True)
class GivenCurve(CurveFitter):
    """A curve that the user knows already."""

    function: Callable[[Floats], Floats]

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Return the given curve, checked at the scores of the data."""
        values = np.asarray(self.function(rows.scores), float)
        if values.shape != rows.scores.shape or not ((values >= 0) & (values <= 1)).all():
            raise DataError(
                f"curve must map n scores to n probabilities in [0, 1], got {values!r:.80}. "
                "Clip its output: lambda s: numpy.clip(f(s), 0, 1)."
            )
        return lambda scores: np.asarray(self.function(scores), float)


def resolve_curve(curve: str | CurveFitter | Callable[[Floats], Floats] | None) -> CurveFitter:
    """Return the curve that a short-hand or a callable stands for."""
    if isinstance(curve, CurveFitter):
        return curve
    if callable(curve) and not isinstance(curve, type):
        return GivenCurve(curve)
    fitters: dict[str | None, CurveFitter] = {
        None: LocalLinear(),
        "local-linear": LocalLinear(),
        "isotonic": Isotonic(),
        "lowess": Lowess(),
        "nearest": Nearest(),
    }
    if not (curve is None or isinstance(curve, str)) or curve not in fitters:
        raise OptionError(
            "curve must be 'local-linear', 'isotonic', 'lowess', 'nearest' or a function from "
            f"score to probability, got {curve!r}."
        )
    return fitters[curve]


def fit_curve_pair(
    fitter: CurveFitter,
    scores: Floats,
    labels: Floats,
    weights: Floats | None,
    generator: np.random.Generator,
    clusters: Codes | None = None,
) -> tuple[Curve, Curve]:
    """Fit two curves on disjoint random halves, whose errors are therefore independent."""
    if isinstance(fitter, GivenCurve) or len(scores) < 4:
        curve = fitter.fit(scores, labels, weights)
        return curve, curve
    halves = even_halves(scores, labels, weights, clusters, generator)
    a, b = (_fit_on(fitter, scores, labels, weights, half) for half in halves)
    return a, b


def fit_vector_curve_pair(
    vectors: Floats,
    scores: Floats,
    labels: Floats,
    weights: Floats | None,
    generator: np.random.Generator,
    clusters: Codes | None = None,
) -> tuple[Floats, Floats]:
    """Fit two logistic curves of a class over whole score vectors, on disjoint random halves.

    Their terms are the logarithms of all scores and the log-odds of the class's own, so that a
    calibrated score is among them. Returns both curves' values for every row.
    """
    from sklearn.linear_model import LogisticRegression

    logs = np.log(np.clip(vectors, 1e-6, 1.0))  # clipped: these are regressed on, not only compared
    design = np.column_stack([logs, _log_odds_terms(scores)])
    values = []
    for half in even_halves(scores, labels, weights, clusters, generator):
        if labels[half].min() == labels[half].max():
            values.append(np.full(len(labels), labels[half][0]))
            continue
        model = LogisticRegression(C=1.0, max_iter=300)
        model.fit(design[half], labels[half], sample_weight=None if weights is None else weights[half])
        values.append(np.asarray(model.predict_proba(design)[:, 1], float))
    return values[0], values[1]


def _fit_on(
    fitter: CurveFitter, scores: Floats, labels: Floats, weights: Floats | None, rows: Codes
) -> Curve:
    return fitter.fit(scores[rows], labels[rows], None if weights is None else weights[rows])


@dataclass(frozen=True)
class _WindowedLines:
    """Cumulative sums from which the line of any window is read off."""

    rows: DistinctScores
    x: Floats
    rank: Floats
    cumulative: Floats  # (5, m + 1): weight, w x, w x^2, w y, w x y

    @classmethod
    def prepare(cls, rows: DistinctScores, x: Floats) -> _WindowedLines:
        w, y = rows.weight, rows.label_mean
        x = x - np.average(x, weights=w)  # centred: less cancellation in the cumulative sums
        terms = np.stack([w, w * x, w * x * x, w * y, w * x * y])
        cumulative = np.concatenate([np.zeros((5, 1)), np.cumsum(terms, axis=1)], axis=1)
        return cls(rows, x, rows.mid_rank, cumulative)

    def fit(self, window: float) -> tuple[Floats, float]:
        """Return the fitted values with this window, and their leave-one-out squared error."""
        mass = self.cumulative[0, -1]
        start = np.clip(self.rank - window / 2, 0, max(mass - window, 0))  # shifted at the ends
        low = np.searchsorted(self.rank, start, side="left")
        high = np.searchsorted(self.rank, start + window, side="right")
        own = np.arange(len(self.x))
        low, high = np.minimum(low, own), np.maximum(high, own + 1)
        weight, sx, sxx, sy, sxy = self.cumulative[:, high] - self.cumulative[:, low]
        spread = sxx - sx * sx / weight
        steep = spread > 1e-13 * self.cumulative[2, -1]  # else: rounding, or a single score
        safe = np.where(steep, spread, 1.0)
        slope = np.where(steep, (sxy - sx * sy / weight) / safe, 0.0)
        offset = self.x - sx / weight
        fitted = sy / weight + slope * offset
        leverage = 1 / weight + np.where(steep, offset * offset / safe, 0.0)
        return fitted, self._leave_one_out(fitted, leverage)

    def _leave_one_out(self, fitted: Floats, leverage: Floats) -> float:
        mean = self.rows.label_mean
        squared = (mean - fitted) ** 2 + mean * (1 - mean)
        alone = leverage > 1 - 1e-9
        inflated = np.where(alone, 1.0, squared / np.where(alone, 1.0, (1 - leverage) ** 2))
        return float(self.rows.weight @ inflated)


def _beta_calibrated(rows: DistinctScores, n_blocks: int = 2000) -> Floats:
    """Return the logistic fit on log s and log(1-s), learned from blocks of neighbouring scores.

    A dozen Newton steps with a little shrinkage: it only changes the abscissa, so a rough optimum,
    or none where the labels are separable, is good enough.
    """
    blocks = rows.in_blocks(n_blocks)
    design = np.column_stack([np.ones(len(blocks.scores)), _log_odds_terms(blocks.scores)])
    coefficients = np.array([0.0, 1.0, 1.0])  # the score itself: the best first guess
    shrinkage = 1e-3 * np.eye(3)
    for _ in range(12):
        fitted = expit(design @ coefficients)
        gradient = design.T @ (blocks.weight * (blocks.label_mean - fitted))
        curvature = (design * (blocks.weight * fitted * (1 - fitted))[:, None]).T @ design + shrinkage
        step = np.linalg.solve(curvature, gradient - shrinkage @ (coefficients - [0.0, 1.0, 1.0]))
        coefficients = coefficients + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
    terms = np.column_stack([np.ones(len(rows.scores)), _log_odds_terms(rows.scores)])
    return np.asarray(expit(terms @ coefficients), float)


def _log_odds_terms(scores: Floats) -> Floats:
    """Return log s and -log(1-s), finite, and distinct for almost all scores that differ."""
    low, high = np.maximum(scores, 1e-300), np.maximum(1 - scores, 2.0**-53)
    return np.stack([np.log(low), -np.log(high)], axis=1)


def _nearest_means(rows: DistinctScores, k: float) -> Floats:
    """Return the weighted mean label of the mass ``k`` nearest to each score."""
    s = rows.scores
    mass = np.concatenate([[0.0], np.cumsum(rows.weight)])
    positive = np.concatenate([[0.0], np.cumsum(rows.weight * rows.label_mean)])
    left, right = _windows_of_mass(s, mass, k)
    reach_left, reach_right = s - s[left], s[right - 1] - s
    reach = np.maximum(reach_left, reach_right)
    at_left, at_right = reach_left == reach, (reach_right == reach) & (right - 1 > left)
    # the farthest score, or both if they are equally far, counts only as far as it is needed
    inner_left, inner_right = left + at_left, right - at_right
    inside, ones = mass[inner_right] - mass[inner_left], positive[inner_right] - positive[inner_left]
    border = mass[right] - mass[left] - inside
    share = np.clip((k - inside) / border, 0, 1)
    border_ones = positive[right] - positive[left] - ones
    means: Floats = (ones + share * border_ones) / (inside + share * border)
    return np.clip(means, 0, 1)


def _windows_of_mass(s: Floats, mass: Floats, k: float) -> tuple[Codes, Codes]:
    """Return the smallest windows of sorted scores, each around its own, that hold mass ``k``."""
    enough = k * (1 - 1e-12)
    low, high = np.zeros(len(s)), np.full(len(s), (s[-1] - s[0]) * (1 + 1e-9))
    for _ in range(60):  # bisection of the radius, for all scores at once
        radius = (low + high) / 2
        left = np.searchsorted(s, s - radius, side="left")
        right = np.searchsorted(s, s + radius, side="right")
        holds = mass[right] - mass[left] >= enough
        high, low = np.where(holds, radius, high), np.where(holds, low, radius)
    high *= 1 + 1e-12  # so that of two scores equally far none is lost to rounding
    left, right = np.searchsorted(s, s - high, side="left"), np.searchsorted(s, s + high, side="right")
    for _ in range(3):  # and those that it let in needlessly are taken off again
        reach = np.maximum(s - s[left], s[right - 1] - s)
        fewer_left = left + ((s - s[left] == reach) & (reach > 0))
        fewer_right = right - ((s[right - 1] - s == reach) & (reach > 0))
        holds = mass[fewer_right] - mass[fewer_left] >= enough
        left, right = np.where(holds, fewer_left, left), np.where(holds, fewer_right, right)
    return left, right


def _tricube_line(rows: DistinctScores, rank: Floats, point: int, half: float) -> float:
    """Return the value at one score of the weighted line through its neighbourhood."""
    mass = rank[-1] + rows.weight[-1] / 2
    start = np.clip(rank[point] - half, 0, max(mass - 2 * half, 0))
    slack = 1e-9 * mass  # a rank on the window's border is inside, however it was rounded
    window = slice(
        min(int(np.searchsorted(rank, start - slack)), point),
        max(int(np.searchsorted(rank, start + 2 * half + slack, side="right")), point + 1),
    )
    x = rows.scores[window] - rows.scores[point]
    reach = float(np.abs(x).max())
    x = x / reach / (1 + 1e-9) if reach > 0 else x  # in units of the window: no underflow
    tricube = (1 - np.abs(x) ** 3) ** 3
    w = rows.weight[window] * tricube
    centre = np.average(x, weights=w)
    spread = float(w @ (x - centre) ** 2)
    mean = float(np.average(rows.label_mean[window], weights=w))
    if spread <= 1e-12 * float(w.sum()):
        return mean
    slope = float(w @ ((x - centre) * rows.label_mean[window])) / spread
    return mean - slope * float(centre)
