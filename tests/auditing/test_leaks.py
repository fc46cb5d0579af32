"""A column that nearly tells the label is the verdict, whatever the scores; an honest one is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn import datasets

import epiloss
from epiloss.auditing.judgement import LEAK
from epiloss.auditing.leaks import LEAKS, _Sample, find_leak
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem, Reading


def drawn(n: int, base: float, *, flipped: float = 0.0, seed: int = 0) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(seed)
    u = generator.normal(size=n)
    q = expit(logit(base) + 1.2 * u)
    y = (generator.random(n) < q).astype(int)
    told = np.where(generator.random(n) < flipped, 1 - y, y)
    X = {
        "u": u + generator.normal(size=n),
        "refund": told + 0.05 * generator.normal(size=n),
        "noise": generator.normal(size=n),
    }
    return y, q, X


def read(y: Any, scores: Any, X: Any, **more: Any) -> Problem:
    return read_problem(y, scores, X, Reading(), **more)


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("scores", ["good", "constant", "too sure", "knows"])
def test_a_leak_is_the_verdict_whatever_the_scores(rule: str, scores: str) -> None:
    y, q, X = drawn(1_000, 0.4)
    given = {
        "good": q,
        "constant": np.full(len(y), y.mean()),
        "too sure": expit(3 * logit(q)),
        "knows": np.where(y == 1, 0.99, 0.01),
    }[scores]
    verdict = epiloss.audit(y, given, X, rule=rule).verdict
    assert verdict.kind == LEAK
    assert verdict.sentence.startswith("Check for a leak: column 'refund' alone explains 9")


@pytest.mark.parametrize("method", ["twin", "crossfit", "partition"])
@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("constant", [False, True])
def test_with_a_leak_no_estimate_leaves_what_is_possible(method: str, rule: str, constant: bool) -> None:
    """By the log-loss the cross-fitted value ran to -1e49, with an interval up to 15."""
    y, q, X = drawn(600, 0.5)
    result = epiloss.audit(y, np.full(600, 0.5) if constant else q, X, rule=rule, method=method)
    most = result.bounds.grouping_loss_high
    for name in ("score", "calibration_loss", "grouping_loss", "remainder", "partition_bound"):
        loss = getattr(result, name)
        assert -0.05 <= loss.value <= 1.05 * max(most, result.score.value), name
        assert loss.low <= loss.value <= loss.high, name
    if method != "partition":
        assert (result.grouping_loss.high or 0.0) <= most


@pytest.mark.parametrize("seed", range(5))
def test_where_there_is_nothing_values_lie_in_their_intervals(seed: int) -> None:
    y, q, X = drawn(500, 0.5, seed=seed)
    result = epiloss.audit(y, q, {"noise": X["noise"]}, method="crossfit")
    loss = result.grouping_loss
    assert loss.low is not None
    assert loss.high is not None
    assert loss.low <= loss.value <= loss.high


@pytest.mark.parametrize("base", [0.5, 0.05, 0.01])
def test_leaks_of_rare_outcomes_and_with_a_few_wrong_labels_are_found(base: float) -> None:
    y, q, X = drawn(4_000, base, flipped=0.01 * base)
    found = find_leak(read(y, q, X))
    assert found is not None
    assert found.column == "refund"
    assert found.share >= LEAKS


def test_a_category_and_a_class_of_several_are_found() -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 4, 2_000)
    scores = generator.dirichlet(np.ones(4), 2_000)
    codes = np.array(["north", "south", "east", "west"])[y]
    found = find_leak(read(y, scores, {"noise": generator.normal(size=2_000), "region": codes}))
    assert found is not None
    assert found.column == "region"
    verdict = epiloss.audit(y, scores, {"region": codes}).verdict
    assert verdict.kind == LEAK


@pytest.mark.parametrize("name", ["load_iris", "load_breast_cancer", "load_wine", "load_digits"])
def test_strong_honest_features_are_no_leak(name: str) -> None:
    data = getattr(datasets, name)()
    n_classes = len(set(data.target))
    scores = np.full((len(data.target), n_classes), 1 / n_classes)
    assert find_leak(read(data.target, scores[:, 1] if n_classes == 2 else scores, data.data)) is None


@pytest.mark.parametrize(("name", "share"), [("load_iris", 0.77), ("load_breast_cancer", 0.71)])
def test_how_much_strong_features_explain(name: str, share: float) -> None:
    data = getattr(datasets, name)()
    n_classes = len(set(data.target))
    scores = np.full((len(data.target), n_classes), 1 / n_classes)
    problem = read(data.target, scores[:, 1] if n_classes == 2 else scores, data.data)
    sample, features = _Sample.of(problem), problem.features
    assert sample is not None
    assert features is not None
    inside = features.take(sample.rows)
    most = max(sample.explained(inside, j) for j in range(features.n_columns))
    assert most == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("spread", [0.35, 0.6])
def test_a_number_that_only_separates_classes_well_is_no_leak(spread: float) -> None:
    """At 0.35 one column alone has an AUC of 0.98."""
    generator = np.random.default_rng(1)
    y = (generator.random(3_000) < 0.5).astype(int)
    X = {"strong": y + spread * generator.normal(size=3_000)}
    assert find_leak(read(y, np.full(3_000, 0.5), X)) is None


def test_identifiers_and_clusters_are_no_leak() -> None:
    """A patient's label is the same in all rows: between halves of patients the number tells nothing."""
    generator = np.random.default_rng(2)
    patient = np.repeat(np.arange(300), 8)
    y = (generator.random(300) < 0.5).astype(int)[patient]
    X = {"patient": np.array([f"p{i}" for i in range(300)])[patient]}
    scores = np.full(len(y), 0.5)
    assert find_leak(read(y, scores, X, clusters=patient)) is None


def test_weights_count() -> None:
    """The column tells the label of heavy rows alone."""
    generator = np.random.default_rng(3)
    n = 2_000
    y = (generator.random(n) < 0.5).astype(int)
    heavy = generator.random(n) < 0.5
    X = {"told": np.where(heavy, y, generator.integers(0, 2, n)).astype(float)}
    scores = np.full(n, 0.5)
    assert find_leak(read(y, scores, X)) is None
    found = find_leak(read(y, scores, X, sample_weight=np.where(heavy, 1.0, 1e-4)))
    assert found is not None
