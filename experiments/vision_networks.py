"""The 27 networks of the paper's vision study, as torchvision has them.

The paper uses a small version of fifteen families, and the best version of the twelve that have more
than one. The list is taken from its authors' code (github.com/aperezlebel/beyond_calibration, the files
``src/networks/imagenet.py`` and ``src/test_data.py``). There, each is created with ``pretrained=True``,
which meant the weights IMAGENET1K_V1, and all images are resized to 256 and cropped to 224 pixels.

``published`` returns the values that are shown for comparison: with the paper's crops its printed values
(``published/beyond_calibration.csv``); with the crops of the weights the accuracies that torchvision
reports (top-1 on ImageNet-1K, ``meta`` of its weights, as in pytorch.org/vision/stable/models.html).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epiloss.integrations.extraction.frameworks import import_torchvision
from published_values import PUBLISHER, VALIDATION, printed_on

WEIGHTS = "IMAGENET1K_V1"
RESIZED, CROPPED = 256, 224  # pixels, the paper's for all networks
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Network:
    """One network: its family, its name in figures, torchvision's name, and published values."""

    family: str
    name: str
    builder: str
    accuracy: float  # on ImageNet-1K, as torchvision gives it
    version: str  # small or best

    def make(self) -> Any:
        """Return the network with its weights; torchvision downloads them, once."""
        import_torchvision()
        models = importlib.import_module("torchvision.models")
        return models.get_model(self.builder, weights=WEIGHTS)

    def transform(self, preprocess: str) -> Any:
        """Return the transform of images to inputs: that of the paper, or that of the weights."""
        import_torchvision()
        if preprocess == "weights":
            models = importlib.import_module("torchvision.models")
            return models.get_model_weights(self.builder)[WEIGHTS].transforms()
        return paper_transform()


def paper_transform(resized: int = RESIZED, cropped: int = CROPPED) -> Any:
    """Return the paper's transform: resize the shorter side, crop the middle, normalise."""
    import_torchvision()
    transforms = importlib.import_module("torchvision.transforms")
    return transforms.Compose(
        [
            transforms.Resize(resized),
            transforms.CenterCrop(cropped),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )


_SMALL = (
    ("AlexNet", "AlexNet", "alexnet", 0.56522),
    ("VGG", "VGG-11", "vgg11", 0.69020),
    ("ResNet", "ResNet-18", "resnet18", 0.69758),
    ("DenseNet", "DenseNet-121", "densenet121", 0.74434),
    ("Inception", "Inception v3", "inception_v3", 0.77294),
    ("GoogLeNet", "GoogLeNet", "googlenet", 0.69778),
    ("ShuffleNet", "ShuffleNet 0.5", "shufflenet_v2_x0_5", 0.60552),
    ("MobileNet", "MobileNet v2", "mobilenet_v2", 0.71878),
    ("ResNeXt", "ResNeXt-50", "resnext50_32x4d", 0.77618),
    ("Wide ResNet", "Wide ResNet-50", "wide_resnet50_2", 0.78468),
    ("MNASNet", "MNASNet 0.5", "mnasnet0_5", 0.67734),
    ("EfficientNet", "EfficientNet-B0", "efficientnet_b0", 0.77692),
    ("RegNet", "RegNet Y-400MF", "regnet_y_400mf", 0.74046),
    ("ViT", "ViT B-16", "vit_b_16", 0.81072),
    ("ConvNeXt", "ConvNeXt Tiny", "convnext_tiny", 0.82520),
)
_BEST = (
    ("VGG", "VGG-19 BN", "vgg19_bn", 0.74218),
    ("ResNet", "ResNet-152", "resnet152", 0.78312),
    ("DenseNet", "DenseNet-161", "densenet161", 0.77138),
    ("ShuffleNet", "ShuffleNet 1.0", "shufflenet_v2_x1_0", 0.69362),
    ("MobileNet", "MobileNet v3 Large", "mobilenet_v3_large", 0.74042),
    ("ResNeXt", "ResNeXt-101", "resnext101_32x8d", 0.79312),
    ("Wide ResNet", "Wide ResNet-101", "wide_resnet101_2", 0.78848),
    ("MNASNet", "MNASNet 1.0", "mnasnet1_0", 0.73456),
    ("EfficientNet", "EfficientNet-B7", "efficientnet_b7", 0.84122),
    ("RegNet", "RegNet Y-32GF", "regnet_y_32gf", 0.80878),
    ("ViT", "ViT L-16", "vit_l_16", 0.79662),
    ("ConvNeXt", "ConvNeXt Large", "convnext_large", 0.84414),
)
NETWORKS = tuple(
    Network(*known, version)
    for version, group in (("small", _SMALL), ("best", _BEST))
    for known in group
)
TORCHVISION = "torchvision's"
_PRINTED_AS = {  # where the paper writes a name in another way
    "Inception v3": "Inception",
    "MobileNet v2": "MobileNet V2",
    "MobileNet v3 Large": "MobileNet V3L",
    "RegNet Y-400MF": "RegNet y_400mf",
    "RegNet Y-32GF": "RegNet y_32gf",
}


def published(data_set: str, name: str, preprocess: str) -> tuple[Mapping[str, float] | None, str]:
    """Return what was published of a network on a data set, by column, and by whom.

    Examples
    --------
    >>> values, publisher = published("ImageNet-R", "RegNet Y-32GF", "paper")
    >>> publisher, values["GL"]
    ("the paper's", 0.02)
    """
    if preprocess == "paper":
        row = printed_on(data_set).get(_PRINTED_AS.get(name, name))
        return None if row is None else row.by_column, PUBLISHER
    known = {one.name: one.accuracy for one in NETWORKS} if data_set == VALIDATION else {}
    return {"accuracy": known[name]} if name in known else None, TORCHVISION


def chosen(names: Sequence[str] | None) -> list[Network]:
    """Return networks by torchvision's names, or ``small``, ``best`` or ``all`` of them."""
    if not names:
        names = ["small"]
    found: dict[str, Network] = {}
    for name in names:
        group = [one for one in NETWORKS if name in ("all", one.version, one.builder, one.name)]
        if not group:
            known = ", ".join(one.builder for one in NETWORKS)
            raise ValueError(f"no network {name!r}: say small, best, all, or some of {known}")
        found |= {one.builder: one for one in group}
    return list(found.values())
