"""Repeated labels: the grouping loss is measured, two-sided, and the laws that it obeys."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import epiloss
from epiloss.errors import DataError, OptionError
from epiloss.simulate import Problem, Sigmoid, problems


def ratings(
    problem: Problem, n: int, m: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``m`` labels a row, a fifth of them missing, and the scores."""
    sample = problem.sample(n, random_state=seed)
    generator = np.random.default_rng(seed)
    labels = (generator.random((n, m)) < sample.q[:, None]).astype(float)
    missing = generator.random((n, m)) < 0.2
    missing[:, 0] = False
    labels[missing] = np.nan
    return labels, sample.scores


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sigmoid-smooth", "sigmoid-null", "sigmoid-overconfident"])
def test_every_loss_is_unbiased_and_its_interval_covers_the_truth(name: str) -> None:
    """100 repetitions of 800 rows with up to 4 labels: bias within 3 SE, coverage at least 0.88."""
    problem = problems()[name]
    truth = problem.truth()
    results = [
        epiloss.audit(*ratings(problem, 800, 4, seed), n_bins=5, random_state=seed)
        for seed in range(100)
    ]
    for loss in ("calibration_loss", "grouping_loss", "irreducible_loss", "score"):
        expected = getattr(truth, loss)
        estimates = [getattr(result, loss) for result in results]
        values = np.array([estimate.value for estimate in estimates])
        slack = 1e-4 if loss == "calibration_loss" else 0.0  # what smoothing leaves of the curve
        assert abs(values.mean() - expected) < 3 * values.std() / 10 + slack, loss
        assert np.mean([one.low <= expected <= one.high for one in estimates]) >= 0.88, loss


def test_the_ledger_of_repeated_labels_adds_up() -> None:
    result = epiloss.audit(*ratings(Sigmoid(), 500, 3, 0), n_bins=5)
    total = result.calibration_loss.value + result.grouping_loss.value + result.remainder.value
    assert result.score.value == pytest.approx(total, abs=1e-12)
    assert result.method == "repeated labels"
    assert result.irreducible_loss is not None
    assert "irreducible" in str(result)
    assert "at least" not in str(result)


def test_the_same_seed_gives_the_same_bits() -> None:
    first, second = (epiloss.audit(*ratings(Sigmoid(), 400, 3, 1), n_bins=5) for _ in range(2))
    assert first.to_json() == second.to_json()


def test_repeated_labels_may_be_text_with_holes() -> None:
    labels, scores = ratings(Sigmoid(), 300, 3, 2)
    text = np.full(labels.shape, None, object)
    text[labels == 1], text[labels == 0] = "yes", "no"
    numbers, words = epiloss.audit(labels, scores, n_bins=5), epiloss.audit(text, scores, n_bins=5)
    assert words.grouping_loss == numbers.grouping_loss
    turned = epiloss.audit(text, 1 - scores, n_bins=5, pos_label="no")
    assert turned.irreducible_loss == numbers.irreducible_loss


def test_features_still_give_regions() -> None:
    sample = Sigmoid(perturbation="step").sample(2_000)
    labels = (np.random.default_rng(0).random((2_000, 2)) < sample.q[:, None]).astype(float)
    result = epiloss.audit(labels, sample.scores, sample.X, n_bins=5)
    assert len(result.regions) > 20
    assert result.partition_bound.value > 0.01


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([[0, 1], [2, 1], [0, 0]], "two distinct values"),
        ([[0, 1], [np.nan, np.nan], [0, 1]], "row 1"),
        ([[0, np.nan], [1, np.nan], [0, np.nan]], "two or more"),
    ],
)
def test_bad_ratings_are_told(labels: list[list[float]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        epiloss.audit(labels, [0.1, 0.5, 0.9])


@pytest.mark.parametrize(
    ("options", "words"), [({"rule": "log"}, "brier"), ({"recalibrate": "isotonic"}, "recal")]
)
def test_what_ratings_cannot_follow_is_refused(options: dict[str, str], words: str) -> None:
    labels, scores = ratings(Sigmoid(), 100, 2, 3)
    with pytest.raises(OptionError, match=words):
        epiloss.audit(labels, scores, None, n_bins=3, **options)  # type: ignore[arg-type]


def test_models_are_compared_by_all_of_their_labels() -> None:
    labels, scores = ratings(Sigmoid(), 1_000, 6, 4)
    models = {"given": scores, "bent": scores**2}
    rated = epiloss.compare(labels, models, n_bins=5, baseline="given")
    single = epiloss.compare(labels[:, 0], models, n_bins=5, baseline="given")
    assert rated.differences["stderr"][0] < 0.8 * single.differences["stderr"][0]
