"""Lines over time or thresholds as SVG paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from epiloss._typing import Floats

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720.0, 250.0, 58.0, 34.0, 10.0
_TICKS = 5


@dataclass(frozen=True)
class Line:
    """One line: its name, its CSS class, and its path."""

    name: str
    kind: str
    path: Markup


@dataclass(frozen=True)
class Chart:
    """Lines in one frame, with the positions and labels of the ticks."""

    title: str
    lines: list[Line]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    limits: list[tuple[float, str]]  # horizontal lines and their labels
    left: float = LEFT
    right: float = WIDTH - 8
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM
    width: float = WIDTH
    height: float = HEIGHT


def chart(
    title: str,
    x: Sequence[str] | Floats,
    series: Mapping[tuple[str, str], Floats],
    limits: Mapping[str, float] | None = None,
    *,
    from_zero: bool = False,
) -> Chart:
    """Return lines by (name, CSS class) over names of periods, or over numbers.

    Examples
    --------
    >>> lines = {("score", "curve"): np.array([0.1, 0.3, 0.2])}
    >>> found = chart("Score", ["Jan", "Feb", "Mar"], lines)
    >>> [label for _, label in found.x_ticks], found.lines[0].path
    (['Jan', 'Feb', 'Mar'], Markup('M58.0 206.6L385.0 19.4L712.0 113.0'))
    """
    across = dict(limits or {})
    known = np.concatenate([*series.values(), np.array(list(across.values()), float)])
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    low = min(low, 0.0) if from_zero else low
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = (low if from_zero and low == 0 else low - room), high + room
    n = len(x)
    is_number = not isinstance(x[0], str) if n else False
    at = np.asarray(x, float) if is_number else np.arange(n, dtype=float)
    first, last = (float(at.min()), float(at.max())) if n else (0.0, 1.0)
    span = (last - first) or 1.0
    places = LEFT + (WIDTH - 8 - LEFT) * (at - first) / span

    def height(value: Floats) -> Floats:
        return (
            HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (np.asarray(value, float) - low) / (high - low)
        )

    lines = [
        Line(name, kind, _path(places, height(values), np.isfinite(values)))
        for (name, kind), values in series.items()
    ]
    shown = np.unique(np.linspace(0, n - 1, min(n, _TICKS)).round().astype(int)).tolist()
    x_ticks = [(round(float(places[i]), 1), f"{x[i]:g}" if is_number else str(x[i])) for i in shown]
    y_ticks = [(round(float(height(np.array(v))), 1), f"{v:.4g}") for v in _round_values(low, high)]
    crossed = [(round(float(height(np.array(v))), 1), name) for name, v in across.items()]
    return Chart(title, lines, x_ticks, y_ticks, crossed)


def _path(x: Floats, y: Floats, known: Floats) -> Markup:
    parts, is_open = [], False
    for here, there, is_known in zip(x, y, known, strict=True):
        if is_known:
            parts.append(f"{'L' if is_open else 'M'}{here:.1f} {there:.1f}")
        is_open = bool(is_known)
    return Markup("".join(parts))


def _round_values(low: float, high: float) -> list[float]:
    """Return about five round values between two others."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step = next(m * step for m in (1, 2, 5, 10) if (high - low) / (m * step) <= _TICKS)
    return [float(k * step) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
