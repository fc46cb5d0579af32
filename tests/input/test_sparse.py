"""Sparse features: the same bits as the dense array has, and never written out whole."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import epiloss
from epiloss import DataError
from epiloss.input.checks import read_problem
from epiloss.input.features import Features
from epiloss.partition.custom import KMeans
from epiloss.partition.stump import Stump

G = np.random.default_rng(0)
N, D = 1_200, 60
DENSE = np.where(G.random((N, D)) < 0.08, G.normal(size=(N, D)), 0.0)
P = G.random(N)
Y = (G.random(N) < np.clip(P + 0.4 * (DENSE[:, 0] != 0) + 0.1 * (DENSE[:, 1] > 0), 0, 1)).astype(int)
HOLED = np.where(G.random((N, D)) < 0.01, np.nan, DENSE)

MAKES: dict[str, Callable[[Any], Any]] = {
    "csr matrix": sparse.csr_matrix,
    "csr array": sparse.csr_array,
    "csc matrix": sparse.csc_matrix,
    "csc array": sparse.csc_array,
    "coo matrix": sparse.coo_matrix,
    "coo array": sparse.coo_array,
    "lil array": sparse.lil_array,
    "dok array": sparse.dok_array,
    "dok matrix": sparse.dok_matrix,
    "bsr array": sparse.bsr_array,
}


def frame(dense: Any, **others: Any) -> pd.DataFrame:
    columns = {
        f"c{j}": pd.arrays.SparseArray(dense[:, j], fill_value=0.0) for j in range(dense.shape[1])
    }
    return pd.DataFrame({**columns, **others})


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
def test_every_format_is_read_and_not_written_out(make: Callable[[Any], Any]) -> None:
    features = Features.read(make(HOLED))
    assert features.is_sparse
    assert features.names == tuple(f"x{j}" for j in range(D))
    assert not features.complete
    np.testing.assert_array_equal(features.matrix, HOLED)
    rows = np.array([7, 3, 3, N - 1])
    for some in (features, features.take(np.arange(N - 1, 0, -1)), features.take(rows)):
        np.testing.assert_array_equal(np.stack(some.columns(0, D)).T, some.matrix)
        np.testing.assert_array_equal(some.column(5), some.matrix[:, 5])
    np.testing.assert_array_equal(features.take(rows).matrix, HOLED[rows])
    assert read_problem(Y, P, make(HOLED)).features is not None


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, np.float64])
def test_numbers_of_every_kind_are_as_in_a_dense_array(dtype: Any) -> None:
    values = (np.nan_to_num(DENSE) * 3).astype(dtype)
    read, dense = Features.read(sparse.csr_array(values)), Features.read(values)
    assert read.matrix.dtype == dense.matrix.dtype
    np.testing.assert_array_equal(read.matrix, dense.matrix)


def test_what_is_kept_twice_is_added_up_and_zeros_that_are_kept_are_zeros() -> None:
    given = sparse.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])))
    before = given.data.copy()
    features = Features.read(given)
    np.testing.assert_array_equal(features.matrix, [[0, 3], [0, 0]])
    np.testing.assert_array_equal(given.data, before)  # of the user, who may need it
    stored = sparse.csr_array(DENSE)
    stored.data[:50] = 0.0
    same = epiloss.audit(Y, P, stored.toarray())
    assert epiloss.audit(Y, P, stored).to_dict() == same.to_dict()


@pytest.mark.parametrize(
    "dense", [DENSE, HOLED, DENSE.astype(np.float32)], ids=["full", "holes", "single"]
)
def test_an_audit_gives_the_bits_of_the_dense_array(dense: Any) -> None:
    """With two jobs too."""
    expected = epiloss.audit(Y, P, dense)
    for n_jobs in (1, 2):
        found = epiloss.audit(Y, P, sparse.csr_array(dense), n_jobs=n_jobs)
        assert found.to_dict() == expected.to_dict()
        assert str(found) == str(expected)
        for table, same in (
            (found.regions, expected.regions),
            (found.level_sets, expected.level_sets),
        ):
            assert list(table) == list(same)
            for name in same:
                np.testing.assert_array_equal(table[name], same[name])
    assert found.to_html() == expected.to_html()


@pytest.mark.parametrize(
    "options",
    [
        {"method": "partition"},
        {"partition": Stump(), "method": "partition"},
        {"partition": KMeans(2), "method": "partition"},
        {"method": "crossfit"},
        {"rule": "log"},
    ],
    ids=["tree", "stump", "kmeans", "crossfit", "log"],
)
def test_other_ways_to_audit_give_the_bits_of_the_dense_array(options: dict[str, Any]) -> None:
    expected = epiloss.audit(Y, P, DENSE, **options)
    assert epiloss.audit(Y, P, sparse.csc_array(DENSE), **options).to_dict() == expected.to_dict()


def test_few_columns_have_rules_with_the_names_of_an_array() -> None:
    few = np.where(G.random((N, 3)) < 0.4, 1.0 + G.random((N, 3)), 0.0)
    y = (G.random(N) < np.clip(P + np.where(few[:, 0] > 0, 0.3, -0.3), 0, 1)).astype(int)
    found, same = (
        [str(rule) for rule in epiloss.audit(y, P, X, method="partition").regions["rule"]]
        for X in (sparse.csr_array(few), few)
    )
    assert found == same
    assert any("x0" in rule for rule in found)


def test_comparing_drift_and_plans_give_the_bits_of_the_dense_array() -> None:
    made, half = sparse.csr_array(DENSE), N // 2

    def answers(X: Any) -> list[Any]:
        plan = epiloss.RegionPlan.learn(Y[:half], P[:half], X[:half])
        stats = plan.stats(Y[half:], P[half:], X[half:])
        samples = [(Y[some], P[some], X[some]) for some in (slice(half), slice(half, N))]
        models = {"one": P, "other": np.sqrt(P)}
        return [
            str(epiloss.compare(Y, models, X)),
            str(epiloss.drift(*samples)),
            plan.losses(stats).total("grouping_loss"),
        ]

    assert answers(made) == answers(DENSE)


@pytest.mark.parametrize("method", ["boosted", "regions"])
def test_a_repair_gives_the_bits_of_the_dense_array(method: str) -> None:
    made = sparse.csr_array(DENSE)
    learned = [epiloss.RegionRecalibrator(method).fit(Y, P, X) for X in (DENSE, made)]
    expected = learned[0].predict(P, DENSE)
    for repair in learned:
        for X in (DENSE, made):
            np.testing.assert_array_equal(repair.predict(P, X), expected)


def test_a_wide_repair_goes_by_principal_components_all_the_same() -> None:
    wide = np.where(G.random((N, 450)) < 0.05, 1.0, 0.0)
    expected = epiloss.RegionRecalibrator().fit(Y, P, wide).predict(P, wide)
    made = sparse.csr_array(wide)
    np.testing.assert_array_equal(
        epiloss.RegionRecalibrator().fit(Y, P, made).predict(P, made), expected
    )


def test_a_classifier_that_takes_sparse_features_can_be_repaired() -> None:
    from sklearn.linear_model import LogisticRegression

    made = sparse.csr_array(DENSE)
    model = epiloss.RegionRecalibratedClassifier(LogisticRegression(), cv=2).fit(made, Y)
    assert model.predict_proba(made).shape == (N, 2)


def test_a_data_frame_of_sparse_columns_stays_sparse_and_gives_the_bits_of_a_dense_one() -> None:
    made = frame(DENSE)
    assert Features.read(made).is_sparse
    expected = epiloss.audit(Y, P, pd.DataFrame(DENSE, columns=made.columns))
    assert epiloss.audit(Y, P, made).to_dict() == expected.to_dict()


def test_other_columns_beside_sparse_ones_are_read_as_ever() -> None:
    city = np.array(["Oslo", "Rome", None], object)[np.arange(N) % 3]
    others = {"city": city, "age": P, "late": pd.arrays.SparseArray(DENSE[:, 0] > 0)}
    dense = pd.DataFrame(DENSE, columns=[f"c{j}" for j in range(D)])
    expected = Features.read(dense.assign(city=city, age=P, late=DENSE[:, 0] > 0))
    found = Features.read(frame(DENSE, **others))
    assert found.is_sparse
    assert (found.names, found.categories, found.dtypes) == (
        expected.names,
        expected.categories,
        expected.dtypes,
    )
    np.testing.assert_array_equal(found.matrix, expected.matrix)
    without = found.without(["city"])
    assert without is not None
    assert without.names == tuple(name for name in found.names if name != "city")
    np.testing.assert_array_equal(without.matrix, np.delete(found.matrix, D, axis=1))


def test_sparse_columns_in_another_order_are_put_in_order() -> None:
    made = frame(DENSE, city=np.array(["a", "b", "c"])[np.arange(N) % 3])
    reference = Features.read(made)
    turned = made.assign(city=np.array(["c", "z", "a"])[np.arange(N) % 3])[made.columns[::-1]]
    found = Features.read(turned, reference)
    assert found.is_sparse
    assert found.names == reference.names
    np.testing.assert_array_equal(found.matrix[:, :D], DENSE)
    assert sorted(set(found.matrix[:, D])) == [0.0, 2.0, 5.0]  # a new category is behind the known ones


@pytest.mark.parametrize("fill", [np.nan, 1.0])
def test_columns_that_leave_out_something_else_than_zeros_are_written_out(fill: float) -> None:
    values = np.array([fill, 0.0, 2.0, fill])
    features = Features.read(pd.DataFrame({"a": pd.arrays.SparseArray(values, fill_value=fill)}))
    assert not features.is_sparse
    np.testing.assert_array_equal(features.matrix[:, 0], values)


def test_a_vector_is_one_feature_and_a_matrix_without_columns_has_rows() -> None:
    np.testing.assert_array_equal(Features.read(sparse.coo_array([0.0, 2.0])).matrix, [[0.0], [2.0]])
    assert Features.read(sparse.csr_array((3, 0))).n_rows == 3


def test_rows_must_be_as_many_as_scores() -> None:
    with pytest.raises(DataError, match="same number of rows, got 1200 and 1199"):
        epiloss.audit(Y, P, sparse.csr_array(DENSE[1:]))


def test_beside_the_features_an_audit_takes_no_more_memory_than_with_a_dense_array() -> None:
    """The values that are kept are held by column and by row, and some are written out at a time."""
    n, d = 8_000, 1_000
    X: Any = sparse.random_array((n, d), density=0.01, format="csr", rng=np.random.default_rng(0))
    g = np.random.default_rng(1)
    p = g.random(n)
    y = (g.random(n) < p).astype(int)

    def peak(features: Any) -> int:
        tracemalloc.start()
        epiloss.audit(y, p, features, n_jobs=1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    dense = X.toarray()  # before anything is counted
    more = peak(X) - peak(dense)
    assert more < dense.nbytes / 4
