"""ImageNet-1K, ImageNet-R and ImageNet-C as they are distributed: folders of images by WordNet id."""

from __future__ import annotations

import hashlib
import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions import drawn
from epiloss.errors import MissingExtraError
from epiloss.integrations.extraction.frameworks import package, torch_module
from protocol import MissingError

ENDINGS = {".jpeg", ".jpg", ".png"}
N_CLASSES = 1000
# those of ImageNet-C, with the four extra ones
CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur"),
    *("snow", "frost", "fog", "brightness", "spatter", "saturate"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
)
WHERE = """the folders of ImageNet are not here. Get them from their makers and name them:
  --imagenet DIR    ImageNet-1K validation: DIR/n01440764/ILSVRC2012_val_00000293.JPEG, 50 of each class
  --imagenet-r DIR  ImageNet-R: DIR/n01443537/art_0.jpg, 200 classes
  --imagenet-c DIR  ImageNet-C: DIR/snow/5/n01440764/ILSVRC2012_val_00000293.JPEG"""


@dataclass(frozen=True)
class Images:
    """The images of a data set: files, classes, and the group (rendition, corruption) of each.

    ``labels`` are places in ``classes``, which are columns of ImageNet's 1,000 logits: all of them, or
    those that the data set has.
    """

    name: str
    root: Path
    paths: list[Path]
    labels: NDArray[np.int64]
    classes: tuple[int, ...] = tuple(range(N_CLASSES))
    groups: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def ids(self) -> list[str]:
        """The files, relative to the folder of the data set."""
        return [path.relative_to(self.root).as_posix() for path in self.paths]

    @property
    def digest(self) -> str:
        """A key that identifies these images and classes."""
        return hashlib.sha256(repr((self.ids, self.classes)).encode()).hexdigest()[:8]


def wnids() -> list[str]:
    """Return the WordNet ids of the 1,000 classes, in the order of the logits, from timm's copy."""
    try:
        package("timm", "pip install timm")
    except MissingExtraError as error:
        raise MissingError(f"the list of ImageNet's classes is timm's: {error}") from None
    names = importlib.import_module("timm.data").ImageNetInfo().label_names()
    assert len(names) == N_CLASSES
    assert list(names) == sorted(names)  # so a class is the place of its id in sorted order
    return list(names)


def imagenet(folder: Path) -> Images:
    """Return the validation images of ImageNet-1K."""
    root = folder / "val" if (folder / "val").is_dir() else folder
    paths, labels = _by_class(root, "ImageNet-1K")
    return Images("ImageNet-1K", root, paths, labels)


def imagenet_r(folder: Path, *, mask: bool = False) -> Images:
    """Return ImageNet-R with its renditions; ``mask`` keeps the logits of its classes alone.

    The paper takes the softmax over all 1,000 classes. With the mask, probabilities are of the classes
    that the data set has, as its makers evaluate.
    """
    paths, labels = _by_class(folder, "ImageNet-R")
    renditions = np.array([path.name.rpartition("_")[0] for path in paths], object)
    odd = [path for path, name in zip(paths, renditions, strict=True) if not name]
    if odd:
        raise MissingError(
            f"ImageNet-R has files such as art_0.jpg, which begin with their rendition, got {odd[0]}."
        )
    if not mask:
        return Images("ImageNet-R", folder, paths, labels, groups=renditions)
    classes, places = np.unique(labels, return_inverse=True)
    name = "ImageNet-R, its own classes"  # which the paper's values are not of
    return Images(name, folder, paths, places, tuple(classes.tolist()), renditions)


def imagenet_c(folder: Path, corruption: str, *, severity: int = 5, seed: int = 0) -> Images:
    """Return one corruption of ImageNet-C, or ``merged``: one at random for each image.

    Merged as in the paper's appendix: every image once, with a corruption that is drawn without
    regard to the image, each equally often.
    """
    if corruption != "merged":
        root = _corruption(folder, corruption, severity)
        if root is None:
            raise MissingError(f"there is no {corruption}/{severity} in {folder}.")
        paths, labels = _by_class(root, f"ImageNet-C, {corruption}")
        return Images(f"ImageNet-C, {corruption} {severity}", root, paths, labels)
    roots = {name: _corruption(folder, name, severity) for name in CORRUPTIONS}
    here = {name: root for name, root in roots.items() if root is not None}
    if not here:
        raise MissingError(f"there is no corruption of severity {severity} in {folder}, such as snow/5.")
    first = next(iter(here.values()))
    paths, labels = _by_class(first, "ImageNet-C")
    names = drawn(len(paths), list(here), seed)
    moved = [here[name] / path.relative_to(first) for name, path in zip(names, paths, strict=True)]
    lost = next((path for path in moved if not path.is_file()), None)
    if lost is not None:
        raise MissingError(f"every corruption must have the same images, and {lost} is missing.")
    return Images(f"ImageNet-C, merged {severity}", folder, moved, labels, groups=names)


def _corruption(folder: Path, name: str, severity: int) -> Path | None:
    """Return the folder of a corruption, which may be inside that of its archive (noise, blur, ...)."""
    places = [folder / name / str(severity), *sorted(folder.glob(f"*/{name}/{severity}"))]
    return next((place for place in places if place.is_dir()), None)


def _by_class(root: Path, name: str) -> tuple[list[Path], NDArray[np.int64]]:
    """Return the images below a folder of classes, sorted, and the class of each."""
    place = {wnid: k for k, wnid in enumerate(wnids())}
    folders = sorted(path for path in root.glob("n*") if path.is_dir() and path.name in place)
    if not folders:
        raise MissingError(
            f"{name} must be folders by WordNet id, such as n01440764, and {root} has none: sort the "
            "images into them."
        )
    found = [
        (path, place[one.name])
        for one in folders
        for path in sorted(one.iterdir())
        if path.suffix.lower() in ENDINGS
    ]
    if not found:
        raise MissingError(f"{name} has no images below {root}.")
    paths, labels = zip(*found, strict=True)
    return list(paths), np.array(labels)


@dataclass(frozen=True)
class MaskedSoftmax:
    """The softmax over some of the logits."""

    classes: tuple[int, ...]

    def __call__(self, logits: Any) -> Any:
        """Return probabilities (n, len(classes))."""
        return torch_module().softmax(logits[:, list(self.classes)].double(), dim=1)


@dataclass(frozen=True)
class Loader:
    """Batches of images in order, read on demand, with their labels and files."""

    images: Images
    transform: Any
    batch: int = 32
    workers: int = 0
    _loader: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        torch = torch_module()
        loader = torch.utils.data.DataLoader(
            _Files(self.images.paths, self.images.labels, self.images.ids, self.transform),
            batch_size=self.batch,
            num_workers=self.workers,
        )
        object.__setattr__(self, "_loader", loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader)


@dataclass(frozen=True)
class _Files:
    """Files as a torch data set, which needs only a length and items."""

    paths: Sequence[Path]
    labels: NDArray[np.int64]
    ids: Sequence[str]
    transform: Any

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> tuple[Any, int, str]:
        from PIL import Image

        with Image.open(self.paths[row]) as opened:
            pixels = opened.convert("RGB")
        return self.transform(pixels), int(self.labels[row]), self.ids[row]


def summary(images: Images) -> str:
    """Return a one-line description of the images."""
    text = f"{images.name}: {len(images):,} images of {len(np.unique(images.labels)):,} classes"
    if images.groups is None:
        return text
    counts = Counter(images.groups.tolist())
    return f"{text}, {', '.join(f'{name} {n:,}' for name, n in counts.most_common())}"
