"""How far a classifier's probabilities are from the truth.

``audit(y_true, y_prob, X)`` splits a classifier's score into calibration loss, grouping loss and a
remainder, and says where the grouping loss comes from.
"""

from epiloss.audit import audit
from epiloss.errors import DataError, OptionError
from epiloss.regions import RegionStats
from epiloss.results import Audit, Bounds, Estimate, Table
from epiloss.scoring import Brier, Log, ScoringRule

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Bounds",
    "Brier",
    "DataError",
    "Estimate",
    "Log",
    "OptionError",
    "RegionStats",
    "ScoringRule",
    "Table",
    "audit",
]
