"""Networks small enough to train here: a linear model, a perceptron, convolutions and a transformer.

Each takes images from -1 to 1 (n, 3, 32, 32), returns ten logits, and ends in a linear layer; the input
of this layer is the feature vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.integrations.extraction.frameworks import torch_module
from protocol import progress
from study_sources import kept
from vision_data import Labelled

BATCH = 128
N_CLASSES = 10


@dataclass(frozen=True)
class Recipe:
    """A network that is trained here: how it is built, and how long and how fast it learns."""

    name: str
    build: Callable[[], Any]
    epochs: int
    rate: float = 2e-3

    @property
    def file(self) -> str:
        """How its files in the cache begin."""
        return f"{re.sub(r'[^a-z0-9]+', '-', self.name.lower())}-{self.epochs}"


def linear() -> Any:
    """Return a linear model of the mean colours of 8 x 8 cells: 192 features."""
    nn = torch_module().nn
    return nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, N_CLASSES))


def perceptron() -> Any:
    """Return two hidden layers of all pixels: 128 features."""
    nn = torch_module().nn
    hidden = (nn.Linear(3072, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(128, N_CLASSES))


def _convolution(n_in: int, n_out: int, normalised: bool, stride: int = 1) -> Iterator[Any]:
    nn = torch_module().nn
    yield nn.Conv2d(n_in, n_out, 3, stride, padding=1)
    if normalised:
        yield nn.BatchNorm2d(n_out)
    yield nn.ReLU()


def two_layers(normalised: bool) -> Any:
    """Return two convolutions, with batch normalisation or without: 64 features."""
    nn = torch_module().nn
    return nn.Sequential(
        *_convolution(3, 16, normalised),
        nn.MaxPool2d(2),
        *_convolution(16, 32, normalised),
        nn.MaxPool2d(4),
        *(nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, N_CLASSES)),
    )


def six_layers(normalised: bool) -> Any:
    """Return six convolutions, with batch normalisation or without: 64 features.

    The first one halves the image, which makes training four times as fast.
    """
    nn = torch_module().nn
    layers: list[Any] = []
    for n_in, n_out in ((3, 16), (16, 32), (32, 64)):
        layers += _convolution(n_in, n_out, normalised, 2 if n_in == 3 else 1)
        layers += _convolution(n_out, n_out, normalised)
        layers.append(nn.MaxPool2d(2) if n_out < 64 else nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, N_CLASSES))


def transformer(width: int = 64, depth: int = 3, patch: int = 8) -> Any:
    """Return a vision transformer of 16 patches: 64 features, the mean over patches."""
    torch = torch_module()
    nn = torch.nn

    class Patches(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Conv2d(3, width, patch, patch)
            self.place = nn.Parameter(0.02 * torch.randn(1, (32 // patch) ** 2, width))

        def forward(self, x: Any) -> Any:
            return self.embed(x).flatten(2).transpose(1, 2) + self.place

    class Mean(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.mean(dim=1)

    options: dict[str, Any] = {"dropout": 0.0, "activation": "gelu", "batch_first": True}
    blocks = [
        nn.TransformerEncoderLayer(width, 4, 2 * width, norm_first=True, **options) for _ in range(depth)
    ]
    return nn.Sequential(Patches(), *blocks, nn.LayerNorm(width), Mean(), nn.Linear(width, N_CLASSES))


RECIPES: Mapping[str, Recipe] = {
    one.name: one
    for one in (
        Recipe("linear model", linear, 6),
        Recipe("perceptron", perceptron, 8, 1e-3),
        Recipe("2 convolutions", lambda: two_layers(False), 10),
        Recipe("2 convolutions, batch norm", lambda: two_layers(True), 6),
        Recipe("6 convolutions", lambda: six_layers(False), 6),
        Recipe("6 convolutions, batch norm", lambda: six_layers(True), 6),
        Recipe("small ViT", transformer, 6, 1e-3),
    )
}


ENSEMBLE, MEMBERS = "2 convolutions, batch norm", 3  # of the deep ensemble, by their seeds


def seeded(build: Callable[[], Any], seed: int) -> Any:
    """Return a network whose first weights are those of the seed."""
    torch_module().manual_seed(seed)
    return build()


def as_inputs(images: Any) -> Any:
    """Return bytes (n, height, width, channels) as inputs from -1 to 1."""
    return images.permute(0, 3, 1, 2).float() / 127.5 - 1


def trained(recipe: Recipe, data: Labelled, seed: int) -> dict[str, NDArray[Any]]:
    """Return the weights of a network that has learned.

    By Adam with a rate that rises and falls to 0, from images of which half are mirrored.
    """
    torch = torch_module()
    torch.set_num_threads(1)
    network = seeded(recipe.build, seed).train()
    images, labels = torch.from_numpy(np.array(data.images)), torch.from_numpy(np.array(data.labels))
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.rate)
    steps = recipe.epochs * -(-len(data) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=steps)
    for epoch in progress(range(recipe.epochs), f"training: {recipe.name}"):
        assert isinstance(epoch, int)
        for rows in torch.randperm(len(data), generator=generator).split(BATCH):
            x = as_inputs(images[rows])
            mirrored = torch.rand(len(rows), generator=generator) < 0.5
            x[mirrored] = x[mirrored].flip(3)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(x), labels[rows]).backward()
            optimiser.step()
            schedule.step()
    return {name: value.numpy() for name, value in network.state_dict().items()}


def learned(recipe: Recipe, data: Labelled, seed: int, folder: Path) -> Any:
    """Return the trained network; its weights are kept in a folder."""
    torch = torch_module()
    network = seeded(recipe.build, seed)
    path = folder / f"weights-{recipe.file}-{len(data)}-{seed}.npz"
    weights = kept(path, list(network.state_dict()), lambda: trained(recipe, data, seed))
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return network.eval()
