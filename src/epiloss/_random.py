"""One seed for all randomness, and an independent stream for each purpose."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from epiloss.errors import OptionError

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def seed_of(random_state: RandomState) -> int:
    """Return the one number that all randomness is drawn from."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise OptionError(
        "random_state must be None, a whole number of at least 0, or a Generator or RandomState of "
        f"numpy, got {random_state!r}."
    )


_STREAMS = (
    "splits", "curves", "trees", "crossfit", "drawn labels", "ratings", "bands", "repair", "regret",
    "twin", "segments", "track",
)  # fmt: skip


def streams(seed: int, n: int) -> list[np.random.Generator]:
    """Return ``n`` independent random streams of one seed."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(n)]


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the random stream of one purpose; streams of one seed are independent of each other."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAMS.index(name),)))
