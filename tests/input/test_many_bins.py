"""More level sets than rows are refused at once, whatever is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import epiloss

_g = np.random.default_rng(0)
X = _g.normal(size=(500, 2))
P = 1 / (1 + np.exp(-X[:, 0]))
Y = (_g.random(500) < P).astype(int)

DOORS: dict[str, Callable[..., Any]] = {
    "audit": lambda **options: epiloss.audit(Y, P, X, **options),
    "audit_table": lambda **options: epiloss.audit_table(
        {"y": Y, "p": P, "x": X[:, 0]}, label="y", score="p", **options
    ),
    "compare": lambda **options: epiloss.compare(Y, {"a": P, "b": P**2}, X, **options),
    "drift": lambda **options: epiloss.drift((Y, P, X), (Y, P, X), **options),
    "RegionPlan.learn": lambda **options: epiloss.RegionPlan.learn(Y, P, X, **options),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("n_bins", [501, 10**7, 10**18])
def test_more_level_sets_than_rows_are_refused(door: str, n_bins: int) -> None:
    with pytest.raises(epiloss.OptionError, match=f"at most the number of rows .* got {n_bins:,}"):
        DOORS[door](n_bins=n_bins)
