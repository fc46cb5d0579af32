"""Conversion of logits to probabilities, which are checked before they are written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import DataError, OptionError
from epiloss.integrations.extraction.frameworks import torch_module


@dataclass(frozen=True)
class ScoreMaker:
    """A function from logits to probabilities, and a string that identifies it."""

    make: Callable[[Any], Any]
    identity: str

    def __call__(
        self, logits: Any, labels: NDArray[np.int64], names: Sequence[Any]
    ) -> NDArray[np.float32]:
        """Return probabilities (n, K), or (n,) of the positive class."""
        logits = logits.detach().float().cpu()
        bad = np.flatnonzero(~np.isfinite(logits.numpy()).all(axis=1))
        if len(bad):
            raise DataError(
                f"logits must be finite, got {logits[bad[0]].tolist()[:3]} for row {names[bad[0]]!r}. "
                "Check the model and its inputs."
            )
        made = self.make(logits)
        values = np.asarray(made.detach().cpu() if hasattr(made, "detach") else made, np.float64)
        _check(values, len(labels))
        n_classes = 2 if values.ndim == 1 else values.shape[1]
        outside = np.flatnonzero((labels < 0) | (labels >= n_classes))
        if len(outside):
            raise DataError(
                f"labels must be classes 0 to {n_classes - 1} of the scores, got {labels[outside[0]]} "
                f"for row {names[outside[0]]!r}. Number the classes as the model does."
            )
        return values.astype(np.float32)


def resolve_scores(scores: str | Callable[[Any], Any]) -> ScoreMaker:
    """Return the score maker for a name or a function."""
    known: dict[str, Callable[[Any], Any]] = {"softmax": _softmax, "sigmoid": _sigmoid}
    if isinstance(scores, str) and scores in known:
        return ScoreMaker(known[scores], scores)
    if not callable(scores):
        raise OptionError(
            f"scores must be {' or '.join(map(repr, known))} or a function of logits, got {scores!r}."
        )
    return ScoreMaker(scores, _identity(scores))


def _identity(scores: Any) -> str:
    """Return a string that identifies a function by its code, without the variables of a closure."""
    code = getattr(scores, "__code__", None)
    if code is None:
        text = repr(scores)
        name = type(scores).__qualname__
        return name if " at 0x" in text else f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    plain = [repr(one) for one in code.co_consts if not hasattr(one, "co_code")]
    body = code.co_code + repr((plain, code.co_names)).encode()
    return f"{scores.__qualname__} {hashlib.sha256(body).hexdigest()[:16]}"


def _softmax(logits: Any) -> Any:
    if logits.shape[1] == 1:
        raise OptionError("softmax needs two or more logits per row, got one. Use scores='sigmoid'.")
    return torch_module().softmax(logits.double(), dim=1)


def _sigmoid(logits: Any) -> Any:
    if logits.shape[1] != 1:
        raise OptionError(
            f"sigmoid needs one logit per row, got {logits.shape[1]}. Use scores='softmax'."
        )
    return torch_module().sigmoid(logits[:, 0].double())


def _check(values: NDArray[np.float64], n: int) -> None:
    if values.ndim not in (1, 2) or len(values) != n:
        raise DataError(f"scores must return probabilities of shape ({n}, classes), got {values.shape}.")
    sums = values.sum(axis=1) if values.ndim == 2 else np.ones(n)
    wrong = ~np.isfinite(sums) | (np.abs(sums - 1) > 1e-3)
    inside = ((values >= 0) & (values <= 1 + 1e-6)).reshape(n, -1).all(axis=1)
    bad = np.flatnonzero(wrong | ~inside)
    if len(bad):
        some = np.atleast_1d(values[bad[0]])[:3].round(4).tolist()
        raise DataError(
            f"scores must be probabilities that sum to 1, got {some} with the sum {sums[bad[0]]:g} in "
            f"row {bad[0]} of a batch. Return torch.softmax(logits, 1), or a probability for one logit."
        )
