"""Options at the door: what means nothing, or has no part here, is refused before any work."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from epiloss.errors import OptionError


def check_options(
    *, split: float, repeats: int, level: float, method: str, adjust: str, n_jobs: int | None
) -> None:
    """Refuse options that mean nothing."""
    if not _is_real(split) or not 0 < split < 1:
        raise OptionError(f"split, the part of the rows that learns, must lie in (0, 1), got {split!r}.")
    if not _is_whole(repeats) or repeats < 1:
        raise OptionError(f"repeats must be a whole number of at least 1, got {repeats!r}.")
    if not _is_real(level) or not 0 < level < 1:
        raise OptionError(f"level must lie in (0, 1), got {level!r}. Use 0.95 for 95% intervals.")
    if method not in ("partition", "crossfit", "auto"):
        raise OptionError(f"method must be 'partition', 'crossfit' or 'auto', got {method!r}.")
    if adjust not in ("benjamini-hochberg", "max"):
        raise OptionError(f"adjust must be 'benjamini-hochberg' or 'max', got {adjust!r}.")
    if n_jobs is not None and (not _is_whole(n_jobs) or (n_jobs != -1 and n_jobs < 1)):
        raise OptionError(
            f"n_jobs, the number of threads, must be -1 or at least 1, got {n_jobs!r}. "
            "-1 takes all cores."
        )


def _is_whole(value: Any) -> bool:
    return _is_real(value) and float(value).is_integer()


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def check_arrays(X: Any, **unused: bool) -> None:
    """Refuse what only files and tables can follow, whose columns are named."""
    if isinstance(X, str | os.PathLike):
        raise OptionError(
            f"with labels as an array, X must be features, got the path {os.fspath(X)!r}. Name the "
            f"columns of the file instead: audit('label', 'score', {os.fspath(X)!r})."
        )
    given = [name for name, is_default in unused.items() if not is_default]
    if given:
        raise OptionError(
            f"{given[0]} is for files and tables whose columns are named, got arrays. Leave it out, or "
            "pass names: audit('label', 'score', 'file.parquet')."
        )
