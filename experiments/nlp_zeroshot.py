"""Zero-shot topics as a binary task: whether "This text is about <topic>." holds of a text.

Every text is paired with every topic of its group, as the paper does with the questions of Yahoo
Answers. The features are the input of the last layer of the classification head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol import progress

TEMPLATE = "This text is about {}."
BATCH = 64


@dataclass(frozen=True)
class Pairs:
    """Pairs of a text and a hypothesis, whether it holds, and the text as a cluster."""

    texts: tuple[str, ...]
    hypotheses: tuple[str, ...]
    y: NDArray[np.int64]
    clusters: NDArray[np.int64]


def paired(texts: Sequence[str], topics: Sequence[int], names: Sequence[str]) -> Pairs:
    """Pair each text with each topic; ``topics`` are places in ``names``.

    Examples
    --------
    >>> pairs = paired(["a cat", "an oak"], [0, 1], ["animals", "plants"])
    >>> pairs.hypotheses[1], pairs.y.tolist(), pairs.clusters.tolist()
    ('This text is about plants.', [1, 0, 0, 1], [0, 0, 1, 1])
    """
    hypotheses = [TEMPLATE.format(name) for name in names]
    n, k = len(texts), len(names)
    y = np.asarray(topics)[:, None] == np.arange(k)
    return Pairs(
        tuple(text for text in texts for _ in hypotheses),
        tuple(hypotheses * n),
        y.ravel().astype(np.int64),
        np.repeat(np.arange(n), k),
    )


def encoded(tokenizer: Any, pairs: Pairs, rows: NDArray[np.int64], longest: int) -> Any:
    """Return some pairs as a batch; if a pair is too long, only the text is truncated."""
    return tokenizer(
        [pairs.texts[row] for row in rows],
        [pairs.hypotheses[row] for row in rows],
        padding=True,
        truncation="only_first",
        max_length=longest,
        return_tensors="pt",
        return_token_type_ids=False,
    )


def scored(
    torch: Any,
    model: Any,
    last_layer: Any,
    tokenizer: Any,
    pairs: Pairs,
    columns: tuple[int, int],
    longest: int,
) -> dict[str, NDArray[Any]]:
    """Return the probability that each hypothesis holds, and what enters the last layer.

    ``columns`` are the outputs for "does not hold" and "holds"; others (neutral) are left out of the
    softmax.
    """
    seen: list[Any] = []
    hook = last_layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    p = np.empty(len(pairs.y), np.float32)
    X = None
    by_length = np.argsort([len(text) for text in pairs.texts], kind="stable")
    batches = np.array_split(by_length, max(1, -(-len(p) // BATCH)))
    model.eval()
    try:
        with torch.inference_mode():
            for rows in progress(batches, "scoring pairs"):
                logits = model(**encoded(tokenizer, pairs, rows, longest)).logits
                p[rows] = logits[:, list(columns)].softmax(dim=1)[:, 1].numpy()
                vectors = seen.pop().numpy()
                if X is None:
                    X = np.empty((len(p), vectors.shape[1]), np.float16)
                X[rows] = vectors
    finally:
        hook.remove()
    assert X is not None
    return {"p": p, "X": X}
