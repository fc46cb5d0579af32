"""How far a classifier's probabilities are from the truth.

``audit(y_true, y_prob, X)`` splits a classifier's score into calibration loss, grouping loss and a
remainder, and says where the grouping loss comes from.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epiloss.analysis.changes import Changes as Changes
    from epiloss.analysis.comparison import Comparison as Comparison
    from epiloss.analysis.comparison import compare as compare
    from epiloss.analysis.drift import drift as drift
    from epiloss.analysis.drift_result import Drift as Drift
    from epiloss.analysis.region_plan import RegionPlan as RegionPlan
    from epiloss.analysis.regret import Regret as Regret
    from epiloss.analysis.regret import regret as regret
    from epiloss.analysis.saved import load_result as load_result
    from epiloss.analysis.track import track as track
    from epiloss.analysis.tracking_result import Tracking as Tracking
    from epiloss.auditing.fields import Bounds as Bounds
    from epiloss.auditing.result import Audit as Audit
    from epiloss.auditing.run import audit as audit
    from epiloss.errors import DataError as DataError
    from epiloss.errors import MissingExtraError as MissingExtraError
    from epiloss.errors import OptionError as OptionError
    from epiloss.estimate import Estimate as Estimate
    from epiloss.estimation.region_stats import RegionStats as RegionStats
    from epiloss.integrations.extraction import extract as extract
    from epiloss.integrations.sklearn import loss_scorer as loss_scorer
    from epiloss.presentation.plot.grouping import GroupingDisplay as GroupingDisplay
    from epiloss.repair import RegionRecalibratedClassifier as RegionRecalibratedClassifier
    from epiloss.repair import RegionRecalibrator as RegionRecalibrator
    from epiloss.repair import load_repair as load_repair
    from epiloss.repair.evaluate import RepairResult as RepairResult
    from epiloss.scoring import Brier as Brier
    from epiloss.scoring import LogLoss as LogLoss
    from epiloss.scoring import ScoringRule as ScoringRule
    from epiloss.sources.logs.find import read_log as read_log
    from epiloss.streaming.run import audit_table as audit_table
    from epiloss.table import Table as Table

__version__ = "0.1.0"

# loaded when first used, so that `import epiloss` and `epiloss --help` answer at once
_HOMES = {
    "audit": "auditing.run",
    "audit_table": "streaming.run",
    "Audit": "auditing.result",
    "Bounds": "auditing.fields",
    "Brier": "scoring",
    "Changes": "analysis.changes",
    "Comparison": "analysis.comparison",
    "DataError": "errors",
    "Drift": "analysis.drift_result",
    "Estimate": "estimate",
    "GroupingDisplay": "presentation.plot.grouping",
    "LogLoss": "scoring",
    "MissingExtraError": "errors",
    "OptionError": "errors",
    "RegionRecalibratedClassifier": "repair",
    "RegionPlan": "analysis.region_plan",
    "RegionRecalibrator": "repair",
    "RegionStats": "estimation.region_stats",
    "Regret": "analysis.regret",
    "RepairResult": "repair.evaluate",
    "ScoringRule": "scoring",
    "Table": "table",
    "compare": "analysis.comparison",
    "drift": "analysis.drift",
    "extract": "integrations.extraction",
    "load_repair": "repair",
    "load_result": "analysis.saved",
    "loss_scorer": "integrations.sklearn",
    "read_log": "sources.logs.find",
    "regret": "analysis.regret",
    "track": "analysis.track",
    "Tracking": "analysis.tracking_result",
}
_MODULES = {
    "datasets": "datasets",
    "partition": "partition",
    "plot": "plot",
    "simulate": "simulate",
    "testing": "testing",
}

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"epiloss.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"epiloss.{_MODULES[name]}")
    raise AttributeError(f"module 'epiloss' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
