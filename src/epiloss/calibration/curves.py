"""Calibration curves: maps from score to probability, fitted in O(n log n) time and O(n) memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from epiloss._kernels.dispatch import kernel
from epiloss._typing import Codes, Floats
from epiloss.calibration.breaks import (
    Breaks,
    are_copies,
    find_jumps,
    is_rough,
    pieces,
    repeated,
    repeated_enough,
)
from epiloss.calibration.clusters import design_effect
from epiloss.calibration.halves import even_halves, random_pairs, shuffled_ties, sorted_rows
from epiloss.calibration.smoothers import (
    DistinctScores,
    WindowedLines,
    beta_calibration,
    calibrated,
    log_odds_terms,
    nearest_means,
    tricube_line,
)
from epiloss.errors import DataError, OptionError

Curve = Callable[[Floats], Floats]
_TOLERANCE = 2.0**-11  # relative to the distance to 0 or 1: closer scores count as equal
_NARROWEST, _NARROWEST_OF_PAIR = 30.0, 15.0  # number of labels in the narrowest windows
_MORE_OF_PAIR, _FITS_OF_PAIR = 2, 3  # further windows, and fits of an undersmoothed curve
FINEST = 20_000  # maximum number of distinct scores in a smoother, more than any curve needs


@dataclass(frozen=True)
class InterpolatedCurve:
    """A curve given at some scores, linear between them and constant outside."""

    scores: Floats
    values: Floats
    breaks: Breaks | None = None  # the jumps and own rates that were found for it

    def __call__(self, scores: Floats) -> Floats:
        """Return the probability at each score."""
        if len(self.scores) == 1:
            return np.full(np.shape(scores), self.values[0])
        curve: Floats = kernel().interpolate(self.scores, self.values, scores)
        return curve

    def with_values(self, scores: Floats, rates: Floats) -> InterpolatedCurve:
        """Return the curve with its values replaced at some scores, and unchanged elsewhere.

        A replaced value applies within the width of the finest cells in which streamed scores are
        counted.
        """
        gap = np.diff(scores, prepend=-1.0, append=2.0)
        reach = _TOLERANCE * np.minimum(scores, 1 - scores) + 2.0**-38
        reach = np.minimum(reach, np.minimum(gap[1:], gap[:-1]) / 4)
        near, far = reach[:, None] * [-1, 1], reach[:, None] * [-1.01, 1.01]
        left = np.searchsorted(scores, self.scores) - 1
        neighbours = np.clip([left, left + 1], 0, len(scores) - 1)
        apart = (np.abs(self.scores - scores[neighbours]) > 1.01 * reach[neighbours]).all(axis=0)
        beside = scores[:, None] + far
        knots = np.concatenate([self.scores[apart], (scores[:, None] + near).ravel(), beside.ravel()])
        values = [self.values[apart], np.repeat(rates, 2), self(beside.ravel())]
        order = np.argsort(knots, kind="stable")
        knots, height = knots[order], np.concatenate(values)[order]
        rises = np.concatenate([[True], knots[1:] > knots[:-1]])
        return InterpolatedCurve(knots[rises], height[rises])


class CurveFitter(ABC):
    """A way to estimate the calibration curve ``C(s) = E[Y | S = s]``."""

    @abstractmethod
    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit the curve to rows grouped by score."""

    def fit_pair(
        self, a: DistinctScores, b: DistinctScores, both: DistinctScores
    ) -> tuple[Curve, Curve]:
        """Fit a curve to each half of the rows; ``both`` holds all rows."""
        return self.fit_distinct(a), self.fit_distinct(b)

    def fit(self, scores: Floats, labels: Floats, weights: Floats | None = None) -> Curve:
        """Fit the curve to rows."""
        return self.fit_distinct(DistinctScores.gather(scores, labels, weights))


@dataclass(frozen=True)
class LocalLinear(CurveFitter):
    """Local linear regression in sliding windows of equal mass; leave-one-out selects their size.

    The regressor is the beta-calibrated score. The widest window is therefore a parametric
    recalibration, and narrower windows are selected only if the labels require them.

    Examples
    --------
    >>> s = np.linspace(0, 1, 2001)
    >>> y = (np.arange(2001) * 0.618 % 1 < s**2).astype(float)
    >>> curve = LocalLinear().fit(s, y)
    >>> bool(abs(curve(np.array([0.5]))[0] - 0.25) < 0.03)
    True
    """

    n_windows: int = 12
    finest: int = 5_000  # number of blocks of scores to which lines are fitted
    coarse: int = 1_000  # number of blocks on which the window is selected
    undersmooth: bool = False  # whether pairs of curves have less bias and more noise

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit the curve piecewise between jumps; scores with many labels keep their own rate."""
        return self._fit(rows, self.breaks(rows), rows.scores)

    def fit_pair(
        self, a: DistinctScores, b: DistinctScores, both: DistinctScores
    ) -> tuple[Curve, Curve]:
        """Fit two curves with jumps and own rates at the same scores.

        For the Brier score, the losses are means of products of both curves. The noise of the curves is
        independent and cancels in these means, but their bias does not, so that they are undersmoothed.
        """
        breaks, less = self.breaks(both), self.undersmooth
        pair = [self._fit(half, breaks, both.scores, undersmooth=less) for half in (a, b)]
        return replace(pair[0], breaks=breaks), replace(pair[1], breaks=breaks)

    def breaks(self, rows: DistinctScores) -> Breaks:
        """Find the scores that keep their own rate, and the jumps between the others."""
        own = repeated_enough(rows)
        some = repeated(rows) & ~own
        if some.any() and not rows.clustered:
            # Compare with beta calibration: windows would partly follow rough rates and so hide them.
            rest = rows.take(~own).independent()
            terms = log_odds_terms(rest.scores)
            smooth = calibrated(terms, beta_calibration(rest, terms))[some[~own]]
            if are_copies(rows.take(some), smooth):
                rows = replace(rows, n_labels=np.ones(len(own)))
            elif is_rough(rows.take(some), smooth):
                own |= some
        if own.all():
            return Breaks(rows.scores, np.zeros(0))
        rest = (rows.take(~own) if own.any() else rows).independent()
        return Breaks(rows.scores[own], find_jumps(rest.in_blocks(self.coarse), self._best_lines))

    def _fit(
        self, rows: DistinctScores, breaks: Breaks, all_scores: Floats, *, undersmooth: bool = False
    ) -> InterpolatedCurve:
        own = breaks.has_own_rate(rows, all_scores)
        if own.all():
            return InterpolatedCurve(rows.scores, rows.label_mean)
        rest = rows.take(~own) if own.any() else rows
        curve = self._in_pieces(rest, breaks.jumps, undersmooth)
        return curve.with_values(rows.scores[own], rows.label_mean[own]) if own.any() else curve

    def _in_pieces(self, rows: DistinctScores, jumps: Floats, undersmooth: bool) -> InterpolatedCurve:
        parts = [self._smooth(piece, undersmooth) for piece in pieces(rows.independent(), jumps)]
        if len(parts) == 1:
            return parts[0]
        scores, values = ([getattr(one, name) for one in parts] for name in ("scores", "values"))
        return InterpolatedCurve(np.concatenate(scores), np.concatenate(values))

    def _smooth(self, rows: DistinctScores, undersmooth: bool) -> InterpolatedCurve:
        """Fit with the window size of smallest leave-one-out error, on blocks of scores.

        An undersmoothed fit takes half of that size, which is still the whole range if no window is
        better than a single line, and is repeated on its residuals.
        """
        rows = rows.in_blocks(self.finest)
        blocks = rows.in_blocks(self.coarse)
        terms = log_odds_terms(blocks.scores)
        coefficients = beta_calibration(blocks, terms)
        rough = WindowedLines.prepare(blocks, calibrated(terms, coefficients))
        windows = self._windows(rows, _NARROWEST_OF_PAIR if undersmooth else _NARROWEST)
        best = float(windows[int(np.argmin(rough.leave_one_out(windows)))])
        if undersmooth:
            best = max(best / 2, float(windows[0]))
        lines = WindowedLines.prepare(rows, calibrated(log_odds_terms(rows.scores), coefficients))
        values = lines.repeated_fit(best, _FITS_OF_PAIR if undersmooth else 1)
        return InterpolatedCurve(rows.scores, np.clip(values, 0, 1))

    def _windows(self, rows: DistinctScores, narrowest: float = _NARROWEST) -> Floats:
        mass = float(rows.weight.sum())
        n_windows = self.n_windows + _MORE_OF_PAIR * (narrowest < _NARROWEST)
        return np.exp(np.linspace(math.log(min(narrowest, mass)), math.log(2 * mass), n_windows))

    def _best_lines(self, blocks: DistinctScores) -> tuple[float, WindowedLines]:
        """Return the smallest leave-one-out error over windows, and the lines."""
        terms = log_odds_terms(blocks.scores)
        lines = WindowedLines.prepare(blocks, calibrated(terms, beta_calibration(blocks, terms)))
        return float(lines.leave_one_out(self._windows(blocks)).min()), lines


@dataclass(frozen=True)
class Isotonic(CurveFitter):
    """The non-decreasing curve of smallest squared error (isotonic regression)."""

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit by the pool-adjacent-violators algorithm."""
        from sklearn.isotonic import isotonic_regression

        values = isotonic_regression(rows.label_mean, sample_weight=rows.weight)
        return InterpolatedCurve(rows.scores, np.asarray(values, float))


@dataclass(frozen=True)
class Nearest(CurveFitter):
    """The mean label of the ``k`` nearest scores; by default ``k`` is min(2000, n/10).

    Equal scores at the border of the window share their weight, so that the result does not depend
    on the order of the rows.
    """

    n_neighbors: int | None = None

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Average over windows found by bisection in the sorted scores."""
        rows = rows.in_blocks(FINEST)
        mass = float(rows.weight.sum())
        k = float(self.n_neighbors or min(2000, max(1, int(mass / 10 + 1e-9))))
        return InterpolatedCurve(rows.scores, nearest_means(rows, min(k, mass)))


@dataclass(frozen=True)
class Lowess(CurveFitter):
    """Lowess: tricube-weighted local lines at some points, and linear interpolation between them."""

    fraction: float = 0.3
    n_points: int = 200

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit a weighted line around each of ``n_points`` quantiles of the score."""
        rows = rows.in_blocks(FINEST)
        rank, mass = rows.mid_rank, float(rows.weight.sum())
        targets = np.linspace(rank[0], rank[-1], min(self.n_points, len(rank)))
        points = np.unique(np.searchsorted(rank, targets, side="left"))
        half = max(self.fraction * mass / 2, 1.0)
        values = np.array([tricube_line(rows, rank, int(point), half) for point in points])
        return InterpolatedCurve(rows.scores[points], np.clip(values, 0, 1))


@dataclass(frozen=True)
class GivenCurve(CurveFitter):
    """A curve passed by the user as a function."""

    function: Callable[[Floats], Floats]

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Check the curve at the scores of the data, and return it."""
        values = np.asarray(self.function(rows.scores), float)
        if values.shape != rows.scores.shape or not ((values >= 0) & (values <= 1)).all():
            raise DataError(
                f"curve must map n scores to n probabilities in [0, 1], got {values!r:.80}. "
                "Clip its output: lambda s: numpy.clip(f(s), 0, 1)."
            )
        return lambda scores: np.asarray(self.function(scores), float)


def resolve_curve(
    curve: str | CurveFitter | Callable[[Floats], Floats] | None, undersmooth: bool = False
) -> CurveFitter:
    """Return the curve fitter for a name or a function."""
    if isinstance(curve, CurveFitter):
        return curve
    if callable(curve) and not isinstance(curve, type):
        return GivenCurve(curve)
    fitters: dict[str | None, CurveFitter] = {
        None: LocalLinear(undersmooth=undersmooth),
        "local-linear": LocalLinear(undersmooth=undersmooth),
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
    """Fit two curves on disjoint random halves of the rows, so that their errors are independent."""
    if isinstance(fitter, GivenCurve) or len(scores) < 4:
        curve = fitter.fit(scores, labels, weights)
        return curve, curve
    if weights is None and clusters is None and ((labels == 0) | (labels == 1)).all():
        scores, labels = sorted_rows(scores, labels)
        order = shuffled_ties(scores, generator)
        halves = random_pairs(len(scores), generator)
        if order is not None:
            halves = np.sort(order[halves[0]]), np.sort(order[halves[1]])
    else:
        order = np.argsort(scores)  # even_halves orders rows of equal score by their other values
        scores, labels = scores[order], labels[order]
        weights = None if weights is None else weights[order]
        clusters = None if clusters is None else clusters[order]
        halves = even_halves(scores, labels, weights, clusters, generator)
    effect = None if clusters is None else design_effect(scores, labels, weights, clusters)
    both = DistinctScores.gather(scores, labels, weights, effect)
    a, b = (_gather(scores, labels, weights, effect, half) for half in halves)
    return fitter.fit_pair(a, b, both)


def find_breaks(
    scores: Floats, labels: Floats, weights: Floats | None, clusters: Codes | None = None
) -> Breaks:
    """Return the scores with their own rate, and the jumps between the others.

    Examples
    --------
    >>> s = np.linspace(0, 1, 2001)
    >>> y = (np.arange(2001) * 0.618 % 1 < np.where(s < 0.5, 0.2, 0.7)).astype(float)
    >>> find_breaks(s, y, None).jumps.round(2)
    array([0.5])
    """
    effect = None if clusters is None else design_effect(scores, labels, weights, clusters)
    return LocalLinear().breaks(DistinctScores.gather(scores, labels, weights, effect))


def fit_vector_curve_pair(
    vectors: Floats,
    scores: Floats,
    labels: Floats,
    weights: Floats | None,
    generator: np.random.Generator,
    clusters: Codes | None = None,
) -> tuple[Floats, Floats]:
    """Fit two logistic regressions of a class on whole score vectors, on disjoint random halves.

    The regressors are the logarithms of all scores and the log-odds of the class's own score, so that
    the model contains the calibrated case. Returns the values of both curves for every row.
    """
    from sklearn.linear_model import LogisticRegression

    logs = np.log(np.clip(vectors, 1e-6, 1.0))  # clipped, because outliers would dominate the regression
    design = np.column_stack([logs, log_odds_terms(scores).T])
    values = []
    for half in even_halves(scores, labels, weights, clusters, generator):
        if labels[half].min() == labels[half].max():
            values.append(np.full(len(labels), labels[half][0]))
            continue
        model = LogisticRegression(C=1.0, max_iter=300)
        model.fit(design[half], labels[half], sample_weight=None if weights is None else weights[half])
        values.append(np.asarray(model.predict_proba(design)[:, 1], float))
    return values[0], values[1]


def cell_mean_pair(
    cell: Codes, labels: Floats, weights: Floats | None, halves: tuple[Codes, Codes]
) -> tuple[Floats, Floats]:
    """Return for each row the mean label of its cell in the first and in the second half of the rows.

    It estimates the calibrated score if all rows of a cell have the same score. If a half has no row of
    a cell, the mean over both halves is used.

    Examples
    --------
    >>> halves = np.array([0, 1]), np.array([2, 3])
    >>> a, b = cell_mean_pair(np.array([0, 0, 0, 1]), np.array([0.0, 1.0, 1.0, 0.0]), None, halves)
    >>> a.tolist(), b.tolist()
    ([0.5, 0.5, 0.5, 0.0], [1.0, 1.0, 1.0, 0.0])
    """
    weight = np.ones(len(labels)) if weights is None else weights
    n_cells = int(cell.max()) + 1
    total = np.bincount(cell, weight, n_cells)
    mean = np.bincount(cell, weight * labels, n_cells) / np.where(total > 0, total, 1.0)
    pair = []
    for half in halves:
        inside = np.bincount(cell[half], weight[half], n_cells)
        ones = np.bincount(cell[half], weight[half] * labels[half], n_cells)
        pair.append(np.where(inside > 0, ones / np.where(inside > 0, inside, 1.0), mean)[cell])
    return pair[0], pair[1]


def _gather(
    scores: Floats,
    labels: Floats,
    weights: Floats | None,
    effect: float | None,
    rows: Codes,
) -> DistinctScores:
    some = None if weights is None else weights[rows]
    return DistinctScores.gather(scores[rows], labels[rows], some, effect)
