"""Vision that runs without ImageNet: a real network on CIFAR-10, and a small one on Fashion-MNIST.

Both are measured on clean images and on corrupted ones (`corruptions.py`: one of fifteen at random for
each image). EfficientNet-Lite0, trained on ImageNet-1K, judges CIFAR-10 in two ways: without training,
by the softmax over the ImageNet classes that belong to a class of CIFAR-10, summed; and by a logistic
regression on its features.
"""

from __future__ import annotations

import importlib
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corruptions
import epiloss
from epiloss.errors import MissingExtraError
from epiloss.integrations.extraction.frameworks import package, torch_module
from protocol import Line, MissingError, Section, progress
from study_claims import direction, kept_by_recalibration
from study_sources import kept
from vision_data import Labelled, cifar10, efficientnet_lite0, fashion_mnist
from vision_measures import Findings, Predictions, extracted, studied

PIXELS = 96  # of CIFAR-10's images for a network that was trained on 224
SEVERITY = 3
HEAD_PENALTY = 0.01  # C of the logistic regression on standardised features, not tuned

# names of ImageNet's classes, as first in their descriptions; a pair is a range of neighbours
CIFAR_CLASSES: Mapping[str, Sequence[str | tuple[str, str]]] = {
    "airplane": ["airliner", "warplane"],
    "automobile": [
        *("ambulance", "beach wagon", "cab", "convertible", "jeep", "limousine", "minivan"),
        *("Model T", "racer", "sports car"),
    ],
    "bird": [("cock", "great grey owl"), ("black grouse", "black swan"), ("white stork", "albatross")],
    "cat": [("tabby", "Egyptian cat")],
    "deer": [("hartebeest", "gazelle")],  # ImageNet-1K has no deer: these antelopes are the nearest
    "dog": [("Chihuahua", "Mexican hairless")],
    "frog": [("bullfrog", "tailed frog")],
    "horse": ["sorrel"],
    "ship": [
        *("aircraft carrier", "canoe", "catamaran", "container ship", "fireboat", "gondola"),
        *("lifeboat", "liner", "pirate", "schooner", "speedboat", "trimaran", "wreck", "yawl"),
    ],
    "truck": ["fire engine", "garbage truck", "moving van", "pickup", "tow truck", "trailer truck"],
}


def imagenet_groups() -> list[list[int]]:
    """Return the ImageNet classes of each class of CIFAR-10."""
    package("timm", "pip install timm")
    info = importlib.import_module("timm.data").ImageNetInfo()
    first = [text.partition(",")[0] for text in info.label_descriptions()]
    groups = []
    for names in CIFAR_CLASSES.values():
        spans = [(one, one) if isinstance(one, str) else one for one in names]
        ends = [(first.index(low), first.index(high)) for low, high in spans]
        groups.append([k for low, high in ends for k in range(low, high + 1)])
    return groups


@dataclass(frozen=True)
class ZeroShot:
    """Probabilities of coarse classes: the softmax over the fine ones that belong to any, summed."""

    groups: Sequence[Sequence[int]]

    def __call__(self, logits: Any) -> Any:
        """Return probabilities (n, coarse classes)."""
        torch = torch_module()
        parts = [torch.logsumexp(logits[:, list(group)].double(), dim=1) for group in self.groups]
        return torch.softmax(torch.stack(parts, dim=1), dim=1)


@dataclass(frozen=True)
class Resized:
    """From bytes (n, height, width, channels) to inputs of a network, larger and from -1 to 1."""

    pixels: int | None = None

    def __call__(self, images: Any) -> Any:
        """Return inputs (n, channels, height, width)."""
        inputs = images.permute(0, 3, 1, 2).float() / 127.5 - 1
        if self.pixels is None:
            return inputs
        resize = torch_module().nn.functional.interpolate
        return resize(inputs, size=(self.pixels, self.pixels), mode="bicubic", align_corners=False)


def loader(data: Labelled, batch: int = 64) -> Any:
    """Return batches of bytes and labels, in order."""
    torch = torch_module()
    # copied, because torch warns of arrays that it may not write to
    columns = [torch.from_numpy(np.array(column)) for column in (data.images, data.labels)]
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*columns), batch_size=batch)


@dataclass(frozen=True)
class Shifted:
    """Clean images, and the same ones corrupted."""

    clean: Labelled
    seed: int

    @cached_property
    def _merged(self) -> tuple[NDArray[np.uint8], NDArray[np.object_]]:
        return corruptions.merged(self.clean.images, SEVERITY, self.seed)

    @property
    def corrupted(self) -> Labelled:
        """The images with one corruption each."""
        return Labelled(self._merged[0], self.clean.labels)

    @property
    def names(self) -> NDArray[np.object_]:
        """The corruption of each image."""
        return self._merged[1]


def cifar_predictions(cache: Path, seed: int) -> Iterator[Predictions]:
    """Yield zero-shot and linear head, on clean and on corrupted images."""
    torch_module().set_num_threads(1)
    train, test = cifar10(cache)
    shifted = Shifted(test, seed)
    network = efficientnet_lite0(cache)
    folder = cache / "vision"
    folder.mkdir(parents=True, exist_ok=True)
    scores = ZeroShot(imagenet_groups())
    data = {"train": train, "clean": test, f"corrupted-{SEVERITY}-{seed}": shifted.corrupted}
    files = [
        epiloss.extract(
            network,
            loader(part),
            folder / f"cifar10-efficientnet-lite0-{PIXELS}-{name}.parquet",
            scores=scores,
            transform=Resized(PIXELS),
        )
        for name, part in data.items()
    ]
    fitted, clean, corrupted = (extracted(path) for path in files)
    head = _head(fitted["features"], fitted["y"])
    for text, columns, part in (
        ("clean", clean, test),
        ("corrupted", corrupted, shifted.corrupted),
    ):
        groups = None if part is test else shifted.names
        X = columns["features"]
        shared: dict[str, Any] = {"display": part.images, "groups": groups}
        yield Predictions(f"zero-shot, {text}", part.labels, columns["scores"], X, **shared)
        p = head.predict_proba(X)
        yield Predictions(f"linear head, {text}", part.labels, p, X, diagram=True, **shared)


def _head(X: NDArray[Any], y: NDArray[Any]) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=HEAD_PENALTY, max_iter=200)).fit(X, y)


def small_network(seed: int) -> Any:
    """Return a convolutional network of 28 x 28 pixels and 10 classes, with 64 features."""
    torch = torch_module()
    torch.manual_seed(seed)
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def trained(data: Labelled, epochs: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return the weights of a small network that has learned from the data."""
    torch = torch_module()
    torch.set_num_threads(1)
    network, prepare = small_network(seed).train(), Resized()
    batches = torch.utils.data.DataLoader(
        loader(data).dataset,
        batch_size=128,
        shuffle=True,
        generator=torch.Generator().manual_seed(seed),
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for x, y in progress(batches, f"training, epoch {epoch + 1} of {epochs}", len(batches)):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(prepare(x)), y).backward()
            optimiser.step()
    return {name: value.numpy() for name, value in network.state_dict().items()}


def fashion_predictions(cache: Path, seed: int, quick: bool) -> Iterator[Predictions]:
    """Yield a small network on images that it has not seen, clean and corrupted."""
    n_train, n_test, epochs = (6_000, 3_000, 1) if quick else (40_000, 30_000, 4)
    first, last = fashion_mnist(cache)
    everything = Labelled(
        np.concatenate([first.images, last.images]), np.concatenate([first.labels, last.labels])
    )
    shifted = Shifted(everything[len(everything) - n_test :], seed)
    torch = torch_module()
    network = small_network(seed)
    folder = cache / "vision"
    weights = kept(
        folder / f"fashion-mnist-{n_train}-{epochs}-{seed}.npz",
        list(network.state_dict()),
        lambda: trained(everything[:n_train], epochs, seed),
    )
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    for text, part in (("clean", shifted.clean), ("corrupted", shifted.corrupted)):
        path = folder / f"fashion-mnist-{n_train}-{epochs}-{n_test}-{SEVERITY}-{seed}-{text}.parquet"
        columns = extracted(epiloss.extract(network, loader(part, 256), path, transform=Resized()))
        yield Predictions(
            f"small CNN, {text}",
            part.labels,
            columns["scores"],
            columns["features"],
            part.images[:, :, :, 0],
            None if text == "clean" else shifted.names,
            diagram=True,
        )


def sections(given: Namespace) -> Iterator[Section]:
    """Yield what there is to tell of each data set."""
    where = {"images": given.images, "output": given.output, "seed": given.seed}
    try:
        if not given.quick:
            found = studied("cifar10", "CIFAR-10", cifar_predictions(given.cache, given.seed), **where)
            title = "CIFAR-10 with EfficientNet-Lite0"
            findings = [shifted(found.lines, name) for name in ("linear head", "zero-shot")]
            text = cifar_text(found.lines)
            yield Section(title, found.lines, text, found.images, pages(found), findings)
        predictions = fashion_predictions(given.cache, given.seed, given.quick)
        found = studied("fashion-mnist", "Fashion-MNIST", predictions, **where)
        title = "Fashion-MNIST with a small network"
        finding = shifted(found.lines, "small CNN")
        yield Section(
            title, found.lines, fashion_text(found.lines), found.images, pages(found), [finding]
        )
    except MissingExtraError as error:
        raise MissingError(str(error)) from None


def pages(found: Findings) -> str:
    """Name the pages that were written."""
    names = ", ".join(f"`{page.name}`" for page in found.pages)
    return f"Pages with thumbnails of the worst regions, and the comparison: {names}." if names else ""


def _named(lines: Sequence[Line]) -> dict[str, Line]:
    return {line.name: line for line in lines}


def shifted(lines: Sequence[Line], name: str) -> str:
    """Say how the grouping loss of a trained model moves from clean to corrupted images."""
    clean, corrupted = (_named(lines)[f"{name}, {text}"] for text in ("clean", "corrupted"))
    return (
        f"From clean to corrupted images GL {direction(clean, corrupted)} ({name}: {clean.gl:z.4f} to "
        f"{corrupted.gl:z.4f})"
    )


def _moves(clean: Line, shifted: Line) -> str:
    """Say how accuracy and grouping loss move from clean to corrupted images."""
    text = (
        f"accuracy goes from {clean.accuracy:.3f} to {shifted.accuracy:.3f} and the bound on the "
        f"grouping loss {direction(clean, shifted)}, from {clean.gl:z.4f} to {shifted.gl:z.4f}"
    )
    if clean.crossfit is None or shifted.crossfit is None:
        return text
    return f"{text} (cross-fitted, {clean.crossfit:z.4f} to {shifted.crossfit:z.4f})"


def cifar_text(lines: Sequence[Line]) -> str:
    """Say what the numbers show."""
    by_name = _named(lines)
    head = _moves(by_name["linear head, clean"], by_name["linear head, corrupted"])
    shot = _moves(by_name["zero-shot, clean"], by_name["zero-shot, corrupted"])
    return (
        f"The paper finds that networks have more grouping loss out of distribution, and that "
        f"recalibration does not remove it. Here a network of ImageNet, not one of the paper's, looks "
        f"at {lines[0].n:,} test images of CIFAR-10, enlarged from 32 to {PIXELS} pixels, and at the "
        f"same images corrupted with severity {SEVERITY}. With a linear head, fitted to 10,000 training "
        f"images, {head}. Without training, {shot}; these scores are out of their distribution on clean "
        f"images already, and ImageNet has no deer. {kept_by_recalibration(lines)}. What differs from "
        f"the paper: the network, the data, the corruptions (ours, at 32 pixels), and {lines[0].n:,} "
        f"images instead of 50,000, so that with 30 learning rows a region the bound by trees sees less."
    )


def fashion_text(lines: Sequence[Line]) -> str:
    """Say what the numbers show."""
    clean, shifted = (_named(lines)[f"small CNN, {text}"] for text in ("clean", "corrupted"))
    pattern = (
        "as in the paper, there is more of it under shift"
        if direction(clean, shifted) == "rises"
        else "the paper finds more of it under shift, which these intervals do not show"
    )
    return (
        f"A small convolutional network, trained on clean images, meets {lines[0].n:,} that it has not "
        f"seen. From these to the same ones corrupted with severity {SEVERITY}, "
        f"{_moves(clean, shifted)}: {pattern}. {kept_by_recalibration(lines)}. The paper has no such "
        f"network, so only the pattern compares."
    )
