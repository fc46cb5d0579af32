"""A small network of Fashion-MNIST, on images that it has not seen, clean and corrupted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corruptions
import epiloss
from epiloss.errors import MissingExtraError
from epiloss.integrations.extraction.frameworks import torch_module
from protocol import Line, MissingError, Section
from study_claims import direction, grouping_loss, kept_by_recalibration, usual_claims
from vision_data import Labelled, fashion_mnist
from vision_measures import Predictions, extracted, studied
from vision_small import Recipe, as_inputs, learned

SEVERITY = 5
DATA = "Fashion-MNIST"


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


def small_network() -> Any:
    """Return a convolutional network of 28 x 28 pixels and 10 classes, with 64 features."""
    nn = torch_module().nn
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def fashion_predictions(cache: Path, seed: int, quick: bool) -> Iterator[Predictions]:
    """Yield a small network on images that it has not seen, clean and corrupted."""
    n_train, n_test, epochs = (4_000, 2_000, 1) if quick else (40_000, 30_000, 4)
    first, last = fashion_mnist(cache)
    everything = Labelled(
        np.concatenate([first.images, last.images]), np.concatenate([first.labels, last.labels])
    )
    shifted = Shifted(everything[len(everything) - n_test :], seed)
    folder = cache / "fashion-mnist"
    recipe = Recipe("small CNN", small_network, epochs)
    network = learned(recipe, everything[:n_train], seed, folder)
    for text, part in (("clean", shifted.clean), ("corrupted", shifted.corrupted)):
        path = folder / f"{recipe.file}-{n_train}-{n_test}-{SEVERITY}-{seed}-{text}.parquet"
        columns = extracted(epiloss.extract(network, loader(part, 256), path, transform=as_inputs))
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
    """Yield the sections on the small network."""
    where = {"images": given.images, "output": given.output, "seed": given.seed}
    try:
        predictions = fashion_predictions(given.cache, given.seed, given.quick)
        shown = studied("fashion-mnist", "Fashion-MNIST", predictions, **where)
    except MissingExtraError as error:
        raise MissingError(str(error)) from None
    lines = [_named(shown.lines)[f"small CNN, {text}"] for text in ("clean", "corrupted")]
    yield Section(
        "Fashion-MNIST with a small network",
        shown.lines,
        fashion_text(shown.lines),
        shown.images,
        shown.text,
        usual_claims(lines, DATA),
    )


def _named(lines: Sequence[Line]) -> dict[str, Line]:
    return {line.name: line for line in lines}


def _moves(clean: Line, shifted: Line) -> str:
    """Return how accuracy and grouping loss change from clean to corrupted images."""
    losses = [grouping_loss(line) for line in (clean, shifted)]
    return (
        f"accuracy goes from {clean.accuracy:.3f} to {shifted.accuracy:.3f} and the grouping loss "
        f"{direction(clean, shifted)}, from {losses[0]:z.4f} to {losses[1]:z.4f} (by trees "
        f"{clean.gl:z.4f} to {shifted.gl:z.4f})"
    )


def fashion_text(lines: Sequence[Line]) -> str:
    """Return the paragraph on the results."""
    clean, shifted = (_named(lines)[f"small CNN, {text}"] for text in ("clean", "corrupted"))
    pattern = (
        "as in the paper, it is larger under shift"
        if direction(clean, shifted) == "rises"
        else "the paper finds a larger loss under shift, which these intervals do not show"
    )
    return (
        f"A small convolutional network, trained on clean images, is applied to {lines[0].n:,} other "
        f"images. From clean images to the same ones corrupted with severity {SEVERITY}, "
        f"{_moves(clean, shifted)}: {pattern}. {kept_by_recalibration(lines)}. The paper has no such "
        f"network, so only the pattern can be compared."
    )
