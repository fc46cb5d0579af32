"""Calibration measures of clinical statistics: slope, intercept, observed/expected, ICI, E50, E90."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, logit

from epiloss._typing import Codes, Floats
from epiloss.estimate import Estimate
from epiloss.estimation.inference import normal_estimate
from epiloss.metrics.noise import inverted_interval, noise_floor, with_interval
from epiloss.metrics.refits import Cells
from epiloss.metrics.result import LeftOutError, NoiseFloor
from epiloss.metrics.rows import ScoredRows, on_scale

_CLIP = 1e-7  # scores are clipped to [_CLIP, 1 - _CLIP] to have finite log-odds
_SMALLEST = 1e-150  # smallest mean score by which a rate is divided
_MOST_STEPS, _TOLERANCE = 50, 1e-9  # of Newton's method
_KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)  # Harrell's quantiles for five knots
_POINTS = 200  # quantiles of the score at which draws of the curve are compared
_SEPARATED = "scores separate the outcomes, so the logistic regression has no solution"
_NO_CURVE = "scores separate the outcomes, or one outcome is too rare for a calibration curve"


@dataclass(frozen=True)
class LogisticFit:
    """A logistic regression by maximum likelihood, and the influence of each row on its coefficients."""

    coefficients: Floats
    design: Floats
    influence: Floats  # (n, p)

    @classmethod
    def of(
        cls, rows: ScoredRows, design: Floats, start: Floats, offset: Floats | float = 0.0
    ) -> LogisticFit:
        """Fit by Newton's method; standard errors from the influence values are robust."""
        coefficients, share = start, rows.share
        linear = design @ coefficients + offset
        for _ in range(_MOST_STEPS):
            fitted = expit(linear)
            residual = share * (rows.labels - fitted)
            curvature = (design * (share * fitted * (1 - fitted))[:, None]).T @ design
            step = _solved(curvature, design.T @ residual)
            along, least = design @ step, _log_loss(rows, linear)
            size = 1.0
            while _log_loss(rows, linear + size * along) > least + 1e-12 and size > 1e-6:
                size /= 2
            coefficients, linear = coefficients + size * step, linear + size * along
            # The remaining error is about the square of the last step.
            if np.abs(step).max() < _TOLERANCE * max(1.0, float(np.abs(coefficients).max())):
                return cls(coefficients, design, residual[:, None] * _solved(curvature, design.T).T)
        raise LeftOutError(_SEPARATED)


def _log_loss(rows: ScoredRows, linear: Floats) -> float:
    """Return the mean log-loss of log-odds."""
    return rows.mean(np.logaddexp(0, linear) - rows.labels * linear)


def _solved(curvature: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(curvature, right), float)
    except np.linalg.LinAlgError:
        raise LeftOutError(_SEPARATED) from None


def _log_odds(rows: ScoredRows) -> Floats:
    odds: Floats = logit(np.clip(rows.scores, _CLIP, 1 - _CLIP))
    if odds.min() == odds.max():
        raise LeftOutError("all scores are the same")
    return odds


def calibration_slope(rows: ScoredRows, level: float) -> Estimate:
    """Return ``b`` of the logistic regression ``logit P(y = 1) = a + b logit(s)``.

    Examples
    --------
    >>> s = np.repeat([0.2, 0.8], 10)
    >>> y = np.array([1.0] * 4 + [0.0] * 6 + [1.0] * 6 + [0.0] * 4)
    >>> round(calibration_slope(ScoredRows(s, y), 0.95).value, 4)
    0.2925
    """
    odds = _log_odds(rows)
    fit = LogisticFit.of(rows, np.column_stack([np.ones(len(odds)), odds]), np.array([0.0, 1.0]))
    return normal_estimate(float(fit.coefficients[1]), rows.stderr(fit.influence[:, 1]), level)


def calibration_intercept(rows: ScoredRows, level: float) -> Estimate:
    """Return ``a`` of the logistic regression ``logit P(y = 1) = a + logit(s)`` with slope 1.

    Examples
    --------
    >>> rows = ScoredRows(np.full(10, 0.5), np.array([1.0] * 8 + [0.0] * 2))
    >>> round(calibration_intercept(rows, 0.95).value, 4)  # log(0.8 / 0.2)
    1.3863
    """
    odds = logit(np.clip(rows.scores, _CLIP, 1 - _CLIP))
    fit = LogisticFit.of(rows, np.ones((len(odds), 1)), np.zeros(1), odds)
    return normal_estimate(float(fit.coefficients[0]), rows.stderr(fit.influence[:, 0]), level)


def observed_expected(rows: ScoredRows, level: float) -> Estimate:
    """Return the rate divided by the mean score.

    Examples
    --------
    >>> rows = ScoredRows(np.array([0.2, 0.3, 0.5, 0.6]), np.array([0.0, 0.0, 1.0, 1.0]))
    >>> round(observed_expected(rows, 0.95).value, 4)
    1.25
    """
    expected = rows.mean(rows.scores)
    if expected < _SMALLEST:  # the ratio would overflow
        raise LeftOutError("all scores are 0" if expected == 0 else "all scores are almost 0")
    value = rows.rate / expected
    stderr = rows.stderr(rows.mean_influence(rows.labels - value * rows.scores)) / expected
    return on_scale(value, stderr, level, "log")


def spline_terms(odds: Floats, knots: Floats) -> Floats:
    """Return the design of a restricted cubic spline: 1, the log-odds, and the cubic terms."""
    unit = (knots[-1] - knots[0]) ** 2
    columns = [np.ones(len(odds)), odds]

    def cube(knot: float) -> Floats:
        return np.maximum(odds - knot, 0.0) ** 3

    last, before = float(knots[-1]), float(knots[-2])
    for knot in knots[:-2]:
        left, right = (last - knot) / (last - before), (before - knot) / (last - before)
        columns.append((cube(float(knot)) - left * cube(before) + right * cube(last)) / unit)
    return np.column_stack(columns)


def curve_errors(
    rows: ScoredRows, level: float, generator: np.random.Generator
) -> Mapping[str, tuple[Estimate, NoiseFloor]]:
    """Return the mean, median and 90% quantile of the distance of scores from the calibration curve.

    These are the ICI, E50 and E90 of Austin and Steyerberg (2019). The curve is a logistic regression on
    a restricted cubic spline of the log-odds with five knots.
    """
    odds = _log_odds(rows)
    knots = np.unique(np.quantile(odds, _KNOTS))
    terms = spline_terms(odds, knots if len(knots) > 2 else np.array([0.0, 1.0]))
    # The spline terms are nearly collinear, hence the orthogonal basis. The second term is the log-odds.
    design, basis_change = np.linalg.qr(terms)
    design, identity = np.sqrt(len(odds)) * design, basis_change[:, 1] / np.sqrt(len(odds))
    try:
        fit = LogisticFit.of(rows, design, identity)
    except LeftOutError:
        raise LeftOutError(_NO_CURVE) from None
    distance = np.abs(expit(design @ fit.coefficients) - rows.scores)
    at = design[_points(rows)]
    curve, calibrated = expit(at @ fit.coefficients), expit(at @ identity)
    slopes = at * (curve * (1 - curve))[:, None]
    cells = Cells.of(rows, design, _cluster_effect(slopes, fit, rows.clusters))
    noise = expit(cells.drawn_fits(fit.coefficients, generator) @ at.T) - curve
    chance = expit(cells.drawn_fits(identity, generator) @ at.T) - calibrated
    found = {}
    for name, share in (("ici", None), ("e50", 0.5), ("e90", 0.9)):
        norm = _mean_size if share is None else partial(_quantile_size, share=share)
        value = rows.mean(distance) if share is None else _quantile(distance, rows.share, share)
        ends = inverted_interval(norm, curve - calibrated, noise, level)
        found[name] = (with_interval(value, ends), noise_floor(norm(chance)))
    return found


def _cluster_effect(slopes: Floats, fit: LogisticFit, clusters: Codes | None) -> float:
    """Return how many rows count as one for the curve, given its derivatives at some points."""
    if clusters is None:
        return 1.0
    together = np.column_stack([np.bincount(clusters, column) for column in fit.influence.T])
    of_clusters, of_rows = (float(((part @ slopes.T) ** 2).sum()) for part in (together, fit.influence))
    return max(of_clusters / of_rows, 1.0) if of_rows > 0 else 1.0


def _points(rows: ScoredRows) -> Codes:
    """Return the rows at evenly spaced quantiles of the score, in increasing order."""
    order = np.argsort(rows.scores, kind="stable")
    mass = np.cumsum(rows.share[order])
    wanted = (np.arange(_POINTS) + 0.5) / _POINTS
    return np.asarray(order[np.minimum(np.searchsorted(mass, wanted), len(order) - 1)], np.int64)


def _mean_size(gaps: Floats) -> Floats:
    return np.asarray(np.abs(gaps).mean(axis=1), float)


def _quantile_size(gaps: Floats, share: float) -> Floats:
    place = max(int(np.ceil(share * gaps.shape[1] * (1 - 1e-12))) - 1, 0)
    return np.asarray(np.partition(np.abs(gaps), place, axis=1)[:, place], float)


def _quantile(values: Floats, share: Floats, wanted: float) -> float:
    """Return the weighted quantile of values at level ``wanted``."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(share[order])
    return float(values[order[min(int(np.searchsorted(mass, wanted * (1 - 1e-12))), len(order) - 1)]])
