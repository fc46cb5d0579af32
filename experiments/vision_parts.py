"""The images for all networks: CIFAR-10, clean, with each corruption, and with all of them mixed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import corruptions
from study_sources import kept
from vision_data import Labelled

CLEAN, MERGED, SNOW = "clean", "merged", "snow"
SEVERITY = 5
LARGE, EACH = 6_000, 1_000  # images of the three above, and of each other corruption
QUICK = 600


@dataclass(frozen=True)
class Parts:
    """Clean images, and the same ones corrupted; all start with the same image."""

    test: Labelled
    folder: Path
    seed: int
    quick: bool = False

    @property
    def large(self) -> tuple[str, ...]:
        """The parts that have many images."""
        return CLEAN, MERGED, SNOW

    @property
    def others(self) -> tuple[str, ...]:
        """The corruptions except snow."""
        if self.quick:
            return ("contrast",)
        return tuple(name for name in corruptions.CORRUPTIONS if name != SNOW)

    def size(self, part: str) -> int:
        """Return the number of images of a part."""
        if self.quick:
            return QUICK
        return LARGE if part in self.large else EACH

    @property
    def fewest(self) -> int:
        """The number of images in the smallest part."""
        return min(self.size(part) for part in (*self.large, *self.others))

    def named(self, part: str) -> str:
        """Return the key of the part for file names."""
        return f"{part}-{self.size(part)}-{SEVERITY}-{self.seed}"

    def labels(self, part: str) -> NDArray[np.int64]:
        """Return the classes of a part."""
        return self.test.labels[: self.size(part)]

    def images(self, part: str) -> NDArray[np.uint8]:
        """Return the images of a part; corrupted ones are computed once."""
        clean = self.test.images[: self.size(part)]
        if part == CLEAN:
            return clean
        path = self.folder / f"images-{self.named(part)}.npz"
        return kept(path, ("images",), partial(self._corrupted, clean, part))["images"]

    def _corrupted(self, clean: NDArray[np.uint8], part: str) -> dict[str, NDArray[np.uint8]]:
        if part == MERGED:
            return {"images": corruptions.merged(clean, SEVERITY, self.seed)[0]}
        return {"images": corruptions.every(clean, part, SEVERITY, self.seed)}

    @property
    def groups(self) -> NDArray[np.object_]:
        """The corruption of each of the images that have all of them mixed."""
        names = corruptions.named_for(self.test.images)
        drawn = corruptions.drawn(self.size(MERGED), names, self.seed)
        return np.array([name.replace("_", " ") for name in drawn], object)
