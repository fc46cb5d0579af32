"""torch, and networks by name from timm, torchvision and Hugging Face; nothing is loaded unasked."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from pathlib import Path
from typing import Any

from epiloss.errors import MissingExtraError, OptionError

_operators: list[Any] = []  # a torch library takes its operators with it when it is collected


def torch_module() -> Any:
    """Return torch, or tell what to install."""
    return package("torch", "pip install 'epiloss[torch]'")


def import_torchvision() -> Any:
    """Return torchvision, also where its compiled operators do not fit torch.

    A torchvision that was built for CUDA cannot load its operators beside a torch for the CPU, and then
    fails at import because it describes ``torchvision::nms``, which is not there. Models, weights and
    transforms do not need the operator: its name is enough, so it is given one without a body.
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
    """Return a module: the given one, or the one that a name such as ``timm:resnet18`` stands for."""
    torch = torch_module()
    if isinstance(model, torch.nn.Module):
        return model
    makers = {"timm": _from_timm, "torchvision": _from_torchvision, "hf": _from_hugging_face}
    kind, colon, name = model.partition(":") if isinstance(model, str) else ("", "", "")
    if not colon or kind not in makers or not name:
        raise OptionError(
            f"model must be a torch.nn.Module or a name such as 'timm:resnet18', 'torchvision:resnet50' "
            f"or 'hf:folder', got {model!r}."
        )
    made = makers[kind](name, pretrained)
    if pretrained is False and kind != "hf":
        warnings.warn(
            f"{model} has random weights: pass pretrained=True to download the trained ones.",
            UserWarning,
            stacklevel=3,
        )
    return made


def default_device() -> str:
    """Return the fastest device that is here."""
    torch = torch_module()
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _from_timm(name: str, pretrained: bool | str) -> Any:
    timm = package("timm", "pip install timm")
    if isinstance(pretrained, str):
        name, pretrained = f"{name}.{pretrained}", True  # timm's names end in their weights
    if not timm.is_model(name.partition(".")[0]):
        raise OptionError(f"timm has no model {name!r}. timm.list_models() names them.")
    return timm.create_model(name, pretrained=pretrained)


def _from_torchvision(name: str, pretrained: bool | str) -> Any:
    import_torchvision()
    models = importlib.import_module("torchvision.models")
    if name not in models.list_models():
        raise OptionError(
            f"torchvision has no model {name!r}. torchvision.models.list_models() names them."
        )
    known = models.get_model_weights(name)
    if isinstance(pretrained, str) and pretrained not in known.__members__:
        raise OptionError(
            f"torchvision's weights of {name} are {', '.join(known.__members__)}, got {pretrained!r}."
        )
    weights = known.DEFAULT if pretrained is True else known[pretrained] if pretrained else None
    # these two make heads for training that nobody asked for, and warn about it
    extra = {} if weights or name not in ("googlenet", "inception_v3") else {"init_weights": True}
    return models.get_model(name, weights=weights, **extra)


def _from_hugging_face(name: str, pretrained: bool | str) -> Any:
    transformers = package("transformers", "pip install transformers")
    if not pretrained and not Path(name).is_dir():
        raise OptionError(
            f"hf:{name} is not a folder, and models are downloaded only on request. Pass "
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
    """Return a package, or tell what to install."""
    if name in ("timm", "transformers") and importlib.util.find_spec("torchvision") is not None:
        import_torchvision()  # both import it too, without the care that it needs
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise MissingExtraError(f"this needs {name}, which is not installed. Run: {command}") from None
