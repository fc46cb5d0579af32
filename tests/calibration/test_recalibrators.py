"""Recalibrators: each learns its family's best map, weights count, and classes are scaled together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax

import epiloss
from epiloss._typing import Codes, Floats
from epiloss.calibration.class_recalibrators import (
    ClassTemperature,
    RecalibratedTogether,
    VectorScaling,
    resolve_class_recalibrator,
)
from epiloss.calibration.recalibrators import (
    RECALIBRATORS,
    BetaRecalibrator,
    TemperatureRecalibrator,
    resolve_recalibrator,
)
from epiloss.errors import OptionError
from epiloss.simulate import MultiClass, Sigmoid


def drawn(n: int = 4_000, *, slope: float = 0.6) -> tuple[Floats, Floats]:
    """Return scores that are too sure, and labels."""
    generator = np.random.default_rng(0)
    scores = generator.beta(1.0, 1.5, n)
    return scores, (generator.random(n) < expit(slope * logit(scores))).astype(float)


def classes_drawn(n: int = 3_000) -> tuple[Floats, Codes]:
    generator = np.random.default_rng(1)
    scores = softmax(2 * generator.normal(size=(n, 3)), axis=1)
    truth = softmax(np.log(scores) * [0.5, 0.8, 0.5] + [0.0, 0.4, -0.3], axis=1)
    labels = (generator.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    return scores, np.minimum(labels, 2)


def log_loss(scores: Floats, labels: Floats) -> float:
    return -float(np.mean(np.log(np.where(labels == 1, scores, 1 - scores))))


@pytest.mark.parametrize("name", RECALIBRATORS)
def test_every_recalibrator_lowers_the_loss_and_keeps_the_order(name: str) -> None:
    scores, labels = drawn()
    model = resolve_recalibrator(name)
    assert model is not None
    model.fit(scores, labels)
    new = model.predict(scores)
    assert np.mean((new - labels) ** 2) < np.mean((scores - labels) ** 2) - 0.005
    assert (np.diff(new[np.argsort(scores)]) >= -1e-12).all()
    assert ((new >= 0) & (new <= 1)).all()


@pytest.mark.parametrize("name", RECALIBRATORS)
def test_weights_count_as_copies(name: str) -> None:
    scores, labels = drawn(300)
    times = np.random.default_rng(2).integers(1, 4, 300)
    weighted: Any = resolve_recalibrator(name)
    copied: Any = resolve_recalibrator(name)
    weighted.fit(scores, labels, sample_weight=times.astype(float))
    copied.fit(np.repeat(scores, times), np.repeat(labels, times))
    np.testing.assert_allclose(weighted.predict(scores), copied.predict(scores), atol=2e-3)


def test_temperature_has_the_least_loss_of_all_temperatures() -> None:
    scores, labels = drawn()
    model = TemperatureRecalibrator().fit(scores, labels)
    inverse = model.model.inverse_temperature
    # at the optimum the log-odds are uncorrelated with what is left of the labels
    assert np.mean(logit(scores) * (labels - expit(inverse * logit(scores)))) == pytest.approx(
        0, abs=1e-6
    )
    assert inverse == pytest.approx(0.6, abs=0.05)
    assert model.predict(np.array([0.5]))[0] == 0.5


def test_temperature_is_that_of_scikit_learn() -> None:
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
        pytest.skip("scikit-learn has temperature scaling from 1.8 on")
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """A classifier whose features are its log-probabilities."""

        classes_ = np.arange(3)

        def fit(self, X: Floats, y: Codes) -> Given:
            return self

        def decision_function(self, X: Floats) -> Floats:
            return X

        def predict(self, X: Floats) -> Codes:
            return np.asarray(X.argmax(axis=1), np.int64)

        def __sklearn_is_fitted__(self) -> bool:
            return True

    scores, labels = classes_drawn()
    theirs = CalibratedClassifierCV(FrozenEstimator(Given()), method="temperature", ensemble=False)
    theirs.fit(np.log(scores), labels)
    ours = ClassTemperature().fit(scores, labels)
    np.testing.assert_allclose(ours.predict(scores), theirs.predict_proba(np.log(scores)), atol=1e-6)


def test_beta_has_the_least_loss_of_its_family() -> None:
    scores, labels = drawn()
    ours = log_loss(BetaRecalibrator().fit(scores, labels).predict(scores), labels)

    def loss(coefficients: Floats) -> float:
        a, b, c = coefficients
        return log_loss(expit(c + a * np.log(scores) - b * np.log1p(-scores)), labels)

    best = minimize(loss, [1.0, 1.0, 0.0], bounds=[(0, None), (0, None), (None, None)])
    assert ours <= best.fun + 1e-7


def test_beta_never_turns_the_order_round() -> None:
    scores, labels = drawn(slope=-0.6)
    model = BetaRecalibrator().fit(scores, labels)
    assert (model.coefficients[1:] == 0).all()
    np.testing.assert_allclose(model.predict(scores), labels.mean(), atol=1e-9)


def test_beta_leaves_out_the_side_that_would_be_negative() -> None:
    generator = np.random.default_rng(3)
    scores = generator.random(4_000)
    labels = (generator.random(4_000) < expit(2 * np.log(scores) + np.log1p(-scores))).astype(float)
    model = BetaRecalibrator().fit(scores, labels)
    assert model.coefficients[1] > 0
    assert model.coefficients[2] == 0


def test_vector_scaling_has_no_gradient_left_and_beats_temperature() -> None:
    scores, labels = classes_drawn()
    model = VectorScaling().fit(scores, labels)
    new, hit = model.predict(scores), labels[:, None] == np.arange(3)
    np.testing.assert_allclose((new - hit).mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(((new - hit) * np.log(scores)).mean(axis=0), 0.0, atol=1e-5)

    def loss(probability: Floats) -> float:
        return -float(np.log(probability[hit]).mean())

    warm = ClassTemperature().fit(scores, labels).predict(scores)
    assert loss(new) < loss(warm) - 0.005 < loss(scores)
    np.testing.assert_allclose(new.sum(axis=1), 1.0, atol=1e-12)


def test_vector_scaling_recovers_its_coefficients() -> None:
    """One sample of 3,000 rows; slopes within 0.1, four standard errors."""
    scores, labels = classes_drawn()
    model = VectorScaling().fit(scores, labels)
    np.testing.assert_allclose(model.slopes, [0.5, 0.8, 0.5], atol=0.1)


def test_temperature_keeps_the_top_label() -> None:
    scores, labels = classes_drawn()
    new = ClassTemperature().fit(scores, labels).predict(scores)
    np.testing.assert_array_equal(new.argmax(axis=1), scores.argmax(axis=1))


def test_two_classes_are_a_binary_task() -> None:
    scores, labels = drawn()
    both = np.column_stack([1 - scores, scores])
    classes = ClassTemperature().fit(both, labels.astype(int)).predict(both)[:, 1]
    np.testing.assert_allclose(
        TemperatureRecalibrator().fit(scores, labels).predict(scores), classes, atol=1e-12
    )
    assert np.isfinite(log_softmax(np.log(both), axis=1)).all()


@pytest.mark.parametrize("name", ["temperature", "beta"])
def test_an_audit_takes_the_recalibrator_by_name(name: str) -> None:
    sample = Sigmoid(perturbation="step").sample(2_000)
    stretched = expit(2 * logit(np.clip(sample.scores, 1e-6, 1 - 1e-6)))
    result = epiloss.audit(sample.y, stretched, recalibrate=name)
    assert result.recalibrated is not None
    assert result.recalibrated.calibration_loss.value < result.calibration_loss.value / 3
    assert result.options["recalibrate"] == name


def too_sure_of_classes(n: int = 2_000) -> tuple[Codes, Floats, Floats]:
    """Return labels, features and scores that are too far from even."""
    sample = MultiClass().sample(n)
    return sample.y, sample.X, softmax(2 * np.log(np.maximum(sample.scores, 1e-6)), axis=1)


@pytest.mark.parametrize("task", ["classwise", "top-label"])
@pytest.mark.parametrize("name", ["isotonic", "sigmoid", "beta", "temperature", "vector"])
def test_every_recalibrator_cures_scores_of_classes_that_are_too_sure(name: str, task: str) -> None:
    y, _, scores = too_sure_of_classes()
    result = epiloss.audit(y, scores, task=task, recalibrate=name, method="partition")
    assert result.recalibrated is not None
    assert result.recalibrated.calibration_loss.value < result.calibration_loss.value / 3


@pytest.mark.parametrize("name", ["temperature", "vector"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["partition", "twin"])
def test_classes_are_recalibrated_together_by_rows_that_are_not_evaluated(
    name: str, weighted: bool, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score is that of the recalibrated vectors, each half fitted on the other."""
    y, X, scores = too_sure_of_classes(600)
    weights = np.random.default_rng(0).exponential(size=600) + 0.1 if weighted else None
    fitted: list[tuple[Codes, Floats | None]] = []
    learn = RecalibratedTogether._all_learned_on

    def recorded(self: RecalibratedTogether, rows: Codes) -> Floats:
        if rows.tobytes() not in self.cache:
            fitted.append((rows, None if self.weights is None else self.weights[rows]))
        return learn(self, rows)

    monkeypatch.setattr(RecalibratedTogether, "_all_learned_on", recorded)
    options: dict[str, Any] = {"task": "classwise", "recalibrate": name, "method": method}
    result = epiloss.audit(y, scores, X, sample_weight=weights, **options)
    assert len(fitted) == 2, "once for each half, not for each class"
    halves = [rows for rows, _ in fitted]
    assert sorted(np.concatenate(halves)) == list(range(600))
    hit = (y[:, None] == np.arange(scores.shape[1])).astype(float)
    losses = []
    for (learned, some), held_out in zip(fitted, halves[::-1], strict=True):
        model = resolve_class_recalibrator(name).fit(scores[learned], y[learned], some)
        error = ((model.predict(scores[held_out]) - hit[held_out]) ** 2).sum(axis=1)
        losses.append(np.average(error, weights=None if weights is None else weights[held_out]))
    assert result.recalibrated is not None
    # each half counts by its rows, or their weight
    assert min(losses) <= result.recalibrated.score.value <= max(losses)
    assert result.recalibrated.score.value == pytest.approx(np.mean(losses), rel=2e-3)


def test_scaling_a_vector_has_no_meaning_for_one_score() -> None:
    sample = Sigmoid().sample(300)
    with pytest.raises(OptionError, match=r"'vector' needs the scores of several classes.*'beta'"):
        epiloss.audit(sample.y, sample.scores, recalibrate="vector")
    several = MultiClass().sample(300)
    for name in ("temperature", "vector"):
        with pytest.raises(OptionError, match="'joint' conditions on the whole score vector"):
            epiloss.audit(several.y, several.scores, task="joint", recalibrate=name)


def test_files_and_comparisons_recalibrate_classes_together(tmp_path: Path) -> None:
    y, X, scores = too_sure_of_classes(500)
    names = [f"p{k}" for k in range(scores.shape[1])]
    path = tmp_path / "rows.csv"
    rows = np.column_stack([y, X[:, 0], scores])
    np.savetxt(path, rows, delimiter=",", header=",".join(["y", "x", *names]), comments="")
    options: dict[str, Any] = {"task": "classwise", "recalibrate": "vector", "method": "partition"}
    filed = epiloss.audit_table(path, label="y", score=names, **options).recalibrated
    surer = scores**2 / (scores**2).sum(axis=1)[:, None]
    compared = epiloss.compare(y, {"one": scores, "other": surer}, **options)
    alone = epiloss.audit(y, scores, **options).recalibrated
    one = compared.audits["one"].recalibrated
    assert filed is not None
    assert alone is not None
    assert one is not None
    assert one.score == alone.score
    assert filed.score.value == pytest.approx(alone.score.value, rel=0.05)


def test_unknown_names_are_told_the_known_ones() -> None:
    with pytest.raises(OptionError, match="'isotonic', 'sigmoid', 'temperature', 'beta', 'vector'"):
        resolve_recalibrator("platt")
    with pytest.raises(OptionError, match="'temperature' or 'vector'"):
        resolve_class_recalibrator("beta")
