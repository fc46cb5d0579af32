"""The time to convert text to word features: ``python benchmarks/texts.py --rows 100000``.

Each text has 50 words from a vocabulary of 10,000, drawn by Zipf's law (the k-th word has a probability
proportional to 1/k). Times are those of one core.
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
    """Return texts of lower-case words."""
    g = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(letters[g.integers(0, 26, 6)]) for _ in range(N_WORDS)])
    share = 1 / np.arange(1, N_WORDS + 1)
    return [" ".join(row) for row in words[g.choice(N_WORDS, (n, LENGTH), p=share / share.sum())]]


def timed(what: str, work: Callable[[], Any]) -> None:
    """Print the CPU time of a function."""
    start = time.process_time()
    work()
    print(f"{what}: {time.process_time() - start:.1f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000, help="number of texts (default: 100000)")
    n = parser.parse_args(arguments).rows
    g = np.random.default_rng(1)
    features = Features.read({"text": texts(n)})
    scores = g.uniform(0.1, 0.9, n)
    labels = g.random(n) < scores
    timed(f"{n:,} texts of {LENGTH} words as features", lambda: with_words(features))
    timed("the whole audit", lambda: epiloss.audit(labels, scores, {"text": texts(n)}))


if __name__ == "__main__":
    main()
