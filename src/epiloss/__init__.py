"""How far a classifier's probabilities are from the truth.

``audit(y_true, y_prob, X)`` splits a classifier's score into calibration loss, grouping loss and a
remainder, and says where the grouping loss comes from.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epiloss.auditing import audit as audit
    from epiloss.comparison import Comparison as Comparison
    from epiloss.comparison import compare as compare
    from epiloss.decisions import Regret as Regret
    from epiloss.decisions import regret as regret
    from epiloss.drifting import Drift as Drift
    from epiloss.drifting import drift as drift
    from epiloss.errors import DataError as DataError
    from epiloss.errors import MissingExtraError as MissingExtraError
    from epiloss.errors import OptionError as OptionError
    from epiloss.estimator import Auditor as Auditor
    from epiloss.extraction import extract as extract
    from epiloss.plot.grouping import GroupingDisplay as GroupingDisplay
    from epiloss.region_plan import RegionPlan as RegionPlan
    from epiloss.regions import RegionStats as RegionStats
    from epiloss.repair import RegionRecalibratedClassifier as RegionRecalibratedClassifier
    from epiloss.repair import RegionRecalibrator as RegionRecalibrator
    from epiloss.repair import load_repair as load_repair
    from epiloss.repairing import RepairResult as RepairResult
    from epiloss.results import Audit as Audit
    from epiloss.results import Bounds as Bounds
    from epiloss.results import Estimate as Estimate
    from epiloss.results import Table as Table
    from epiloss.scorers import loss_scorer as loss_scorer
    from epiloss.scoring import Brier as Brier
    from epiloss.scoring import Log as Log
    from epiloss.scoring import ScoringRule as ScoringRule

__version__ = "0.1.0"

# loaded when first used, so that `import epiloss` and `epiloss --help` answer at once
_HOMES = {
    "audit": "auditing",
    "Audit": "results",
    "Auditor": "estimator",
    "Bounds": "results",
    "Brier": "scoring",
    "Comparison": "comparison",
    "DataError": "errors",
    "Drift": "drifting",
    "Estimate": "results",
    "GroupingDisplay": "plot.grouping",
    "Log": "scoring",
    "MissingExtraError": "errors",
    "OptionError": "errors",
    "RegionRecalibratedClassifier": "repair",
    "RegionPlan": "region_plan",
    "RegionRecalibrator": "repair",
    "RegionStats": "regions",
    "Regret": "decisions",
    "RepairResult": "repairing",
    "ScoringRule": "scoring",
    "Table": "results",
    "compare": "comparison",
    "drift": "drifting",
    "extract": "extraction",
    "load_repair": "repair",
    "loss_scorer": "scorers",
    "regret": "decisions",
}
_MODULES = ("simulate", "data", "plot")

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"epiloss.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"epiloss.{name}")
    raise AttributeError(f"module 'epiloss' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
