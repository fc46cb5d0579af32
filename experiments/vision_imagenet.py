"""The paper's vision study on folders of ImageNet: every network, every data set, one table each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import epiloss
from protocol import Line, Section
from published_distance import agreement, distances, printed_lines
from published_pictures import beside_print
from study_claims import kept_by_recalibration
from vision_folders import Images, Loader, MaskedSoftmax, summary
from vision_measures import Predictions, extracted, slugged, studied
from vision_networks import published

DIAGRAMS = ("ConvNeXt Tiny", "ViT B-16")  # those of the paper's figure; else the first network's


class AnyNetwork(Protocol):
    """The interface of a network in the study."""

    @property
    def name(self) -> str:
        """The name in tables and figures."""

    def make(self) -> Any:
        """Return the module with its weights."""

    def transform(self, preprocess: str) -> Any:
        """Return the transform of images to inputs."""


def predictions(
    images: Images, networks: Sequence[AnyNetwork], cache: Path, preprocess: str, batch: int = 32
) -> Iterator[Predictions]:
    """Yield the predictions of each network; earlier extractions are read from their files."""
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
            *published(images.name, network.name, preprocess),
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
    """Measure all networks on one data set, and return the section."""
    found = studied(
        slugged(images.name),
        images.name,
        predictions(images, networks, cache, preprocess),
        images=pictures,
        output=output,
        seed=seed,
    )
    extra = f"{summary(images)}.\n\n{found.text}"
    known = printed_lines(found.lines)
    if known:
        path = pictures / f"{slugged(images.name)}-accuracy.png"
        found.images.insert(1, beside_print(found.lines, path, images.name))
        extra = f"{distances(known)}\n\n{extra}"
    return Section(f"Vision: {images.name}", found.lines, text(found.lines), found.images, extra)


def text(lines: Sequence[Line]) -> str:
    """Return the paragraph on the results."""
    values = sorted(line.gl.value for line in lines)
    clear = sum(line.gl.low is not None and line.gl.low > 0 for line in lines)
    known = printed_lines(lines)
    comparison = f" {agreement(known)}." if known else _accuracies(lines)
    return (
        f"The bound on the grouping loss of {len(lines)} networks runs from {values[0]:.4f} to "
        f"{values[-1]:.4f}, above zero by its 95% interval in {clear} of them. "
        f"{kept_by_recalibration(lines)}.{comparison}"
    )


def _accuracies(lines: Sequence[Line]) -> str:
    """Return how far the accuracies are from those that torchvision reports."""
    known = [(line.accuracy, line.published["accuracy"]) for line in lines if line.published]
    if not known:
        return ""
    furthest = max(abs(ours - theirs) for ours, theirs in known)
    return (
        f" Accuracies differ by at most {furthest:.3f} from those that torchvision gives of its weights "
        f"(https://pytorch.org/vision/stable/models.html). The paper crops all images alike, so its "
        f"values have no counterpart here."
    )
