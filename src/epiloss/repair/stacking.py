"""Nonnegative weights of several predictions on the log-odds scale, by maximum likelihood."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.special import expit

from epiloss._typing import Floats

_EDGE = 1e-6  # smallest distance of probabilities from 0 and 1
_LEAST_VARIANCE = 1e-4
_STEPS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)


def log_odds(probabilities: Floats) -> Floats:
    """Return the log-odds, which are finite even at 0 and 1."""
    clipped = np.clip(probabilities, _EDGE, 1 - _EDGE)
    return np.asarray(np.log(clipped) - np.log1p(-clipped), float)


def shifted(base: Floats, shift: Floats) -> Floats:
    """Shift probabilities on the log-odds scale; a shift of 0 changes no bit."""
    return np.where(shift == 0, base, expit(log_odds(base) + shift))


def nonnegative_logistic(
    columns: Floats, labels: Floats, offset: Floats, weights: Floats | None, most_rounds: int = 8
) -> Floats:
    """Return the nonnegative weights of the columns that maximise the likelihood, given an offset.

    Newton's method: each step is a nonnegative least-squares problem, and is shortened until the
    likelihood increases, because full steps can diverge for extreme offsets.

    Examples
    --------
    >>> x = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    >>> y = np.array([0.0, 1.0, 1.0, 1.0])
    >>> bool(nonnegative_logistic(x, y, np.zeros(4), None)[0] > 0.5)
    True
    >>> nonnegative_logistic(-x, y, np.zeros(4), None)
    array([0.])
    """
    w = np.ones(len(labels)) if weights is None else weights
    found = np.zeros(columns.shape[1])
    fitted = np.zeros(len(labels))
    now = _loss(offset, labels, w)
    for _ in range(most_rounds):
        p = expit(offset + fitted)
        curvature = w * np.maximum(p * (1 - p), _LEAST_VARIANCE)
        root = np.sqrt(curvature)
        response = fitted + w * (labels - p) / curvature
        step = _least_squares(columns * root[:, None], response * root) - found
        for share in _STEPS:
            further = columns @ (found + share * step)
            new = _loss(offset + further, labels, w)
            if new < now:
                break
        else:
            break
        gain, now = now - new, new
        found, fitted = found + share * step, further
        if gain < 1e-6 * w.sum():
            break
    return found


def _loss(log_odds_of_one: Floats, labels: Floats, w: Floats) -> float:
    return float(w @ (np.logaddexp(0, log_odds_of_one) - labels * log_odds_of_one))


def _least_squares(design: Floats, target: Floats) -> Floats:
    """Solve nonnegative least squares by the Gram matrix: there are few columns and many rows."""
    k = design.shape[1]
    gram = design.T @ design
    gram += (1e-9 * float(np.trace(gram)) / k + 1e-12) * np.eye(k)
    upper = np.linalg.cholesky(gram).T
    return np.asarray(nnls(upper, np.linalg.solve(upper.T, design.T @ target))[0], float)
