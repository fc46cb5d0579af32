"""The encoding of features: ties do not waste codes, and categories are ordered by the score."""

from __future__ import annotations

import numpy as np

from epiloss._kernels.reference_trees import MISSING
from epiloss.estimation.learning.encoding import learn_encoding, tie_aware_edges
from epiloss.input.features import Features


def test_values_that_many_rows_share_use_one_code() -> None:
    g = np.random.default_rng(0)
    values = np.where(g.random(5_000) < 0.9, 0.0, g.exponential(size=5_000))
    features = Features(values[:, None], ("x0",))
    codes = learn_encoding(features, g.random(5_000))[1].codes
    assert len(np.unique(codes[0][values == 0])) == 1
    assert len(np.unique(codes[0][values > 0])) > 50


def test_codes_keep_the_order_of_numbers_and_mark_missing_values() -> None:
    g = np.random.default_rng(1)
    values = g.normal(size=3_000)
    values[::7] = np.nan
    codes = learn_encoding(Features(values[:, None], ("x0",)), g.random(3_000))[1].codes
    missing = np.isnan(values)
    assert (codes[0][missing] == MISSING).all()
    order = np.argsort(values[~missing])
    assert (np.diff(codes[0][~missing][order].astype(int)) >= 0).all()


def test_each_of_a_few_values_has_its_own_code() -> None:
    edges = tie_aware_edges(np.repeat([1.0, 2.0, 5.0], [10, 500, 3]))
    assert edges[:2].tolist() == [1.5, 3.5]
    assert np.isinf(edges[2:]).all()


def test_categories_are_ordered_by_their_mean_score() -> None:
    scores = np.repeat([0.9, 0.1, 0.5], 50)
    column = np.repeat([0.0, 1.0, 2.0], 50)
    features = Features(column[:, None], ("city",), {0: ("a", "b", "c")})
    encoding, coded = learn_encoding(features, scores)
    codes = coded.codes[:-1]
    assert codes[0][[0, 50, 100]].tolist() == [2, 0, 1]
    unknown = Features(np.array([[7.0]]), ("city",), {0: ("a", "b", "c")})
    assert encoding.codes(unknown, np.array([0.5]))[0].tolist() == [1]


def test_neighbouring_categories_share_codes_if_there_are_many() -> None:
    g = np.random.default_rng(2)
    column = g.integers(0, 500, 20_000).astype(float)
    scores = (column + g.random(20_000)) / 501
    names = tuple(map(str, range(500)))
    codes = learn_encoding(Features(column[:, None], ("id",), {0: names}), scores)[1].codes
    assert codes[0].max() < MISSING
    assert np.corrcoef(codes[0], scores)[0, 1] > 0.99


def test_normal_scores_of_codes_have_mean_zero_and_variance_one() -> None:
    g = np.random.default_rng(3)
    features = Features(g.exponential(size=(4_000, 2)), ("x0", "x1"))
    encoding, coded = learn_encoding(features, g.random(4_000))
    codes = coded.codes[:-1]
    for column, values in zip(codes, encoding.values, strict=True):
        found = values[column]
        assert abs(found.mean()) < 1e-4
        assert abs(found.std() - 1) < 1e-3
