"""Where the features are: the input of the last linear layer, found by what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, OptionError
from epiloss.integrations.extraction.frameworks import torch_module


@dataclass(eq=False)
class Tap:
    """What the last call of one layer was given, and what it gave."""

    name: str
    module: Any
    given: Any = None
    gave: Any = None
    n_calls: int = 0
    order: int = -1  # among the calls of all taps

    @contextmanager
    def open(self, calls: Iterator[int] | None = None) -> Iterator[Tap]:
        """Listen to the layer, and leave it as it was."""

        def keep(_: Any, args: Any, kwargs: Any, gave: Any) -> None:
            self.given = args[0] if args else next(iter(kwargs.values()), None)
            self.gave = gave
            self.n_calls += 1
            if calls is not None:
                self.order = next(calls)

        handle = self.module.register_forward_hook(keep, with_kwargs=True)
        try:
            yield self
        finally:
            handle.remove()
            self.forget()

    def forget(self) -> None:
        """Let go of the batch."""
        self.given = self.gave = None

    def features(self, logits: Any) -> Any:
        """Return the features (n, d) from which the layer made these logits (n, K).

        A layer that was applied at many positions (words, pixels) gives those of the position whose
        output are the logits; where there is no such one, because outputs were pooled, their mean.
        """
        torch, n = torch_module(), len(logits)
        if not isinstance(self.given, torch.Tensor) or self.given.ndim == 0 or len(self.given) % n:
            kind = "nothing" if self.given is None else type(self.given).__name__
            raise OptionError(
                f"layer {self.name!r} must be given a tensor with one row for each of the {n} rows of a "
                f"batch, got {kind}. Name another layer."
            )
        given = _by_position(self.module, self.given, n)
        if given is None:
            return self.given.reshape(n, -1)
        places = _places(self.module, self.gave, logits)
        if given.shape[1] == 1:
            return given[:, 0]
        if places is None or len(places[0]) != given.shape[1] or not places.any(1).all():
            return given.mean(1)
        return given[torch.arange(n, device=given.device), places.int().argmax(1)]

    def makes(self, logits: Any) -> bool:
        """Tell whether the output of the layer, at some position of each row, are the logits."""
        places = _places(self.module, self.gave, logits)
        return places is not None and bool(places.any(1).all())


def named_layer(model: Any, name: str) -> Tap:
    """Return the layer of that name."""
    modules = dict(model.named_modules())
    if name not in modules or name == "":
        some = ", ".join(repr(one) for one in list(modules)[-6:] if one)
        raise OptionError(f"layer must name a part of the model, got {name!r}; its last are {some}.")
    return Tap(name, modules[name])


def find_layer(model: Any, forward: Callable[[], Any], logits: Any) -> Tap:
    """Return the last linear layer of as many outputs as there are logits, by running one batch.

    Layers whose output are the logits themselves come before those whose output is still pooled.
    """
    taps = [
        Tap(name, module) for name, module in model.named_modules() if _width(module) == logits.shape[1]
    ]
    calls = iter(range(2**62))
    with ExitStack() as stack:
        for tap in taps:
            stack.enter_context(tap.open(calls))
        forward()
        called = sorted((tap for tap in taps if tap.n_calls), key=lambda tap: tap.order)
        chosen = _last([tap for tap in called if tap.makes(logits)]) or _last(called)
    if chosen is None:
        raise DataError(
            f"no linear layer with {logits.shape[1]} outputs, as many as logits, was called in the "
            "model. Name the layer whose input are the features with layer=."
        )
    return Tap(chosen.name, chosen.module)


def _last(taps: Sequence[Tap]) -> Tap | None:
    return taps[-1] if taps else None


def _is_pointwise(module: Any) -> bool:
    nn = torch_module().nn
    is_conv = isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    return is_conv and set(module.kernel_size) == {1} and module.groups == 1


def _width(module: Any) -> int | None:
    """Return the number of outputs of a linear layer or a convolution over single pixels."""
    if isinstance(module, torch_module().nn.Linear):
        return int(module.out_features)
    return int(module.out_channels) if _is_pointwise(module) else None


def _by_position(module: Any, values: Any, n: int) -> Any:
    """Return values as (n, positions, columns), or None where columns are not known."""
    if _is_pointwise(module):
        return values.flatten(2).transpose(1, 2) if values.ndim > 2 else None
    if isinstance(module, torch_module().nn.Linear):
        return values.reshape(n, -1, values.shape[-1])
    return None


def _places(module: Any, gave: Any, logits: Any) -> Any:
    """Return at which positions (n, positions) the output are the logits."""
    torch, n = torch_module(), len(logits)
    if not isinstance(gave, torch.Tensor) or gave.numel() % n:
        return None
    outputs = _by_position(module, gave, n)
    if outputs is None or outputs.shape[-1] != logits.shape[1]:
        return None
    return torch.isclose(outputs.to(logits.dtype), logits[:, None, :]).all(-1)
