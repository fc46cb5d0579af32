"""torch, and networks by name from timm, torchvision and Hugging Face, imported only on demand."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from pathlib import Path
from typing import Any

from epiloss.errors import MissingExtraError, OptionError

_operators: list[Any] = []  # keeps libraries alive: their operators vanish with them


def torch_module() -> Any:
    """Return torch, or raise an error that says how to install it."""
    return package("torch", "pip install 'epiloss[torch]'")


def import_torchvision() -> Any:
    """Return torchvision, even if its compiled operators do not match torch.

    A torchvision built for CUDA cannot load its operators with a torch for the CPU, and its import fails
    because ``torchvision::nms`` is missing. Models, weights and transforms do not need this operator, so
    an operator without a body is defined in its place.
    """
    torch = torch_module()
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "this needs torchvision, which is not installed. Run: pip install torchvision"
        ) from None
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _operators.append(library)
    return importlib.import_module("torchvision")


def resolve_model(model: Any, pretrained: bool | str) -> Any:
    """Return the given module, or the one with a name such as ``timm:resnet18``."""
    torch = torch_module()
    if isinstance(model, torch.nn.Module):
        return model
    makers = {"timm": _from_timm, "torchvision": _from_torchvision, "hf": _from_hugging_face}
    kind, colon, name = model.partition(":") if isinstance(model, str) else ("", "", "")
    if not colon or kind not in makers or not name:
        raise OptionError(
            f"model must be a torch.nn.Module or a name such as 'timm:resnet18', 'torchvision:resnet50' "
            f"or 'hf:folder', got {model!r}. Load the model yourself if it is none of these."
        )
    made = makers[kind](name, pretrained)
    if pretrained is False and kind != "hf":
        warnings.warn(
            f"{model} has random weights. Pass pretrained=True to download trained weights.",
            UserWarning,
            stacklevel=3,
        )
    return made


def default_device() -> str:
    """Return the fastest available device."""
    torch = torch_module()
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _from_timm(name: str, pretrained: bool | str) -> Any:
    timm = package("timm", "pip install timm")
    if isinstance(pretrained, str):
        name, pretrained = f"{name}.{pretrained}", True  # names of timm models end with their weights
    if not timm.is_model(name.partition(".")[0]):
        raise OptionError(f"timm has no model {name!r}. See timm.list_models().")
    return timm.create_model(name, pretrained=pretrained)


def _from_torchvision(name: str, pretrained: bool | str) -> Any:
    import_torchvision()
    models = importlib.import_module("torchvision.models")
    if name not in models.list_models():
        raise OptionError(f"torchvision has no model {name!r}. See torchvision.models.list_models().")
    known = models.get_model_weights(name)
    if isinstance(pretrained, str) and pretrained not in known.__members__:
        raise OptionError(
            f"pretrained must be one of the weights of {name}, {', '.join(known.__members__)}, got "
            f"{pretrained!r}."
        )
    weights = known.DEFAULT if pretrained is True else known[pretrained] if pretrained else None
    # without init_weights, these two warn about the initialisation of auxiliary heads
    extra = {} if weights or name not in ("googlenet", "inception_v3") else {"init_weights": True}
    return models.get_model(name, weights=weights, **extra)


def _from_hugging_face(name: str, pretrained: bool | str) -> Any:
    transformers = package("transformers", "pip install transformers")
    if not pretrained and not Path(name).is_dir():
        raise OptionError(
            f"hf:{name} must be a folder, because models are downloaded only on request. Pass "
            "pretrained=True, or the folder of a saved model."
        )
    options: dict[str, Any] = {"local_files_only": not pretrained}
    if isinstance(pretrained, str):
        options["revision"] = pretrained
    config = transformers.AutoConfig.from_pretrained(name, **options)
    makers = {
        "ForImageClassification": transformers.AutoModelForImageClassification,
        "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
    }
    for architecture in config.architectures or []:
        for ending, maker in makers.items():
            if architecture.endswith(ending):
                return maker.from_pretrained(name, **options)
    raise OptionError(
        f"hf:{name} must be a classifier of images or sequences, got {config.architectures}. "
        "Load it yourself and pass the module."
    )


def package(name: str, command: str) -> Any:
    """Return a package, or raise an error that says how to install it."""
    if name in ("timm", "transformers") and importlib.util.find_spec("torchvision") is not None:
        import_torchvision()  # both import torchvision, but do not handle missing operators
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise MissingExtraError(f"this needs {name}, which is not installed. Run: {command}") from None
