"""Small networks: each learns, ends in a linear layer, and is trained once; ensembles average."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from study_sources import time_noted
from vision_data import Labelled

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

import vision_judges as judges  # noqa: E402  which need torch
import vision_small as small  # noqa: E402


def coloured(n: int, seed: int = 0) -> Labelled:
    """Images whose class is their colour."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 10
    level = 40 + 40 * np.array([labels % 5, labels // 5 * 2, labels % 3]).T
    images = np.clip(generator.normal(level[:, None, None, :], 30, (n, 32, 32, 3)), 0, 255)
    return Labelled(images.astype(np.uint8), labels)


@pytest.mark.parametrize("name", small.RECIPES)
def test_each_network_ends_in_a_linear_layer_and_takes_a_step(name: str) -> None:
    recipe = replace(small.RECIPES[name], epochs=1)
    weights = small.trained(recipe, coloured(256), seed=0)
    first = small.seeded(recipe.build, 0).state_dict()
    assert any(not np.array_equal(weights[key], first[key].numpy()) for key in weights)
    network = small.seeded(recipe.build, 0).eval()
    logits, X = judges.passed(network, coloured(30).images, small.as_inputs)
    assert logits.shape == (30, 10)
    last = [one for one in network.modules() if isinstance(one, torch.nn.Linear)][-1]
    rebuilt = X @ last.weight.detach().numpy().T + last.bias.detach().numpy()
    np.testing.assert_allclose(rebuilt, logits, rtol=1e-4, atol=1e-5)


def test_a_network_learns_and_the_same_seed_learns_the_same(tmp_path: Path) -> None:
    # ten colours; five epochs of 1,280 images are enough for nine tenths of 500
    recipe = replace(small.RECIPES["2 convolutions, batch norm"], epochs=5)
    data, test = coloured(1_280), coloured(500, seed=1)
    network = small.learned(recipe, data, 0, tmp_path)
    logits, _ = judges.passed(network, test.images, small.as_inputs)
    assert (logits.argmax(1) == test.labels).mean() > 0.9
    again = small.trained(recipe, data, 0)
    kept = small.learned(recipe, data, 0, tmp_path).state_dict()
    assert all(np.array_equal(again[name], kept[name].numpy()) for name in again)


def test_an_ensemble_averages_probabilities_and_is_judged_once(tmp_path: Path) -> None:
    recipe = replace(small.RECIPES["linear model"], epochs=1)
    data, images = coloured(256), coloured(40, seed=1).images
    judge = judges.ensemble(recipe, data, tmp_path, 0, members=2)
    found = judge.outputs(lambda: images, "part", tmp_path)
    each = [judges.trained_here(recipe, data, tmp_path, seed).predict(images)["p_0"] for seed in (0, 1)]
    np.testing.assert_allclose(found["p_0"], np.mean(each, axis=0))
    assert found["X"].shape == (40, 2 * 192)

    def never() -> np.ndarray:
        raise AssertionError("the cache has it")

    again = judge.outputs(never, "part", tmp_path)
    np.testing.assert_array_equal(again["p_0"], found["p_0"])
    assert time_noted(tmp_path) > 0


def test_a_linear_head_and_components_are_those_of_the_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judges, "PIXELS", 32)
    network = small.seeded(small.RECIPES["perceptron"].build, 0)
    data = coloured(600)
    head = judges.linear_head(network, data)
    _, X = judges.passed(network, data.images, judges.Resized(32))
    p = judges.softmax(X @ head["weights"] + head["bias"])
    assert (p.argmax(1) == data.labels).mean() > 0.9
    projected = (X - head["centre"]) @ head["components"]
    assert projected.shape == (600, judges.N_COMPONENTS)
    np.testing.assert_allclose(projected.mean(axis=0), 0, atol=1e-4)
