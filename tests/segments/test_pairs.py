"""Sums over pairs of conditions are those over the rows that meet both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from epiloss.input.features import Features
from epiloss.segments.columns import coded_columns
from epiloss.segments.find import Confirmed
from epiloss.segments.gaps import Gap
from epiloss.segments.pairs import Pairs
from epiloss.segments.search import Found, Scan


def table(n: int, d: int) -> Features:
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=n) for j in range(d)}
    columns["x0"][rng.random(n) < 0.1] = np.nan
    city = rng.choice(np.array(["Oslo", "Rome", "Lima", "Bern"], object), n)
    return Features.read({**columns, "city": city, "count": rng.integers(0, 3, n)})


def test_sums_by_sides_are_sums_over_rows() -> None:
    features = table(700, 3)
    columns = coded_columns(features, 20)
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(700)[:500])
    values = rng.normal(size=(500, 3))
    pairs = Pairs(columns, rows)
    inside = [
        np.array([column.sides[k].allowed[column.codes[rows]] for k in column.places], float)
        for column in columns
    ]
    singles = pairs.single_sums(values)
    for j, own in enumerate(inside):
        np.testing.assert_allclose(singles[j, : len(own)], own @ values, atol=1e-12)
        assert not singles[j, len(own) :].any()
    for first in range(len(columns) - 1):
        sums = pairs.sums(first, values)
        for k, other in enumerate(inside[first + 1 :]):
            both = np.einsum("an,bn,nk->abk", inside[first], other, values)
            shown = sums[k, : both.shape[0], : both.shape[1]]
            np.testing.assert_allclose(shown, both, atol=1e-12)


@pytest.mark.parametrize("d", [3, 45])
def test_the_best_pair_is_the_best_of_all(d: int) -> None:
    """Against every single condition and every pair of 45 columns' best 40, one by one."""
    features = table(400, d)
    columns = coded_columns(features, 20)
    rng = np.random.default_rng(2)
    residual = rng.normal(size=400) * 0.3
    residual += 0.2 * (np.nan_to_num(features.column(1)) > 0) * (features.column(2) > 0)
    scan = Scan(columns, np.arange(400), np.full(400, 0.09), 20)
    best = scan.best(residual)
    assert best is not None
    squares = [scan._square([side], residual, sign) for side, sign in _sides(columns)]
    assert best.square >= max(squares) - 1e-9
    assert best.square == pytest.approx(scan._square(best.sides, residual, best.sign))
    largest, singles = scan.largest(residual[:, None])
    assert largest[0] == pytest.approx(best.square)
    np.testing.assert_allclose(singles[0], scan.column_squares(residual))
    if d == 3:
        pairs = [
            scan._square([one, other], residual, best.sign)
            for one, _ in _sides(columns)
            for other, _ in _sides(columns)
            if one.column < other.column
        ]
        assert best.square == pytest.approx(max([*pairs, *squares]))


def _sides(columns: Sequence[Any]) -> list[tuple[Any, float]]:
    return [(column.sides[k], sign) for column in columns for k in column.places for sign in (1.0, -1.0)]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_interval_reaches_beyond_both_gaps(sign: float) -> None:
    measured = Gap(100, 0.1, 0.3, 0.5, sign * 0.2, 0.03)
    found = Found((), 30.0, sign)
    one = Confirmed(found, np.ones(1, bool), measured, sign * 0.1, sign * 0.15, 0.02, 0.01)
    low, high = one.interval(0.95)
    reach = 1.959964 * 0.02
    ends = sorted((sign * (0.1 - reach), sign * (0.15 + reach)))
    np.testing.assert_allclose([low, high], ends, atol=1e-6)
