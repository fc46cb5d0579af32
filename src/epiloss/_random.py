"""Random streams: one seed for everything, and an independent stream for each purpose."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from epiloss.errors import OptionError

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def seed_of(random_state: RandomState) -> int:
    """Return the integer seed from which all random streams are spawned."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise OptionError(
        "random_state must be None, a non-negative integer, or a NumPy Generator or RandomState, "
        f"got {random_state!r}."
    )


_STREAMS = (
    "splits", "curves", "trees", "crossfit", "drawn labels", "ratings", "bands", "repair", "regret",
    "twin", "segments", "track",
)  # fmt: skip


def streams(seed: int, n: int) -> list[np.random.Generator]:
    """Return ``n`` independent random streams from one seed."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(n)]


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the random stream for one purpose, independent of those for other purposes."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAMS.index(name),)))
