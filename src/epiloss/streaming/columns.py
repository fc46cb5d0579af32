"""Checking the column names that the user passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epiloss.errors import OptionError


@dataclass(frozen=True)
class Columns:
    """The column names that the user passes, by option."""

    label: str
    scores: tuple[str, ...]
    features: tuple[str, ...] | None
    exclude: tuple[str, ...]
    subgroups: tuple[str, ...]
    sample_weight: str | None
    clusters: str | None
    row_id: str | None
    display: tuple[str, ...]

    @classmethod
    def read(
        cls,
        *,
        label: Any,
        score: Any,
        features: Any,
        exclude: Any,
        subgroups: Any,
        sample_weight: Any,
        clusters: Any,
        row_id: Any,
        display: Any,
    ) -> Columns:
        """Check that all names are strings, before any file is opened."""
        scores = _names("score", score)
        if not scores:
            raise OptionError("score must name at least one column, got none. Pass its name.")
        return cls(
            label=_one_name("label", label),
            scores=scores,
            features=None if features is None else _names("features", features),
            exclude=_names("exclude", exclude),
            subgroups=_names("subgroups", subgroups),
            sample_weight=_optional_name("sample_weight", sample_weight),
            clusters=_optional_name("clusters", clusters),
            row_id=_optional_name("row_id", row_id),
            display=_names("display", display),
        )


def _one_name(option: str, given: Any) -> str:
    if not isinstance(given, str):
        raise OptionError(
            f"{option} must name a column, got {type(given).__name__}. For arrays use epiloss.audit."
        )
    return given


def _optional_name(option: str, given: Any) -> str | None:
    return None if given is None else _one_name(option, given)


def _names(option: str, given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else () if given is None else given
    if not isinstance(names, list | tuple):
        return (_one_name(option, given),)
    return tuple(_one_name(option, name) for name in names)
