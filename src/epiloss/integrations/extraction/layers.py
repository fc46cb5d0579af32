"""Finding the features: the input of the last linear layer, which returns the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, OptionError
from epiloss.integrations.extraction.frameworks import torch_module


@dataclass(eq=False)
class Tap:
    """A hook that records the input and the output of the last call of a layer."""

    name: str
    module: Any
    input: Any = None
    output: Any = None
    n_calls: int = 0
    order: int = -1  # among the calls of all taps

    @contextmanager
    def open(self, calls: Iterator[int] | None = None) -> Iterator[Tap]:
        """Register the hook, and remove it at the end."""

        def keep(_: Any, args: Any, kwargs: Any, output: Any) -> None:
            self.input = args[0] if args else next(iter(kwargs.values()), None)
            self.output = output
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
        """Release the recorded tensors."""
        self.input = self.output = None

    def features(self, logits: Any) -> Any:
        """Return the features (n, d) from which the layer computed these logits (n, K).

        If the layer was applied at many positions (words, pixels), the features are those of the
        position whose output equals the logits. If there is none, because outputs were pooled, they are
        the mean over positions.
        """
        torch, n = torch_module(), len(logits)
        if not isinstance(self.input, torch.Tensor) or self.input.ndim == 0 or len(self.input) % n:
            kind = "nothing" if self.input is None else type(self.input).__name__
            raise OptionError(
                f"the input of layer {self.name!r} must be a tensor with one row for each of the {n} "
                f"rows of a batch, got {kind}. Name another layer."
            )
        given = _by_position(self.module, self.input, n)
        if given is None:
            return self.input.reshape(n, -1)
        places = _places(self.module, self.output, logits)
        if given.shape[1] == 1:
            return given[:, 0]
        if places is None or len(places[0]) != given.shape[1] or not places.any(1).all():
            return given.mean(1)
        return given[torch.arange(n, device=given.device), places.int().argmax(1)]

    def returns(self, logits: Any) -> bool:
        """Tell whether the output of the layer equals the logits at some position of each row."""
        places = _places(self.module, self.output, logits)
        return places is not None and bool(places.any(1).all())


def named_layer(model: Any, name: str) -> Tap:
    """Return a hook for the layer with the given name."""
    modules = dict(model.named_modules())
    if name not in modules or name == "":
        some = ", ".join(repr(one) for one in list(modules)[-6:] if one)
        raise OptionError(
            f"layer must be a layer of the model, got {name!r}. Its last layers are {some}."
        )
    return Tap(name, modules[name])


def find_layer(model: Any, forward: Callable[[], Any], logits: Any) -> Tap:
    """Run one batch and return the last linear layer with as many outputs as there are logits.

    Layers whose output equals the logits are preferred to those whose output is pooled later.
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
        chosen = _last([tap for tap in called if tap.returns(logits)]) or _last(called)
    if chosen is None:
        raise DataError(
            f"the model must call a linear layer with {logits.shape[1]} outputs, as many as logits, "
            "and has none. Pass layer=, the layer whose input is the features."
        )
    return Tap(chosen.name, chosen.module)


def _last(taps: Sequence[Tap]) -> Tap | None:
    return taps[-1] if taps else None


def _is_pointwise(module: Any) -> bool:
    nn = torch_module().nn
    is_conv = isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    return is_conv and set(module.kernel_size) == {1} and module.groups == 1


def _width(module: Any) -> int | None:
    """Return the number of outputs of a linear layer or a 1 x 1 convolution, otherwise None."""
    if isinstance(module, torch_module().nn.Linear):
        return int(module.out_features)
    return int(module.out_channels) if _is_pointwise(module) else None


def _by_position(module: Any, values: Any, n: int) -> Any:
    """Return values as (n, positions, columns), or None for other kinds of layers."""
    if _is_pointwise(module):
        return values.flatten(2).transpose(1, 2) if values.ndim > 2 else None
    if isinstance(module, torch_module().nn.Linear):
        return values.reshape(n, -1, values.shape[-1])
    return None


def _places(module: Any, output: Any, logits: Any) -> Any:
    """Return a mask (n, positions) of the positions whose output equals the logits."""
    torch, n = torch_module(), len(logits)
    if not isinstance(output, torch.Tensor) or output.numel() % n:
        return None
    outputs = _by_position(module, output, n)
    if outputs is None or outputs.shape[-1] != logits.shape[1]:
        return None
    return torch.isclose(outputs.to(logits.dtype), logits[:, None, :]).all(-1)
