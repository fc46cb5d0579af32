"""The batches of a loader: inputs of the model, labels and optional ids."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import DataError
from epiloss.integrations.extraction.frameworks import torch_module

LABELS = ("labels", "label", "y")
IDS = ("id", "ids", "idx")
_SAMPLED = 2**18  # numbers of each tensor that enter its digest


@dataclass(frozen=True)
class Batch:
    """The rows of one batch."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    labels: NDArray[np.int64]
    ids: list[Any] | None

    def __len__(self) -> int:
        return len(self.labels)

    def run(self, model: Any, device: Any) -> Any:
        """Return the logits (n, K) of a model."""
        args, kwargs = _moved(self.args, device), _moved(dict(self.kwargs), device)
        return _logits(model(*args, **kwargs), len(self))

    def digest(self) -> str:
        """Return a digest of all labels and ids and a sample of the inputs."""
        total = hashlib.sha256()
        for part in (self.args, sorted(self.kwargs.items()), self.labels, self.ids):
            _digest(part, total)
        return total.hexdigest()[:32]


def read_batch(raw: Any, transform: Callable[[Any], Any] | None) -> Batch:
    """Read ``(x, y)``, ``(x, y, id)`` or a mapping as in Hugging Face data sets."""
    if isinstance(raw, Mapping):
        named = dict(raw)
        labels, ids = _taken(named, LABELS), _taken(named, IDS)
        if labels is None:
            raise DataError(
                f"a batch must have labels under {', '.join(map(repr, LABELS))}, got the keys "
                f"{', '.join(map(repr, named))}. Rename the column of labels."
            )
        inputs: Any = named
    elif isinstance(raw, Sequence) and not isinstance(raw, str) and len(raw) in (2, 3):
        inputs, labels = raw[0], raw[1]
        ids = raw[2] if len(raw) == 3 else None
    else:
        what = f"{len(raw)} parts" if isinstance(raw, Sequence) else type(raw).__name__
        raise DataError(
            f"a batch must be (x, y), (x, y, id) or a mapping with labels, got {what}. Set "
            "collate_fn of the loader."
        )
    if transform is not None:
        inputs = transform(inputs)
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    if isinstance(inputs, Mapping):
        kwargs = {str(name): value for name, value in inputs.items()}
    else:
        args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    numbers = _labels(labels)
    names = None if ids is None else [_id(one) for one in ids]
    if names is not None and len(names) != len(numbers):
        raise DataError(
            f"a batch must have one id for each of its {len(numbers)} rows, got {len(names)}. Return an "
            "id with each row."
        )
    return Batch(args, kwargs, numbers, names)


def _taken(named: dict[str, Any], names: Sequence[str]) -> Any:
    found = [name for name in names if name in named]
    return named.pop(found[0]) if found else None


def _labels(labels: Any) -> NDArray[np.int64]:
    values = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
    whole = values.dtype.kind in "biu" or (values.dtype.kind == "f" and bool((values % 1 == 0).all()))
    if values.ndim != 1 or not whole:
        raise DataError(
            "labels must be one integer per row, the index of its class, got "
            f"an array of shape {values.shape} of {values.dtype}. Number the classes from 0."
        )
    return values.astype(np.int64)


def _id(value: Any) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    return int(plain) if isinstance(plain, int) else str(plain)


def _moved(value: Any, device: Any) -> Any:
    """Move tensors to the device; other values are returned unchanged."""
    if isinstance(value, tuple):
        return tuple(_moved(one, device) for one in value)
    if isinstance(value, dict):
        return {name: _moved(one, device) for name, one in value.items()}
    return value.to(device) if isinstance(value, torch_module().Tensor) else value


def _logits(output: Any, n: int) -> Any:
    """Return the logits of a model's output: its ``logits``, its first part, or the output itself."""
    torch = torch_module()
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    elif getattr(output, "logits", None) is not None:
        output = output.logits
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    if isinstance(output, torch.Tensor) and output.ndim == 1 and len(output) == n:
        output = output[:, None]
    if not isinstance(output, torch.Tensor) or output.ndim != 2 or len(output) != n:
        kind = (
            f"shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else type(output).__name__
        )
        raise DataError(
            f"the model must return logits of shape ({n}, classes) for a batch of {n} rows, got {kind}. "
            "Wrap it so that it returns them."
        )
    return output


def _digest(value: Any, total: Any) -> None:
    torch = torch_module()
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().reshape(-1)
        total.update(f"{tuple(value.shape)}{value.dtype}".encode())
        step = len(flat) // _SAMPLED + 1
        total.update(flat[::step].contiguous().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, np.ndarray):
        total.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple | list):
        total.update(f"{len(value)}(".encode())
        for one in value:
            _digest(one, total)
    else:
        text = repr(value)
        # addresses in memory differ between runs
        total.update((type(value).__name__ if " at 0x" in text else text).encode())
