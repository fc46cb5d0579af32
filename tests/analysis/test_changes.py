"""Two data sets: whether the population changed, or the labels at equal features, or both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import epiloss
from epiloss.analysis.changes import Changes, common_population
from epiloss.analysis.two_samples import pooled, read_two_samples
from epiloss.estimate import Estimate
from epiloss.estimation.options import Options, read_options
from epiloss.input.tasks import BinaryProblem, binary_problems


def drawn(
    n: int, seed: int, *, a: float = 1.0, mean: float = 0.0, grouping: float = 0.15, rate: float = 0.0
) -> tuple[Any, Any, Any]:
    """Draw scores by a beta distribution; labels depend on the sign of one of three features."""
    generator = np.random.default_rng(seed)
    scores = 0.2 + 0.6 * generator.beta(a, 1.0, n)
    X = generator.normal(size=(n, 3)) + np.array([0.0, mean, 0.0])
    q = np.clip(scores + rate + grouping * np.sign(X[:, 1]), 0, 1)
    return (generator.random(n) < q).astype(int), scores, X


def problems(reference: Any, current: Any) -> tuple[BinaryProblem, BinaryProblem, Options]:
    options = read_options({}, "drift")
    both = read_two_samples(reference, current, options.reading)
    old, new = (binary_problems(one, options.rule)[0] for one in both)
    return old, new, options


def changed(reference: Any, current: Any) -> Changes:
    old, new, options = problems(reference, current)
    return common_population(old, new, options).changes


@pytest.mark.parametrize(
    ("new", "kind"),
    [
        ({}, "nothing"),
        ({"a": 3.0}, "population"),
        ({"mean": 0.8}, "population"),
        ({"grouping": 0.28}, "losses"),
        ({"rate": 0.12}, "losses"),
        ({"a": 3.0, "grouping": -0.15}, "both"),
    ],
    ids=["nothing", "scores", "features", "segment", "rates", "both"],
)
def test_what_changed_is_told(new: dict[str, float], kind: str) -> None:
    assert changed(drawn(2_000, 0), drawn(2_000, 1, **new)).kind == kind


@pytest.mark.slow
def test_labels_are_seldom_said_to_change_where_only_the_population_does() -> None:
    """30 repetitions: at 5%, no more than 5 (0.3% of correct tests would have more)."""
    found = [
        changed(drawn(700, 2 * seed), drawn(700, 2 * seed + 1, a=3.0, mean=0.7)).pvalue_labels
        for seed in range(30)
    ]
    assert sum(one <= 0.05 for one in found) <= 5


def test_on_a_common_population_the_calibration_loss_did_not_change() -> None:
    """Only features changed: the curve of the scores did, but not that of rows that are alike."""
    result = epiloss.drift(drawn(4_000, 0), drawn(4_000, 1, mean=0.8), n_bins=5)
    assert result.changes is not None
    assert (result.difference["calibration_loss"].pvalue or 0.0) < 0.01
    assert (result.changes.differences["calibration_loss"].pvalue or 0.0) > 0.05
    assert "on the common population" in str(result)
    assert result.to_dict()["changes"]["kind"] == "population"


def test_weights_make_both_populations_one() -> None:
    old, new, options = problems(drawn(3_000, 0), drawn(3_000, 1, a=3.0, mean=0.7))
    both = common_population(old, new, options)
    assert old.features is not None
    assert new.features is not None
    for before, after in (
        (old.scores, new.scores),
        (old.features.column(1), new.features.column(1)),
    ):
        apart = abs(before.mean() - after.mean())
        together = abs(
            np.average(before, weights=both.weights[0]) - np.average(after, weights=both.weights[1])
        )
        assert together < 0.15 * apart
    assert 0.5 < both.changes.overlap < 0.95


def test_weights_and_clusters_count() -> None:
    """Every row twice, as a cluster of two: as sure as once. Taken for independent rows: surer."""
    reference, current = drawn(600, 0), drawn(600, 1, rate=0.06)

    def twice(data: Any, **more: Any) -> dict[str, Any]:
        y, scores, X = (np.repeat(one, 2, axis=0) for one in data)
        return {"y_true": y, "y_prob": scores, "X": X, **more}

    cluster = np.repeat(np.arange(600), 2)
    once = changed(reference, current)
    clustered = changed(twice(reference, clusters=cluster), twice(current, clusters=cluster))
    assert clustered.pvalue_labels == pytest.approx(once.pvalue_labels, abs=0.15)
    weighted = changed({**_named(reference), "sample_weight": np.full(600, 3.0)}, {**_named(current)})
    assert weighted.pvalue_scores == pytest.approx(once.pvalue_scores, abs=0.02)


def _named(data: Any) -> dict[str, Any]:
    return dict(zip(("y_true", "y_prob", "X"), data, strict=True))


def test_categories_that_are_new_are_pooled_after_the_others() -> None:
    reference = ([0, 1, 1], [0.2, 0.7, 0.4], {"site": ["a", "b", "b"], "age": [30, 40, 50]})
    current = ([1, 0], [0.5, 0.5], {"age": [20, 30], "site": ["b", "c"]})
    old, new, _ = problems(reference, current)
    both = pooled(old, new)
    assert both.features is not None
    assert both.features.column(0).tolist() == [0.0, 1.0, 1.0, 1.0, 3.0]
    assert len(both.features.categories[0]) == 4


def test_one_score_for_all_rows_has_no_distribution_to_change() -> None:
    reference, current = drawn(400, 0), drawn(400, 1, grouping=0.3)
    same = [(y, np.full(400, 0.5), X) for y, _, X in (reference, current)]
    found = changed(*same)
    assert found.pvalue_scores == 1.0


def test_the_sentence_names_the_losses_that_changed_and_how_little_is_in_common() -> None:
    loss = {
        "grouping_loss": Estimate(0.03, 0.004, 0.022, 0.038, 1e-9),
        "score": Estimate(0.0, pvalue=1.0),
    }
    told = str(Changes(1e-30, 0.2, 0.001, 0.05, loss))
    assert told.startswith("The population and the losses changed: scores have different distributions")
    assert "p < 1e-16" in told
    assert "the grouping loss changed by +0.0300 [+0.0220, +0.0380]" in told
    assert "overlap 5%" in told


def test_losses_that_changed_without_the_labels_are_said_to_be_unconfirmed() -> None:
    def told(pvalue: float) -> str:
        losses = {
            "calibration_loss": Estimate(0.016, 0.006, 0.004, 0.028, pvalue),
            "grouping_loss": Estimate(0.007, 0.003, 0.001, 0.013, 0.2),
            "score": Estimate(0.002, pvalue=0.6),
        }
        return str(Changes(0.5, 0.5, 0.12, 0.9, losses))

    assert told(0.03) == "No change was found in the population or in the losses."  # one of three tests
    assert "the calibration loss changed by +0.01600 [+0.00400, +0.02800], which the test" in told(0.01)
    assert "does not confirm" in told(0.01)
