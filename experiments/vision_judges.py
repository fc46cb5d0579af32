"""Classifiers of CIFAR-10: three networks of ImageNet in two ways, networks trained here, an ensemble.

EfficientNet-Lite0, 1 and 2 with the weights of ImageNet-1K classify without training, by the softmax
over the ImageNet classes that belong to a class of CIFAR-10, summed; and with a logistic regression on
their features, fitted to training images. Their 1,280 features are reduced to 64 principal components
of the training images, without labels.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.integrations.extraction.frameworks import package, torch_module
from protocol import progress
from study_sources import kept
from vision_data import Labelled, efficientnet_lite
from vision_small import ENSEMBLE, MEMBERS, RECIPES, Recipe, as_inputs, learned

PIXELS = 64  # of CIFAR-10's images for networks that were trained on 224 and more
HEAD_PENALTY = 0.01  # C of the logistic regression on standardised features, not tuned
HEAD_ROWS = 5_000  # training images of the logistic regression and of the principal components
N_COMPONENTS = 64
BATCH = 100

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
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Judge:
    """What gives scores and features of images: ``p`` for each of its names, and ``X``.

    ``predict`` is called only for images that the cache does not have.
    """

    names: tuple[str, ...]
    file: str  # how its files in the cache begin
    predict: Callable[[NDArray[np.uint8]], Arrays]

    def outputs(self, images: Callable[[], NDArray[np.uint8]], part: str, folder: Path) -> Arrays:
        """Return ``p_0``, ``p_1``, ... by the order of the names, and ``X``, made once."""
        columns = [f"p_{place}" for place in range(len(self.names))] + ["X"]
        return kept(folder / f"{self.file}-{part}.npz", columns, lambda: self.predict(images()))


def judges(train: Labelled, folder: Path, seed: int, quick: bool) -> Iterator[Judge]:
    """Yield the networks; training starts when the first images are classified."""
    recipes = [RECIPES[name] for name in ("linear model", ENSEMBLE)] if quick else RECIPES.values()
    for recipe in recipes:
        yield trained_here(recipe, train, folder, seed)
    yield ensemble(RECIPES[ENSEMBLE], train, folder, seed, 2 if quick else MEMBERS)
    for size in () if quick else (0, 1, 2):
        yield efficientnet(size, train[:HEAD_ROWS], folder)


def trained_here(recipe: Recipe, train: Labelled, folder: Path, seed: int) -> Judge:
    """Return a network that learns from the training images."""

    def predict(images: NDArray[np.uint8]) -> Arrays:
        logits, X = passed(learned(recipe, train, seed, folder), images, as_inputs)
        return {"p_0": softmax(logits), "X": X}

    return Judge((recipe.name,), f"{recipe.file}-{len(train)}-{seed}", predict)


def ensemble(recipe: Recipe, train: Labelled, folder: Path, seed: int, members: int) -> Judge:
    """Return an ensemble over seeds: averaged probabilities and concatenated features."""

    def predict(images: NDArray[np.uint8]) -> Arrays:
        found = [
            passed(learned(recipe, train, seed + place, folder), images, as_inputs)
            for place in range(members)
        ]
        p = np.mean([softmax(logits) for logits, _ in found], axis=0)
        return {"p_0": p, "X": np.concatenate([X for _, X in found], axis=1)}

    name = f"ensemble of {members} ({recipe.name})"
    return Judge((name,), f"ensemble-{members}-{recipe.file}-{len(train)}-{seed}", predict)


def efficientnet(size: int, train: Labelled, folder: Path) -> Judge:
    """Return EfficientNet-Lite of one size, as it is and with a linear head."""
    name, file = f"EfficientNet-Lite{size}", f"efficientnet-lite{size}-{PIXELS}-{len(train)}"

    @cache
    def network() -> Any:
        return efficientnet_lite(size, folder.parent)

    def predict(images: NDArray[np.uint8]) -> Arrays:
        columns = ("weights", "bias", "centre", "components")
        path = folder / f"{file}-head.npz"
        head = kept(path, columns, lambda: linear_head(network(), train))
        logits, X = passed(network(), images, Resized(PIXELS))
        return {
            "p_0": ZeroShot(imagenet_groups())(torch_module().from_numpy(logits)).numpy(),
            "p_1": softmax(X @ head["weights"] + head["bias"]),
            "X": (X - head["centre"]) @ head["components"],
        }

    return Judge((f"{name}, zero-shot", f"{name}, linear head"), file, predict)


def linear_head(network: Any, train: Labelled) -> Arrays:
    """Return a logistic regression on a network's features, and their leading components."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    _, X = passed(network, train.images, Resized(PIXELS))
    scale = StandardScaler().fit(X)
    head = LogisticRegression(C=HEAD_PENALTY, max_iter=200).fit(scale.transform(X), train.labels)
    weights = (head.coef_ / scale.scale_).T
    components = PCA(N_COMPONENTS, random_state=0).fit(X)
    return {
        "weights": weights,
        "bias": head.intercept_ - scale.mean_ @ weights,
        "centre": components.mean_,
        "components": components.components_.T,
    }


def passed(
    network: Any, images: NDArray[np.uint8], transform: Callable[[Any], Any]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the logits and the inputs of the last linear layer."""
    torch = torch_module()
    torch.set_num_threads(1)  # threads that wait for each other are slower on a busy machine
    last = [one for one in network.modules() if isinstance(one, torch.nn.Linear)][-1]
    logits, features = [], list[Any]()
    hook = last.register_forward_pre_hook(lambda module, inputs: features.append(inputs[0]))
    batches = np.array_split(images, -(-len(images) // BATCH))
    try:
        with torch.inference_mode():
            for batch in progress(batches, "judging images"):
                logits.append(network(transform(torch.from_numpy(np.array(batch)))))
    finally:
        hook.remove()
    return torch.cat(logits).numpy(), torch.cat(features).numpy()


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return probabilities in double precision."""
    from scipy.special import softmax as of_rows

    return np.asarray(of_rows(logits.astype(np.float64), axis=1))


@cache
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

    pixels: int

    def __call__(self, images: Any) -> Any:
        """Return inputs (n, channels, height, width)."""
        resize = torch_module().nn.functional.interpolate
        size = (self.pixels, self.pixels)
        return resize(as_inputs(images), size=size, mode="bicubic", align_corners=False)
