"""Models on the same rows: what is equal differs by nothing, what is worse is found to be."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import epiloss
from epiloss._typing import Floats
from epiloss.analysis.comparison import Comparison
from epiloss.auditing.differences import paired_difference
from epiloss.simulate import MultiClass, Sample, Sigmoid

LOSSES = ["score", "calibration_loss", "grouping_loss"]
STEP = Sigmoid(perturbation="step")


@pytest.fixture(scope="module")
def sample() -> Sample:
    return STEP.sample(2_000)


def noisy(scores: Floats, size: float, seed: int) -> Floats:
    noise = np.random.default_rng(10_000 + seed).normal(size=len(scores))
    return np.asarray(expit(logit(scores) + size * noise), float)


def compared(models: dict[str, Floats], sample: Sample, **options: Any) -> Comparison:
    chosen: dict[str, Any] = {"n_bins": 5, "method": "partition", **options}
    return epiloss.compare(sample.y, models, sample.X, **chosen)


@pytest.mark.parametrize(
    "options",
    [{}, {"rule": "log"}, {"method": "paper"}, {"method": "twin"}, {"recalibrate": "sigmoid"}],
)
def test_identical_models_differ_by_exactly_nothing(sample: Sample, options: dict[str, Any]) -> None:
    result = compared({"one": sample.scores, "same": sample.scores.copy()}, sample, **options)
    assert (result.differences["difference"] == 0).all()
    assert (result.differences["pvalue"] == 1).all()
    assert (result.differences["low"] == 0).all()
    assert (result.differences["high"] == 0).all()


@pytest.mark.parametrize("random_state", [None, np.random.default_rng(3)])
def test_all_models_share_one_draw_of_the_splits(sample: Sample, random_state: Any) -> None:
    models = {"one": sample.scores, "same": sample.scores}
    result = compared(models, sample, random_state=random_state)
    assert (result.differences["difference"] == 0).all()


def test_a_model_with_noisy_scores_is_worse_and_says_in_what(sample: Sample) -> None:
    result = compared({"noisy": noisy(sample.scores, 2.0, 0), "plain": sample.scores}, sample)
    assert result.baseline == "plain"
    assert result.differences["name"].tolist() == ["noisy"] * 3
    assert result.differences["loss"].tolist() == LOSSES
    assert (result.differences["difference"] > 0).all()
    assert (result.differences["low"] > 0).all()
    assert (result.differences["pvalue"] < 1e-3).all()


def test_the_truth_has_less_grouping_loss_and_no_less_calibration(sample: Sample) -> None:
    result = compared({"scores": sample.scores, "truth": sample.q}, sample, baseline="scores")
    score, calibration, grouping = result.differences["difference"]
    assert result.baseline == "scores"
    assert score < -0.02
    assert grouping < -0.02
    assert result.differences["low"][1] < calibration < result.differences["high"][1]
    assert result.differences["pvalue"][1] > 0.05
    exact = -STEP.truth().grouping_loss  # the truth has none
    assert abs(score - exact) < 4 * result.differences["stderr"][0]


def test_the_difference_is_that_of_the_audits_and_changes_sign_with_the_baseline(sample: Sample) -> None:
    models = {"a": noisy(sample.scores, 0.5, 1), "b": sample.scores}
    one, other = (compared(models, sample, baseline=name) for name in models)
    for i, loss in enumerate(LOSSES):
        by_hand = float(getattr(one.audits["b"], loss)) - float(getattr(one.audits["a"], loss))
        assert one.differences["difference"][i] == by_hand == -other.differences["difference"][i]
    assert one.differences["stderr"].tolist() == other.differences["stderr"].tolist()


def test_the_audits_are_those_of_the_single_models(sample: Sample) -> None:
    result = compared({"plain": sample.scores}, sample, random_state=5)
    alone = epiloss.audit(
        sample.y, sample.scores, sample.X, n_bins=5, method="partition", random_state=5
    )
    assert result.audits["plain"].to_dict() == alone.to_dict()
    assert len(result.differences) == 0
    assert "plain" in str(result)


def test_models_that_are_alike_are_told_apart_more_finely_than_models_on_rows_apart(
    sample: Sample,
) -> None:
    models = {name: noisy(sample.scores, 0.1, seed) for seed, name in enumerate("ab")}
    audits = compared(models, sample).audits
    for loss in ("score", "grouping_loss"):
        apart = math.hypot(*(getattr(audits[name], loss).stderr for name in "ab"))
        paired = paired_difference(audits["a"], audits["b"], loss).stderr
        assert paired is not None
        assert paired < 0.75 * apart


def test_the_score_difference_has_the_standard_error_of_a_paired_mean(sample: Sample) -> None:
    models = {"a": noisy(sample.scores, 0.5, 1), "b": sample.scores}
    result = compared(models, sample, baseline="b")
    rows = (models["a"] - sample.y) ** 2 - (models["b"] - sample.y) ** 2
    assert result.differences["difference"][0] == pytest.approx(rows.mean(), abs=1e-9)
    assert result.differences["stderr"][0] == pytest.approx(rows.std(ddof=1) / math.sqrt(len(rows)))


def test_rows_of_one_cluster_count_once(sample: Sample) -> None:
    models = {"a": noisy(sample.scores, 0.5, 1), "b": sample.scores}
    twice = {name: np.tile(scores, 2) for name, scores in models.items()}
    clusters = np.tile(np.arange(len(sample.y)), 2)
    once = compared(models, sample)
    again = epiloss.compare(
        np.tile(sample.y, 2), twice, np.tile(sample.X, (2, 1)), n_bins=5, clusters=clusters
    )
    assert again.differences["stderr"][0] == pytest.approx(once.differences["stderr"][0], rel=1e-6)


def test_models_of_equal_quality_are_told_apart_no_more_often_than_promised() -> None:
    """120 repetitions: at 5%, no loss is told apart in more than 5% and 3 standard errors (11%)."""
    repetitions = 120
    pvalues = []
    for seed in range(repetitions):
        sample = STEP.sample(800, random_state=seed)
        models = {name: noisy(sample.scores, 0.5, 2 * seed + i) for i, name in enumerate("ab")}
        pvalues.append(compared(models, sample, random_state=seed).differences["pvalue"])
    rejected = (np.array(pvalues) < 0.05).mean(axis=0)
    assert (rejected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)).all(), rejected


@pytest.mark.slow
def test_cross_fitted_bounds_near_zero_do_not_differ() -> None:
    """20 repetitions: more than 4 rejections at 5% have a chance of 0.003."""
    pvalues = []
    for seed in range(20):
        sample = Sigmoid(grouping=0.0).sample(800, random_state=seed)
        models = {name: noisy(sample.scores, 0.2, 2 * seed + i) for i, name in enumerate("ab")}
        result = compared(models, sample, method="crossfit", random_state=seed)
        pvalues.append(result.differences["pvalue"][2])
    assert (np.array(pvalues) < 0.05).sum() <= 4


def test_the_table_has_a_row_for_each_model_the_best_score_first(sample: Sample) -> None:
    models = {f"noise {size}": noisy(sample.scores, size, 0) for size in (2.0, 0.0, 1.0)}
    result = compared(models, sample, recalibrate="isotonic")
    assert result.table["name"].tolist() == ["noise 0.0", "noise 1.0", "noise 2.0"]
    assert list(result.audits) == result.table["name"].tolist()
    assert (np.diff(result.table["score"]) > 0).all()
    for suffix in ("", "_recalibrated"):
        parts = [result.table[f"{loss}{suffix}"] for loss in (*LOSSES, "remainder")]
        np.testing.assert_allclose(parts[0], parts[1] + parts[2] + parts[3])
        for loss, value in zip(LOSSES, parts, strict=False):
            assert (result.table[f"{loss}_low{suffix}"] <= value).all()
            assert (value <= result.table[f"{loss}_high{suffix}"]).all()
    recalibrated = result.audits["noise 2.0"].recalibrated
    assert recalibrated is not None
    assert result.table["score_recalibrated"][2] == recalibrated.score.value
    assert result.differences["loss"].tolist() == 2 * [*LOSSES, *(f"{x}_recalibrated" for x in LOSSES)]


def test_several_classes_are_compared_too() -> None:
    sample = MultiClass(n_classes=3).sample(1_500)
    models = {"scores": sample.scores, "flat": (sample.scores + 1 / 3) / 2}
    for task in ("top-label", "classwise"):
        result = compared(models, sample, task=task)
        assert result.baseline == "scores"
        assert result.differences["pvalue"][1] < 1e-3


def test_an_infinite_score_is_last_and_its_difference_unknown(sample: Sample) -> None:
    impossible = np.where(np.arange(len(sample.y)) == 0, 1.0 - sample.y[0], sample.scores)
    result = compared({"impossible": impossible, "plain": sample.scores}, sample, rule="log")
    assert result.table["name"].tolist() == ["plain", "impossible"]
    assert result.differences["difference"][0] == np.inf
    assert np.isnan(result.differences["pvalue"][0])
    assert json.loads(result.to_json())["differences"]["pvalue"][0] is None


def test_json_gives_back_the_dict(sample: Sample, tmp_path: Path) -> None:
    models = {"a": noisy(sample.scores, 0.5, 1), "b": sample.scores}
    result = compared(models, sample, recalibrate="isotonic")
    text = result.to_json(tmp_path / "comparison.json")
    assert json.loads(text) == result.to_dict()
    assert json.loads((tmp_path / "comparison.json").read_text()) == result.to_dict()
    assert result.to_dict()["table"]["score"] == result.table["score"].tolist()


def test_the_text_is_aligned_and_names_all(sample: Sample) -> None:
    models = {"a long name": noisy(sample.scores, 0.5, 1), "b": sample.scores}
    blocks = str(compared(models, sample)).split("\n\n")
    assert len(blocks) == 4
    heads = [block.splitlines() for block in blocks[1:3]]
    assert blocks[3].startswith("By the Brier score, a long name is worse than b by 0.0")
    assert all(line.startswith(("model", "a long name", "b  ")) for line in heads[0])
    assert [line.index("0.") for line in heads[0][1:]] == 2 * [heads[0][0].index("score")]
    assert heads[1][0].startswith("minus b")


@pytest.mark.parametrize(
    ("models", "options", "error", "words"),
    [
        ({}, {}, epiloss.OptionError, r"mapping of names to probabilities, got an empty one\. Pass"),
        ([0.5], {}, epiloss.OptionError, r"mapping of names to probabilities, got a list\. Pass"),
        ({1: [0.5] * 4}, {}, epiloss.OptionError, r"must be text, got 1\. Use"),
        (
            {"a": [0.5] * 4},
            {"baseline": "z"},
            epiloss.OptionError,
            r"one of the models 'a', got 'z'\. Leave it out",
        ),
        (
            {"a": [0.5] * 4, "b": [0.5] * 3},
            {},
            epiloss.DataError,
            r"each of the 4 labels, got 3 rows from 'b'\. Predict",
        ),
        (
            {"a": [0.5] * 3 + [7.0]},
            {},
            epiloss.DataError,
            r"model 'a': scores must lie in \[0, 1\], got 7",
        ),
    ],
)
def test_errors_say_the_rule_the_value_and_the_remedy(
    models: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        epiloss.compare([0, 1, 0, 1], models, **options)


def test_a_score_that_is_infinite_differs_by_no_number(sample: Sample) -> None:
    wrong = np.where(sample.scores < 0.2, 0.0, sample.scores)
    models = {"a": sample.scores, "b": wrong}
    text = str(epiloss.compare(sample.y, models, sample.X, rule="log", method="partition"))
    assert "inf" in text
    assert "nan" not in text
