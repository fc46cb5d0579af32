"""Smooth ECE: residuals smoothed by a reflected Gaussian whose width equals the error.

Błasiok and Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing", ICLR 2024. The
grids are those of their package relplot, so that the values agree.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.fft import dct
from scipy.signal import fftconvolve

from epiloss._typing import Floats
from epiloss.estimate import Estimate
from epiloss.metrics.noise import DRAWS, chance_gaps, inverted_interval, noise_floor, with_interval
from epiloss.metrics.result import NoiseFloor
from epiloss.metrics.rows import ScoredRows

_LEAST_WIDTH, _HALVINGS = 0.001, 10
_LEAST_GRID, _LEAST_MESH = 2000, 200
_EMPTY = 1e-4  # fraction of a row that is added to the density, so that it is never 0
_COARSE = 501  # number of grid points on which noise is simulated
_PER_WIDTH, _FLOOR_PER_WIDTH = 5, 2.5  # points per width at which smoothed noise is evaluated
_STEPS = (1, 2, 4, 5, 10, 20, 25, 50, 100)  # of the coarse grid, from one end to the other
_NEGLIGIBLE = 6.5  # frequency times width above which a wave is damped to less than 1e-9


def smooth_ece(
    rows: ScoredRows, level: float, generator: np.random.Generator
) -> tuple[Estimate, NoiseFloor]:
    """Return the smooth ECE with its interval, and its noise floor."""
    value, width = smooth_ece_and_width(rows)
    grid = _Grid(rows)
    gaps = chance_gaps(grid.score, grid.size, grid.by_chance, generator)
    floor = noise_floor(grid.errors(grid.share * gaps))
    noise = np.sqrt(grid.squares) * generator.standard_normal((DRAWS, _COARSE))
    ends = grid.interval(noise, width, value, level)
    return with_interval(value, ends), floor


def smooth_ece_and_width(rows: ScoredRows) -> tuple[float, float]:
    """Return the smooth ECE, and the width at which both are about equal.

    Examples
    --------
    >>> s = np.linspace(0, 1, 1001)
    >>> rows = ScoredRows(s, (np.arange(1001) * 0.618 % 1 < s / 2).astype(float))
    >>> error, width = smooth_ece_and_width(rows)
    >>> round(error, 2), round(width, 2)
    (0.25, 0.25)
    """
    weight = rows.share * len(rows.share)
    residual = weight * (rows.scores - rows.labels)

    def error(width: float) -> float:
        mesh = np.linspace(0, 1, max(round(10 / width), _LEAST_MESH))
        smoothed = _smoothed(rows.scores, residual, mesh, width)
        density = _smoothed(rows.scores, weight, mesh, width) + _EMPTY
        return float(np.abs(smoothed).sum() / density.sum())

    wide, narrow = 1.0, 0.0
    if error(wide) > wide:
        return error(wide), wide
    for _ in range(_HALVINGS):
        middle = (wide + narrow) / 2
        if middle < _LEAST_WIDTH or middle < error(middle):
            narrow = middle
        else:
            wide = middle
    return error(wide), wide


def _smoothed(scores: Floats, values: Floats, mesh: Floats, width: float) -> Floats:
    """Return values smoothed by a Gaussian that is reflected at 0 and 1, at the points of a mesh."""
    n = max(_LEAST_GRID, round(20 / width)) // 2 + 1
    grid = np.linspace(0, 1, n)
    kernel = np.exp(-((grid - 0.5) ** 2) / (2 * width**2)) / (np.sqrt(2 * np.pi) * width)
    cells = _on_grid(scores, values, n)
    reflected = np.concatenate([cells[::-1][:-1], cells, cells[::-1][1:]])
    start = n // 2
    return np.interp(mesh, grid, fftconvolve(reflected, kernel, "valid")[start : start + n])


def _on_grid(scores: Floats, values: Floats, n: int) -> Floats:
    """Return sums of values on a grid of [0, 1]; each value is split between the two nearest points."""
    place = scores * (n - 1)
    left = np.minimum(place.astype(np.int64), n - 2)
    right = place - left
    below, above = np.bincount(left, (1 - right) * values, n), np.bincount(left + 1, right * values, n)
    return np.asarray(below + above, float)


@cache
def _waves() -> Floats:
    """Return the cosine waves (frequency, point) whose sum inverts the discrete cosine transform."""
    place = np.arange(_COARSE)
    factor = np.where((place == 0) | (place == _COARSE - 1), 1, 2) / (2 * (_COARSE - 1))
    # whole turns are taken off, so that the cosines are as exact as those of small angles
    turns = np.outer(place, place) % (2 * (_COARSE - 1)) / (_COARSE - 1)
    return np.asarray(factor[:, None] * np.cos(np.pi * turns), float)


class _Grid:
    """Rows on a coarse grid, where smoothing multiplies the cosine coefficients."""

    def __init__(self, rows: ScoredRows) -> None:
        cell = np.rint(rows.scores * (_COARSE - 1)).astype(np.int64)

        def summed(values: Floats) -> Floats:
            return np.bincount(cell, values, _COARSE).astype(float)

        share, residual = rows.share, rows.labels - rows.scores
        self.share = summed(share)
        inside = np.where(self.share > 0, self.share, 1.0)
        self.score = summed(share * rows.scores) / inside
        self.by_chance = summed(share**2 * rows.scores * (1 - rows.scores)) / inside**2
        self.by_chance *= rows.design_effect
        squares = summed(share**2)
        self.size = self.share**2 / np.where(squares > 0, squares, 1.0) / rows.design_effect
        self.residual = summed(share * residual)
        self.squares = summed((share * residual) ** 2) * rows.design_effect
        self.ends = np.ones(_COARSE)
        self.ends[[0, -1]] = 0.5
        self.mass = float(self.share @ self.ends)

    def smooth(self, values: Floats, width: float, step: int) -> Floats:
        """Smooth values (draws, points), and return every ``step``-th point."""
        damped, waves = self._damped(dct(values, 1), np.array([[width]]))
        return damped @ waves[:, ::step]

    def _damped(self, coefficients: Floats, width: Floats) -> tuple[Floats, Floats]:
        """Return the cosine coefficients of smoothed values that are not negligible, and their waves."""
        n = min(int(_NEGLIGIBLE / (np.pi * float(width.min()))) + 1, _COARSE)
        damping = np.exp(-((width * np.pi * np.arange(n)) ** 2) / 2)
        return coefficients[:, :n] * damping, _waves()[:n]

    def errors(self, residual: Floats) -> Floats:
        """Return the smooth ECE of each draw of residuals (draws, points)."""
        coefficients = dct(residual, 1)
        wide, narrow = np.ones((len(residual), 1)), np.zeros((len(residual), 1))
        for _ in range(_HALVINGS):
            middle = (wide + narrow) / 2
            is_narrow = (middle < _LEAST_WIDTH) | (middle < self._norms(coefficients, middle))
            narrow, wide = np.where(is_narrow, middle, narrow), np.where(is_narrow, wide, middle)
        return self._norms(coefficients, wide)[:, 0]

    def _norms(self, coefficients: Floats, width: Floats) -> Floats:
        """Return the mean absolute value (draws, 1) of residuals smoothed by widths (draws, 1)."""
        most = float(width.min()) * (_COARSE - 1) / _FLOOR_PER_WIDTH
        step = max(step for step in _STEPS if step <= max(most, 1))
        damped, waves = self._damped(coefficients, width)
        ends = self.ends[::step]
        sizes = np.abs(damped @ waves[:, ::step]) @ ends / ends.sum()
        return np.asarray(sizes[:, None] * (self.ends.sum() / self.mass), float)

    def interval(
        self, noise: Floats, width: float, value: float, level: float
    ) -> tuple[float, float] | None:
        """Return the interval of the error at a width, rescaled to the value on the finer grid."""
        # Smoothed values hardly change within a fraction of the width.
        step = max(int(width * (_COARSE - 1) / _PER_WIDTH), 1)
        gaps, noise = (self.smooth(one, width, step) for one in (self.residual[None], noise))

        def norm(smoothed: Floats) -> Floats:
            return np.asarray(np.abs(smoothed).mean(axis=1), float)

        ends = inverted_interval(norm, gaps[0], noise, level)
        if ends is None:
            return None
        scale = value / float(norm(gaps)[0])
        return scale * ends[0], scale * ends[1]
