"""Tiny folders of ImageNet's layout and a tiny network, so that the whole study runs in a minute.

Images are patches of one colour with noise. A class is a colour, and the network predicts the nearest.
Renditions and corruptions change the colours, so the network errs under shift, by different amounts.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import vision_folders as folders
from epiloss.integrations.extraction.frameworks import torch_module
from protocol import MissingError, Section
from vision_imagenet import section
from vision_networks import paper_transform

CLASSES = (1, 99, 281, 340, 404, 531, 700, 999)  # of ImageNet's
RENDITIONS = {"art": 0.06, "cartoon": 0.16, "sketch": 0.3}
CORRUPTIONS = {"snow": 0.35, "fog": 0.25, "contrast": 0.15}
EACH = 60  # images of each class
TEXT = "{n} tiny images that were made on the spot: they show that the study runs, and nothing else."
_SIZE = 24


def colour(place: int) -> NDArray[np.float64]:
    """Return the colour of a class: corners of the cube, moved inwards."""
    return 0.25 + 0.5 * np.array([place & 1, place >> 1 & 1, place >> 2 & 1], float)


@dataclass(frozen=True)
class NearestColour:
    """A network of 1,000 logits that names the class of the nearest colour."""

    name: str
    sharpness: float

    def make(self) -> Any:
        """Return the module; its features are the mean colours of four quarters."""
        torch = torch_module()
        head = torch.nn.Linear(12, 1000)
        with torch.no_grad():
            head.weight.zero_()
            head.bias.fill_(-20.0)
            for place, row in enumerate(CLASSES):
                values = torch.tensor(np.repeat(colour(place) * 2 - 1, 4))
                head.weight[row] = 2 * self.sharpness * values
                head.bias[row] = -self.sharpness * values @ values
        return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), head)

    def transform(self, preprocess: str) -> Any:
        """Return the paper's transform for tiny images, from -1 to 1."""
        steps = paper_transform(_SIZE + 4, _SIZE)
        if preprocess == "paper":
            steps.transforms[-1].mean, steps.transforms[-1].std = (0.5,) * 3, (0.5,) * 3
        return steps


NETWORKS = (NearestColour("sharp", 3.0), NearestColour("soft", 1.0))


def make_folders(root: Path, seed: int, each: int = EACH) -> None:
    """Write images as ImageNet-1K, ImageNet-R and ImageNet-C are laid out."""
    from PIL import Image

    generator = np.random.default_rng(seed)
    wnids = folders.wnids()

    def write(path: Path, place: int, shift: float) -> None:
        patch = colour(place) + generator.normal(0, 0.12, 3) + shift * generator.choice([-1, 1], 3)
        noisy = patch + generator.normal(0, 0.15, (_SIZE, _SIZE, 3))
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * np.clip(noisy, 0, 1)).astype(np.uint8)).save(path, quality=90)

    number = 0
    for place, row in enumerate(CLASSES):
        for k in range(each):
            number += 1
            file = Path(wnids[row]) / f"ILSVRC2012_val_{number:08d}.JPEG"
            write(root / "imagenet" / file, place, 0)
            for name, shift in CORRUPTIONS.items():
                write(root / "imagenet-c" / name / "5" / file, place, shift)
            if place % 2:
                name = list(RENDITIONS)[k % len(RENDITIONS)]
                write(root / "imagenet-r" / wnids[row] / f"{name}_{k}.jpg", place, RENDITIONS[name])
    (root / "made").touch()


def sections(given: Namespace) -> Iterator[Section]:
    """Yield the sections of the three data sets."""
    root = given.cache / f"tiny-imagenet-folders-{given.seed}-{EACH}"
    try:
        if not (root / "made").exists():
            make_folders(root, given.seed)
    except ImportError:
        raise MissingError("images need Pillow: pip install 'epiloss[images]'") from None
    for images in (
        folders.imagenet(root / "imagenet"),
        folders.imagenet_r(root / "imagenet-r"),
        folders.imagenet_c(root / "imagenet-c", "merged", seed=given.seed),
    ):
        made = section(
            replace(images, name=f"tiny {images.name}"),
            NETWORKS,
            cache=given.cache,
            output=given.output,
            pictures=given.images,
            seed=given.seed,
        )
        yield replace(made, text=TEXT.format(n=len(images)))
