"""How long it takes to read texts as words: ``python benchmarks/texts.py --rows 100000``.

Texts are of 50 words each, drawn from 10,000 words as often as words of languages occur (the k-th with
a probability in proportion to 1/k). Times are of one core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import epiloss
from epiloss.input.features import Features
from epiloss.input.text_features import with_words

N_WORDS, LENGTH = 10_000, 50


def texts(n: int) -> list[str]:
    """Return texts of words in small letters."""
    g = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(letters[g.integers(0, 26, 6)]) for _ in range(N_WORDS)])
    share = 1 / np.arange(1, N_WORDS + 1)
    return [" ".join(row) for row in words[g.choice(N_WORDS, (n, LENGTH), p=share / share.sum())]]


def timed(what: str, work: Callable[[], Any]) -> None:
    """Print the seconds of the processor that some work takes."""
    start = time.process_time()
    work()
    print(f"{what}: {time.process_time() - start:.1f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000, help="how many texts (default: 100000)")
    n = parser.parse_args(arguments).rows
    g = np.random.default_rng(1)
    features = Features.read({"text": texts(n)})
    scores = g.uniform(0.1, 0.9, n)
    labels = g.random(n) < scores
    timed(f"{n:,} texts of {LENGTH} words as features", lambda: with_words(features))
    timed("the whole audit", lambda: epiloss.audit(labels, scores, {"text": texts(n)}))


if __name__ == "__main__":
    main()
