"""Sample weights: whole ones are repeated rows, and their scale means nothing, wherever they go."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from epiloss import Audit, Estimate, audit, audit_table
from epiloss.simulate import Sigmoid

TERMS = ("plugin", "bias", "explained", "induced")
ESTIMATES = ("score", "calibration_loss", "grouping_loss", "remainder", "partition_bound")

N = 600
_generator = np.random.default_rng(11)
SIDE = _generator.integers(0, 2, N)
X = np.column_stack([10.0 * SIDE, _generator.normal(size=N)]) + _generator.random((N, 2))
S = (1 + 2 * _generator.integers(0, 128, N)) / 256
Y = (_generator.random(N) < np.clip(S + 0.2 * (2 * SIDE - 1), 0, 1)).astype(int)
TIMES = _generator.integers(1, 4, N)
AGAIN = np.repeat(np.arange(N), TIMES)


class BySide:
    """A partition that learns nothing: what is left is the evaluation."""

    def fit(self, X: Any, y: Any) -> None:
        """Learn nothing."""

    def predict(self, X: Any) -> Any:
        """Return the side."""
        return X[:, 0] > 5


def estimates(result: Audit) -> dict[str, Estimate]:
    return {name: getattr(result, name) for name in ESTIMATES if getattr(result, name) is not None}


def numbers(estimate: Estimate) -> list[float]:
    return [value for value in vars(estimate).values() if value is not None]


# k-means finds the two sides, far from each other, whatever the weights are
@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize(
    "partition", ["kmeans", KMeans(2, n_init=3), BySide()], ids=["kmeans", "own kmeans", "custom"]
)
def test_whole_weights_are_repeated_rows_told_to_be_copies(partition: Any, rule: str) -> None:
    options: dict[str, Any] = {
        "partition": partition,
        "rule": rule,
        "n_bins": 4,
        "method": "partition",
        "curve": "isotonic",  # leaving one of five copies out is no matter of weights
    }
    weighted = audit(Y, S, X, sample_weight=TIMES, clusters=np.arange(N), **options)
    repeated = audit(Y[AGAIN], S[AGAIN], X[AGAIN], clusters=AGAIN, **options)
    for name in TERMS:
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-10), name
    for name, estimate in estimates(weighted).items():
        assert estimate.value == pytest.approx(estimates(repeated)[name].value, abs=1e-10), name
    for name in ("share", "score_mean", "label_mean", "plugin", "bias"):
        np.testing.assert_allclose(weighted.level_sets[name], repeated.level_sets[name], atol=1e-10)
    for name in ("share", "score_mean", "label_mean", "plugin"):
        # clusters are numbered by chance
        both = np.sort(weighted.regions[name]), np.sort(repeated.regions[name])
        np.testing.assert_allclose(*both, atol=1e-10)
    assert weighted.explained > 0.01


@pytest.mark.parametrize("partition", ["kmeans", BySide()], ids=["kmeans", "custom"])
def test_whole_weights_have_the_stderr_of_repeated_rows_told_to_be_copies(partition: Any) -> None:
    options: dict[str, Any] = {
        "partition": partition,
        "n_bins": 4,
        "method": "partition",
        "curve": "isotonic",
    }
    weighted = audit(Y, S, X, sample_weight=TIMES, clusters=np.arange(N), **options)
    repeated = audit(Y[AGAIN], S[AGAIN], X[AGAIN], clusters=AGAIN, **options)
    for name, estimate in estimates(weighted).items():
        assert estimate.stderr == pytest.approx(estimates(repeated)[name].stderr, rel=1e-6), name


def test_whole_weights_are_repeated_rows_told_to_be_copies_with_subgroups() -> None:
    options: dict[str, Any] = {"n_bins": 4, "curve": "isotonic", "method": "partition"}
    weighted = audit(Y, S, subgroups=SIDE, sample_weight=TIMES, clusters=np.arange(N), **options)
    repeated = audit(Y[AGAIN], S[AGAIN], subgroups=SIDE[AGAIN], clusters=AGAIN, **options)
    for name in TERMS:
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-10), name
    for name, estimate in estimates(weighted).items():
        assert estimate.value == pytest.approx(estimates(repeated)[name].value, abs=1e-10), name


WEIGHTS = _generator.integers(1, 64, N) / 8
METHODS: dict[str, dict[str, Any]] = {
    "tree": {"partition": "tree"},
    "stump": {"partition": "stump"},
    "kmeans": {"partition": "kmeans"},
    "custom": {"partition": DecisionTreeClassifier(max_depth=2, random_state=0)},
    "subgroups": {"subgroups": SIDE, "X": None},
    "crossfit": {"method": "crossfit"},
    "crossfit with a learner": {
        "method": "crossfit",
        "learner": DecisionTreeRegressor(max_depth=4, min_samples_leaf=20),
    },
}
SLOW = ("crossfit", "log")  # boosting on weights takes long, and meets the rule in no other way


@cache
def scaled(name: str, rule: str, scale: float | None) -> Audit:
    """Return the audit with weights of some scale, or with none."""
    weights = None if scale is None else WEIGHTS * scale
    options = {"X": X, "method": "partition", "n_bins": 4, **METHODS[name]}
    return audit(Y, S, sample_weight=weights, rule=rule, **options)


CASES = [(name, rule) for name in METHODS for rule in ("brier", "log") if (name, rule) != SLOW]


@pytest.mark.parametrize(("name", "rule"), CASES)
def test_the_scale_of_the_weights_changes_neither_values_nor_intervals(name: str, rule: str) -> None:
    once, other = scaled(name, rule, 1.0), scaled(name, rule, 3.0)
    assert once.grouping_loss.value > 0.005
    for term in TERMS:
        assert getattr(other, term) == pytest.approx(getattr(once, term), abs=1e-9), term
    for term, estimate in estimates(once).items():
        again = numbers(estimates(other)[term])
        assert again == pytest.approx(numbers(estimate), rel=1e-5, abs=1e-9), term


@pytest.mark.parametrize("name", METHODS)
def test_twice_the_weights_are_the_same_bits(name: str) -> None:
    assert scaled(name, "brier", 1.0).to_json() == scaled(name, "brier", 2.0).to_json()


@pytest.mark.parametrize("name", METHODS)
def test_weights_matter(name: str) -> None:
    weighted = estimates(scaled(name, "brier", 1.0))
    for term, estimate in estimates(scaled(name, "brier", None)).items():
        assert estimate.value != weighted[term].value
        assert estimate.stderr != weighted[term].stderr


def test_weights_that_are_all_the_same_are_none() -> None:
    sample = Sigmoid(perturbation="step").sample(1_000)
    rows = sample.y, sample.scores, sample.X
    table = {"y": sample.y, "p": sample.scores, "a": sample.X[:, 0]}
    plain, streamed = str(audit(*rows)), audit_table(pa.table(table), label="y", score="p")
    for weights in (np.full(1_000, 2.0), np.full(1_000, 1e-3)):
        assert str(audit(*rows, sample_weight=weights)) == plain
        weighted = audit_table(
            pa.table({**table, "w": weights}), label="y", score="p", sample_weight="w"
        )
        assert weighted.grouping_loss == streamed.grouping_loss
