"""The 27 networks of the paper's vision study, as torchvision has them.

The paper takes a small version of fifteen families and the best version of the twelve that have more
than one. Which these are is taken from its authors' code (github.com/aperezlebel/beyond_calibration,
the files ``src/networks/imagenet.py`` and ``src/test_data.py``), where each is made with
``pretrained=True``, which meant the weights IMAGENET1K_V1, and images are resized to 256 and cropped to
224 pixels for all of them.

What the paper found for these networks we have seen as bars only, and the code comes without results:
``PUBLISHED``, whose figures stand beside ours in the tables, is empty. Add those of a source that prints
them, by data set and network, with the keys accuracy, CL, CL', GL, GL'.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epiloss.extraction.frameworks import import_torchvision

WEIGHTS = "IMAGENET1K_V1"
RESIZED, CROPPED = 256, 224  # pixels, the paper's for all networks
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Network:
    """One network: its family, its name in pictures, torchvision's name, and which version it is."""

    family: str
    name: str
    builder: str
    version: str  # small or best

    def make(self) -> Any:
        """Return the network with its weights; torchvision downloads them, once."""
        import_torchvision()
        models = importlib.import_module("torchvision.models")
        return models.get_model(self.builder, weights=WEIGHTS)

    def transform(self, preprocess: str) -> Any:
        """Return how images become inputs: as in the paper, or as the weights want them."""
        import_torchvision()
        if preprocess == "weights":
            models = importlib.import_module("torchvision.models")
            return models.get_model_weights(self.builder)[WEIGHTS].transforms()
        return paper_transform()

    def reported_accuracy(self) -> float:
        """Return the accuracy on ImageNet-1K that torchvision reports, with the weights' own crops."""
        import_torchvision()
        models = importlib.import_module("torchvision.models")
        metrics = models.get_model_weights(self.builder)[WEIGHTS].meta["_metrics"]
        return float(metrics["ImageNet-1K"]["acc@1"]) / 100


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
    ("AlexNet", "AlexNet", "alexnet"),
    ("VGG", "VGG-11", "vgg11"),
    ("ResNet", "ResNet-18", "resnet18"),
    ("DenseNet", "DenseNet-121", "densenet121"),
    ("Inception", "Inception v3", "inception_v3"),
    ("GoogLeNet", "GoogLeNet", "googlenet"),
    ("ShuffleNet", "ShuffleNet 0.5", "shufflenet_v2_x0_5"),
    ("MobileNet", "MobileNet v2", "mobilenet_v2"),
    ("ResNeXt", "ResNeXt-50", "resnext50_32x4d"),
    ("Wide ResNet", "Wide ResNet-50", "wide_resnet50_2"),
    ("MNASNet", "MNASNet 0.5", "mnasnet0_5"),
    ("EfficientNet", "EfficientNet-B0", "efficientnet_b0"),
    ("RegNet", "RegNet Y-400MF", "regnet_y_400mf"),
    ("ViT", "ViT B-16", "vit_b_16"),
    ("ConvNeXt", "ConvNeXt Tiny", "convnext_tiny"),
)
_BEST = (
    ("VGG", "VGG-19 BN", "vgg19_bn"),
    ("ResNet", "ResNet-152", "resnet152"),
    ("DenseNet", "DenseNet-161", "densenet161"),
    ("ShuffleNet", "ShuffleNet 1.0", "shufflenet_v2_x1_0"),
    ("MobileNet", "MobileNet v3 Large", "mobilenet_v3_large"),
    ("ResNeXt", "ResNeXt-101", "resnext101_32x8d"),
    ("Wide ResNet", "Wide ResNet-101", "wide_resnet101_2"),
    ("MNASNet", "MNASNet 1.0", "mnasnet1_0"),
    ("EfficientNet", "EfficientNet-B7", "efficientnet_b7"),
    ("RegNet", "RegNet Y-32GF", "regnet_y_32gf"),
    ("ViT", "ViT L-16", "vit_l_16"),
    ("ConvNeXt", "ConvNeXt Large", "convnext_large"),
)
NETWORKS = tuple(
    Network(*known, version)
    for version, group in (("small", _SMALL), ("best", _BEST))
    for known in group
)
PUBLISHED: Mapping[tuple[str, str], Mapping[str, float]] = {}  # by (data set, name); see above


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
