"""The paper's vision study on folders of ImageNet: every network, every data set, one table each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import epiloss
from protocol import Line, Section
from vision_folders import Images, Loader, MaskedSoftmax, summary
from vision_measures import Predictions, extracted, kept_by_recalibration, slugged, studied
from vision_networks import PUBLISHED

DIAGRAMS = ("ConvNeXt Tiny", "ViT B-16")  # those of the paper's figure; else the first network's


class AnyNetwork(Protocol):
    """What the study asks of a network."""

    @property
    def name(self) -> str:
        """The name in tables and pictures."""

    def make(self) -> Any:
        """Return the module with its weights."""

    def transform(self, preprocess: str) -> Any:
        """Return how images become inputs."""

    def reported_accuracy(self) -> float:
        """Return the accuracy on ImageNet-1K that its makers report."""


def predictions(
    images: Images, networks: Sequence[AnyNetwork], cache: Path, preprocess: str, batch: int = 32
) -> Iterator[Predictions]:
    """Yield what each network says of the images; what was extracted before is read."""
    folder = cache / "vision"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [one.name for one in networks if one.name in DIAGRAMS] or [networks[0].name]
    for network in networks:
        name = f"{slugged(images.name)}-{images.digest}-{slugged(network.name)}-{preprocess}.parquet"
        path = epiloss.extract(
            network.make(),
            Loader(images, network.transform(preprocess), batch),
            folder / name,
            scores=MaskedSoftmax(images.classes),
        )
        columns = extracted(path)
        yield Predictions(
            network.name,
            columns["y"],
            columns["scores"],
            columns["features"],
            images.paths,
            images.groups,
            network.name in drawn,
            PUBLISHED.get((images.name, network.name)),
        )


def section(
    images: Images,
    networks: Sequence[AnyNetwork],
    *,
    cache: Path,
    output: Path,
    pictures: Path,
    seed: int,
    preprocess: str = "paper",
) -> Section:
    """Measure all networks on one data set, and tell."""
    found = studied(
        slugged(images.name),
        images.name,
        predictions(images, networks, cache, preprocess),
        images=pictures,
        output=output,
        seed=seed,
    )
    names = ", ".join(f"`{page.name}`" for page in found.pages)
    extra = (
        f"{summary(images)}.\n\nPages with thumbnails of the worst regions, and the comparison: {names}."
    )
    if images.name == "ImageNet-1K":
        extra += "\n\n" + reported(found.lines, networks)
    return Section(f"Vision: {images.name}", found.lines, text(found.lines), found.images, extra)


def reported(lines: Sequence[Line], networks: Sequence[AnyNetwork]) -> str:
    """Return our accuracies beside those that the makers of the weights report."""
    known = {one.name: one.reported_accuracy() for one in networks}
    rows = [f"| {line.name} | {line.accuracy:.3f} | {known[line.name]:.3f} |" for line in lines]
    return "\n".join(["| accuracy | here | torchvision's |", "|---|---:|---:|", *rows])


def text(lines: Sequence[Line]) -> str:
    """Say what the numbers show."""
    values = sorted(line.gl.value for line in lines)
    clear = sum(line.gl.low is not None and line.gl.low > 0 for line in lines)
    return (
        f"The bound on the grouping loss of {len(lines)} networks runs from {values[0]:.4f} to "
        f"{values[-1]:.4f}, above zero by its 95% interval in {clear} of them. "
        f"{kept_by_recalibration(lines)}. We have seen the figures of the paper as bars only, so "
        f"that there is no figure of it to stand beside ours."
    )
