"""Ridge regressions: the closed form for any block size; rare categories are shrunk the most."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from epiloss.estimation.crossfit import ridges
from epiloss.estimation.crossfit.ridges import Ridges, design_widths
from epiloss.input.features import Features

ALPHAS = (1e-3, 1.0)
RNG = np.random.default_rng(0)
N = 700
X = RNG.normal(size=(N, 3)) * [1.0, 10.0, 0.1] + 5
SCORES = RNG.random(N)
TARGET = X[:, 0] - 5 + RNG.normal(size=N)


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_of_numbers_equal_those_of_scikit_learn(weighted: bool) -> None:
    weights = RNG.random(N) + 0.5 if weighted else None
    x = (X - X.mean(axis=0)) / X.std(axis=0)
    design = np.hstack([x, x * (4 * SCORES * (1 - SCORES))[:, None]])
    found = Ridges.fit(Features.read(X), SCORES, TARGET, weights, ALPHAS)
    mass = N if weights is None else weights.sum()
    for alpha, guess in zip(ALPHAS, found.predict_columns(Features.read(X), SCORES).T, strict=True):
        peer = Ridge(alpha=alpha * mass, fit_intercept=False).fit(design, TARGET, weights)
        np.testing.assert_allclose(guess, peer.predict(design), rtol=1e-9, atol=1e-12)


def test_the_block_size_does_not_change_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": RNG.choice(["u", "v", "w"], N), "c": X[:, 1]})
    frame.loc[::7, "a"] = np.nan
    features = Features.read(frame)
    whole = Ridges.fit(features, SCORES, TARGET, None, ALPHAS)
    expected = whole.predict_columns(features, SCORES)
    monkeypatch.setattr(ridges, "_BLOCK", 64)
    parts = Ridges.fit(features, SCORES, TARGET, None, ALPHAS)
    np.testing.assert_allclose(parts.predict_columns(features, SCORES), expected, rtol=1e-9, atol=1e-12)
    assert design_widths(features) == (5, 7) == (len(whole.centre), len(whole.coefficients))


def test_rare_categories_are_shrunk_the_most() -> None:
    """Two categories have the same target without noise, one with 200 rows and one with 2."""
    kind = np.array(["common"] * 200 + ["rare"] * 2 + ["other"] * 498)
    target = np.where(kind == "other", 0.0, 1.0)
    features = Features.read({"kind": kind, "x": np.zeros(N)})
    guess = Ridges.fit(features, SCORES, target, None, (1e-2,)).predict_columns(features, SCORES)[:, 0]
    levels = {name: guess[kind == name].mean() for name in ("common", "rare", "other")}
    assert 0.9 < levels["common"] - levels["other"] < 1
    assert 0 < levels["rare"] - levels["other"] < 0.7


def test_empty_and_constant_columns_do_not_change_predictions() -> None:
    empty = np.column_stack([X, np.full(N, np.nan), np.full(N, 3.0)])
    plain, more = (
        Ridges.fit(Features.read(one), SCORES, TARGET, None, ALPHAS).predict_columns(
            Features.read(one), SCORES
        )
        for one in (X, empty)
    )
    np.testing.assert_allclose(more, plain, rtol=1e-9, atol=1e-12)
