"""Displays of results, which keep the arrays they draw."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epiloss.presentation.plot.comparison import ComparisonDisplay as ComparisonDisplay
    from epiloss.presentation.plot.curve import CurveDisplay as CurveDisplay
    from epiloss.presentation.plot.decision import DecisionCurveDisplay as DecisionCurveDisplay
    from epiloss.presentation.plot.gaps import GapsDisplay as GapsDisplay
    from epiloss.presentation.plot.grouping import GroupingDisplay as GroupingDisplay
    from epiloss.presentation.plot.groups import HeterogeneityDisplay as HeterogeneityDisplay
    from epiloss.presentation.plot.ledger import LedgerDisplay as LedgerDisplay
    from epiloss.presentation.plot.simulation import SimulationDisplay as SimulationDisplay
    from epiloss.presentation.plot.tracking import TrackingDisplay as TrackingDisplay

_HOMES = {
    "ComparisonDisplay": "comparison",
    "CurveDisplay": "curve",
    "DecisionCurveDisplay": "decision",
    "GapsDisplay": "gaps",
    "GroupingDisplay": "grouping",
    "HeterogeneityDisplay": "groups",
    "LedgerDisplay": "ledger",
    "SimulationDisplay": "simulation",
    "TrackingDisplay": "tracking",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"epiloss.presentation.plot.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'epiloss.presentation.plot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
