"""Pictures of results: compute first, then draw."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epiloss.plot.comparison import ComparisonDisplay as ComparisonDisplay
    from epiloss.plot.curve import CurveDisplay as CurveDisplay
    from epiloss.plot.grouping import GroupingDisplay as GroupingDisplay
    from epiloss.plot.groups import HeterogeneityDisplay as HeterogeneityDisplay
    from epiloss.plot.ledger import LedgerDisplay as LedgerDisplay
    from epiloss.plot.simulation import SimulationDisplay as SimulationDisplay

_HOMES = {
    "ComparisonDisplay": "comparison",
    "CurveDisplay": "curve",
    "GroupingDisplay": "grouping",
    "HeterogeneityDisplay": "groups",
    "LedgerDisplay": "ledger",
    "SimulationDisplay": "simulation",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"epiloss.plot.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'epiloss.plot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
