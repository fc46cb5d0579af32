"""Nodes and weights of the integrals that give the exact losses."""

from __future__ import annotations

import numpy as np

from epiloss._typing import Floats


def panels(edges: Floats) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss-Legendre quadrature between each pair of successive edges."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    u = (nodes + 1) / 2
    # A smooth step concentrates the nodes at the edges, where p log p is singular.
    step, slope = u**3 * (10 - 15 * u + 6 * u**2), 30 * u**2 * (1 - u) ** 2
    length = np.diff(edges)[:, None]
    return (edges[:-1, None] + length * step).ravel(), (length * slope * weights / 2).ravel()


def gaussian(deviation: float, *, kinks: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return nodes and weights for N(0, deviation^2), denser within ``scale`` of the kinks."""
    reach = 9 * deviation
    grades = scale * 2.0 ** np.arange(np.ceil(np.log2(2 * reach / scale)))
    offsets = np.concatenate([-grades, [0.0], grades])
    edges = np.union1d(np.linspace(-reach, reach, 19), kinks[:, None] + offsets)
    x, weights = panels(edges[np.abs(edges) <= reach])
    return x, weights * np.exp(-((x / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
